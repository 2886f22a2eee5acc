"""Converted networks of every kind in whole machines, bit by bit."""

from pathlib import Path

import pytest

from golden.importing.importer import import_model
from golden.importing.layers import Options
from golden.model.quantise import quantise
from tb.importing.graphs import graph_of
from tb.importing.test_fixtures import FOLDER, NETWORKS
from tb.runner.machines import MACHINES, MEMORIES, Case, run_exactly

#: Fixtures without an activation of the neural chip, each on a graph of few nodes.
KINDS = {
    "gcn-act-first-karate": "karate",
    "sage-directed": "karate-directed",
    "sage-plain-directed": "karate-directed",
    "graph-conv-directed": "karate-directed",
    "gin-karate": "karate",
    "mixed-karate": "karate",
    "gcn-mean-molecules": "synthetic:molecules,graphs=4",
    "gin-sum-molecules": "synthetic:molecules,graphs=4",
}
#: Those that communities do not take.
GATHERED = {
    "gat-one-karate": "karate",
    "gat-eight-karate": "karate",
    "gcn-weighted": "karate-weighted",
    "graph-conv-weighted": "karate-weighted",
}


@pytest.mark.parametrize("machine", MACHINES)
def test_converted_networks_are_exact(machine: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    chosen = KINDS if machine.startswith("community") else KINDS | GATHERED
    cases = []
    for number, (name, graph) in enumerate(chosen.items()):
        network = import_model(str(FOLDER / f"{name}.safetensors"), Options(**NETWORKS[name]["options"])).converted()
        cases.append(Case(name, quantise(network.network, graph_of(graph)), settings=MEMORIES[number % 2]))
    run_exactly(machine, cases, tmp_path, subtests)
