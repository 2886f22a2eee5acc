"""Clocks, resets and declarations of modules in Verilog and RTLIL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hw.stream.ports import flat_ports


def clocks_and_resets(component: Any) -> list[tuple[str, str]]:
    """Return names of clock and reset of every domain of `component`; more than one have a tuple ``domains``."""
    domains = getattr(component, "domains", ("sync",))
    return [("clk", "rst") if name == "sync" else (f"{name}_clk", f"{name}_rst") for name in domains]


def boxes(modules: Mapping[str, Any]) -> str:
    """Declare modules that are generated apart in RTLIL, for Yosys to know their ports."""
    lines = []
    for name, component in modules.items():
        ports = [("clk", True, 1), ("rst", True, 1)]
        ports += [(port.name, port.inward, port.width) for port in flat_ports(component)]
        lines += ["attribute \\blackbox 1", f"module \\{name}"]
        lines += [
            f"  wire width {width} {'input' if inward else 'output'} {index} \\{port}"
            for index, (port, inward, width) in enumerate(ports, start=1)
        ]
        lines.append("end")
    return "\n".join([*lines, ""])
