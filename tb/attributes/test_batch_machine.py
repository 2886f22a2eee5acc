"""Mini-batch GraphSAGE through sampler, two-level cache and PEs, bit-exact with the golden model."""

from pathlib import Path

import numpy as np

from golden.attributes.batch import BatchImage, batch_results
from golden.attributes.sampler import Plan
from golden.contracts import Error, Model
from golden.model.network import Problem
from hw.attributes.core import CoreConfig
from hw.attributes.formats import AttributeConfig
from hw.chiplet.config import ChipletConfig
from hw.pe.formats import PEConfig
from tb.attributes.batch_jobs import Ran, run_batches
from tb.chiplet.problems import random_graph, random_problem

CHIPLET = ChipletConfig(
    groups=1, pes=1, depth=32, pe=PEConfig(lanes=4, data_width=64, weight_rows=128, max_out=12, queue=4)
)
#: Far fewer slots than a batch has positions.
CORE = CoreConfig(
    AttributeConfig(slots=20, ways=4, row_beats=8, data_width=64, id_bits=8, outstanding=4, depth=32), 6, 64
)


def problem() -> Problem:
    graph = random_graph(3, 80, 500, features=14, density=1)
    return random_problem(graph, Model.SAGE, [9, 5], seed=4)


def check(problem: Problem, plan: Plan, batches: list[np.ndarray], ran: list[Ran]) -> None:
    for number, (roots, out) in enumerate(zip(batches, ran, strict=True)):
        assert all(done["error"] == Error.NONE for done in out.completions), out.completions
        batch, results = batch_results(problem, roots, plan, number)
        assert out.batch["positions"] == batch.nodes.size
        assert [out.batch[f"hop{n}"] for n in range(len(batch.hops))] == list(batch.hops)
        assert np.array_equal(out.nodes, batch.nodes)
        assert np.array_equal(out.results, results), f"batch {number}"


def test_batches_are_bit_exact(tmp_path: Path) -> None:
    """Both ways of finding a target address, on one design."""
    whole = problem()
    plan = Plan((5, 3), 2, seed=11)
    rng = np.random.default_rng(2)
    batches = [rng.integers(0, 80, count) for count in (4, 1, 7, 7)]
    for slotted in (True, False):
        image = BatchImage(whole, plan, 7, slotted=slotted)
        ran, _ = run_batches(CHIPLET, CORE, image, batches, tmp_path, latency=20, stall=0.2)
        check(whole, plan, batches, ran)
        assert sum(out.batch["positions"] for out in ran) > 5 * CORE.attribute.slots
        # Requests by flow add up.
        for out in ran:
            flows = sum(out.batch[flow] for flow in ("in_place", "cached", "moved", "missed"))
            assert flows == out.batch["requests"] == out.batch["positions"]
