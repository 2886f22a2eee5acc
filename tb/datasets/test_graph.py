import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from contracts.errors import InputError
from golden.graph import Graph

NODES = st.integers(1, 10)


def edge_lists(nodes: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Edges with self loops and duplicates."""
    node = st.integers(0, nodes - 1)
    return st.lists(st.tuples(node, node), max_size=40)


def directed(nodes: int, pairs: list[tuple[int, int]], **options: Any) -> Graph:
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Graph.from_edges("test", nodes, ends[:, 0], ends[:, 1], **options)


@settings(deadline=None)
@given(st.data(), NODES, st.booleans())
def test_rows_are_the_sets_of_sources(data: st.DataObject, nodes: int, symmetrise: bool) -> None:
    pairs = data.draw(edge_lists(nodes))
    graph = directed(nodes, pairs, symmetrise=symmetrise)
    sets: list[set[int]] = [set() for _ in range(nodes)]
    for source, target in pairs:
        for u, v in [(source, target), (target, source)][: 2 if symmetrise else 1]:
            if u != v:
                sets[v].add(u)
    assert [graph.edges[a:b].tolist() for a, b in zip(graph.offsets, graph.offsets[1:], strict=False)] == [
        sorted(sources) for sources in sets
    ]
    assert graph.degrees.tolist() == [len(sources) for sources in sets]
    assert graph.symmetric == all(v in sets[u] for v in range(nodes) for u in sets[v])
    assert np.array_equal(graph.adjacency.toarray(), [[u in sets[v] for u in range(nodes)] for v in range(nodes)])


@settings(deadline=None)
@given(st.data(), NODES)
def test_relabelling_moves_everything_with_the_node(data: st.DataObject, nodes: int) -> None:
    masks = np.arange(nodes) % 3
    graph = directed(
        nodes,
        data.draw(edge_lists(nodes)),
        features=np.arange(nodes)[:, None],
        labels=np.arange(nodes),
        train=masks == 0,
        validation=masks == 1,
        test=masks == 2,
    )
    place = np.array(data.draw(st.permutations(range(nodes))))
    moved = graph.relabelled(place)
    assert np.array_equal(moved.adjacency.toarray()[np.ix_(place, place)], graph.adjacency.toarray())
    for name in ("features", "labels", "train", "validation", "test"):
        assert np.array_equal(getattr(moved, name)[place], getattr(graph, name))


@settings(deadline=None)
@given(st.data(), NODES, st.booleans())
def test_weights_of_duplicates_are_added_and_follow_their_edges(
    data: st.DataObject, nodes: int, symmetrise: bool
) -> None:
    pairs = data.draw(edge_lists(nodes))
    weights = data.draw(st.lists(st.integers(-8, 8), min_size=len(pairs), max_size=len(pairs)))
    graph = directed(nodes, pairs, edge_weight=np.array(weights, dtype=int), symmetrise=symmetrise)
    wanted = np.zeros((nodes, nodes), dtype=np.float32)
    for (source, target), weight in zip(pairs, weights, strict=True):
        wanted[target, source] += weight
        wanted[source, target] += weight if symmetrise else 0
    np.fill_diagonal(wanted, 0)
    assert np.array_equal(weighted(graph), wanted)
    place = np.array(data.draw(st.permutations(range(nodes))))
    assert np.array_equal(weighted(graph.relabelled(place))[np.ix_(place, place)], wanted)


def weighted(graph: Graph) -> Any:
    """Matrix of a graph's weights: row destination, column source."""
    assert graph.edge_weight is not None
    dense = np.zeros((graph.nodes, graph.nodes), dtype=np.float32)
    dense[graph.destinations, graph.edges] = graph.edge_weight
    return dense


def test_dropped_self_loops_with_weights_are_said() -> None:
    graph = directed(2, [(0, 0), (0, 1), (1, 1)], edge_weight=[1, 2, 3])
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [2]
    assert graph.notes == ("test: 2 self loops with their weights are dropped; a layer counts the node itself",)
    assert directed(2, [(0, 0), (0, 1)]).notes == ()
    assert directed(2, [(0, 1)], edge_weight=[2]).notes == ()


#: Nodes 0 and 1 are a small graph with the graph vertex 3, node 2 is another with 4.
BATCH = Graph.from_edges(
    "test",
    5,
    [0, 1],
    [1, 0],
    features=np.array([[1], [1], [1], [0], [0]]),
    labels=[-1, -1, -1, 1, 0],
    train=np.arange(5) == 3,
    graph_of=np.array([3, 3, 4, -1, -1]),
)


@given(st.permutations(range(5)))
def test_nodes_stay_in_their_small_graph(order: list[int]) -> None:
    place = np.array(order)
    moved = BATCH.relabelled(place)
    assert moved.graph_of is not None
    assert moved.graph_of[place].tolist() == [place[3], place[3], place[4], -1, -1]
    assert moved.graph_vertices.tolist() == sorted(place[3:])
    assert moved.labels[place].tolist() == [-1, -1, -1, 1, 0]


def test_a_part_keeps_what_belongs_to_its_nodes() -> None:
    graph = replace(BATCH, edge_weight=np.array([2, 3], dtype=np.float32), edges=np.array([1, 0]))
    assert BATCH.small_graphs([3]).tolist() == [0, 1, 3]
    first, second = (graph.part(BATCH.small_graphs([vertex])) for vertex in (3, 4))
    assert first.edge_weight is not None
    assert second.edge_weight is not None
    assert (first.edges.tolist(), first.edge_weight.tolist()) == ([1, 0], [2, 3])
    assert (second.edges.size, second.edge_weight.size) == (0, 0)
    assert [part.graph_of.tolist() for part in (first, second) if part.graph_of is not None] == [[2, 2, -1], [1, -1]]
    assert (first.labels.tolist(), first.train.tolist()) == ([-1, -1, 1], [False, False, True])
    assert second.features.ravel().tolist() == [1, 0]
    with pytest.raises(InputError, match="part: has an edge from node 1, which is not in it"):
        graph.part([0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graph_of": np.array([3, 3, 4, -1])}, r"graph_of: is int64 \[4\]; expected int64 \[5\]"),
        ({"graph_of": np.array([3, 3, 4, -1, -1], dtype=np.int32)}, "graph_of: is int32"),
        ({"graph_of": np.array([3, 3, 5, -1, -1])}, "graph_of: node 2 belongs to 5; expected VIDs of graph vertices"),
        ({"graph_of": np.array([3, 3, -2, -1, -1])}, "graph_of: node 2 belongs to -2"),
        ({"graph_of": np.array([3, 3, 1, -1, -1])}, "graph_of: node 2 belongs to 1"),
        ({"graph_of": np.array([3, 3, 3, -1, -1])}, "graph_of: graph vertex 4 has no nodes"),
        ({"graph_of": np.array([3, 4, 4, -1, -1])}, "edges: 1 -> 0 joins two small graphs"),
        ({"features": np.ones((5, 1), dtype=np.float32)}, "features: of a graph vertex are not zero"),
        ({"labels": np.array([-1, -1, 0, 1, 0])}, "graph_of: node 2 of a small graph has a label"),
        ({"test": np.arange(5) == 0}, "graph_of: node 0 of a small graph has a label or is in the split"),
        ({"edge_weight": np.ones(3, dtype=np.float32)}, r"edge_weight: is float32 \[3\]; expected float32 \[2\]"),
        ({"edge_weight": np.ones(2)}, "edge_weight: is float64"),
        ({"edge_weight": np.array([1, np.nan], dtype=np.float32)}, "edge_weight: has a value that is not finite"),
    ],
)
def test_a_malformed_batch_is_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^graph test, .*{message}") as caught:
        replace(BATCH, **change)
    assert "\n" not in str(caught.value)


def test_a_graph_vertex_has_no_edges() -> None:
    with pytest.raises(InputError, match="edges: 3 -> 2 joins two small graphs or a graph vertex"):
        directed(4, [(3, 2)], features=np.array([[1], [1], [1], [0]]), graph_of=np.array([3, 3, 3, -1]))


def test_a_placement_that_is_no_permutation_is_refused() -> None:
    with pytest.raises(InputError, match="graph test, placement: is int64"):
        directed(3, []).relabelled([0, 0, 1])


def test_an_edge_without_reverse_is_named() -> None:
    directed(3, [(0, 1), (1, 0)]).require_symmetric("the locator")
    with pytest.raises(InputError, match="0 -> 2 has no reverse; expected a symmetric adjacency for the locator"):
        directed(3, [(0, 1), (1, 0), (0, 2)]).require_symmetric("the locator")


GOOD = directed(3, [(0, 1), (1, 0), (2, 1)], labels=[0, 1, -1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 1, 3, 3], dtype=np.int32)}, "offsets: is int32"),
        ({"offsets": np.zeros(0, dtype=np.int64)}, "offsets: is empty"),
        ({"offsets": np.array([0, 1, 3, 4])}, "offsets: run from 0 to 4; expected 0 to 3"),
        ({"offsets": np.array([0, 3, 1, 3])}, "offsets: fall after row 1"),
        ({"edges": np.array([1, 0, 3])}, "edges: has the VID 3; expected VIDs in 0..2"),
        ({"edges": np.array([1, 0, -1])}, "edges: has the VID -1"),
        ({"edges": np.array([1, 2, 0])}, "edges: row 1 is not ascending"),
        ({"edges": np.array([1, 2, 2])}, "edges: row 1 is not ascending"),
        ({"edges": np.array([0, 0, 2])}, "edges: row 0 has itself"),
        ({"edges": [1, 0, 2]}, "edges: is list"),
        ({"features": np.ones((3, 1))}, "features: is float64"),
        ({"features": np.ones((2, 1), dtype=np.float32)}, "features: is float32"),
        ({"features": np.ones(3, dtype=np.float32)}, "features: is float32"),
        ({"features": np.full((3, 1), np.nan, dtype=np.float32)}, "features: has a value that is not finite"),
        ({"features": sparse.csc_array(np.ones((3, 1), dtype=np.float32))}, "features: is csc_array"),
        ({"features": sparse.csr_array(np.full((3, 1), np.inf, dtype=np.float32))}, "not finite"),
        ({"labels": np.array([0, 1])}, "labels: is int64"),
        ({"labels": np.array([0, 1, 2])}, "labels: has the class 2"),
        ({"labels": np.array([0, 1, -2])}, "labels: has the class -2"),
        ({"train": np.ones(3)}, "train: is float64"),
        ({"test": np.ones(2, dtype=np.bool_)}, "test: is bool"),
        ({"train": np.ones(3, dtype=np.bool_), "test": np.ones(3, dtype=np.bool_)}, "split: puts a node into two"),
    ],
)
def test_a_malformed_graph_is_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^graph test, .*{message}") as caught:
        replace(GOOD, **change)
    assert "\n" not in str(caught.value)


def test_sparse_features_with_duplicates_are_refused() -> None:
    twice = sparse.csr_array((np.ones(2, dtype=np.float32), [0, 0], [0, 2, 2, 2]), shape=(3, 1))
    with pytest.raises(InputError, match="unsorted or duplicate"):
        replace(GOOD, features=twice)


@pytest.mark.parametrize(
    ("sources", "targets", "options", "message"),
    [
        ([0, 3], [1, 1], {}, "edges: has the node 3; expected nodes in 0..2"),
        ([0, -1], [1, 1], {}, "edges: has the node -1"),
        ([0], [1, 1], {}, "edges: is "),
        ([0.5], [1], {}, "edges: is float64"),
        ([0], [1], {"labels": [0.5, 0, 0]}, "labels: is float64"),
        ([0], [1], {"train": [1, 0, 1]}, "train: is int64"),
        ([0], [1], {"edge_weight": [1, 2]}, r"edge_weight: is int64 \[2\]; expected numbers \[1\]"),
        ([0], [1], {"edge_weight": ["a"]}, "edge_weight: is <U1"),
        ([0, 0], [1, 1], {"edge_weight": [3e38, 3e38]}, "edge_weight: has a value that is not finite"),
    ],
)
def test_a_malformed_edge_list_is_refused(sources: Any, targets: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Graph.from_edges("test", 3, sources, targets, **options)


def test_an_error_says_where_and_what_and_can_cross_processes() -> None:
    error = InputError("file.npz, x", "has a\nNaN", "numbers")
    assert str(error) == "file.npz, x: has a NaN; expected numbers"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
