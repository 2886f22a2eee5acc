"""A core beside an engine: rows that are read from the window, samples in the background, and the end of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from contracts import LINE_BYTES, Error, Opcode, Targets
from golden.attributes.sampler import Plan
from hw.attributes.factories import CORE
from sim.attributes.core_bench import CoreBench
from sim.harness import parameters
from sim.harness.bench import start
from sim.models.memory import Memory
from sim.models.simulate import simulate_with_memory
from sim.models.wrap import MemoryModel
from tb.attributes.mirror import Job, Mirror
from tb.attributes.test_accelerator import MEMORY, Host, plans

#: Beats of the window.
WINDOW = 32
#: Beats of a line.
LINE = 8 * LINE_BYTES // CORE.attribute.data_width
#: Clients of an engine.
CLIENTS = 16


def core_bench(window: int = WINDOW) -> CoreBench:
    """Return the core of the accelerator's bench, with a window."""
    return CoreBench(replace(CORE, window=window))


class Engine(Host):
    """A driver that reads the window too.

    Attributes
    ----------
    beats, failures
        What the window has said.
    """

    def __init__(self, dut: Any, bench: Any, memory: Memory) -> None:
        super().__init__(bench, memory, 1)
        self.dut = dut
        self.beats, self.failures = list[dict[str, int]](), list[dict[str, int]]()
        bench.take("window__beats", self.beats.append)
        bench.take("window__failure", self.failures.append)

    @property
    def late(self) -> dict[str, int]:
        """The first SAMPLE in the background that has failed."""
        late: dict[str, int] = self.bench.codecs["completion"].unpack(int(self.dut.late.value))
        return late

    async def sampled(self, roots: list[int], plan: Plan) -> Job:
        """Sample, and leave the attributes to a FETCH."""
        job = self.mirror.job(roots, plan)
        job = replace(job, fields={**job.fields, "later": 1})
        await self.load()
        said = await self.one(job.fields)
        assert (said["error"], said["info"]) == (Error.NONE, 0)
        self.mirror.sampled(job, None)
        return job

    async def stream(self, job: Job, **options: int) -> Job:
        """Begin to fetch what a job has sampled; the answer comes before anything is read."""
        self.beats.clear()
        self.failures.clear()
        report = self.mirror.place(LINE_BYTES)
        given = {"targets": Targets.POSITION, **options}
        fetch = self.mirror.fetch(job, report, streamed=1, targets=given["targets"], flush=given.get("flush", 0))
        said = await self.one(fetch.fields)
        assert (said["error"], said["info"]) == (Error.NONE, 0)
        return fetch

    def rows(self, fetch: Job) -> list[int]:
        """Return the beats of all rows."""
        mirror = self.mirror
        words = mirror.row_bytes // 4
        table = np.stack(
            [mirror.words[mirror._at(mirror.attributes_at, words, n * words)] for n in range(mirror.graph.nodes)]
        )
        out: list[int] = table[fetch.batch.nodes].ravel().view("<u8").tolist()
        return out

    def ask(self, fetch: Job, first: int, end: int) -> list[tuple[int, int]]:
        """Read beats from the window in bursts; return for each whether it ends a burst, and its client."""
        random, out = self.bench.random, []
        at = (fetch.rows * LINE + first) % (MEMORY * 8 // CORE.attribute.data_width)
        while first < end:
            size, client = min(end - first, random.randint(1, 16)), random.randrange(CLIENTS)
            burst = {"address": at % (MEMORY // 8), "length": size - 1, "client": client}
            self.bench.drive("window__reads", [burst])
            first, at = first + size, at + size
            out += [(int(n == size - 1), client) for n in range(size)]
        return out

    async def read(self, fetch: Job) -> None:
        """Read all rows, and wait until nothing is carried out any more."""
        dut, beats = self.dut, self.rows(fetch)
        first, end = int(dut.window__first.value), int(dut.window__end.value)
        assert first == fetch.rows % self.mirror.lines
        assert (end - first) % self.mirror.lines == -(-len(beats) // LINE)
        assert int(dut.background.value) == 1
        lasts = self.ask(fetch, 0, len(beats))
        await self.bench.until(lambda: len(self.beats) == len(beats), 100_000)
        wanted = [
            {"data": data, "error": 0, "last": last, "client": client}
            for data, (last, client) in zip(beats, lasts, strict=True)
        ]
        wrong = [n for n, (beat, want) in enumerate(zip(self.beats, wanted, strict=True)) if beat != want]
        assert not wrong, (wrong[0], self.beats[wrong[0]], wanted[wrong[0]])
        await self.quiet()
        assert int(dut.window__first.value) == int(dut.window__end.value)
        assert not self.failures
        self.mirror.fetched(fetch, self.mirror.flows(fetch, self.rams[0], self.planners[0]))

    async def quiet(self, limit: int = 4000) -> None:
        """Wait until nothing is carried out any more."""
        for _ in range(limit):
            await self.bench.cycles(1)
            if not int(self.dut.background.value):
                return
        raise AssertionError("something goes on in the background")

    async def end_run(self) -> None:
        """Say that there are no more commands, until all has ended; what came late is forgotten behind that."""
        self.dut.ending.value = 1
        await self.bench.cycles(2)
        await self.quiet(20_000)
        await self.bench.cycles(2)
        late = self.late
        self.dut.ending.value = 0
        await self.bench.cycles(1)
        assert self.late == late
        await self.bench.cycles(3)
        assert self.late["error"] == Error.NONE


async def begin(dut: Any) -> Engine:
    dut.ending.value = 0
    return Engine(dut, await start(dut, core_bench()), Memory(dut, 8, Path(parameters()["directory"])))


@cocotb.test()
async def rows_are_read_in_order_while_others_come(dut: Any) -> None:
    engine = await begin(dut)
    random = engine.bench.random
    for number in range(4):
        mirror = engine.place(nodes=256 - 31 * number, row_bytes=(64, 32)[number % 2])
        engine.memory.stall((0, 0.4)[number // 2])
        engine.memory.latency(random.choice((1, 20, 60)))
        engine.bench.pace(idle={"window__reads": (0, 0.5)[number % 2]})
        for n, (roots, plan) in enumerate(plans(random, 5)):
            roots = [root % mirror.graph.nodes for root in roots]
            job = await engine.sampled(roots, plan)
            # Attributes of another memory are forgotten.
            flush = int(n == 0 or random.random() < 0.3)
            fetch = await engine.stream(job, targets=random.choice(list(Targets)), flush=flush)
            await engine.read(fetch)
            # Rows go to memory again.
            job = mirror.job(roots, plan)
            await engine.load()
            await engine.in_two(job)
            await engine.check()
        engine.bench.pace()
    # As many as there are tags.
    mirror = engine.place(row_bytes=32)
    engine.memory.stall(0)
    job = await engine.sampled([random.randrange(256) for _ in range(1 << CORE.attribute.tag_bits)], Plan((), 0))
    await engine.read(await engine.stream(job, flush=1))
    await engine.check()


@cocotb.test()
async def the_next_fetch_waits_for_the_last_row(dut: Any) -> None:
    """Let a SAMPLE that fetches nothing pass it."""
    engine = await begin(dut)
    engine.memory.latency(10)
    # More rows than the window has room for, and fewer.
    for count in (40, 5):
        mirror = engine.place(row_bytes=32)
        beside = mirror.job([2, 3], Plan((3,), 1))
        job = await engine.sampled(list(range(count)), Plan((), 0))
        first = await engine.stream(job, flush=1)
        said = await engine.one({**beside.fields, "later": 1})
        assert (said["error"], said["info"]) == (Error.NONE, 0)
        mirror.sampled(replace(beside, fields={**beside.fields, "later": 1}), None)
        second = mirror.fetch(job, mirror.place(LINE_BYTES), targets=Targets.HASH)
        engine.done.clear()
        engine.send(second.fields)
        await engine.bench.cycles(1500)
        assert not engine.done
        await engine.read(first)
        await engine.finish(1)
        assert engine.done[0]["error"] == Error.NONE
        mirror.fetched(second, mirror.flows(second, engine.rams[0], engine.planners[0]))
        await engine.check()


def wrong(mirror: Mirror, job: Job, place: int, node: int) -> None:
    """Put a VID that the graph does not have among those of a job."""
    mirror.put(job.tree + 1 + 3 * job.fields["span"], [node], place)


@cocotb.test()
async def a_row_that_cannot_be_had_is_an_error_and_so_are_all_behind_it(dut: Any) -> None:
    engine = await begin(dut)
    random = engine.bench.random
    for number in range(16):
        engine.memory.latency(random.randrange(1, 40))
        engine.memory.stall((0, 0.4)[number // 4 % 2])
        mirror = engine.place(row_bytes=(32, 64)[number % 2])
        roots = random.sample(range(2, 200), 30)
        job = await engine.sampled(roots, Plan((), 0))
        await engine.check()
        place, node = random.randrange(30), (1 << 31 - number) | 200
        unread = number // 2 % 2
        if unread:
            # Two rows of 32 bytes have a line in common.
            lines = [root * mirror.row_bytes // LINE_BYTES for root in roots]
            line = mirror.attributes_at + lines[place]
            engine.fail(line, LINE_BYTES)
            place, said = lines.index(lines[place]), {"code": Error.MEMORY_READ, "info": line % mirror.lines}
        else:
            wrong(mirror, job, place, node)
            await engine.load()
            said = {"code": Error.VID_RANGE, "info": place}
        fetch = await engine.stream(job, flush=1)
        beats, good = engine.rows(fetch), place * mirror.row_bytes // 8
        engine.ask(fetch, 0, len(beats))
        await engine.bench.until(lambda: len(engine.beats) == len(beats), 100_000)  # noqa: B023
        errors = [beat["error"] for beat in engine.beats]
        came = errors.index(1)
        assert came <= good
        assert errors == [0] * came + [1] * (len(beats) - came)
        assert [beat["data"] for beat in engine.beats[:came]] == beats[:came]
        assert engine.failures == [said]
        await engine.end_run()
        engine.memory.read_errors(None)
        # What was written is a report; the next FETCH empties the attribute RAM.
        mirror.words[:] = np.frombuffer(await engine.memory.dump(0, MEMORY), "<u4")
        job = await engine.sampled(roots[:7], Plan((2,), 0))
        engine.rams[0].clear()
        await engine.read(await engine.stream(job, flush=1))
        await engine.check()


@cocotb.test()
async def a_run_that_ends_drops_rows(dut: Any) -> None:
    engine = await begin(dut)
    engine.memory.latency(20)
    for read in (0, 1, 9, 40):
        mirror = engine.place(row_bytes=32)
        job = await engine.sampled(list(range(60)), Plan((), 0))
        fetch = await engine.stream(job, flush=1)
        engine.ask(fetch, 0, read)
        await engine.bench.until(lambda: len(engine.beats) == read)  # noqa: B023
        await engine.end_run()
        assert not engine.failures
        mirror.fetched(fetch, mirror.flows(fetch, engine.rams[0], engine.planners[0]))
        await engine.check()
        job = await engine.sampled([3, 2, 1], Plan((2,), 0))
        await engine.read(await engine.stream(job))
        await engine.check()


@cocotb.test()
async def samples_in_the_background_are_answered_at_once(dut: Any) -> None:
    """FETCH goes past one; SAMPLE and COPY wait for it."""
    engine = await begin(dut)
    random = engine.bench.random
    engine.memory.latency(30)
    for roots, plan in plans(random, 5):
        mirror = engine.place(row_bytes=32)
        behind = mirror.job(roots, plan)
        ready = await engine.sampled([5, 6, 7], Plan((3,), 1))
        behind = replace(behind, fields={**behind.fields, "later": 1, "background": 1})
        said = await engine.one(behind.fields)
        assert (said["error"], said["info"]) == (Error.NONE, 0)
        assert said["cycles"] < 60
        assert int(dut.background.value) == 1
        await engine.read(await engine.stream(ready, flush=1))
        mirror.sampled(behind, None)
        # A copy of what it writes.
        target = mirror.place(LINE_BYTES)
        where = {"source": mirror.line(behind.tree), "target": mirror.line(target)}
        said = await engine.one({"opcode": Opcode.COPY, **where, "lines": 1, "tag": 9})
        assert (said["error"], said["info"]) == (Error.NONE, 0)
        mirror.copied(behind.tree, target, 1)
        await engine.quiet()
        assert engine.late["error"] == Error.NONE
        await engine.check()


@cocotb.test()
async def the_first_sample_that_fails_in_the_background_is_reported(dut: Any) -> None:
    engine = await begin(dut)
    random = engine.bench.random
    for number in range(8):
        engine.memory.latency(random.randrange(1, 40))
        engine.memory.stall((0, 0.4)[number % 2])
        mirror = engine.place(row_bytes=32)
        jobs = [mirror.job([random.randrange(2, 256)], Plan((2,), 1)) for _ in range(3)]
        # VIDs that the graph does not have.
        bad = [random.getrandbits(32) | 256 for _ in range(2)]
        for job, vid in zip(jobs, bad, strict=False):
            mirror.put(job.roots, [vid])
        await engine.load()
        first, second, good = (
            {**job.fields, "later": 1, "background": 1, "layer": random.getrandbits(8)} for job in jobs
        )
        for command in (good, first, second, good):
            assert (await engine.one(command))["error"] == Error.NONE
        # What is refused is answered with its error.
        said = await engine.one({**first, "tiles": 0})
        assert (said["error"], said["info"]) == (Error.BAD_OPERAND, 0)
        await engine.quiet()
        said = {"error": Error.VID_RANGE, "info": bad[0], "layer": first["layer"], "tag": first["tag"]}
        assert engine.late == said
        await engine.end_run()
        assert (await engine.one(second))["error"] == Error.NONE
        await engine.quiet()
        assert engine.late["info"] == bad[1]
        await engine.end_run()


def launch(component: CoreBench, given: dict[str, Any], directory: Path, bench: str = __name__) -> None:
    """Run a bench on a core."""
    simulate_with_memory(
        component,
        bench,
        directory,
        name="attribute_core_bench",
        memories={"m_axi": MemoryModel(depth=MEMORY // 8)},
        parameters=given,
    )


def test_core(tmp_path: Path) -> None:
    launch(core_bench(), {"cores": 1, "window": WINDOW}, tmp_path)
