"""Counters of units: every cycle of every unit counts once and shows at once; clears, wraps, resets."""

from typing import Any

import cocotb
import pytest

from hw.host.unit_counters import UNITS_MAX, UnitCounters
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.formal import prove_all
from tb.host.formal_unit_counters import PROOFS


class Counted:
    """The counters, and how often each unit has worked."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.dut = bench, bench.dut
        self.units, self.wraps = parameters()["units"], 1 << parameters()["counter_bits"]
        self.begin()

    def begin(self) -> None:
        """Nothing is counted."""
        self.wanted = [0] * self.units
        #: The count that the last cycle's edge has left at the output.
        self.shown: int | None = None
        for name in ("working", "clear", "unit"):
            getattr(self.dut, name).value = 0

    async def cycle(self, working: int, unit: int, clear: bool = False) -> None:
        """Let some units work for a cycle while one is read; the count of the one read before is compared."""
        self.dut.working.value, self.dut.unit.value, self.dut.clear.value = working, unit, clear
        await self.bench.edge
        assert self.shown is None or int(self.dut.cycles.value) == self.shown
        self.shown = self.wanted[unit] % self.wraps
        self.wanted = [0 if clear else count + (working >> n & 1) for n, count in enumerate(self.wanted)]

    async def check(self) -> None:
        """Compare all counts while nothing works."""
        for unit in (*range(self.units), 0):
            await self.cycle(0, unit)


async def make(dut: Any) -> Counted:
    bench = await start(dut, UnitCounters(**parameters()))
    return Counted(bench)


@cocotb.test()
async def counts_are_those_of_the_cycles_whenever_they_are_read(dut: Any) -> None:
    counted = await make(dut)
    random = counted.bench.random
    await counted.check()
    for _ in range(40):
        likely = [random.random() for _ in range(counted.units)]
        for _ in range(random.randrange(40)):
            working = sum((random.random() < chance) << n for n, chance in enumerate(likely))
            await counted.cycle(working, random.randrange(counted.units))
        if random.random() < 0.5:
            await counted.check()


@cocotb.test()
async def every_unit_counts_alone_and_wraps(dut: Any) -> None:
    """Also a unit that works in every cycle between its turns."""
    counted = await make(dut)
    for unit in range(counted.units):
        for _ in range(counted.wraps + 2 * counted.units + unit):
            await counted.cycle(1 << unit, unit)
        await counted.check()
    for _ in range(counted.wraps):
        await counted.cycle((1 << counted.units) - 1, 0)
    await counted.check()


@cocotb.test()
async def a_clear_in_any_cycle_forgets_all_that_was_before(dut: Any) -> None:
    counted = await make(dut)
    everything = (1 << counted.units) - 1
    for before in range(3 * counted.units):
        for _ in range(before):
            await counted.cycle(everything, 0)
        await counted.cycle(everything, before % counted.units, clear=True)
        for after in range(before % (2 * counted.units)):
            await counted.cycle(everything, after % counted.units)
        await counted.check()


@cocotb.test()
async def a_reset_in_the_middle_forgets_all_too(dut: Any) -> None:
    counted = await make(dut)
    everything = (1 << counted.units) - 1
    for cycles in (1, 2 * counted.units, 3 * counted.units + 1):
        for _ in range(cycles):
            await counted.cycle(everything, 0)
        counted.begin()
        await counted.bench.reset()
        await counted.check()
        for _ in range(cycles):
            await counted.cycle(1, 0)
        await counted.check()


@pytest.mark.parametrize(("units", "counter_bits"), [(5, 6), (1, 3), (8, 32)])
def test_unit_counters(units: int, counter_bits: int) -> None:
    sizes = {"units": units, "counter_bits": counter_bits}
    tests = [name for name in TESTS if counter_bits < 10 or "wraps" not in name]
    simulate(UnitCounters(**sizes), __name__, parameters=sizes, testcase=tests)


TESTS = (
    "counts_are_those_of_the_cycles_whenever_they_are_read",
    "every_unit_counts_alone_and_wraps",
    "a_clear_in_any_cycle_forgets_all_that_was_before",
    "a_reset_in_the_middle_forgets_all_too",
)


def test_unit_counters_refuse() -> None:
    with pytest.raises(ValueError, match=rf"units must be in 1\.\.{UNITS_MAX}, not 0"):
        UnitCounters(0)
    with pytest.raises(ValueError, match=r"counter_bits must be in 1\.\.32, not 33"):
        UnitCounters(counter_bits=33)


def test_unit_counters_proofs() -> None:
    prove_all("unit_counters", PROOFS)
