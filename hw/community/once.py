"""Emitting PEs and hub units once: an instance of a module that is generated apart."""

from typing import Any

from amaranth.hdl import ClockSignal, Const, Instance, Module, ResetSignal, Value
from amaranth.lib import wiring

from hw.dnp.once import Once

__all__ = ["StreamOnce"]


class StreamOnce(Once):
    """As `Once`, for components with always-ready streams: the constant side of those is no port."""

    def elaborate(self, platform: Any) -> Module:
        """Emit an instance with clock, reset and every member of the signature that is a signal."""
        m = Module()
        ports: dict[str, Any] = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        for path, member, value in self.component.signature.flatten(self.component):
            if not isinstance(Value.cast(value), Const):
                way = "i" if member.flow == wiring.In else "o"
                ports[f"{way}_{'__'.join(map(str, path))}"] = value
        m.submodules.instance = Instance(self.name, **ports)
        return m
