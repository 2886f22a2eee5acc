"""Questions about bits, answered in few levels of gates."""

from amaranth.hdl import Const, Value

__all__ = ["several"]


def several(bits: Value) -> Value:
    """Return whether more than one of `bits` is set, in as many levels of gates as halvings."""
    some, more = list(bits), [Const(0)] * len(bits)
    while len(some) > 1:
        pairs = range(0, len(some), 2)
        more = [more[k] | more[k + 1] | (some[k] & some[k + 1]) for k in pairs]
        some = [some[k] | some[k + 1] for k in pairs]
    return more[0]
