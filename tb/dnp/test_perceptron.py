"""`atoll dnp map`, `infer` and `train`: accuracy, figures, files, bit-exactness in RTL, and what is refused."""

import json
import shlex
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier
from typer.testing import CliRunner

from contracts.dnp.config import HIGHEST, ProcessorConfig
from contracts.dnp.topology import Grid, Topology
from contracts.errors import InputError
from golden.dnp import passes
from golden.dnp.array import ArrayModel, DeadlockError
from golden.dnp.network import Learning, Network
from golden.dnp.passes import count
from golden.dnp.problems import NAMES, dataset
from scripts.cli import app
from scripts.dnp.perceptron import read_network, save_network
from scripts.dnp.waiting import as_text


def atoll(words: str, out: Path, status: int = 0) -> dict[str, Any]:
    """Run a command with ``--json`` into a folder; what it printed."""
    result = CliRunner().invoke(app, [*shlex.split(words), "--json", "-o", str(out)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    # The simulator's lines stand before it.
    return dict(json.loads(result.output[result.output.index("{") :])) if status == 0 else {"said": result.output}


def test_digits_are_learnt_to_97_percent_and_20_images_are_bit_exact_in_rtl(tmp_path: Path) -> None:
    found = atoll("dnp train digits --rtl 20", tmp_path)
    assert found["accuracy"] >= 0.97
    assert found["float_accuracy"] - found["accuracy"] < 0.015
    assert found["rtl_samples"] == 20
    # RTL and the cycle-exact machine count the same clocks: 20 samples of a stream.
    assert found["rtl_clocks"] == pytest.approx(found["clocks_first"] + 19 * found["clocks_each"], rel=0.01)
    again = atoll(f"dnp infer digits --model-file {tmp_path / 'network.npz'} --exact 4", tmp_path / "again")
    assert again["accuracy"] == pytest.approx(found["accuracy"], abs=0.006)


@pytest.mark.parametrize(
    ("words", "least"),
    [
        ("iris --hidden 8,6 --side 2 --topology pasf --epochs 20 --decay 0.97 --rate 3", 0.9),
        ("wine --hidden 8,8,6 --spread 2 --side 2 --topology linear --epochs 25 --decay 0.97 --rate 3", 0.9),
        ("cancer --hidden 10 --side 3 --topology mesh --epochs 5", 0.9),
        ("wine --hidden '' --side 2 --epochs 4", 0.9),
    ],
)
def test_networks_of_any_number_of_layers_learn_on_every_topology(words: str, least: float, tmp_path: Path) -> None:
    found = atoll(f"dnp train {words}", tmp_path)
    assert found["accuracy"] >= least
    assert {path.name for path in tmp_path.iterdir()} == {"network.npz", "result.json", "waiting.png"}
    assert json.loads((tmp_path / "result.json").read_text()) == found
    assert np.shape(found["waiting"]) == (found["side"], found["side"])


@pytest.mark.parametrize("name", NAMES)
def test_problems_fill_the_range_of_their_words_and_have_every_class(name: str) -> None:
    data = dataset(name)
    for inputs, classes in ((data.train, data.train_classes), (data.test, data.test_classes)):
        assert inputs.min() >= 0
        assert inputs.max() <= HIGHEST
        assert np.unique(classes).tolist() == list(range(data.classes))
    assert data.train.max() == HIGHEST
    assert data.targets().sum(axis=1).tolist() == [HIGHEST] * len(data.train)


def test_letters_are_drawn_upright_and_moved() -> None:
    data = dataset("letters")
    image = data.train[8].reshape(8, 8)  # an I in the first font
    assert image[:, [0, 1, 6, 7]].max() == 0
    assert image[1:7, 3:5].sum(axis=1).min() > HIGHEST // 2
    down = data.train[8 + 2 * 26].reshape(8, 8)
    assert down[-1].sum() > image[-1].sum()


def test_a_classifier_from_a_file_runs_on_the_array(tmp_path: Path) -> None:
    data = dataset("cancer")
    # With so much decay weights stay well within the array's format, on any machine's floating point.
    classifier = MLPClassifier((5, 4), activation="logistic", solver="lbfgs", alpha=0.3, max_iter=5000, random_state=0)
    classifier.fit(data.train / 2**15, data.train_classes)
    joblib.dump(classifier, tmp_path / "net.joblib")
    found = atoll(f"dnp infer cancer --model-file {tmp_path / 'net.joblib'} --side 2", tmp_path / "out")
    assert found["layers"] == [30, 5, 4, 1]
    assert found["float_accuracy"] == pytest.approx(classifier.score(data.test / 2**15, data.test_classes), abs=0.01)
    assert found["accuracy"] == pytest.approx(found["float_accuracy"], abs=0.03)


def test_weights_come_back_from_archives_of_words_and_of_real_numbers(tmp_path: Path) -> None:
    network = Network.random((3, 4, 2), 1, spread=2.0)
    save_network(network, tmp_path / "words.npz")
    np.savez(
        tmp_path / "real.npz",
        **{f"weights{n}": w / 4096 for n, w in enumerate(network.weights)},  # type: ignore[arg-type]
        **{f"biases{n}": b / 4096 for n, b in enumerate(network.biases)},  # type: ignore[arg-type]
    )
    for name in ("words", "real"):
        found = read_network(tmp_path / f"{name}.npz")
        for one, other in zip(found.weights + found.biases, network.weights + network.biases, strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_users_own_samples_are_learnt(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(120, 3)) * [1, 50, 1e-3]
    np.savez(tmp_path / "own.npz", inputs=inputs, classes=(inputs[:, 1] > 0).astype(np.int8))
    found = atoll(f"dnp train {tmp_path / 'own.npz'} --hidden 4 --side 1 --epochs 30 --decay 0.95", tmp_path / "out")
    assert found["accuracy"] > 0.9


def test_map_writes_programs_that_run_and_says_what_they_take(tmp_path: Path) -> None:
    found = atoll("dnp map 9-6-4 --side 2 --learn", tmp_path)
    assert found["memories"]["WM"]["used"] <= found["memories"]["WM"]["depth"] == ProcessorConfig().wm_depth
    programs = sorted(path.name for path in tmp_path.glob("processor-*.json"))
    assert programs == [f"processor-{row}-{column}.json" for row in range(2) for column in range(2)]
    one = atoll("dnp map 3-2 --side 1", tmp_path / "one")
    assert one["waiting"] == [[pytest.approx(0, abs=0.5)]]
    ran = CliRunner().invoke(
        app, ["dnp", "run", str(tmp_path / "one/processor-0-0.json"), "--in", "S=100,200,300", "--json"]
    )
    assert ran.exit_code == 0, ran.output
    assert len(json.loads(ran.output)["sent"]["W"]) == 2


def test_clocks_of_a_stream_are_those_of_all_samples_less_the_first() -> None:
    network = Network.random((6, 5, 3), 2)
    rng = np.random.default_rng(1)
    samples = [(rng.integers(0, 32768, 6), rng.integers(0, 32768, 3)) for _ in range(5)]
    found = count(network, Grid(2, 2, Topology.TORUS), ProcessorConfig(), samples, Learning())
    assert found.each == (found.all - found.first) / 4
    assert found.busy <= found.all * 4
    assert found.waiting.shape == (4,)


def test_wrong_words_end_a_command_with_status_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: ArrayModel, clocks: int = 0) -> int:
        done = run(self, clocks)
        self.state.wm[0, 256] ^= 1
        return done

    run = ArrayModel.run
    monkeypatch.setattr(ArrayModel, "run", wrong)
    said = atoll("dnp train iris --hidden 4 --side 1 --epochs 1", tmp_path, status=1)["said"]
    assert "differ from the model" in said


def test_a_deadlock_is_named_and_ends_a_command_with_status_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(ArrayModel):
        def load(self, processor: int, *arguments: Any) -> None:
            if processor != 1:
                super().load(processor, *arguments)

    monkeypatch.setattr("golden.dnp.mapper.ArrayModel", Silent)
    said = atoll("dnp map 6-4-2 --side 2", tmp_path, status=1)["said"]
    assert "deadlock: processor" in said
    assert "waits for" in said
    with pytest.raises(DeadlockError):
        passes.count(Network.random((6, 4, 2), 0), Grid(2, 2, Topology.TORUS), ProcessorConfig(),
                     [(np.zeros(6, np.int64), None)])  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train digts", "problem: there is no 'digts', perhaps digits; expected one of digits,"),
        ("train missing.npz", "missing.npz: No such file or directory; expected arrays 'inputs'"),
        ("train iris --hidden 4,x", "--hidden: is '4,x'; expected widths"),
        ("train iris --topology ring", "--topology: there is no 'ring'"),
        ("train iris --rate 4", "--rate, --momentum: rate must be above 0 and below 4"),
        ("train iris --exact 500", "--exact: asks for 500 samples; expected at most 120"),
        ("train iris --rtl 31", "--rtl: asks for 31 samples; expected at most 30"),
        ("train digits --side 1", "words of WM in processor (0, 0), which has 526; expected more processors (--side)"),
        ("train iris --side 3 --epochs 1 --rtl 1", "--rtl: has 3 x 3 processors; expected an even --side"),
        ("infer iris --model-file w.txt", "w.txt: is neither .npz nor .joblib"),
        ("map 64", "64: has no layer; expected two or more widths"),
        ("map 5-0-3", "5-0-3: is '5-0-3'; expected widths"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(words: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        atoll(f"dnp {words}", tmp_path / "out")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "has no array 'weights0'"),
        ({"weights0": np.zeros((2, 3))}, "has no array 'biases0'"),
        ({"weights0": np.zeros((2, 4)), "biases0": np.zeros(3)}, "biases0: has shape [3]; expected shape [2]"),
        ({"weights0": np.zeros(2), "biases0": np.zeros(2)}, "weights0: has shape [2]"),
        ({"weights0": np.full((2, 4), np.nan), "biases0": np.zeros(2)}, "weights0: is float64, or not finite"),
        (
            {
                "weights0": np.zeros((2, 4)),
                "biases0": np.zeros(2),
                "weights1": np.zeros((3, 4)),
                "biases1": np.zeros(3),
            },
            "weights1: has shape [3, 4] behind 2 neurons",
        ),
        ({"weights0": np.zeros((3, 5)), "biases0": np.zeros(3)}, "has 5 inputs and 3 outputs; expected 4 and 3"),
    ],
)
def test_archives_that_are_no_network_are_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "net.npz", **arrays)
    with pytest.raises(InputError) as refused:
        atoll(f"dnp infer iris --model-file {tmp_path / 'net.npz'}", tmp_path / "out")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("inputs", "classes", "message"),
    [
        (np.zeros(4), np.zeros(4, int), "inputs: is float64 [4]"),
        (np.full((20, 2), np.inf), np.arange(20) % 2, "inputs: is float64 [20, 2], or not finite"),
        (np.zeros((20, 2)), np.arange(20) % 2 - 1, "classes: is int64 [20], or negative"),
        (np.zeros((20, 2)), np.zeros(20), "classes: is float64 [20]"),
        (np.zeros((20, 2)), np.zeros(20, int), "classes: has 1 classes"),
        (np.zeros((20, 2)), np.arange(20) // 19, "classes: has 2 classes, one of 1 samples"),
    ],
)
def test_samples_that_cannot_be_learnt_are_refused(inputs: Any, classes: Any, message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", inputs=inputs, classes=classes)
    with pytest.raises(InputError) as refused:
        dataset(str(tmp_path / "own.npz"))
    assert message in str(refused.value)


def test_maps_are_numbers_up_to_16_columns_and_shades_beyond() -> None:
    assert as_text(np.array([[0.0, 0.125], [0.5, 1.0]])) == "     0  12\n    50 100"
    lines = as_text(np.tile(np.linspace(0, 1, 20), (2, 1))).splitlines()
    assert lines[0] == lines[1]
    assert lines[0].strip().endswith("@@")
    assert "tenths of the clocks" in lines[2]
