"""Whole inferences on a simulated ring of chiplets, several in one simulation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from contracts import Error
from golden.compare import layer_differences
from golden.image import Image
from golden.model.layer import Int16Array
from golden.model.network import LayerResult, Problem, infer
from hw.chiplet.chiplet import Chiplet
from hw.chiplet.config import GatherChipletConfig
from hw.community.config import CommunityChipletConfig
from hw.machine import Units
from hw.ring.formats import RingConfig
from sim.chiplet.host import Phase
from sim.harness import BuildOptions, Result
from sim.harness.build import Build
from sim.harness.run import completed, run
from sim.machine import build_machine, depth_of
from sim.models.activity import activity_plusarg
from sim.models.memory import plusargs
from sim.models.records import records_plusarg
from sim.ring.machine import build_ring
from sim.ring.settings import RingSettings

__all__ = ["Expected", "RingJob", "RingOutcome", "RingSettings", "mismatches", "run_ring", "simulate_ring"]


@dataclass(frozen=True, eq=False)
class Expected:
    """What a run must leave, where the simulation itself judges.

    Attributes
    ----------
    errors, infos
        Of every chiplet's completion: one error, or a list of those that are possible; an info of None may be anything,
        possible ones may depend on the error.
    results
        int16 [vertices, f_out] of every layer, or None.
    links
        Counters of every link by name, or None.
    cycles
        Name in ``tb/expected.toml``, or None.
    phases
        Layer and name of every chiplet's commands, or None.
    """

    errors: Sequence[Error | list[Error]]
    infos: Sequence[int | dict[int, list[int] | None] | None]
    results: Sequence[Int16Array] | None = None
    links: dict[str, list[int]] | None = None
    cycles: str | None = None
    phases: list[list[tuple[int, str]]] | None = None


@dataclass(frozen=True, eq=False)
class RingJob:
    """A run: an image for each chiplet, how the memories behave, and what is to come out if nobody else looks."""

    images: Sequence[Image]
    settings: RingSettings = field(default_factory=RingSettings)
    expected: Expected | None = None


@dataclass(frozen=True, eq=False)
class RingOutcome:
    """What a run left.

    Attributes
    ----------
    completions
        Fields of every chiplet's completion.
    cycles
        From the start to the last completion.
    phases
        Of every chiplet's commands, those that wait for other chiplets too.
    spans
        Cycles of the simulation in which each chiplet was started and completed.
    links
        Counters of every link (`sim.ring.machine.LINK_COUNTERS`).
    counters
        Counters of every chiplet by name, of community PEs only.
    memories
        Bytes that every chiplet's memory moved, ``bytes_read`` and ``bytes_written``.
    results
        int16 [vertices, f_out] of every layer, of all chiplets together.
    """

    completions: list[dict[str, int]]
    cycles: int
    phases: list[list[Phase]]
    spans: list[tuple[int, int]]
    links: list[dict[str, int]]
    counters: list[dict[str, int]]
    memories: list[dict[str, int]]
    results: list[Int16Array]


def run_ring(
    config: GatherChipletConfig | CommunityChipletConfig,
    ring: RingConfig,
    jobs: Sequence[RingJob],
    directory: Path,
    *,
    name: str = "ring",
    units: Units | None = None,
    hosted: bool = False,
    options: BuildOptions | None = None,
) -> tuple[list[RingOutcome], Result]:
    """Simulate a ring through all `jobs`; each may use fewer chiplets than ``ring.chiplets``.

    Parameters
    ----------
    config, ring
        Sizes of a chiplet and of its ring interface.
    jobs
        Runs, in order.
    directory
        For images and results; it must exist.
    name
        Of the design, for the summary.
    units
        Sizes of what stands beside each chiplet; default: nothing.
    hosted
        As for `sim.machine.build_machine`.
    options
        Of the build.

    Raises
    ------
    AssertionError
        If a chiplet does not complete.
    """
    made = build_machine(config, units, ring, name=name, size=_size(jobs), hosted=hosted, options=options)
    counters = config.counters
    result = _simulate(made, config.port, ring.chiplets, counters, jobs, directory)
    completed.append(result)
    if result.message:
        raise AssertionError(result.message)
    directory = directory.resolve()
    outcomes = []
    for number, job in enumerate(jobs):
        said = json.loads((directory / f"job{number}.json").read_text())
        results = []
        for layer in _layers(job.images[0]):
            parts = [
                image.rows(image.results_region(layer), (directory / f"job{number}.{n}.{layer}").read_bytes())
                for n, image in enumerate(job.images)
            ]
            results.append(np.concatenate(parts))
        said["phases"] = [[Phase(*phase) for phase in phases] for phases in said["phases"]]
        outcomes.append(RingOutcome(results=results, **said))
    return outcomes, result


def simulate_ring(component: Chiplet, jobs: Sequence[RingJob], directory: Path, *, name: str = "ring") -> Result:
    """Simulate a ring of `component` through all `jobs`; what they leave is in `directory`.

    Parameters
    ----------
    component
        A chiplet; there are as many as its ring may have.
    jobs, directory, name
        As for :func:`run_ring`.
    """
    ring, port = component.units["ring"].config, component.config.port
    made = build_ring(component, ring, name, depth_of(_size(jobs), port), BuildOptions())
    return _simulate(made, port, ring.chiplets, component.config.counters, jobs, directory)


def _size(jobs: Sequence[RingJob]) -> int:
    """Bytes of a memory that holds every image."""
    return max(len(image.data) for job in jobs for image in job.images)


def _simulate(
    made: Build,
    port: tuple[int, int],
    chiplets: int,
    counters: Sequence[str],
    jobs: Sequence[RingJob],
    directory: Path,
) -> Result:
    directory = directory.resolve()
    for number, job in enumerate(jobs):
        for chiplet, image in enumerate(job.images):
            (directory / f"job{number}.{chiplet}.image").write_bytes(image.data)
    descriptions = [
        {
            "settings": asdict(job.settings),
            "dump": [
                [(image.results_region(layer).address, image.results_region(layer).bytes) for layer in _layers(image)]
                for image in job.images
            ],
            "expected": job.expected and _described(number, job, job.expected, directory),
        }
        for number, job in enumerate(jobs)
    ]
    (directory / "jobs.json").write_text(json.dumps(descriptions))
    return run(
        made,
        "sim.ring.driver",
        parameters={
            "beat_bytes": port[1] // 8,
            "chiplets": chiplets,
            "directory": str(directory),
            "counters": counters,
        },
        scratch=directory,
        plusargs=[
            argument
            for n in range(chiplets)
            for argument in (
                *plusargs(directory, f"mem{n}"),
                activity_plusarg(directory, n),
                records_plusarg(directory, n),
            )
        ],
    )


def _described(number: int, job: RingJob, expected: Expected, directory: Path) -> dict[str, Any]:
    """Return `expected` as JSON; its results in files beside the images."""
    regions = None
    if expected.results is not None:
        regions = []
        for chiplet, image in enumerate(job.images):
            first, owned = image.header["first_vertex"], image.header["owned"]
            places = [image.results_region(layer) for layer in _layers(image)]
            regions.append([(region.row_elements, region.row_bytes) for region in places])
            for layer, rows in enumerate(expected.results):
                np.save(directory / f"want{number}.{chiplet}.{layer}.npy", rows[first : first + owned])
    return {**asdict(replace(expected, results=None)), "regions": regions}


def _layers(image: Image) -> range:
    return range(image.header["layers"])


def mismatches(problem: Problem | Sequence[LayerResult], outcome: RingOutcome) -> list[str]:
    """Where an outcome differs from the golden model, or what it found; a line each, none if it is bit-exact."""
    exact = infer(problem) if isinstance(problem, Problem) else problem
    return layer_differences(exact, dict(enumerate(outcome.results)))
