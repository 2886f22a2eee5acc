"""Mini-batch GraphSAGE through sampler, two-level cache and PEs, bit-exact with the golden model."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts import Error, Model
from contracts.dnp.config import ProcessorConfig
from contracts.errors import InputError
from golden.attributes.batch import BatchImage, batch_results
from golden.attributes.sampler import Plan
from golden.graph import IntArray
from golden.locator.locator import Limits
from golden.model.network import Problem
from hw.attributes.core import AttributeCoreConfig
from hw.attributes.formats import AttributeConfig
from hw.chiplet.config import GatherChipletConfig
from hw.community.config import CommunityChipletConfig
from hw.dnp.neural_unit import NeuralConfig
from hw.machine import Units
from hw.pe.formats import PEConfig
from hw.ring.formats import RingConfig
from sim.problems import random_graph, random_problem
from sim.runner.batches import BatchJob, Ran
from sim.runner.jobs import Settings
from sim.runner.run import run_jobs
from tb.community.configurations import chiplet_config
from tb.harness.marks import full

GATHER = GatherChipletConfig(
    groups=1, pes=1, depth=32, pe=PEConfig(lanes=4, data_width=64, weight_rows=128, max_out=12, queue=4)
)
LOCATOR = {
    "engines": 2, "searches": 1, "nodes": 256, "edges": 1024, "banks": 4, "lanes": 1, "outputs": 2,
    "data_width": 64,
}  # fmt: skip


def community(*, partials: bool) -> CommunityChipletConfig:
    """Two PEs and the smallest locator, for a ring or alone."""
    sizes = {"lanes": 4, "width": 128, "columns": 256, "partners": 2, "max_out": 12, "weight_rows": 128}
    pe = {**sizes, "data_width": 64, "ways": 2, "partials": partials}
    return chiplet_config(community=pe, locator=LOCATOR, combiners=2, pes=2, units=2, hubs=128, kept=64, depth=32)


#: Far fewer slots than a batch has positions.
CORE = AttributeCoreConfig(
    AttributeConfig(slots=20, ways=4, row_beats=8, data_width=64, id_bits=8, outstanding=4, depth=32), 6, 64
)
PROCESSOR = ProcessorConfig(wm_depth=64, xm_depth=8, p_depth=64, table_bits=5)
UNITS = Units(NeuralConfig(PROCESSOR, queue=8, depth=16), CORE)
RING = RingConfig(chiplets=3, link_width=64, slots=2, max_out=12, window=2, bitmap=64)
PLAN = Plan((5, 3), 2, seed=11)
LIMITS = Limits(64, 64, 64)


def problem(activation: str = "relu") -> Problem:
    graph = random_graph(3, 80, 500, features=14, density=1)
    return random_problem(graph, Model.SAGE, [9, 5], 4, activation, PROCESSOR)


def roots(*sizes: int) -> list[IntArray]:
    rng = np.random.default_rng(2)
    return [rng.integers(0, 80, size) for size in sizes]


def check(problem: Problem, plan: Plan, batches: list[IntArray], ran: list[Ran]) -> None:
    for number, (mine, out) in enumerate(zip(batches, ran, strict=True)):
        assert [run.completion["error"] for run in out.runs] == [Error.NONE, Error.NONE]
        batch, results = batch_results(problem, mine, plan, number)
        assert out.batch["positions"] == batch.nodes.size
        assert [out.batch[f"hop{n}"] for n in range(len(batch.hops))] == list(batch.hops)
        assert np.array_equal(out.nodes, batch.nodes)
        assert np.array_equal(out.results, results), f"batch {number}"
        # Requests by flow add up.
        flows = sum(out.batch[flow] for flow in ("in_place", "cached", "moved", "missed"))
        assert flows == out.batch["requests"] == out.batch["positions"]


def test_batches_are_bit_exact(tmp_path: Path) -> None:
    """Both ways of finding a target address, layers that end in the PEs and on the neural chip, on one design."""
    batches = roots(4, 1, 7, 7)
    for slotted, activation in ((True, "tanh"), (False, "relu")):
        whole = problem(activation)
        image = BatchImage(whole, PLAN, 7, slotted=slotted)
        job = BatchJob(image, [batches], Settings(latency=20, stall=0.2))
        (ran,), _ = run_jobs(GATHER, [job], tmp_path, name="batch_machine", units=UNITS)
        check(whole, PLAN, batches, ran)
        assert sum(out.batch["positions"] for out in ran) > 5 * CORE.attribute.slots


@pytest.mark.parametrize(
    ("config", "ring"),
    [
        # A whole run of a ring of community PEs is in tb/flows/test_run.py.
        pytest.param(GATHER, RING, id="ring of gather PEs", marks=full),
        pytest.param(community(partials=True), RING, id="ring of community PEs", marks=full),
        pytest.param(community(partials=False), None, id="community PEs", marks=full),
    ],
)
def test_every_chiplet_has_batches_of_its_own(
    config: GatherChipletConfig | CommunityChipletConfig, ring: RingConfig | None, tmp_path: Path
) -> None:
    """One has none, one has fewer than another."""
    batches = roots(7, 3, 1, 6, 7)
    shares = [batches[:3], [], batches[3:]] if ring else [batches]
    limits = LIMITS if config.kind == "community" else None
    for activation, stall in (("relu", 0.0), ("sigmoid", 0.2)):
        whole = problem(activation)
        image = BatchImage(whole, PLAN, 7, limits=limits)
        job = BatchJob(image, shares, Settings(latency=20, stall=stall))
        (ran,), _ = run_jobs(config, [job], tmp_path, name="batch_machine", units=UNITS, ring=ring)
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
