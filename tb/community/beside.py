"""A block of the community PE beside the memory of places that it works on, for benches."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.community.places import Places, read_signature

__all__ = ["Beside"]


class Beside(wiring.Component):
    """Ports of a block but for those to its memory, which a bench fills or looks into.

    Parameters
    ----------
    block
        The block.
    read
        Its member that reads the memory.
    write
        Its member that writes the memory; without, the bench does.

    Attributes
    ----------
    fill : stream of ``address`` and ``data``, always ready
        Without `write`: words of the memory.
    look
        With `write`: another reading side.
    """

    def __init__(self, block: Any, read: str, write: str | None = None) -> None:
        self.block, self.read, self.write = block, read, write
        members = dict(block.signature.members)
        side = members.pop(read).signature.members
        self.shape, depth = side["data"].shape, 1 << side["address"].shape.stop.bit_length() - 1
        self.depth = depth
        if write:
            del members[write]
            members["look"] = In(read_signature(self.shape, depth))
        else:
            word = data.StructLayout({"address": range(depth), "data": self.shape})
            members["fill"] = In(stream.Signature(word, always_ready=True))
        self.passed = [name for name in members if name not in ("look", "fill")]
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        """Connect the memory, and pass everything else on."""
        m = Module()
        m.submodules.block = block = self.block
        m.submodules.places = places = Places(self.shape, self.depth, (False,) * (2 if self.write else 1))
        connect(m, getattr(block, self.read), places.reads[0])
        if self.write:
            connect(m, getattr(block, self.write), places.write)
            connect(m, flipped(self.look), places.reads[1])
        else:
            fill = self.fill
            m.d.comb += [
                places.write.enable.eq(fill.valid),
                places.write.address.eq(fill.payload.address),
                places.write.data.eq(fill.payload.data),
            ]
        for name in self.passed:
            inside, outside, member = getattr(block, name), getattr(self, name), block.signature.members[name]
            if member.is_signature:
                connect(m, inside, flipped(outside))
            elif member.flow == Out:
                m.d.comb += outside.eq(inside)
            else:
                m.d.comb += inside.eq(outside)
        return m
