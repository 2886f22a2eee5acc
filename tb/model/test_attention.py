"""Attention: the golden layer against one by hand, tables and reciprocals, calibration, refusals."""

from fractions import Fraction

import numpy as np
import pytest

from contracts import Activation
from contracts.attention import CHANNELS, MARGIN_MAX, Heads
from contracts.errors import InputError
from golden.graph import Graph
from golden.model.attention import Attention, exponentials, reciprocals
from golden.model.float_model import FloatModel
from golden.model.heads import attention_layer
from golden.model.layer import QuantisedLayer, attend, check_degrees
from golden.model.network import infer
from golden.model.quantise import outline, quantise
from sim.problems import CORNERS, attention_network, attention_problem, corner_graph, random_graph
from tb.model.reference import rounded


def by_hand(graph: Graph, combined: np.ndarray, layer: QuantisedLayer) -> list[list[int]]:
    """Compute the results of one head, a value at a time."""
    assert layer.attention
    results = []
    for v in range(graph.nodes):
        around = [v, *graph.edges[graph.offsets[v] : graph.offsets[v + 1]].tolist()]
        scores = [int(combined[u, 0]) + int(combined[v, 1]) for u in around]
        logs = [score * (layer.neighbour_weight if score < 0 else layer.self_weight) for score in scores]
        factors = []
        for log in logs:
            step = (log - logs[0] + 2048) // 4096
            power = round(2 ** (step % 1024 / 1024) * 2**15)
            down = layer.attention.margin - step // 1024
            factors.append(min((power * 2 >> down) + 1 >> 1, 32767) if down > 0 else 32767)
        scale = reciprocals(np.array([sum(factors)])).fraction(0) * (1 << 15)
        row = []
        for j in range(layer.f_out):
            total = sum(factor * int(combined[u, j]) for factor, u in zip(factors, around, strict=True))
            bias = 0 if layer.activation == Activation.DNP else int(layer.biases[j])
            value = rounded((total * scale + bias) / Fraction(1 << layer.shift_destination))
            row.append(max(value, 0) if layer.activation == Activation.RELU else value)
        results.append(row)
    return results


@pytest.mark.parametrize("activation", list(Activation))
@pytest.mark.parametrize("corner", CORNERS)
def test_a_head_is_the_formula(corner: str, activation: Activation) -> None:
    graph = corner_graph(corner, 2, 1.0, 3)
    rng = np.random.default_rng(len(corner))
    combined = rng.integers(-32768, 32768, (graph.nodes, 6)).astype(np.int16)
    combined[:, :2] >>= 5
    biases = rng.integers(-(1 << 30), 1 << 30, 6).astype(np.int32)
    for margin in (1, 6, MARGIN_MAX):
        attention = Attention(Heads(1, 4), (margin,))
        layer = QuantisedLayer(np.zeros((1, 6), np.int16), biases, 0, 15, activation, 9000, -777, attention)
        assert attend(graph, combined, layer).tolist() == by_hand(graph, combined, layer)


def test_heads_are_computed_apart_and_padding_is_0() -> None:
    graph = random_graph(4, 20, 60, 5, 1.0)
    problem = attention_problem(graph, [(3, 4), (1, 15)], 2)
    results = infer(problem)
    for layer, result in zip(problem.model.layers[:2], results, strict=False):
        assert layer.attention
        heads = layer.attention.heads
        covered = np.zeros(layer.f_out, bool)
        for head in range(heads.heads):
            block = heads.block(head)
            covered[block.start : block.stop] = True
            part = attend(graph, result.combined[:, block.start : block.stop], layer.block(block))
            assert (part == result.results[:, block.start : block.stop]).all()
        assert not result.results[:, ~covered].any()


def test_tables_are_within_half_a_step() -> None:
    steps = np.arange(-(20 << 22), 4 << 22, 997)
    for margin in (1, 7, MARGIN_MAX):
        exact = np.minimum(2.0 ** (steps / 2**22 - margin + 15), 32767)
        assert (np.abs(exponentials(steps, margin) - exact) <= 0.51 + exact * 2**-11.4).all()
    sums = np.unique(2 ** np.linspace(0, 30.9, 20_000)).astype(np.int64)
    assert np.abs(reciprocals(sums).real() * sums - 1).max() < 2**-15
    assert reciprocals([1, 1 << 30]).exponent.tolist() == [0, 30]


@pytest.mark.parametrize("slope", [0.2, 0.0, 1.0, -0.3])
@pytest.mark.parametrize("shapes", [[(1, 8)], [(8, 8), (1, 7)], [(2, CHANNELS + 1)]])
def test_results_are_close_to_those_in_float(shapes: list[tuple[int, int]], slope: float) -> None:
    """Errors stay below a hundredth of a layer's largest value, and their root mean square below a thousandth."""
    for seed in range(3):
        graph = random_graph(seed, 60, 400, 12, 0.5)
        network = attention_network(graph, shapes, seed, slope=slope)
        problem = quantise(network, graph)
        for number, ((_, wanted), found) in enumerate(zip(network.forward(graph), infer(problem), strict=True)):
            attention = network.layers[number].attention
            columns = attention.heads.places() if attention else slice(None)
            results = np.ldexp(found.results.astype(np.float64), -problem.model.fractions[number].results)
            error = np.abs(results - wanted)[:, columns] / np.abs(wanted[:, columns]).max()
            assert error.max() < 0.01
            assert np.sqrt((error**2).mean()) < 0.001


def test_an_outline_has_the_same_sizes() -> None:
    graph = random_graph(1, 30, 90, 6, 0.5)
    network = attention_network(graph, [(2, 3), (1, 4)], 1)
    problem = quantise(network, graph)
    for one, other in zip(outline(network, graph).model.layers, problem.model.layers, strict=True):
        assert one.weights.shape == other.weights.shape
        assert (one.attention and one.attention.heads) == (other.attention and other.attention.heads)


def network_of(weight: float, slope: float = 0.2) -> FloatModel:
    ones = np.ones((1, 1))
    return FloatModel((attention_layer(weight * ones, ones, 0 * ones, np.zeros(1), slope),))


def test_refusals_name_the_layer_and_the_limit() -> None:
    ends = np.array([0]), np.array([1])
    graph = Graph.from_edges("pair", 2, *ends, features=np.array([[1.0], [-1.0]], np.float32), symmetrise=True)
    with pytest.raises(InputError, match=r"layer 0, attention: has scores with \d fraction bits; expected at least 8"):
        quantise(network_of(100.0), graph)
    with pytest.raises(InputError, match=r"layer 0, attention: has a slope of 40"):
        quantise(network_of(1.0, 40.0), graph)
    with pytest.raises(InputError, match=r"attention's margin: is 16; expected 1\.\.15"):
        Attention(Heads(1, 1), (16,))
    with pytest.raises(InputError, match="attention: has 2 margins; expected 1, one a head"):
        Attention(Heads(1, 1), (3, 3))
    with pytest.raises(InputError, match=r"heads: there are 0; expected at least one"):
        Heads(0, 1)
    with pytest.raises(InputError, match=r"combined features: there are 5; expected the 3 of its heads"):
        QuantisedLayer(np.zeros((1, 5), np.int16), np.zeros(5, np.int32), 0, 0, attention=Attention(Heads(1, 1), (3,)))
    with pytest.raises(InputError, match=r"sum of coefficients: spans 0\.\.5; expected 1\.\.2147483647"):
        reciprocals([0, 5])


def test_a_degree_beyond_the_sums_is_refused() -> None:
    hub = Graph.from_edges("hub", 65_537, np.arange(1, 65_537), np.zeros(65_536, np.int64))
    layer = QuantisedLayer(
        np.zeros((1, 3), np.int16), np.zeros(3, np.int32), 0, 0, attention=Attention(Heads(1, 1), (3,))
    )
    with pytest.raises(InputError, match="graph hub, node 0: has 65536 neighbours; expected at most 65535"):
        check_degrees(hub, layer)
