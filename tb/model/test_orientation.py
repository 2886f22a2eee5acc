"""Weights that were stored as PyTorch keeps them, and networks that can be run and yet are not what was meant."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from contracts import Model
from contracts.errors import InputError
from golden.datasets import load
from golden.model.float_model import FloatModel
from golden.model.hints import hints, hints_of_weights
from golden.model.training import Training, train
from golden.model.weights import read_weights, write_weights
from scripts.cli import app

KARATE = load("karate")  # 34 features, 2 classes
Shapes = tuple[tuple[int, int], ...]


def saved(folder: Path, shapes: Shapes, biases: tuple[int, ...] = ()) -> str:
    arrays: dict[str, Any] = {f"layer{number}.weight": np.ones(shape) for number, shape in enumerate(shapes)}
    arrays |= {f"layer{number}.bias": np.ones(size) for number, size in enumerate(biases)}
    np.savez(folder / "w.npz", **arrays)
    return str(folder / "w.npz")


def refusal(folder: Path, shapes: Shapes, biases: tuple[int, ...] = (), *, alone: bool = False) -> str:
    path = saved(folder, shapes, biases)
    with pytest.raises(InputError) as caught:
        read_weights(path, Model.GCN, None if alone else KARATE)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}, ")


def test_every_transposed_matrix_is_named(tmp_path: Path) -> None:
    expected = (
        "layer0.weight, layer1.weight: are [16, 34], [2, 16], probably transposed; expected [f_in, f_out], here "
        "[34, 16], [16, 2]; PyTorch's Linear keeps [f_out, f_in]: write weight.T (docs/models.md)"
    )
    assert refusal(tmp_path, ((16, 34), (2, 16))) == expected
    assert refusal(tmp_path, ((16, 34), (2, 16)), (16, 2)) == expected


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 34),), "layer0.weight: is [2, 34], probably transposed; expected [f_in, f_out], here [34, 2]"),
        (((16, 34), (16, 2)), "layer0.weight: is [16, 34], probably transposed; expected"),
        (((34, 16), (2, 16)), "layer1.weight: is [2, 16], probably transposed; expected"),
        (((16, 34), (16, 16), (2, 16)), "layer0.weight, layer2.weight: are [16, 34], [2, 16], probably transposed; so"),
        (((16, 34), (16, 16), (2, 16)), "; so is layer1.weight, although square; expected"),
        (((34, 34), (34, 34), (2, 34)), "; so are layer0.weight, layer1.weight, although square; expected"),
    ],
)
def test_what_fits_only_when_transposed_is_said_to_be(shapes: Shapes, message: str, tmp_path: Path) -> None:
    assert message in refusal(tmp_path, shapes)


def test_without_a_graph_the_chain_of_widths_tells(tmp_path: Path) -> None:
    assert "layer0.weight, layer1.weight: are [16, 34], [2, 16]" in refusal(tmp_path, ((16, 34), (2, 16)), alone=True)
    assert read_weights(saved(tmp_path, ((5, 7),)), Model.GCN).weights[0].shape == (5, 7)


def test_what_fits_neither_way_is_not_said_to_be_transposed(tmp_path: Path) -> None:
    takes = "layer0.weight: is [64, 16]: takes 64 features; expected [34, f_out] for karate, which has 34"
    assert refusal(tmp_path, ((64, 16), (16, 2))) == takes
    assert "layer1.weight: is [8, 2]; expected [16, f_out]" in refusal(tmp_path, ((34, 16), (8, 2)))
    assert "layer0.bias: is [34]; expected [16]" in refusal(tmp_path, ((34, 16), (16, 2)), (34, 2))


def squares() -> tuple[FloatModel, str]:
    """Return a trained network whose matrices are all square, and its data set."""
    dataset = "synthetic:community,nodes=120,features=4,classes=4,density=1,degree=8"
    return train(load(dataset), Model.GCN, Training(hidden=4, epochs=60, dropout=0)), dataset


def test_square_matrices_are_tried_on_known_labels(tmp_path: Path) -> None:
    network, dataset = squares()
    assert hints_of_weights(network, load(dataset)) == []
    turned = FloatModel.uniform(
        network.model, [weight.T.copy() for weight in network.weights], network.biases, network.eps
    )
    (line,) = hints_of_weights(turned, load(dataset))
    assert line.startswith("layer0.weight, layer1.weight: probably transposed; their transposes predict ")
    write_weights(tmp_path / "w.npz", turned)
    done = CliRunner().invoke(
        app, ["run", dataset, "--no-rtl", "--model-file", str(tmp_path / "w.npz"), "--out", str(tmp_path)]
    )
    assert done.exit_code == 0
    assert line in done.output


def test_a_network_of_few_results_and_one_that_overflows_are_told_apart() -> None:
    few = FloatModel.uniform(Model.GCN, (np.ones((34, 1)),), (np.zeros(1),), (0.0,))
    assert hints_of_weights(few, KARATE) == ["layer0.weight: gives 1 results a node, but karate has 2 classes"]
    huge = FloatModel.uniform(Model.GCN, (np.full((34, 34), 1e300),) * 2, (np.zeros(34),) * 2, (0.0,) * 2)
    assert hints_of_weights(huge, KARATE) == []


@pytest.mark.parametrize(("factor", "kind"), [(1e-9, "tiny, 1.0e-09 at most"), (1e9, "huge, 1.0e+09 at most")])
def test_features_of_strange_size_are_noticed(factor: float, kind: str) -> None:
    scaled = replace(KARATE, features=KARATE.features * np.float32(factor))
    assert hints(scaled) == [f"features of karate: {kind}; rescale them, to a largest magnitude near 1"]
    assert hints(KARATE) == []
    (line,) = hints(replace(KARATE, features=np.zeros((34, 3), np.float32)))
    assert "all are 0" in line
