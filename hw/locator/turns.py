"""Turns: selects one of several requests, each within as many grants as there are requesters."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from hw.lowest import only_lowest

__all__ = ["context_place", "in_turn", "number_of"]


def in_turn(m: Module, name: str, wants: Value, moves: Value) -> Signal:
    """Return the selected request, one-hot or 0: the first behind the one that was served last.

    Parameters
    ----------
    m, name
        Module of the logic; its name there.
    wants
        One bit for each requester.
    moves
        The selected one is served in this cycle.
    """
    count = len(wants)
    if count == 1:
        return wants
    # Those behind the last.
    behind, later, first, chosen = (Signal(count, name=f"{name}_{n}") for n in ("behind", "later", "first", "chosen"))
    m.d.comb += [
        later.eq(wants & behind),
        first.eq(Mux(later.any(), later, wants)),
        chosen.eq(only_lowest(first)),
    ]
    with m.If(moves & wants.any()):
        m.d.sync += behind.eq(Cat(chosen[:n].any() for n in range(count)))
    return chosen


def number_of(chosen: Value) -> Value:
    """Return the number of the bit that is set in a one-hot word; at least one bit wide."""
    count = len(chosen)
    bits = max(1, (count - 1).bit_length())
    return Cat(Cat(chosen[n] for n in range(count) if n >> bit & 1).any() for bit in range(bits))


def context_place(searches: int, context: Value, *place: Value) -> Value:
    """Return the address of a search's `place` in a memory that all searches share."""
    return Cat(*place, context[: (searches - 1).bit_length()])
