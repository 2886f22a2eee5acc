"""Write fence: nothing is done before what had begun is written and answered, nor much later."""

from typing import Any

import cocotb
import pytest

from hw.memory.write_fence import WriteFence
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

#: Cycles that a beat may take into a scratchpad.
SETTLES = 4


class Fence:
    """The fence, and what is on its way to memory, by number."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.dut, self.rng = bench, bench.dut, bench.random
        self.most = WriteFence(**parameters()).most
        self.stops()

    def stops(self) -> None:
        """Nothing is on its way any more."""
        self.begun = self.written = self.answered = self.marked = self.done = self.since = 0
        self.asked: int | None = None

    async def cycle(self, *, begins: bool, writes: bool, answers: bool, asks: bool, runs: bool = True) -> None:
        """Go on by a cycle, and compare what the fence says with what is in memory."""
        begins = runs and begins and self.begun - self.written < self.most - 1
        writes = runs and writes and self.written < self.begun
        values = {"begun": begins, "written": writes, "answered": answers, "asks": asks, "runs": runs}
        for name, value in values.items():
            getattr(self.dut, name).value = int(value)
        await self.bench.cycles(1)
        asked, done, mark = (int(getattr(self.dut, name).value) for name in ("asked", "done", "mark"))
        self.since += 1
        if answers and not mark and self.since > SETTLES:
            self.answered = max(self.answered, self.marked)
        assert asked == int(asks and runs and self.asked is None)
        if done:
            assert self.asked is not None
            assert self.answered >= self.asked
            self.asked, self.done = None, self.done + 1
        self.begun += begins
        if asked:
            self.asked = self.begun
        self.written += writes
        if mark:
            self.marked, self.since = self.written - writes, 0
        if not runs:
            self.stops()


async def begin(dut: Any) -> Fence:
    for port in ("runs", "begun", "written", "asks", "answered"):
        getattr(dut, port).value = 0
    return Fence(await start(dut, WriteFence(**parameters())))


@cocotb.test()
@cocotb.parametrize(pace=[0.2, 0.6, 1.0], answer=[0.1, 1.0])
async def what_had_begun_is_in_memory(dut: Any, pace: float, answer: float) -> None:
    fence = await begin(dut)
    chance = fence.rng.random
    for _ in range(2000):
        await fence.cycle(begins=chance() < pace, writes=chance() < 0.6, answers=chance() < answer, asks=chance() < 0.5)
    assert fence.done > 10
    # Nothing else has to begin for a wait to end.
    for _ in range(fence.most + 3 * SETTLES):
        await fence.cycle(begins=False, writes=True, answers=True, asks=False)
    assert fence.asked is None
    took = []
    for _ in range(3):
        await fence.cycle(begins=False, writes=False, answers=True, asks=True)
        cycles = 0
        while fence.asked is not None:
            await fence.cycle(begins=False, writes=False, answers=True, asks=False)
            cycles += 1
        took.append(cycles)
    assert took == [SETTLES + 2] * 3


@cocotb.test()
async def it_may_end_at_any_time(dut: Any) -> None:
    """Whatever is waited for then, the next wait is for what begins later."""
    fence = await begin(dut)
    chance = fence.rng.random
    for cycles in range(1, 60):
        for _ in range(cycles % 30 + 1):
            await fence.cycle(begins=chance() < 0.5, writes=chance() < 0.5, answers=chance() < 0.5, asks=chance() < 0.5)
        await fence.cycle(begins=False, writes=False, answers=True, asks=True, runs=False)
        if cycles % 7 == 0:
            await fence.bench.reset()
    assert fence.done == 0


@pytest.mark.parametrize("most", [3, 64])
def test_write_fence(most: int) -> None:
    simulate(WriteFence(most), __name__, parameters={"most": most}, name=f"write_fence_{most}")


def test_a_fence_counts_something() -> None:
    with pytest.raises(ValueError, match="most must be at least 2, not 1"):
        WriteFence(1)
