"""Proofs of the register slice against a queue of two words written as a counter and two variables."""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Cover, Elaboratable, Module, Signal
from amaranth.lib import stream

from hw.stream.slice import Slice
from sim.harness.formal import Proof, assert_stream, assume_stream

WIDTH = 3


class SliceSpec(Elaboratable):
    """The slice offers the oldest of at most two words and is ready while it holds fewer.

    Parameters
    ----------
    merges
        As of the slice, whose input is 0 while it is not ready.
    """

    def __init__(self, merges: bool = False) -> None:
        self.merges = merges

    def elaborate(self, platform: Any) -> Module:
        """Drive the slice freely and compare it with the model in every cycle."""
        m = Module()
        m.submodules.dut = dut = Slice(WIDTH, merges=self.merges)
        offered = stream.Signature(WIDTH).create(path=("offered",))
        m.d.comb += [
            offered.payload.eq(AnySeq(WIDTH)),
            offered.valid.eq(AnySeq(1)),
            offered.ready.eq(dut.i.ready),
            dut.i.payload.eq(offered.payload & (dut.i.ready | (not self.merges)).replicate(WIDTH)),
            dut.i.valid.eq(offered.valid),
            dut.o.ready.eq(AnySeq(1)),
        ]
        assume_stream(m, offered, "i")
        assert_stream(m, dut.o, "o")

        held = Signal(range(3))
        oldest = Signal(WIDTH)
        second = Signal(WIDTH)
        put = dut.i.valid & dut.i.ready
        take = dut.o.valid & dut.o.ready
        m.d.sync += held.eq(held + put - take)
        with m.If(take):
            m.d.sync += oldest.eq(second)
        with m.If(put):
            with m.If(held == take):
                m.d.sync += oldest.eq(dut.i.payload)
            with m.Else():
                m.d.sync += second.eq(dut.i.payload)

        m.d.comb += [
            Assert(held <= 2),
            Assert(dut.i.ready == (held != 2)),
            Assert(dut.o.valid == (held != 0)),
            Assert((held == 2) | (dut.behind == 0) | (not self.merges)),
        ]
        with m.If(held != 0):
            m.d.comb += Assert(dut.o.payload == oldest)
        with m.If(held == 2):
            m.d.comb += Assert(dut.behind == second)

        streak = Signal(range(8))
        m.d.sync += streak.eq(0)
        with m.If(put & take & (streak != 7)):
            m.d.sync += streak.eq(streak + 1)
        m.d.comb += [Cover(held == 2), Cover((held == 2) & take), Cover(streak == 5)]
        return m


PROOFS = [
    Proof("is_a_queue_of_two", SliceSpec, "prove", 2),
    Proof("is_a_queue_of_two_behind_merged_words", lambda: SliceSpec(merges=True), "prove", 2),
    Proof("reaches_its_states", SliceSpec, "cover", 12),
]
