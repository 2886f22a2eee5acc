"""A block that sums rows up, with a row finisher behind it, for benches that look at results."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect, flipped

from hw.community.row_finisher import RowFinisher

__all__ = ["Finished"]


class Finished(wiring.Component):
    """Ports of a block, with results ``o`` and biases ``bias_write`` instead of its stream ``finish``.

    Parameters
    ----------
    block
        A PE or a hub unit.
    """

    def __init__(self, block: Any) -> None:
        self.block, self.finisher = block, RowFinisher(block.config)
        members = dict(block.signature.members)
        del members["finish"]
        self.passed = list(members)
        ends = self.finisher.signature.members
        super().__init__({**members, "bias_write": ends["bias_write"], "o": ends["o"]})

    def elaborate(self, platform: object) -> Module:
        """Put the finisher behind the block."""
        m = Module()
        m.submodules.block, m.submodules.finisher = block, finisher = self.block, self.finisher
        connect(m, block.finish, finisher.i)
        connect(m, flipped(self.bias_write), finisher.bias_write)
        connect(m, finisher.o, flipped(self.o))
        m.d.comb += finisher.settings.eq(self.settings)
        for name in self.passed:
            inside, outside, member = getattr(block, name), getattr(self, name), block.signature.members[name]
            if name == "busy":
                m.d.comb += outside.eq(inside | finisher.busy)
            elif member.is_signature:
                for inner, outer in zip(*(_each(one, member) for one in (inside, outside)), strict=True):
                    connect(m, inner, flipped(outer))
            elif member.flow == Out:
                m.d.comb += outside.eq(inside)
            else:
                m.d.comb += inside.eq(outside)
        return m


def _each(port: Any, member: Any) -> list[Any]:
    """Return the ports of an array, or the port alone."""
    return list(port) if member.dimensions else [port]
