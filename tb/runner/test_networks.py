"""Whole machines with networks of every kind of layer: alone and on rings, with gather and with community PEs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts import Model
from scripts.flows.simulations import images_of, place
from sim.problems import corner_graph, directed_graph, random_graph
from tb.runner.machines import MACHINES, MEMORIES, Case, run_exactly
from tb.runner.networks import attentive, batch, deep, mixed, readout, rooted, wide


def cases(machine: str) -> Iterator[Case]:
    """Yield all networks for a machine."""
    for n, graph in enumerate(("isolated nodes", "star", "clique")):
        yield Case(f"mixed, {graph}", mixed(corner_graph(graph, 5, (1.0, 0.4)[n % 2], n), n), settings=MEMORIES[n % 2])
    for n, graph in enumerate(("no edges", "isolated nodes", "star", "clique", "two components")):
        sparse = (0.4, 1.0)[n % 2]
        yield Case(f"rooted, {graph}", rooted(corner_graph(graph, 5, sparse, n), n), settings=MEMORIES[n % 2])
    small = batch(1, 9, 4)
    placements = ("tiles", "communities") if machine.endswith("ring") else ("tiles",)
    for placement in placements:
        yield Case(f"mean of each graph, {placement}", readout(small, 2, Model.SAGE), placement, MEMORIES[1])
        yield Case(f"rooted, {placement}", rooted(corner_graph("path", 5, 1.0, 7), 7), placement, MEMORIES[1])
        yield Case(f"mixed, {placement}", mixed(corner_graph("two components", 5, 1.0, 4), 4), placement)
    for n, graph in enumerate(("acyclic", "into a star", "out of a star", "one edge without reverse")):
        one_way, make = directed_graph(graph, 5, (1.0, 0.4)[n % 2], n), (rooted, mixed)[n % 2]
        yield Case(f"directed, {graph}", make(one_way, n), placements[n % len(placements)], MEMORIES[n % 2])
    yield Case("sum of each graph", readout(batch(3, 4, 7), 5, Model.GIN), settings=MEMORIES[1])
    yield Case("deep", deep(corner_graph("path", 3, 1.0, 6), 6, 8))
    directed = random_graph(7, 30, 90, 5, 1.0)
    yield Case("directed, rooted", rooted(directed, 8))
    yield Case("dense features in blocks", wide(corner_graph("clique", 1, 1.0, 10), 10, 150, 1.0), settings=MEMORIES[1])
    if machine.startswith("gather"):
        yield Case("attention", attentive(directed, 11), settings=MEMORIES[1])


@pytest.mark.parametrize("machine", MACHINES)
def test_networks_are_exact(machine: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    run_exactly(machine, cases(machine), tmp_path, subtests)


def test_layers_that_sum_the_same_share_a_topology() -> None:
    problem = mixed(corner_graph("star", 5, 1.0, 0), 0)
    sums, dense, mean, dense_too, with_itself, normalised = problem.topologies
    assert dense is dense_too
    assert dense.alone
    assert len({sums, dense, mean, with_itself, normalised}) == 5
    (image,) = images_of(MACHINES["gather"], place(MACHINES["gather"], problem))
    assert sum(region.kind.name == "EDGES" for region in image.regions) == 5
