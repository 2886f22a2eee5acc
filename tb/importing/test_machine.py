"""Converted networks of every kind in whole machines, bit by bit."""

from pathlib import Path

import pytest

from golden.importing.importer import import_model
from golden.importing.layers import Options
from golden.locator.schedule import Choice
from golden.model.quantise import quantise
from scripts.flows.simulations import images_of, place
from sim.runner.jobs import Job, mismatches
from sim.runner.run import run_jobs
from tb.importing.graphs import graph_of
from tb.importing.test_fixtures import FOLDER, NETWORKS
from tb.runner.test_networks import MACHINES, MEMORIES

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
    sizes, jobs = MACHINES[machine], []
    chosen = KINDS if machine.startswith("community") else KINDS | GATHERED
    for number, (name, graph) in enumerate(chosen.items()):
        network = import_model(str(FOLDER / f"{name}.safetensors"), Options(**NETWORKS[name]["options"])).converted()
        problem = quantise(network.network, graph_of(graph))
        placed = place(problem, sizes.chiplets, "tiles", sizes.community, Choice())
        jobs.append((placed, Job(images_of(sizes, placed), MEMORIES[number % 2])))
    found, _ = run_jobs(
        sizes.chiplet, [job for _, job in jobs], tmp_path, name=f"networks_{machine.split()[0]}", ring=sizes.ring
    )
    for name, (placed, _), outcome in zip(chosen, jobs, found, strict=True):
        with subtests.test(name):
            assert not any(outcome.errors), outcome.errors
            assert not mismatches(placed.problem, outcome)
