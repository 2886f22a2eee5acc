"""Proof of packer and unpacker: whatever a unit sends comes out as it went in, in any pace."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Component, connect

from contracts import PACKET_HEADER, PacketKind
from hw.contracts import struct
from hw.ring.formats import WORD
from hw.ring.packer import Packer
from hw.ring.unpacker import Unpacker
from sim.harness.formal import Proof, assert_stream, assume_stream

COUNTER = 4


class PackingSpec(Component):
    """Flit number `k`, whichever that is, comes out as number `k`.

    Packets are of lines, of any length, or rows of as many flits as they have elements, with zeros behind these.

    Parameters
    ----------
    width, link_width
        As for `Packer`.
    """

    def __init__(self, width: int, link_width: int) -> None:
        self.width, self.link_width = width, link_width
        super().__init__({})

    def elaborate(self, platform: Any) -> Module:
        """Drive both freely, count flits on both sides and remember the chosen one."""
        m = Module()
        m.submodules.packer = packer = Packer(self.width, self.link_width)
        m.submodules.unpacker = unpacker = Unpacker(self.width, self.link_width)
        # The packer holds its output while it waits; so each side may stop at any time.
        connect(m, packer.o, unpacker.i)
        given, come = packer.i, unpacker.o
        m.d.comb += [
            given.valid.eq(AnySeq(1)),
            given.payload.data.eq(AnySeq(self.width)),
            given.payload.last.eq(AnySeq(1)),
            come.ready.eq(AnySeq(1)),
        ]
        assume_stream(m, given, "i")
        assert_stream(m, come, "o")
        put, take, inside = given.valid & given.ready, come.valid & come.ready, Signal()
        header = data.View(struct(PACKET_HEADER), given.payload.data[: PACKET_HEADER.bits])
        words, row, left = self.width // WORD, Signal(), Signal(range(4))
        m.d.comb += [
            # A header is a word; a row has up to three.
            Assume(inside | (given.payload.data[WORD:] == 0)),
            Assume(inside | (header.kind == PacketKind.LINES) | (header.kind == PacketKind.FEATURE)),
            Assume(inside | (header.kind == PacketKind.LINES) | (header.elements <= 12)),
            Assume(inside | (header.kind == PacketKind.LINES) | (given.payload.last == (header.elements == 0))),
            Assume(~inside | ~row | (given.payload.last == (left <= words))),
            *(
                Assume(~inside | ~row | (left > n) | (given.payload.data.word_select(n, WORD) == 0))
                for n in range(words)
            ),
        ]
        with m.If(put):
            m.d.sync += [inside.eq(~given.payload.last), left.eq(left - words)]
            with m.If(~inside):
                m.d.sync += [row.eq(header.kind == PacketKind.FEATURE), left.eq((header.elements + 3) >> 2)]
        chosen, flit = AnyConst(COUNTER), Signal.like(given.payload.as_value())
        written, read, begun = (Signal(COUNTER, name=name) for name in ("written", "read", "begun"))
        m.d.sync += [written.eq(written + put), read.eq(read + take)]
        m.d.comb += [Assume(~written.all()), Assert(~take | (read != written) | put)]
        now = put & (written == chosen)
        with m.If(now):
            m.d.sync += flit.eq(given.payload)
        with m.If(take & (read == chosen)):
            # It may come out in the cycle in which it goes in.
            m.d.comb += Assert(come.payload.as_value() == Mux(now, given.payload.as_value(), flit))
        m.d.sync += begun.eq(begun + (put & ~inside))
        m.d.comb += Cover((begun == 2) & (read == written) & (written == 2 + self.link_width // self.width))
        return m


def _proofs(width: int, link_width: int, depth: int) -> list[Proof]:
    def spec() -> PackingSpec:
        return PackingSpec(width, link_width)

    sizes = f"{width}_{link_width}"
    return [
        Proof(f"flits_come_back_{sizes}", spec, "bmc", depth),
        Proof(f"packets_come_back_{sizes}", spec, "cover", depth + 2),
    ]


PROOFS = [*_proofs(128, 128, 8), *_proofs(128, 256, 8)]
