"""Proofs of the vector marks: a vector is there from its coming until its slot is passed, whatever the others do."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Signal

from hw.community.vector_marks import VectorMarks
from sim.harness.formal import Proof

#: Two words of two marks.
_SLOTS = 4
#: Clears all marks, then has time for two rounds of the slots, and for three.
_SHORT, _DEPTH = 16, 20


class VectorMarksSpec(Elaboratable):
    """Follows any one slot; the others are only passed in turn, each when it is given away and its mark allows it."""

    def elaborate(self, platform: Any) -> Module:
        """Compare what is said of the slot with a bit that is set and cleared."""
        m = Module()
        m.submodules.dut = dut = VectorMarks(_SLOTS)
        followed, given = Signal(range(_SLOTS)), Signal(range(_SLOTS + 1))
        turn, next_, rounds = Signal(range(_SLOTS)), Signal(range(_SLOTS)), Signal(2)
        used, there = Signal(), Signal()
        gives, comes, passes, mine = (Signal() for _ in range(4))
        m.d.comb += [
            followed.eq(AnyConst(len(followed))),
            dut.came.valid.eq(AnySeq(1)),
            dut.came.payload.eq(AnySeq(len(followed))),
            dut.slot.eq(AnySeq(len(followed))),
            gives.eq(AnySeq(1) & (given != _SLOTS)),
            passes.eq(AnySeq(1) & dut.oldest & (given != 0)),
            dut.passes.eq(passes),
            mine.eq(turn == followed),
            comes.eq(dut.came.valid & (dut.came.payload == followed)),
            # A vector comes once for each use of its slot.
            Assume(~comes | (used & ~there)),
        ]
        m.d.sync += given.eq(given + gives - passes)
        with m.If(gives):
            m.d.sync += [next_.eq(next_ + 1), used.eq(used | (next_ == followed))]
        with m.If(comes & dut.came.ready):
            m.d.sync += there.eq(1)
        with m.If(passes):
            m.d.sync += turn.eq(turn + 1)
            with m.If(mine):
                m.d.sync += [used.eq(0), there.eq(0), rounds.eq(rounds + 1)]
        m.d.comb += [
            Assert(~used | (dut.slot != followed) | (dut.there == there)),
            Assert(~mine | (given == 0) | (dut.oldest == there)),
            Assert(dut.came.ready | ~(dut.there | dut.oldest)),
            Cover((rounds == 2) & there & ~mine & ~dut.oldest),
            Cover((rounds == 1) & comes & (followed < turn)),
        ]
        return m


PROOFS = [
    Proof("a_vector_is_there_at_first", VectorMarksSpec, "bmc", _SHORT),
    Proof("a_vector_is_there_until_its_slot_is_passed", VectorMarksSpec, "bmc", _DEPTH, quick=False),
    Proof("slots_are_used_again", VectorMarksSpec, "cover", _DEPTH),
]
