"""Runs of images on a simulated chiplet with community PEs.

The half outside the simulator (`run_images`) writes the images, builds and starts the simulation and reads the
outcomes; the half inside is the cocotb test `runs_every_image`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer

from golden.contracts import RegionKind
from golden.image import Image, Region
from golden.model.layer import Int16Array
from golden.model.network import Problem, infer
from hw.community.chiplet import CommunityChiplet, MachineConfig
from hw.community.formats import CommunityConfig
from hw.islands.config import LocatorConfig
from hw.machine import Units
from tb.chiplet.host import Host, Run
from tb.harness import CLOCK_NS, Result, parameters
from tb.models.machine import build_machine
from tb.models.simulate import run_with_memory

__all__ = ["COUNTERS", "Outcome", "Pace", "differences", "machine", "run_images"]

#: What the chiplet counts.
COUNTERS = CommunityChiplet.COUNTERS
_LIMIT = 100_000_000


@dataclass(frozen=True)
class Pace:
    """How the memory behaves during a run; after how many cycles it is cut off, or 0; whether a reset comes before.

    ``settle``: cycles between the reset and the start.
    """

    latency: int = 100
    stall: float = 0.0
    out_of_order: bool = False
    seed: int = 1
    read_errors: tuple[int, int] | None = None
    write_errors: tuple[int, int] | None = None
    reset_after: int = 0
    reset: bool = True
    settle: int = 0


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run left: completion and cycles, results by layer, counters by name.

    ``run`` is None if it was cut off. Results that stayed on the chip are missing.
    """

    run: Run | None
    results: dict[int, Int16Array]
    counters: dict[str, int]


def machine(
    *, community: Mapping[str, Any] | None = None, locator: Mapping[str, Any] | None = None, **sizes: int
) -> MachineConfig:
    """Return a configuration from plain numbers."""
    return MachineConfig(CommunityConfig(**(community or {})), LocatorConfig(**(locator or {})), **sizes)


def run_images(
    config: MachineConfig,
    images: Sequence[tuple[Image, Pace]],
    directory: Path,
    *,
    name: str = "community_chiplet",
    units: Units | None = None,
    hosted: bool = False,
) -> tuple[list[Outcome], Result]:
    """Simulate a chiplet, with `units` beside it, through all images, one after another.

    Raises
    ------
    AssertionError
        If a run does not complete.
    """
    directory = directory.resolve()
    beat = config.community.data_width // 8
    size = max((len(image.data) for image, _ in images), default=1)
    described = []
    for number, (image, pace) in enumerate(images):
        (directory / f"job{number}.image").write_bytes(image.data)
        dump = {layer: (region.address, region.bytes) for layer, region in _results(image)}
        described.append({"pace": asdict(pace), "dump": dump})
    (directory / "jobs.json").write_text(json.dumps(described))
    made = build_machine(config, units, name=name, size=size, hosted=hosted)
    result = run_with_memory(made, __name__, directory, parameters={"beat_bytes": beat})
    outcomes = []
    for number, (image, _) in enumerate(images):
        said = json.loads((directory / f"job{number}.json").read_text())
        results = {
            layer: image.rows(region, (directory / f"job{number}.{layer}").read_bytes())
            for layer, region in _results(image)
        }
        outcomes.append(Outcome(Run.read(said["run"]) if said["run"] else None, results, said["counters"]))
    return outcomes, result


def differences(problem: Problem, outcome: Outcome) -> list[str]:
    """Where an outcome differs from the golden model, a line each; none if it is bit-exact."""
    assert outcome.run is not None
    lines = []
    if outcome.run.completion["error"]:
        lines.append(f"it ended with {outcome.run.completion}")
    wanted = infer(problem)
    if len(wanted) - 1 not in outcome.results:
        lines.append("there are no results")
    for layer, got in outcome.results.items():
        want = wanted[layer]
        where = np.argwhere(want.results != got)
        if where.size:
            vertex, feature = map(int, where[0])
            lines.append(
                f"layer {layer}: {len(where)} of {got.size} values differ, first at vertex {vertex}, feature "
                f"{feature}: {int(got[vertex, feature])}, expected {int(want.results[vertex, feature])}"
            )
    return lines


def _results(image: Image) -> list[tuple[int, Region]]:
    """Layers whose results lie in memory, and where."""
    return [(one.layer, one) for one in image.regions if one.kind in (RegionKind.HIDDEN, RegionKind.RESULTS)]


@cocotb.test()
async def runs_every_image(dut: Any) -> None:
    """Load, run and dump each; what came out is judged outside."""
    directory = Path(parameters()["directory"])
    dut.rst.value = 1
    Clock(dut.clk, CLOCK_NS, unit="ns").start()
    host = Host(dut, parameters()["beat_bytes"], directory)
    for number, description in enumerate(json.loads((directory / "jobs.json").read_text())):
        pace, memory = Pace(**description["pace"]), host.memory
        memory.latency(pace.latency)
        memory.stall(pace.stall)
        memory.out_of_order(pace.out_of_order)
        memory.seed(pace.seed)
        for fails, where in ((memory.read_errors, pace.read_errors), (memory.write_errors, pace.write_errors)):
            fails(range(where[0], where[1] + 1) if where else None)
        if pace.reset:
            await host.reset()
        await memory.load((directory / f"job{number}.image").read_bytes())
        if pace.settle:
            await Timer(pace.settle * CLOCK_NS, "ns")
            await RisingEdge(dut.clk)
        run = await host.run(cut_off=pace.reset_after, limit=_LIMIT)
        counters = {name: int(getattr(dut, name).value) for name in COUNTERS}
        for layer, (address, size) in description["dump"].items():
            (directory / f"job{number}.{layer}").write_bytes(await memory.dump(address, size))
        said = {"run": asdict(run) if run else None, "counters": counters}
        (directory / f"job{number}.json").write_text(json.dumps(said))
