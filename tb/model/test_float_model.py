from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import Model
from contracts.errors import InputError
from golden.datasets import load
from golden.graph import Graph
from golden.model.activation import FUNCTIONS
from golden.model.float_model import FloatModel, Reach, accuracy, propagation
from golden.model.quantise import compare, quantise
from golden.model.training import Training, _Run, train

KARATE = load("karate")
MOLECULES = load("synthetic:molecules,graphs=20,features=8")


def network(model: Model, *widths: int, eps: float = 0.0, seed: int = 0) -> FloatModel:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(widths))
    return FloatModel.uniform(
        model,
        tuple(rng.standard_normal(pair) for pair in pairs),
        tuple(rng.standard_normal(pair[1]) for pair in pairs),
        (eps,) * len(pairs),
    )


def normalised(model: Model, graph: Graph, eps: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Matrix of a layer, dense, from networkx."""
    adjacency = nx.to_numpy_array(nx.from_scipy_sparse_array(graph.adjacency), weight=None)
    if model == Model.GIN:
        return adjacency + (1 + eps) * np.eye(graph.nodes)
    whole = adjacency + np.eye(graph.nodes)
    degree = whole.sum(axis=1)
    return whole / np.sqrt(np.outer(degree, degree)) if model == Model.GCN else whole / degree[:, None]


@pytest.mark.parametrize("model", list(Model))
def test_a_forward_pass_is_the_dense_product(model: Model) -> None:
    eps = 0.25 if model == Model.GIN else 0.0
    floating = network(model, 34, 5, 3, eps=eps)
    matrix = normalised(model, KARATE, eps)
    hidden = np.maximum(matrix @ floating.weights[0] + floating.biases[0], 0)
    expected = matrix @ (hidden @ floating.weights[1]) + floating.biases[1]
    np.testing.assert_allclose(floating.forward(KARATE)[-1][1], expected, rtol=1e-9)
    np.testing.assert_allclose(propagation(model, KARATE, eps).toarray(), matrix, rtol=1e-12)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.sampled_from(list(Model)), st.integers(1, 3), st.sampled_from(list(FUNCTIONS)), st.integers(0, 100))
def test_a_step_follows_the_slope(model: Model, layers: int, activation: str, seed: int) -> None:
    how = Training(layers=layers, hidden=4, seed=seed, dropout=0, decay=0, activation=activation)
    check_slope(_Run(KARATE, model, how), KARATE, seed)


def check_slope(run: _Run, graph: Graph, seed: int = 0) -> None:
    """Compare the gradient of a step with the slope that is measured along a random direction."""
    rng = np.random.default_rng(seed)
    for bias in run.parameters[1::2]:
        # Rows of zeros would sit on the kink of ReLU exactly.
        bias += rng.standard_normal(bias.shape)
    chosen = np.flatnonzero(graph.train)
    slopes: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []
    with patch.object(run, "_adam", slopes.extend):
        run.step(chosen)
    for number, parameter in enumerate(run.parameters):
        direction = rng.standard_normal(parameter.shape)
        likely = []
        for sign in (1, -1):
            parameter += sign * 1e-7 * direction
            likely.append(run.score(chosen)[1])
            parameter -= sign * 1e-7 * direction
        measured = -(likely[0] - likely[1]) / 2e-7
        assert measured == pytest.approx(float((slopes[number] * direction).sum()), rel=1e-2, abs=1e-5)


@pytest.mark.parametrize("model", list(Model))
@pytest.mark.parametrize("layers", [1, 2])
def test_a_step_on_small_graphs_follows_the_slope(model: Model, layers: int) -> None:
    check_slope(_Run(MOLECULES, model, Training(layers=layers, hidden=4, dropout=0, decay=0)), MOLECULES)


def test_a_step_with_edge_weights_follows_the_slope() -> None:
    """Weights of edges are summed with in training, negative ones too."""
    weights = np.random.default_rng(3).normal(1, 1, KARATE.edge_count).astype(np.float32)
    weighted, how = replace(KARATE, edge_weight=weights), Training(hidden=4, dropout=0, decay=0)
    check_slope(_Run(weighted, Model.GCN, how), weighted)
    plain, other = (train(graph, Model.GCN, replace(how, epochs=5)) for graph in (KARATE, weighted))
    assert not np.allclose(plain.weights[0], other.weights[0])


@pytest.mark.parametrize("layers", [1, 3])
def test_a_network_for_small_graphs_ends_with_a_readout(layers: int) -> None:
    floating = train(MOLECULES, Model.GCN, Training(layers=layers, hidden=5, epochs=1))
    assert [weight.shape for weight in floating.weights] == list(pairwise([8, *[5] * layers, 2]))
    assert [layer.reach for layer in floating.layers] == [Reach.GRAPH] * layers + [Reach.MEMBERS]
    assert [layer.activation for layer in floating.layers] == ["relu"] * layers + [None]


def test_the_readout_is_the_mean_over_the_nodes_of_each_graph() -> None:
    floating = train(MOLECULES, Model.GIN, Training(epochs=3))
    (_, hidden), (_, results) = floating.forward(MOLECULES)[-2:]
    assert MOLECULES.graph_of is not None
    for vertex in MOLECULES.graph_vertices:
        mean = hidden[MOLECULES.graph_of == vertex].mean(axis=0)
        np.testing.assert_allclose(results[vertex], mean @ floating.weights[-1] + floating.biases[-1], atol=1e-9)


def test_small_graphs_are_learnt() -> None:
    """Counts of types tell nothing of the class: only what is summed over bonds does."""
    graph = load("synthetic:molecules,graphs=100")
    floating = train(graph, Model.GCN, Training())
    assert (accuracy(floating.predictions(graph), graph, graph.train) or 0) > 0.8
    agreement = compare(floating, quantise(floating, graph))
    assert agreement.agreement > 0.97


@pytest.mark.parametrize("model", list(Model))
def test_training_learns_the_clubs_and_repeats_itself(model: Model) -> None:
    how = Training(epochs=60, hidden=8)
    first, second = train(KARATE, model, how), train(KARATE, model, how)
    assert all((a == b).all() for a, b in zip(first.weights, second.weights, strict=True))
    assert (accuracy(first.predictions(KARATE), KARATE, KARATE.train) or 0) >= 0.9
    other = train(KARATE, model, replace(how, seed=1))
    assert not np.array_equal(first.weights[0], other.weights[0])


@pytest.mark.parametrize("layers", [1, 2, 3, 32])
def test_layers_have_the_widths_asked_for(layers: int) -> None:
    floating = train(KARATE, Model.SAGE, Training(layers=layers, hidden=7, epochs=1))
    widths = [34, *[7] * (layers - 1), KARATE.classes]
    assert [weight.shape for weight in floating.weights] == list(pairwise(widths))


@pytest.mark.parametrize("model", list(Model))
def test_digits_are_learnt_in_a_second(model: Model) -> None:
    digits = load("digits")
    floating = train(digits, model, Training(epochs=100))
    assert (accuracy(floating.predictions(digits), digits, digits.test) or 0) > 0.93


def test_a_graph_without_validation_nodes_keeps_the_last_epoch() -> None:
    graph = replace(KARATE, validation=np.zeros(34, dtype=np.bool_))
    few, more = (train(graph, Model.GCN, Training(epochs=epochs)) for epochs in (5, 6))
    assert not np.array_equal(few.weights[0], more.weights[0])


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(InputError, match="graph karate, train: has no node of known class"):
        train(replace(KARATE, labels=np.full(34, -1)), Model.GCN)


@pytest.mark.parametrize(
    "change",
    [{"layers": 0}, {"layers": 33}, {"hidden": 0}, {"dropout": 1.0}, {"rate": 0.0}, {"epochs": 0}, {"seed": -1}],
)
def test_settings_out_of_range_are_refused_by_name(change: dict[str, float]) -> None:
    (name,) = change
    with pytest.raises(InputError, match=f"^{name}: is "):
        Training(**change)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="activation: there is no 'step'; expected relu, sigmoid, tanh, elu"):
        Training(activation="step")


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_slopes_are_those_of_the_functions(name: str) -> None:
    sums = np.linspace(-4, 4, 801) + 1e-4
    function = FUNCTIONS[name]
    measured = (function.value(sums + 1e-6) - function.value(sums - 1e-6)) / 2e-6
    np.testing.assert_allclose(function.slope(function.value(sums)), measured, atol=1e-6)


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_training_learns_with_any_activation(name: str) -> None:
    floating = train(KARATE, Model.GCN, Training(epochs=60, hidden=8, activation=name))
    assert floating.activation == name
    assert (accuracy(floating.predictions(KARATE), KARATE, KARATE.train) or 0) >= 0.9


def test_unknown_classes_do_not_count() -> None:
    graph = replace(KARATE, labels=np.where(np.arange(34) < 2, KARATE.labels, -1))
    everyone = np.ones(34, dtype=np.bool_)
    assert accuracy(np.where(np.arange(34) == 0, KARATE.labels, 1 - KARATE.labels), graph, everyone) == 0.5
    assert accuracy(KARATE.labels, graph, ~everyone) is None


def test_a_network_checks_itself() -> None:
    good = network(Model.GCN, 4, 3, 2)
    with pytest.raises(InputError, match=r"layer1.weight: is \[4, 3\]; expected \[3, f_out\]"):
        FloatModel.uniform(Model.GCN, good.weights[:1] * 2, good.biases[:1] * 2, (0.0, 0.0))
    with pytest.raises(InputError, match="2 weights, 1 biases, 2 eps"):
        FloatModel.uniform(Model.GCN, good.weights, good.biases[:1], good.eps)
    with pytest.raises(InputError, match=r"layer0.bias: is \[2\]; expected \[3\]"):
        FloatModel.uniform(Model.GCN, good.weights, good.biases[::-1], good.eps)
    with pytest.raises(InputError, match="layer0: has a number that is not finite"):
        FloatModel.uniform(Model.GCN, good.weights, good.biases, (float("nan"), 0.0))
    with pytest.raises(InputError, match="graph karate, features: there are 34; expected 4"):
        good.forward(KARATE)
