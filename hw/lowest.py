"""The lowest one among many bits, the others, and the next one in turn."""

from amaranth.hdl import Cat, Const, Mux, Value
from amaranth.utils import ceil_log2

__all__ = ["lowest_one", "next_one", "only_lowest", "without_lowest"]

#: Bits through which a carry goes in one step.
_GROUP = 16


def lowest_one(bits: Value) -> tuple[Value, Value]:
    """Return whether there is a one, and its lowest position, by a tree as deep as the position has bits.

    Parameters
    ----------
    bits
        A power of two of them, at least 2.
    """
    if len(bits) == 2:
        return bits.any(), ~bits[0]
    half = len(bits) // 2
    low, low_place = lowest_one(bits[:half])
    high, high_place = lowest_one(bits[half:])
    return low | high, Cat(Mux(low, low_place, high_place), ~low)


def next_one(bits: Value, last: Value) -> Value:
    """Return the position of the next one behind `last`, in turn, if there is a one.

    Parameters
    ----------
    bits
        Any number of them.
    last
        A position.
    """
    behind = Cat(last < n for n in range(len(bits)))
    first = Mux((bits & behind).any(), bits & behind, bits)
    return lowest_one(Cat(first, Const(0, (1 << max(1, ceil_log2(len(bits)))) - len(bits))))[1]


def only_lowest(bits: Value) -> Value:
    """Return the lowest one alone, by a carry, which is faster than a gate for each bit.

    Parameters
    ----------
    bits
        A few of them.
    """
    return bits & (~bits + 1)


def without_lowest(bits: Value) -> Value:
    """Return the bits without the lowest one, by carries in groups instead of one through all.

    Parameters
    ----------
    bits
        Any number of them.
    """
    groups = [bits[at : at + _GROUP] for at in range(0, len(bits), _GROUP)]
    rests = [(group & (group - 1))[: len(group)] for group in groups]
    return Cat(rests[0], *(Mux(Cat(*groups[:n]).any(), groups[n], rests[n]) for n in range(1, len(groups))))
