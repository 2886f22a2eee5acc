"""Mini-batches as a job of a simulated machine: the run of a batch samples the next one, whose commands follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import cocotb
import numpy as np

from contracts import BATCH, LINE_BYTES, Error
from golden.attributes.batch import BatchImage
from golden.graph import IntArray
from golden.model.layer import Int16Array
from sim.runner.host import Host, Run
from sim.runner.jobs import Settings

if TYPE_CHECKING:
    from sim.runner.machine import Machine

__all__ = ["BatchJob", "Ran"]


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
    along
        int64 [positions], edges that they were sampled along, -1 for none; empty if edges have no attributes.
    results
        int16 [roots, f_out].
    alone
        Run that sampled this batch and did no more; None: it was sampled beside the layers of the one before.
    layers
        Run of its layers, and of sampling the next batch; None: it could not be sampled.
    """

    chiplet: int
    batch: dict[str, int]
    nodes: IntArray
    along: IntArray
    results: Int16Array
    alone: Run | None
    layers: Run | None

    @property
    def runs(self) -> list[Run]:
        """Runs of this batch, in order."""
        return [run for run in (self.alone, self.layers) if run]

    @property
    def memory(self) -> dict[str, int]:
        """Counts of the memory over the runs."""
        return {name: sum(run.memory[name] for run in self.runs) for name in self.runs[0].memory}


@dataclass(frozen=True, eq=False)
class BatchJob:
    """Mini-batches that all chiplets sample and compute at the same time, none waiting for another.

    Each chiplet has its own batches one after another, and attributes stay in its RAM between them. On a ring they wait
    for each other once, before the first batch, since each has a part of the graph.

    Attributes
    ----------
    images
        Memory of each chiplet in use; each has an attribute core.
    shares
        For each chiplet the roots of its batches. All are numbered from 0 on, those of the first chiplet first.
    settings
        How the memories behave; ``limit`` holds for each run.
    """

    images: Sequence[BatchImage]
    shares: Sequence[Sequence[IntArray]]
    settings: Settings = field(default_factory=Settings)

    @property
    def size(self) -> int:
        """Bytes of each memory."""
        return max(len(image.data) for image in self.images)

    async def run(self, machine: Machine) -> list[Ran]:
        """Work through the batches, inside the simulator; return what each batch left, by number.

        Raises
        ------
        AssertionError
            If a run does not complete within the limit.
        """
        await machine.configure(self.settings, len(self.images))
        at_work, first = [], 0
        for host, image, batches in zip(machine.hosts, self.images, self.shares, strict=False):
            at_work.append(cocotb.start_soon(self._works_through(host, image, batches, first)))
            first += len(batches)
        return [out for one in at_work for out in await one]

    async def _works_through(self, host: Host, image: BatchImage, batches: Sequence[IntArray], first: int) -> list[Ran]:
        """Compute batch by batch, each run with the sample of the next one; one that has none yet is sampled alone."""
        memory, ran, run = host.memory, list[Ran](), partial(host.run, self.settings.origin, limit=self.settings.limit)
        await memory.load(image.data)
        if image.divided and not batches:
            await memory.load(image.share_front())
            await run()
        sampled = computed = False
        for number, roots in enumerate(batches, start=first):
            alone = layers = None
            if not sampled:
                await memory.load(image.sample_front(number, roots, first=number == first))
                alone = await run()
                sampled = alone.completion["error"] == Error.NONE
            at = image.at(number)
            batch = BATCH.from_bytes(await memory.dump(at.batch.address, LINE_BYTES))
            words = image.ids * (max(1, batch["positions"]) if image.shown else 1)
            nodes, along = image.positions_of(await memory.dump(at.nodes, 4 * words))
            counts = Counter[str]()
            if sampled:
                following = batches[number + 1 - first] if number + 1 - first < len(batches) else None
                await memory.load(image.infer_front(number, batch, following, first=not computed))
                layers = await run()
                computed, sampled = True, layers.completion["error"] == Error.NONE
                reports = await memory.dump(image.reports.address, image.reports.bytes)
                for line in range(image.reports.rows):
                    counts.update(BATCH.from_bytes(reports[line * LINE_BYTES : (line + 1) * LINE_BYTES]))
            region = image.results
            data = await memory.dump(region.address, roots.size * region.row_bytes)
            rows = np.frombuffer(data, "<i2").reshape(-1, region.row_bytes // 2)
            ran.append(
                Ran(
                    chiplet=host.position,
                    batch={name: value or counts[name] for name, value in batch.items()},
                    nodes=nodes,
                    along=along,
                    results=rows[:, : region.row_elements].astype(np.int16),
                    alone=alone,
                    layers=layers,
                )
            )
        return ran
