"""Questions about bits, answered in few levels of gates, and choices in few gates."""

from collections.abc import Sequence

from amaranth.hdl import Const, Mux, Value
from amaranth.utils import ceil_log2

__all__ = ["choose", "following", "several"]


def several(bits: Value) -> Value:
    """Return whether more than one of `bits` is set, in as many levels of gates as halvings."""
    some, more = list(bits), [Const(0)] * len(bits)
    while len(some) > 1:
        pairs = range(0, len(some), 2)
        more = [more[k] | more[k + 1] | (some[k] & some[k + 1]) for k in pairs]
        some = [some[k] | some[k + 1] for k in pairs]
    return more[0]


def choose(words: Sequence[Value], index: Value) -> Value:
    """Return one of several words by a tree of multiplexers, or any word for an index without one.

    Synthesis makes a comparison and a gate a word of an ``Array``: with 5 to 8 words 5 to 10 LUTs a bit, where a tree
    takes 3 to 6.

    Parameters
    ----------
    words
        At least one.
    index
        Number of the word; its upper bits do not count.
    """
    if len(words) == 1:
        return words[0]
    bit = ceil_log2(len(words)) - 1
    return Mux(index[bit], choose(words[1 << bit :], index[:bit]), choose(words[: 1 << bit], index[:bit]))


def following(number: Value, count: int) -> Value:
    """Return the number behind another one of `count`, of which 0 follows the last."""
    return Mux(number == count - 1, 0, number + 1)[: len(number)]
