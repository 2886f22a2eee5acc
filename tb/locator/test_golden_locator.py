"""The step-exact locator against connected components, networkx and known numbers."""

import os
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.errors import InputError
from golden.datasets import load
from golden.graph import Graph, IntArray
from golden.locator.locator import Limits, Location, locate
from golden.locator.order import check_order, reorder
from golden.locator.partition import check_records, partition
from golden.locator.record import Record, beats_of, records_of
from golden.locator.schedule import Schedule
from tb.locator.graphs import GRAPHS, many_hubs

HALVING, SLOW = Schedule(16, True), Schedule(16, False, 1)
NAMES = [*GRAPHS, "les-miserables", "synthetic:empty,nodes=1"]
needs_cora = pytest.mark.skipif("ATOLL_PLANETOID" not in os.environ, reason="ATOLL_PLANETOID is not set")


def cora() -> Graph:
    return load(f"planetoid:{os.environ['ATOLL_PLANETOID']}/cora")


@st.composite
def graphs(draw: Any) -> Graph:
    nodes = draw(st.integers(0, 24))
    ends = st.integers(0, max(0, nodes - 1))
    edges = draw(st.lists(st.tuples(ends, ends), max_size=60)) if nodes else []
    ends_of = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return Graph.from_edges("drawn", nodes, ends_of[:, 0], ends_of[:, 1], symmetrise=True)


@given(
    graphs(),
    st.integers(0, 9),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from([2, 4, 8]),
)
@settings(max_examples=150, deadline=None)
def test_any_graph_is_parted_as_by_connected_components(
    graph: Graph, threshold: int, halving: bool, step: int, c_max: int, hubs: int, line_words: int
) -> None:
    schedule, limits = Schedule(threshold, halving, step), Limits(c_max, hubs, 64, line_words)
    found = locate(graph, schedule, limits)
    check_records(graph, schedule, limits, found.records)
    check_order(graph, found.records)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("schedule", [HALVING, SLOW])
@pytest.mark.parametrize("c_max", [1, 4, 64])
def test_communities_are_components_of_what_networkx_leaves_without_hubs(
    name: str, schedule: Schedule, c_max: int
) -> None:
    """Every community is a component of its round: connected, closed but for hubs, no larger than c_max."""
    graph = load(name)
    found = locate(graph, schedule, Limits(c_max))
    whole = nx.Graph()
    whole.add_nodes_from(range(graph.nodes))
    whole.add_edges_from(zip(graph.edges.tolist(), graph.destinations.tolist(), strict=True))
    hubs = {int(r.nodes[0]): r.round_number for r in found.records if r.hub_edges}
    seen: list[int] = list(hubs)
    for record in found.communities:
        nodes = record.nodes.tolist()
        seen += nodes
        assert len(nodes) <= c_max
        assert nx.is_connected(whole.subgraph(nodes))
        around = {v for u in nodes for v in whole[u]} - set(nodes)
        assert around == set(record.hubs.tolist())
        assert all(hubs[v] <= record.round_number for v in around)
    assert sorted(seen) == list(range(graph.nodes))


@needs_cora
@pytest.mark.parametrize(
    ("schedule", "hubs", "communities", "edges_read"), [(HALVING, 790, 895, 16_151), (SLOW, 548, 696, 27_688)]
)
def test_cora_has_its_hubs_communities_and_edges_read(
    schedule: Schedule, hubs: int, communities: int, edges_read: int
) -> None:
    found = locate(cora(), schedule)
    assert (len(found.hubs), len(found.communities), found.edges_read) == (hubs, communities, edges_read)


def test_a_star_is_one_hub_and_its_leaves() -> None:
    found = locate(load("synthetic:star,nodes=9"), Schedule(4, True), Limits(line_words=8))
    assert found.hubs == [0]
    assert [record.nodes.tolist() for record in found.communities] == [[leaf] for leaf in range(1, 9)]
    assert all(record.hubs.tolist() == [0] and record.bitmap.all() for record in found.communities)
    assert (found.rounds, found.edges_read, found.searches, found.given_up) == (1, 16, 8, 0)


def test_a_search_that_meets_a_mark_gives_up_too() -> None:
    """Hub 4 is joined to both ends of a path of 4 and of one of 8, and communities have at most 3 nodes."""
    edges = [(0, 1), (1, 2), (2, 3), *((node, node + 1) for node in range(5, 12)), (4, 0), (4, 3), (4, 5), (4, 12)]
    ends = np.array(edges, dtype=np.int64)
    graph = Graph.from_edges("loops", 13, ends[:, 0], ends[:, 1], symmetrise=True)
    found = locate(graph, Schedule(2, False, 1), Limits(3, line_words=8))
    # 0, 1, 2 are marked; the search from 3 meets 2. From 5 and from 12 three nodes each are marked.
    assert (found.hubs[0], found.searches, found.given_up, found.communities) == (4, 4, 4, [])
    # Rows of all hubs; those of 0, 1, 2; the first neighbour of 3; rows of 5, 6, 7; rows of 12 and 11 and half of 10's.
    assert found.edges_read == graph.edge_count + 6 + 1 + 6 + 5


@pytest.mark.parametrize(("hubs", "h_max", "parts"), [(70, 64, 2), (128, 128, 1), (69, 64, 0)])
def test_a_community_of_many_hubs_comes_in_parts_or_is_given_up(hubs: int, h_max: int, parts: int) -> None:
    graph, schedule = many_hubs(), Schedule(7, False, 7)
    limits = Limits(64, hubs, h_max)
    found = locate(graph, schedule, limits)
    check_records(graph, schedule, limits, found.records)
    whole = [record for record in found.records if record.nodes.size == 14]
    assert [record.part for record in whole] == list(range(parts))
    assert [record.last_part for record in whole] == [part == parts - 1 for part in range(parts)]
    assert sum(record.hubs.size for record in whole) == (70 if parts else 0)
    assert not any(record.bitmap[:, :14].any() for record in whole[1:])


def test_beats_and_records_are_each_others_inverse() -> None:
    found = locate(load("karate"), Schedule(4, True))
    beats = [beat for record in found.records for beat in beats_of(record)]
    again = list(records_of([*beats, 1 << 58]))
    assert [record.key for record in again] == [record.key for record in found.records]
    assert [beats_of(record) for record in again] == [beats_of(record) for record in found.records]
    with pytest.raises(ValueError, match="without the end of the stream"):
        list(records_of(beats))
    with pytest.raises(ValueError, match="beats follow the end"):
        list(records_of([*beats, 1 << 58, 0]))
    # The last row of the last record has a bit too many.
    with pytest.raises(ValueError, match="bits are set behind the"):
        list(records_of([*beats[:-1], beats[-1] | 1 << 63, 1 << 58]))


def broken(change: Any) -> Location:
    found = locate(load("karate"), Schedule(4, True))
    at = next(n for n, r in enumerate(found.records) if not r.hub_edges and r.nodes.size > 1)
    found.records[at : at + 1] = change(found.records[at])
    return found


def without_an_edge(record: Record) -> list[Record]:
    record.bitmap[0, 1] ^= True
    return [record]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: [], "communities differ"),
        (lambda record: [record, record], "was emitted twice"),
        (without_an_edge, "edges differ"),
    ],
)
def test_the_check_notices_what_is_wrong(change: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_records(load("karate"), Schedule(4, True), Limits(), broken(change).records)


def test_an_order_that_the_source_does_not_draw_is_refused() -> None:
    """Two rounds of karate: hubs and communities of each, and of both orders all that can be wrong."""
    graph = load("karate")
    found = locate(graph, Schedule(9, False, 1), Limits(8))
    usual, _ = reorder(graph.nodes, found.records)
    check_order(graph, found.records)
    check_order(graph, found.records, usual)
    first, second = (
        [int(record.nodes[0]) for record in found.records if record.hub_edges and record.round_number == number]
        for number in (0, 1)
    )
    one, other = (record.nodes.tolist() for record in found.communities if record.nodes.size in (5, 8))

    def swapped(u: int, v: int) -> IntArray:
        position = usual.copy()
        position[[u, v]] = position[[v, u]]
        return position

    for position, message in (
        (usual * 0, "the order is no permutation"),
        (graph.nodes - 1 - usual, "round 0 is torn"),
        (swapped(first[0], second[0]), "round 0 is torn"),
        (swapped(first[0], one[0]), "round 0: its hubs are no band"),
        (swapped(one[0], other[0]), "round 0: a community is torn"),
    ):
        with pytest.raises(AssertionError, match=message):
            check_order(graph, found.records, position)
    # Communities side by side change places, and the hubs of a round: that is the same picture.
    check_order(graph, found.records, swapped(first[0], first[1]))


def test_an_edge_beside_its_round_is_refused() -> None:
    """A hub that is found later than the community it touches, and a community in two halves."""
    graph = load("karate")
    found = locate(graph, Schedule(9, False, 1), Limits(8)).records
    hub = next(n for n, record in enumerate(found) if record.hub_edges and record.nodes[0] == 0)
    late = [replace(found[hub], round_number=1)]
    with pytest.raises(AssertionError, match=r"round 0: edge \d+ -> \d+ is in no L and no community"):
        check_order(graph, [*found[:hub], *late, *found[hub + 1 :]])
    at = next(n for n, record in enumerate(found) if record.nodes.size == 5)
    halves = [replace(found[at], nodes=found[at].nodes[rows]) for rows in (slice(2), slice(2, 5))]
    with pytest.raises(AssertionError, match="is in no L and no community"):
        check_order(graph, [*found[:at], *halves, *found[at + 1 :]])
    with pytest.raises(AssertionError, match="the order is no permutation"):
        check_order(graph, found[:at] + found[at + 1 :])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"c_max": 0}, "c_max: is 0; expected 1..65,535"),
        ({"hubs": 0}, "hubs: is 0"),
        ({"h_max": 65}, "h_max: is 65; expected a multiple of 64"),
        ({"h_max": 0}, "h_max: is 0"),
    ],
)
def test_limits_out_of_range_are_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Limits(**fields)


def test_an_asymmetric_graph_is_refused() -> None:
    graph = Graph.from_edges("one way", 3, [0], [1])
    with pytest.raises(InputError, match="0 -> 1 has no reverse"):
        locate(graph, HALVING)


def test_partition_is_told_by_rounds() -> None:
    hubs, communities = partition(load("synthetic:star,nodes=4"), Schedule(3, True), Limits())
    # Degree 3 is not above 3; in the next round, above 1, the centre is a hub.
    assert hubs == {0: 1}
    assert communities == {(frozenset([leaf]), 1) for leaf in (1, 2, 3)}


@pytest.mark.parametrize("schedule", [HALVING, SLOW])
def test_edges_are_counted_by_round_and_the_longest_search_is_one_of_them(schedule: Schedule) -> None:
    graph = load("karate")
    found = locate(graph, schedule)
    assert len(found.edges_by_round) == len(found.longest_by_round) == found.rounds
    assert sum(found.edges_by_round) == found.edges_read
    assert all(longest <= edges for longest, edges in zip(found.longest_by_round, found.edges_by_round, strict=True))
    # A path below the threshold of a star's centre: one search reads all that the hub's row does not.
    ends = np.array([(0, n) for n in range(1, 6)] + [(5, 6), (6, 7)])
    one = locate(Graph.from_edges("star with a tail", 8, ends[:, 0], ends[:, 1], symmetrise=True), Schedule(4))
    assert (one.edges_by_round, one.longest_by_round) == ([5 + 4 + 5], [5])
