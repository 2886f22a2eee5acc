"""A core with IDs of 32 bits on a sparse memory of 40 bits of addresses: every command, exact to the last word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
import pytest

from contracts import LINE_BYTES, VID_BITS, Error, Opcode, Targets
from golden.attributes.sampler import Plan
from hw.attributes.accelerator import AttributeAccelerator
from hw.attributes.factories import CORE
from sim.harness import parameters
from sim.harness.bench import Bench, start
from sim.models.simulate import simulate_with_memory
from sim.models.sparse import SparseMemory
from tb.attributes.far_memory import ADDRESS_BITS, NODES, FarMirror, memory_model
from tb.attributes.mirror import Job
from tb.attributes.test_accelerator import Host, plans
from tb.harness.marks import full

#: Nodes of a graph whose edges have keys: as many edges, and the last key is that of no edge.
KEYED = (1 << VID_BITS - 1) - 1


def accelerator(data_width: int) -> AttributeAccelerator:
    beats = CORE.attribute.row_beats * CORE.attribute.data_width // data_width
    # Without a table of replicas.
    attribute = replace(
        CORE.attribute, id_bits=VID_BITS, address_width=ADDRESS_BITS, data_width=data_width, row_beats=beats, replicas=0
    )
    return AttributeAccelerator(replace(CORE, attribute=attribute), 1)


class FarHost(Host):
    """The driver, whose memory is sparse."""

    mirror: FarMirror
    memory: SparseMemory

    def far(self, *, nodes: int = NODES, edge_count: int = NODES, **sizes: int) -> FarMirror:
        """Make another memory; `load` writes it."""
        self.mirror = FarMirror(self.bench.random, nodes=nodes, edge_count=edge_count, **sizes)
        self.bench.dut.base.value = self.mirror.base
        return self.mirror

    def roots(self, some: list[int]) -> list[int]:
        """Return nodes that exist instead of any numbers."""
        ids = self.mirror.far.ids
        return [ids[number % len(ids)] for number in some]

    async def load(self) -> None:
        """Write the memory."""
        await self.mirror.pages.load(self.memory)

    def fail(self, line: int, size: int, writes: bool = False) -> None:
        """Let accesses of so many bytes from a line on fail."""
        first = line * LINE_BYTES
        (self.memory.write_errors if writes else self.memory.read_errors)(range(first, first + size))

    async def check(self) -> None:
        """Compare all pages."""
        got = np.frombuffer(await self.memory.contents(), "<u4")
        wrong = np.flatnonzero(got != self.mirror.pages.ordered)
        page = self.mirror.pages.pages[wrong[0] // 1024] if wrong.size else 0
        assert not wrong.size, f"{wrong.size} words differ, the first is word {wrong[0] % 1024} of page {page:#x}"


async def begin(dut: Any) -> FarHost:
    given = parameters()
    bench: Bench = await start(dut, accelerator(given["data_width"]))
    return FarHost(bench, SparseMemory(dut, given["data_width"] // 8, Path(given["directory"])), 1)


@cocotb.test()
async def batches_are_those_of_the_golden_model(dut: Any) -> None:
    host = await begin(dut)
    random, sampled = host.bench.random, set[int]()
    for number in range(4):
        mirror = host.far(tiles=(1, 2, 113, 3)[number], row_bytes=(64, 32)[number % 2])
        jobs = [
            mirror.job(host.roots(roots), plan, targets=random.randrange(2), flush=int(n == 0))
            for n, (roots, plan) in enumerate(plans(random, 5))
        ]
        await host.load()
        stall = (0, 0.4)[number % 2]
        host.memory.stall(stall)
        host.memory.latency(random.choice((1, 20, 50)))
        host.bench.pace(stall=stall)
        for job in jobs:
            await host.sample(job)
            sampled |= set(job.batch.nodes.tolist())
        # Places of counts exist when the memory is written.
        places = [mirror.place(LINE_BYTES) for _ in jobs]
        await host.load()
        for job, report in zip(jobs, places, strict=True):
            await host.in_two(job, report)
    assert NODES - 1 in sampled


@cocotb.test()
async def keys_of_edges_have_all_bits_too(dut: Any) -> None:
    host = await begin(dut)
    random, highest = host.bench.random, 0
    host.memory.latency(5)
    for plan in (Plan((3, 2), 1, 6), Plan((5,), 0, 7)):
        mirror = host.far(nodes=KEYED, edge_count=KEYED, row_bytes=32)
        job = mirror.job([mirror.far.ids[0], mirror.far.ids[-1], *random.choices(mirror.far.ids, k=3)], plan, paired=1)
        along = np.where(job.batch.along < 0, KEYED, job.batch.along)
        words = np.stack([job.batch.nodes, KEYED + along], axis=1).ravel()
        mirror.touch_rows(words.tolist())
        rows, report = mirror.place(words.size * 32), mirror.place(LINE_BYTES)
        await host.load()
        said = await host.one(job.fields)
        assert (said["error"], said["info"]) == (Error.NONE, 0)
        mirror.sampled(job, None)
        await host.check()
        # Rows of nodes and of edges are fetched alike; IDs end behind the key of no edge.
        pairs = replace(job, batch=replace(job.batch, nodes=words), rows=rows)
        fetch = mirror.fetch(pairs, report, targets=random.choice(list(Targets)), flush=1)
        fetch.fields.update(vertices=2 * KEYED + 1, rows=mirror.line(rows))
        said = await host.one(fetch.fields)
        assert (said["error"], said["info"]) == (Error.NONE, 0)
        mirror.fetched(fetch, mirror.flows(fetch, host.rams[0], host.planners[0]))
        await host.check()
        highest = max(highest, int(words.max()))
        # One edge more, and the key of no edge has no room.
        said = await host.one({**job.fields, "vertices": KEYED + 1, "edge_count": KEYED + 1})
        assert (said["error"], said["info"]) == (Error.BAD_OPERAND, KEYED + 1)
    assert highest == 2 * KEYED == (1 << VID_BITS) - 2


@cocotb.test()
async def errors_far_away_end_one_command_only(dut: Any) -> None:
    host = await begin(dut)
    host.memory.latency(20)
    for _ in range(2):
        mirror = host.far()
        graph = mirror.far
        node = next(n for n in reversed(graph.ids) if 2 <= graph.rows[n][1].size <= CORE.most)
        start = graph.rows[node][0]
        job = mirror.job([node], Plan((CORE.most, 2), 2, 23), flush=1)
        report = mirror.place(LINE_BYTES)
        await host.load()

        async def fails(error: Error, info: int, fields: dict[str, int]) -> None:
            said = await host.one(fields)
            assert (said["error"], said["info"]) == (error, info)

        # A line has 34 bits, and what is said of it 32.
        offsets = (mirror.offsets_at + node // 16) % mirror.lines
        edges = (mirror.edges_at + start // 16) % mirror.lines
        for line in (job.roots, offsets, edges, mirror.row_at(node)):
            host.fail(line, LINE_BYTES)
            await fails(Error.MEMORY_READ, line % (1 << 32), job.fields)
        fetch = mirror.fetch(job, report, targets=1).fields
        await fails(Error.MEMORY_READ, mirror.row_at(node) % (1 << 32), fetch)
        host.memory.read_errors(None)
        for line in (1, 1 << 31):
            await fails(Error.BAD_OPERAND, line, {**fetch, "replicas": line})
        for line in (job.tree, job.rows, job.tree + 1 + 3 * job.fields["span"]):
            host.fail(line, LINE_BYTES, writes=True)
            await fails(Error.MEMORY_WRITE, line % (1 << 32), job.fields)
        host.memory.write_errors(None)
        await fails(Error.VID_RANGE, node, {**job.fields, "vertices": node})
        end = start + graph.rows[node][1].size
        await fails(Error.EDGE_RANGE, node, {**job.fields, "edge_count": end - 1, "hops": 1})
        await host.load()
        await host.sample(job)


@cocotb.test()
async def copies_reach_every_line(dut: Any) -> None:
    host = await begin(dut)
    random, most = host.bench.random, 1 << 28
    mirror = host.far()
    host.memory.latency(20)
    border = (1 << 32) // LINE_BYTES
    places = []
    for lines in (1, 70, 130):
        source, target = mirror.place(lines * LINE_BYTES), mirror.place(lines * LINE_BYTES)
        places.append((source, target, lines))
    # Round the end of the address space, and across a border of 4 GiB.
    across = (mirror.base + border - mirror.base % border) % mirror.lines - 9
    for line in (mirror.lines - 20, across):
        mirror.get(line, 40 * LINE_BYTES // 4)
    places += [(mirror.lines - 20, across, 40)]
    await host.load()
    for source, target, lines in places:
        where = {"source": mirror.line(source), "target": mirror.line(target)}
        said = await host.one({"opcode": Opcode.COPY, **where, "lines": lines, "tag": random.getrandbits(16)})
        assert (said["error"], said["info"]) == (Error.NONE, 0)
        mirror.copied(source, target, lines)
        await host.check()
    # More words than a range has are refused, not cut.
    for lines in (most, most + 1, 1 << 31, (1 << 32) - 1):
        said = await host.one({"opcode": Opcode.COPY, **where, "lines": lines, "tag": 1})
        assert (said["error"], said["info"]) == (Error.BAD_OPERAND, lines)
    await host.check()


@cocotb.test()
async def a_reset_in_the_middle_changes_nothing_later(dut: Any) -> None:
    host = await begin(dut)
    mirror = host.far()
    jobs: list[Job] = [mirror.job(host.roots(roots), plan) for roots, plan in plans(host.bench.random, 3)]
    for cut in (150, 600):
        await host.begin_anew(jobs, cut)


@pytest.mark.parametrize("data_width", [256, pytest.param(64, marks=full)])
def test_core_far_apart(data_width: int, tmp_path: Path) -> None:
    simulate_with_memory(
        accelerator(data_width), __name__, tmp_path, name=f"far_accelerator_{data_width}",
        memories=memory_model(data_width), parameters={"data_width": data_width},
    )  # fmt: skip
