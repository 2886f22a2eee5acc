"""Ports of a component as they stand in its Verilog."""

from __future__ import annotations

from collections.abc import Mapping
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


def clocks_and_resets(component: Any) -> list[tuple[str, str]]:
    """Return names of clock and reset of every domain of `component`; more than one have a tuple ``domains``."""
    domains = getattr(component, "domains", ("sync",))
    return [("clk", "rst") if name == "sync" else (f"{name}_clk", f"{name}_rst") for name in domains]


def boxes(modules: Mapping[str, Any]) -> str:
    """Declare modules that are generated apart in RTLIL, for Yosys to know their ports."""
    lines = []
    for name, component in modules.items():
        ports = [("clk", True, 1), ("rst", True, 1)]
        ports += [(port, inward, Shape.cast(shape).width) for port, inward, shape in flat_ports(component)]
        lines += ["attribute \\blackbox 1", f"module \\{name}"]
        lines += [
            f"  wire width {width} {'input' if inward else 'output'} {index} \\{port}"
            for index, (port, inward, width) in enumerate(ports, start=1)
        ]
        lines.append("end")
    return "\n".join([*lines, ""])
