"""Proof of the judge: conflicts never take away the last search of a component."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Signal

from hw.islands.config import LocatorConfig
from hw.islands.formats import Verdict
from hw.islands.resolver import Judge
from tb.harness.formal import Proof

_CONFIG = LocatorConfig(engines=3, searches=1, nodes=64, edges=256, banks=2, line_banks=2, data_width=64, tag_bits=4)


class JudgeSpec(Elaboratable):
    """Searches of one component meet each other in any order, at any size; no conflict is forgotten or doubled.

    Those that search keep searching here, so that nothing but verdicts takes a search away.
    """

    def elaborate(self, platform: Any) -> Module:
        """Drive conflicts freely."""
        m = Module()
        m.submodules.dut = dut = Judge(_CONFIG)
        count = _CONFIG.workers
        searching, lost = Signal(count), Signal(count)
        m.d.comb += [searching.eq(AnyConst(count)), dut.settings.c_max.eq(AnyConst(4))]
        for n, status in enumerate(dut.statuses):
            m.d.comb += [
                status.searching.eq(searching[n]),
                status.epoch.eq(AnyConst(2)),
                status.count.eq(AnySeq(3)),
                status.number.eq(AnyConst(3)),
                lost[n].eq(dut.claims[n].lost),
            ]
        m.d.comb += [
            dut.valid.eq(AnySeq(1)),
            dut.worker.eq(AnySeq(len(dut.worker))),
            dut.other.worker.eq(AnySeq(len(dut.worker))),
            dut.other.epoch.eq(AnySeq(2)),
            Assume(dut.worker < count),
            Assume(dut.other.worker < count),
            Assume(~dut.valid | searching.bit_select(dut.worker, 1)),
        ]
        marked = Signal()
        m.d.comb += marked.eq(sum(claim.lost & claim.mark for claim in dut.claims) != 0)
        alive = searching & ~lost
        m.d.comb += [Assert(alive.any() | marked | ~searching.any()), Assert((lost & ~searching) == 0)]

        # A verdict holds from the next cycle on.
        retreats, worker = Signal(), Signal.like(dut.worker)
        m.d.sync += [retreats.eq(dut.valid & (dut.verdict != Verdict.WAIT)), worker.eq(dut.worker)]
        with m.If(retreats):
            m.d.comb += Assert(lost.bit_select(worker, 1))
        # Marks need two that together are more than a community.
        with m.If(dut.valid & (dut.verdict == Verdict.MARK)):
            m.d.comb += Assert(dut.worker != dut.other.worker)
        before, fallen = Signal(count), Signal(count)
        m.d.sync += before.eq(lost)
        m.d.comb += [
            fallen.eq(lost & ~before),
            # At most one of two falls, or both with a mark.
            Assert(((fallen & (fallen - 1)) == 0) | marked),
            Assert((before & ~lost) == 0),
        ]
        m.d.comb += [Cover((lost == 3) & ~marked), Cover(marked)]
        return m


PROOFS = [
    Proof("one_search_always_goes_on", JudgeSpec, "prove", 3),
    Proof("reaches_its_states", JudgeSpec, "cover", 8),
]
