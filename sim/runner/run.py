"""The half of the runner outside the simulator: builds a machine, hands jobs over and returns their outcomes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hw.chiplet.chiplet import Chiplet
from hw.chiplet.config import GatherChipletConfig
from hw.community.config import CommunityChipletConfig
from hw.machine import Units
from hw.ring.formats import RingConfig
from sim.harness import BuildOptions, Result
from sim.harness.build import Build
from sim.harness.run import WALL_LIMIT, default_seed, passing, run
from sim.models.memory import plusargs
from sim.models.recorders import recorder_plusargs
from sim.runner import machine
from sim.runner.build import build_component, build_machine

__all__ = ["AnyJob", "run_component", "run_jobs"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class AnyJob(Protocol[T_co]):
    """A job: what the runner does inside the simulator, one job after another.

    Jobs and what they return are pickled.
    """

    @property
    def size(self) -> int:
        """Bytes of each memory that it needs."""

    async def run(self, machine: machine.Machine) -> T_co:
        """Do its steps."""


def run_jobs(
    config: GatherChipletConfig | CommunityChipletConfig,
    jobs: Sequence[AnyJob[T]],
    directory: Path,
    *,
    units: Units | None = None,
    ring: RingConfig | None = None,
    hosted: bool = False,
    options: BuildOptions | None = None,
) -> tuple[list[T], Result]:
    """Simulate a machine through all `jobs`, one after another.

    Parameters
    ----------
    config, units, ring, hosted, options
        As for `sim.runner.build.build_machine`.
    jobs
        `sim.runner.jobs.Job`, `sim.runner.batches.BatchJob` or the like. On a ring each may use fewer chiplets than
        ``ring.chiplets``.
    directory
        For files; it must exist.

    Returns
    -------
    tuple
        What each job returned, and the simulation's own figures.

    Raises
    ------
    AssertionError
        If a run does not complete.
    """
    size = max((job.size for job in jobs), default=1)
    made = build_machine(config, units, ring, size=size, hosted=hosted, options=options)
    result = _simulate(made, config, ring, jobs, directory)
    return pickle.loads((directory / machine.OUTCOMES).read_bytes()), result


def run_component(component: Chiplet, jobs: Sequence[AnyJob[Any]], directory: Path, *, name: str) -> None:
    """Simulate a ring of a given chiplet through jobs that judge themselves.

    Parameters
    ----------
    component
        A chiplet with a ring interface; there are as many as its ring may have.
    jobs, directory
        As for :func:`run_jobs`.
    name
        Of the top, for the summary.

    Raises
    ------
    AssertionError
        If a run does not end as expected.
    """
    size, ring = max(job.size for job in jobs), component.units["ring"].config
    made = build_component(component, component.config.port, ring, name, size)
    _simulate(made, component.config, ring, jobs, directory)


def _simulate(
    made: Build,
    config: GatherChipletConfig | CommunityChipletConfig,
    ring: RingConfig | None,
    jobs: Sequence[AnyJob[Any]],
    directory: Path,
) -> Result:
    directory, chiplets = directory.resolve(), ring.chiplets if ring else 1
    (directory / machine.JOBS).write_bytes(pickle.dumps(jobs))
    given = {
        "chiplets": chiplets,
        "ring": ring is not None,
        "beat_bytes": config.port[1] // 8,
        "counters": config.counters,
        **({"crossing": ring.crossing} if ring and ring.crossing else {}),
    }
    return passing(
        run(
            made,
            machine.__name__,
            parameters={**given, "directory": str(directory)},
            # The directory is another one every time; it must not decide.
            seed=default_seed(made.toplevel, machine.__name__, json.dumps(given, sort_keys=True)),
            scratch=directory,
            # Each job may take as long as a simulation of it alone.
            limit=WALL_LIMIT * max(1, len(jobs)),
            plusargs=[
                *(argument for n in range(chiplets) for argument in plusargs(directory, f"mem{n}")),
                *recorder_plusargs(directory, chiplets),
            ],
        )
    )
