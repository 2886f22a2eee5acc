"""What the benches of the locator have in common: schedules, limits, and a locator with its memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import cocotb

from contracts import Error
from golden.graph import Graph
from golden.locator.locator import Limits
from golden.locator.partition import check_records
from golden.locator.record import Record, beats_of, records_of
from golden.locator.schedule import Schedule
from hw.locator.config import LocatorConfig
from sim.harness import parameters
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec
from sim.harness.expected import expect_cycles
from sim.locator.locator_design import Layout, LocatorDesign, lay_out
from sim.models.memory import Memory

__all__ = ["HALVING", "LIMIT", "SIZE", "SLOW", "LocatorDriver", "begin", "brief", "expect", "limits_of"]

HALVING = Schedule(16, True)
SLOW = Schedule(12, False, 1)
#: A memory of the bench, in bytes.
SIZE = 1 << 17
#: Engines, searches and lanes with which cycles are compared, and where their states are.
COUNTED = {(1, 1, 2): "", (4, 2, 2): "", (2, 1, 2): " paged"}
#: Cycles within which a run of these graphs ends.
LIMIT = 200_000


class LocatorDriver:
    """A bench with a locator, its memory, and what it has emitted."""

    def __init__(self, dut: Any, bench: Bench, memory: Memory, config: LocatorConfig) -> None:
        self.dut, self.bench, self.memory, self.config = dut, bench, memory, config
        self.outputs = config.outputs
        self.beats: list[list[dict[str, int]]] = []
        self.completions: list[dict[str, int]] = []
        self.hubs: list[dict[str, int]] = []
        self.forget()

    def forget(self) -> None:
        """Expect the results of one run."""
        self.beats = [[] for _ in range(self.outputs)]
        self.completions, self.hubs = [], []
        for n, beats in enumerate(self.beats):
            self.bench.take(f"records__{n}", beats.append)
        self.bench.take("completion", self.completions.append)
        self.bench.take("hubs", self.hubs.append)

    async def run(self, layout: Layout, schedule: Schedule, limits: Limits, **changes: int) -> list[list[Record]]:
        """Run one command on a graph that is in memory; return the records of every stream."""
        self.forget()
        self.bench.drive("command", [layout.command(schedule, limits, **changes)])
        await self.bench.until(lambda: bool(self.completions), LIMIT)
        await self.bench.cycles(10)
        assert len(self.completions) == 1
        streams = [list(records_of(beat["data"] for beat in beats)) for beats in self.beats]
        for beats, records in zip(self.beats, streams, strict=True):
            ends = [number for number, beat in enumerate(beats) if beat["last"]]
            at = 0
            for record in records:
                at += len(beats_of(record))
                assert ends.pop(0) == at - 1, "a record's last beat is not marked"
            assert ends == [at], "the end of the stream is not marked"
        return streams

    async def locate(self, graph: Graph, schedule: Schedule, limits: Limits) -> list[list[Record]]:
        """Load a graph, run, and demand that there is no error."""
        layout = lay_out(graph)
        await self.memory.load(layout.image)
        streams = await self.run(layout, schedule, limits)
        assert self.completions[0]["code"] == Error.NONE, self.completions
        return streams

    async def parted(self, graph: Graph, schedule: Schedule, limits: Limits) -> list[Record]:
        """Locate, and demand that the records of all streams part the graph."""
        records = list(chain.from_iterable(await self.locate(graph, schedule, limits)))
        check_records(graph, schedule, limits, records)
        return records

    async def cycles(self, runs: Iterable[tuple[Graph, Schedule, Limits]]) -> int:
        """Part graph by graph, and return the cycles that locating took."""
        total = 0
        for run in runs:
            await self.parted(*run)
            total += self.counters()["locate_cycles"]
        return total

    def counters(self) -> dict[str, int]:
        """Counters of the last run."""
        component = LocatorDesign(**parameters()["config"])
        found: dict[str, int] = Codec(component.counters.shape()).unpack(int(self.dut.counters.value))
        return found


async def begin(dut: Any, **pace: Any) -> LocatorDriver:
    """Start with an empty memory and little latency."""
    component = LocatorDesign(**parameters()["config"])
    memory = Memory(dut, component.config.data_width // 8, Path(parameters()["directory"]))
    memory.latency(4)
    memory.seed(cocotb.RANDOM_SEED)
    bench = await start(dut, component, **pace)
    dut.active.value = 0
    return LocatorDriver(dut, bench, memory, component.config)


def brief() -> bool:
    """Whether a run takes so many cycles, because states are exchanged, that some graphs are left to `ATOLL_FULL`."""
    return bool(parameters()["config"].get("window")) and "ATOLL_FULL" not in os.environ


def expect(run: str, cycles: int) -> None:
    """Compare the cycles of a run, all of which the configuration decides, in the sizes that are run every day."""
    config = LocatorDesign(**parameters()["config"]).config
    where = " paged" if config.paged else " external" if config.external else ""
    if COUNTED.get((config.engines, config.searches, config.lanes)) != where:
        return
    expect_cycles(f"locator.locator {config.engines}x{config.searches}x{config.lanes} {run}{where}", cycles)


def limits_of(c_max: int = 64, hubs: int = 0, h_max: int = 64) -> Limits:
    """Return limits for the configuration under test; `hubs` 0: as many as it has."""
    hubs = hubs or parameters()["config"].get("hubs", 64)
    config = parameters()["config"]
    return Limits(c_max, hubs, h_max, line_words=config["data_width"] // 32, banks=config["banks"])
