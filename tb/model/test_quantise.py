import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from contracts import Activation, Model
from contracts.dnp.config import ProcessorConfig
from contracts.errors import InputError
from golden.datasets import load
from golden.model.calibration import Calibration, fraction_of
from golden.model.float_model import FloatLayer, FloatModel
from golden.model.loss import losses
from golden.model.network import infer
from golden.model.quantise import Agreement, compare, quantise
from golden.model.training import Training, train
from tb.model.test_float_model import KARATE, network

FOLDER = os.environ.get("ATOLL_PLANETOID")


@settings(deadline=None)
@given(st.floats(1e-12, 1e12), st.sampled_from([32767, 16383, (1 << 31) - 1]))
def test_a_fraction_is_the_largest_that_fits(peak: float, limit: int) -> None:
    fraction = fraction_of(peak, limit)
    assert np.rint(np.ldexp(peak, fraction)) <= limit < np.rint(np.ldexp(peak, fraction + 1))


@pytest.mark.parametrize("model", [Model.SAGE, Model.GIN])
def test_rooted_layers_are_those_in_floating_point(model: Model) -> None:
    """The float layer is a product of matrices, and the integers come near, whatever the degree."""
    graph, random = load("synthetic:star,nodes=60,features=7,density=1"), np.random.default_rng(3)
    weight, root = random.normal(size=(2, 7, 4))
    floating = FloatModel((FloatLayer(weight, random.normal(size=4), model, -1.0, root=root),))
    ((_, real),) = floating.forward(graph)
    degrees = np.maximum(graph.degrees, 1)[:, None] if model == Model.SAGE else 1
    rows = graph.features.astype(np.float64)
    assert np.allclose(real, graph.adjacency @ rows @ weight / degrees + rows @ root + floating.layers[0].bias)
    problem = quantise(floating, graph)
    (found,), peak = infer(problem), np.abs(real).max()
    results = np.ldexp(found.results.astype(float), -problem.model.fractions[0].results)
    assert np.abs(results - real).max() < peak / (1 << 9)


def test_a_root_weight_stands_beside_neighbours_alone() -> None:
    weight, bias = np.ones((2, 3)), np.zeros(3)
    for root, eps, what in (
        (np.ones((3, 3)), -1.0, "root: is"),
        (np.ones((2, 3)), 0.0, "another weight of the vertex"),
    ):
        with pytest.raises(InputError, match=what):
            FloatLayer(weight, bias, Model.SAGE, eps, root=root)
    with pytest.raises(InputError, match="not finite"):
        FloatLayer(weight, bias, Model.SAGE, -1.0, root=np.full((2, 3), np.inf))


@pytest.mark.parametrize("headroom", [0, 1, 3])
@pytest.mark.parametrize("model", list(Model))
def test_results_are_those_in_floating_point_and_use_the_bits(model: Model, headroom: int) -> None:
    floating = network(model, 34, 8, 6, 4, eps=-0.3 if model == Model.GIN else 0.0, seed=2)
    problem = quantise(floating, KARATE, calibration=Calibration(headroom=headroom))
    limit = 32767 >> headroom
    for (combined, result), (real_combined, real_result), fractions in zip(
        infer(problem), floating.forward(KARATE), problem.model.fractions, strict=True
    ):
        for rows, real, fraction in (
            (combined, real_combined, fractions.combined),
            (result, real_result, fractions.results),
        ):
            assert np.abs(rows).max() <= limit + 1
            # 1 + eps is rounded to a 256th, everything else to 14 bits or more.
            assert np.abs(np.ldexp(rows, -fraction) - real).max() <= 0.004 * np.abs(real).max()
        assert np.abs(result).max() > limit / 2 - 1


def test_shifts_follow_from_the_fractions() -> None:
    problem = quantise(network(Model.GIN, 34, 5, 3), KARATE)
    fraction = problem.model.feature_fraction
    for layer, fractions in zip(problem.model.layers, problem.model.fractions, strict=True):
        assert layer.shift_source == 15 + fraction + fractions.weights - fractions.combined
        assert layer.shift_destination == 15 + fractions.combined + 8 - fractions.results
        assert (layer.self_weight, layer.neighbour_weight) == (256, 256)
        fraction = fractions.results
    assert problem.model.output_fraction == fraction


def test_a_large_bias_takes_fraction_bits_from_the_combined_rows() -> None:
    base = network(Model.GIN, 34, 4)
    heavy = FloatModel.uniform(Model.GIN, base.weights, (base.biases[0] + 3,), base.eps)
    problem = quantise(heavy, KARATE)
    (result,) = infer(problem)
    real = heavy.forward(KARATE)[0][1]
    assert problem.model.fractions[0].combined < quantise(base, KARATE).model.fractions[0].combined
    assert np.abs(np.ldexp(result.results, -problem.model.output_fraction) - real).max() < 0.01 * np.abs(real).max()


@pytest.mark.parametrize("model", list(Model))
def test_a_layer_without_bias_uses_all_its_bits(model: Model) -> None:
    floating = network(model, 34, 8, 4, seed=2)
    floating = floating.changed(bias=[0 * bias for bias in floating.biases])
    exact = infer(quantise(floating, KARATE))
    assert all(np.abs(rows).max() > 32767 / 4 - 1 for layer in exact for rows in layer)


def test_sparse_features_stay_sparse_without_zeros() -> None:
    tiny = sparse.csr_array(KARATE.features)
    tiny.data = np.where(np.arange(34) == 3, np.float32(1e-7), tiny.data)
    problem = quantise(network(Model.GCN, 34, 3), replace(KARATE, features=tiny))
    assert problem.sparse
    assert problem.features.nnz == 33
    assert problem.features.dtype == np.int16
    dense = quantise(network(Model.GCN, 34, 3), replace(KARATE, features=KARATE.features.toarray()))
    assert not dense.sparse
    whole = quantise(network(Model.GCN, 34, 3), KARATE)
    assert (infer(dense)[0].results == infer(whole)[0].results).all()


def test_results_for_the_neural_chip_have_12_fraction_bits() -> None:
    floating = network(Model.GCN, 34, 8, 4).changed(activation=["tanh", None])
    problem = quantise(floating, KARATE)
    first, end = problem.model.layers[0], problem.model.ends[0]
    assert first.activation == Activation.DNP
    np.testing.assert_allclose(np.ldexp(first.neural_biases, -12), floating.biases[0], atol=2.0**-13)
    np.testing.assert_array_equal(end.biases, first.neural_biases)
    alone = replace(problem.model, layers=(first,), fractions=problem.model.fractions[:1], ends={})
    (result,) = infer(replace(problem, model=alone, topologies=problem.topologies[:1]))
    bare = FloatModel.uniform(Model.GCN, floating.weights[:1], (np.zeros(8),), (0.0,))
    np.testing.assert_allclose(np.ldexp(result.results, -12), bare.forward(KARATE)[0][1], atol=2e-3)


@pytest.mark.parametrize(("name", "error"), [("sigmoid", 0.01), ("tanh", 0.035), ("elu", 0.035)])
def test_a_table_ends_layers_that_are_not_relu(name: str, error: float) -> None:
    """Its 256 entries stand for sums that are a 16th apart; a finer table is nearer."""
    floating = train(KARATE, Model.GCN, Training(epochs=20, hidden=8, activation=name))
    want = floating.forward(KARATE)[0][1]
    worst = []
    for bits in (8, 11):
        problem = quantise(floating, KARATE, core=ProcessorConfig(wm_depth=4096, table_bits=bits))
        found = np.ldexp(infer(problem)[0].results, -problem.model.fractions[0].results)
        worst.append(float(np.abs(found - want).max()))
    assert worst[1] < worst[0] / 3 < error / 3


def test_a_layer_too_wide_for_the_neural_chip_is_refused() -> None:
    wide = network(Model.GCN, 34, 300, 4).changed(activation=["tanh", None])
    with pytest.raises(InputError, match="layer 0, neural chip: there are 300 biases; expected 1 to 255"):
        quantise(wide, KARATE)


def test_a_network_of_zeros_is_quantised() -> None:
    zeros = FloatModel.uniform(Model.GCN, (np.zeros((34, 2)),), (np.zeros(2),), (0.0,))
    assert not infer(quantise(zeros, KARATE))[0].results.any()


def test_magnitudes_too_far_apart_are_refused() -> None:
    base = network(Model.GIN, 34, 2)
    with pytest.raises(InputError, match=r"layer 0: largest magnitudes are too far apart: .*; rescale the biases to"):
        quantise(FloatModel.uniform(Model.GIN, base.weights, (np.full(2, 1e12),), base.eps), KARATE)
    with pytest.raises(InputError, match=r"features 1.0e\+00, weights 2.3e-200, .*; rescale the weights to about 1"):
        quantise(FloatModel.uniform(Model.GIN, (base.weights[0] * 1e-200,), base.biases, base.eps), KARATE)


def test_features_too_small_to_be_scaled_are_to_be_rescaled() -> None:
    small = replace(KARATE, features=KARATE.features * np.float32(1e-20))
    with pytest.raises(InputError, match=r"features 1.0e-20, .*; expected a shift in 0..63; rescale the features to"):
        quantise(network(Model.GCN, 34, 2), small)


def test_sums_that_overflow_are_refused_without_a_warning() -> None:
    base = network(Model.GCN, 34, 8, 2)
    huge = base.changed(weight=[weight * 1e300 for weight in base.weights])
    with pytest.raises(InputError, match="a sum overflows; expected smaller weights or features"):
        quantise(huge, KARATE)
    with pytest.raises(InputError, match="layer 1: has results that overflow; expected smaller weights or features"):
        huge.forward(KARATE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"headroom": 9}, "headroom: is 9; expected 0..8"),
        ({"bits": 12}, "bits: is 12; expected 8 or 16"),
        ({"percentile": 101}, "percentile: is 101; expected 50..100"),
        ({"percentile": float("nan")}, "percentile: is nan"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Calibration(**change)


@pytest.mark.parametrize("model", list(Model))
def test_values_of_8_bits_have_8_bits(model: Model) -> None:
    floating = network(model, 34, 16, 5)
    problem = quantise(floating, KARATE, calibration=Calibration(bits=8))
    assert np.abs(problem.features.data).max() <= 127
    assert all(64 <= np.abs(layer.weights).max() <= 127 for layer in problem.model.layers)
    first, last = infer(problem)
    assert 16 <= np.abs(first.results).max() <= 64
    assert np.abs(last.results).max() > 1 << 12
    assert compare(floating, problem).agreement > 0.8


def test_a_percentile_leaves_out_the_largest_values() -> None:
    rows = np.zeros((34, 100), np.float32)
    rows[:, :50] = np.linspace(0.5, 1, 34 * 50).reshape(34, 50)
    rows[3, 7] = 1000
    graph = replace(KARATE, features=rows)
    floating = network(Model.GCN, 100, 4)
    whole, cut = quantise(floating, graph), quantise(floating, graph, calibration=Calibration(percentile=99))
    assert (whole.model.feature_fraction, cut.model.feature_fraction) == (5, 15)
    assert cut.features[3, 7] == 32767
    assert np.median(cut.features[:, :50]) > 20000


def test_the_layer_that_loses_is_found() -> None:
    graph = load("digits")
    floating = train(graph, Model.GCN, Training(layers=3, epochs=60))
    problem = quantise(floating, graph)
    assert max(losses(floating, problem)) < 0.01
    # Weights of the second layer with three bits.
    layers, second = list(problem.model.layers), problem.model.layers[1]
    few = (second.weights.astype(np.int64) >> 13).astype(np.int16)
    layers[1] = replace(second, weights=few, shift_source=second.shift_source - 13)
    coarse = replace(problem.model, layers=tuple(layers))
    lost = losses(floating, replace(problem, model=coarse))
    assert np.argmax(lost) == 1
    assert lost[1] > 0.01


def test_features_that_the_first_layer_does_not_take_are_refused() -> None:
    with pytest.raises(InputError, match="graph karate, features: there are 34; expected 5"):
        quantise(network(Model.GCN, 5, 2), KARATE)


def close(found: Agreement) -> bool:
    assert found.floating is not None
    assert found.machine is not None
    return abs(found.floating - found.machine) <= 0.005 and found.agreement >= 0.99


@pytest.mark.parametrize("model", list(Model))
def test_digits_keep_their_accuracy(model: Model) -> None:
    digits = load("digits")
    floating = train(digits, model, Training(epochs=100))
    assert close(compare(floating, quantise(floating, digits)))


@pytest.mark.skipif(FOLDER is None, reason="ATOLL_PLANETOID names no folder with ind.cora.*")
@pytest.mark.parametrize("model", list(Model))
def test_cora_keeps_its_accuracy(model: Model) -> None:
    cora = load(f"planetoid:{FOLDER}/cora")
    floating = train(cora, model)
    found = compare(floating, quantise(floating, cora))
    assert close(found)
    assert (found.machine or 0) > (0.72 if model == Model.GIN else 0.79)
