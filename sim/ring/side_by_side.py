"""Design under test: components that have nothing to do with each other, side by side in one simulator."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Module
from amaranth.lib import wiring

__all__ = ["SideBySide"]


class SideBySide(wiring.Component):
    """Passes all ports of its parts through; those of part ``a`` are called ``a_i`` and so on.

    Parameters
    ----------
    parts
        By name.
    """

    def __init__(self, parts: Mapping[str, wiring.Component]) -> None:
        self._parts = parts
        super().__init__(
            {
                f"{prefix}_{name}": member
                for prefix, part in parts.items()
                for name, member in part.signature.members.items()
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Pass every port through."""
        m = Module()
        for prefix, part in self._parts.items():
            m.submodules[prefix] = part
            for name, member in part.signature.members.items():
                outer, inner = getattr(self, f"{prefix}_{name}"), getattr(part, name)
                for one, other in zip(outer, inner, strict=True) if member.dimensions else [(outer, inner)]:
                    if member.is_signature:
                        wiring.connect(m, wiring.flipped(one), other)
                    else:
                        m.d.comb += other.eq(one) if member.flow == wiring.In else one.eq(other)
        return m
