"""Attributes of edges: as rows of the attribute RAM, and in the first layer of GraphSAGE (A1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts import Model, Targets
from contracts.errors import InputError
from golden.attributes.batch import BatchImage, batch_results
from golden.attributes.divided import shares_of
from golden.attributes.sampler import Plan, sample
from golden.model.network import Problem, infer
from hw.machine import Units
from sim.problems import random_graph, random_problem
from sim.runner.batches import BatchJob
from sim.runner.jobs import Settings
from sim.runner.run import run_jobs
from tb.attributes.test_batch_runs import (
    CORE,
    GATHER,
    LIMITS,
    PLAN,
    PROCESSOR,
    SCRATCH,
    STREAMED,
    Faults,
    check,
    community,
    divided,
    roots,
)
from tb.harness.marks import full

#: IDs of 80 nodes, their edges, and no edge.
UNITS = replace(STREAMED, attributes=replace(CORE, attribute=replace(CORE.attribute, id_bits=10), window=32))
#: Edges' keys are divided among two attribute processors as nodes are.
DIVIDED = divided(UNITS, 2)


def problem(
    activation: str = "relu", sizes: Sequence[int] = (9, 5), features: int = 14, attributes: int = 3
) -> Problem:
    graph = random_graph(3, 80, 500, features=features, density=1, attributes=attributes)
    return random_problem(graph, Model.SAGE, list(sizes), 4, activation, PROCESSOR)


def test_samples_say_along_which_edge_they_were_found() -> None:
    graph = problem().graph
    batch = sample(graph, roots(7)[0], PLAN, 5)
    sampled = np.arange(batch.hops[0], batch.positives)
    along = batch.along[sampled]
    assert np.array_equal(graph.edges[along], batch.nodes[sampled])
    assert np.array_equal(graph.destinations[along], batch.nodes[batch.parents[sampled]])
    assert (batch.along[: batch.hops[0]] == -1).all()
    assert batch.negatives
    assert (batch.along[batch.positives :] == -1).all()


@pytest.mark.parametrize("sizes", [(9, 5), (5,)])
def test_whole_neighbourhoods_have_the_results_of_the_whole_graph(sizes: tuple[int, ...]) -> None:
    """A batch sums products edge by edge, the whole graph multiplies sums: they differ by what is rounded."""
    whole = problem(sizes=sizes)
    most = int(whole.graph.degrees.max())
    exact = infer(whole)[-1].results
    mine = np.arange(80)
    _, results = batch_results(whole, mine, Plan((most,) * len(sizes)), 0)
    assert np.abs(results.astype(int) - exact[mine]).max() <= 8
    assert np.abs(exact).max() > 4000
    # Attributes count: without them the results are others.
    assert whole.edge_rows is not None
    nothing = replace(whole, edge_rows=np.zeros_like(whole.edge_rows))
    _, others = batch_results(nothing, mine, Plan((most,) * len(sizes)), 0)
    assert np.abs(others.astype(int) - exact[mine]).max() > 400


@pytest.mark.parametrize(
    ("streamed", "units"),
    [(False, UNITS), (True, UNITS), pytest.param(True, DIVIDED, id="two processors", marks=full)],
)
def test_batches_with_attributes_of_edges_are_bit_exact(tmp_path: Path, streamed: bool, units: Units) -> None:
    """More attributes than features or fewer, a layer that ends on the neural chip, and weights in blocks."""
    batches, jobs, problems = roots(4, 1, 7, 7), list[BatchJob](), list[Problem]()
    cases = (
        (problem("tanh"), Targets.POSITION), (problem(attributes=20), Targets.HASH),
        (problem(sizes=(20, 5)), Targets.AHEAD), (problem(features=40), Targets.AHEAD),
    )  # fmt: skip
    for whole, targets in cases:
        image = BatchImage(
            whole, PLAN, 7, targets, weight_room=GATHER.pe.weight_room, scratch_lines=SCRATCH, streamed=streamed
        )
        assert image.streamed == (streamed and image.row_bytes == 32)
        problems.append(whole)
        jobs.append(BatchJob([image], [batches], Settings(latency=20, stall=0.2)))
    config = replace(GATHER, scratch_lines=SCRATCH)
    ran, _ = run_jobs(config, jobs, tmp_path, units=units)
    for whole, out in zip(problems, ran, strict=True):
        check(whole, PLAN, batches, out)
        # Each position asks for two rows, and some are there already: the same path as those of nodes.
        for each in out:
            assert each.batch["requests"] >= 2 * each.batch["hop0"]
            assert each.batch["missed"] < each.batch["requests"]


def test_rows_of_edges_that_cannot_be_read_end_the_run(tmp_path: Path) -> None:
    """Rows of nodes and of edges, samples of the next batch; resets in the middle; and the next run works."""
    batches, whole = roots(7, 5), problem()
    for streamed in (False, True):
        image = BatchImage(whole, PLAN, 7, scratch_lines=SCRATCH, streamed=streamed)
        config = replace(GATHER, scratch_lines=SCRATCH)
        edges = image.attributes.address + 80 * image.attributes.row_bytes
        bad = range(edges, image.attributes.address + image.attributes.bytes)
        job = Faults([image], [batches], Settings(latency=20), (90, 250, 700, 1500), bad)
        (ran,), _ = run_jobs(config, [job], tmp_path, units=UNITS)
        check(whole, PLAN, batches, ran)


@full
def test_community_pes_take_attributes_of_edges(tmp_path: Path) -> None:
    batches, whole = roots(7, 3), problem()
    image = BatchImage(whole, PLAN, 7, limits=LIMITS, scratch_lines=SCRATCH, streamed=True)
    sizes = replace(community(partials=False), scratch_lines=SCRATCH)
    job = BatchJob([image], [batches], Settings(latency=20, stall=0.2))
    (ran,), _ = run_jobs(sizes, [job], tmp_path, units=UNITS)
    check(whole, PLAN, batches, ran)


def test_a_ring_has_no_batches_with_attributes_of_edges() -> None:
    for share in shares_of(np.array([0, 40, 80])):
        with pytest.raises(InputError, match=r"edges: have attributes, and a ring divides it; expected one chiplet"):
            BatchImage(problem(), PLAN, 7, share=share)
