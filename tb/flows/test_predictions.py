"""What a run says of its predictions: for every node, and where no class is known."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts import Matching, Model, Opcode
from contracts.errors import InputError
from golden.datasets import load
from golden.model.float_model import FloatModel
from golden.model.quantise import outline
from golden.model.training import train
from golden.model.weights import write_weights
from scripts.config import load_machine
from scripts.flows.batch import Sampling
from scripts.flows.checks import shape_of
from scripts.flows.prepare import examine
from scripts.flows.request import Request
from scripts.flows.simulations import images_of, place
from tb.flows.results import run


def predicted(folder: Path) -> dict[str, Any]:
    """Read the archive of a run."""
    with np.load(folder / "predictions.npz") as archive:
        return dict(archive)


def check_beside_float(folder: Path, request: Request) -> None:
    """Compare with the float network, whose nodes are in the order of the graph as given."""
    graph = load(request.dataset)
    network = train(graph, request.network, request.training)
    found, wanted = predicted(folder), network.forward(graph)[-1][1]
    assert (found["results"].shape, found["results"].dtype) == (wanted.shape, np.float64)
    np.testing.assert_allclose(found["results"], wanted, atol=0.01 * np.abs(wanted).max())
    assert found["classes"].dtype == np.int64
    assert np.array_equal(found["classes"], found["results"].argmax(axis=1))
    assert np.array_equal(found["agreement"], found["classes"] == wanted.argmax(axis=1))


@pytest.mark.parametrize("placement", ["tiles", "communities"])
def test_results_of_every_node_are_written(placement: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the machine are in the order of the nodes as given, whatever their VIDs are."""
    request = Request("karate", placement=placement, out=tmp_path)
    result = run(request)
    assert result["bit_exact"] is True
    assert (result["config"]["lanes"], result["config"]["groups"], result["config"]["pes"]) == (64, 1, 1)
    check_beside_float(tmp_path, request)
    assert "│ predictions" in capsys.readouterr().out


def test_without_rtl_they_are_those_of_the_golden_model(tmp_path: Path) -> None:
    request = Request("les-miserables", model="sage", layers=3, rtl=False, out=tmp_path)
    result = run(request)
    check_beside_float(tmp_path, request)
    assert predicted(tmp_path)["agreement"].mean() == result["accuracy"]["agreement"]


def test_of_a_batch_there_is_a_result_for_every_small_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = Request("synthetic:molecules,graphs=30", rtl=False, out=tmp_path)
    result, graph = run(request), load(request.dataset)
    network = train(graph, request.network, request.training)
    found, wanted = predicted(tmp_path), network.forward(graph)[-1][1][graph.graph_vertices]
    assert found["results"].shape == (30, 2)
    np.testing.assert_allclose(found["results"], wanted, atol=0.01 * np.abs(wanted).max())
    assert found["agreement"].mean() == result["accuracy"]["agreement"]
    right = found["classes"] == graph.labels[graph.graph_vertices]
    assert result["accuracy"]["machine"] == right[graph.test[graph.graph_vertices]].mean()
    assert result["dataset"]["graphs"] == 30
    assert result["model"]["layers"] == [[8, 16], [16, 16], [16, 2]]
    printed = capsys.readouterr().out
    assert "30 small graphs" in printed
    page = (tmp_path / "report.html").read_text()
    assert "30 small graphs" in page
    assert "accuracy on test graphs" in page
    assert '"what": "graph"' in page


def test_what_classifies_nodes_does_not_go_with_a_batch(tmp_path: Path) -> None:
    batch = Request("synthetic:molecules,graphs=5", rtl=False, out=tmp_path)
    with pytest.raises(InputError, match="--head: classifies nodes, but the data set is a batch of small graphs"):
        run(replace(batch, head=1))
    with pytest.raises(InputError, match="--batch: classifies nodes"):
        run(replace(batch, sampling=Sampling(2, (3, 3))))
    write_weights(tmp_path / "w.npz", FloatModel.uniform(Model.GCN, [np.ones((8, 2))], [np.zeros(2)], [0.0]))
    with pytest.raises(InputError, match=r"w.npz: gives a result for each node, and .* is a batch"):
        run(replace(batch, model_file=tmp_path / "w.npz"))


def own_graph(folder: Path, **arrays: Any) -> str:
    """Karate as a file of the user's, with other arrays."""
    graph = load("karate")
    given = {"edge_index": np.stack([graph.edges, graph.destinations]), "x": graph.features.toarray(), **arrays}
    np.savez(folder / "own.npz", **given)
    return f"npz:{folder / 'own.npz'}"


def test_a_graph_with_edge_weights_is_trained_and_run_with_them(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).uniform(0.1, 2, load("karate").edge_count)
    request = Request(own_graph(tmp_path, y=load("karate").labels, edge_weight=weights), rtl=False, out=tmp_path)
    run(request)
    check_beside_float(tmp_path, request)
    weighted = predicted(tmp_path)["results"]
    plain = replace(request, dataset=own_graph(tmp_path, y=load("karate").labels))
    run(plain)
    assert np.abs(weighted - predicted(tmp_path)["results"]).max() > 0.05


@pytest.mark.parametrize("pe", ["gather", "community"])
def test_weighted_edges_are_added_up_at_their_destinations(pe: str, tmp_path: Path) -> None:
    """Whatever the configuration says; so rows travel, and a hint says it."""
    (tmp_path / "c.toml").write_text(f'pe = "{pe}"\n[ring]\nmatching = "in_order"\nsplit = "source"\n')
    weights = np.full(load("karate").edge_count, 0.5)
    request = Request(
        own_graph(tmp_path, y=load("karate").labels, edge_weight=weights), config=str(tmp_path / "c.toml")
    )
    found = examine(request, load_machine(request.config, 2))
    assert found.hints[-1] == "edges of own have weights: rows of neighbours travel, and no partial sums of vertices"
    assert (found.sizes.chiplet.kind, found.sizes.matching) == ("gather", Matching.IN_ORDER)
    network = shape_of(request, found.graph)
    images = images_of(found.sizes, place(found.sizes, outline(network, found.graph)))
    assert not any(command.opcode == Opcode.REDUCE for image in images for command in image.commands)


def test_a_graph_without_classes_runs_with_weights_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no accuracy then; everything else is as it would be with classes."""
    request = Request("karate", rtl=False, out=tmp_path)
    write_weights(tmp_path / "w.npz", train(load("karate"), request.network))
    own = Request(own_graph(tmp_path), model_file=tmp_path / "w.npz", rtl=False, out=tmp_path / "own")
    result = run(own)
    assert result["accuracy"] == {"float": None, "machine": None, "agreement": 1.0, "losses": None}
    assert result["dataset"]["classes"] == 0
    assert json.loads((tmp_path / "own/result.json").read_text())["accuracy"]["machine"] is None
    assert "no test node of known class, 100.00% of predictions agree" in capsys.readouterr().out
    assert "accuracy on test nodes" not in (tmp_path / "own/report.html").read_text()
    run(request)
    for name, array in predicted(tmp_path).items():
        assert np.array_equal(predicted(tmp_path / "own")[name], array)


def test_without_test_nodes_there_is_no_accuracy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor one of a head or of batches whose roots have no class."""
    labels = load("karate").labels.copy()
    labels[30:] = -1
    masks = {"train_mask": np.arange(34) < 30, "test_mask": np.arange(34) >= 30}
    dataset = own_graph(tmp_path, y=labels, **masks)
    request = Request(dataset, head=1, sampling=Sampling(2, (3, 3)), rtl=False, out=tmp_path)
    result = run(request)
    assert result["accuracy"]["machine"] is None
    assert result["head"]["accuracy"] == {"machine": None, "network": None, "float": None}
    assert result["batch"]["accuracy"] == {"float": None, "machine": None}
    printed = capsys.readouterr().out
    assert "30 vertices: no test node of known class" in printed
    assert "positions; no root of known class" in printed
