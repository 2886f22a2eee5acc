"""What is reset, and by what: a reset begins in a register, and goes to no more registers than need it."""

from amaranth.hdl import Cat, ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Shape, Signal, Value
from amaranth.lib import data

__all__ = ["Resettable", "partly_reset"]


class Resettable(DomainRenamer):
    """Puts blocks into a domain that has the clock of ``sync`` and a reset of its own.

    Behind `amaranth.hdl.ResetInserter` each register would have a gate of both resets in front of it, and that gate all
    the wires behind it; here the wires have a whole cycle.

    Parameters
    ----------
    m
        Module that the blocks belong to.
    name
        Of the domain.
    reset
        A register that is 1 after a reset of ``sync``, for one cycle at least. Until that cycle has passed, the blocks
        may do anything.
    """

    def __init__(self, m: Module, name: str, reset: Value) -> None:
        super().__init__(name)
        m.domains += ClockDomain(name, local=True)
        m.d.comb += [ClockSignal(name).eq(ClockSignal()), ResetSignal(name).eq(reset)]


def partly_reset(layout: data.StructLayout, *fields: str, name: str) -> data.View:
    """Return a register of which only `fields` are reset, as the others mean nothing without them.

    Parameters
    ----------
    layout
        Of the register.
    fields
        Names of the parts that are reset; ``outer.inner`` is one field of a structure.
    name
        In front of the names of its parts.
    """

    def register(outer: data.StructLayout, path: str) -> Cat:
        parts: list[Value] = []
        for key, field in outer:
            place = f"{path}{key}"
            if any(wanted.startswith(f"{place}.") for wanted in fields):
                parts.append(register(data.Layout.cast(field.shape), f"{place}."))
            else:
                shape, label = Shape.cast(field.shape), f"{name}_{place.replace('.', '_')}"
                parts.append(Signal(shape, name=label, reset_less=place not in fields))
        return Cat(parts)

    return data.View(layout, register(layout, ""))
