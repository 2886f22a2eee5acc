"""Proofs of the fetcher: it never asks for more beats than its FIFO takes, and always asks again once it is empty."""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from hw.memory.fetcher import Fetcher
from sim.harness.formal import Proof, assert_stream, assume_stream


class FetcherSpec(Elaboratable):
    """Every beat asked for has its place: ``free + under way + held == depth``.

    The environment brings beats in any cycle in which some are under way, and takes beats as it likes.

    Parameters
    ----------
    depth
        Depth of the fetcher; above 32 its FIFO is in block RAM.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth

    def elaborate(self, platform: Any) -> Module:
        """Drive the fetcher freely and count beats."""
        m = Module()
        m.submodules.dut = dut = Fetcher(13, 64, self.depth)
        m.d.comb += [
            dut.i.valid.eq(AnySeq(1)),
            dut.i.payload.eq(AnySeq(dut.i.payload.shape().size)),
            dut.request.ready.eq(AnySeq(1)),
            dut.beat.valid.eq(AnySeq(1)),
            dut.beat.payload.eq(AnySeq(dut.beat.payload.shape().size)),
            dut.o.ready.eq(AnySeq(1)),
        ]
        assume_stream(m, dut.i, "i")
        assert_stream(m, dut.request, "request")
        assert_stream(m, dut.o, "o")

        coming, held = Signal(range(self.depth + 1)), Signal(range(self.depth + 1))
        asked, leaves = Signal(range(17)), Signal()
        m.d.comb += [
            Assume(~dut.beat.valid | (coming != 0)),
            asked.eq(Mux(dut.request.valid & dut.request.ready, dut.request.payload.length + 1, 0)),
            leaves.eq(dut.o.valid & dut.o.ready),
        ]
        m.d.sync += [
            coming.eq(coming + asked - dut.beat.valid),
            held.eq(held + dut.beat.valid - leaves),
        ]
        m.d.comb += [
            Assert(dut.free + coming + held == self.depth),
            Assert(held == dut.level),
            Assert(asked <= dut.free),
        ]
        offered = Signal()
        m.d.sync += offered.eq(dut.i.valid & dut.i.ready)
        with m.If(offered & (dut.free == self.depth)):
            m.d.comb += Assert(dut.request.valid)
        m.d.comb += [Cover((dut.free == 0) & dut.beat.valid), Cover(leaves & (dut.free < 2))]
        return m


PROOFS = [
    Proof("every_beat_asked_for_has_its_place_16", lambda: FetcherSpec(16), "prove", 3),
    Proof("every_beat_asked_for_has_its_place_40", lambda: FetcherSpec(40), "prove", 3),
    Proof("runs_out_of_room_16", lambda: FetcherSpec(16), "cover", 24),
]
