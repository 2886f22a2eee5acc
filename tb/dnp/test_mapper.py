"""The mapper: networks on every topology give the bits of the network model, which follows float learning."""

from itertools import product as pairs

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.neural_network import MLPClassifier

from contracts.dnp.config import ProcessorConfig
from contracts.dnp.topology import Grid, Topology
from golden.dnp.arithmetic import saturate
from golden.dnp.layout import DoesNotFitError
from golden.dnp.mapper import map_network
from golden.dnp.network import Learning, Network, NetworkModel, saturating_sum, sigmoid_table
from golden.dnp.placement import Axis, Placement

CONFIG = ProcessorConfig(wm_depth=2048, xm_depth=256, p_depth=4096)
SHAPES = [(1, Topology.TORUS), (2, Topology.TORUS), (3, Topology.TORUS), (3, Topology.MESH), (2, Topology.PASF),
          (2, Topology.LINEAR)]  # fmt: skip


def copy(network: Network) -> Network:
    return Network([w.copy() for w in network.weights], [b.copy() for b in network.biases])


@pytest.mark.parametrize(("side", "topology"), SHAPES)
@pytest.mark.parametrize("sizes", [(7, 5, 4), (5, 6, 4, 3)])
def test_learning_on_the_array_gives_the_bits_of_the_model(
    side: int, topology: Topology, sizes: tuple[int, ...]
) -> None:
    network = Network.random(sizes, seed=3, spread=2.0)
    learning = Learning(0.9, 0.95)
    mapping = map_network(copy(network), Grid(side, side, topology), CONFIG, learning=learning, samples=2)
    rng = np.random.default_rng(side)
    samples = [(rng.integers(0, 32768, sizes[0]), rng.integers(0, 32768, sizes[-1])) for _ in range(2)]
    machine = mapping.machine()
    machine.edges.update(mapping.feeds(samples))
    machine.run(100_000)
    model = NetworkModel(network, mapping.placement)
    for inputs, target in samples:
        model.learn(inputs, target, learning)
    learned = mapping.read(machine.state.wm.tolist())
    for found, wanted in zip(learned.weights + learned.biases, network.weights + network.biases, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert not machine.state.code.any()


@pytest.mark.parametrize(("side", "topology"), SHAPES)
def test_outputs_leave_in_the_order_the_mapping_says(side: int, topology: Topology) -> None:
    network = Network.random((6, 7, 5), seed=1, spread=1.0)
    rng = np.random.default_rng(side)
    for biases in network.biases:
        biases[:] = rng.integers(-4096, 4096, biases.shape)
    mapping = map_network(copy(network), Grid(side, side, topology), CONFIG, samples=2)
    samples = [(rng.integers(0, 32768, 6), None) for _ in range(2)]
    machine = mapping.machine()
    machine.edges.update(mapping.feeds(samples))
    machine.run(100_000)
    for _ in range(20):
        machine.step()
    model = NetworkModel(network, mapping.placement)
    wanted = [model.forward(inputs)[-1] for inputs, _ in samples]
    for edge in mapping.results():
        order = mapping.order_of_results(edge[1])
        assert machine.edges[edge].received == [int(w[n]) for w in wanted for n in order]
    found = mapping.read(machine.state.wm.tolist())
    for one, other in zip(found.weights + found.biases, network.weights + network.biases, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_classifier_of_scikit_learn_predicts_the_same_classes_on_the_array() -> None:
    data = load_iris()
    inputs = data.data / data.data.max(axis=0)
    classifier = MLPClassifier((6,), activation="logistic", solver="lbfgs", alpha=0.05, max_iter=2000, random_state=0)
    classifier.fit(inputs, data.target)
    network = Network.from_classifier(classifier)
    mapping = map_network(network, Grid(2, 2, Topology.TORUS), CONFIG, stream=False)
    model = NetworkModel(network, mapping.placement)
    words = saturate(np.round(inputs * 2**15).astype(np.int64))
    found = np.asarray([np.argmax(model.forward(x)[-1]) for x in words])
    assert np.mean(found == classifier.predict(inputs)) >= 0.95
    machine = mapping.machine(words[60])
    machine.run(10_000)
    np.testing.assert_array_equal(mapping.outputs(machine.state.xm.tolist()), model.forward(words[60])[-1])


def test_other_activations_are_refused() -> None:
    classifier = MLPClassifier(activation="relu")
    with pytest.raises(ValueError, match="activation must be 'logistic', not 'relu'"):
        Network.from_classifier(classifier)


def test_a_network_too_large_is_refused_by_name_and_size() -> None:
    with pytest.raises(DoesNotFitError, match=r"need 2666 words of WM in processor \(0, 0\), which has 526"):
        map_network(Network.random((64, 32, 10), 0), Grid(1, 1), ProcessorConfig(p_depth=4096))
    with pytest.raises(DoesNotFitError, match="words of program memory"):
        map_network(Network.random((64, 32, 10), 0), Grid(4, 4), ProcessorConfig(p_depth=64))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"samples": 0}, "samples must be in 1..65535"), ({"stream": False, "samples": 2}, "stream must be True")],
)
def test_what_cannot_be_mapped_is_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        map_network(Network.random((3, 2), 0), Grid(1, 1), CONFIG, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "length", "ring"), list(pairs([0, 1, 5, 8], [1, 2, 3, 4], [False, True])))
def test_every_sum_has_one_owner_and_everybody_holds_all(size: int, length: int, ring: bool) -> None:
    axis = Axis(length, ring)
    assert sorted(n for chunk in axis.chunks(size) for n in chunk) == list(range(size))
    for position in range(length):
        order = axis.order(size, position)
        assert sorted(order) == list(range(size))
        assert order[: len(axis.chunks(size)[position])] == axis.chunks(size)[position]


def test_sums_saturate_in_the_order_of_addition() -> None:
    addends = np.asarray([[30000, 10000, -20000], [100, 200, 300]])
    assert saturating_sum(addends).tolist() == [32767 - 20000, 600]


def test_the_table_is_the_logistic_function_at_the_middle_of_its_steps() -> None:
    table = sigmoid_table(8)
    sums = np.arange(-32768, 32768, 97)
    exact = 1 / (1 + np.exp(-sums / 4096))
    assert np.abs(table[(sums + 32768) >> 8] / 32768 - exact).max() < 0.25 / 32 + 1e-3
    assert (np.diff(table) >= 0).all()


def test_learning_lowers_the_error() -> None:
    rng = np.random.default_rng(0)
    network = Network.random((8, 6, 2), 0)
    model = NetworkModel(network, Placement(network.sizes, 2, 2, ring=True))
    inputs = rng.integers(0, 32768, (20, 8))
    targets = np.where(inputs[:, :2] > 16384, 32767, 0)

    def error() -> float:
        found = np.asarray([model.forward(x)[-1] for x in inputs])
        return float(np.mean(np.abs(found - targets)) / 32768)

    before = error()
    for _ in range(60):
        for x, t in zip(inputs, targets, strict=True):
            model.learn(x, t, Learning(1.0))
    assert error() < 0.5 * before


@pytest.mark.parametrize(("rate", "momentum"), [(0.0, 1.0), (4.0, 1.0), (1.0, 1.5)])
def test_constants_out_of_range_are_refused(rate: float, momentum: float) -> None:
    with pytest.raises(ValueError, match=r"(rate|momentum) must be"):
        Learning(rate, momentum)
