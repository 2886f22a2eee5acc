"""Ports of a component as they stand in its Verilog."""

from typing import Any, NamedTuple

from amaranth.hdl import Const, Shape, ShapeLike, Value
from amaranth.lib import wiring

__all__ = ["FlatPort", "flat_ports"]


class FlatPort(NamedTuple):
    """A port.

    Attributes
    ----------
    name
        In Verilog.
    inward
        Whether it is an input.
    shape, width
        Its shape, and its bits.
    """

    name: str
    inward: bool
    shape: ShapeLike
    width: int


def flat_ports(component: Any) -> list[FlatPort]:
    """Return every port of `component` that has bits.

    Clock and reset are not among them, nor are the constant handshakes of always-valid and always-ready streams.
    """
    found = []
    for path, member, value in component.signature.flatten(component):
        width = Shape.cast(member.shape).width
        if not isinstance(Value.cast(value), Const) and width:
            found.append(FlatPort("__".join(map(str, path)), member.flow is wiring.In, member.shape, width))
    return found
