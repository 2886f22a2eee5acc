from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts import Model
from contracts.errors import InputError
from golden.model.weights import kind_of, model_of, read_weights, write_weights
from tb.model.test_float_model import network


@pytest.mark.parametrize("model", list(Model))
def test_what_is_written_is_read(tmp_path: Path, model: Model) -> None:
    kept = network(model, 6, 4, 2, eps=0.5 if model == Model.GIN else 0.0)
    if model == Model.SAGE:
        kept = kept.changed(activation=[*["tanh"] * (len(kept.layers) - 1), None])
    write_weights(tmp_path / "w.npz", kept)
    found = read_weights(str(tmp_path / "w.npz"), model)
    assert (found.model, found.eps, found.activation) == (model, kept.eps, kept.activation)
    for name in ("weights", "biases"):
        assert all((a == b).all() for a, b in zip(getattr(found, name), getattr(kept, name), strict=True))


def saved(folder: Path, **arrays: Any) -> str:
    path = folder / "w.npz"
    np.savez(path, **{name.replace("__", "."): value for name, value in arrays.items()})
    return str(path)


def test_biases_and_eps_may_be_absent_and_the_model_named_by_the_user(tmp_path: Path) -> None:
    found = read_weights(saved(tmp_path, layer0__weight=np.ones((2, 3), dtype=np.float32)), Model.GIN)
    assert found.biases[0].tolist() == [0, 0, 0]
    assert found.eps == (0.0,)


WEIGHT = np.ones((2, 3))
LINEAR = {"layer0__kind": np.array("linear")}
GAT = {
    "layer0__weight": WEIGHT,
    "layer0__kind": np.array("gat"),
    "layer0__heads": np.array([1, 1]),
    "layer0__slope": np.array(0.2),
}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"layer0__weight": WEIGHT}, "model: is absent"),
        ({"model": np.array("gat"), "layer0__weight": WEIGHT}, "model: there is no 'gat'; expected gcn, sage, gin"),
        ({"model": np.array(3), "layer0__weight": WEIGHT}, "model: is int64"),
        ({"model": np.array("gcn"), "activation": np.array("step")}, "activation: is 'step'; expected one of relu"),
        ({"model": np.array("gcn"), "activation": np.array(1)}, "activation: is int64 .*; expected a string: relu"),
        ({"model": np.array("gcn")}, "has 0 layers"),
        ({"model": np.array("gcn"), "layer1__weight": WEIGHT}, "has no layer0.weight"),
        ({"model": np.array("gcn"), "layer0__bias": np.ones(3)}, "has no layer0.weight"),
        ({"model": np.array("gcn"), "layer0__weight": WEIGHT, "conv1__lin": WEIGHT}, "has an array conv1.lin"),
        (
            {"model": np.array("gcn"), "layer0__weight": WEIGHT, "eps": np.array(0.5)},
            "eps: is 0.5; expected none for gcn",
        ),
        ({"model": np.array("gin"), "layer0__weight": WEIGHT, "eps": np.ones(2)}, "eps: has shape"),
        ({"layer0__weight": WEIGHT, "layer0__kind": np.array("conv")}, "layer0.kind: is 'conv'; expected one of gcn"),
        ({"layer0__weight": WEIGHT, **LINEAR, "layer0__activation": np.array("no")}, "layer0.activation: is 'no';"),
        ({"layer0__weight": WEIGHT, **LINEAR, "layer0__eps": np.ones(1)}, "layer0.eps: has shape"),
        ({"layer0__weight": WEIGHT, **LINEAR, "layer0__eps": np.array(1)}, "layer0.eps: is 1.0; expected 0"),
        ({"layer0__weight": WEIGHT, **LINEAR, "layer1__weight": WEIGHT.T}, "model: is absent"),
        ({"layer0__weight": WEIGHT, "layer0__kind": np.array("gat")}, "layer0.heads: is absent; expected two whole"),
        ({"layer0__weight": WEIGHT, **LINEAR, "layer0__slope": np.array(1)}, "layer0.slope: stands in a linear"),
        ({**GAT, "layer0__heads": np.array([1, 1.5])}, r"layer0.heads: is \[1.0, 1.5\]; expected two whole numbers"),
        ({**GAT, "layer0__heads": np.array([0, 1])}, "layer0.heads: there are 0; expected at least one"),
        ({**GAT, "layer0__heads": np.array([1, 2])}, "layer0.attention: is that of 4 columns; expected 3"),
        ({**GAT, "layer0__slope": np.array(np.nan)}, "layer0.slope: is nan; expected a number"),
        ({"model": np.array("gcn"), "layer0__weight": np.ones(3)}, r"layer0.weight: is \[3\]"),
        ({"model": np.array("gcn"), "layer0__weight": np.array("x")}, "layer0.weight: is <U1; expected numbers"),
        ({"model": np.array("gcn"), "layer0__weight": WEIGHT * np.nan}, "layer0: has a number that is not finite"),
    ],
)
def test_a_malformed_file_is_refused_in_one_line(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_weights(saved(tmp_path, **arrays))
    assert "\n" not in str(caught.value)


def test_layers_may_say_what_the_whole_file_does_not(tmp_path: Path) -> None:
    arrays = {"layer0__weight": WEIGHT, "layer1__weight": WEIGHT.T, "layer2__weight": WEIGHT, **LINEAR}
    arrays |= {"layer0__activation": np.array("none"), "layer2__activation": np.array("tanh"), "eps": np.array(0.5)}
    layers = read_weights(saved(tmp_path, model=np.array("gin"), layer1__eps=np.array(-1), **arrays)).layers
    assert [kind_of(layer) for layer in layers] == ["linear", "gin", "gin"]
    assert [layer.eps for layer in layers] == [0, -1, 0.5]
    assert [layer.activation for layer in layers] == [None, "relu", "tanh"]


def test_the_activation_of_a_file_stands_between_layers_only(tmp_path: Path) -> None:
    arrays = {
        "model": np.array("gcn"),
        "activation": np.array("tanh"),
        "layer0__weight": WEIGHT,
        "layer1__weight": WEIGHT.T,
    }
    assert [layer.activation for layer in read_weights(saved(tmp_path, **arrays)).layers] == ["tanh", None]


def test_the_model_asked_for_must_be_that_of_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path, model=np.array("gcn"), layer0__weight=WEIGHT)
    with pytest.raises(InputError, match="model: is gcn; expected sage, as asked for"):
        read_weights(path, Model.SAGE)


def test_names_of_models_have_no_case() -> None:
    assert [model_of(name) for name in ("gcn", "SAGE", "Gin")] == list(Model)
