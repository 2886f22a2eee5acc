"""Proofs of the halo limits: a row below a limit is in memory, and is of the pass under way (R14)."""

from functools import partial
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Signal

from hw.ring.halo_limits import HaloLimits
from sim.harness.formal import Proof

_CHIPLETS, _BITS = 2, 4


class HaloLimitsSpec(Elaboratable):
    """Follows a needed row of the second chiplet through passes of any length; others come at any pace.

    Parameters
    ----------
    covers
        Show that a limit passes the row in a second pass.
    """

    def __init__(self, covers: bool) -> None:
        self.covers = covers

    def elaborate(self, platform: Any) -> Module:
        """Let rows come, be written in their order, and marks be answered; compare limits with the row's way."""
        m = Module()
        m.submodules.dut = dut = HaloLimits(_BITS + 3, 64, _CHIPLETS, 1)
        begun, row, comes, flowed = Signal(), Signal(_BITS), Signal(), Signal()
        m.d.sync += [begun.eq(1), flowed.eq(dut.flows)]
        m.d.comb += [
            row.eq(AnyConst(_BITS)),
            dut.rows.stride.eq(1),
            dut.count.eq(_CHIPLETS),
            dut.boundaries[1].eq(1),
            dut.boundaries[2].eq((1 << _BITS) - 1),
            Assume((row >= 1) & (row < (1 << _BITS) - 2)),
            dut.flows.eq(AnySeq(1)),
            # A pass begins in the cycle before its rows flow.
            dut.start.eq(AnySeq(1)),
            Assume(~(dut.start & dut.flows)),
            Assume(flowed | ~dut.flows | _before(m, dut.start)),
            Assume(begun | ~dut.flows),
            dut.taken.eq(AnySeq(1) & dut.flows & dut.known),
            dut.least.eq(AnySeq(1)),
            dut.owner.eq(AnySeq(1)),
            dut.vid.eq(AnySeq(_BITS)),
            dut.written.eq(AnySeq(1)),
            dut.answered.eq(AnySeq(1)),
            comes.eq(dut.taken & dut.owner & (dut.vid == row)),
        ]
        # Rows that have come and are not written; those of them in front of the row that is followed, it included.
        waiting, ahead = Signal(4), Signal(4)
        here, written, marked, answered = (Signal(name=name) for name in ("here", "written", "marked", "answered"))
        m.d.sync += waiting.eq(waiting + dut.taken - dut.written)
        m.d.comb += [
            Assume(~dut.written | (waiting != 0)),
            Assume(~dut.mark | ~dut.answered),
            Assume((waiting != 15) | ~dut.taken),
            # It comes once; a higher one counts as the least only behind it.
            Assume(~comes | ~here),
            Assume(~(dut.taken & dut.owner & dut.least & (dut.vid > row)) | here),
        ]
        with m.If(comes):
            m.d.sync += [here.eq(1), ahead.eq(waiting + 1 - dut.written)]
        with m.Elif(here & ~written & dut.written):
            m.d.sync += ahead.eq(ahead - 1)
            with m.If(ahead == 1):
                m.d.sync += written.eq(1)
        with m.If(written & dut.mark):
            m.d.sync += marked.eq(1)
        with m.If(marked & dut.answered):
            m.d.sync += answered.eq(1)
        with m.If(~dut.flows):
            m.d.sync += [sig.eq(0) for sig in (waiting, here, written, marked, answered)]
        passes, past = Signal(2), Signal()
        m.d.sync += passes.eq(passes + (dut.flows & ~flowed))
        m.d.comb += past.eq(dut.flows & (dut.limits[1] > row))
        if self.covers:
            m.d.comb += Cover(past & (passes == 2))
        else:
            m.d.comb += [
                Assert(~(past & flowed) | answered),
                Assert(~dut.known | ~flowed | ((dut.starts[0] == 0) & (dut.starts[1] == 1))),
            ]
        return m


def _before(m: Module, value: Any) -> Signal:
    """Return the value of the cycle before."""
    past = Signal()
    m.d.sync += past.eq(value)
    return past


PROOFS = [
    Proof("a_row_below_a_limit_is_there", partial(HaloLimitsSpec, False), "bmc", 22),
    Proof("a_limit_passes_a_row_of_the_second_pass", partial(HaloLimitsSpec, True), "cover", 34, outer=True),
]
