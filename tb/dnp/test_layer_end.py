"""The end of a layer on a chip: programs do what the step says, between the layers of a network too."""

import numpy as np
import pytest

from contracts import Model
from contracts.dnp.config import ProcessorConfig
from golden.datasets import load
from golden.dnp.layer_end import LayerEnd
from golden.dnp.network import sigmoid_table, table_of
from golden.model.layer import combine
from golden.model.network import infer, results_of
from golden.model.quantise import quantise
from golden.model.training import Training, train

WORDS = (-32768, 32768)


def random_end(seed: int, features: int) -> LayerEnd:
    """Return biases and a table of any words."""
    random = np.random.default_rng(seed)
    return LayerEnd(random.integers(*WORDS, features), random.integers(*WORDS, ProcessorConfig().table_size))


@pytest.mark.parametrize("features", [1, 7, 16, 33, 128])
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 21])
def test_programs_do_what_the_step_says(features: int, rows: int) -> None:
    end = random_end(features, features)
    values = np.random.default_rng(rows).integers(*WORDS, (rows, features))
    machine = end.machine(values)
    machine.run()
    machine.step()
    np.testing.assert_array_equal(end.results(machine.edges, rows), end(values))


def test_a_value_takes_five_and_a_half_clocks() -> None:
    end = random_end(0, 64)
    values = np.zeros((40, 64), dtype=np.int64)
    clocks = end.machine(values).run()
    assert clocks / (10 * 64) == pytest.approx(5.5, abs=0.1)


def test_sums_saturate_before_the_table() -> None:
    end = LayerEnd(np.array([30000, -30000, 1]), np.arange(256))
    np.testing.assert_array_equal(end(np.array([[30000, -30000, -129]])), [[255, 0, 127]])


def test_tables_are_those_of_their_functions() -> None:
    np.testing.assert_array_equal(table_of(lambda x: 1 / (1 + np.exp(-x))), sigmoid_table(8))
    relu = table_of(lambda x: np.maximum(x, 0), bits=4, fraction=12)
    assert relu.tolist() == [0] * 8 + [2048 + 4096 * n for n in range(8)]
    assert table_of(np.tanh, bits=2).tolist() == [-32768, -31589, 31589, 32767]


def test_a_network_goes_on_behind_it() -> None:
    """A layer whose activation is the chip's, between the second rounding point and the next layer."""
    graph = load("karate")
    problem = quantise(train(graph, Model.GCN, Training(layers=2, hidden=8, activation="tanh")), graph)
    first, results = problem.model.layers[0], infer(problem)
    end = problem.model.ends[0]
    np.testing.assert_array_equal(end.biases, first.neural_biases)
    np.testing.assert_array_equal(end.table, table_of(np.tanh))
    # What the second rounding point leaves, through the chip.
    before = results_of(first, problem.topologies[0], results[0].combined)
    machine = end.machine(before.astype(np.int64))
    machine.run()
    machine.step()
    ended = end.results(machine.edges, graph.nodes)
    np.testing.assert_array_equal(ended, results[0].results)
    assert np.abs(ended).max() > 1000
    again = combine(
        ended.astype(np.int16),
        problem.model.layers[1].weights,
        problem.topologies[0].source,
        problem.model.layers[1].shift_source,
    )
    np.testing.assert_array_equal(again, results[1].combined)


@pytest.mark.parametrize(
    ("biases", "table", "message"),
    [
        ([], [0] * 256, "there are 0 biases; expected 1 to 255"),
        ([0] * 256, [0] * 256, "there are 256 biases; expected 1 to 255"),
        ([0], [0] * 255, r"the table has shape \(255,\); expected \(256,\)"),
        ([40000], [0] * 256, r"biases must be in -32768..32767, not 40000..40000"),
        ([0], [-40000] * 256, r"table must be in -32768..32767, not -40000..-40000"),
    ],
)
def test_what_does_not_fit_is_refused(biases: list[int], table: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LayerEnd(np.array(biases, dtype=np.int64), np.array(table))


def test_rows_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"rows must be in 0..65535, not 65536"):
        random_end(0, 4).text(0, 65536)
