"""Proof of the alliance tracker: every alliance has a leader that goes on, or all of it marks; no node counts twice."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from hw.locator.config import LocatorConfig
from hw.locator.resolver import AllianceTracker
from sim.harness.formal import Proof

_CONFIG = LocatorConfig(engines=3, searches=1, lanes=1, nodes=64, edges=256, banks=2, data_width=64, tag_bits=4)


class JudgeSpec(Elaboratable):
    """Searches of one component meet each other in any order, at any size; no conflict is forgotten or doubled.

    Those that search keep searching here, so that nothing but verdicts takes a search away; what they hold only grows.
    """

    def elaborate(self, platform: Any) -> Module:
        """Drive conflicts freely."""
        m = Module()
        m.submodules.dut = dut = AllianceTracker(_CONFIG)
        count = _CONFIG.workers
        searching, lost, marked, suspended = (
            Signal(count, name=n) for n in ("searching", "lost", "marked", "suspended")
        )
        held = [Signal(3, name=f"held{n}") for n in range(count)]
        m.d.comb += [searching.eq(AnyConst(count)), dut.settings.c_max.eq(AnyConst(4))]
        for n, (status, claim) in enumerate(zip(dut.statuses, dut.claims, strict=True)):
            m.d.sync += held[n].eq(status.count)
            m.d.comb += [
                status.searching.eq(searching[n]),
                status.epoch.eq(AnyConst(2)),
                status.count.eq(AnySeq(3)),
                Assume(status.count >= held[n]),
                lost[n].eq(claim.lost),
                marked[n].eq(claim.lost & claim.mark),
                suspended[n].eq(claim.suspended),
            ]
        conflict = dut.i.payload
        m.d.comb += [
            dut.i.valid.eq(AnySeq(1)),
            conflict.source.eq(AnySeq(len(conflict.source))),
            conflict.payload.owner.eq(AnySeq(conflict.payload.owner.shape().size)),
            conflict.payload.need.eq(AnySeq(1)),
            Assume(conflict.source < count),
            Assume(conflict.payload.owner.worker < count),
            # A search meets others only, and waits when it is suspended.
            Assume(conflict.payload.owner.worker != conflict.source),
            Assume(~dut.i.valid | searching.bit_select(conflict.source, 1)),
        ]
        goes_on = searching & ~lost & ~suspended
        m.d.comb += [
            Assert(goes_on.any() | marked.any() | ~searching.any()),
            Assert(((lost | suspended) & ~searching) == 0),
        ]
        # Whoever is suspended has a leader that goes on.
        for n, leader in enumerate(dut.leaders):
            m.d.comb += Assert(leader < count)
            with m.If(suspended[n] & ~lost[n]):
                m.d.comb += [Assert(leader != n), Assert(Array(goes_on)[leader])]
        # No node counts twice: a leader's allies hold what they count for.
        for n, extra in enumerate(dut.extras):
            allied = (
                Mux(suspended[k] & ~lost[k] & (dut.leaders[k] == n), dut.statuses[k].count, 0) for k in range(count)
            )
            with m.If(goes_on[n]):
                m.d.comb += Assert(extra <= sum(allied))
        # Who has lost without a mark was suspended, and its leader needs what it holds.
        m.d.comb += Assert((lost & ~marked & ~suspended) == 0)
        # A verdict comes in the cycle after a conflict was taken, and is never taken back.
        taken, source, before, was = Signal(), Signal.like(conflict.source), Signal(count), Signal(count)
        m.d.sync += [
            taken.eq(dut.i.valid & dut.i.ready),
            source.eq(conflict.source),
            before.eq(lost),
            was.eq(suspended),
        ]
        m.d.comb += [
            Assert(dut.decided == (taken << source)[:count]),
            Assert((before & ~lost) == 0),
            Assert((was & ~suspended) == 0),
        ]
        m.d.comb += [
            Cover((suspended == 3) & ~lost.any()),
            Cover((suspended == 3) & (lost == 1) & ~marked.any()),
            Cover(marked == 7),
            Cover(lost.any() & ~marked.any() & (dut.extras[0] > 0)),
        ]
        return m


PROOFS = [
    Proof("one_search_always_goes_on", JudgeSpec, "prove", 4),
    Proof("reaches_its_states", JudgeSpec, "cover", 12),
]
