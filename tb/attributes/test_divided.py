"""A graph that is divided among the memories of a ring: stored once, read by all, the same bits as on one chiplet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cocotb
import numpy as np
import pytest
from cocotb.triggers import Timer
from hypothesis import given
from hypothesis import strategies as st

from contracts import BATCH, COMMANDS, LINE_BYTES, Error, Opcode, Targets
from golden.attributes.batch import BatchImage
from golden.attributes.divided import ARRAYS, DividedGraph, Share, shares_of
from golden.attributes.replicas import replicas_of, wanted
from golden.attributes.sampler import Plan, sample
from golden.graph import IntArray
from golden.image_format import row_bytes
from golden.model.network import Problem
from hw.machine import Units
from hw.ring.formats import RingConfig
from sim.harness.run import CLOCK_NS
from sim.problems import random_graph
from sim.runner.batches import BatchJob, Ran
from sim.runner.jobs import Settings
from sim.runner.run import run_jobs
from tb.attributes.test_batch_runs import DIVIDED, GATHER, PLAN, SCRATCH, STREAMED, UNITS, check, problem, roots
from tb.harness.marks import full

if TYPE_CHECKING:
    from sim.runner.machine import Machine

#: Few slots, and replies of two beats, so that bursts take several packets; flits of two beats.
RING = RingConfig(chiplets=4, link_width=128, slots=2, max_out=16, window=2, bitmap=64, requests=4, reply_beats=2)
CONFIG = replace(GATHER, scratch_lines=SCRATCH)


def copying(units: Units, cells: int) -> Units:
    """Return the same with tables of replicas."""
    core = units.attributes
    assert core is not None
    return replace(units, attributes=replace(core, attribute=replace(core.attribute, replicas=cells)))


COPYING = copying(STREAMED, 16)


def images(
    problem: Problem,
    boundaries: Sequence[int],
    plan: Plan = PLAN,
    replicas: int = 0,
    targets: Targets = Targets.POSITION,
) -> list[BatchImage]:
    return [
        BatchImage(problem, plan, 7, targets, scratch_lines=SCRATCH, streamed=True, share=share, replicas=replicas)
        for share in shares_of(np.asarray(boundaries))
    ]


def run(jobs: Sequence[BatchJob], directory: Path) -> list[list[Ran]]:
    return run_jobs(CONFIG, jobs, directory, units=COPYING, ring=RING)[0]


@given(
    nodes=st.integers(1, 60), cuts=st.lists(st.integers(0, 60), max_size=15), features=st.integers(1, 40),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_each_line_is_in_one_memory(nodes: int, cuts: list[int], features: int, seed: int) -> None:
    """All parts together are the graph; a line belongs to the owner of the last vertex that begins in it."""
    graph = random_graph(seed, nodes, 4 * nodes, features=1, density=1)
    boundaries = np.asarray([0, *sorted(min(cut, nodes) for cut in cuts), nodes])
    distance, chiplets = row_bytes(features), boundaries.size - 1
    rows = np.random.default_rng(seed).bytes(nodes * distance)
    divided = DividedGraph.divide(graph, rows, distance, boundaries)
    parts = [[divided.part(array, chiplet) for chiplet in range(chiplets)] for array in ARRAYS]
    whole = [b"".join(array) for array in parts]
    given_arrays = (graph.offsets.astype("<u4").tobytes(), graph.edges.astype("<u4").tobytes(), rows)
    for array, data in zip(whole, given_arrays, strict=True):
        assert array[: len(data)] == data
        assert len(array) - len(data) < LINE_BYTES
    assert b"".join(whole) == divided.data
    assert divided.lines * LINE_BYTES == len(divided.data) == sum(len(part) for array in parts for part in array)
    table = divided.table.tolist()
    assert table == sorted(table)
    assert len(table) == 3 * chiplets + 1
    owners = np.searchsorted(boundaries, np.arange(nodes), side="right") - 1
    for vertex in range(nodes):
        line = vertex * distance // LINE_BYTES
        first = [int(first) - divided.start("attributes") for first in divided.firsts[2]]
        last = max(owners[later] for later in range(vertex, nodes) if later * distance // LINE_BYTES == line)
        has = max(c for c in range(chiplets) if first[c] <= line)
        assert has == last


def test_images_of_a_ring_have_the_graph_once() -> None:
    """Offsets, edges and attributes of all images are as large as those of one chiplet that is alone."""
    whole = problem()
    (alone,) = images(whole, [0, 80])
    assert alone.divided is None
    size = sum(region.lines for region in alone.graph)
    for boundaries in ([0, 20, 40, 60, 80], [0, 1, 1, 80], [0, 80, 80]):
        parts = images(whole, boundaries)
        assert sum(region.bytes for part in parts for region in part.graph) == size * LINE_BYTES
        for part in parts:
            # The addresses of the graph are behind all that the memory and the scratchpad have.
            assert part.graph_line * LINE_BYTES >= len(part.data) + SCRATCH * LINE_BYTES
            assert part.last_line == part.graph_line + size
            # All else is the same but for the table; an empty region has a line.
            own = sum(region.lines for region in part.graph)
            assert len(part.data) == len(alone.data) + (own - size + 1) * LINE_BYTES


def test_rings_of_any_size_compute_the_same(tmp_path: Path) -> None:
    """Parts of any size, none among them; chiplets without roots; roots that others own; memories that stall."""
    whole, batches = problem(), roots(7, 3, 1, 6, 7)
    jobs = [
        BatchJob(images(whole, boundaries), shares, Settings(latency=20, stall=stall, reset=reset))
        for boundaries, shares, stall, reset in (
            ([0, 20, 40, 60, 80], [batches[:2], batches[2:3], batches[3:4], batches[4:]], 0.0, True),
            # Another division of the graph, for chiplets that still have the one before.
            ([0, 0, 33, 33, 80], [batches[:3], [], batches[3:], []], 0.2, False),
            ([0, 41, 79, 80], [[], batches, []], 0.2, True),
            ([0, 80, 80], [batches[:1], batches[1:]], 0.1, True),
            # A ring of one divides nothing.
            ([0, 80], [batches], 0.0, True),
        )
    ]
    for ran in run(jobs, tmp_path):
        check(whole, PLAN, batches, ran)


@given(seed=st.integers(0, 99), cells=st.sampled_from([16, 32, 128]), cuts=st.tuples(*[st.integers(0, 60)] * 2))
def test_copies_are_of_the_rows_that_are_wanted_most(seed: int, cells: int, cuts: tuple[int, int]) -> None:
    """Each cell has the most wanted of others' vertices that belong there, or an ID that does not."""
    graph, number = random_graph(seed, 60, 240, features=1, density=1), np.arange(cells)
    boundaries = np.asarray([0, *sorted(cuts), 60])
    for chiplet, (first, end) in enumerate(pairwise(boundaries.tolist())):
        counts = wanted(graph, PLAN, np.arange(first, end))
        found = replicas_of(graph, PLAN, Share(boundaries, chiplet), cells)
        assert np.array_equal(found.cells % cells == number, found.used)
        for cell in range(cells):
            others = [v for v in range(cell, 60, cells) if not first <= v < end and counts[v]]
            assert found.used[cell] == bool(others)
            assert not others or counts[found.cells[cell]] == counts[others].max()


def test_rows_are_wanted_as_often_as_they_are_sampled() -> None:
    graph, roots_of_all, draws = random_graph(5, 40, 300, features=1, density=1), np.arange(10, 20), 400
    plan, counts = Plan((5, 3), 0, seed=1), np.zeros(40)
    for number in range(draws):
        counts += np.bincount(sample(graph, roots_of_all, plan, number).nodes, minlength=40)
    expected = wanted(graph, plan, roots_of_all)
    assert np.abs(counts / draws - expected).max() < 0.1 * expected.max()
    assert counts.sum() == pytest.approx(draws * expected.sum(), rel=0.02)


def test_copies_compute_the_same(tmp_path: Path) -> None:
    """Chiplets with copies of few or many rows of others, beside some of a ring that have none; all targets."""
    whole, batches = problem(), roots(7, 3, 1, 6, 7)
    shares = [batches[:2], batches[2:3], batches[3:4], batches[4:]]
    jobs = [
        BatchJob(
            images(whole, boundaries, PLAN, replicas, targets), shares, Settings(latency=20, stall=stall, reset=reset)
        )
        for boundaries, replicas, targets, stall, reset in (
            ([0, 20, 40, 60, 80], 16, Targets.POSITION, 0.0, True),
            # Another graph for chiplets that still have the table of the one before.
            ([0, 0, 33, 33, 80], 16, Targets.AHEAD, 0.2, False),
            ([0, 5, 10, 79, 80], 16, Targets.HASH, 0.2, False),
            ([0, 20, 40, 60, 80], 0, Targets.HASH, 0.1, False),
        )
    ]
    for ran in run(jobs, tmp_path):
        check(whole, PLAN, batches, ran)


@full
def test_several_processors_know_the_copies(tmp_path: Path) -> None:
    whole, batches = problem(), roots(7, 3, 1, 6)
    job = BatchJob(
        images(whole, [0, 20, 40, 60, 80], PLAN, 16, Targets.AHEAD),
        [batches[:2], batches[2:3], [], batches[3:]],
        Settings(latency=20, stall=0.1),
    )
    (ran,), _ = run_jobs(CONFIG, [job], tmp_path, units=copying(DIVIDED, 16), ring=RING)
    check(whole, PLAN, batches, ran)


@full
def test_a_ring_may_have_no_scratchpads(tmp_path: Path) -> None:
    """Rows go through memory, to which all bursts go but those of the graph."""
    whole, batches = problem(), roots(7, 3, 1, 6)
    parts = [BatchImage(whole, PLAN, 7, share=share) for share in shares_of(np.asarray([0, 20, 40, 60, 80]))]
    job = BatchJob(parts, [batches[:2], batches[2:3], [], batches[3:]], Settings(latency=20, stall=0.1))
    (ran,), _ = run_jobs(GATHER, [job], tmp_path, units=UNITS, ring=RING)
    check(whole, PLAN, batches, ran)


@dataclass(frozen=True, eq=False)
class _Faults(BatchJob):
    """Memories of owners that fail, a ring that loses a chiplet, commands that are refused; then all is computed."""

    #: Cycles after which chiplet 2 is reset, from the start of the first batch of the others on.
    resets: tuple[int, ...] = ()

    async def run(self, machine: Machine) -> list[Ran]:
        """Try one after another."""
        await machine.configure(self.settings, len(self.images))
        await self._share(machine)
        await self._unreadable(machine)
        await self._refused(machine)
        for cycles in self.resets:
            await machine.reset()
            await self._share(machine)
            await self._lost(machine, cycles)
        await machine.reset()
        return await super().run(machine)

    async def _start(self, machine: Machine, fronts: Sequence[bytes | None]) -> list[Any]:
        """Begin the fronts that there are, and return what waits for their completions."""
        waits = []
        for host, front in zip(machine.hosts, fronts, strict=True):
            if front is not None:
                await host.memory.load(front)
                waits.append(cocotb.start_soon(host.run(limit=self.settings.limit)))
        return waits

    async def _share(self, machine: Machine) -> None:
        """Let all chiplets take part, and the first one sample its first batch."""
        for host, image in zip(machine.hosts, self.images, strict=True):
            await host.memory.load(image.data)
        first, *others = self.images
        fronts = [first.sample_front(0, self.shares[0][0], first=True), *(image.share_front() for image in others)]
        for wait in await self._start(machine, fronts):
            assert (await wait).completion["error"] == Error.NONE

    async def _infer(self, machine: Machine, following: IntArray | None = None) -> dict[str, int]:
        """Compute the first batch, and return the completion."""
        image, host = self.images[0], machine.hosts[0]
        batch = BATCH.from_bytes(await host.memory.dump(image.at(0).batch.address, LINE_BYTES))
        await host.memory.load(image.infer_front(0, batch, following, first=True))
        completion: dict[str, int] = (await host.run(limit=self.settings.limit)).completion
        return completion

    async def _unreadable(self, machine: Machine) -> None:
        """Lines of other chiplets and own ones that cannot be read: the reader's run ends with their global line."""
        following = self.shares[0][1]
        for owner in (2, 0):
            image, memory = self.images[owner], machine.hosts[owner].memory
            divided = image.divided
            assert divided is not None
            for array, region in zip(ARRAYS, image.graph, strict=True):
                first = int(divided.firsts[ARRAYS.index(array)][owner]) + self.images[0].graph_line
                memory.read_errors(range(region.address, region.address + region.bytes))
                said = await self._infer(machine, following)
                assert (Error(said["error"]), array) == (Error.MEMORY_READ, array)
                assert first <= said["info"] < first + region.lines
                memory.read_errors(None)
                # Nobody else has failed, and the next run works.
                assert (await self._infer(machine, following))["error"] == Error.NONE

    async def _refused(self, machine: Machine) -> None:
        """Rows and partial sums are refused for good: they could hold up replies."""
        image, host = self.images[1], machine.hosts[1]
        front = image.share_front()
        for opcode in (Opcode.SCATTER, Opcode.REDUCE):
            given = {"opcode": opcode, "f_out": 4, "tiles": len(self.images)}
            known = {name: value for name, value in given.items() if name in COMMANDS[opcode].offsets}
            await host.memory.load(front[:LINE_BYTES] + COMMANDS[opcode].to_bytes(known) + front[2 * LINE_BYTES :])
            said = (await host.run(limit=self.settings.limit)).completion
            assert (said["error"], said["info"]) == (Error.BAD_OPCODE, Opcode.SCATTER)

    async def _lost(self, machine: Machine, cycles: int) -> None:
        """Reset a chiplet that others read from: their runs end, with an error if they still needed it."""
        fronts: list[bytes | None] = []
        for number, image in enumerate(self.images):
            fronts.append(None if number == 2 else image.sample_front(1, self.shares[0][1], first=False))
        waits = await self._start(machine, fronts)
        await Timer(cycles * CLOCK_NS, "ns")
        machine.dut.reset.value = 1 << 2
        await Timer(CLOCK_NS, "ns")
        machine.dut.reset.value = 0
        errors = {(await wait).completion["error"] for wait in waits}
        assert errors <= {Error.NONE, Error.MEMORY_READ}
        # From now on, nothing of others can be read.
        for wait in await self._start(machine, [None if number == 2 else front for number, front in enumerate(fronts)]):
            assert (await wait).completion["error"] == Error.MEMORY_READ


def test_faults_stay_with_those_that_read(tmp_path: Path) -> None:
    whole, batches = problem(), roots(7, 5, 3)
    shares = [batches[:2], [], [], batches[2:]]
    job = _Faults(
        images(whole, [0, 20, 40, 60, 80]),
        shares,
        Settings(latency=20, stall=0.1, limit=100_000),
        (1, 17, 60, *range(200, 1400, 97)),
    )
    (ran,) = run([job], tmp_path)
    check(whole, PLAN, batches, ran)
