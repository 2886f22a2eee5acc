from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.errors import InputError
from golden.importing.importer import import_model
from golden.importing.layers import Layer, Options
from tb.importing.state_dicts import batch_norm, gat, gcn, linear, saved


def layers(folder: Path, arrays: dict[str, Any], **options: Any) -> tuple[Layer, ...]:
    return import_model(saved(folder, arrays), Options(**options)).layers


def names(found: tuple[Layer, ...]) -> list[str]:
    return [layer.name for layer in found]


def test_numbers_order_a_list(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {}
    for number in range(12):
        arrays |= gcn(f"convs.{number}", 3, 3)
    assert names(layers(tmp_path, arrays)) == [f"convs.{number}" for number in range(12)]


@pytest.mark.parametrize(
    ("arrays", "order"),
    [
        (gcn("conv1", 8, 4) | gcn("conv2", 4, 4) | linear("a_head", 4, 2), ["conv1", "conv2", "a_head"]),
        (linear("lin1", 8, 4) | gcn("conv1", 4, 5) | linear("lin2", 5, 2), ["lin1", "conv1", "lin2"]),
        (gcn("zeta", 8, 4) | gcn("alpha", 4, 2), ["zeta", "alpha"]),
        (gat("one", 8, 2, 3) | gcn("another", 2, 5), ["one", "another"]),
    ],
)
def test_widths_order_modules_of_different_names(tmp_path: Path, arrays: dict[str, Any], order: list[str]) -> None:
    assert names(layers(tmp_path, arrays)) == order


def test_an_order_that_is_not_clear_is_asked_for(tmp_path: Path) -> None:
    arrays = gcn("conv", 4, 4) | linear("head", 4, 4)
    with pytest.raises(InputError, match=r"may follow one another in several orders; expected --order"):
        layers(tmp_path, arrays)
    assert names(layers(tmp_path, arrays, order=("head", "conv"))) == ["head", "conv"]
    with pytest.raises(InputError, match="--order: there is no 'heat', perhaps head"):
        layers(tmp_path, arrays, order=("heat", "conv"))
    with pytest.raises(InputError, match="--order: leaves out head"):
        layers(tmp_path, arrays, order=("conv",))
    with pytest.raises(InputError, match="--order: names a module twice"):
        layers(tmp_path, arrays, order=("conv", "head", "head"))


def test_branches_are_no_chain(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="do not follow one another; expected a chain of layers"):
        layers(tmp_path, gcn("mean", 4, 3) | gcn("deviation", 4, 3))
    with pytest.raises(InputError, match=r"lin takes the results of all layers: JumpingKnowledge\('cat'\)"):
        layers(tmp_path, gcn("convs.0", 4, 3) | gcn("convs.1", 3, 3) | linear("lin", 6, 2))
    with pytest.raises(InputError, match=r"convs\.0 gives 3 features, convs\.1 takes 4"):
        layers(tmp_path, gcn("convs.0", 4, 3) | gcn("convs.1", 4, 2))


def test_very_many_orders_are_given_up(tmp_path: Path) -> None:
    arrays = gcn("a" * 30, 3, 2) | gcn("b" * 30, 3, 2)
    for number in range(20):
        arrays |= gcn("cdefghijklmnopqrstuvwxyz"[number] * 3, 3, 3)
    with pytest.raises(InputError, match=r"very many orders|several orders|do not follow"):
        layers(tmp_path, arrays)


def test_strange_names_are_refused_in_one_line(tmp_path: Path) -> None:
    many: dict[str, Any] = {}
    for number in range(256):
        many |= gcn(f"convs.{number}", 3, 3)
    with pytest.raises(InputError, match="has 256 layers and norms; expected at most 255"):
        layers(tmp_path, many)
    with pytest.raises(InputError, match="is too deep; expected at most 32 modules in each other"):
        layers(tmp_path, gcn(".".join("a" * 5000), 3, 3))
    digits = "9" * 5000
    found = layers(tmp_path, gcn(f"module_{digits}", 3, 3) | gcn(f"module_{digits}9", 3, 2))
    assert found[0].activation == "relu"


def test_norms_stand_behind_the_layers_of_their_numbers_or_ranks(tmp_path: Path) -> None:
    convs = gcn("conv1", 8, 4) | gcn("conv2", 4, 4) | gcn("conv3", 4, 2)
    for norms, behind in (
        (batch_norm("bn2", 4), ["conv2"]),
        (batch_norm("bn1", 4) | batch_norm("bn2", 4), ["conv1", "conv2"]),
        (batch_norm("norms.0", 4) | batch_norm("norms.1", 4), ["conv1", "conv2"]),
        (batch_norm("bn", 2), ["conv3"]),
    ):
        found = layers(tmp_path, convs | norms)
        assert [layer.name for layer in found if layer.norm is not None] == behind
    for norms in (batch_norm("bn", 4), batch_norm("bn1", 5)):
        with pytest.raises(InputError, match=r"bn1?: which layers they stand behind is not clear; expected --order"):
            layers(tmp_path, convs | norms)
    found = layers(tmp_path, convs | batch_norm("bn", 4), order=("conv1", "bn", "conv2", "conv3"))
    assert found[0].norm is not None
    with pytest.raises(InputError, match="bn: normalises 4 features; expected 2, as conv3 gives"):
        layers(tmp_path, convs | batch_norm("bn", 4), order=("conv1", "conv2", "conv3", "bn"))
    with pytest.raises(InputError, match="bn: is a norm before the first layer"):
        layers(tmp_path, convs | batch_norm("bn", 8), order=("bn", "conv1", "conv2", "conv3"))
    with pytest.raises(InputError, match=r"is a second norm behind conv1"):
        layers(tmp_path, convs | batch_norm("bn1", 4) | batch_norm("norm1", 4))


def test_places_in_a_sequential_show_activations(tmp_path: Path) -> None:
    arrays = gcn("module_0", 8, 4) | batch_norm("module_1.module", 4) | gcn("module_3", 4, 4) | gcn("module_4", 4, 2)
    found = layers(tmp_path, arrays)
    assert [layer.activation for layer in found] == ["relu", None, None]
    assert [layer.norm is not None for layer in found] == [True, False, False]


def test_batch_norm_is_its_formula(tmp_path: Path) -> None:
    arrays = gcn("conv1", 8, 4) | batch_norm("bn1", 4) | gcn("conv2", 4, 2)
    rows = np.random.default_rng(1).standard_normal((3, 4))
    for eps in (1e-5, 0.5):
        norm = layers(tmp_path, arrays, norm_eps=eps)[0].norm
        assert norm is not None
        names = ("running_mean", "running_var", "weight", "bias")
        mean, variance, weight, bias = (arrays[f"bn1.{key}"].astype(float) for key in names)
        expected = (rows - mean) / np.sqrt(variance + eps) * weight + bias
        np.testing.assert_allclose(rows * norm.scale + norm.shift, expected)
