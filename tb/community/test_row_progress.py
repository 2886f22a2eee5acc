"""Row progress: no limit above a row that cannot be read, and soon one behind the last that can."""

from collections import deque
from typing import Any, NamedTuple

import cocotb
import pytest

from hw.community.row_progress import CombinerRow, RowProgress
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec

#: Cycles that a beat may take into a scratchpad, and most of a row.
SETTLES, BEATS = 4, 3


class Pace(NamedTuple):
    """How likely a row is given, leaves its combiner, and a beat is written; how likely a mark is answered."""

    given: float = 0.5
    leaves: float = 0.5
    written: float = 0.7
    answered: float = 0.4


class Rows:
    """Rows of a COMBINE on their way through combiners to memory, cycle by cycle."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.dut, self.rng = bench, bench.dut, bench.random
        self.design = RowProgress(**parameters())
        self.codec = Codec(CombinerRow(self.design.combiners))

    async def begin(self, count: int) -> None:
        """Begin with rows of ascending VIDs, some of which may be left out."""
        self.first = self.rng.choice([0, 1, self.rng.randrange((1 << 32) - 5000)])
        step = self.rng.choice((1, 2, 4))
        self.rows = [self.first + step * n for n in range(count)]
        self.left = deque(self.rows)
        self.inside: list[deque[int]] = [deque() for _ in range(self.design.combiners)]
        #: Beats that leave a combiner after the present one, of the row that does; the rows of beats that have left.
        self.beats, self.leaving = 0, -1
        self.beat_rows: list[int] = []
        self.written = self.answered = self.marked = self.since = 0
        self.dut.first.value, self.dut.begins.value, self.dut.going.value = self.first, 1, 0
        await self.cycle(Pace(0, 0, 0))
        self.dut.begins.value, self.dut.going.value = 0, 1

    @property
    def soon(self) -> int:
        """Cycles after which the limit follows what can be read: two waits, and two looks at all combiners."""
        return 4 * SETTLES + 2 * self.design.combiners

    @property
    def missing(self) -> int:
        """The first VID that cannot be read; behind the last row if all can."""
        there = set(self.beat_rows[: self.answered]) - set(self.beat_rows[self.answered :])
        if self.beats:
            there.discard(self.beat_rows[-1])
        return next((row for row in self.rows if row not in there), self.rows[-1] + 1 if self.rows else self.first)

    async def cycle(self, pace: Pace) -> None:
        """Go on by a cycle, and compare the limit with the rows."""
        dut, chance = self.dut, self.rng.random
        given, combined = ({"valid": 0, "combiner": 0, "vid": self.rng.getrandbits(32)} for _ in range(2))
        if self.left and chance() < pace.given:
            row, combiner = self.left.popleft(), self.rng.randrange(self.design.combiners)
            self.inside[combiner].append(row)
            given = {"valid": 1, "combiner": combiner, "vid": row}
        leaves = False
        if len(self.beat_rows) - self.written < self.design.most - 1 and chance() < pace.leaves:
            # A row that has been given in this cycle leaves later.
            full = [n for n, rows in enumerate(self.inside) if len(rows) > (given["valid"] and given["combiner"] == n)]
            if not self.beats and full:
                self.leaving, self.beats = self.rng.choice(full), self.rng.randrange(1, BEATS + 1)
            if self.beats:
                leaves, self.beats = True, self.beats - 1
                row = self.inside[self.leaving][0]
                self.beat_rows.append(row)
                if not self.beats:
                    self.inside[self.leaving].popleft()
                    combined = {"valid": 1, "combiner": self.leaving, "vid": row}
        writes = self.written < len(self.beat_rows) - leaves and chance() < pace.written
        answers = chance() < pace.answered
        dut.given.value, dut.combined.value = self.codec.pack(given), self.codec.pack(combined)
        dut.leaves.value, dut.written.value, dut.answered.value = int(leaves), int(writes), int(answers)
        await self.bench.cycles(1)
        if int(dut.going.value):
            assert self.first <= int(dut.limit.value) <= self.missing
        mark = int(dut.mark.value)
        self.since += 1
        if answers and not mark and self.since > SETTLES:
            self.answered = max(self.answered, self.marked)
        if mark:
            self.marked, self.since = self.written, 0
        self.written += writes

    async def end(self) -> None:
        """Let all rows be written; the limit gets behind the last one."""
        while self.left or any(self.inside) or self.written < len(self.beat_rows):
            await self.cycle(Pace())
        for _ in range(self.soon):
            await self.cycle(Pace(0, 0, 0, 1))
        assert int(self.dut.limit.value) == self.missing == (self.rows[-1] + 1 if self.rows else self.first)

    async def stop(self) -> None:
        """Nothing is combined any more."""
        self.dut.going.value = 0
        await self.bench.cycles(1)


async def begin(dut: Any) -> Rows:
    for port in ("begins", "going", "given", "combined", "leaves", "written", "answered"):
        getattr(dut, port).value = 0
    return Rows(await start(dut, RowProgress(**parameters())))


@cocotb.test()
@cocotb.parametrize(given=[0.1, 0.5, 1.0], leaves=[0.2, 1.0])
async def limits_follow_what_can_be_read(dut: Any, given: float, leaves: float) -> None:
    rows = await begin(dut)
    for count in (40, 0, 1, 100, 7):
        await rows.begin(count)
        for _ in range(count):
            await rows.cycle(Pace(given, leaves))
        await rows.end()
        await rows.stop()


@cocotb.test()
async def a_row_holds_the_limit_for_as_long_as_it_takes(dut: Any) -> None:
    """One combiner works on a long row; the others go on, and nothing is said about what they make."""
    rows = await begin(dut)
    if rows.design.combiners == 1:
        return
    await rows.begin(60)
    while not any(rows.inside):
        await rows.cycle(Pace(1, 0))
    held = next(n for n, inside in enumerate(rows.inside) if inside)
    row, rows.inside[held] = rows.inside[held].popleft(), deque()
    while rows.left:
        await rows.cycle(Pace(0.5, 1, 1, 1))
        # What the same combiner was given waits behind it.
        rows.inside[held].clear()
    for _ in range(rows.soon):
        await rows.cycle(Pace(0, 0, 1, 1))
    assert int(dut.limit.value) == row


@cocotb.test()
async def it_may_end_at_any_time(dut: Any) -> None:
    """After an error, and by a reset; the next rows begin with nothing."""
    rows = await begin(dut)
    for cycles in range(1, 50):
        await rows.begin(20)
        for _ in range(cycles):
            await rows.cycle(Pace())
        await rows.stop()
        if cycles % 5 == 0:
            await rows.bench.reset()
    await rows.begin(30)
    await rows.end()


@pytest.mark.parametrize("combiners", [1, 3, 8])
def test_row_progress(combiners: int) -> None:
    sizes = {"combiners": combiners, "rows": 400, "most": 16}
    simulate(RowProgress(**sizes), __name__, parameters=sizes, name=f"row_progress_{combiners}")
