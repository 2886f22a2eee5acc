"""Ways to make a good input a strange one, by a random generator: for tests of what reads it."""

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["ARRAYS", "NUMBERS", "Rng", "changed", "damaged", "renumbered"]

#: What takes the place of a number.
NUMBERS = ("-1", "0", "3", "1e400", "nan", "-inf", "99999999999999999999", "0x", "1_0", "９", "true", '"1"', "9" * 5000)
STRANGE = (
    b"\0",
    b"\xff\xfe",
    b"[" * 3000,
    b"{" * 3000,
    b"\xe2\x80\xa8",
    b"\x1b[2J",
    b"=",
    b'"',
    b"\n" * 99,
    b"-" * 999,
)
ARRAYS: tuple[Callable[[Any], Any], ...] = (
    lambda a: a.astype(object),
    lambda a: a.astype(np.float16),
    lambda a: a.astype(np.complex64),
    lambda a: a.astype(np.longdouble),
    lambda a: a.astype("<U5"),
    lambda a: a.astype("S3"),
    lambda a: a.astype(np.uint64),
    lambda a: a.astype(np.int8),
    lambda a: a.astype(bool),
    lambda a: a.astype(">f8"),
    lambda a: a.astype("datetime64[s]"),
    lambda a: a.T,
    lambda a: a[..., :0],
    lambda a: a[:1],
    lambda a: a[None],
    lambda a: a.ravel(),
    lambda a: np.asfortranarray(a),
    lambda a: -a - 1,
    lambda a: a * (1 << 40),
    lambda a: a * 1e300,
    lambda a: a * 1e-30,
    lambda a: a * np.float64(5e-324),
    lambda a: np.full(a.shape, np.nan),
    lambda a: np.full(a.shape, -np.inf),
    lambda a: np.zeros_like(a),
    lambda a: np.full(a.shape, (1 << 64) - 1, dtype=np.uint64),
    lambda a: np.zeros(a.shape, dtype=[("a", "<i4"), ("b", "<f8")]),
    lambda a: np.array(3),
    lambda a: np.array("gcn"),
)
Rng = np.random.Generator


def damaged(rng: Rng, data: bytes) -> bytes:
    """Cut, flip, repeat, or put something strange in."""
    at = int(rng.integers(len(data) + 1))
    match rng.integers(6):
        case 0:
            return data[:at]
        case 1:
            flipped = bytearray(data)
            for bit in rng.integers(8 * len(data), size=rng.integers(1, 9)) if data else ():
                flipped[bit // 8] ^= 1 << bit % 8
            return bytes(flipped)
        case 2:
            return data[:at] + data[int(rng.integers(len(data) + 1)) :]
        case 3:
            return data[:at] + rng.bytes(int(rng.integers(1, 40))) + data[at:]
        case 4:
            return data[:at] + STRANGE[rng.integers(len(STRANGE))] + data[at:]
        case _:
            return data + data[:at]


def renumbered(rng: Rng, text: str) -> str:
    """Put strange numbers in the place of some."""
    parts = text.split("=")
    for place in rng.integers(1, max(2, len(parts)), size=2):
        if place < len(parts):
            parts[place] = f" {NUMBERS[rng.integers(len(NUMBERS))]}\n" + parts[place].partition("\n")[2]
    return "=".join(parts)


def changed(rng: Rng, arrays: dict[str, Any]) -> dict[str, Any]:
    """Change, drop or rename an array or two."""
    for name in rng.choice(list(arrays), size=rng.integers(1, 3)):
        match rng.integers(6):
            case 0:
                arrays.pop(name, None)
            case 1:
                arrays[f"{name}x"] = arrays.pop(name, np.ones(2))
            case _:
                change = ARRAYS[rng.integers(len(ARRAYS))]
                with np.errstate(all="ignore"):
                    try:
                        arrays[name] = change(np.asarray(arrays.get(name, np.ones(2))))
                    except (
                        TypeError,
                        ValueError,
                        IndexError,
                        np.exceptions.ComplexWarning,
                    ):  # a change that this array does not have
                        arrays[name] = np.zeros((1, 1, 1))
    return arrays
