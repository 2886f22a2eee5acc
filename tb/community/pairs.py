"""Records as pairs of words, for benches of what passes them on whole."""

from collections.abc import Iterable
from random import Random
from typing import Any

from amaranth.hdl import Shape

from hw.community.record_words import WordFormat

__all__ = ["Record", "random_record", "whole"]

Record = list[dict[str, Any]]


def random_record(rng: Random, sizes: WordFormat, pairs: int | None = None) -> Record:
    """Return a record of so many pairs of words; by default most are short."""
    count = pairs or rng.choice((1, 1, 2, 3, rng.randrange(1, sizes.longest + 1)))
    bits = Shape.cast(sizes.word.members["data"]).width
    both = [int(n < count - 1 or rng.getrandbits(1)) for n in range(count)]

    def word(last: int) -> dict[str, int]:
        return {"data": rng.getrandbits(bits), "end": rng.getrandbits(1), "last": last}

    return [{"words": [word(0), word(int(n == count - 1))], "both": both[n]} for n in range(count)]


def whole(pairs: Iterable[dict[str, Any]]) -> list[Record]:
    """Return the records that pairs make, of which none may be a piece."""
    found: list[Record] = [[]]
    for pair in pairs:
        found[-1].append(pair)
        if not pair["both"] or pair["words"][1]["last"]:
            found.append([])
    assert not found.pop(), "a piece of a record"
    return found
