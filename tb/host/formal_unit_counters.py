"""Proof of the counters of units: the count of any unit is that of its cycles, whenever it is read."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Signal

from hw.host.unit_counters import UnitCounters
from sim.harness.formal import Proof

UNITS, COUNTER_BITS = 3, 4


class UnitCountersSpec(Elaboratable):
    """Follows one symbolic unit: nothing but its own cycles and clears changes its count."""

    def elaborate(self, platform: Any) -> Module:
        """Let units work, be read and be cleared at any time; count the cycles of one of them."""
        m = Module()
        m.submodules.dut = dut = UnitCounters(UNITS, COUNTER_BITS)
        for port in (dut.working, dut.clear, dut.unit):
            m.d.comb += port.eq(AnySeq(len(port)))
        watched, count = Signal(range(UNITS)), Signal(COUNTER_BITS)
        m.d.comb += [watched.eq(AnyConst(len(watched))), Assume(watched < UNITS), Assume(dut.unit < UNITS)]
        with m.If(dut.clear):
            m.d.sync += count.eq(0)
        with m.Else():
            m.d.sync += count.eq(count + dut.working.bit_select(watched, 1))
        # The output shows what was counted before the cycle in which the unit was selected.
        shown, expected, cleared = Signal(), Signal(COUNTER_BITS), Signal()
        m.d.sync += [shown.eq(dut.unit == watched), expected.eq(count)]
        with m.If(dut.clear):
            m.d.sync += cleared.eq(1)
        m.d.comb += [
            Assert(~shown | (dut.cycles == expected)),
            Cover(shown & cleared & (dut.cycles == 2 * UNITS)),
        ]
        return m


PROOFS = [
    Proof("a_count_is_that_of_its_unit", UnitCountersSpec, "bmc", 16),
    Proof("counts_after_a_clear", UnitCountersSpec, "cover", 20),
]
