"""Trained networks beside PyTorch Geometric's own results: evaluated, converted and quantised here."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.datasets.archive import read_archive
from golden.importing.convert import RefusalsError
from golden.importing.evaluate import evaluate
from golden.importing.importer import Imported, import_model
from golden.importing.layers import Options
from golden.model.network import infer, predictions
from golden.model.quantise import compare, quantise
from tb.importing.graphs import checksum, graph_of

FOLDER = Path(__file__).parent / "fixtures"
NETWORKS: dict[str, dict[str, Any]] = json.loads((FOLDER / "fixtures.json").read_text())["networks"]
RESULTS = read_archive(str(FOLDER / "results.npz"), "logits and classes")
CONVERTED = [name for name, network in NETWORKS.items() if network["model"]]
#: Largest difference of two logits, in float.
EXACT = 1e-5


def imported(name: str) -> Imported:
    return import_model(str(FOLDER / f"{name}.safetensors"), Options(**NETWORKS[name]["options"]))


@pytest.mark.parametrize("name", NETWORKS)
def test_float_results_are_those_of_pytorch_geometric(name: str) -> None:
    graph = graph_of(NETWORKS[name]["graph"])
    assert checksum(graph) == NETWORKS[name]["checksum"]
    network = imported(name)
    found = evaluate(network.layers, graph, network.options.self_loops)
    expected = RESULTS[f"{name}.logits"]
    assert np.abs(found[: len(expected)] - expected).max() < EXACT
    assert (found.argmax(axis=1) == RESULTS[f"{name}.classes"]).all()


@pytest.mark.parametrize("name", CONVERTED)
def test_converted_network_gives_the_same_results(name: str) -> None:
    graph = graph_of(NETWORKS[name]["graph"])
    network = imported(name).network()
    assert network.model.name.lower() == NETWORKS[name]["model"]
    expected = RESULTS[f"{name}.logits"]
    assert np.abs(network.forward(graph)[-1][1][: len(expected)] - expected).max() < EXACT


@pytest.mark.parametrize("name", CONVERTED)
def test_quantised_network_agrees_with_pytorch_geometric(name: str) -> None:
    graph = graph_of(NETWORKS[name]["graph"])
    network = imported(name).network()
    problem = quantise(network, graph)
    machine = predictions(infer(problem)[-1].results)
    assert np.mean(machine == RESULTS[f"{name}.classes"]) >= 0.99
    found = compare(network, problem)
    assert found.machine is not None
    assert abs(found.machine - NETWORKS[name]["accuracy"]) <= 0.005


@pytest.mark.parametrize("name", sorted(set(NETWORKS) - set(CONVERTED)))
def test_network_that_the_machine_lacks_is_refused_layer_by_layer(name: str) -> None:
    with pytest.raises(RefusalsError) as refused:
        imported(name).network()
    for error in refused.value.errors:
        assert f"{name}.safetensors, " in error.where
        assert "\n" not in str(error)
