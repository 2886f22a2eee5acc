import networkx as nx
import numpy as np
import pytest

from contracts.errors import InputError
from golden.datasets import load
from golden.graph import Graph


def small_graphs(graph: Graph) -> list[nx.Graph]:
    """Molecules as graphs of their own, in the order of their graph vertices."""
    assert graph.graph_of is not None
    joined = nx.from_scipy_sparse_array(graph.adjacency)
    return [joined.subgraph(np.flatnonzero(graph.graph_of == head).tolist()) for head in graph.graph_vertices]


def types(graph: Graph) -> list[int]:
    """Type of every atom; 0 for a graph vertex."""
    return np.asarray(graph.features.argmax(axis=1)).ravel().tolist()


@pytest.mark.parametrize("spec", ["", ",graphs=40,classes=6", ",graphs=40,classes=1,features=3", ",graphs=40,seed=5"])
def test_molecules_are_small_joined_and_have_few_bonds(spec: str) -> None:
    graph = load(f"synthetic:molecules{spec}")
    found = small_graphs(graph)
    assert len(found) == (40 if "graphs" in spec else 200)
    assert all(nx.is_connected(molecule) and 8 <= molecule.number_of_nodes() <= 30 for molecule in found)
    rings = [len(nx.minimum_cycle_basis(molecule)) for molecule in found]
    assert set(rings) == {0, 1, 2, 3}
    assert {len(ring) for molecule in found for ring in nx.minimum_cycle_basis(molecule)} <= {3, 4, 5, 6}
    assert graph.degrees.max() <= 4
    assert graph.symmetric
    assert (graph.features.sum(axis=1) == (graph.labels < 0)).all()


def test_the_class_is_a_bond_and_no_count_of_types() -> None:
    graph = load("synthetic:molecules,graphs=60,classes=3,features=7")
    kinds = types(graph)
    for molecule, label in zip(small_graphs(graph), graph.labels[graph.graph_vertices], strict=True):
        counts = np.bincount([kinds[atom] for atom in molecule], minlength=7)
        assert counts[1:5].tolist() == [1, 1, 1, 1]
        (marked,) = (atom for atom in molecule if kinds[atom] == 1)
        assert [kinds[atom] for atom in molecule[marked] if 2 <= kinds[atom] <= 4] == [2 + label]


def test_molecules_are_split_by_graphs_and_repeat_themselves() -> None:
    first, second = load("synthetic:molecules"), load("synthetic:molecules")
    assert np.array_equal(first.edges, second.edges)
    assert (first.features != second.features).sum() == 0
    parts = first.train, first.validation, first.test
    assert [int(part.sum()) for part in parts] == [120, 40, 40]
    assert np.array_equal(np.logical_or.reduce(parts), first.labels >= 0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "nodes=5",
            "synthetic:molecules: 'nodes=5' is not a key with a value; expected key=value with one of graphs, ",
        ),
        ("graphs=0", "synthetic:molecules, graphs: is '0'; expected an integer in 1..20,000"),
        ("classes=7", "synthetic:molecules, classes: is '7'"),
        ("classes=4,features=5", "synthetic:molecules, features: is 5; expected at least 6, two more than classes"),
    ],
)
def test_bad_settings_are_refused_in_one_line(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(f"synthetic:molecules,{spec}")
