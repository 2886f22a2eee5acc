"""A block of the community PE beside the memory that it works on, and its settings, for benches."""

import random
from typing import Any

from amaranth.hdl import Module, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.community.formats import CommunityConfig
from hw.community.multi_read_memory import MultiReadMemory, read_signature
from sim.harness.codec import Codec

__all__ = ["Beside", "Filled", "Marked", "settings_of"]


def settings_of(config: CommunityConfig, rng: random.Random, **chosen: int) -> int:
    """Return settings as bits: those that a block uses, and any others, since they must not matter to it.

    Parameters
    ----------
    config
        Sizes.
    rng
        Source of random choices.
    chosen
        Settings by name.
    """
    codec = Codec(config.settings)
    return codec.pack({**codec.unpack(rng.getrandbits(codec.width)), **chosen})


def pass_on(m: Module, block: Any, around: Any, names: list[str]) -> None:
    """Connect members of a block with those of the component around it."""
    for name in names:
        inside, outside, member = getattr(block, name), getattr(around, name), block.signature.members[name]
        if member.is_signature:
            connect(m, inside, flipped(outside))
        elif member.flow == Out:
            m.d.comb += outside.eq(inside)
        else:
            m.d.comb += inside.eq(outside)


class Beside(wiring.Component):
    """Ports of a block but for those to its memory, which a bench fills or looks into.

    Parameters
    ----------
    block
        The block.
    read
        Its member that reads the memory, or several of them in an array.
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
        member = members.pop(read)
        self.sides = member.dimensions[0] if member.dimensions else 1
        side = member.signature.members
        self.shape, self.depth = side["data"].shape, side["address"].shape.stop
        if write:
            del members[write]
        self.passed = list(members)
        if write:
            members["look"] = In(read_signature(self.shape, self.depth))
        else:
            word = data.StructLayout({"address": range(self.depth), "data": self.shape})
            members["fill"] = In(stream.Signature(word, always_ready=True))
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        """Connect the memory, and pass everything else on; spoil a word that is read while it is written."""
        m = Module()
        m.submodules.block = block = self.block
        m.submodules.kept = kept = MultiReadMemory(self.shape, self.depth, self.sides + bool(self.write))
        inner = getattr(block, self.read)
        for n, side in enumerate([inner] if self.sides == 1 else inner):
            spoilt, word = Signal(name=f"spoilt_{n}"), kept.reads[n].data
            m.d.sync += spoilt.eq(kept.write.enable & (kept.write.address == side.address))
            m.d.comb += [
                kept.reads[n].address.eq(side.address),
                Value.cast(side.data).eq(Value.cast(word) ^ spoilt.replicate(Shape.cast(self.shape).width)),
            ]
        if self.write:
            connect(m, getattr(block, self.write), kept.write)
            connect(m, flipped(self.look), kept.reads[-1])
        else:
            fill = self.fill
            m.d.comb += [
                kept.write.enable.eq(fill.valid),
                kept.write.address.eq(fill.payload.address),
                kept.write.data.eq(fill.payload.data),
            ]
        pass_on(m, block, self, self.passed)
        return m


class Filled(wiring.Component):
    """Ports of a block that keeps what is written to a memory, which a bench writes.

    Parameters
    ----------
    block
        The block.
    write
        Its member that sees the writes.

    Attributes
    ----------
    fill : stream of ``address`` and ``data``, always ready
        Words of the memory.
    """

    def __init__(self, block: Any, write: str) -> None:
        self.block, self.write = block, write
        members = dict(block.signature.members)
        side = members.pop(write).signature.members
        self.passed = list(members)
        word = data.StructLayout({"address": side["address"].shape, "data": side["data"].shape})
        super().__init__({**members, "fill": In(stream.Signature(word, always_ready=True))})

    def elaborate(self, platform: object) -> Module:
        """Write, and pass everything else on."""
        m = Module()
        m.submodules.block = block = self.block
        write, fill = getattr(block, self.write), self.fill
        m.d.comb += [
            write.enable.eq(fill.valid),
            write.address.eq(fill.payload.address),
            write.data.eq(fill.payload.data),
        ]
        pass_on(m, block, self, self.passed)
        return m


class Marked(wiring.Component):
    """Ports of a block but for those that ask whether a vector is there, which a bench says.

    Parameters
    ----------
    block
        Has ``slot`` and ``there``.

    Attributes
    ----------
    mark : stream of ``slot`` and ``there``, always ready
        From the next cycle on the vector of this slot is there, or it is not.
    """

    def __init__(self, block: Any) -> None:
        self.block = block
        members = dict(block.signature.members)
        slot = members.pop("slot").shape
        del members["there"]
        self.passed = list(members)
        word = data.StructLayout({"slot": slot, "there": 1})
        super().__init__({**members, "mark": In(stream.Signature(word, always_ready=True))})

    def elaborate(self, platform: object) -> Module:
        """Keep a bit for each slot, and pass everything else on."""
        m = Module()
        m.submodules.block = block = self.block
        mark = self.mark.payload
        bits = Signal(1 << len(mark.slot), reset_less=True)
        with m.If(self.mark.valid):
            m.d.sync += bits.bit_select(mark.slot, 1).eq(mark.there)
        m.d.comb += block.there.eq(bits.bit_select(block.slot, 1))
        pass_on(m, block, self, self.passed)
        return m
