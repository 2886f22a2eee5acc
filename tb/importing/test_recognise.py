from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.errors import InputError
from golden.importing.convert import RefusalsError
from golden.importing.importer import Imported, import_model
from golden.importing.layers import GATConv, GCNConv, GINConv, Linear, Options, SAGEConv
from tb.importing.state_dicts import batch_norm, gat, gcn, gin, graph_conv, linear, sage, saved


def read(folder: Path, arrays: dict[str, Any], **options: Any) -> Imported:
    return import_model(saved(folder, arrays), Options(**options))


def kinds(network: Imported) -> list[str]:
    return [type(layer.operation).__name__ for layer in network.layers]


def test_each_kind_is_found_by_its_arrays(tmp_path: Path) -> None:
    arrays = gcn("a1", 5, 6) | sage("a2", 6, 7) | gin("a3", 7, 8, 9) | gat("a4", 9, 2, 3, bias=6) | linear("a5", 6, 4)
    network = read(tmp_path, arrays)
    assert kinds(network) == ["GCNConv", "SAGEConv", "GINConv", "GATConv", "Linear"]
    assert [layer.name for layer in network.layers] == ["a1", "a2", "a3", "a4", "a5"]
    assert [(layer.operation.f_in, layer.operation.f_out) for layer in network.layers] == [
        (5, 6), (6, 7), (7, 9), (9, 6), (6, 4),
    ]  # fmt: skip
    assert [layer.activation for layer in network.layers] == ["relu"] * 4 + [None]
    first, second, third = (layer.operation for layer in network.layers[:3])
    assert isinstance(first, GCNConv)
    assert isinstance(second, SAGEConv)
    assert isinstance(third, GINConv)
    np.testing.assert_array_equal(first.linear.weight, arrays["a1.lin.weight"].T)
    np.testing.assert_array_equal(first.linear.bias, arrays["a1.bias"])
    assert second.root is not None
    np.testing.assert_array_equal(second.root, arrays["a2.lin_r.weight"].T)
    assert [stage.activation for stage in third.stages] == ["relu", None]


@pytest.mark.parametrize("prefix", ["module.", "model.encoder.", "_orig_mod.module."])
def test_a_network_inside_another_module_is_the_same(tmp_path: Path, prefix: str) -> None:
    arrays = gcn("conv1", 5, 6) | batch_norm("bn1", 6) | gcn("conv2", 6, 2)
    network = read(tmp_path, {f"{prefix}{key}": array for key, array in arrays.items()})
    assert kinds(network) == ["GCNConv", "GCNConv"]
    assert network.layers[0].norm is not None


def test_absent_biases_are_zeros(tmp_path: Path) -> None:
    arrays = {"conv.lin.weight": np.ones((3, 2), np.float32)}
    (layer,) = read(tmp_path, arrays).layers
    assert isinstance(layer.operation, GCNConv)
    assert layer.operation.linear.bias.tolist() == [0, 0, 0]


def test_attention_with_two_names_for_one_matrix_is_read(tmp_path: Path) -> None:
    arrays = gat("conv", 5, 2, 3, bias=2)
    arrays["conv.lin_src.weight"] = arrays.pop("conv.lin.weight")
    arrays["conv.lin_dst.weight"] = arrays["conv.lin_src.weight"].copy()
    (layer,) = read(tmp_path, arrays).layers
    assert isinstance(layer.operation, GATConv)
    assert not layer.operation.concat
    arrays["conv.lin_dst.weight"][0, 0] += 1
    with pytest.raises(InputError, match="conv: is a GATConv with a matrix each for sources and destinations"):
        read(tmp_path, arrays)


def test_what_is_done_with_heads_follows_from_the_bias_or_the_next_layer(tmp_path: Path) -> None:
    for bias, following, concat in ((6, 6, True), (2, 2, False), (0, 6, True), (0, 2, False)):
        network = read(tmp_path, gat("conv1", 5, 2, 3, bias=bias) | gcn("conv2", following, 2))
        assert isinstance(network.layers[0].operation, GATConv)
        assert network.layers[0].operation.concat == concat
    for heads in ("concat", "mean"):
        (layer,) = read(tmp_path, gat("conv", 5, 2, 3), heads=heads).layers
        assert layer.operation.f_out == (6 if heads == "concat" else 2)


def test_places_in_a_perceptron_show_activations_and_norms(tmp_path: Path) -> None:
    arrays = {"conv.eps": np.zeros(1, np.float32)}
    for part in (linear("0", 4, 4), batch_norm("1", 4), linear("3", 4, 4), batch_norm("5", 4), linear("6", 4, 4)):
        arrays |= {f"conv.nn.{key}": array for key, array in part.items()}
    arrays |= {f"conv.nn.{key}": array for key, array in linear("7", 4, 4).items()}
    for plain, last in ((True, None), (False, "relu")):
        (layer,) = read(tmp_path, arrays, plain_last=plain).layers
        assert isinstance(layer.operation, GINConv)
        stages = layer.operation.stages
        assert [stage.activation for stage in stages] == ["relu", "relu", None, last]
        assert [stage.norm is not None for stage in stages] == [True, True, False, False]
        assert [stage.act_first for stage in stages] == [False, True, False, False]


def other(name: str, *keys: str) -> dict[str, Any]:
    return {f"{name}.{key}": np.ones((3, 3), np.float32) for key in keys}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (other("conv", "att", "bias", "lin_l.weight", "lin_r.weight"), "conv: is GATv2Conv"),
        (gin("conv", 3, 3) | other("conv", "lin.weight"), "conv: is a GINEConv"),
        (gat("conv", 3, 1, 3) | other("conv", "lin_edge.weight", "att_edge"), "conv: is a GATConv with edge_dim"),
        (graph_conv("conv", 3, 3) | other("conv", "gate.weight"), "conv: is like GraphConv, but has gate.weight"),
        (other("conv", "lin_key.weight", "lin_query.weight", "lin_value.weight"), "conv: is TransformerConv"),
        (other("convs.0", "lins.0.weight", "lins.1.weight", "bias"), "convs.0: is ChebConv or TAGConv"),
        (linear("conv.lin", 3, 3), "conv: is SGConv"),
        (other("conv", "lin1.weight", "lin1.bias", "lin2.weight", "lin3.weight", "lin3.bias"), "conv: is LEConv"),
        (linear("conv.nn.0", 6, 3), "conv: is EdgeConv"),
        (linear("edge_conv.first", 3, 3), "edge_conv: is no layer that is read: it has first.bias, first.weight"),
        (sage("conv", 3, 3) | linear("conv.lin", 3, 3), "conv: is a SAGEConv with project=True"),
        (sage("conv", 3, 3) | other("conv", "aggr_module.t"), "conv: is a SAGEConv whose aggregation has weights"),
        (other("emb", "weight"), "emb: is an Embedding"),
        ({"act.weight": np.ones(1, np.float32)}, "act: is PReLU"),
        ({"norm.weight": np.ones(3, np.float32), "norm.bias": np.ones(3, np.float32)}, "norm: is LayerNorm"),
        ({f"norm.{key}": np.ones(3, np.float32) for key in ("weight", "bias", "mean_scale")}, "norm: is GraphNorm"),
        (other("jk", "lstm.weight_ih_l0", "att.weight"), "jk: is JumpingKnowledge with an LSTM"),
        ({"bias": np.ones(1, np.float32)}, "is no layer that is read: it has bias, first.bias"),
        ({"temperature": np.ones(1, np.float32)}, "temperature: is an array by itself"),
        ({"conv.weight": np.ones((3, 2)), "conv.bias": np.ones(2)}, "conv.bias: is .* before 2.0"),
        ({"conv.lin.weight": np.full((3, 2), np.nan)}, "conv.lin.weight: has a number that is not finite"),
        ({"conv.lin.weight": np.ones((3, 2, 1))}, "conv.lin.weight: is float64 .* numbers with 2 axes"),
        ({"conv.lin.weight": np.ones((0, 2))}, "conv.lin.weight: is float64 .* none of them empty"),
        (gcn("conv", 3, 2) | {"conv.bias": np.ones(4)}, r"conv.bias: is \[4\]; expected \[2\] beside lin.weight"),
        (gcn("conv", 3, 2) | batch_norm("bn", 2) | {"bn.running_var": -np.ones(2)}, "bn: has arrays that do not fit"),
        (gat("conv", 3, 2, 2, bias=3), "conv: gives 3 features with 2 heads of 2"),
        (gin("conv", 3, 4) | {"conv.eps": np.ones(2)}, r"conv.eps: has shape \[2\]"),
        (gin("conv", 3, 4) | linear("conv.nn.2", 5, 4), "conv.nn: has a Linear with 4 outputs before one"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_named(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        read(tmp_path, gcn("first", 3, 3) | arrays)
    assert "\n" not in str(refused.value)
    assert "; expected " in str(refused.value)


def test_every_module_that_is_not_read_has_its_line(tmp_path: Path) -> None:
    arrays = linear("conv1.lin", 3, 3) | gcn("conv2", 3, 3) | other("conv3", "att", "lin_l.weight")
    with pytest.raises(RefusalsError) as refused:
        read(tmp_path, arrays)
    assert ["SGConv" in str(error) for error in refused.value.errors] == [True, False]


def test_linear_is_a_layer_of_its_own(tmp_path: Path) -> None:
    network = read(tmp_path, linear("mlp.lins.0", 4, 3) | linear("mlp.lins.1", 3, 2))
    assert all(isinstance(layer.operation, Linear) for layer in network.layers)
