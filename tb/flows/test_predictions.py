"""What a run says of its predictions: for every node, and where no class is known."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.datasets import load
from golden.model.training import train
from golden.model.weights import write_weights
from scripts.flows.batch import Sampling
from scripts.flows.request import Request
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


def own_graph(folder: Path, **arrays: Any) -> str:
    """Karate as a file of the user's, with other arrays."""
    graph = load("karate")
    given = {"edge_index": np.stack([graph.edges, graph.destinations]), "x": graph.features.toarray(), **arrays}
    np.savez(folder / "own.npz", **given)
    return f"npz:{folder / 'own.npz'}"


def test_a_graph_without_classes_runs_with_weights_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no accuracy then; everything else is as it would be with classes."""
    request = Request("karate", rtl=False, out=tmp_path)
    write_weights(tmp_path / "w.npz", train(load("karate"), request.network))
    own = Request(own_graph(tmp_path), model_file=tmp_path / "w.npz", rtl=False, out=tmp_path / "own")
    result = run(own)
    assert result["accuracy"] == {"float": None, "machine": None, "agreement": 1.0}
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
