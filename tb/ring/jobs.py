"""Whole inferences on a simulated ring of chiplets, several in one simulation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import First, RisingEdge, Timer
from cocotb.utils import get_sim_time

from golden.contracts import COMPLETION
from golden.image import Image
from golden.model.layer import Int16Array
from golden.model.network import Problem, infer
from hw.chiplet.config import ChipletConfig
from hw.ring.formats import RingConfig
from hw.ring.ring_chiplet import RingChiplet
from tb.chiplet.host import watch
from tb.harness import CLOCK_NS, BuildOptions, Result, parameters
from tb.harness.build import build
from tb.harness.run import completed, run
from tb.models.memory import plusargs
from tb.models.wrap import SOURCES
from tb.ring.machine import LINK_COUNTERS, ring_top

__all__ = ["RingJob", "RingOutcome", "RingSettings", "mismatches", "run_ring"]

#: Smallest memory of a chiplet, in bytes.
_MEMORY_BYTES = 1 << 20
_MEMORY_COUNTERS = ("bytes_read", "bytes_written")


@dataclass(frozen=True)
class RingSettings:
    """How memories behave, and what goes wrong.

    Attributes
    ----------
    latency, stall, out_of_order, seed
        As for `tb.chiplet.jobs.Settings`, of all memories.
    read_errors
        Chiplet, first and last byte address whose reads fail; or None.
    late
        Cycles after the others until a chiplet is started, by chiplet.
    reset_after
        Cycles after which all are reset and the run is begun again, or 0.
    reset_one
        A chiplet, and the cycles after which it alone is reset; or None. What it does then: stay so, or begin again
        after as many cycles more, if they are not 0.
    limit
        Cycles after which a chiplet without a completion is an error.
    """

    latency: int = 20
    stall: float = 0.0
    out_of_order: bool = False
    seed: int = 1
    read_errors: tuple[int, int, int] | None = None
    late: dict[int, int] = field(default_factory=dict)
    reset_after: int = 0
    reset_one: tuple[int, int, int] | None = None
    limit: int = 2_000_000


@dataclass(frozen=True, eq=False)
class RingJob:
    """A run: an image for each chiplet, and how the memories behave."""

    images: Sequence[Image]
    settings: RingSettings = field(default_factory=RingSettings)


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
        Layer, name and cycles of every chiplet's commands, those that wait for other chiplets too.
    links
        Counters of every link (`tb.ring.machine.LINK_COUNTERS`).
    memories
        Bytes that every chiplet's memory moved, ``bytes_read`` and ``bytes_written``.
    results
        int16 [vertices, f_out] of every layer, of all chiplets together.
    """

    completions: list[dict[str, int]]
    cycles: int
    phases: list[list[tuple[int, str, int]]]
    links: list[dict[str, int]]
    memories: list[dict[str, int]]
    results: list[Int16Array]


def run_ring(
    config: ChipletConfig,
    ring: RingConfig,
    jobs: Sequence[RingJob],
    directory: Path,
    *,
    name: str = "ring",
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
    options
        Of the build.

    Raises
    ------
    AssertionError
        If a chiplet does not complete.
    """
    directory = directory.resolve()
    beat_bytes = config.pe.data_width // 8
    size = max([_MEMORY_BYTES, *(len(image.data) for job in jobs for image in job.images)])
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
        }
        for job in jobs
    ]
    (directory / "jobs.json").write_text(json.dumps(descriptions))
    component = RingChiplet(config, ring)
    # Compiled once for all positions: a large chiplet would take minutes for each.
    options = replace(options or BuildOptions(), blocks=(f"{name}_chiplet",))
    depth = 1 << (size // beat_bytes - 1).bit_length()
    made = build(
        component,
        f"{name}_chiplet",
        sources=SOURCES,
        toplevel=name,
        texts={f"{name}.sv": ring_top(component, f"{name}_chiplet", name, ring.chiplets, depth)},
        ports=(),
        options=options,
    )
    result = run(
        made,
        __name__,
        parameters={"beat_bytes": beat_bytes, "chiplets": ring.chiplets, "directory": str(directory)},
        plusargs=[argument for n in range(ring.chiplets) for argument in plusargs(directory, f"mem{n}")],
    )
    completed.append(result)
    if result.message:
        raise AssertionError(result.message)
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
        outcomes.append(RingOutcome(results=results, **said))
    return outcomes, result


def _layers(image: Image) -> range:
    return range(image.header["layers"])


def mismatches(problem: Problem, outcome: RingOutcome) -> list[str]:
    """Where an outcome differs from the golden model, a line each; none if it is bit-exact."""
    lines = []
    for layer, (want, got) in enumerate(zip(infer(problem), outcome.results, strict=True)):
        where = np.argwhere(want.results != got)
        if len(where):
            vertex, feature = (int(n) for n in where[0])
            lines.append(
                f"layer {layer}: {len(where)} of {got.size} values differ, first at vertex {vertex}, "
                f"feature {feature}: "
                f"{int(got[vertex, feature])}, expected {int(want.results[vertex, feature])}"
            )
    return lines


class _Machine:
    """Drives the ring's top inside the simulator."""

    def __init__(self, dut: Any, directory: Path, chiplets: int, beat_bytes: int) -> None:
        self.dut, self.directory, self.chiplets, self.beat_bytes = dut, directory, chiplets, beat_bytes
        self.edge = RisingEdge(dut.clk)
        for n in range(chiplets):
            for port in (f"c{n}_start__valid", f"c{n}_start__payload", f"c{n}_done__ready"):
                self._set(port, 0)
            for port in ("load", "dump", "dump_first", "dump_beats"):
                self._set(f"mem{n}_{port}", 0) if hasattr(dut, f"mem{n}_{port}") else None
        for port in ("mem_bandwidth_beats", "mem_bandwidth_cycles", "mem_dump_first", "mem_dump_beats", "reset"):
            self._set(port, 0)

    def _set(self, port: str, value: int) -> None:
        getattr(self.dut, port).value = value

    def _get(self, port: str) -> int:
        return int(getattr(self.dut, port).value)

    async def configure(self, settings: RingSettings, chiplets: int) -> None:
        self._set("chiplets", chiplets)
        self._set("mem_latency", settings.latency)
        chance = min(255, round(256 * settings.stall))
        self._set("mem_stall", sum(chance << 8 * channel for channel in range(5)))
        self._set("mem_out_of_order", int(settings.out_of_order))
        self._set("mem_seed", settings.seed)
        for n in range(self.chiplets):
            fails = settings.read_errors is not None and settings.read_errors[0] == n
            first, last = settings.read_errors[1:] if fails and settings.read_errors else (1, 0)
            self._set(f"mem{n}_read_error_first", first)
            self._set(f"mem{n}_read_error_last", last)
            self._set(f"mem{n}_write_error_first", 1)
            self._set(f"mem{n}_write_error_last", 0)
        await self.reset()

    async def reset(self) -> None:
        self._set("rst", 1)
        for n in range(self.chiplets):
            self._set(f"c{n}_start__valid", 0)
            self._set(f"c{n}_done__ready", 0)
        await self.edge
        await self.edge
        self._set("rst", 0)

    async def load(self, number: int, chiplets: int) -> None:
        for n in range(chiplets):
            data = (self.directory / f"job{number}.{n}.image").read_bytes()
            (self.directory / f"mem{n}_image.bin").write_bytes(data + bytes(-len(data) % self.beat_bytes))
            self._set(f"mem{n}_load", 1)
        await self.edge
        for n in range(chiplets):
            self._set(f"mem{n}_load", 0)
        await self.edge

    async def start(self, n: int, after: int) -> None:
        if after:
            await Timer(after * CLOCK_NS, "ns")
            await self.edge
        self._set(f"c{n}_start__valid", 1)
        await self.edge
        while not self._get(f"c{n}_start__ready"):
            await self.edge
        self._set(f"c{n}_start__valid", 0)

    async def reset_one(self, n: int, after: int, again: int) -> None:
        """Reset chiplet `n` alone, and begin it again if `again` is not 0."""
        await Timer(after * CLOCK_NS, "ns")
        await self.edge
        self._set("reset", 1 << n)
        await self.edge
        self._set("reset", 0)
        if again:
            await self.start(n, again)

    async def run(self, settings: RingSettings, chiplets: int) -> dict[str, Any] | None:
        """Start all, wait for all; None if the run was cut off."""
        began = int(get_sim_time("ns"))
        phases: list[list[tuple[int, str, int]]] = [[] for _ in range(chiplets)]
        watchers = [
            cocotb.start_soon(watch(getattr(self.dut, f"c{n}_opcode"), getattr(self.dut, f"c{n}_layer"), phases[n]))
            for n in range(chiplets)
        ]
        for n in range(chiplets):
            cocotb.start_soon(self.start(n, settings.late.get(n, 0)))
        upset = cocotb.start_soon(self.reset_one(*settings.reset_one)) if settings.reset_one else None
        limit = Timer((settings.reset_after or settings.limit) * CLOCK_NS, "ns")
        for n in range(chiplets):
            if settings.reset_one and settings.reset_one[0] == n:
                continue  # looked at last
            valid = getattr(self.dut, f"c{n}_done__valid")
            if not valid.value and await First(RisingEdge(valid), limit) is limit:
                if settings.reset_after:
                    for watcher in watchers:
                        watcher.cancel()
                    return None
                raise AssertionError(
                    f"chiplet {n}: no completion after {settings.limit} cycles; opcodes under way "
                    f"{[self._get(f'c{k}_opcode') for k in range(chiplets)]}"
                )
        cycles = (int(get_sim_time("ns")) - began) // CLOCK_NS
        if settings.reset_one and settings.reset_one[2]:
            valid = getattr(self.dut, f"c{settings.reset_one[0]}_done__valid")
            if not valid.value and await First(RisingEdge(valid), limit) is limit:
                raise AssertionError(f"chiplet {settings.reset_one[0]} does not end after its reset")
        if upset is not None:
            assert upset.done(), "the run was over before the reset"
        completions = [COMPLETION.unpack(self._get(f"c{n}_done__payload")) for n in range(chiplets)]
        links = [{name: self._get(f"link{n}_{name}") for name in LINK_COUNTERS} for n in range(chiplets)]
        memories = [{name: self._get(f"mem{n}_{name}") for name in _MEMORY_COUNTERS} for n in range(chiplets)]
        # Only now: a command that fails ends in the cycle of the completion.
        await self.edge
        for watcher in watchers:
            watcher.cancel()
        return {
            "completions": completions, "cycles": cycles, "phases": phases, "links": links, "memories": memories,
        }  # fmt: skip

    async def dump(self, number: int, regions: list[list[tuple[int, int]]]) -> None:
        for n, layers in enumerate(regions):
            for layer, (address, size) in enumerate(layers):
                first = address // self.beat_bytes
                self._set("mem_dump_first", first)
                self._set("mem_dump_beats", -(-(address + size) // self.beat_bytes) - first)
                self._set(f"mem{n}_dump", 1)
                await self.edge
                self._set(f"mem{n}_dump", 0)
                await self.edge
                offset = address - first * self.beat_bytes
                data = (self.directory / f"mem{n}_dump.bin").read_bytes()[offset : offset + size]
                (self.directory / f"job{number}.{n}.{layer}").write_bytes(data)


@cocotb.test()
async def runs_every_job(dut: Any) -> None:
    """Load, run and dump each job; its outcome is judged outside."""
    given = parameters()
    directory = Path(given["directory"])
    dut.rst.value = 1
    Clock(dut.clk, CLOCK_NS, unit="ns").start()
    machine = _Machine(dut, directory, given["chiplets"], given["beat_bytes"])
    for number, description in enumerate(json.loads((directory / "jobs.json").read_text())):
        settings = RingSettings(**description["settings"])
        settings.late.update({int(n): cycles for n, cycles in settings.late.items()})
        chiplets = len(description["dump"])
        await machine.configure(settings, chiplets)
        await machine.load(number, chiplets)
        outcome = await machine.run(settings, chiplets)
        if outcome is None:
            await machine.reset()
            await machine.load(number, chiplets)
            outcome = await machine.run(RingSettings(limit=settings.limit), chiplets)
        assert outcome is not None
        await machine.dump(number, description["dump"])
        (directory / f"job{number}.json").write_text(json.dumps(outcome))
