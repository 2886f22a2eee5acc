"""A core as it stands beside an engine, with window and background, behind the command processor of an accelerator."""

from amaranth import Elaboratable, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import COMPLETION
from hw.attributes.accelerator import AttributeAccelerator
from hw.attributes.attribute_access import core_window
from hw.attributes.core import AttributeCore
from hw.attributes.formats import AttributeCoreConfig
from hw.contracts import struct

__all__ = ["CoreBench"]


class _Accelerator(AttributeAccelerator):
    """An accelerator with this core."""

    def __init__(self, core: AttributeCore) -> None:
        super().__init__(core.config, 1)
        self._core = core

    def core(self) -> AttributeCore:
        return self._core


class CoreBench(wiring.Component):
    """An accelerator of one core whose other ports are ports of the design.

    Parameters
    ----------
    config : AttributeCoreConfig

    Attributes
    ----------
    ending, background, late, window
        As of `AttributeCore`.

        All others are as of `AttributeAccelerator`.
    """

    def __init__(self, config: AttributeCoreConfig) -> None:
        self._core = AttributeCore(config)
        self._accelerator = _Accelerator(self._core)
        super().__init__(
            {
                **self._accelerator.signature.members,
                "ending": In(1),
                "background": Out(1),
                "late": Out(struct(COMPLETION)),
                **core_window(config),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect both."""
        m = Module()
        m.submodules.accelerator = inner = self._accelerator
        core = self._core
        for name, member in inner.signature.members.items():
            outer, port = getattr(self, name), getattr(inner, name)
            if member.is_signature:
                connect(m, port, flipped(outer))
            else:
                m.d.comb += port.eq(outer) if member.flow is In else outer.eq(port)
        m.d.comb += [
            core.ending.eq(self.ending),
            self.background.eq(core.background),
            self.late.eq(core.late),
        ]
        if core.config.window:
            connect(m, core.window, flipped(self.window))
        return m
