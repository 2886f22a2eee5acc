"""Mini-batch GraphSAGE through sampler, two-level cache and PEs, bit-exact with the golden model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from cocotb.triggers import Timer

from contracts import BATCH, COMMANDS, LINE_BYTES, Error, Model, Opcode, Targets
from contracts.errors import InputError
from golden.attributes.batch import BatchImage, batch_results
from golden.attributes.divided import shares_of
from golden.attributes.sampler import Plan
from golden.graph import IntArray
from golden.locator.locator import Limits
from golden.model.network import Problem
from hw.attributes.core import AttributeCoreConfig
from hw.attributes.formats import AttributeConfig
from hw.chiplet.config import GatherChipletConfig
from hw.community.config import CommunityChipletConfig
from hw.machine import Units
from hw.pe.formats import PEConfig
from hw.ring.formats import RingConfig
from sim.harness.run import CLOCK_NS
from sim.problems import random_graph, random_problem
from sim.runner.batches import BatchJob, Ran
from sim.runner.jobs import Settings
from sim.runner.run import run_jobs
from tb.community.configurations import NEURAL, chiplet_config
from tb.harness.marks import full

GATHER = GatherChipletConfig(
    groups=1, pes=1, depth=32, pe=PEConfig(lanes=4, data_width=64, weight_rows=128, max_out=16, queue=4)
)
if TYPE_CHECKING:
    from sim.runner.machine import Machine

LOCATOR = {
    "engines": 2, "searches": 1, "nodes": 256, "edges": 1024, "banks": 4, "lanes": 1, "outputs": 2,
    "data_width": 64,
}  # fmt: skip


def community(*, partials: bool) -> CommunityChipletConfig:
    """Two PEs and the smallest locator, for a ring or alone."""
    sizes = {"lanes": 4, "width": 128, "columns": 256, "partners": 2, "max_out": 16, "weight_rows": 128}
    pe = {**sizes, "data_width": 64, "ways": 2, "partials": partials}
    return chiplet_config(community=pe, locator=LOCATOR, combiners=2, pes=2, units=2, hubs=128, kept=64, depth=32)


#: Far fewer slots than a batch has positions.
CORE = AttributeCoreConfig(
    AttributeConfig(slots=20, ways=4, row_beats=12, data_width=64, id_bits=8, outstanding=4, depth=32),
    6,
    64,
    ahead=128,
)
PROCESSOR = NEURAL.core
UNITS = Units(NEURAL, CORE)
#: Rows go from the attribute RAM to the PEs, and what lies between commands stays on the chip.
SCRATCH = 256
STREAMED = Units(UNITS.neural, replace(CORE, window=32))


def divided(units: Units, processors: int) -> Units:
    """Return the same with several attribute processors, each of which has a few slots for its share of the IDs."""
    core = units.attributes
    assert core is not None
    attribute = replace(core.attribute, slots=20 // processors, ways=4 // processors)
    return replace(units, attributes=replace(core, attribute=attribute, processors=processors))


DIVIDED = divided(STREAMED, 2)
RING = RingConfig(chiplets=3, link_width=64, slots=2, max_out=16, window=2, bitmap=64)
PLAN = Plan((5, 3), 2, seed=11)
LIMITS = Limits(64, 64, 64)


def problem(activation: str = "relu", sizes: Sequence[int] = (9, 5), features: int = 14) -> Problem:
    graph = random_graph(3, 80, 500, features=features, density=1)
    return random_problem(graph, Model.SAGE, list(sizes), 4, activation, PROCESSOR)


def roots(*sizes: int) -> list[IntArray]:
    rng = np.random.default_rng(2)
    return [rng.integers(0, 80, size) for size in sizes]


def check(problem: Problem, plan: Plan, batches: list[IntArray], ran: list[Ran]) -> None:
    for number, (mine, out) in enumerate(zip(batches, ran, strict=True)):
        assert not any(run.completion["error"] for run in out.runs)
        # All but a chiplet's first batch are sampled beside the layers of the one before.
        assert (out.alone is not None) == (number == 0 or ran[number - 1].chiplet != out.chiplet)
        assert out.layers is not None
        batch, results = batch_results(problem, mine, plan, number)
        assert out.batch["positions"] == batch.nodes.size
        assert [out.batch[f"hop{n}"] for n in range(len(batch.hops))] == list(batch.hops)
        assert np.array_equal(out.nodes, batch.nodes)
        assert np.array_equal(out.along, batch.along if problem.edge_rows is not None else [])
        assert np.array_equal(out.results, results), f"batch {number}"
        # Requests by flow add up: all positions that a layer needs, for each block of columns.
        flows = sum(out.batch[flow] for flow in ("in_place", "cached", "moved", "missed"))
        assert flows == out.batch["requests"] >= batch.positives


@pytest.mark.parametrize(
    ("streamed", "units"),
    [
        (False, UNITS),
        (True, STREAMED),
        (True, DIVIDED),
        pytest.param(True, divided(STREAMED, 4), id="four processors", marks=full),
    ],
)
def test_batches_are_bit_exact(tmp_path: Path, streamed: bool, units: Units) -> None:
    """All ways of finding a target address, layers that end in the PEs and on the neural chip, on one design."""
    batches, jobs, problems = roots(4, 1, 7, 7), list[BatchJob](), list[Problem]()
    scratch = SCRATCH if streamed else 0
    for targets, activation in ((Targets.POSITION, "tanh"), (Targets.HASH, "relu"), (Targets.AHEAD, "relu")):
        problems.append(problem(activation))
        image = BatchImage(problems[-1], PLAN, 7, targets=targets, scratch_lines=scratch, streamed=streamed)
        assert image.streamed == streamed
        jobs.append(BatchJob([image], [batches], Settings(latency=20, stall=0.2)))
    # Wider than the PEs: each block of columns has the attributes fetched again; and with more features than rows of
    # weights, which are written to memory first.
    for sizes, features in (([20, 5], 14), ([9, 5], 40)):
        problems.append(problem("relu", sizes, features))
        image = BatchImage(
            problems[-1], PLAN, 7, weight_room=GATHER.pe.weight_room, scratch_lines=scratch, streamed=streamed
        )
        assert image.streamed == (streamed and features == 14)
        jobs.append(BatchJob([image], [batches], Settings(latency=20, stall=0.2)))
    config = replace(GATHER, scratch_lines=scratch)
    ran, _ = run_jobs(config, jobs, tmp_path, units=units)
    for whole, out in zip(problems, ran, strict=True):
        check(whole, PLAN, batches, out)
        assert sum(each.batch["positions"] for each in out) > 5 * CORE.attribute.slots


@pytest.mark.parametrize(
    ("hosted", "ring"),
    [
        pytest.param(False, None, id="alone"),
        pytest.param(True, None, id="behind a control port", marks=full),
        pytest.param(False, RING, id="ring", marks=full),
    ],
)
def test_batches_run_beyond_4_gib(hosted: bool, ring: RingConfig | None, tmp_path: Path) -> None:
    """IDs of 32 bits, 40 of addresses, and images across a border of 4 GiB; their base is in every address."""
    attribute = replace(CORE.attribute, id_bits=32, address_width=40)
    units = Units(UNITS.neural, replace(CORE, attribute=attribute, window=32))
    config = replace(GATHER, pe=replace(GATHER.pe, address_width=40), scratch_lines=SCRATCH)
    whole, batches, jobs = problem(), roots(4, 7), list[BatchJob]()
    boundaries, shares = ([0, 25, 50, 80], [batches[:1], [], batches[1:]]) if ring else ([0, 80], [batches])
    for streamed in (True, False):
        images = [
            BatchImage(whole, PLAN, 7, scratch_lines=SCRATCH, streamed=streamed, share=share)
            for share in shares_of(np.asarray(boundaries))
        ]
        # The attributes lie beyond the border, the commands before it.
        origin = (0x2B << 32) - min(image.graph[0].address for image in images) // 4096 * 4096
        assert all(origin % (1 << 32) + image.attributes.address > 1 << 32 for image in images)
        jobs.append(BatchJob(images, shares, Settings(latency=20, stall=0.2, origin=origin)))
    ran, _ = run_jobs(config, jobs, tmp_path, units=units, ring=ring, hosted=hosted)
    for out in ran:
        check(whole, PLAN, batches, out)


def fetching(front: bytes) -> bytes:
    """Return a front whose SAMPLE does not leave the attributes to a FETCH."""
    for at in range(LINE_BYTES, len(front), LINE_BYTES):
        line = front[at : at + LINE_BYTES]
        if line[0] == Opcode.SAMPLE:
            changed = COMMANDS[Opcode.SAMPLE].to_bytes({**COMMANDS[Opcode.SAMPLE].from_bytes(line), "later": 0})
            return front[:at] + changed + front[at + LINE_BYTES :]
    raise AssertionError("there is no SAMPLE")


@dataclass(frozen=True, eq=False)
class Faults(BatchJob):
    """Runs whose memory fails, or that are reset, while they sample the next batch; then all batches are computed."""

    #: Cycles after which runs are reset, and the attributes that cannot be read; None: most of them.
    resets: tuple[int, ...] = ()
    unread: range | None = None

    async def run(self, machine: Machine) -> list[Ran]:
        """Fail the attributes of the first batch, then the sample of the second, then nothing."""
        await machine.configure(self.settings, 1)
        (host,), (mine, following, *_) = machine.hosts, self.shares[0]
        image, memory = self.images[0], host.memory
        exact = batch_results(image.problem, mine, image.plan, 0)[1]
        await memory.load(image.data)
        # What is sampled in the background is not fetched.
        front = image.sample_front(0, mine, first=True)
        await memory.load(fetching(front))
        said = (await host.run(limit=self.settings.limit)).completion
        assert (said["error"], said["info"]) == (Error.BAD_OPERAND, 1)
        await memory.load(front)
        await host.run(limit=self.settings.limit)
        batch = BATCH.from_bytes(await memory.dump(image.at(0).batch.address, LINE_BYTES))
        attributes, edges = image.attributes, image.edges
        some = range(attributes.address + 5 * attributes.row_bytes, attributes.address + attributes.bytes)
        for bad, where in (
            (attributes, self.unread or some),
            (edges, range(edges.address, edges.address + edges.bytes)),
        ):
            memory.read_errors(where)
            await memory.load(image.infer_front(0, batch, following, first=True))
            run = await host.run(limit=self.settings.limit)
            assert run.completion["error"] == Error.MEMORY_READ
            assert bad.line <= run.completion["info"] < bad.line + bad.lines
            if bad is edges and image.streamed:
                # A sample that fails in the background costs the batch before nothing but its good answer.
                # All commands are carried out; without room for the sample in the scratchpad it is not copied.
                assert run.phases[-1].opcode in ("copy", "aggregate")
                assert [phase.opcode for phase in run.phases].count("aggregate") == len(image.problem.model.layers)
                region = image.results
                rows = np.frombuffer(await memory.dump(region.address, mine.size * region.row_bytes), "<i2")
                assert np.array_equal(rows.reshape(mine.size, -1)[:, : region.row_elements], exact)
            memory.read_errors(None)
        # Resets while the next batch is sampled beside the fetching and the layers of this one.
        for cycles in self.resets:
            await memory.load(image.infer_front(0, batch, following, first=True))
            await host.begin()
            await Timer(cycles * CLOCK_NS, "ns")
            await machine.reset()
        return await super().run(machine)


@pytest.mark.parametrize("units", [STREAMED, DIVIDED])
def test_what_cannot_be_read_ends_the_run(tmp_path: Path, units: Units) -> None:
    """Attributes that PEs wait for or that are written first, and samples of the next batch; and the next run works."""
    batches = roots(7, 5)
    whole = problem()
    for streamed in (False, True):
        targets = Targets.AHEAD if streamed else Targets.POSITION
        image = BatchImage(whole, PLAN, 7, targets, scratch_lines=SCRATCH, streamed=streamed)
        config = replace(GATHER, scratch_lines=SCRATCH)
        job = Faults([image], [batches], Settings(latency=20), (90, 250, 700, 1500))
        (ran,), _ = run_jobs(config, [job], tmp_path, units=units)
        check(whole, PLAN, batches, ran)


@pytest.mark.parametrize(
    ("config", "ring", "units"),
    [
        # A whole run of a ring of community PEs is in tb/flows/test_run.py.
        pytest.param(GATHER, RING, STREAMED, id="ring of gather PEs", marks=full),
        pytest.param(community(partials=True), RING, STREAMED, id="ring of community PEs", marks=full),
        pytest.param(community(partials=False), None, STREAMED, id="community PEs", marks=full),
        pytest.param(community(partials=False), None, DIVIDED, id="community PEs, two processors", marks=full),
    ],
)
def test_every_chiplet_has_batches_of_its_own(
    config: GatherChipletConfig | CommunityChipletConfig, ring: RingConfig | None, units: Units, tmp_path: Path
) -> None:
    """One has none, one has fewer than another."""
    batches = roots(7, 3, 1, 6, 7)
    shares = [batches[:3], [], batches[3:]] if ring else [batches]
    boundaries = [0, 25, 50, 80] if ring else [0, 80]
    limits = LIMITS if config.kind == "community" else None
    for activation, stall in (("relu", 0.0), ("sigmoid", 0.2)):
        whole = problem(activation)
        images = [
            BatchImage(whole, PLAN, 7, Targets.AHEAD, limits=limits, scratch_lines=SCRATCH, streamed=True, share=share)
            for share in shares_of(np.asarray(boundaries))
        ]
        job = BatchJob(images, shares, Settings(latency=20, stall=stall))
        sizes = replace(config, scratch_lines=SCRATCH)
        (ran,), _ = run_jobs(sizes, [job], tmp_path, units=units, ring=ring)
        check(whole, PLAN, batches, ran)
        assert [out.chiplet for out in ran] == [0, 0, 0, *([2, 2] if ring else [0, 0])]


def test_batches_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"fan-out: is 5; expected at most 4, hubs of a community"):
        BatchImage(problem(), PLAN, 7, limits=Limits(64, 4, 64))
    with pytest.raises(InputError, match=r"fan-out: of 3 hops; expected 2, the layers of the network"):
        BatchImage(problem(), replace(PLAN, fan_out=(5, 3, 2)), 7)
    gcn = random_problem(random_graph(3, 8, 20, features=4, density=1), Model.GCN, [3, 2], 1)
    with pytest.raises(InputError, match=r"model: is gcn; expected sage for mini-batches"):
        BatchImage(gcn, PLAN, 7)
