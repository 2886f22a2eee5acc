"""Attributes of edges in the first layer: floating point, training, files and integers on the whole graph."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from contracts import Model
from contracts.errors import InputError
from golden.datasets import load
from golden.edits import Edits, edited
from golden.graph import Graph
from golden.model.calibration import Calibration
from golden.model.float_model import FloatLayer, FloatModel, accuracy
from golden.model.network import Problem, infer
from golden.model.quantise import compare, outline, quantise
from golden.model.training import Training, _Run, train
from golden.model.weights import read_weights, write_weights
from sim.problems import random_graph, random_problem
from tb.model.test_float_model import check_slope

COMMUNITY = "synthetic:community,nodes=300,degree=8,classes=6,features=4,mixing=0.4,seed=2,edge_features=3"
DENSE, SPARSE = load(f"{COMMUNITY},density=1"), load(f"{COMMUNITY},density=0.3")


def network(graph: Graph, seed: int = 1) -> FloatModel:
    rng = np.random.default_rng(seed)
    first = FloatLayer(
        rng.normal(size=(graph.feature_count, 5)), rng.normal(size=5), Model.SAGE, activation="relu",
        edge_weight=rng.normal(size=(graph.edge_feature_count, 5)),
    )  # fmt: skip
    return FloatModel((first, FloatLayer(rng.normal(size=(5, 6)), rng.normal(size=6), Model.SAGE)))


def test_each_edge_adds_its_attributes_to_the_row_that_it_brings() -> None:
    """Edge by edge, as the source of a message would."""
    found, layer = network(DENSE).forward(DENSE)[0][1], network(DENSE).layers[0]
    assert layer.edge_weight is not None
    assert DENSE.edge_attributes is not None
    for node in (0, 7, 299):
        total = DENSE.features[node] @ layer.weight
        edges = range(DENSE.offsets[node], DENSE.offsets[node + 1])
        for edge in edges:
            total = total + DENSE.features[DENSE.edges[edge]] @ layer.weight
            total = total + DENSE.edge_attributes[edge] @ layer.edge_weight
        assert found[node] == pytest.approx(np.maximum(total / (1 + len(edges)) + layer.bias, 0))


@pytest.mark.parametrize("graph", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_step_with_attributes_of_edges_follows_the_slope(graph: Graph, layers: int) -> None:
    assert sparse.issparse(graph.features) == (graph is SPARSE)
    check_slope(_Run(graph, Model.SAGE, Training(layers=layers, hidden=4, dropout=0, decay=0)), graph)


def test_training_learns_from_attributes_and_integers_keep_it() -> None:
    """Neighbours say nothing about the class of a node, and attributes of the edges from them do."""
    found, given = [], load(f"{COMMUNITY},density=1".replace("mixing=0.4", "mixing=1"))
    for graph in (given, given.without_edge_attributes):
        trained = train(graph, Model.SAGE, Training(layers=1, epochs=100))
        assert trained.edge_features == graph.edge_feature_count
        found.append(accuracy(trained.predictions(graph), graph, graph.test))
        assert compare(trained, quantise(trained, graph)).agreement > 0.98
    assert None not in found
    assert float(found[0] or 0) > float(found[1] or 0) + 0.1


@pytest.mark.parametrize("graph", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("bits", [8, 16])
def test_results_are_those_in_floating_point(graph: Graph, bits: int) -> None:
    real = network(graph)
    whole = quantise(real, graph, calibration=Calibration(bits=bits))
    exact = np.ldexp(infer(whole)[-1].results.astype(float), -whole.model.output_fraction)
    wanted = real.forward(graph)[-1][1]
    assert np.abs(exact - wanted).max() < (0.1 if bits == 8 else 0.002) * np.abs(wanted).max()
    # Attributes are those of the edges, with the fraction of the features.
    assert whole.edge_rows is not None
    rows = np.ldexp(whole.edge_rows.astype(float), -whole.model.feature_fraction)
    assert np.abs(rows - graph.edge_attributes).max() <= np.ldexp(1.0, -whole.model.feature_fraction - 1)
    sums = np.asarray(whole.features[:, graph.feature_count :].todense() if whole.sparse else whole.features[:, 4:])
    assert sums[5].tolist() == whole.edge_rows[graph.offsets[5] : graph.offsets[6]].sum(axis=0).tolist()
    # Sizes are known before numbers are.
    shape = outline(real, graph)
    assert (shape.features.shape, shape.sparse) == (whole.features.shape, whole.sparse)
    if whole.sparse:
        assert shape.features.nnz >= whole.features.nnz


def test_a_node_without_edges_has_its_own_row_alone() -> None:
    graph = random_graph(5, 30, 20, features=4, density=1, attributes=2)
    assert (graph.degrees == 0).any()
    real = network(graph)
    whole = quantise(real, graph)
    exact = np.ldexp(infer(whole)[-1].results.astype(float), -whole.model.output_fraction)
    assert np.abs(exact - real.forward(graph)[-1][1]).max() < 0.01


def test_edges_keep_their_attributes_when_vertices_move() -> None:
    whole = random_problem(random_graph(3, 60, 300, features=4, density=1, attributes=3), Model.SAGE, (5, 3), 1)
    position = np.random.default_rng(4).permutation(60)
    moved = whole.relabelled(position)
    assert np.array_equal(infer(moved)[-1].results[position], infer(whole)[-1].results)
    back = moved.relabelled(np.argsort(position))
    for one, other in ((back, whole), (moved.graph, whole.graph.relabelled(position))):
        name = "edge_rows" if isinstance(one, Problem) else "edge_attributes"
        assert np.array_equal(getattr(one, name), getattr(other, name))
    graph = Graph.from_edges("two", 4, [1, 0, 3, 2], [0, 1, 2, 3], edge_attributes=np.arange(8.0).reshape(4, 2))
    part = graph.part([2, 3])
    assert part.edge_attributes is not None
    assert part.edge_attributes.tolist() == [[4, 5], [6, 7]]


def test_attributes_follow_edges_into_canonical_order() -> None:
    """Duplicates are added, self loops dropped, reverses have the same."""
    given = np.array([[1.0, 10], [2, 20], [4, 40], [8, 80]])
    graph = Graph.from_edges("g", 3, [2, 0, 2, 1], [0, 1, 0, 1], edge_attributes=given)
    assert graph.edge_attributes is not None
    assert (graph.edges.tolist(), graph.edge_attributes.tolist()) == ([2, 0], [[5, 50], [2, 20]])
    both = Graph.from_edges("g", 3, [2, 0], [0, 1], edge_attributes=given[:2], symmetrise=True)
    assert both.edge_attributes is not None
    assert both.edges.tolist() == [1, 2, 0, 0]
    assert both.edge_attributes[:, 0].tolist() == [2, 1, 2, 1]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    real = network(DENSE)
    write_weights(tmp_path / "w.npz", real)
    assert np.array_equal(read_weights(str(tmp_path / "w.npz")).predictions(DENSE), real.predictions(DENSE))


LAYER: dict[str, Any] = {"weight": np.ones((4, 5)), "bias": np.zeros(5), "model": Model.SAGE}
TAKES = "stands in a layer that takes no attributes of edges; expected sage"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_weight": np.ones((3, 4))}, "edge_weight: is [3, 4]; expected [attributes, 5], as weight"),
        ({"edge_weight": np.ones((0, 5))}, "edge_weight: is [0, 5]"),
        ({"edge_weight": np.ones(5)}, "edge_weight: is [5]"),
        ({"edge_weight": np.full((3, 5), np.nan)}, "edge_weight: has a number that is not finite"),
        ({"edge_weight": np.ones((3, 5)), "model": Model.GCN}, TAKES),
        ({"edge_weight": np.ones((3, 5)), "eps": -1.0}, TAKES),
    ],
)
def test_a_layer_without_a_place_for_attributes_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        FloatLayer(**{**LAYER, **change})


def test_a_graph_and_a_network_have_the_same_attributes() -> None:
    real, plain = network(DENSE), DENSE.without_edge_attributes
    assert plain.without_edge_attributes is plain
    with pytest.raises(InputError, match=r"edges: have 0 attributes; expected 3, as layer 0 takes"):
        real.forward(plain)
    without = FloatModel((replace(real.layers[0], edge_weight=None), real.layers[1]))
    for refused in (without.forward, lambda graph: quantise(without, graph), lambda graph: outline(without, graph)):
        with pytest.raises(InputError, match=r"edges: have 3 attributes; expected a sage .* or --no-edge-attributes"):
            refused(DENSE)
    with pytest.raises(InputError, match=r"edges: have attributes, which GIN does not take; expected SAGE, or --no-e"):
        train(DENSE, Model.GIN, Training(epochs=1))
    with pytest.raises(InputError, match=r"layer1.edge_weight: takes attributes of edges; expected the first layer"):
        FloatModel((replace(real.layers[0], edge_weight=None), replace(real.layers[1], edge_weight=np.ones((3, 6)))))
    with pytest.raises(InputError, match=r"--edits: edges of .* have attributes; expected edges without"):
        next(edited(DENSE, [Edits(np.zeros((0, 2), np.int64), np.zeros((0, 2), np.int64))]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones(2), r"edge_attributes: is float64 \[2\]; expected numbers \[2, d\]"),
        (np.ones((3, 2)), r"edge_attributes: is float64 \[3, 2\]; expected numbers \[2, d\]"),
        (np.array([["a"], ["b"]]), "edge_attributes: is <U1"),
        (np.ones((2, 0)), r"edge_attributes: is float32 \[2, 0\]; expected float32 \[2, d\], d at least 1"),
        (np.full((2, 1), np.inf), "edge_attributes: has a value that is not finite; expected finite numbers"),
    ],
)
def test_malformed_attributes_are_refused(rows: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Graph.from_edges("g", 3, [0, 1], [1, 2], edge_attributes=rows)


def test_a_problem_has_a_row_for_each_edge() -> None:
    whole = random_problem(random_graph(3, 60, 300, features=4, density=1, attributes=3), Model.SAGE, (5, 3), 1)
    assert whole.edge_rows is not None
    wrong: tuple[Any, ...] = (whole.edge_rows[1:], whole.edge_rows.astype(np.int32), whole.edge_rows[:, 0])
    for rows in wrong:
        with pytest.raises(InputError, match=r"edge rows: are .*; expected int16 \[\d+, attributes\]"):
            replace(whole, edge_rows=rows)
