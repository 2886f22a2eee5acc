"""Trained networks beside PyTorch Geometric's own results: converted and quantised here."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.datasets.archive import read_archive
from golden.graph import Graph
from golden.importing.convert import RefusalsError
from golden.importing.importer import Imported, import_model
from golden.importing.layers import Options
from golden.model.float_model import FloatLayer, accuracy
from golden.model.network import infer, predictions
from golden.model.quantise import quantise
from golden.model.weights import kind_of, read_weights, write_weights
from tb.importing.graphs import checksum, graph_of, results_of

FOLDER = Path(__file__).parent / "fixtures"
NETWORKS: dict[str, dict[str, Any]] = json.loads((FOLDER / "fixtures.json").read_text())["networks"]
RESULTS = read_archive(str(FOLDER / "results.npz"), "logits and classes")
CONVERTED = [name for name, network in NETWORKS.items() if network["runs"]]
#: Largest difference of two logits, in float.
EXACT = 1e-5


def imported(name: str) -> Imported:
    return import_model(str(FOLDER / f"{name}.safetensors"), Options(**NETWORKS[name]["options"]))


def graph_for(name: str) -> Graph:
    graph = graph_of(NETWORKS[name]["graph"])
    assert checksum(graph) == NETWORKS[name]["checksum"]
    return graph


@pytest.mark.parametrize("name", CONVERTED)
def test_converted_network_gives_the_results_of_pytorch_geometric(name: str) -> None:
    graph = graph_for(name)
    network = imported(name).converted().network
    assert " ".join(map(kind_of, network.layers)) == NETWORKS[name]["runs"]
    found, expected = network.forward(graph)[-1][1][results_of(graph)], RESULTS[f"{name}.logits"]
    assert np.abs(found[: len(expected)] - expected).max() < EXACT
    assert (found.argmax(axis=1) == RESULTS[f"{name}.classes"]).all()


@pytest.mark.parametrize("name", CONVERTED)
def test_quantised_network_agrees_with_pytorch_geometric(name: str) -> None:
    graph = graph_for(name)
    network = imported(name).converted().network
    chosen = results_of(graph)
    machine = predictions(infer(quantise(network, graph))[-1].results)
    assert np.mean(machine[chosen] == RESULTS[f"{name}.classes"]) >= 0.99
    found = accuracy(machine, graph, graph.test)
    assert found is not None
    assert abs(found - NETWORKS[name]["accuracy"]) <= 0.005


@pytest.mark.parametrize("name", CONVERTED)
def test_archive_of_a_converted_network_gives_the_same(name: str, tmp_path: Path) -> None:
    network = imported(name).converted().network
    write_weights(tmp_path / "net.npz", network)
    kept = read_weights(str(tmp_path / "net.npz"))
    for left, right in zip(kept.layers, network.layers, strict=True):
        for field in fields(FloatLayer):
            np.testing.assert_array_equal(getattr(left, field.name), getattr(right, field.name))


@pytest.mark.parametrize("name", sorted(set(NETWORKS) - set(CONVERTED)))
def test_network_that_the_machine_lacks_is_refused_layer_by_layer(name: str) -> None:
    with pytest.raises(RefusalsError) as refused:
        imported(name).converted()
    for error in refused.value.errors:
        assert f"{name}.safetensors, " in error.where
        assert "\n" not in str(error)
