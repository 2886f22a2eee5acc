"""Command processor, cores and DMA: one and two cores do the same, barriers hold, errors end their own command only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import cocotb
import numpy as np

from contracts import COMMANDS, LINE_BYTES, Error, Flow, Opcode, Policy, Targets
from golden.attributes.cache import AttributeRam, hashed_slot
from golden.attributes.planner import SlotPlanner
from golden.attributes.sampler import Plan
from hw.attributes.accelerator import AttributeAccelerator
from hw.attributes.factories import CORE
from sim.harness import BuildOptions, parameters
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles
from sim.harness.modules import module_sources
from sim.models.memory import Memory
from sim.models.simulate import simulate_with_memory
from sim.models.wrap import MemoryModel
from tb.attributes.mirror import Copies, Job, Mirror
from tb.harness.marks import full

#: Bytes of the memory, all that can be addressed.
MEMORY = 1 << 20


class Host:
    """The driver: one memory, whose contents after every command are known to the last word."""

    def __init__(self, bench: Bench, memory: Memory, cores: int) -> None:
        self.bench, self.memory, self.cores = bench, memory, cores
        attribute = CORE.attribute
        self.rams = [AttributeRam(attribute.slots, attribute.ways, Policy.LRU) for _ in range(cores)]
        self.planners = [SlotPlanner(attribute.slots, CORE.ahead) for _ in range(cores)]
        self.done: list[dict[str, int]] = []
        bench.take("completion", self.done.append)
        self.restart()

    def restart(self) -> None:
        """Forget what the cores know, as a reset does."""
        self.turn = 0
        for ram, planner in zip(self.rams, self.planners, strict=True):
            ram.clear()
            planner.forget()

    def place(self, random: Random | None = None, **sizes: int) -> Mirror:
        """Make another memory; `load` writes it."""
        self.mirror = Mirror(random or self.bench.random, MEMORY, **sizes)
        self.bench.dut.base.value = self.mirror.base
        return self.mirror

    async def load(self) -> None:
        """Write the memory."""
        await self.memory.load(self.mirror.words.astype("<u4").tobytes())

    def fail(self, line: int, size: int, writes: bool = False) -> None:
        """Let accesses of so many bytes from a line on fail; they must not lie around the end of the memory."""
        first = line % self.mirror.lines * LINE_BYTES
        (self.memory.write_errors if writes else self.memory.read_errors)(range(first, first + size))

    def send(self, *commands: dict[str, int]) -> None:
        """Queue commands."""
        # What is refused has the fields of another command.
        layouts = [COMMANDS[Opcode.SAMPLE if "root_count" in c else Opcode(c["opcode"])] for c in commands]
        self.bench.drive("command", [layout.pack(c) for layout, c in zip(layouts, commands, strict=True)])

    async def finish(self, count: int, limit: int = 400_000) -> list[dict[str, int]]:
        """Wait for `count` completions."""
        await self.bench.until(lambda: len(self.done) >= count, limit)
        await self.bench.cycles(8)
        assert len(self.done) == count
        return self.done

    async def one(self, command: dict[str, int]) -> dict[str, int]:
        """Carry out one command; return what it said, tag and layer apart, and the cycles it took as ``cycles``."""
        self.done.clear()
        began = self.bench.cycle
        self.send(command)
        await self.bench.until(lambda: bool(self.done), 400_000)
        took = self.bench.cycle - began
        (said,) = await self.finish(1)
        assert (said["tag"], said["layer"]) == (command["tag"], command.get("layer", 0))
        self.turn += 1
        return {"error": said["error"], "info": said["info"], "cycles": took}

    async def sample(self, job: Job) -> int:
        """Carry out one SAMPLE command, compare all it does, and return the cycles it took."""
        said = await self.one(job.fields)
        assert (said["error"], said["info"]) == (Error.NONE, 0)
        ram = self.rams[self.turn % self.cores]
        self.mirror.sampled(job, self.mirror.flows(job, ram))
        await self.check()
        return said["cycles"]

    async def begin_anew(self, jobs: Sequence[Job], cut: int) -> None:
        """Write the memory, send SAMPLE commands and reset after `cut` cycles; then carry all of them out."""
        await self.load()
        self.send(*(job.fields for job in jobs))
        await self.bench.cycles(cut)
        await self.bench.reset()
        self.restart()
        await self.load()
        for job in jobs:
            await self.sample(job)

    async def in_two(self, job: Job, report: int | None = None) -> None:
        """Sample and fetch with a command each, which may be carried out by different cores; compare all they do.

        The counts go to line `report`, or where there is room.
        """
        job = replace(job, fields={**job.fields, "later": 1})
        said = await self.one(job.fields)
        assert (said["error"], said["info"]) == (Error.NONE, 0)
        self.mirror.sampled(job, None)
        await self.check()
        await self.fetch(job, flush=self.bench.random.randrange(2), report=report)

    async def fetch(
        self,
        job: Job,
        copies: Copies | None = None,
        used: Copies | None = None,
        error: Error = Error.NONE,
        flush: int = 0,
        report: int | None = None,
    ) -> None:
        """Fetch what was sampled, with the table of `copies`; compare the rows with those that are `used`.

        The counts go to line `report`, or where there is room.
        """
        mirror = self.mirror
        targets = self.bench.random.choice(list(Targets))
        report = mirror.place(LINE_BYTES) if report is None else report
        fetch = mirror.fetch(job, report, targets=targets, flush=flush, copies=copies)
        said = await self.one(fetch.fields)
        assert said["error"] == error
        assert error or said["info"] == 0
        core = self.turn % self.cores
        mirror.fetched(fetch, mirror.flows(fetch, self.rams[core], self.planners[core]), used)
        await self.check()

    async def check(self) -> None:
        """Compare the whole memory."""
        got = np.frombuffer(await self.memory.dump(0, MEMORY), "<u4")
        wrong = np.flatnonzero(got != self.mirror.words)
        assert not wrong.size, f"{wrong.size} words differ, the first is {wrong[0]:#x}"


def plans(random: Random, count: int) -> list[tuple[list[int], Plan]]:
    """Roots, hops, fan-outs and negatives that the core has room for."""
    out: list[tuple[list[int], Plan]] = []
    while len(out) < count:
        hops = len(out) % 5
        fan_out = tuple(random.randrange(1, CORE.most + 1) for _ in range(hops))
        roots = [random.randrange(256) for _ in range(random.randrange(1, 16))]
        inner, level = 0, len(roots)
        for fan in fan_out:
            inner, level = inner + level, level * fan
        if inner <= CORE.frontier:
            negatives = random.choice((0, random.randrange(CORE.most + 1)))
            out.append((roots, Plan(fan_out, negatives, random.getrandbits(32))))
    return out


def beside_an_engine() -> bool:
    """Whether the one core has a window, and somebody who waits for what goes on in the background."""
    return bool(parameters().get("window"))


async def begin(dut: Any) -> Host:
    cores = parameters()["cores"]
    if beside_an_engine():
        dut.ending.value = 0
    bench = await start(dut, AttributeAccelerator(CORE, cores))
    return Host(bench, Memory(dut, 8, Path(parameters()["directory"])), cores)


@cocotb.test()
async def batches_are_those_of_the_golden_model(dut: Any) -> None:
    host = await begin(dut)
    random = host.bench.random
    for number in range(4):
        mirror = host.place(nodes=256 - 31 * number, tiles=(1, 2, 113, 3)[number], row_bytes=(64, 32)[number % 2])
        jobs = [
            mirror.job(
                [root % mirror.graph.nodes for root in roots], plan,
                targets=random.randrange(2), flush=int(n < host.cores),
            )
            for n, (roots, plan) in enumerate(plans(random, 5))
        ]  # fmt: skip
        await host.load()
        stall = (0, 0.4)[number % 2]
        host.memory.stall(stall)
        host.memory.latency(random.choice((1, 20, 50)))
        host.bench.pace(stall=stall)
        for job in jobs:
            await host.sample(job)
        for job in jobs:
            await host.in_two(job)


@cocotb.test()
async def commands_side_by_side_do_what_they_do_alone(dut: Any) -> None:
    host = await begin(dut)
    mirror = host.place()
    host.memory.latency(20)
    jobs = [mirror.job(roots, plan, flush=1) for roots, plan in plans(host.bench.random, 10)]
    await host.load()
    host.bench.pace(stall=0.5)
    host.send(*(job.fields for job in jobs))
    done = await host.finish(len(jobs))
    assert not any(one["error"] or one["info"] for one in done)
    assert sorted((one["tag"], one["layer"]) for one in done) == sorted(
        (job.fields["tag"], job.fields["layer"]) for job in jobs
    )
    for job in jobs:
        mirror.sampled(job, mirror.flows(job, host.rams[0]))
    await host.check()


def chain(ram: AttributeRam, flow: Flow, count: int, targets: bool, random: Random) -> list[int]:
    """Return roots that all meet the same in the RAM, or all but those for which there is no such node."""
    out = []
    for position in range(count):
        nodes = list(range(256))
        random.shuffle(nodes)

        def slot(node: int, position: int = position) -> int:
            return position % ram.slots if targets else hashed_slot(node, ram.slots)

        meets: dict[Flow, Callable[[int], bool]] = {
            Flow.IN_PLACE: lambda node: ram.buffer[slot(node)] == node,
            Flow.CACHED: lambda node: node in ram.cache,
            Flow.MOVED: lambda node: node in ram.buffer and ram.buffer[slot(node)] != node,
            Flow.MISSED: lambda node: node not in ram.buffer and node not in ram.cache,
        }
        node = next(filter(meets[flow], nodes), nodes[0])
        ram.request(node, slot(node))
        out.append(node)
    return out


@cocotb.test()
async def every_count_goes_as_far_as_there_are_tags(dut: Any) -> None:
    host = await begin(dut)
    random, most = host.bench.random, 1 << CORE.attribute.tag_bits
    host.memory.latency(1)
    cores = host.cores
    slots, ways = CORE.attribute.slots, CORE.attribute.ways
    for flow in (Flow.MISSED, Flow.CACHED, Flow.MOVED, Flow.IN_PLACE):
        mirror = host.place(row_bytes=64 if flow == Flow.MISSED else 32)
        # A command fills a core's RAM, and in one more all meet the same.
        ram = AttributeRam(slots, ways)
        fill = mirror.job(chain(ram, Flow.MISSED, slots + ways, True, random), Plan((), 0), flush=1)
        job = mirror.job(chain(ram, flow, most, True, random), Plan((), 0))
        await host.load()
        for _ in range(cores):
            await host.sample(fill)
        for _ in range(cores):
            await host.sample(job)
            assert mirror.get(job.tree, 12)[8 + int(flow)] == most
    # All that may be negatives, and all that may be expanded.
    mirror = host.place(row_bytes=32)
    jobs = [
        mirror.job([random.randrange(256) for _ in range(most // 6)], Plan((), 5, 8), targets=0, flush=1),
        mirror.job([random.randrange(2, 256) for _ in range(40)], Plan((5,), 0, 9), flush=1),
        mirror.job([0] * 40, Plan((5,), 5, 10), targets=0),
        mirror.job([0], Plan((1, 1, 1, 5), 0, 11)),
        mirror.job([0] * 10, Plan((1, 1, 1, 5), 0, 11)),
    ]
    await host.load()
    for job in jobs:
        await host.sample(job)


@cocotb.test()
async def a_barrier_waits_for_all_before_and_holds_all_behind(dut: Any) -> None:
    host = await begin(dut)
    mirror = host.place()
    jobs = [mirror.job(roots, plan, flush=1) for roots, plan in plans(host.bench.random, 4)]
    await host.load()
    barrier = {"opcode": Opcode.BARRIER, "tag": 0xA577, "layer": 0x95}
    busy = host.bench.dut.busy
    assert int(busy.value) == 0
    samples = [job.fields for job in jobs]
    host.send(samples[0], samples[1], barrier, samples[2], samples[3], {**barrier, "tag": 0x5A88})
    await host.bench.cycles(50)
    assert int(busy.value) == (1 << min(2, host.cores)) - 1
    done = await host.finish(6)
    assert int(busy.value) == 0
    tags = [one["tag"] for one in done]
    assert set(tags[:2]) == {sample["tag"] for sample in samples[:2]}
    assert (tags[2], tags[5]) == (0xA577, 0x5A88)
    assert done[2] == {"error": 0, "info": 0, "layer": 0x95, "tag": 0xA577}
    for job in jobs:
        mirror.sampled(job, mirror.flows(job, host.rams[0]))
    await host.check()


@cocotb.test()
async def copies_move_lines(dut: Any) -> None:
    host = await begin(dut)
    mirror = host.place()
    await host.load()
    host.memory.latency(20)
    random = host.bench.random
    for lines in (1, 0, 37, 2, 1 << 9):
        source = random.randrange(mirror.lines)
        target = source + lines + random.randrange(mirror.lines - 2 * lines)
        where = {"source": mirror.line(source), "target": mirror.line(target)}
        command = {"opcode": Opcode.COPY, **where, "lines": lines, "tag": random.getrandbits(16)}
        said = await host.one({**command, "layer": random.getrandbits(8)})
        assert (said["error"], said["info"]) == (0, 0)
        mirror.copied(source, target, lines)
        await host.check()
        await host.bench.cycles(random.randrange(5))


@cocotb.test()
async def a_copy_may_be_longer_than_half_the_memory(dut: Any) -> None:
    host = await begin(dut)
    mirror = host.place()
    await host.load()
    host.memory.latency(1)
    # The last lines read are the first ones written.
    lines, source = mirror.lines // 2 + 20, host.bench.random.randrange(mirror.lines)
    where = {"source": mirror.line(source), "target": mirror.line(source + mirror.lines // 2)}
    said = await host.one({"opcode": Opcode.COPY, **where, "lines": lines, "tag": 3})
    assert (said["error"], said["info"]) == (0, 0)
    mirror.copied(source, source + mirror.lines // 2, lines)
    await host.check()
    for bit in range(32):
        if 1 << bit > mirror.lines or bit == 0:
            lines = 1 << bit | (0 if bit else mirror.lines)
            said = await host.one({"opcode": Opcode.COPY, **where, "lines": lines, "tag": bit})
            assert (said["error"], said["info"]) == (Error.BAD_OPERAND, lines)
    await host.check()


@cocotb.test()
async def commands_take_so_many_cycles(dut: Any) -> None:
    host = await begin(dut)
    random = Random(11)
    mirror = host.place(random, tiles=2)
    host.memory.latency(20)
    jobs = [mirror.job(roots, plan, targets=n & 1, flush=1) for n, (roots, plan) in enumerate(plans(random, 5))]
    await host.load()
    for hops, job in enumerate(jobs):
        took = await host.sample(job)
        expect_cycles(f"attributes.accelerator.{host.cores}.sample.{hops}", took)
    for lines in (0, 7):
        where = {"source": mirror.line(0), "target": mirror.line(7)}
        said = await host.one({"opcode": Opcode.COPY, **where, "lines": lines, "tag": 0})
        expect_cycles(f"attributes.accelerator.{host.cores}.copy.{lines}", said["cycles"])
    mirror.copied(0, 7, 7)
    said = await host.one({"opcode": Opcode.NOP, "tag": 0})
    expect_cycles(f"attributes.accelerator.{host.cores}.nop", said["cycles"])
    host.done.clear()
    host.send({"opcode": Opcode.NOP, "tag": 0})
    busy = []
    for _ in range(12):
        await host.bench.cycles(1)
        busy.append(int(host.bench.dut.busy.value) != 0)
    expect_cycles(f"attributes.accelerator.{host.cores}.nop.begins", busy.index(True))
    expect_cycles(f"attributes.accelerator.{host.cores}.nop.busy", sum(busy))
    await host.finish(1)
    said = await host.one({"opcode": Opcode.BARRIER, "tag": 0})
    expect_cycles(f"attributes.accelerator.{host.cores}.barrier", said["cycles"])
    await host.check()


@cocotb.test()
async def bad_operands_are_refused_and_the_next_command_works(dut: Any) -> None:
    host = await begin(dut)
    random = host.bench.random
    mirror = host.place()
    job = mirror.job([5, 6, 7, 8], Plan((4, 3), 2, 21), flush=1)
    await host.load()
    good, fan, most = job.fields, CORE.most + 1, 1 << CORE.attribute.tag_bits
    cases: list[tuple[dict[str, int], Error, int]] = [
        ({"fan_out": 4}, Error.FAN_OUT, 0),
        ({"fan_out": fan | 3 << 8}, Error.FAN_OUT, fan),
        ({"fan_out": 4 | 255 << 8}, Error.FAN_OUT, 255),
        *(
            ({"hops": hops, "root_count": 1, "fan_out": bad << 8 * hops - 8 | 0x01010101 >> 8 * (5 - hops)},
             Error.FAN_OUT, bad)
            for hops in range(1, 5) for bad in (0, fan, 8, 16, 32, 64, 128)
        ),
        ({"negatives": fan}, Error.FAN_OUT, fan),
        ({"row_bytes": 0}, Error.BAD_OPERAND, 0),
        ({"row_bytes": 96}, Error.BAD_OPERAND, 96),
        ({"row_bytes": 36}, Error.BAD_OPERAND, 36),
        ({"vertices": 257}, Error.BAD_OPERAND, 257),
        ({"first_vertex": 1}, Error.BAD_OPERAND, 1),
        ({"tiles": 0}, Error.BAD_OPERAND, 0),
        ({"hops": 5}, Error.BAD_OPERAND, 5),
        ({"hops": 7}, Error.BAD_OPERAND, 7),
        # Nobody waits for a core that is alone.
        *(
            ({"later": later, "background": 1}, Error.BAD_OPERAND, 1)
            for later in range(1 if beside_an_engine() else 2)
        ),
        ({"span": 1}, Error.BAD_OPERAND, 4 + 16 + 48 + 8),
        # What a SAMPLE fetches is not known before.
        ({"targets": Targets.AHEAD}, Error.BAD_OPERAND, Targets.AHEAD),
        ({"targets": 3}, Error.BAD_OPERAND, 3),
        # Keys of edges take the place of no ID, and have room behind all VIDs.
        ({"paired": 1}, Error.BAD_OPERAND, 1),
        *(
            ({"paired": 1, "later": 1, "vertices": 100, "edge_count": count}, Error.BAD_OPERAND, count)
            for count in (156, *((1 << bit) - 100 for bit in range(8, 33)), (1 << 32) - 1)
        ),
        # Roots, and what would be expanded: one more than there is room for, and as many as can be said.
        ({"root_count": 9}, Error.BAD_OPERAND, 9 + 36),
        ({"root_count": 41, "hops": 1}, Error.BAD_OPERAND, 41),
        ({"root_count": 0xFFFF, "hops": 1}, Error.BAD_OPERAND, 0xFFFF),
        ({"root_count": 40, "hops": 2, "fan_out": 0x505}, Error.BAD_OPERAND, 40 + 200),
        ({"root_count": 3, "hops": 4, "fan_out": 0x05050303}, Error.BAD_OPERAND, 3 + 9 + 27 + 135),
        *(
            ({"root_count": count, "hops": 0, "negatives": 0, "span": (1 << 18) - 1}, Error.BAD_OPERAND, count)
            for count in (most + 1, most + 2, most + 64)
        ),
        ({"root_count": 16, "hops": 0, "negatives": 0, "span": 1}, Error.BAD_OPERAND, 16),
        ({"root_count": 2 * most, "hops": 0, "negatives": 0, "span": (1 << 18) - 1}, Error.BAD_OPERAND, 2 * most),
        ({"root_count": 0xFFFF, "hops": 0, "negatives": 5}, Error.BAD_OPERAND, 6 * 0xFFFF),
        ({"root_count": 0xAAAA, "hops": 0, "negatives": 3, "span": (1 << 18) - 1}, Error.BAD_OPERAND, 4 * 0xAAAA),
        ({"opcode": 0xFF}, Error.BAD_OPCODE, 0xFF),
        # What other units do, and every bit of what nothing does.
        *(({"opcode": code}, Error.BAD_OPCODE, code) for code in (Opcode.COMBINE, 16, 32, 64, 128)),
    ]  # fmt: skip
    # Every bit that may not be set is seen, and said.
    wrong_bits = {
        "vertices": range(9, 32), "first_vertex": range(32), "row_bytes": [*range(5), *range(7, 32)],
        "negatives": range(3, 8),
    }  # fmt: skip
    for field, bits in wrong_bits.items():
        code = Error.FAN_OUT if field == "negatives" else Error.BAD_OPERAND
        cases += [({field: value}, code, value) for bit in bits for value in [1 << bit | good.get(field, 0)]]
    for changes, error, info in cases:
        said = await host.one({**good, **changes, "tag": random.getrandbits(16), "layer": random.getrandbits(8)})
        assert (said["error"], said["info"]) == (error, info), changes
    # A core that is alone has no window.
    fetch = mirror.fetch(job, job.tree, targets=0).fields
    for name, value in (
        ("row_bytes", 96), ("vertices", 257), ("first_vertex", 1), ("tiles", 0), ("count", most + 1), ("targets", 3),
        *([] if beside_an_engine() else [("streamed", 1)]),
        *(("count", 1 << bit) for bit in range(32) if 1 << bit > most),
        *(
            (field, 1 << bit | fetch.get(field, 0))
            for field, bits in wrong_bits.items() if field != "negatives" for bit in bits
        ),
        *(("vertices", 1 << bit | 257) for bit in range(9)),
    ):  # fmt: skip
        said = await host.one({**fetch, name: value})
        assert (said["error"], said["info"]) == (Error.BAD_OPERAND, value), name
    said = await host.one({"opcode": Opcode.NOP, "tag": 1, "layer": 0x5A})
    assert (said["error"], said["info"]) == (0, 0)
    # Nothing has been written.
    await host.sample(job)


@cocotb.test()
async def arrays_may_be_far_from_each_other(dut: Any) -> None:
    host = await begin(dut)
    for number in range(12):
        mirror = host.place(nodes=64, row_bytes=32)
        # Every bit of a span counts.
        job = mirror.job([3, 2], Plan((3,) * (number % 3), number % 2, 5), flush=1, wild=True)
        await host.load()
        await host.sample(job)
    mirror = host.place(nodes=64, row_bytes=32)
    job = mirror.job([1] * 15, Plan((), 0))
    for bit in range(18):
        # Where the arrays are does not matter here, only whether there is room for them.
        await host.load()
        said = await host.one({**job.fields, "span": 1 << bit, "flush": 1})
        assert said["error"] == Error.NONE
        if 16 << bit <= 1 << CORE.attribute.tag_bits:
            said = await host.one({**job.fields, "span": 1 << bit, "root_count": 16 << bit})
            assert (said["error"], said["info"]) == (Error.BAD_OPERAND, 16 << bit)


@cocotb.test()
async def keys_of_edges_stand_behind_vids(dut: Any) -> None:
    host = await begin(dut)
    random = host.bench.random
    for number in range(6):
        mirror = host.place(nodes=24, row_bytes=32, keyed=1)
        mirror_edges = mirror.first + mirror.graph.edges.size
        host.memory.stall(random.choice((0, 0.4)))
        for plan in (Plan((3, 2), number % 3, number), Plan((), 2, 5), Plan((4,), 0, 6)):
            job = mirror.job([random.randrange(24) for _ in range(1 + number)], plan, paired=1)
            # The last key is that of no edge, and the largest that there is.
            assert 24 + mirror_edges < 1 << CORE.attribute.id_bits
            await host.load()
            said = await host.one(job.fields)
            assert (said["error"], said["info"]) == (Error.NONE, 0)
            mirror.sampled(job, None)
            await host.check()
    host.memory.stall(0)


@cocotb.test()
async def errors_of_data_and_memory_end_one_command_only(dut: Any) -> None:
    host = await begin(dut)
    random = host.bench.random
    host.memory.latency(20)
    for _ in range(2 * host.cores):
        mirror = host.place(tiles=random.choice((1, 2)))
        graph, lines = mirror.graph, mirror.lines
        # Roots whose neighbours are all sampled.
        few = [n for n in range(2, 256) if 2 <= graph.offsets[n + 1] - graph.offsets[n] <= CORE.most]
        first, second = random.sample(few, 2)
        neighbours = [graph.edges[graph.offsets[n] : graph.offsets[n + 1]] for n in (first, second)]
        positive = mirror.job([first, second], Plan((5,), 0, 21), flush=1)
        negative = mirror.job([first, second], Plan((), 3, 22), flush=1)
        both = mirror.job([first, second], Plan((5, 2), 2, 23), flush=1)

        async def fails(job: Job, error: Error, info: int, **changes: int) -> None:
            said = await host.one({**job.fields, **changes})
            assert (said["error"], said["info"]) == (error, info)

        await host.load()
        offsets_line = mirror.offsets_at + first * mirror.tiles // 16
        edges_line = mirror.edges_at + (mirror.first + int(graph.offsets[first])) // 16
        reads = {
            offsets_line: (positive, negative, both),
            edges_line: (positive, negative, both),
            mirror.attributes_at + first: (positive, negative, both),
        }
        for line, jobs in reads.items():
            host.fail(line, LINE_BYTES)
            for job in jobs:
                await fails(job, Error.MEMORY_READ, line % lines)
        for job in (positive, negative):
            line = job.roots
            host.fail(line, LINE_BYTES)
            await fails(job, Error.MEMORY_READ, line % lines)
        host.memory.read_errors(None)
        for line in (both.tree, both.rows, *(both.tree + 1 + n * both.fields["span"] for n in range(4))):
            host.fail(line, LINE_BYTES, writes=True)
            await fails(both, Error.MEMORY_WRITE, line % lines)
        host.fail(both.tree, LINE_BYTES, writes=True)
        await fails(
            both, Error.MEMORY_WRITE, both.tree % lines,
            opcode=Opcode.COPY, first_vertex=mirror.line(both.rows), vertices=mirror.line(both.tree), offsets=1,
        )  # fmt: skip
        host.memory.write_errors(None)
        # The first one counts.
        for job in (positive, both):
            await fails(job, Error.VID_RANGE, first, vertices=min(first, second))
            await fails(job, Error.VID_RANGE, max(first, second), vertices=max(first, second))
        above = [int(node) for row in neighbours for node in row if node > max(first, second)]
        if above:
            await fails(positive, Error.VID_RANGE, above[0], vertices=max(first, second) + 1)
        end = mirror.first + int(graph.offsets[first + 1])
        if second < first:
            for job in (positive, negative, both):
                await fails(job, Error.EDGE_RANGE, first, edge_count=end - 1)
            assert (await host.one({**positive.fields, "edge_count": end}))["error"] == Error.NONE
        saved = mirror.words.copy()
        mirror.put(mirror.offsets_at, [mirror.first + int(graph.offsets[first]) - 1], (first + 1) * mirror.tiles)
        await host.load()
        for job in (positive, negative):
            await fails(job, Error.OFFSET_ORDER, first)
        mirror.words[:] = saved
        await host.load()
        for job in (positive, negative, both):
            await host.sample(job)


@cocotb.test()
async def the_last_edge_is_in_the_graph_and_the_next_one_not(dut: Any) -> None:
    host = await begin(dut)
    host.memory.latency(1)
    # Ends of rows are anywhere in 32 bits, so that each bit of their number is 0 in some and 1 in others.
    for _ in range(8):
        mirror = host.place()
        node = host.bench.random.randrange(2, 256)
        job = mirror.job([node], Plan((5,), 0, 3), flush=1)
        end = mirror.first + int(mirror.graph.offsets[node + 1])
        await host.load()
        said = await host.one({**job.fields, "edge_count": end - 1})
        assert (said["error"], said["info"]) == (Error.EDGE_RANGE, node)
        said = await host.one({**job.fields, "edge_count": end})
        assert (said["error"], said["info"]) == (Error.NONE, 0)


@cocotb.test()
async def what_cannot_be_read_is_not_copied(dut: Any) -> None:
    host = await begin(dut)
    mirror = host.place()
    await host.load()
    host.memory.latency(1)
    for lines, bad in ((1, 0), (5, 2), (40, 39)):
        # The lines that fail are in the middle of the memory, so that they do not lie around its end.
        source = mirror.lines // 2 + host.bench.random.randrange(100)
        target = host.bench.random.randrange(mirror.lines // 4)
        host.fail(source + bad, LINE_BYTES)
        where = {"source": mirror.line(source), "target": mirror.line(target)}
        said = await host.one({"opcode": Opcode.COPY, **where, "lines": lines, "tag": 1})
        assert (said["error"], said["info"]) == (Error.MEMORY_READ, source + bad)
        mirror.copied(source, target, bad)
        mirror.copied(source + bad + 1, target + bad + 1, lines - bad - 1)
        host.memory.read_errors(None)
        await host.check()


@cocotb.test()
async def every_id_has_its_hashed_slot(dut: Any) -> None:
    host = await begin(dut)
    random, slots = host.bench.random, CORE.attribute.slots
    mirror = host.place(row_bytes=32)
    host.memory.latency(1)
    at: list[list[int]] = [[] for _ in range(slots)]
    for node in range(256):
        at[hashed_slot(node, slots)].append(node)
    # An ID, one that takes its slot, and the first again: it has gone from there.
    roots = []
    for node in range(256):
        roots += [node, random.choice([other for other in at[hashed_slot(node, slots)] if other != node]), node]
    jobs = [mirror.job(roots, Plan((), 0), targets=0, flush=1)] * host.cores
    await host.load()
    for job in jobs:
        await host.sample(job)


@cocotb.test()
async def a_wrong_vid_has_no_row(dut: Any) -> None:
    host = await begin(dut)
    random = host.bench.random
    host.memory.latency(20)
    # More bits than IDs have, and IDs that the graph does not have.
    beyond = [(256, random.randrange(256) | 1 << bit) for bit in range(CORE.attribute.id_bits, 32)]
    inside = [(nodes, wrong) for nodes in (85, 128, 170) for wrong in (nodes, random.randrange(nodes, 256))]
    for number, (nodes, wrong) in enumerate([*beyond, *beyond, *inside]):
        mirror = host.place(nodes=nodes, row_bytes=32)
        good = random.randrange(nodes)
        job = mirror.job([good, good, good], Plan((), 0), targets=number & 1, flush=1)
        # Each of them in either half of a beat.
        place = int(number < len(beyond))
        mirror.put(job.roots, [wrong], place)
        await host.load()
        said = await host.one(job.fields)
        assert (said["error"], said["info"]) == (Error.VID_RANGE, wrong)
        # What it is, and that it was asked for, is written all the same.
        kept = mirror.words.copy()
        mirror.sampled(job, mirror.flows(job, AttributeRam(CORE.attribute.slots, CORE.attribute.ways)))
        mirror.put(job.tree + 1 + 3 * job.fields["span"], [wrong], place)
        at = (job.rows * 16 + 8 * place + np.arange(8)) % mirror.words.size
        mirror.words[at] = kept[at]
        header = mirror.get(job.tree, 16)
        again = Flow.MOVED if number & 1 else Flow.IN_PLACE
        header[8 + int(Flow.IN_PLACE) : 8 + int(Flow.MISSED) + 1] = 0
        header[8 + int(Flow.MISSED)] = 1
        header[8 + int(again)] += 1
        mirror.put(job.tree, header)
        await host.check()


@cocotb.test()
async def rows_are_read_from_their_copies(dut: Any) -> None:
    host = await begin(dut)
    random, cells = host.bench.random, CORE.attribute.replicas
    mirror = host.place()
    host.bench.pace(stall=0.2)
    jobs = []
    await host.load()
    for _ in range(4):
        jobs.append(
            replace(
                job := mirror.job([random.randrange(256) for _ in range(24)], Plan((2,), 1, 7)),
                fields={**job.fields, "later": 1},
            )
        )
    first, other = mirror.copies(cells), mirror.copies(cells)
    await host.load()
    for job in jobs:
        await host.one(job.fields)
        mirror.sampled(job, None)

    async def everywhere(job: Job, *given: Any, **more: Any) -> None:
        for _ in range(host.cores):
            await host.fetch(job, *given, **more)

    # A table is read when attributes are forgotten, and stays; without one, rows are those of the graph.
    await everywhere(jobs[0], first, first, flush=1)
    await everywhere(jobs[1], first, first)
    await everywhere(jobs[2], flush=1)
    await everywhere(jobs[3], first, first, flush=1)
    await everywhere(jobs[0], other, other, flush=1)
    # A table of which a word cannot be read is not used, until it is read anew.
    for line in (0, cells * 4 // LINE_BYTES - 1):
        host.fail(other.line + line, 4)
        await everywhere(jobs[1], other, error=Error.MEMORY_READ, flush=1)
        host.memory.read_errors(None)
        await everywhere(jobs[2], other)
        await everywhere(jobs[1], other, other, flush=1)
    # After a reset there is none.
    for cut in (30, 60, 90, 120):
        host.send(mirror.fetch(jobs[0], mirror.place(LINE_BYTES), targets=0, flush=1, copies=first).fields)
        await host.bench.cycles(cut)
        await host.bench.reset()
        host.restart()
        host.done.clear()
        await host.load()
        await everywhere(jobs[3], first)
    await everywhere(jobs[3], first, first, flush=1)


@cocotb.test()
async def a_reset_in_the_middle_changes_nothing_later(dut: Any) -> None:
    host = await begin(dut)
    mirror = host.place()
    jobs = [mirror.job(roots, plan) for roots, plan in plans(host.bench.random, 3)]
    for cut in (40, 150, 600):
        await host.begin_anew(jobs, cut)


def launch(component: AttributeAccelerator, given: dict[str, Any], directory: Path) -> None:
    """Run the bench on an accelerator; cores that are left out of it are compiled apart, once."""
    name = f"attribute_accelerator_{given['cores']}"
    simulate_with_memory(
        component,
        __name__,
        directory,
        name=name,
        memories={"m_axi": MemoryModel(depth=MEMORY // 8)},
        parameters=given,
        sources=module_sources(component, name),
        options=BuildOptions(blocks=tuple(component.modules)),
    )


@full
def test_one_core(tmp_path: Path) -> None:
    launch(AttributeAccelerator(CORE, 1), {"cores": 1}, tmp_path)


def test_two_cores(tmp_path: Path) -> None:
    launch(AttributeAccelerator(CORE, 2, once=True), {"cores": 2}, tmp_path)
