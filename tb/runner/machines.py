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
from tb.community.configurations import NEURAL, ring_config, small_chiplet

__all__ = ["MACHINES", "MEMORIES", "Case", "run_exactly"]

#: Weights of 128 rows, so that wide layers are computed in blocks.
GATHER = GatherChipletConfig(1, 2, PEConfig(4, 64, 32, 128, 16, 4), 32, 256)
RING = RingConfig(chiplets=3, link_width=64, slots=2, max_out=16, window=2, bitmap=64)
MACHINES = {
    "gather": MachineConfig(GATHER),
    "gather ring": MachineConfig(GATHER, 3, RING),
    "community": MachineConfig(small_chiplet(partials=False)),
    # The simulator of `tb.community.test_ring`.
    "community ring": MachineConfig(small_chiplet(partials=True), 3, ring_config(3), NEURAL),
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
    found, _ = run_jobs(sizes.chiplet, [job for _, job in jobs], folder, units=sizes.units, ring=sizes.ring)
    for case, (placed, _), outcome in zip(work, jobs, found, strict=True):
        with subtests.test(case.name):
            assert not any(outcome.errors), outcome.errors
            assert not mismatches(placed.problem, outcome)
