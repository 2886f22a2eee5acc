import networkx as nx
import numpy as np
import pytest

from contracts.errors import InputError
from golden.datasets import bundled, digits, load
from golden.datasets.common import compact, stratified_split


@pytest.mark.parametrize("name", bundled.GRAPHS)
def test_a_bundled_graph_is_that_of_networkx(name: str) -> None:
    graph, original = load(name), getattr(nx, bundled.GRAPHS[name].constructor)()
    assert (graph.nodes, graph.edge_count) == (len(original), 2 * original.number_of_edges())
    assert graph.symmetric
    assert np.array_equal(graph.features.toarray(), np.eye(graph.nodes))
    assert (graph.train | graph.validation | graph.test).all()
    assert np.unique(graph.labels).tolist() == list(range(graph.classes))
    assert graph.train.any()
    assert graph.test.any()


def test_karate_has_its_clubs_and_no_weights() -> None:
    graph, original = load("karate"), nx.karate_club_graph()
    hi = np.array([original.nodes[node]["club"] == "Mr. Hi" for node in original])
    assert np.array_equal(graph.labels == 0, hi)
    assert set(graph.adjacency.data.tolist()) == {1}


def test_a_bundled_graph_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="there is no 'karat', perhaps karate; expected one of karate, davis"):
        bundled.load("karat")


def test_digits_are_joined_to_their_nearest_by_distance_then_id() -> None:
    graph = load("digits")
    assert (graph.nodes, graph.feature_count, graph.classes) == (1797, 64, 10)
    pixels = np.rint(graph.features * digits.GREY_MAX).astype(np.int64)
    nearest: list[set[int]] = []
    for node in range(graph.nodes):
        away = ((pixels - pixels[node]) ** 2).sum(axis=1)
        order = sorted((int(d), other) for other, d in enumerate(away) if other != node)[:8]
        nearest.append({other for _, other in order})
    for node in range(graph.nodes):
        expected = nearest[node] | {other for other in range(graph.nodes) if node in nearest[other]}
        assert set(graph.edges[graph.offsets[node] : graph.offsets[node + 1]].tolist()) == expected


def test_digits_are_split_by_class() -> None:
    graph = load("digits")
    for label in range(10):
        members = graph.labels == label
        for mask, share in ((graph.train, 0.6), (graph.validation, 0.2), (graph.test, 0.2)):
            assert abs((members & mask).sum() - share * members.sum()) <= 1


def test_a_split_is_a_partition_that_depends_on_the_seed() -> None:
    labels = np.array([0] * 10 + [1] * 7 + [2] * 2 + [3] + [-1] * 4)
    first, again, other = (np.array(stratified_split(labels, seed)) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()
    assert (first.sum(axis=0) == (labels >= 0)).all()
    assert [[int((part & (labels == label)).sum()) for part in first] for label in range(4)] == [
        [6, 2, 2],
        [4, 1, 2],
        [1, 0, 1],
        [1, 0, 0],
    ]


def test_features_are_sparse_where_that_is_smaller() -> None:
    assert isinstance(compact(np.array([[1, 0], [0, 1]])), np.ndarray)
    assert compact(np.array([[1, 0], [0, 0]])).nnz == 1
