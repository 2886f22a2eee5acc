"""Locator: partition, records, step-exact with one engine, the same sets with several, errors, resets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cocotb

from golden.contracts import Error
from golden.datasets import load
from golden.graph import Graph
from golden.islands.locator import Limits, locate
from golden.islands.partition import check_records
from golden.islands.record import Record, beats_of, records_of
from golden.islands.schedule import Schedule
from tb.harness import parameters
from tb.harness.bench import Bench, start
from tb.harness.codec import Codec
from tb.islands.island_machine import IslandMachine, Layout, lay_out
from tb.models.memory import Memory
from tb.models.simulate import simulate_with_memory
from tb.models.wrap import MemoryModel

#: Graphs of every kind the locator has to manage, by what a data set is named.
GRAPHS = (
    "karate",
    "synthetic:star,nodes=40",
    "synthetic:clique,nodes=12",
    "synthetic:path,nodes=50",
    "synthetic:grid,nodes=100",
    "synthetic:empty,nodes=9",
    "synthetic:power-law,nodes=200,degree=4",
    "synthetic:community,nodes=240,degree=5,classes=30,mixing=0.05",
    "synthetic:erdos,nodes=120,degree=2",
)
HALVING = Schedule(16, True)
SLOW = Schedule(12, False, 1)
#: A memory of the bench, in bytes.
SIZE = 1 << 17
#: Cycles within which a run of these graphs ends.
LIMIT = 200_000


class Machine:
    """A bench with a locator, its memory, and what it has emitted."""

    def __init__(self, dut: Any, bench: Bench, memory: Memory, outputs: int) -> None:
        self.dut, self.bench, self.memory, self.outputs = dut, bench, memory, outputs
        self.beats: list[list[dict[str, int]]] = []
        self.completions: list[dict[str, int]] = []
        self.forget()

    def forget(self) -> None:
        """Expect the results of one run."""
        self.beats = [[] for _ in range(self.outputs)]
        self.completions = []
        for n, beats in enumerate(self.beats):
            self.bench.take(f"records__{n}", beats.append)
        self.bench.take("completion", self.completions.append)

    async def run(self, layout: Layout, schedule: Schedule, limits: Limits, **changes: int) -> list[list[Record]]:
        """Run one command on a graph that is in memory; return the records of every stream."""
        self.forget()
        self.bench.drive("command", [layout.command(schedule, limits, **changes)])
        await self.bench.until(lambda: bool(self.completions), LIMIT)
        await self.bench.cycles(10)
        assert len(self.completions) == 1
        for beats in self.beats:
            ends = [number for number, beat in enumerate(beats) if beat["last"]]
            at = 0
            for record in records_of(beat["data"] for beat in beats):
                at += len(beats_of(record))
                assert ends.pop(0) == at - 1, "a record's last beat is not marked"
            assert ends == [at], "the end of the stream is not marked"
        return [list(records_of(beat["data"] for beat in beats)) for beats in self.beats]

    async def locate(self, graph: Graph, schedule: Schedule, limits: Limits) -> list[list[Record]]:
        """Load a graph, run, and demand that there is no error."""
        layout = lay_out(graph)
        await self.memory.load(layout.image)
        streams = await self.run(layout, schedule, limits)
        assert self.completions[0]["code"] == Error.NONE, self.completions
        return streams

    def counters(self) -> dict[str, int]:
        """Counters of the last run."""
        component = IslandMachine(**parameters()["config"])
        found: dict[str, int] = Codec(component.counters.shape()).unpack(int(self.dut.counters.value))
        return found


async def begin(dut: Any, **pace: Any) -> Machine:
    """Start with an empty memory and little latency."""
    component = IslandMachine(**parameters()["config"])
    memory = Memory(dut, component.config.data_width // 8, Path(parameters()["directory"]))
    memory.latency(4)
    memory.seed(cocotb.RANDOM_SEED)
    bench = await start(dut, component, **pace)
    return Machine(dut, bench, memory, component.config.outputs)


def limits_of(c_max: int = 64, hubs: int = 64, h_max: int = 64) -> Limits:
    return Limits(c_max, hubs, h_max, line_words=parameters()["config"]["data_width"] // 32)


@cocotb.test()
@cocotb.parametrize(schedule=[HALVING, SLOW], c_max=[64, 5])
async def every_graph_is_parted_as_by_connected_components(dut: Any, schedule: Schedule, c_max: int) -> None:
    machine = await begin(dut)
    for name in GRAPHS:
        graph, limits = load(name), limits_of(c_max)
        streams = await machine.locate(graph, schedule, limits)
        check_records(graph, schedule, limits, [record for records in streams for record in records])
        golden = locate(graph, schedule, limits)
        counters = machine.counters()
        assert counters["rounds"] == golden.rounds, name
        if parameters()["config"]["engines"] == 1:
            assert [beats_of(record) for record in streams[0]] == [beats_of(record) for record in golden.records], name
            assert counters["edges_read"] == golden.edges_read, name
            assert counters["searches"] == golden.searches, name
            assert counters["given_up"] == golden.given_up, name
            assert counters["retreats"] == 0


def run(tmp_path: Path, testcase: Any = None, **config: int) -> None:
    simulate_with_memory(
        IslandMachine(**config),
        __name__,
        tmp_path,
        name=f"island_machine_{config['engines']}",
        memories={"m_axi": MemoryModel(depth=SIZE * 8 // config["data_width"])},
        parameters={"config": config},
        testcase=testcase,
    )


SMALL = {"nodes": 256, "edges": 2048, "banks": 4, "line_banks": 4, "tasks": 4, "tag_bits": 6}


def test_one_engine(tmp_path: Path) -> None:
    run(tmp_path, engines=1, data_width=64, **SMALL)


def test_four_engines(tmp_path: Path) -> None:
    run(tmp_path, engines=4, data_width=128, outputs=2, **SMALL)
