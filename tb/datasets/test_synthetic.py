import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.errors import InputError
from golden.datasets import catalogue, load
from golden.datasets.synthetic import KINDS
from golden.graph import Graph


def joined(graph: Graph) -> nx.Graph:
    return nx.from_scipy_sparse_array(graph.adjacency)


def cliques_in_a_ring(cliques: int, size: int) -> nx.Graph:
    ring = nx.disjoint_union_all([nx.complete_graph(size)] * cliques)
    ring.add_edges_from((size * n + size - 1, size * ((n + 1) % cliques)) for n in range(cliques))
    return ring


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(1, 60),
    st.integers(1, 20),
    st.floats(0.01, 1),
    st.integers(0, 2**32 - 1),
)
def test_every_kind_has_the_sizes_asked_for_and_repeats_itself(
    kind: str, nodes: int, features: int, density: float, seed: int
) -> None:
    spec = f"synthetic:{kind},nodes={nodes},features={features},density={density!r},seed={seed}"
    first, second = load(spec), load(spec)
    assert first.nodes == (round(nodes**0.5) ** 2 if kind == "grid" else nodes)
    assert first.feature_count == features
    assert first.symmetric
    assert np.array_equal(first.edges, second.edges)
    assert np.array_equal(first.labels, second.labels)
    assert (first.features != second.features).sum() == 0
    assert (first.labels >= 0).all()


@pytest.mark.parametrize(
    ("spec", "reference"),
    [
        ("grid,nodes=36", nx.grid_2d_graph(6, 6)),
        ("path,nodes=9", nx.path_graph(9)),
        ("cycle,nodes=9", nx.cycle_graph(9)),
        ("star,nodes=9", nx.star_graph(8)),
        ("clique,nodes=9", nx.complete_graph(9)),
        ("empty,nodes=9", nx.empty_graph(9)),
        ("small-world,nodes=12,degree=4,mixing=0", nx.watts_strogatz_graph(12, 4, 0)),
        ("caveman,nodes=12,degree=3", cliques_in_a_ring(3, 4)),
        ("windmill,nodes=13,degree=4", nx.windmill_graph(3, 5)),
        ("lollipop,nodes=9,degree=4", nx.lollipop_graph(5, 4)),
        ("bipartite,nodes=9,degree=2", nx.complete_bipartite_graph(2, 7)),
        ("tree,nodes=13,degree=3", nx.full_rary_tree(3, 13)),
    ],
)
def test_regular_kinds_are_those_of_networkx(spec: str, reference: nx.Graph) -> None:
    assert nx.is_isomorphic(joined(load(f"synthetic:{spec}")), reference)


@pytest.mark.parametrize("kind", ["power-law", "configuration", "community", "erdos"])
def test_random_kinds_have_about_the_degree_asked_for(kind: str) -> None:
    graph = load(f"synthetic:{kind},nodes=3000,degree=8,classes=6")
    assert 5.5 <= graph.degrees.mean() <= 8.1


def test_a_small_world_has_long_edges() -> None:
    ring, small = (load(f"synthetic:small-world,nodes=2000,degree=6,mixing={share}") for share in (0, 0.1))
    reach = [np.abs((graph.edges - graph.destinations + 1000) % 2000 - 1000) for graph in (ring, small)]
    assert reach[0].max() == 3
    assert 0.08 <= (reach[1] > 3).mean() <= 0.12


def test_cliques_that_do_not_divide_the_nodes_end_in_a_smaller_one() -> None:
    graph = load("synthetic:caveman,nodes=10,degree=3")
    assert sorted(graph.degrees.tolist()) == [2, 2, 3, 3, 3, 3, 4, 4, 4, 4]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"empty"}))
def test_edges_go_one_way_where_asked_for(kind: str) -> None:
    """All of them, or half; nothing else changes."""
    spec = f"synthetic:{kind},nodes=100"
    both, one, half = (load(f"{spec},directed={share}") for share in (0, 1, 0.5))
    assert both.symmetric
    assert np.array_equal(one.symmetrised.edges, both.edges)
    assert np.array_equal(one.labels, both.labels)
    # An edge that is drawn twice may be drawn both ways.
    assert both.edge_count // 2 <= one.edge_count <= 0.55 * both.edge_count
    assert 0.6 * both.edge_count < half.edge_count < 0.9 * both.edge_count
    assert not half.symmetric
    assert set(zip(one.edges, one.destinations, strict=True)) <= set(zip(half.edges, half.destinations, strict=True))


@pytest.mark.parametrize("kind", ["power-law", "configuration"])
def test_power_laws_have_hubs(kind: str) -> None:
    graph, even = load(f"synthetic:{kind},nodes=3000"), load("synthetic:erdos,nodes=3000")
    assert graph.degrees.max() > 4 * even.degrees.max()


def test_communities_are_planted() -> None:
    graph = load("synthetic:community,nodes=1000,classes=10,mixing=0.1,degree=10")
    inside = graph.labels[graph.edges] == graph.labels[graph.destinations]
    assert 0.88 <= inside.mean() <= 0.95
    apart = load("synthetic:community,nodes=999,classes=10,mixing=0")
    assert (apart.labels[apart.edges] == apart.labels[apart.destinations]).all()


def test_classes_elsewhere_are_those_of_a_nearest_centre() -> None:
    graph = load("synthetic:path,nodes=50,classes=3")
    assert (np.diff(graph.labels) != 0).sum() == 2


def test_density_is_the_share_of_features_that_are_not_zero() -> None:
    thin, dense = (load(f"synthetic:erdos,features=200,density={share}") for share in (0.05, 0.8))
    assert 0.035 <= thin.features.nnz / (256 * 200) <= 0.05
    assert abs(np.count_nonzero(dense.features) / (256 * 200) - 0.8) < 0.02


def test_words_are_counted_once_and_half_of_them_belong_to_the_class() -> None:
    graph = load("synthetic:erdos,nodes=2000,features=400,classes=4,density=0.05")
    assert set(graph.features.data.tolist()) == {1.0}
    words = graph.features.tocoo()
    own = words.coords[1] // 100 == graph.labels[words.coords[0]]
    # Half by choice, a quarter of the others by chance.
    assert abs(own.mean() - 0.625) < 0.02


def test_limits_themselves_are_allowed() -> None:
    graph = load("synthetic:erdos,nodes=5,classes=5,degree=4")
    assert sorted(graph.labels.tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ring", "there is no 'ring'; expected one of power-law, "),
        ("grid,size=3", "'size=3' is not a key with a value; expected key=value with one of nodes, degree"),
        ("grid,nodes", "'nodes' is not a key with a value"),
        ("grid,nodes=4,nodes=5", "'nodes=5' twice"),
        ("grid,nodes=four", "nodes: is 'four'; expected an integer in 1..10,000,000"),
        ("grid,nodes=0", "nodes: is '0'"),
        ("erdos,density=0", "density: is '0'"),
        ("erdos,density=nan", "density: is 'nan'"),
        ("erdos,degree=9,nodes=5", "degree: is 9.0; expected at most 4 with 5 nodes"),
        ("path,classes=9,nodes=5", "classes: is 9; expected at most 5"),
        ("clique,nodes=5000", "nodes: is 5000; expected 1..4096"),
        ("path,nodes=100000,features=60000,density=0.9", "has 6,000,000,000 features, nodes . features . density"),
        ("path,nodes=10000000,features=60000,density=0.01", "has 6,000,000,000 features, nodes . features . density"),
        ("star,nodes=60000,features=60000,classes=60000,density=1", "features, nodes . features . density; expected"),
        ("erdos,nodes=10000000,degree=1000", "has 10,000,000,000 edges, nodes . degree; expected at most 134,217,728"),
        ("power-lw", "there is no 'power-lw', perhaps power-law; expected one of power-law, "),
        ("path,node=4", "'node=4' is not a key with a value, perhaps nodes; expected key=value with one of nodes"),
    ],
)
def test_bad_settings_are_refused_in_one_line(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(f"synthetic:{spec}")


def test_the_list_of_data_sets_is_what_can_be_loaded() -> None:
    entries = catalogue()
    names = [entry.name for entry in entries]
    assert names[:2] == ["digits", "karate"]
    assert len(set(names)) == len(names)
    assert all(entry.description for entry in entries)
    for name in names:
        if "DIR" not in name and "FILE" not in name:
            assert load(name).nodes


@pytest.mark.parametrize("spec", ["", "cora", "digits:", "Karate", "file:x"])
def test_a_data_set_that_does_not_exist_is_refused(spec: str) -> None:
    with pytest.raises(InputError, match=r"data set: there is no .*; expected one of digits, karate, "):
        load(spec)


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("karat", "karate"),
        ("Karate", "karate"),
        ("mine.npz", "npz:mine.npz"),
        ("cora", "planetoid:DIR/cora with the folder DIR of ind.cora.graph"),
        ("power-law", "synthetic:power-law"),
        ("plantoid:data/cora", "planetoid:"),
    ],
)
def test_the_nearest_data_set_is_named(spec: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"there is no {spec!r}, perhaps {meant}; expected one of"):
        load(spec)
