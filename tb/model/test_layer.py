from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from contracts import Activation, Model
from contracts.errors import InputError
from contracts.scale import scales_of
from golden.dnp.layer_end import LayerEnd
from golden.graph import Graph
from golden.model.layer import (
    QuantisedLayer,
    RootWeights,
    aggregate,
    aggregation_sums,
    check_degrees,
    combination_sums,
    combine,
)
from golden.model.network import Fractions, Problem, QuantisedModel, infer, predictions, problem_of
from golden.model.scale import scales_of_model
from golden.model.topology import Topology
from tb.model.reference import CORNERS, layer_by_hand, random_layer

EXTREMES = np.array([-32768, 32767], dtype=np.int16)


def undirected(nodes: int, pairs: list[tuple[int, int]]) -> Graph:
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Graph.from_edges("test", nodes, ends[:, 0], ends[:, 1], symmetrise=True)


def whole(
    values: np.ndarray[tuple[int, ...], np.dtype[np.int16]], layer: QuantisedLayer, graph: Graph, model: Model
) -> Problem:
    return problem_of(graph, values, QuantisedModel(model, (layer,), 15, (Fractions(15, 15, 15),)))


def members(model: Model) -> tuple[int, int]:
    return (333, 256) if model == Model.GIN else (1, 1)


@pytest.mark.parametrize("activation", list(Activation))
@pytest.mark.parametrize("model", list(Model))
@pytest.mark.parametrize("corner", CORNERS)
def test_a_layer_is_the_formula_on_corner_graphs(corner: str, model: Model, activation: Activation) -> None:
    nodes, pairs = CORNERS[corner]
    graph = undirected(nodes, pairs)
    rng = np.random.default_rng(11)
    features = rng.integers(-32768, 32768, (nodes, 5)).astype(np.int16)
    layer = random_layer(rng, 5, 3, activation, *members(model))
    problem = whole(features, layer, graph, model)
    (result,) = infer(problem)
    topology = problem.topologies[0]
    combined, results = layer_by_hand(pairs, features, layer, topology.source, topology.destination)
    assert result.combined.tolist() == combined
    assert result.results.tolist() == results


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_layer_is_the_formula_on_any_graph(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, 12))
    node = st.integers(0, nodes - 1)
    pairs = data.draw(st.lists(st.tuples(node, node), max_size=30))
    model = data.draw(st.sampled_from(list(Model)))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    graph = undirected(nodes, pairs)
    layer = random_layer(rng, data.draw(st.integers(1, 6)), 2, Activation.NONE, *members(model))
    layer = replace(layer, shift_source=data.draw(st.integers(0, 63)), shift_destination=data.draw(st.integers(0, 63)))
    features = rng.integers(-32768, 32768, (nodes, layer.f_in)).astype(np.int16)
    problem = whole(features, layer, graph, model)
    (result,) = infer(problem)
    topology = problem.topologies[0]
    combined, results = layer_by_hand(pairs, features, layer, topology.source, topology.destination)
    assert result.combined.tolist() == combined
    assert result.results.tolist() == results


@pytest.mark.parametrize("activation", list(Activation))
@pytest.mark.parametrize("model", [Model.SAGE, Model.GIN])
@pytest.mark.parametrize("corner", CORNERS)
def test_a_rooted_layer_is_the_formula(corner: str, model: Model, activation: Activation) -> None:
    nodes, pairs = CORNERS[corner]
    graph, rng = undirected(nodes, pairs), np.random.default_rng(12)
    features = rng.integers(-32768, 32768, (nodes, 5)).astype(np.int16)
    layer = random_layer(rng, 5, 3, activation)
    own = rng.integers(-32768, 32768, (5, 3)).astype(np.int16)
    layer = replace(layer, root=RootWeights(own, layer.shift_source))
    topology = Topology(graph, *scales_of_model(model, graph.degrees, -1))
    problem = Problem(graph, features, (topology,), QuantisedModel(model, (layer,), 15, (Fractions(15, 15, 15),)))
    (result,) = infer(problem)
    combined, results = layer_by_hand(pairs, features, layer, topology.source, topology.destination)
    assert result.combined.tolist() == combined
    assert result.results.tolist() == results


@pytest.mark.parametrize(("degree", "fits"), [(1 << 14, True), ((1 << 14) + 1, False)])
def test_a_mean_beside_a_root_weight_has_so_many_neighbours(degree: int, fits: bool) -> None:
    graph = undirected(degree + 1, [(0, n) for n in range(1, degree + 1)])
    layer = random_layer(np.random.default_rng(1), 2, 1)
    layer = replace(layer, root=RootWeights(layer.weights, 30))
    features, model = (
        np.ones((graph.nodes, 2), np.int16),
        QuantisedModel(Model.SAGE, (layer,), 0, (Fractions(0, 0, 0),)),
    )
    for kind, allowed in ((Model.SAGE, fits), (Model.GIN, True)):
        topology = Topology(graph, *scales_of_model(kind, graph.degrees, -1))
        if allowed:
            infer(Problem(graph, features, (topology,), model))
            continue
        with pytest.raises(InputError, match="node 0: has 16385 neighbours, and the mean of them stands beside a root"):
            Problem(graph, features, (topology,), model)


def test_root_weights_are_those_of_the_layer() -> None:
    layer = random_layer(np.random.default_rng(1), 4, 3)
    for weights, shift, where in ((layer.weights[:3], 0, "root weights"), (layer.weights, 64, "root shift")):
        with pytest.raises(InputError, match=where):
            replace(layer, root=RootWeights(weights, shift))


def test_sparse_and_dense_features_give_the_same_rows() -> None:
    rng = np.random.default_rng(3)
    dense = (rng.integers(-32768, 32768, (40, 100)) * (rng.random((40, 100)) < 0.1)).astype(np.int16)
    weights = rng.integers(-32768, 32768, (100, 16)).astype(np.int16)
    scales = scales_of(rng.uniform(0.1, 1, 40))
    assert (combine(dense, weights, scales, 33) == combine(sparse.csr_array(dense), weights, scales, 33)).all()


def test_sums_are_those_of_scipy() -> None:
    rng = np.random.default_rng(4)
    graph = undirected(200, [(int(u), int(v)) for u, v in rng.integers(0, 200, (900, 2))])
    rows = rng.integers(-32768, 32768, (200, 7)).astype(np.int16)
    matrix = sparse.lil_array((200, 200), dtype=np.int64)
    for target in range(200):
        for source in graph.edges[graph.offsets[target] : graph.offsets[target + 1]]:
            matrix[target, source] = 1
    matrix = matrix.tocsr()
    assert (aggregation_sums(graph, rows) == matrix @ rows.astype(np.int64) + rows).all()
    assert (
        aggregation_sums(graph, rows, 300, 256) == 256 * (matrix @ rows.astype(np.int64)) + 300 * rows.astype(np.int64)
    ).all()


def test_no_nodes_give_no_rows() -> None:
    graph = Graph.from_edges("none", 0, [], [])
    layer = random_layer(np.random.default_rng(0), 3, 2)
    (result,) = infer(whole(np.zeros((0, 3), dtype=np.int16), layer, graph, Model.GCN))
    assert (result.combined.shape, result.results.shape) == ((0, 2), (0, 2))


def test_combined_rows_of_another_shape_or_type_are_refused() -> None:
    graph = undirected(3, [(0, 1)])
    for rows in (np.zeros((2, 1), np.int16), np.zeros((3, 1), np.int32), np.zeros(3, np.int16)):
        with pytest.raises(InputError, match="combined rows: are int"):
            aggregation_sums(graph, rows)  # type: ignore[arg-type]


def test_the_widest_combination_sum_is_exact() -> None:
    features = np.full((2, 65536), EXTREMES[:, None], dtype=np.int16)
    weights = np.full((65536, 2), -32768, dtype=np.int16)
    sums = combination_sums(features, weights)
    assert sums.tolist() == [[1 << 46] * 2, [-32767 * 32768 * 65536] * 2]
    assert (combination_sums(sparse.csr_array(features), weights) == sums).all()


def test_an_aggregation_does_not_depend_on_the_order_of_addition() -> None:
    rng = np.random.default_rng(5)
    graph = undirected(50, [(int(u), int(v)) for u, v in rng.integers(0, 50, (200, 2))])
    rows = rng.integers(-32768, 32768, (50, 4)).astype(np.int16)
    scales = scales_of_model(Model.GCN, graph.degrees)[1]
    biases = np.array([1 << 20, -(1 << 28), 0, 7], dtype=np.int32)
    straight = aggregate(graph, rows, scales, 16, biases)
    place = rng.permutation(50)
    old = np.argsort(place)
    moved = aggregate(graph.relabelled(place), rows[old], scales.take(old), 16, biases)
    assert (moved[place] == straight).all()


def test_activations_differ_only_in_what_they_are_for() -> None:
    graph = undirected(3, [(0, 1), (1, 2)])
    rows = np.array([[-5, 9], [7, -100], [1, 2]], dtype=np.int16)
    scales, biases = scales_of(np.ones(3)), np.array([-(4 << 15), 3 << 15], dtype=np.int32)
    none, relu, dnp = (aggregate(graph, rows, scales, 15, biases, activation) for activation in Activation)
    assert none.tolist() == [[-2, -88], [-1, -86], [4, -95]]
    assert (relu == np.maximum(none, 0)).all()
    assert dnp.tolist() == [[2, -91], [3, -89], [8, -98]]


def test_the_chip_gets_biases_at_the_scale_of_the_results() -> None:
    layer = QuantisedLayer(
        np.ones((1, 3), dtype=np.int16), np.array([1 << 20, -(3 << 16), 1 << 30], dtype=np.int32), 0, 17, Activation.DNP
    )
    assert layer.neural_biases.tolist() == [8, -2, 8192]


def star_of(degree: int) -> Graph:
    return Graph.from_edges("star", degree + 1, np.arange(1, degree + 1), np.zeros(degree, dtype=np.int64))


@pytest.mark.parametrize("weights", [(1, 1), (256, 256)])
def test_the_largest_degree_is_the_last_whose_sum_fits(weights: tuple[int, int]) -> None:
    layer = QuantisedLayer(np.ones((1, 1), np.int16), np.zeros(1, np.int32), 0, 0, Activation.NONE, *weights)
    check_degrees(star_of(65535), layer)
    extreme = np.full((65536, 1), -32768, dtype=np.int16)
    assert int(aggregation_sums(star_of(65535), extreme, *weights)[0, 0]) == -(1 << (layer.partial_bits - 1))
    with pytest.raises(InputError, match=r"graph star, node 0: has 65536 neighbours; expected at most 65535"):
        check_degrees(star_of(65536), layer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.ones((2, 2))}, "weights: are float64"),
        ({"weights": np.ones((65537, 3), dtype=np.int16)}, "features: there are 65537; expected 1..65536"),
        ({"biases": np.zeros(2, dtype=np.int32)}, r"biases: are int32 \(2,\)"),
        ({"shift_source": 64}, "shift_source: is 64; expected 0..63"),
        ({"shift_destination": -1}, "shift_destination: is -1"),
        ({"self_weight": 1 << 15}, "self_weight: is 32768"),
    ],
)
def test_a_layer_checks_itself(change: dict[str, object], message: str) -> None:
    layer = QuantisedLayer(np.ones((2, 3), dtype=np.int16), np.zeros(3, dtype=np.int32), 1, 1)
    with pytest.raises(InputError, match=message):
        replace(layer, **change)  # type: ignore[arg-type]


def test_a_combination_checks_its_operands() -> None:
    features, weights = np.ones((2, 3), dtype=np.int16), np.ones((3, 4), dtype=np.int16)
    with pytest.raises(InputError, match="int16 features and weights"):
        combine(features.astype(np.int64), weights, scales_of([1, 1]), 0)
    with pytest.raises(InputError, match=r"features \(2, 3\), weights \(3, 4\), 3 scales"):
        combine(features, weights, scales_of([1, 1, 1]), 0)


def layered(*activations: Activation, ends: dict[int, LayerEnd] | None = None) -> Problem:
    graph = undirected(3, [(0, 1), (1, 2)])
    rng = np.random.default_rng(1)
    layers = tuple(random_layer(rng, 2, 2, activation) for activation in activations)
    features = rng.integers(-32768, 32768, (3, 2)).astype(np.int16)
    fractions = (Fractions(15, 15, 15),) * len(layers)
    return problem_of(graph, features, QuantisedModel(Model.GCN, layers, 15, fractions, ends or {}))


def test_layers_feed_each_other() -> None:
    problem = layered(Activation.RELU, Activation.NONE)
    first, second = infer(problem)
    alone = replace(problem.model, layers=problem.model.layers[1:], fractions=problem.model.fractions[1:])
    (again,) = infer(problem_of(problem.graph, first.results, alone))
    assert (again.results == second.results).all()


def test_the_neural_chip_stands_between_layers() -> None:
    halves = LayerEnd(np.array([0, 100]), np.arange(-128, 128) * 128)
    problem = layered(Activation.DNP, Activation.DNP, ends={0: halves})
    first, second = infer(problem)
    alone = replace(problem.model, layers=problem.model.layers[:1], fractions=problem.model.fractions[:1], ends={})
    (bare,) = infer(problem_of(problem.graph, problem.features, alone))
    assert (first.results == halves(bare.results)).all()
    assert (first.results != bare.results).any()
    alone = replace(alone, layers=problem.model.layers[1:])
    (again,) = infer(problem_of(problem.graph, first.results, alone))
    assert (again.results == second.results).all()
    for ends, activation, message in (
        ({}, Activation.DNP, "layer 0: ends with 0 biases and DNP; expected 2 biases"),
        ({0: halves}, Activation.RELU, "layer 0: ends with 2 biases and RELU; expected 0 biases"),
        ({0: LayerEnd(np.zeros(3, np.int64), halves.table)}, Activation.DNP, "layer 0: ends with 3 biases"),
    ):
        with pytest.raises(InputError, match=message):
            layered(activation, Activation.NONE, ends=ends)


def test_a_problem_checks_its_parts() -> None:
    problem = layered(Activation.RELU)
    with pytest.raises(InputError, match="features: are int16"):
        replace(problem, features=np.zeros((3, 3), dtype=np.int16))
    with pytest.raises(InputError, match="scales: there are 2"):
        replace(problem.topologies[0], source=scales_of([1, 1]))
    narrow = QuantisedLayer(np.ones((3, 1), np.int16), np.zeros(1, np.int32), 0, 0)
    with pytest.raises(InputError, match="layer 1: takes 3 features; expected the 2"):
        replace(problem.model, layers=(problem.model.layers[0], narrow), fractions=problem.model.fractions * 2)


def test_the_first_of_equal_results_is_the_class() -> None:
    assert predictions(np.array([[1, 3, 3], [-2, -2, -5]], dtype=np.int16)).tolist() == [1, 0]
