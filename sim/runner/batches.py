"""Mini-batches as a job of a simulated machine: between sampling and layers the host makes commands of the sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
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
    results
        int16 [roots, f_out].
    runs
        Of sampling, and of the layers; the second is missing if the first failed.
    """

    chiplet: int
    batch: dict[str, int]
    nodes: IntArray
    results: Int16Array
    runs: list[Run]

    @property
    def memory(self) -> dict[str, int]:
        """Counts of the memory over both runs."""
        return {name: sum(run.memory[name] for run in self.runs) for name in self.runs[0].memory}


@dataclass(frozen=True, eq=False)
class BatchJob:
    """Mini-batches that all chiplets sample and compute at the same time, none waiting for another.

    Each chiplet has its own batches one after another, and attributes stay in its RAM between them.

    Attributes
    ----------
    image
        Memory of every chiplet; each has an attribute core.
    shares
        For each chiplet the roots of its batches. All are numbered from 0 on, those of the first chiplet first.
    settings
        How the memories behave; ``limit`` holds for each run.
    """

    image: BatchImage
    shares: Sequence[Sequence[IntArray]]
    settings: Settings = field(default_factory=Settings)

    @property
    def size(self) -> int:
        """Bytes of each memory."""
        return len(self.image.data)

    async def run(self, machine: Machine) -> list[Ran]:
        """Work through the batches, inside the simulator; return what each batch left, by number.

        Raises
        ------
        AssertionError
            If a run does not complete within the limit.
        """
        await machine.configure(self.settings, len(machine.hosts))
        at_work, first = [], 0
        for host, batches in zip(machine.hosts, self.shares, strict=True):
            at_work.append(cocotb.start_soon(self._works_through(host, batches, first)))
            first += len(batches)
        return [out for one in at_work for out in await one]

    async def _works_through(self, host: Host, batches: Sequence[IntArray], first: int) -> list[Ran]:
        """Sample, read what was sampled, compute, read the results, batch by batch."""
        image, at, memory, ran = self.image, self.image.at, host.memory, []
        await memory.load(image.data)
        for number, roots in enumerate(batches):
            await memory.load(image.sample_front(roots, first + number, first=number == 0))
            runs = [await host.run(limit=self.settings.limit)]
            batch = BATCH.from_bytes(await memory.dump(at.batch.address, LINE_BYTES))
            nodes = await memory.dump(at.nodes, 4 * max(1, batch["positions"]) if image.shown else 4)
            counts = Counter[str]()
            if runs[0].completion["error"] == Error.NONE:
                await memory.load(image.infer_front(roots, batch, first=number == 0))
                runs.append(await host.run(limit=self.settings.limit))
                reports = await memory.dump(at.reports.address, at.reports.bytes)
                for line in range(at.reports.rows):
                    counts.update(BATCH.from_bytes(reports[line * LINE_BYTES : (line + 1) * LINE_BYTES]))
            region = image.results
            data = await memory.dump(region.address, roots.size * region.row_bytes)
            rows = np.frombuffer(data, "<i2").reshape(-1, region.row_bytes // 2)
            ran.append(
                Ran(
                    chiplet=host.position,
                    batch={name: value or counts[name] for name, value in batch.items()},
                    nodes=np.frombuffer(nodes, "<u4").astype(np.int64),
                    results=rows[:, : region.row_elements].astype(np.int16),
                    runs=runs,
                )
            )
        return ran
