"""A core as it stands beside an engine, with window and background, behind the command processor of an accelerator."""

from collections.abc import Iterable
from typing import Any

from amaranth import Elaboratable, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

from hw.attributes.accelerator import AttributeAccelerator
from hw.attributes.core import AttributeCore
from hw.attributes.formats import AttributeCoreConfig

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
        members = self._core.signature.members
        #: Ports of the core that the accelerator leaves alone.
        self._beside = [name for name in ("ending", "background", "late", "window") if name in members]
        beside = {name: members[name] for name in self._beside}
        super().__init__({**self._accelerator.signature.members, **beside})

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect both."""
        m = Module()
        m.submodules.accelerator = inner = self._accelerator
        parts: list[tuple[Any, Iterable[str]]] = [(inner, inner.signature.members), (self._core, self._beside)]
        for part, names in parts:
            for name in names:
                outer, port, member = getattr(self, name), getattr(part, name), part.signature.members[name]
                if member.is_signature:
                    connect(m, port, flipped(outer))
                else:
                    m.d.comb += port.eq(outer) if member.flow is In else outer.eq(port)
        return m
