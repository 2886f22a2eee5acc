"""Edge weights (R18): exact sums, PyG's normalisation, fractions, bounds, refusals."""

from dataclasses import replace

import numpy as np
import pytest

from contracts import Model
from contracts.errors import InputError
from contracts.scale import scales_of
from golden.graph import Graph
from golden.model.activation import RELU
from golden.model.float_model import FloatLayer, FloatModel, Reach
from golden.model.layer import aggregation_sums, check_degrees
from golden.model.network import infer
from golden.model.quantise import compare, quantise
from golden.model.topology import Topology, topologies_of
from sim.problems import random_graph


def weighted(seed: int, *, low: float = 0.0, nodes: int = 40) -> Graph:
    """Return a directed graph with weights from `low` to 2."""
    graph = random_graph(seed, nodes, 5 * nodes, 6, 1.0)
    weights = np.random.default_rng(seed).uniform(low, 2, graph.edge_count).astype(np.float32)
    return replace(graph, edge_weight=weights)


def network(seed: int, *models: tuple[Model, float], bias: float = 0.1) -> FloatModel:
    """Return layers of six features with random weights."""
    random = np.random.default_rng(seed)
    layers = [
        FloatLayer(random.normal(size=(6, 6)) / 2, bias * random.normal(size=6), model, eps, activation=RELU)
        for model, eps in models
    ]
    return FloatModel(tuple(layers))


def test_sums_are_those_of_plain_integers() -> None:
    graph = weighted(1)
    random = np.random.default_rng(1)
    rows = random.integers(-(1 << 15), 1 << 15, (graph.nodes, 3)).astype(np.int16)
    weights = random.choice([-(1 << 15), (1 << 15) - 1, 0, 5, -1], graph.edge_count).astype(np.int16)
    wanted = [[4096 * int(value) for value in row] for row in rows]
    for edge, (source, destination) in enumerate(zip(graph.edges, graph.destinations, strict=True)):
        for column in range(3):
            wanted[destination][column] += int(weights[edge]) * int(rows[source, column])
    assert aggregation_sums(graph, rows, 4096, 1, None, weights).tolist() == wanted


def test_a_gcn_is_normalised_as_by_pyg() -> None:
    """Write gcn_norm out: self loops of weight 1, degrees of the destinations, 0 where a degree is not positive."""
    graph = weighted(2)
    weights = np.asarray(graph.edge_weight).copy()
    first = slice(graph.offsets[3], graph.offsets[4])
    assert first.stop > first.start
    weights[first] = -1
    graph = replace(graph, edge_weight=weights)
    matrix = np.eye(graph.nodes)
    for edge, (source, destination) in enumerate(zip(graph.edges, graph.destinations, strict=True)):
        matrix[destination, source] = weights[edge]
    degrees = matrix.sum(axis=1)
    assert degrees[3] <= 0
    scale = np.where(degrees > 0, np.maximum(degrees, 1e-9) ** -0.5, 0)
    (layer,) = network(2, (Model.GCN, 0.0)).layers
    wanted = scale[:, None] * (matrix @ (scale[:, None] * (graph.features @ layer.weight))) + layer.bias
    _, found = FloatModel((layer,)).forward(graph)[0]
    assert np.allclose(found, np.maximum(wanted, 0), atol=1e-12)


@pytest.mark.parametrize("bias", [0.0, 0.1, 30.0])
def test_integers_follow_the_float_network(bias: float) -> None:
    graph = weighted(3, low=-0.02)
    model = network(3, (Model.GCN, 0.0), (Model.GCN, 0.0), bias=bias)
    problem = quantise(model, graph)
    real = model.forward(graph)[-1][1]
    found = np.ldexp(infer(problem)[-1].results, -problem.model.output_fraction)
    assert np.abs(found - real).max() < 0.01 * np.abs(real).max()
    assert compare(model, problem).agreement > 0.9


def test_weights_and_rows_share_the_bits_that_a_bias_leaves() -> None:
    graph = weighted(4)
    for bias, fraction in ((0.0, 14), (0.9, 8), (1.0, 7), (1e-4, 14), (5e4, 0)):
        layer = FloatLayer(np.eye(6), np.full(6, bias))
        (topology,) = topologies_of([layer], graph)
        assert topology.fraction == fraction
        assert topology.weights is not None
        assert np.abs(topology.weights - np.ldexp(np.asarray(graph.edge_weight), fraction)).max() <= 0.5


def test_relabelled_vertices_keep_their_weights() -> None:
    graph = weighted(5)
    problem = quantise(network(5, (Model.GCN, 0.0), (Model.GIN, -1.0)), graph)
    position = np.random.default_rng(5).permutation(graph.nodes)
    moved = problem.relabelled(position)
    assert (infer(moved)[-1].results[position] == infer(problem)[-1].results).all()


def test_dense_layers_and_an_unweighted_graph_take_no_notice() -> None:
    graph = weighted(6)
    dense = FloatLayer(np.eye(6), np.zeros(6), reach=Reach.NODE)
    (topology,) = topologies_of([dense], graph)
    assert (topology.weights, topology.alone) == (None, True)
    (topology,) = topologies_of([FloatLayer(np.eye(6), np.zeros(6), Model.SAGE)], graph.unweighted)
    assert topology.weights is None


def test_sums_that_could_overflow_are_refused() -> None:
    many = (1 << 17) - 1
    for nodes, message in ((many, ""), (many + 1, "add up to 4294967297 with its own")):
        star = Graph.from_edges(
            "star", nodes + 1, np.arange(1, nodes + 1), np.zeros(nodes, dtype=np.int64),
            edge_weight=np.full(nodes, -32768),
        )  # fmt: skip
        one = scales_of(np.ones(nodes + 1))
        topology = Topology(star, one, one, apart=True)
        problem = quantise(network(7, (Model.GIN, 1.0)), random_graph(1, 3, 2, 6, 1.0))
        layer = replace(problem.model.layers[0], self_weight=1)
        if message:
            with pytest.raises(InputError, match=f"star, node 0.*{message}"):
                check_degrees(star, layer, topology.weights)
        else:
            check_degrees(star, layer, topology.weights)


@pytest.mark.parametrize(
    ("model", "weight", "message"),
    [
        ((Model.SAGE, 0.0), 1.0, "have weights, which SAGE does not take; expected GCN, or --no-edge-weights"),
        ((Model.GIN, 0.5), 1.0, "have weights, which GIN does not take"),
        ((Model.GCN, 0.0), 4e4, "have the weight 4e.04; expected at most 32767 in magnitude"),
        ((Model.GCN, 0.0), -0.8, r"node 1: has a weighted degree of 0.2, with 1 for itself; expected 0, less, or more"),
    ],
)
def test_what_has_no_integers_is_refused_by_name(model: tuple[Model, float], weight: float, message: str) -> None:
    features = np.ones((2, 6))
    graph = Graph.from_edges("pair", 2, [0], [1], features=features, edge_weight=[weight])
    with pytest.raises(InputError, match=message):
        quantise(network(8, model), graph)


def test_a_topology_is_whole() -> None:
    graph = weighted(9)
    one = scales_of(np.ones(graph.nodes))
    for arguments, message in (
        ({"apart": False}, "has weighted edges and partial sums"),
        ({"apart": True, "fraction": 15}, "has weights of 15 fraction bits"),
        ({"apart": True, "fraction": -1}, "has weights of -1 fraction bits"),
    ):
        with pytest.raises(InputError, match=message):
            Topology(graph, one, one, **arguments)
    with pytest.raises(InputError, match="has weights of 1 fraction bits"):
        Topology(graph.unweighted, one, one, fraction=1)
