"""The one rounding step of the arithmetic, used at both rounding points."""

from typing import Any

import numpy as np
import numpy.typing as npt

from contracts import VALUE_BITS
from contracts.errors import InputError
from contracts.scale import EXPONENT_MAX

__all__ = ["SHIFT_MAX", "VALUE_MAX", "VALUE_MIN", "requantise"]

#: Largest shift, of 6 bits.
SHIFT_MAX = 63
#: Range of a value.
VALUE_MIN, VALUE_MAX = -(1 << (VALUE_BITS - 1)), (1 << (VALUE_BITS - 1)) - 1

_SAFE = 1 << 62
_LIMITS = {
    "value": (-(1 << 47), (1 << 47) - 1),
    "mantissa": (0, (1 << 16) - 1),
    "exponent": (0, EXPONENT_MAX),
    "shift": (0, SHIFT_MAX),
    "bias": (-(1 << 31), (1 << 31) - 1),
}


def requantise(
    value: npt.ArrayLike,
    mantissa: npt.ArrayLike,
    exponent: npt.ArrayLike,
    shift: int,
    bias: npt.ArrayLike = 0,
) -> npt.NDArray[np.int16]:
    """Scale a sum, add the bias, round to nearest with ties to even, saturate.

    The result is ``saturate16(round((value * mantissa + bias * 2^exponent) / 2^(shift + exponent)))``, exactly, for
    every input in range; the numerator has up to 66 bits and is rounded once.

    Parameters
    ----------
    value
        Signed, 48 bits.
    mantissa, exponent
        Scale: unsigned, 16 and 5 bits.
    shift
        Unsigned, 6 bits.
    bias
        Signed, 32 bits.

    Returns
    -------
    int16, of the shape to which the arguments broadcast.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    parts = {"value": value, "mantissa": mantissa, "exponent": exponent, "shift": shift, "bias": bias}
    arrays = {name: _checked(name, part) for name, part in parts.items()}
    shape = np.broadcast_shapes(*(np.shape(part) for part in parts.values()))
    peak = {name: _peak(array) for name, array in arrays.items()}
    bound = peak["value"] * peak["mantissa"] + (peak["bias"] << peak["exponent"])
    if bound < _SAFE:
        # Below 2^62 everything beyond a shift of 63 rounds to zero, as 63 itself does.
        total = np.minimum(arrays["exponent"] + arrays["shift"], SHIFT_MAX)
    else:
        arrays = {name: array.astype(object) for name, array in arrays.items()}
        total = arrays["exponent"] + arrays["shift"]
    exact = arrays["value"] * arrays["mantissa"] + (arrays["bias"] << arrays["exponent"])
    return np.asarray(np.clip(_round_half_even(exact, total), VALUE_MIN, VALUE_MAX)).astype(np.int16).reshape(shape)


def _round_half_even(value: Any, shift: Any) -> Any:
    """Value / 2^shift for int64 or object arrays."""
    quotient = value >> shift
    # Twice the remainder could overflow: compare the remainder with the distance to the next multiple, halved.
    remainder = value - (quotient << shift)
    half = (np.ones_like(shift) << np.maximum(shift - 1, 0)).astype(value.dtype)
    above = (shift > 0) & ((remainder > half) | ((remainder == half) & (quotient & 1 == 1)))
    return quotient + above.astype(np.int64)


def _checked(name: str, part: npt.ArrayLike) -> Any:
    array = np.asarray(part)
    if array.dtype.kind not in "iu":
        raise InputError(name, f"is {array.dtype}", "integers")
    low, high = _LIMITS[name]
    if array.size and (array.min() < low or array.max() > high):
        raise InputError(name, f"spans {array.min()}..{array.max()}", f"{low}..{high}")
    # At least one dimension: NumPy scalars of type object would turn into Python integers.
    return np.atleast_1d(array).astype(np.int64)


def _peak(array: Any) -> int:
    return max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0
