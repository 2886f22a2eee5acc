"""Mini-batches on a simulated machine: the driver's part inside the simulator, and the call from outside."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock

from contracts import BATCH, LINE_BYTES, Error
from golden.attributes.batch import BatchImage
from golden.graph import IntArray
from golden.model.layer import Int16Array
from hw.chiplet.config import GatherChipletConfig
from hw.community.config import CommunityChipletConfig
from hw.machine import Units
from hw.ring.formats import RingConfig
from sim.chiplet.host import Host, Phase
from sim.harness import CLOCK_NS, Result, parameters
from sim.harness.run import completed, default_seed, run
from sim.machine import build_machine
from sim.models.activity import activity_plusarg
from sim.models.memory import plusargs
from sim.ring.driver import Machine
from sim.ring.settings import RingSettings

__all__ = ["Ran", "run_batches"]

#: Cycles after which a run that does not complete is an error.
_LIMIT = 20_000_000


@dataclass(frozen=True, eq=False)
class Ran:
    """What a batch left.

    Attributes
    ----------
    chiplet
        Position of the chiplet that had it.
    batch
        Fields of its `Batch`.
    nodes
        int64 [positions], VIDs that were sampled.
    results
        int16 [roots, f_out].
    cycles
        Of sampling, and of the layers.
    phases
        Of every command.
    counters
        Bytes and beats of both runs.
    completions
        Of both runs; one if the first failed.
    """

    chiplet: int
    batch: dict[str, int]
    nodes: IntArray
    results: Int16Array
    cycles: tuple[int, ...]
    phases: list[Phase]
    counters: dict[str, int]
    completions: list[dict[str, int]]


def run_batches(
    config: GatherChipletConfig | CommunityChipletConfig,
    units: Units,
    image: BatchImage,
    shares: Sequence[Sequence[IntArray]],
    directory: Path,
    *,
    ring: RingConfig | None = None,
    hosted: bool = False,
    name: str = "batch_machine",
    latency: int = 100,
    stall: float = 0.0,
) -> tuple[list[Ran], Result]:
    """Sample and compute batches; each chiplet has its own one after another, and attributes stay in its RAM between.

    Parameters
    ----------
    config, units, ring
        The machine, as for `hw.machine.machine_of`; each chiplet has an attribute core.
    image
        Memory of every chiplet.
    shares
        For each chiplet the roots of its batches. All are numbered from 0 on, those of the first chiplet first.
    directory
        For files; it must exist.
    hosted
        As for `sim.machine.build_machine`.
    name
        Of the design.
    latency, stall
        Of the memory.

    Returns
    -------
    tuple
        What every batch left, by number, and the simulation's own figures.
    """
    directory = directory.resolve()
    beat_bytes = config.port[1] // 8
    (directory / "memory.image").write_bytes(image.data)
    # The driver inside makes the commands of the layers from what has been sampled.
    (directory / "image.pickle").write_bytes(pickle.dumps((image, shares)))
    made = build_machine(config, units, ring, name=name, size=len(image.data), hosted=hosted)
    given = {"beat_bytes": beat_bytes, "ring": ring and ring.chiplets, "latency": latency, "stall": stall}
    names = ["mem"] if ring is None else [f"mem{n}" for n in range(ring.chiplets)]
    result = run(
        made,
        __name__,
        parameters={**given, "directory": str(directory)},
        seed=default_seed(made.toplevel, __name__, json.dumps(given, sort_keys=True)),
        scratch=directory,
        plusargs=[
            *(argument for memory in names for argument in plusargs(directory, memory)),
            *(activity_plusarg(directory, n) for n in (range(ring.chiplets) if ring else [None])),
        ],
    )
    completed.append(result)
    if result.message:
        raise AssertionError(result.message)
    ran: list[Ran] = pickle.loads((directory / "ran.pickle").read_bytes())
    return ran, result


@cocotb.test()
async def runs_every_batch(dut: Any) -> None:
    """Let every chiplet work through its batches; the outcome is judged outside."""
    given = parameters()
    directory = Path(given["directory"])
    image, shares = pickle.loads((directory / "image.pickle").read_bytes())
    dut.rst.value = 1
    Clock(dut.clk, CLOCK_NS, unit="ns", impl="gpi").start()
    if given["ring"]:
        ring = Machine(dut, directory, given["ring"], given["beat_bytes"])
        hosts = ring.hosts
        await ring.configure(RingSettings(latency=given["latency"], stall=given["stall"]), given["ring"])
    else:
        hosts = [Host(dut, given["beat_bytes"], directory)]
        hosts[0].memory.latency(given["latency"])
        hosts[0].memory.stall(given["stall"])
        await hosts[0].reset()
    at_work, first = [], 0
    for host, batches in zip(hosts, shares, strict=True):
        at_work.append(cocotb.start_soon(_works_through(host, image, batches, first)))
        first += len(batches)
    ran = [out for one in at_work for out in await one]
    (directory / "ran.pickle").write_bytes(pickle.dumps(ran))


async def _works_through(host: Host, image: BatchImage, batches: Sequence[IntArray], first: int) -> list[Ran]:
    """Sample, read what was sampled, compute, read the results, batch by batch."""
    at, memory, ran = image.at, host.memory, []
    await memory.load(image.data)
    for number, roots in enumerate(batches):
        await memory.load(image.sample_front(roots, first + number, flush=number == 0))
        runs = [await host.run(limit=_LIMIT)]
        batch = BATCH.from_bytes(await memory.dump(at.tree.address, LINE_BYTES))
        nodes = await memory.dump(at.tree.address + (1 + 3 * at.span) * LINE_BYTES, 4 * max(1, batch["positions"]))
        if runs[0] is not None and runs[0].completion["error"] == Error.NONE:
            await memory.load(image.infer_front(roots, batch))
            runs.append(await host.run(limit=_LIMIT))
        region = image.results
        data = await memory.dump(region.address, roots.size * region.row_bytes)
        rows = np.frombuffer(data, "<i2").reshape(-1, region.row_bytes // 2)
        done = [run for run in runs if run is not None]
        ran.append(
            Ran(
                chiplet=host.position or 0,
                batch=batch,
                nodes=np.frombuffer(nodes, "<u4").astype(np.int64),
                results=rows[:, : region.row_elements].astype(np.int16),
                cycles=tuple(run.cycles for run in done),
                phases=[phase for run in done for phase in run.phases],
                counters={name: sum(run.counters[name] for run in done) for name in done[0].counters},
                completions=[run.completion for run in done],
            )
        )
    return ran
