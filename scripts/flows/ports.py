"""Ports of a component as they stand in its Verilog."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Shape, Value
from amaranth.lib import wiring


def flat_ports(component: Any) -> list[tuple[str, bool, Any]]:
    """Return name, whether it is an input, and shape of every port of `component` that has bits.

    Clock and reset are not among them, nor are the constant handshakes of always-valid and always-ready streams.
    """
    found = []
    for path, member, value in component.signature.flatten(component):
        if isinstance(Value.cast(value), Const) or Shape.cast(member.shape).width == 0:
            continue
        found.append(("__".join(map(str, path)), member.flow is wiring.In, member.shape))
    return found
