"""Black box: an instance of a module whose Verilog is generated separately, once for all instances."""

from typing import Any

from amaranth.hdl import ClockSignal, Const, Elaboratable, Instance, Module, ResetSignal, Value
from amaranth.lib import wiring

__all__ = ["BlackBox", "black_boxes_of"]


def black_boxes_of(component: Any) -> dict[str, Any]:
    """Return the black boxes in `component`: the components to generate separately, by the name of their module."""
    return dict(getattr(component, "modules", {}))


class BlackBox(Elaboratable):
    """Stands for a component where it is used; the component itself is not elaborated.

    Parameters
    ----------
    component
        Component, or an interface of its signature, whose members are connected.
    name
        Name of the module that is generated from an equal component.
    """

    def __init__(self, component: Any, name: str) -> None:
        self.component, self.name = component, name
        # Amaranth warns of components that are never elaborated; this one is elaborated elsewhere, once.
        if isinstance(component, Elaboratable):
            component._MustUse__used = True

    def elaborate(self, platform: Any) -> Module:
        """Emit an instance with clock, reset and every member of the signature.

        The constant side of an always-ready stream is not a port.
        """
        m = Module()
        ports: dict[str, Any] = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        for path, member, value in self.component.signature.flatten(self.component):
            if not isinstance(Value.cast(value), Const):
                way = "i" if member.flow == wiring.In else "o"
                ports[f"{way}_{'__'.join(map(str, path))}"] = value
        m.submodules.instance = Instance(self.name, **ports)
        return m
