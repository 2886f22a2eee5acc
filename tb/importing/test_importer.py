"""From a state dict to a network that runs, through the library and through the command line."""

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts import Model
from contracts.errors import InputError
from golden.datasets import load
from golden.datasets.archive import read_archive
from golden.importing.importer import Imported, import_model, read_network
from golden.importing.layers import Options
from golden.model.float_model import Reach
from golden.model.weights import kind_of, read_weights, write_weights
from scripts.cli import main
from scripts.flows.importing import import_network
from tb.importing.graphs import graph_of
from tb.importing.state_dicts import batch_norm, gat, gcn, gin, graph_conv, linear, sage, saved

KARATE = load("karate")
FIXTURES = Path(__file__).parent / "fixtures"


def read(folder: Path, arrays: dict[str, Any], **options: Any) -> Imported:
    return import_model(saved(folder, arrays), Options(**options))


def residual_gat(name: str, f_in: int, channels: int, heads: int) -> dict[str, Any]:
    return gat(name, f_in, channels, heads) | {f"{name}.res.weight": np.ones((heads * channels, f_in), np.float32)}


def rootless(*widths: int) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for number, (f_in, f_out) in enumerate(pairwise(widths)):
        arrays |= linear(f"convs.{number}.lin_l", f_in, f_out)
    return arrays


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        (sage("s", 2, 2), {"self_loops": True}, r"s: has a weight of its own .* beside a self loop in the mean;"),
        (
            linear("s.lin_l", 2, 2),
            {"aggregation": "max"},
            "s: takes the maximum of the neighbours; expected aggr='mean'",
        ),
        (residual_gat("a", 2, 1, 2), {}, r"a: adds the node's own row .* expected GATConv\(\.\.\., residual=False\)"),
    ],
)
def test_what_the_machine_lacks_is_named_with_a_way_out(
    tmp_path: Path, arrays: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    given = options | {"order": ("conv1", next(iter(arrays)).partition(".")[0])}
    with pytest.raises(InputError, match=message) as refused:
        read(tmp_path, gcn("conv1", 34, 2) | arrays, **given).converted()
    assert "\n" not in str(refused.value)


def test_a_network_of_one_layer_has_no_name(tmp_path: Path) -> None:
    arrays = {key.removeprefix("conv."): array for key, array in residual_gat("conv", 34, 2, 1).items()}
    with pytest.raises(InputError, match=r"net\.safetensors: adds the node's own row"):
        read(tmp_path, arrays).converted()
    arrays = {key.removeprefix("conv."): array for key, array in gcn("conv", 34, 2).items()}
    assert read(tmp_path, arrays).converted().network.model == Model.GCN


def test_layers_without_an_activation_between_stay_without(tmp_path: Path) -> None:
    layers = read(tmp_path, gcn("module_0", 34, 3) | gcn("module_1", 3, 2)).converted().network.layers
    assert [layer.activation for layer in layers] == [None, None]


@pytest.mark.parametrize(
    ("aggregation", "loops", "model", "eps"),
    [
        ("mean", True, Model.SAGE, 0.0),
        ("mean", False, Model.SAGE, -1.0),
        ("sum", False, Model.GIN, -1.0),
        ("sum", True, Model.GIN, 0.0),
    ],
)
def test_sage_without_root_weight_is_a_mean_or_a_sum(
    tmp_path: Path, aggregation: str, loops: bool, model: Model, eps: float
) -> None:
    arrays = rootless(34, 5, 2)
    network = read(tmp_path, arrays, aggregation=aggregation, self_loops=loops).converted().network
    assert (network.model, network.eps) == (model, (eps, eps))
    # The formula of `SAGEConv`, dense.
    adjacency = KARATE.adjacency.toarray() + np.eye(KARATE.nodes) * loops
    if aggregation == "mean":
        adjacency = adjacency / adjacency.sum(axis=1, keepdims=True)
    rows: Any = KARATE.features.toarray().astype(float)
    for number in range(2):
        rows = adjacency @ rows @ arrays[f"convs.{number}.lin_l.weight"].T + arrays[f"convs.{number}.lin_l.bias"]
        rows = np.maximum(rows, 0) if number == 0 else rows
    np.testing.assert_allclose(network.forward(KARATE)[-1][1], rows, atol=1e-5)


def test_self_loops_add_one_to_eps(tmp_path: Path) -> None:
    arrays = gin("conv", 34, 2) | {"conv.eps": np.array([0.25], np.float32)}
    assert read(tmp_path, arrays).converted().network.eps == (0.25,)
    assert read(tmp_path, arrays, self_loops=True).converted().network.eps == (1.25,)


def names_of(imported: Imported) -> list[str]:
    return [kind_of(layer) for layer in imported.converted().network.layers]


def test_what_is_added_joins_the_next_layer_where_that_is_exact(tmp_path: Path) -> None:
    first, norm = gcn("conv1", 34, 4), batch_norm("bn1", 4)
    for behind, options, kinds in (
        (linear("lin1", 4, 2), {}, ["gcn", "linear"]),
        (linear("conv2.lin_l", 4, 2), {"self_loops": True}, ["gcn", "sage"]),
        (linear("conv2.lin_l", 4, 2), {}, ["gcn", "linear", "sage"]),
        (gcn("conv2", 4, 2), {}, ["gcn", "linear", "gcn"]),
        (gin("conv2", 4, 2), {}, ["gcn", "linear", "gin"]),
    ):
        imported = read(tmp_path, first | norm | behind, act_first=True, **options)
        assert names_of(imported) == kinds
        names = [layer.name for layer in imported.layers]
        assert imported.converted().names == tuple([names[0]] * (len(kinds) - 1) + names[1:])


def test_an_activation_behind_an_activation_is_a_layer_unless_it_changes_nothing(tmp_path: Path) -> None:
    arrays = gin("conv1", 34, 4) | gcn("conv2", 4, 2)
    assert names_of(read(tmp_path, arrays, plain_last=False)) == ["gin", "gcn"]
    assert names_of(read(tmp_path, arrays, plain_last=False, activation="tanh")) == ["gin", "linear", "gcn"]


def test_a_perceptron_that_ends_a_network_with_an_activation_keeps_it(tmp_path: Path) -> None:
    network = read(tmp_path, gin("conv1", 34, 4, 2), plain_last=False).converted().network
    assert [layer.activation for layer in network.layers] == ["relu", "relu"]


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("before", ["gcn", "gat"])
def test_a_matrix_of_the_nodes_own(tmp_path: Path, loops: bool, before: str) -> None:
    first = gcn("conv1", 34, 6) if before == "gcn" else gat("conv1", 34, 3, 2, bias=6)
    conv, norm = sage("conv2", 6, 4), batch_norm("bn2", 4)
    options = {"order": ("conv1", "conv2", "bn2"), "aggregation": "sum"}
    found = read(tmp_path, first | conv | norm, self_loops=loops, **options).converted().network
    assert names_of(read(tmp_path, first | conv | norm, **options)) == [before, "gin"]
    alone = read(tmp_path, first | linear("conv2", 6, 4), order=("conv1", "conv2")).converted().network
    hidden = alone.forward(KARATE)[0][1][:, found.layers[1].weight.any(axis=1)]
    adjacency = KARATE.adjacency.toarray() + np.eye(KARATE.nodes) * loops
    rows = adjacency @ hidden @ conv["conv2.lin_l.weight"].T + hidden @ conv["conv2.lin_r.weight"].T
    scale = norm["bn2.weight"] / np.sqrt(norm["bn2.running_var"] + 1e-5)
    rows = (rows + conv["conv2.lin_l.bias"] - norm["bn2.running_mean"]) * scale + norm["bn2.bias"]
    np.testing.assert_allclose(found.forward(KARATE)[-1][1], rows, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("concat", [True, False])
def test_norm_behind_attention_leaves_its_scores_alone(tmp_path: Path, concat: bool) -> None:
    width = 6 if concat else 3
    bare = gat("conv1", 34, 3, 2, bias=width)
    norm, head = batch_norm("bn1", width), linear("lin1", width, 2)
    found = read(tmp_path, bare | norm | head, order=("conv1", "bn1", "lin1")).converted().network.forward(KARATE)
    plain = read(tmp_path, bare).converted().network.forward(KARATE)[-1][1]
    scale = norm["bn1.weight"] / np.sqrt(norm["bn1.running_var"] + 1e-5)
    rows = np.maximum((plain - norm["bn1.running_mean"]) * scale + norm["bn1.bias"], 0)
    np.testing.assert_allclose(found[-1][1], rows @ head["lin1.weight"].T + head["lin1.bias"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("arrays", "options", "kinds", "activations"),
    [
        (linear("lin1", 4, 2), {}, ["gcn", "mean"], ["relu", None]),
        (linear("lin1", 4, 2), {"plain_pool": True}, ["gcn", "mean"], [None, None]),
        ({}, {}, ["gcn", "mean"], [None, None]),
        (
            linear("lin1", 4, 3) | linear("lin2", 3, 2),
            {"order": ("conv1", "lin1", "pool", "lin2")},
            ["gcn", "linear", "mean"],
            ["relu", "relu", None],
        ),
    ],
)
def test_pooling_stands_behind_the_last_convolution_or_where_it_is_said(
    tmp_path: Path, arrays: dict[str, Any], options: dict[str, Any], kinds: list[str], activations: list[str | None]
) -> None:
    layers = read(tmp_path, gcn("conv1", 34, 4) | arrays, pool="mean", **options).converted().network.layers
    assert [kind_of(layer) for layer in layers] == kinds
    assert [layer.activation for layer in layers] == activations


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        (linear("lin1", 34, 2), {}, "--pool: does nothing without a convolution"),
        (
            gcn("conv1", 34, 3) | gcn("conv2", 3, 2),
            {"order": ("conv1", "pool", "conv2")},
            "conv2 stands behind the pooling; expected convolutions, then the pooling",
        ),
        (gcn("conv1", 34, 3), {"order": ("pool", "conv1")}, "conv1 stands behind the pooling"),
        (linear("lin1", 34, 3) | gcn("conv1", 3, 2), {"order": ("lin1", "conv1", "pol")}, "--order: there is no 'pol'"),
    ],
)
def test_a_pooling_that_cannot_be_is_refused(
    tmp_path: Path, arrays: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, arrays, pool="sum", **options)


def test_weights_of_edges_are_refused_where_pytorch_geometric_takes_none(tmp_path: Path) -> None:
    weighted = graph_of("karate-weighted")
    path = saved(tmp_path, gcn("conv1", 34, 4) | graph_conv("conv2", 4, 2))
    assert read_network(path, None, weighted).network.f_in == 34
    for arrays, kind in ((linear("s.lin_l", 34, 2), "SAGEConv"), (gin("s", 34, 2), "GINConv")):
        path = saved(tmp_path, arrays)
        assert read_network(path, None, KARATE).network.f_in == 34
        with pytest.raises(InputError, match=f"s: is a {kind}, which takes no weights .* or --no-edge-weights"):
            read_network(path, None, weighted)


def test_a_batch_of_graphs_needs_a_network_that_reads_them_out(tmp_path: Path) -> None:
    molecules = load("synthetic:molecules,graphs=20")
    path = saved(tmp_path, gcn("conv1", 8, 4) | linear("lin1", 4, 2))
    with pytest.raises(InputError, match=r"is a batch of small graphs; expected .*: atoll import --pool mean or sum"):
        read_network(path, None, molecules)
    write_weights(tmp_path / "net.npz", import_model(path, Options(pool="sum")).converted().network)
    assert read_network(str(tmp_path / "net.npz"), None, molecules).network.layers[1].reach == Reach.MEMBERS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "gelu"}, "--activation: there is no 'gelu'.*; expected one of relu, sigmoid, tanh, elu"),
        ({"aggregation": "lstm"}, "--aggr: there is no 'lstm'"),
        ({"heads": "sum"}, "--heads: there is no 'sum'"),
        ({"aggregation": "max"}, "--aggr: does nothing without a SAGEConv"),
        ({"heads": "mean"}, "--heads: does nothing without a GATConv"),
        ({"negative_slope": 0.1}, "--negative-slope: does nothing without a GATConv"),
        ({"plain_last": False}, "--no-plain-last: does nothing without a GINConv"),
        ({"pool": "max"}, "--pool: there is no 'max'; expected one of mean, sum"),
        ({"plain_pool": True}, r"--plain-pool: does nothing without a pooling \(--pool\)"),
        ({"self_loops": True}, "--self-loops: does nothing without a SAGEConv or GINConv"),
        ({"act_first": True}, "--act-first: does nothing without a BatchNorm"),
        ({"norm_eps": 0.1}, "--norm-eps: does nothing without a BatchNorm"),
    ],
)
def test_options_that_are_wrong_or_idle_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, gcn("conv", 34, 2), **options)


def test_numbers_that_overflow_with_the_norm_are_refused(tmp_path: Path) -> None:
    arrays = gcn("conv1", 34, 2) | batch_norm("bn1", 2) | gcn("conv2", 2, 2)
    arrays["conv1.lin.weight"] = np.full((2, 34), 1e300)
    arrays["bn1.weight"] = np.full(2, 1e300)
    with pytest.raises(InputError, match=r"net\.safetensors, conv1: has a number that is not finite"):
        read(tmp_path, arrays).converted()


def test_what_was_taken_for_granted_is_said(tmp_path: Path) -> None:
    found = read_network(saved(tmp_path, gcn("conv1", 34, 5) | gcn("conv2", 5, 2)), None, KARATE)
    assert found.network.model == Model.GCN
    (note,) = found.notes
    assert note.endswith("relu between layers, GCNConv with normalisation and self loops")
    assert "edges without self loops" in read(tmp_path, gin("conv", 34, 2)).assumptions()
    assert "aggr='mean'" in read(tmp_path, sage("conv", 34, 2)).assumptions()
    assert "negative_slope=0.2" in read(tmp_path, gat("conv", 34, 2, 1)).assumptions()


def test_the_model_asked_for_must_be_that_of_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path, gcn("conv", 34, 2))
    assert read_network(path, Model.GCN, KARATE).network.model == Model.GCN
    with pytest.raises(InputError, match=r"net\.safetensors: is gcn; expected sage, as asked for"):
        read_network(path, Model.SAGE, KARATE)


def test_an_archive_is_written_and_gives_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = FIXTURES / "gin-linear-karate.safetensors"
    assert import_network(path, Options(), tmp_path / "net.npz") == []
    assert "net.npz: 2 layers, 34 - 8 - 2; atoll run DATASET --model-file" in capsys.readouterr().out.replace("\n", "")
    kept, direct = read_weights(str(tmp_path / "net.npz")), import_model(str(path)).converted().network
    assert kept.eps == direct.eps
    for left, right in zip(kept.forward(KARATE)[-1], direct.forward(KARATE)[-1], strict=True):
        np.testing.assert_array_equal(left, right)
    with pytest.raises(InputError, match=r"--out .*net.pt: has another suffix; expected a file net.npz"):
        import_network(path, Options(), tmp_path / "net.pt")


def ended(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["atoll", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_every_layer_that_is_refused_has_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(FIXTURES / "gat-residual-directed.safetensors")
    assert ended(monkeypatch, "import", path) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(", ")[2][:8] for line in lines] == ["convs.0:", "convs.1:", "convs.2:"]
    assert not list(tmp_path.iterdir())
    assert ended(monkeypatch, "run", "karate", "--no-rtl", "--model-file", path) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_state_dict_runs_as_it_is_and_as_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(FIXTURES / "gcn-norm-karate.safetensors")
    assert ended(monkeypatch, "import", path) == 0
    for model_file, out in ((path, "direct"), ("net.npz", "archive")):
        words = ("run", "karate", "--no-rtl", "--model-file", model_file, "-o", out)
        assert ended(monkeypatch, *words) == 0
    assert "taken for granted: relu between layers" in " ".join(capsys.readouterr().err.split())
    direct, archive = (read_archive(str(tmp_path / out / "predictions.npz"), "") for out in ("direct", "archive"))
    np.testing.assert_array_equal(direct["results"], archive["results"])
    assert json.loads((tmp_path / "direct/result.json").read_text())["model"]["layers"] == [[34, 12], [12, 12], [12, 2]]
