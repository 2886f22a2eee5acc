"""Rows are sent in the order in which they are needed; whoever owns a vertex still does."""

import numpy as np
import pytest

from contracts import Split
from contracts.errors import InputError
from golden.community.tiles import Room
from golden.datasets import load
from golden.graph import Graph, IntArray
from golden.locator.locator import Limits
from golden.locator.schedule import ANY
from golden.ring.image import travelling_first
from golden.ring.need import by_need
from golden.ring.partition import placed_apart
from golden.ring.placement import Placement
from golden.ring.traffic import plan
from sim.problems import directed_graph

LIMITS = Limits(32, 32)


def ordered(graph: Graph, placement: Placement) -> tuple[IntArray, Placement]:
    return by_need(graph, placement, ANY.schedule(graph), LIMITS)


def test_rows_come_in_the_order_of_the_records_that_need_them() -> None:
    """Stars on the second chiplet, the smallest first; each has a neighbour on the first one, which needs nothing."""
    sizes = [4, 8, 16, 32]
    source, destination, centre = [], [], len(sizes)
    for star, size in enumerate(sizes):
        leaves = np.arange(centre + 1, centre + 1 + size)
        source += [*leaves, star]
        destination += [centre] * (size + 1)
        centre += size + 1
    ends = np.array(source + destination), np.array(destination + source)
    graph = Graph.from_edges("stars", centre, *ends)
    position, after = ordered(graph, Placement.at([0, len(sizes), centre]))
    # Hubs come by falling degree.
    assert position[: len(sizes)].tolist() == [3, 2, 1, 0]
    assert after.boundaries.tolist() == [0, len(sizes), centre]


@pytest.mark.parametrize("chiplets", [2, 5, 16])
@pytest.mark.parametrize(
    "name", ["karate", "synthetic:power-law,nodes=300,degree=6", "synthetic:community,nodes=90,degree=3,classes=3"]
)
def test_owners_stay_and_travelling_rows_are_first(name: str, chiplets: int) -> None:
    graph = load(name)
    first, placement = placed_apart(graph, chiplets)
    graph, placement = graph.relabelled(first), placement.without_sums
    position, after = ordered(graph, placement)
    assert np.array_equal(np.sort(position), np.arange(graph.nodes))
    vids = np.arange(graph.nodes)
    assert np.array_equal(after.owners(position[vids]), placement.owners(vids))
    leaves = np.asarray(plan(graph.relabelled(position), after).consumers.any(axis=1), dtype=np.int64)
    for chiplet in range(chiplets):
        assert not (np.diff(leaves[slice(*after.range(chiplet))]) > 0).any()


def test_a_vertex_that_does_not_fit_has_the_users_name() -> None:
    graph = load("karate")
    names = np.arange(100, 100 + graph.nodes)
    with pytest.raises(InputError, match="karate, vertex 100: has 16 neighbours; expected at most 15 "):
        by_need(graph, Placement.ranges(graph.nodes, 2), ANY.schedule(graph), LIMITS, Room(16, 4096, 1, 16), names)


@pytest.mark.parametrize("chiplets", [2, 4])
def test_where_sums_wait_for_all_rows_nothing_more_is_ordered(chiplets: int) -> None:
    graph = load("karate")
    placement = Placement.ranges(graph.nodes, chiplets, hubs=[0, 33]).by(Split.DESTINATION)
    directed = directed_graph("acyclic", 3, 1.0, 0)
    for given, owners in ((graph, placement), (directed, Placement.ranges(directed.nodes, chiplets))):
        wanted, after = travelling_first(given, owners)
        position, found = ordered(given, owners)
        assert np.array_equal(position, wanted)
        assert np.array_equal(found.hubs, after.hubs)
