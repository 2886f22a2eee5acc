"""Placements that keep neighbours together: permutations, balanced, with fewer rows on the links than ranges."""

import numpy as np
import pytest

from golden.datasets import load
from golden.graph import Graph
from golden.ring.partition import imbalance, partition, placed_apart, sums_pay
from golden.ring.placement import Placement
from golden.ring.traffic import traffic

COMMUNITIES = "synthetic:community,nodes=480,degree=6,classes=12,mixing=0.02"
GRAPHS = (
    COMMUNITIES,
    "digits",
    "karate",
    "synthetic:star,nodes=40",
    "synthetic:clique,nodes=12",
    "synthetic:path,nodes=3",
)


@pytest.mark.parametrize("chiplets", [1, 2, 4, 16])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_placement_is_a_permutation(name: str, chiplets: int) -> None:
    """Every vertex has one owner, and the same one the next time."""
    graph = load(name)
    position, placement = placed_apart(graph, chiplets)
    assert sorted(position.tolist()) == list(range(graph.nodes))
    assert placement.chiplets == chiplets
    assert placement.vertices == graph.nodes
    assert np.array_equal(placed_apart(graph, chiplets)[0], position)


@pytest.mark.parametrize("chiplets", [2, 4, 8])
@pytest.mark.parametrize("name", [COMMUNITIES, "digits"])
def test_work_is_shared_and_few_rows_travel(name: str, chiplets: int) -> None:
    """No chiplet has 10 % more work than the mean; rows pass fewer than half as many links as with ranges."""
    graph = load(name)
    work = graph.degrees * 3 + 7
    position, placement = placed_apart(graph, chiplets, work)
    of_vids = np.empty_like(work)
    of_vids[position] = work
    assert imbalance(placement, of_vids) < 1.1
    moved = graph.relabelled(position)
    ranges = Placement.ranges(graph.nodes, chiplets)
    assert 2 * traffic(moved, placement.without_sums).minimum < traffic(graph, ranges).minimum


def test_work_decides_how_many_vertices_a_part_has() -> None:
    """Of a path whose first tenth is as much work as its rest, both halves have as much."""
    graph = load("synthetic:path,nodes=400")
    work = np.where(np.arange(400) < 40, 99, 10)
    parts = partition(graph, 2, work)
    loads = np.bincount(parts, work, 2)
    assert loads.max() < 1.06 * loads.mean()


def test_the_direction_of_edges_does_not_matter() -> None:
    graph = load("synthetic:community,nodes=240,degree=5,classes=30,mixing=0.05,directed=1")
    assert np.array_equal(partition(graph, 4), partition(graph.symmetrised, 4))


def test_sums_of_a_star_go_home_and_pay() -> None:
    """All rows of the leaves are needed by the centre alone."""
    graph = load("synthetic:star,nodes=4000")
    position, placement = placed_apart(graph, 4)
    centre = int(position[np.argmax(graph.degrees)])
    assert placement.hubs.tolist() == [centre]
    moved = graph.relabelled(position)
    assert sums_pay(moved, placement, 16, 64)
    assert traffic(moved, placement).minimum < traffic(moved, placement.without_sums).minimum / 10


def test_edgeless_and_tiny_graphs_have_owners() -> None:
    """Fewer vertices than chiplets, and vertices without neighbours."""
    for nodes in (1, 3, 50):
        graph = Graph.from_edges("edgeless", nodes, [], [])
        position, placement = placed_apart(graph, 4)
        assert sorted(position.tolist()) == list(range(nodes))
        assert placement.hubs.size == 0
