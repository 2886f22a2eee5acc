"""Row accumulator: steps and vectors in any order against plain integers, sums used at once, cycles, resets."""

import random
from collections import defaultdict, deque
from typing import Any

import cocotb
import pytest

from contracts import VALUE_BITS
from hw.community.formats import CommunityConfig
from hw.community.row_accumulator import RowAccumulator
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec
from tb.community.beside import Beside, Marked, settings_of

SIZES: tuple[dict[str, Any], ...] = (
    {"lanes": 4, "width": 8, "columns": 16, "max_out": 6, "weight_rows": 16, "data_width": 64},
    {"lanes": 8, "width": 16, "columns": 32, "max_out": 35, "weight_rows": 64, "partials": True},
)
COUNTERS = ("worked", "gross", "formed")

Step = dict[str, int]
Vector = list[int]


def row_accumulator(**sizes: Any) -> Beside:
    """Return a row accumulator beside the memories of vectors and of sums, and marks of vectors."""
    return Beside(Beside(Marked(RowAccumulator(CommunityConfig(**sizes))), "vectors"), "total", "sums")


def steps_of(rng: random.Random, rows: int, config: CommunityConfig) -> list[Step]:
    """Return random steps of a record: a few operands again and again, sums of sums, the same rows.

    The last one is an operation or none.
    """
    formed, steps = rows, []
    repeats = rng.random() < 0.5
    operand, row = rng.randrange(rows), rng.randrange(rows)
    for _ in range(rng.randint(1, 3 * rows)):
        form = rng.random() < 0.4 and formed < config.columns
        if not repeats or rng.random() < 0.3:
            operand, row = rng.randrange(formed), rng.randrange(rows)
        step = {"active": 1, "last": 0, "form": int(form), "row": row, "left": rng.randrange(formed), "right": operand}
        steps.append({**step, "index": formed if form else operand, "negative": 0 if form else rng.getrandbits(1)})
        if form:
            # The next step uses it at once, more often than not.
            operand = rng.choice((formed, formed, operand))
            formed += 1
    others = {name: rng.getrandbits(1) for name in ("negative", "row", "index", "left", "right")}
    if steps[-1]["form"] or rng.random() < 0.5:
        return [*steps, {**others, "active": 0, "last": 1}]
    return [*steps[:-1], {**steps[-1], "last": 1}]


def operations(steps: list[Step]) -> list[Step]:
    """Return the steps that do something."""
    return [step for step in steps if step["active"]]


class Sums:
    """A bench around a row accumulator: fills vectors, computes the sums of every record and compares them at its end.

    Parameters
    ----------
    bench
        Its streams.
    config
        Sizes.
    """

    def __init__(self, bench: Bench, config: CommunityConfig) -> None:
        self.bench, self.config = bench, config
        self.base = bench.random.randrange(config.slots)
        #: The first place of every record, and the sums of the rows that it touches.
        self.expected: deque[tuple[int, dict[int, list[Vector]]]] = deque()
        #: Words of vectors that have not come, by place.
        self.words: dict[int, list[dict[str, Any]]] = defaultdict(list)
        self.counted, self.wanted = dict.fromkeys(COUNTERS, 0), dict.fromkeys(COUNTERS, 0)
        self.watcher = cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        while True:
            await self.bench.cycles(1)
            for name in COUNTERS:
                self.counted[name] += int(getattr(self.bench.dut, name).value)

    def set(self, last_chunk: int) -> None:
        """Choose the length of vectors."""
        self.bench.dut.settings.value = settings_of(self.config, self.bench.random, last_chunk=last_chunk)
        self.chunks = last_chunk + 1

    async def send(self, batches: list[tuple[int, list[Step]]], *, late: bool = False) -> list[int]:
        """Hand records and their steps over, with vectors unless those are `late`; return the places of the others."""
        bench, config, rng = self.bench, self.config, self.bench.random
        low = -(1 << VALUE_BITS - 1)
        come: list[int] = []
        for rows, steps in batches:
            self.single = bool(rng.getrandbits(1))
            record = {
                "base": self.base,
                "rows": rows,
                "nodes": rng.randint(0, rows),
                "single": int(self.single),
                "later": 0,
            }
            columns: list[list[Vector]] = []
            for row in range(rows):
                place, chunks = (self.base + row) % config.slots, []
                high = rng.getrandbits(1) if config.partials else 0
                for chunk in range(self.chunks):
                    values = [rng.choice((low, ~low, rng.randrange(low, -low))) for _ in range(config.lanes)]
                    data = {"data": values, **({"high": high} if config.partials else {})}
                    self.words[place].append({"address": place * config.chunks + chunk, "data": data})
                    chunks.append([value << VALUE_BITS * high for value in values])
                columns.append(chunks)
                bench.drive("mark", [{"slot": place, "there": 0}])
                come.append(place)
            self.expected.append((self.base, self._sums(columns, steps)))
            self.base = (self.base + rows) % config.slots
            bench.expect("o", [record])
            await self._driven("mark")
            if not late:
                await self.come(come)
                come = []
            bench.drive("i", [{"record": record, "step": step} for step in steps])
        return come

    async def _driven(self, port: str) -> None:
        await self.bench.until(lambda: not self.bench.drivers[port].busy_words)

    async def come(self, places: list[int]) -> None:
        """Have vectors come: fill these places, then mark them."""
        for place in places:
            self.bench.drive("fill", self.words.pop(place))
        await self._driven("fill")
        self.bench.drive("mark", [{"slot": place, "there": 1} for place in places])
        await self._driven("mark")

    def _sums(self, columns: list[list[Vector]], steps: list[Step]) -> dict[int, list[Vector]]:
        """Return the sums of the rows that the steps touch."""
        sums: dict[int, list[Vector]] = {}

        def add(one: list[Vector], other: list[Vector], sign: int) -> list[Vector]:
            return [[a + sign * b for a, b in zip(x, y, strict=True)] for x, y in zip(one, other, strict=True)]

        nothing = [[0] * self.config.lanes for _ in range(self.chunks)]
        for step in operations(steps):
            right = columns[step["right"]]
            if step["form"]:
                columns.append(add(columns[step["left"]], right, 1))
            else:
                sums[step["row"]] = add(sums.get(step["row"], nothing), right, -1 if step["negative"] else 1)
            self.wanted["worked"] += self.chunks * (1 + step["form"])
            self.wanted["formed" if step["form"] else "gross"] += counts(step, self.single)
        return sums

    async def done(self) -> int:
        """Wait for all records, then compare sums and counts; return the cycle of the last."""
        cycle = await self.bench.drain(50_000, quiet=2)
        for base, sums in self.expected:
            for row, chunks in sums.items():
                for chunk, wanted in enumerate(chunks):
                    await self.compare((base + row) % self.config.slots * self.config.chunks + chunk, wanted)
        self.expected.clear()
        assert self.counted == self.wanted
        return cycle

    async def compare(self, address: int, wanted: Vector) -> None:
        """Compare a chunk of the sums, which wrap around."""
        dut, mask = self.bench.dut, (1 << self.config.sum_bits) - 1
        dut.look__address.value = address
        await self.bench.cycles(2)
        found = Codec(self.config.chunk).unpack(int(dut.look__data.value))
        assert [value & mask for value in found] == [value & mask for value in wanted]

    async def batch(self, *, late: bool = False) -> None:
        """Sum up as many random records as there are places; their vectors may come `late`."""
        rng, room, batches = self.bench.random, self.config.slots, []
        while room:
            rows = min(room, rng.randint(1, self.config.width))
            batches.append((rows, steps_of(rng, rows, self.config)))
            room -= rows
        places = await self.send(batches, late=late)
        for place in rng.sample(places, len(places)):
            await self.come([place])
            await self.bench.cycles(rng.choice((0, 0, 0, rng.randrange(60))))
        await self.done()


async def begin(dut: Any, **pace: Any) -> Sums:
    bench = await start(dut, row_accumulator(**parameters()), **pace)
    return Sums(bench, CommunityConfig(**parameters()))


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.3, 0.7], stall=[0.0, 0.5], late=[False, True])
async def steps_are_summed_up(dut: Any, idle: float, stall: float, late: bool) -> None:
    """Take records of any steps, whose vectors have come before, or come later and in any order."""
    sums = await begin(dut, idle=idle, stall=stall)
    for _ in range(5):
        for last_chunk in (0, sums.bench.random.randrange(sums.config.chunks), sums.config.chunks - 1):
            sums.set(last_chunk)
            await sums.batch(late=late)


def counts(step: Step, single: bool) -> bool:
    """Return whether a step is counted: in a record of one node, what other rows get is when it leaves."""
    return bool(step["form"] or not single or step["row"] == 0)


def counts_without(steps: list[Step], missing: int, single: bool) -> dict[str, int]:
    """Return what is counted of a record with vectors of a chunk while that of the column `missing` has not come."""
    counted = dict.fromkeys(COUNTERS, 0)
    for step in operations(steps):
        for part in ("left", "right") if step["form"] else ("right",):
            if step[part] == missing:
                return counted
            counted["worked"] += 1
        counted["formed" if step["form"] else "gross"] += counts(step, single)
    return counted


@cocotb.test()
async def a_step_waits_for_its_own_vector_only(dut: Any) -> None:
    """Do all steps up to the first one that reads the vector that is missing; of a sum its left part as well."""
    sums = await begin(dut)
    rng, config = sums.bench.random, sums.config
    sums.set(0)
    for _ in range(60):
        rows = rng.randint(2, config.width)
        missing, steps, before = rng.randrange(rows), steps_of(rng, rows, config), dict(sums.counted)
        places = await sums.send([(rows, steps)], late=True)
        last = places.pop(missing)
        await sums.come(rng.sample(places, rows - 1))
        await sums.bench.cycles(10 * len(steps))
        made = {name: sums.counted[name] - before[name] for name in COUNTERS}
        assert made == counts_without(steps, missing, sums.single)
        await sums.come([last])
        await sums.done()


def cycles_of(steps: list[Step], rows: int, chunks: int) -> int:
    """Return the cycles of a record, with one of an end without an operation.

    A form takes two a chunk, and sums wait until a form is two cycles back. A row waits while its sum is written, in
    the second cycle after an addition to it. Every other step goes through its chunks backwards.
    """
    cycle, last_form, order = 0, -3, list(range(chunks))
    added: dict[tuple[int, int], int] = {}
    for step in operations(steps):
        summed = step["right"] >= rows or (step["form"] and step["left"] >= rows)
        for chunk in order:
            if summed:
                cycle = max(cycle, last_form + 3)
            if not step["form"]:
                place = step["row"], chunk
                cycle += added.get(place) == cycle - 2
                added[place] = cycle
            cycle += 1 + step["form"]
            if step["form"]:
                last_form = cycle - 1
        order.reverse()
    return cycle + (not steps[-1]["active"])


@cocotb.test()
async def steps_take_their_cycles(dut: Any) -> None:
    """Take as many cycles for a record as its steps have chunks, two for sums, and a few to begin and to end."""
    sums = await begin(dut)
    rng, config = sums.bench.random, sums.config
    for last_chunk in range(config.chunks):
        sums.set(last_chunk)
        for rows in (1, 2, config.width, config.width):
            steps = steps_of(rng, rows, config)
            await sums.send([(rows, steps)])
            began = sums.bench.cycle
            assert await sums.done() - began == cycles_of(steps, rows, sums.chunks) + 4


@cocotb.test()
async def records_follow_each_other(dut: Any) -> None:
    """Take no cycle between records. All wait for the first vector."""
    sums = await begin(dut)
    rng, config = sums.bench.random, sums.config
    for last_chunk in range(config.chunks):
        sums.set(last_chunk)
        for _ in range(4):
            sizes = [1, 2, config.width // 2, config.width, 1]
            batches = [(rows, steps_of(rng, rows, config)) for rows in sizes]
            batches[0][1].insert(
                0, {"active": 1, "last": 0, "form": 0, "row": 0, "left": 0, "right": 0, "index": 0, "negative": 0}
            )
            first, *others = await sums.send(batches, late=True)
            await sums.come(others)
            began = sums.bench.cycle
            await sums.come([first])
            cycles = sum(cycles_of(steps, rows, sums.chunks) for rows, steps in batches)
            # The vector takes a cycle a chunk to come; five more are those of its mark and of the last result.
            assert await sums.done() - began == cycles + last_chunk + 5


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    sums = await begin(dut, stall=0.2)
    bench, config = sums.bench, sums.config
    for _ in range(10):
        sums.set(bench.random.randrange(config.chunks))
        await sums.send([(config.width, steps_of(bench.random, config.width, config)) for _ in range(2)])
        await bench.cycles(bench.random.randrange(60))
        sums.watcher.cancel()
        await bench.reset()
        sums = Sums(bench, config)
        sums.set(bench.random.randrange(config.chunks))
        await sums.batch()


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_row_accumulator(sizes: dict[str, Any]) -> None:
    simulate(row_accumulator(**sizes), __name__, parameters=sizes)
