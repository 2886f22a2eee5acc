"""A block that sums rows up, with a row finisher behind it, for benches that look at results."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect, flipped

from hw.community.formats import extended
from hw.community.row_finisher import RowFinisher

__all__ = ["Finished"]

_COUNTER_BITS = 32


class Finished(wiring.Component):
    """Ports of a block, with results ``o`` and biases ``bias_write`` instead of its stream ``finish``.

    Of a PE the cycles of work, and what it does in them, are counted since reset.

    Parameters
    ----------
    block
        A PE or a hub unit.
    """

    def __init__(self, block: Any) -> None:
        self.block, self.finisher = block, RowFinisher(block.config)
        members = dict(block.signature.members)
        del members["finish"]
        ends = self.finisher.signature.members
        self.counted = {"worked": "adding", "gross": "gross", "formed": "formed"} if "gross" in members else {}
        self.passed = [name for name in members if name not in self.counted]
        counters = {name: Out(_COUNTER_BITS) for name in self.counted}
        super().__init__({**members, **counters, "bias_write": ends["bias_write"], "o": ends["o"]})

    def elaborate(self, platform: object) -> Module:
        """Put the finisher behind the block."""
        m = Module()
        m.submodules.block, m.submodules.finisher = block, finisher = self.block, self.finisher
        m.d.comb += [
            finisher.i.valid.eq(block.finish.valid),
            block.finish.ready.eq(finisher.i.ready),
            *extended(finisher.i.payload, block.finish.payload),
        ]
        connect(m, flipped(self.bias_write), finisher.bias_write)
        connect(m, finisher.o, flipped(self.o))
        m.d.comb += finisher.settings.eq(self.settings)
        for name, pulse in self.counted.items():
            counter = getattr(self, name)
            m.d.sync += counter.eq(counter + getattr(block, pulse))
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
