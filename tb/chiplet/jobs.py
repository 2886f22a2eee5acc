"""Runs of images on a simulated chiplet, several in one simulation.

The half outside the simulator (`run_jobs`) writes the images, builds and starts the simulation and reads the outcomes;
the half inside is the cocotb test `runs_every_job` below.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock

from golden.contracts import RegionKind
from golden.image import Image
from golden.model.layer import Int16Array
from golden.model.network import LayerResult, Problem, infer
from hw.chiplet.config import ChipletConfig
from hw.machine import Units
from tb.chiplet.host import Host, Run
from tb.harness import CLOCK_NS, BuildOptions, Result, parameters
from tb.models.machine import build_machine
from tb.models.simulate import run_with_memory

__all__ = ["Job", "Outcome", "Settings", "mismatches", "run_jobs"]


@dataclass(frozen=True)
class Settings:
    """How the memory behaves during a run.

    Attributes
    ----------
    latency
        Cycles to the first beat of a read.
    stall
        Chance that a channel stalls in a cycle.
    out_of_order
        Beats of different IDs come in any order.
    seed
        Of stalls and order; needs a reset to take effect.
    read_errors, write_errors
        First and last byte address that fails, or None.
    reset_after
        Cycles after which a reset cuts the run off, or 0.
    reset
        Whether to reset before the run.
    """

    latency: int = 100
    stall: float = 0.0
    out_of_order: bool = False
    seed: int = 1
    read_errors: tuple[int, int] | None = None
    write_errors: tuple[int, int] | None = None
    reset_after: int = 0
    reset: bool = True


@dataclass(frozen=True, eq=False)
class Job:
    """A run: an image and how the memory behaves."""

    image: Image
    settings: Settings = Settings()


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run left.

    Attributes
    ----------
    run
        Completion, cycles, phases and counters; None if it was cut off.
    results
        int16 [vertices, f_out] of every layer.
    combined
        int16 [vertices, f_out] of the last layer; empty where an image has no working space.
    """

    run: Run | None
    results: list[Int16Array]
    combined: Int16Array


def _dumped(image: Image) -> list[tuple[int, int]]:
    """Address and size of every region that a run writes: results by layer, then the working space."""
    regions = [image.results_region(layer) for layer in range(image.header["layers"])]
    regions += [region for region in image.regions if region.kind == RegionKind.COMBINED]
    return [(region.address, region.bytes) for region in regions]


def run_jobs(
    config: ChipletConfig,
    jobs: Sequence[Job],
    directory: Path,
    *,
    name: str = "chiplet",
    units: Units | None = None,
    hosted: bool = False,
    options: BuildOptions | None = None,
) -> tuple[list[Outcome], Result]:
    """Simulate a chiplet through all `jobs`, one after another.

    Parameters
    ----------
    config
        Sizes of the chiplet.
    jobs
        Runs, in order. The memory keeps nothing from one to the next.
    directory
        For images and results; it must exist.
    name
        Of the design, for the summary.
    units
        Sizes of what stands beside it; default: nothing.
    hosted
        As for `tb.models.machine.build_machine`.
    options
        Of the build.

    Returns
    -------
    tuple
        An outcome for each job, and the simulation's own figures.

    Raises
    ------
    AssertionError
        If a run does not complete.
    """
    directory = directory.resolve()
    beat_bytes = config.pe.data_width // 8
    size = max((len(job.image.data) for job in jobs), default=1)
    descriptions = []
    for number, job in enumerate(jobs):
        (directory / f"job{number}.image").write_bytes(job.image.data)
        descriptions.append({"settings": asdict(job.settings), "dump": _dumped(job.image)})
    (directory / "jobs.json").write_text(json.dumps(descriptions))
    made = build_machine(config, units, name=name, size=size, hosted=hosted, options=options)
    result = run_with_memory(made, __name__, directory, parameters={"beat_bytes": beat_bytes})
    outcomes = []
    for number, job in enumerate(jobs):
        said = json.loads((directory / f"job{number}.json").read_text())
        run = Run.read(said["run"]) if said["run"] else None
        dumps = [(directory / f"job{number}.{part}").read_bytes() for part in range(len(_dumped(job.image)))]
        results = [job.image.rows(job.image.results_region(n), dumps[n]) for n in range(job.image.header["layers"])]
        outcomes.append(Outcome(run, results, _combined(job.image, results, dumps)))
    return outcomes, result


def _combined(image: Image, results: list[Int16Array], dumps: list[bytes]) -> Int16Array:
    """Rows of the last layer in the working space, where they lie at their own distance."""
    if len(dumps) == len(results):
        return np.zeros((0, 0), dtype=np.int16)
    whole = image.region(RegionKind.COMBINED)
    distance = image.results_region(len(results) - 1).row_bytes
    last = replace(whole, row_elements=results[-1].shape[1], row_bytes=distance, bytes=whole.rows * distance)
    return image.rows(last, dumps[-1])


def mismatches(problem: Problem, outcome: Outcome) -> list[str]:
    """Where an outcome differs from the golden model, a line each; none if it is bit-exact."""
    expected: list[LayerResult] = infer(problem)
    pairs = [
        (f"layer {n}", want.results, got) for n, (want, got) in enumerate(zip(expected, outcome.results, strict=True))
    ]
    pairs.append((f"layer {len(expected) - 1}, combined", expected[-1].combined, outcome.combined))
    lines = []
    for what, want, got in pairs:
        if not np.array_equal(want, got):
            where = np.argwhere(want != got)
            vertex, feature = (int(n) for n in where[0])
            lines.append(
                f"{what}: {len(where)} of {want.size} values differ, first at vertex {vertex}, feature {feature}: "
                f"{int(got[vertex, feature])}, expected {int(want[vertex, feature])}"
            )
    return lines


@cocotb.test()
async def runs_every_job(dut: Any) -> None:
    """Load, run and dump each job; its outcome is judged outside."""
    directory = Path(parameters()["directory"])
    dut.rst.value = 1
    Clock(dut.clk, CLOCK_NS, unit="ns").start()
    host = Host(dut, parameters()["beat_bytes"], directory)
    for number, description in enumerate(json.loads((directory / "jobs.json").read_text())):
        settings = Settings(**description["settings"])
        memory = host.memory
        memory.latency(settings.latency)
        memory.stall(settings.stall)
        memory.out_of_order(settings.out_of_order)
        memory.seed(settings.seed)
        for fails, where in ((memory.read_errors, settings.read_errors), (memory.write_errors, settings.write_errors)):
            fails(range(where[0], where[1] + 1) if where else None)
        if settings.reset:
            await host.reset()
        await memory.load((directory / f"job{number}.image").read_bytes())
        run = await host.run(cut_off=settings.reset_after)
        if run is None:
            await host.reset()
        for part, (address, size) in enumerate(description["dump"]):
            (directory / f"job{number}.{part}").write_bytes(await memory.dump(address, size))
        (directory / f"job{number}.json").write_text(json.dumps({"run": asdict(run) if run else None}))
