"""Limits of rows that come: right in whatever order they come, never too high, and soon high enough."""

from itertools import product
from typing import Any, NamedTuple

import cocotb
import pytest

from hw.memory.formats import beat_address_width
from hw.ring.formats import OWNERS
from hw.ring.halo_limits import HaloLimits
from hw.ring.sender import RowSettings
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec
from sim.harness.formal import prove_all
from tb.ring.formal_limits import PROOFS

#: Cycles that a beat may take into a scratchpad.
SETTLES = 4


class Row(NamedTuple):
    """A row that comes."""

    owner: int
    vid: int
    least: bool


class Pass:
    """A pass of rows, and the way of each to memory, cycle by cycle."""

    def __init__(self, bench: Bench, design: HaloLimits, count: int) -> None:
        self.bench, self.dut, self.rng, self.count = bench, bench.dut, bench.random, count
        self.beats = 1 << beat_address_width(design.address_width, design.data_width)
        self.chiplets = design.chiplets
        sizes = [self.rng.choice((0, 1, 30)) for _ in range(count)]
        first = self.rng.randrange((1 << 32) - 1000)
        self.boundaries = [first + sum(sizes[:n]) for n in range(count + 1)]
        self.boundaries += [self.rng.getrandbits(32) for _ in range(design.chiplets - count)]
        self.rows = {"base": self.rng.randrange(self.beats), "stride": self.rng.randrange(1, design.max_beats + 1)}
        codec = Codec(RowSettings(design.address_width, design.data_width, design.max_beats))
        self.dut.rows.value = codec.pack({**codec.unpack(self.rng.getrandbits(codec.width)), **self.rows})
        self.dut.count.value = count
        words = Codec(32)
        self.dut.boundaries.value = sum(words.pack(v) << 32 * n for n, v in enumerate(self.boundaries))
        self.limits = Codec(design.signature.members["limits"].shape)
        #: Rows that have been taken, written and answered; those that a mark waits for, and cycles since then.
        self.taken: list[Row] = []
        self.written = self.answered = self.marked = self.since = 0

    def place(self, vid: int) -> int:
        """Return the beat address of a row."""
        return (self.rows["base"] + vid * self.rows["stride"]) % self.beats

    def coming(self, *, ordered: bool) -> list[Row]:
        """Return rows of all owners, some of which are not needed, each owner's in order or not."""
        rows: list[tuple[int, int]] = []
        queues = []
        for n in range(self.count):
            vids = [v for v in range(self.boundaries[n], self.boundaries[n + 1]) if self.rng.random() < 0.7]
            if not ordered:
                self.rng.shuffle(vids)
            queues.append([(n, v) for v in vids])
        while any(queues):
            rows.append(self.rng.choice([q for q in queues if q]).pop(0))
        found = []
        for at, (owner, vid) in enumerate(rows):
            lower = [v for n, v in rows[at + 1 :] if n == owner and v < vid]
            found.append(Row(owner, vid, not lower))
        return found

    def check(self) -> None:
        """Compare limits with the rows that are answered."""
        limits = self.limits.unpack(int(self.dut.limits.value))
        there = self.taken[: self.answered]
        for owner, limit in enumerate(limits):
            least = {self.place(row.vid + 1) for row in there if row.owner == owner and row.least}
            assert limit == 0 or limit in least, (owner, limit)

    def reached(self) -> bool:
        """Return whether each limit is behind the last such row of its owner."""
        limits = self.limits.unpack(int(self.dut.limits.value))
        last = {row.owner: self.place(row.vid + 1) for row in self.taken if row.least}
        return all(limits[n] == last.get(n, 0) for n in range(OWNERS))

    async def cycle(self, row: Row | None, writes: bool, answers: bool) -> None:
        """Go on by a cycle: a row may come, the first that has come be written, and a mark be answered."""
        dut = self.dut
        dut.taken.value = int(row is not None)
        if row:
            dut.owner.value, dut.vid.value, dut.least.value = row.owner, row.vid, int(row.least)
            self.taken.append(row)
        writes = writes and self.written < len(self.taken) - bool(row)
        dut.written.value = int(writes)
        dut.answered.value = int(answers)
        await self.bench.cycles(1)
        self.check()
        self.since += 1
        if answers and self.since > SETTLES:
            # What was written before the mark is in memory, or in the scratchpad.
            self.answered = max(self.answered, self.marked)
        assert int(dut.come.value) == self.written
        self.written += writes
        if int(dut.mark.value):
            self.marked, self.since = self.written, 0


async def begin(dut: Any) -> tuple[Bench, HaloLimits]:
    design = HaloLimits(**parameters())
    for port in ("start", "flows", "taken", "least", "written", "answered"):
        getattr(dut, port).value = 0
    return await start(dut, design), design


async def enter(bench: Bench, now: Pass) -> None:
    """Begin a pass, and wait for the starts."""
    dut = bench.dut
    dut.start.value = 1
    await bench.cycles(1)
    dut.start.value, dut.flows.value = 0, 1
    await bench.cycles(1)
    assert int(dut.limits.value) == int(dut.known.value) == 0
    for _ in range(now.chiplets + 4):
        await now.cycle(None, writes=False, answers=True)
    assert int(dut.known.value)
    starts = now.limits.unpack(int(dut.starts.value))
    wanted = [now.place(now.boundaries[n]) if n < now.count else now.beats - 1 for n in range(OWNERS)]
    assert starts == wanted


@cocotb.test()
@cocotb.parametrize(pace=[0.2, 0.5, 1.0], ordered=[True, False])
async def limits_follow_what_is_written(dut: Any, pace: float, ordered: bool) -> None:
    bench, design = await begin(dut)
    rng = bench.random
    for _ in range(4):
        now = Pass(bench, design, rng.randrange(2, design.chiplets + 1))
        await enter(bench, now)
        rows = now.coming(ordered=ordered)
        while rows or now.written < len(now.taken):
            comes = bool(rows) and rng.random() < pace and len(now.taken) - now.written < 30
            await now.cycle(rows.pop(0) if comes else None, rng.random() < 0.6, rng.random() < 0.3)
        for _ in range(40):
            await now.cycle(None, writes=False, answers=True)
        assert now.reached()
        # The pass ends; nothing of it is left.
        dut.flows.value = 0
        await bench.cycles(2)
        assert int(dut.limits.value) == int(dut.known.value) == 0


@cocotb.test()
async def a_pass_may_end_at_any_time(dut: Any) -> None:
    """Whatever is under way then, the next one begins with nothing, if it begins in the next cycle, too."""
    bench, design = await begin(dut)
    rng = bench.random
    for cycles, resets in product((1, 2, 3, 4, 5, 6, 8, 13, 21, 34), (False, True)):
        now = Pass(bench, design, design.chiplets)
        await enter(bench, now)
        rows = now.coming(ordered=True)
        for _ in range(cycles):
            await now.cycle(rows.pop(0) if rows else None, rng.random() < 0.5, rng.random() < 0.5)
        dut.flows.value = dut.taken.value = dut.written.value = 0
        if resets:
            await bench.reset()
            await bench.cycles(2)
            assert int(dut.limits.value) == int(dut.known.value) == 0


@pytest.mark.parametrize("chiplets", [2, 5, 16])
def test_halo_limits(chiplets: int) -> None:
    sizes = {"address_width": 32, "data_width": 64, "chiplets": chiplets, "max_beats": 5}
    simulate(HaloLimits(**sizes), __name__, parameters=sizes, name=f"halo_limits_{chiplets}")


def test_halo_limits_proofs() -> None:
    prove_all("halo_limits", PROOFS)
