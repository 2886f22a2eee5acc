"""Small machines of every kind, and networks that run on them bit by bit."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from golden.model.network import Problem
from hw.chiplet.config import GatherChipletConfig
from hw.config import MachineConfig
from hw.pe.formats import PEConfig
from hw.ring.formats import RingConfig
from scripts.flows.simulations import images_of, place
from sim.runner.jobs import Job, Settings, mismatches
from sim.runner.run import run_jobs
from tb.community.configurations import chiplet_config

__all__ = ["MACHINES", "MEMORIES", "Case", "run_exactly"]

#: Weights of 128 rows, so that wide layers are computed in blocks.
GATHER = GatherChipletConfig(1, 2, PEConfig(4, 64, 32, 128, 16, 4), 32, 256)
COMMUNITY = {
    partials: chiplet_config(
        community={
            "lanes": 4, "width": 128, "columns": 256, "partners": 2, "max_out": 16, "weight_rows": 128,
            "data_width": 64, "ways": 2, "partials": partials,
        },
        locator={
            "engines": 2, "searches": 1, "nodes": 512, "edges": 4096, "banks": 4, "lanes": 1,
            "outputs": 2, "data_width": 64,
        },
        combiners=2, pes=2, units=2, hubs=128, kept=64, finishers=2, depth=32, scratch_lines=256,
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


def run_exactly(machine: str, cases: Iterable[Case], folder: Path, subtests: pytest.Subtests) -> None:
    """Run networks on a machine, one after another in one simulation; every result is the golden model's.

    Parameters
    ----------
    machine
        A name of `MACHINES`.
    cases
        Networks; a subtest each.
    folder
        For files.
    subtests
        Where they are reported.
    """
    sizes, work, jobs = MACHINES[machine], list(cases), []
    for case in work:
        placed = place(sizes, case.problem, case.placement)
        jobs.append((placed, Job(images_of(sizes, placed), case.settings)))
    # One simulator for a chiplet alone and for a ring of it.
    name = f"networks_{machine.split()[0]}"
    found, _ = run_jobs(sizes.chiplet, [job for _, job in jobs], folder, name=name, ring=sizes.ring)
    for case, (placed, _), outcome in zip(work, jobs, found, strict=True):
        with subtests.test(case.name):
            assert not any(outcome.errors), outcome.errors
            assert not mismatches(placed.problem, outcome)
