"""Runs of images on a simulated chiplet of gather or community PEs, several in one simulation.

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
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer

from contracts import RegionKind
from golden.compare import layer_differences, value_differences
from golden.image import Image, Region
from golden.model.layer import Int16Array
from golden.model.network import Problem, infer
from hw.chiplet.config import GatherChipletConfig
from hw.community.config import CommunityChipletConfig
from hw.machine import Units
from sim.chiplet.host import Host, Run
from sim.harness import CLOCK_NS, BuildOptions, Result, parameters
from sim.machine import build_machine
from sim.models.memory import MemorySettings
from sim.models.simulate import run_with_memory

__all__ = ["Job", "Outcome", "Settings", "mismatches", "run_jobs"]


@dataclass(frozen=True, kw_only=True)
class Settings(MemorySettings):
    """How the memory behaves during a run, and what cuts it off.

    Attributes
    ----------
    read_errors, write_errors
        First and last byte address that fails, or None.
    reset_after
        Cycles after which a reset cuts the run off, or 0.
    reset
        Whether to reset before the run.
    settle
        Cycles between reset and start, while the memory is filled.
    """

    read_errors: tuple[int, int] | None = None
    write_errors: tuple[int, int] | None = None
    reset_after: int = 0
    reset: bool = True
    settle: int = 0


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
        int16 [vertices, f_out] by layer; those that stayed on the chip are missing.
    combined
        int16 [vertices, f_out] of the last layer, as gather PEs leave them in the working space; else None.
    counters
        What a chiplet with community PEs has counted, by name; else nothing.
    """

    run: Run | None
    results: dict[int, Int16Array]
    combined: Int16Array | None
    counters: dict[str, int]


def _results(image: Image) -> list[Region]:
    """Where layers' results lie in memory."""
    return [region for region in image.regions if region.kind in (RegionKind.HIDDEN, RegionKind.RESULTS)]


def _combined(image: Image) -> Region | None:
    """Where the last layer's combined rows are: in the working space, at the distance of its results."""
    last = image.results_region(image.header["layers"] - 1)
    for space in image.regions:
        if space.kind == RegionKind.COMBINED:
            return replace(last, line=space.line)
    return None


def run_jobs(
    config: GatherChipletConfig | CommunityChipletConfig,
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
        As for `sim.machine.build_machine`.
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
    counters = config.counters
    size = max((len(job.image.data) for job in jobs), default=1)
    places = []
    for number, job in enumerate(jobs):
        (directory / f"job{number}.image").write_bytes(job.image.data)
        regions: dict[str, Region] = {str(region.layer): region for region in _results(job.image)}
        combined = None if counters else _combined(job.image)
        places.append(regions | ({"combined": combined} if combined else {}))
    descriptions = [
        {
            "settings": asdict(job.settings),
            "dump": {part: (region.address, region.bytes) for part, region in regions.items()},
        }
        for job, regions in zip(jobs, places, strict=True)
    ]
    (directory / "jobs.json").write_text(json.dumps(descriptions))
    made = build_machine(config, units, name=name, size=size, hosted=hosted, options=options)
    given = {"beat_bytes": config.port[1] // 8, "counters": counters}
    result = run_with_memory(made, __name__, directory, parameters=given)
    outcomes = []
    for number, (job, regions) in enumerate(zip(jobs, places, strict=True)):
        said = json.loads((directory / f"job{number}.json").read_text())
        rows = {
            part: job.image.rows(region, (directory / f"job{number}.{part}").read_bytes())
            for part, region in regions.items()
        }
        run = Run.read(said["run"]) if said["run"] else None
        last = rows.pop("combined", None)
        outcomes.append(Outcome(run, {int(layer): found for layer, found in rows.items()}, last, said["counters"]))
    return outcomes, result


def mismatches(problem: Problem, outcome: Outcome) -> list[str]:
    """Where an outcome differs from the golden model, a line each; none if it is bit-exact."""
    exact = infer(problem)
    lines = layer_differences(exact, outcome.results)
    if outcome.combined is not None:
        what = f"layer {len(exact) - 1}, combined"
        lines += value_differences(what, exact[-1].combined, outcome.combined, ("vertex", "feature"))
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
        memory.configure(settings)
        for fails, where in ((memory.read_errors, settings.read_errors), (memory.write_errors, settings.write_errors)):
            fails(range(where[0], where[1] + 1) if where else None)
        if settings.reset:
            await host.reset()
        await memory.load((directory / f"job{number}.image").read_bytes())
        if settings.settle:
            await Timer(settings.settle * CLOCK_NS, "ns")
            await RisingEdge(dut.clk)
        run = await host.run(cut_off=settings.reset_after)
        counters = {name: int(getattr(dut, name).value) for name in parameters()["counters"]}
        if run is None:
            await host.reset()
        for part, (address, size) in description["dump"].items():
            (directory / f"job{number}.{part}").write_bytes(await memory.dump(address, size))
        said = {"run": asdict(run) if run else None, "counters": counters}
        (directory / f"job{number}.json").write_text(json.dumps(said))
