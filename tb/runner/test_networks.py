"""Whole machines with networks of every kind of layer: alone and on rings, with gather and with community PEs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from contracts import Model
from golden.locator.schedule import Choice
from golden.model.network import Problem
from hw.chiplet.config import GatherChipletConfig
from hw.config import MachineConfig
from hw.pe.formats import PEConfig
from hw.ring.formats import RingConfig
from scripts.flows.simulations import images_of, place
from sim.problems import corner_graph, directed_graph, random_graph
from sim.runner.jobs import Job, Settings, mismatches
from sim.runner.run import run_jobs
from tb.community.configurations import chiplet_config
from tb.runner.networks import attentive, batch, deep, mixed, readout, rooted, wide

#: Weights of 128 rows, so that wide layers are computed in blocks.
GATHER = GatherChipletConfig(1, 2, PEConfig(4, 64, 32, 128, 16, 4), 32)
COMMUNITY = {
    partials: chiplet_config(
        community={
            "lanes": 4, "width": 128, "columns": 256, "partners": 2, "max_out": 16, "weight_rows": 128,
            "data_width": 64, "ways": 2, "partials": partials,
        },
        locator={
            "engines": 2, "searches": 1, "nodes": 512, "edges": 4096, "banks": 4, "line_banks": 4, "lanes": 1,
            "outputs": 2, "data_width": 64,
        },
        pes=2, units=2, hubs=128, kept=64, ways=4, depth=32, row_lines=0 if partials else 64,
    )
    for partials in (False, True)
}  # fmt: skip
RING = RingConfig(chiplets=3, link_width=64, slots=2, max_out=16, window=2, bitmap=64)
MACHINES = {
    "gather": MachineConfig(GATHER),
    "gather ring": MachineConfig(GATHER, 3, RING),
    "community": MachineConfig(COMMUNITY[False]),
    "community ring": MachineConfig(COMMUNITY[True], 3, RING),
}
MEMORIES = (Settings(latency=3), Settings(latency=20, stall=0.3, out_of_order=True, seed=3))


@dataclass(frozen=True, eq=False)
class Case:
    """A network, how it is shared out, and how memories behave."""

    name: str
    problem: Problem
    placement: str = "tiles"
    settings: Settings = MEMORIES[0]


def cases(machine: str) -> Iterator[Case]:
    """Yield all networks for a machine."""
    for n, graph in enumerate(("isolated nodes", "star", "clique")):
        yield Case(f"mixed, {graph}", mixed(corner_graph(graph, 5, (1.0, 0.4)[n % 2], n), n), settings=MEMORIES[n % 2])
    for n, graph in enumerate(("no edges", "isolated nodes", "star", "clique", "two components")):
        sparse = (0.4, 1.0)[n % 2]
        yield Case(f"rooted, {graph}", rooted(corner_graph(graph, 5, sparse, n), n), settings=MEMORIES[n % 2])
    small = batch(1, 9, 4)
    placements = ("tiles", "communities") if machine.endswith("ring") else ("tiles",)
    for placement in placements:
        yield Case(f"mean of each graph, {placement}", readout(small, 2, Model.SAGE), placement, MEMORIES[1])
        yield Case(f"rooted, {placement}", rooted(corner_graph("path", 5, 1.0, 7), 7), placement, MEMORIES[1])
        yield Case(f"mixed, {placement}", mixed(corner_graph("two components", 5, 1.0, 4), 4), placement)
    for n, graph in enumerate(("acyclic", "into a star", "out of a star", "one edge without reverse")):
        one_way, make = directed_graph(graph, 5, (1.0, 0.4)[n % 2], n), (rooted, mixed)[n % 2]
        yield Case(f"directed, {graph}", make(one_way, n), placements[n % len(placements)], MEMORIES[n % 2])
    yield Case("sum of each graph", readout(batch(3, 4, 7), 5, Model.GIN), settings=MEMORIES[1])
    yield Case("deep", deep(corner_graph("path", 3, 1.0, 6), 6, 8))
    directed = random_graph(7, 30, 90, 5, 1.0)
    yield Case("directed, rooted", rooted(directed, 8))
    yield Case("dense features in blocks", wide(corner_graph("clique", 1, 1.0, 10), 10, 150, 1.0), settings=MEMORIES[1])
    if machine.startswith("gather"):
        yield Case("attention", attentive(directed, 11), settings=MEMORIES[1])


@pytest.mark.parametrize("machine", MACHINES)
def test_networks_are_exact(machine: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    sizes, work, jobs = MACHINES[machine], list(cases(machine)), []
    for case in work:
        placed = place(case.problem, sizes.chiplets, case.placement, sizes.community, Choice())
        jobs.append((placed, Job(images_of(sizes, placed), case.settings)))
    found, _ = run_jobs(
        sizes.chiplet, [job for _, job in jobs], tmp_path, name=f"networks_{machine.split()[0]}", ring=sizes.ring
    )
    for case, (placed, _), outcome in zip(work, jobs, found, strict=True):
        with subtests.test(case.name):
            assert not any(outcome.errors), outcome.errors
            assert not mismatches(placed.problem, outcome)


def test_layers_that_sum_the_same_share_a_topology() -> None:
    problem = mixed(corner_graph("star", 5, 1.0, 0), 0)
    sums, dense, mean, dense_too, with_itself, normalised = problem.topologies
    assert dense is dense_too
    assert dense.alone
    assert len({sums, dense, mean, with_itself, normalised}) == 5
    (image,) = images_of(MACHINES["gather"], place(problem, 1))
    assert sum(region.kind.name == "EDGES" for region in image.regions) == 5
