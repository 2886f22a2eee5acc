"""Placement and traffic: the specification's numbers, a walk packet by packet, refusals."""

import os
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from contracts import COMMANDS, EDGE_WEIGHTED, PACKET_HEADER, VALUE_BITS, Opcode, Split
from contracts.errors import InputError
from golden.datasets import load
from golden.graph import Graph
from golden.ring.by_graphs import graphs_apart
from golden.ring.placement import Placement
from golden.ring.traffic import plan, traffic
from sim.harness import ROOT


def random_graph(seed: int, nodes: int = 40, edges: int = 150) -> Graph:
    random = np.random.default_rng(seed)
    return Graph.from_edges(f"random {seed}", nodes, *random.integers(0, nodes, (2, edges)))


def walked(graph: Graph, placement: Placement) -> tuple[np.ndarray, int, int]:
    """Crossings by link, unicast and per-edge hops, found on a ring of networkx by shortest paths."""
    ring = nx.cycle_graph(placement.chiplets, create_using=nx.DiGraph)
    ahead = dict(nx.all_pairs_shortest_path_length(ring))
    owner = placement.owners(np.arange(graph.nodes)).tolist()
    links = np.zeros(placement.chiplets, dtype=np.int64)
    unicast = per_edge = 0
    consumers: dict[int, set[int]] = {}
    for source, destination in zip(graph.edges.tolist(), graph.destinations.tolist(), strict=True):
        per_edge += ahead[owner[source]][owner[destination]]
        if owner[source] != owner[destination]:
            consumers.setdefault(source, set()).add(owner[destination])
    for source, chiplets in consumers.items():
        hops = [ahead[owner[source]][chiplet] for chiplet in chiplets]
        unicast += sum(hops)
        for hop in range(max(hops)):
            links[(owner[source] + hop) % placement.chiplets] += 1
    return links, unicast, per_edge


@pytest.mark.parametrize("chiplets", [2, 3, 5, 16])
def test_traffic_is_that_of_a_walk_packet_by_packet(chiplets: int) -> None:
    for seed in range(5):
        graph = random_graph(seed)
        bounds = np.sort(np.random.default_rng(seed).integers(0, graph.nodes + 1, chiplets - 1))
        placement = Placement.at([0, *bounds.tolist(), graph.nodes])
        links, unicast, per_edge = walked(graph, placement)
        got = traffic(graph, placement)
        assert np.array_equal(got.features, links)
        assert (got.unicast, got.per_edge) == (unicast, per_edge)
        assert got.minimum <= got.unicast <= got.per_edge
        assert got.minimum <= got.broadcast
        assert np.array_equal(got.words(7), links * 7)
        assert got.bits(7) == links.sum() * 7 * 16


@pytest.mark.parametrize(
    ("name", "minimum", "unicast", "per_edge"),
    [("cora", 6108, 8687, 14728), ("citeseer", 6633, None, 13536), ("pubmed", 40825, None, 132680)],
)
def test_citation_graphs_have_the_stated_traffic(name: str, minimum: int, unicast: int | None, per_edge: int) -> None:
    folder = os.environ.get("ATOLL_PLANETOID")
    if not folder or not (Path(folder) / f"ind.{name}.graph").exists():
        pytest.skip(f"ATOLL_PLANETOID names no folder with {name}")
    graph = load(f"planetoid:{folder}/{name}")
    got = traffic(graph, Placement.ranges(graph.nodes, 4))
    assert (got.minimum, got.per_edge) == (minimum, per_edge)
    assert unicast is None or got.unicast == unicast


def test_hubs_send_sums_home_instead_of_fetching_rows() -> None:
    # A star of 8: the hub is vertex 0 in chiplet 0; all others have it as their only neighbour.
    graph = Graph.from_edges("star", 8, [0] * 7, range(1, 8), symmetrise=True)
    without = traffic(graph, Placement.ranges(8, 4))
    hub = traffic(graph, Placement.ranges(8, 4, [0]))
    # Without: the hub goes 3 hops, and 2 vertices of each other chiplet go 3, 2 and 1 hops to it.
    assert without.minimum == 3 + 2 * (3 + 2 + 1)
    # With: the hub's row still goes out, one sum starts at chiplet 1 and collects the other shares on its way.
    assert hub.features.tolist() == [1, 1, 1, 0]
    assert hub.partials.tolist() == [0, 1, 1, 1]
    assert hub.bits(16) == 3 * 16 * 16 + 3 * 16 * 32
    assert hub.words(16).tolist() == [16, 48, 48, 32]


def test_by_source_no_row_travels() -> None:
    graph = random_graph(3)
    placement = Placement.ranges(graph.nodes, 4)
    got = plan(graph, placement.by(Split.SOURCE))
    assert not got.consumers.any()
    owner = placement.owners(np.arange(graph.nodes))
    assert (owner[got.gathered.source] == owner[got.gathered.destination]).all()
    assert got.gathered.source.size + got.shared.source.size == graph.edge_count


def test_r11_worked_example_of_results_that_go_home() -> None:
    """Chip 0 executes 0-1, 0-4, 0-7 and sends 4 and 7; chip 1 executes 6-1, 6-2, 6-3 and sends 1, 2 and 3."""
    graph = Graph.from_edges("example", 8, [0, 0, 0, 6, 6, 6], [1, 4, 7, 1, 2, 3])
    got = plan(graph, Placement.ranges(8, 2).by(Split.SOURCE))
    assert [np.flatnonzero(got.contributors[:, chip]).tolist() for chip in range(2)] == [[4, 7], [1, 2, 3]]
    assert got.gathered.destination.tolist() == [1]


def test_formats_have_room_for_gradients_and_edge_weights() -> None:
    """R16, R18: a packet and its command say that rows are gradients; packets and edges have a place for weights."""
    plain = {"vid": 5, "elements": 16, "source": 2, "destination": 3}
    for mark in ("backward", "weighted"):
        marked = PACKET_HEADER.pack(plain | {mark: 1})
        assert PACKET_HEADER.unpack(marked) == PACKET_HEADER.unpack(PACKET_HEADER.pack(plain)) | {mark: 1}
    assert COMMANDS[Opcode.SCATTER].unpack(COMMANDS[Opcode.SCATTER].pack({"backward": 1}))["backward"] == 1
    edge = {"vid": 0xFFFF_FFFF, "weight": -(1 << VALUE_BITS - 1)}
    assert EDGE_WEIGHTED.unpack(EDGE_WEIGHTED.pack(edge)) | edge == EDGE_WEIGHTED.unpack(EDGE_WEIGHTED.pack(edge))
    assert PACKET_HEADER.bits <= 64 >= EDGE_WEIGHTED.bits
    contracts = (ROOT / "docs" / "contracts.md").read_text()
    assert all(row in contracts for row in ("`backward`", "`weighted`", "### WeightedEdge (64 bits)"))


@pytest.mark.parametrize(
    ("boundaries", "message"),
    [
        ([0], "boundary table: has 1 entries"),
        ([1, 4], "boundary table, row 0: is 1"),
        ([0, 5, 3, 8], "boundary table, row 2: is 3; expected at least 5"),
        (list(range(18)), "boundary table: has 18 entries"),
    ],
)
def test_bad_boundary_tables_are_refused_with_the_row(boundaries: list[int], message: str) -> None:
    with pytest.raises(InputError) as refusal:
        Placement.at(boundaries)
    assert str(refusal.value).startswith(message)


def test_hubs_and_sizes_that_do_not_fit_are_refused() -> None:
    for hubs in ([3, 3], [5, 2], [8], [-1]):
        with pytest.raises(InputError, match="hub table"):
            Placement.ranges(8, 2, hubs)
    with pytest.raises(InputError, match="boundary table, row 2: is 9; expected 40"):
        traffic(random_graph(1), Placement.ranges(9, 2))


@pytest.mark.parametrize("chiplets", [1, 3, 16])
def test_small_graphs_stay_whole_and_need_no_traffic(chiplets: int) -> None:
    graph = load("synthetic:molecules,graphs=20")
    position, placement = graphs_apart(graph, chiplets)
    moved = graph.relabelled(position)
    assert np.array_equal(placement.owners(moved.edges), placement.owners(moved.destinations))
    graph_of = np.asarray(moved.graph_of)
    members = np.flatnonzero(graph_of >= 0)
    assert np.array_equal(placement.owners(members), placement.owners(graph_of[members]))
    sizes = np.diff(placement.boundaries)
    assert sizes.sum() == graph.nodes
    assert sizes.max() - sizes.min() <= 2 * np.bincount(graph_of[members]).max()


def test_more_chiplets_than_small_graphs_leave_some_empty() -> None:
    graph = load("synthetic:molecules,graphs=3")
    _, placement = graphs_apart(graph, 8)
    assert np.count_nonzero(np.diff(placement.boundaries)) <= 3
