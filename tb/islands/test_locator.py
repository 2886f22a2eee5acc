"""Locator: partition, records, step-exact with one engine, the same sets with several, errors, resets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cocotb
import numpy as np
import pytest

from golden.contracts import LINE_BYTES, Error
from golden.datasets import load
from golden.graph import Graph
from golden.islands.locator import Limits, locate
from golden.islands.partition import check_records, partition
from golden.islands.record import Record, beats_of, records_of
from golden.islands.schedule import Schedule
from hw.islands.config import LocatorConfig
from tb.harness import BuildOptions, parameters
from tb.harness.bench import Bench, start
from tb.harness.codec import Codec
from tb.harness.expected import expect_cycles
from tb.islands.graphs import GRAPHS, cliques, full_record, late_hub, many_hubs
from tb.islands.island_machine import IslandMachine, Layout, lay_out, worker_blocks, worker_sources
from tb.models.memory import Memory
from tb.models.simulate import simulate_with_memory
from tb.models.wrap import MemoryModel

HALVING = Schedule(16, True)
SLOW = Schedule(12, False, 1)
#: A memory of the bench, in bytes.
SIZE = 1 << 17
#: Engines, searches and lanes with which cycles are compared.
COUNTED = ((1, 1, 2), (2, 1, 2), (4, 2, 2))
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
    dut.active.value = 0
    return Machine(dut, bench, memory, component.config.outputs)


def brief() -> bool:
    """Whether a run takes so many cycles, because states are exchanged, that some graphs are left to `ATOLL_FULL`."""
    return bool(parameters()["config"].get("window")) and "ATOLL_FULL" not in os.environ


def expect(run: str, cycles: int) -> None:
    """Compare the cycles of a run, all of which the configuration decides, in the sizes that are run every day."""
    config = IslandMachine(**parameters()["config"]).config
    if (config.engines, config.searches, config.lanes) not in COUNTED:
        return
    where = " paged" if config.paged else " external" if config.external else ""
    expect_cycles(f"islands.locator {config.engines}x{config.searches}x{config.lanes} {run}{where}", cycles)


def limits_of(c_max: int = 64, hubs: int = 0, h_max: int = 64) -> Limits:
    hubs = hubs or parameters()["config"].get("hubs", 64)
    return Limits(c_max, hubs, h_max, line_words=parameters()["config"]["data_width"] // 32)


@cocotb.test()
@cocotb.parametrize(schedule=[HALVING, SLOW], c_max=[64, 5])
async def every_graph_is_parted_as_by_connected_components(dut: Any, schedule: Schedule, c_max: int) -> None:
    if brief() and schedule.halving is (c_max == 5):
        return
    machine = await begin(dut)
    config, cycles = IslandMachine(**parameters()["config"]).config, 0
    for name in GRAPHS:
        graph, limits = load(name), limits_of(c_max)
        streams = await machine.locate(graph, schedule, limits)
        check_records(graph, schedule, limits, [record for records in streams for record in records])
        golden = locate(graph, schedule, limits)
        counters = machine.counters()
        cycles += counters["load_cycles"] + counters["locate_cycles"]
        assert counters["rounds"] == golden.rounds, name
        if config.workers == 1:
            assert [beats_of(record) for record in streams[0]] == [beats_of(record) for record in golden.records], name
            assert counters["edges_read"] == golden.edges_read, name
            assert counters["searches"] == golden.searches, name
            assert counters["given_up"] == golden.given_up, name
            assert counters["retreats"] == 0
    expect(f"{'halving' if schedule.halving else 'slow'} c_max={c_max}", cycles)


@cocotb.test()
async def any_number_of_engines_finds_the_same(dut: Any) -> None:
    """Engines that rest change neither records nor, by much, the edges read; more engines need fewer cycles."""
    machine = await begin(dut)
    machine.memory.stall(0.3)
    machine.memory.out_of_order(True)
    config, limits = IslandMachine(**parameters()["config"]).config, limits_of(20)
    # Those with work for several engines; the others only have to be right.
    worthy = (GRAPHS[0], GRAPHS[6], *(() if brief() else (GRAPHS[7],)))
    graphs = {name: load(name) for name in (GRAPHS if "ATOLL_FULL" in os.environ else worthy)}
    goldens = {name: locate(graph, SLOW, limits) for name, graph in graphs.items()}
    before = None
    for active in (n for n in (1, 2, 4, 8, 16) if n <= config.engines):
        dut.active.value = active
        read = cycles = 0
        for name, graph in graphs.items():
            records = await machine.parted(graph, SLOW, limits)
            assert {record.key for record in records} == {record.key for record in goldens[name].records}
            if name in worthy:
                counters = machine.counters()
                read, cycles = read + counters["edges_read"], cycles + counters["locate_cycles"]
        assert read <= 1.1 * sum(goldens[name].edges_read for name in worthy)
        # What these small graphs have for many engines to do is soon spread out; a memory that stalls decides more.
        most = 0.9 if active <= 4 else 1.1
        assert before is None or config.external or cycles < most * before, f"{active} engines: {cycles} cycles"
        before = cycles


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.6])
async def stalls_change_nothing(dut: Any, pace: float) -> None:
    machine = await begin(dut, idle=pace, stall=pace)
    machine.memory.stall(0.4)
    machine.memory.out_of_order(True)
    machine.memory.latency(30)
    for name in ("karate", *(() if brief() else (GRAPHS[7],))):
        graph, limits = load(name), limits_of(6)
        await machine.parted(graph, SLOW, limits)


@cocotb.test()
async def a_changed_graph_is_found_anew(dut: Any) -> None:
    """Edges come and go between runs (I10); then the first graph again gives the first result again."""
    machine = await begin(dut, stall=0.0 if brief() else 0.2)
    graph, limits = load(GRAPHS[7]), limits_of(8)
    first = await machine.locate(graph, HALVING, limits)
    cycles = machine.counters()
    for _ in range(1 if brief() else 3):
        keep = np.array([machine.bench.random.random() > 0.1 for _ in range(graph.edge_count)])
        new = [[machine.bench.random.randrange(graph.nodes) for _ in range(20)] for _ in range(2)]
        source, target = (np.concatenate([ends[keep], fresh]) for ends, fresh in zip(
            (graph.edges, graph.destinations), new, strict=True))  # fmt: skip
        changed = Graph.from_edges("changed", graph.nodes, source, target, symmetrise=True)
        await machine.parted(changed, HALVING, limits)
    machine.bench.pace(stall=0.0)
    again = await machine.locate(graph, HALVING, limits)
    assert {record.key for records in first for record in records} == {r.key for records in again for r in records}
    assert machine.counters()["rounds"] == cycles["rounds"]


@cocotb.test()
async def reset_in_the_middle_is_followed_by_the_same_result(dut: Any) -> None:
    machine = await begin(dut)
    graph, limits = load("karate"), limits_of()
    layout = lay_out(graph)
    await machine.memory.load(layout.image)
    golden = locate(graph, HALVING, limits)
    for wait in (20, 300, 560, 640, 700, 760):
        machine.forget()
        machine.bench.drive("command", [layout.command(HALVING, limits)])
        await machine.bench.cycles(wait)
        await machine.bench.reset()
        machine.forget()
    streams = await machine.run(layout, HALVING, limits)
    assert {record.key for records in streams for record in records} == {record.key for record in golden.records}


@cocotb.test()
async def many_hubs_come_in_parts_or_are_too_many(dut: Any) -> None:
    machine = await begin(dut)
    hubs, schedule = parameters()["config"].get("hubs", 64), Schedule(7, False, 7)
    nodes = 28 if hubs >= 140 else 14
    graph, touched = many_hubs(nodes), 5 * nodes
    for h_max in (64, 128):
        limits = limits_of(64, hubs, h_max)
        records = await machine.parted(graph, schedule, limits)
        parts = [record.part for record in records if record.nodes.size == nodes]
        assert parts == (list(range(-(-touched // h_max))) if hubs >= touched else [])


@cocotb.test()
async def records_use_all_the_room_there_is(dut: Any) -> None:
    """Communities of as many nodes as fit, with hubs in every column, and numbers of hubs that are powers of two."""
    machine = await begin(dut)
    schedule, limits = Schedule(8, False, 8), limits_of(64)
    for hubs in (64, 32, 16):
        graph = full_record(64, hubs)
        records = await machine.parted(graph, schedule, limits)
        assert [(r.nodes.size, r.hubs.size) for r in records if not r.hub_edges] == [(64, hubs)]
        if not brief():
            expect(f"{hubs} hubs", machine.counters()["locate_cycles"])


@cocotb.test()
async def words_are_visited_when_they_have_a_candidate(dut: Any) -> None:
    """Hubs everywhere, in every other round; looking too often takes more cycles, too seldom finds them late."""
    if brief():
        return
    machine = await begin(dut)
    limits, cycles = limits_of(), 0
    for sizes in ((3, 13, 5, 11, 7, 9) * 4 + (3,) * 15, (9, 3, 3, 7, 13, 3, 11, 5) * 4 + (13, 3, 5, 11)):
        graph = cliques(sizes)
        await machine.parted(graph, SLOW, limits)
        cycles += machine.counters()["locate_cycles"]
    expect("cliques", cycles)


@cocotb.test()
async def commands_wait_for_one_another(dut: Any) -> None:
    machine = await begin(dut)
    graph, limits = load("karate"), limits_of()
    layout = lay_out(graph)
    await machine.memory.load(layout.image)
    for c_max in (64, 3):
        machine.bench.drive("command", [layout.command(HALVING, limits, c_max=c_max)])
    await machine.bench.until(lambda: len(machine.completions) == 2, LIMIT)
    ends = [beat for beats in machine.beats for beat in beats if beat["last"] and beat["data"] == 1 << 58]
    assert len(ends) == 2 * machine.outputs
    assert [completion["code"] for completion in machine.completions] == [Error.NONE] * 2


@cocotb.test()
async def late_rounds_are_told_apart(dut: Any) -> None:
    """Hundreds of rounds without a hub; then one whose searches are all given up, and the last with only hubs."""
    if brief():
        return
    machine = await begin(dut)
    graph, schedule, limits = late_hub(), Schedule(900, False, 1), limits_of(5)
    golden = locate(graph, schedule, limits)
    streams = await machine.locate(graph, schedule, limits)
    assert {r.key for records in streams for r in records} == {record.key for record in golden.records}
    counters = machine.counters()
    assert counters["rounds"] == golden.rounds == 899
    assert counters["edges_read"] <= 1.1 * golden.edges_read
    expect("late rounds", counters["locate_cycles"])


@cocotb.test()
@cocotb.parametrize(schedule=[Schedule(0xC5A5_A5A5, True), Schedule(0x0065_A5A5, False, 0xA5A5)])
async def thresholds_have_all_their_bits(dut: Any, schedule: Schedule) -> None:
    machine = await begin(dut)
    graph, limits = load("karate"), limits_of()
    streams = await machine.locate(graph, schedule, limits)
    golden = locate(graph, schedule, limits)
    assert {r.key for records in streams for r in records} == {record.key for record in golden.records}
    assert machine.counters()["rounds"] == golden.rounds


@cocotb.test()
async def a_graph_without_vertices_has_no_records(dut: Any) -> None:
    machine = await begin(dut)
    graph, limits = load("karate"), limits_of()
    layout = lay_out(graph, offsets=[0])
    await machine.memory.load(layout.image)
    streams = await machine.run(layout, HALVING, limits, vertices=0, edge_count=0)
    assert machine.completions == [{"code": Error.NONE, "info": 0}]
    assert not any(streams)
    assert machine.counters()["rounds"] == 0
    await machine.locate(graph, HALVING, limits)


@cocotb.test()
async def a_graph_may_lie_anywhere(dut: Any) -> None:
    machine = await begin(dut)
    graph, limits = load("karate"), limits_of()
    for first_line in (682, 1365, 1800):
        layout = lay_out(graph, first_line=first_line)
        await machine.memory.load(layout.image)
        streams = await machine.run(layout, HALVING, limits)
        check_records(graph, HALVING, limits, [record for records in streams for record in records])


@cocotb.test()
async def vertices_of_other_chiplets_are_hubs(dut: Any) -> None:
    """Of a graph whose upper vertices are here, rows name lower ones too; those are never searched."""
    machine = await begin(dut)
    for name in ("karate", GRAPHS[6], GRAPHS[7]):
        graph, limits = load(name), limits_of(8)
        first = graph.nodes // 3
        here = np.arange(first, graph.nodes)
        part = graph.adjacency[here][:, here].tocoo()
        local = Graph.from_edges("part", here.size, part.col, part.row)
        offsets = graph.offsets[first:] - graph.offsets[first]
        rows = Graph.from_edges("rows", graph.nodes, graph.edges, graph.destinations)
        edges = graph.edges[graph.offsets[first] :]
        layout = lay_out(rows, degrees=graph.degrees[first:], offsets=offsets, edges=edges)
        await machine.memory.load(layout.image)
        streams = await machine.run(
            layout, HALVING, limits, first_vertex=first, vertices=here.size, edge_count=edges.size
        )
        assert machine.completions[0]["code"] == Error.NONE
        hubs, communities = partition(local, HALVING, limits, graph.degrees[first:])
        records = [record for records in streams for record in records]
        whole = [record for record in records if record.part == 0]
        assert {int(r.nodes[0]) - first: r.round_number for r in whole if r.hub_edges} == hubs
        found = {(frozenset((r.nodes - first).tolist()), r.round_number) for r in whole if not r.hub_edges}
        assert found == communities
        remote = sum(int((record.bitmap[:, record.nodes.size :] & (record.hubs < first)).sum()) for record in records)
        assert remote == int((edges < first).sum())


@cocotb.test()
async def bad_operands_are_refused(dut: Any) -> None:
    machine = await begin(dut)
    graph, limits, component = load("karate"), limits_of(), IslandMachine(**parameters()["config"])
    layout, config = lay_out(graph), component.config
    await machine.memory.load(layout.image)
    for field, value, info in (
        ("c_max", 0, 0),
        ("c_max", config.c_max + 1, config.c_max + 1),
        ("h_max", 0, 0),
        ("h_max", 65, 65),
        ("rounds", 0, 0),
        ("rounds", 1024, 1024),
        ("tiles", 0, 0),
        ("vertices", config.nodes + 1, config.nodes + 1),
        ("first_vertex", config.nodes, config.nodes + graph.nodes),
        ("edge_count", config.edges, config.edges),
        ("edge_count", 0x5A5A_A5A5, 0x5A5A_A5A5),
        ("edge_count", 0xA5A5_5A5A, 0xA5A5_5A5A),
        ("vertices", 0x3FFF_FFFF, 0x3FFF_FFFF),
    ):
        streams = await machine.run(layout, HALVING, limits, **{field: value})
        assert machine.completions == [{"code": Error.BAD_OPERAND, "info": info}], field
        assert not any(streams)
    await machine.locate(graph, HALVING, limits)


@cocotb.test()
async def data_that_contradicts_itself_is_refused(dut: Any) -> None:
    machine = await begin(dut)
    graph, limits = load("karate"), limits_of()
    degrees, offsets = graph.degrees.copy(), graph.offsets.copy()
    degrees[7] += 1
    offsets[9] = offsets[8] - 1
    short, late, far = graph.offsets.copy(), graph.offsets.copy(), graph.edges.copy()
    short[-1] -= 1
    late[0] = 1
    far[5] = 1 << 20
    for layout, code, info in (
        (lay_out(graph, degrees=degrees), Error.DEGREE, 7),
        (lay_out(graph, offsets=offsets), Error.OFFSET_ORDER, 8),
        (lay_out(graph, offsets=short), Error.EDGE_RANGE, graph.nodes - 1),
        (lay_out(graph, offsets=late), Error.OFFSET_ORDER, 0),
        (lay_out(graph, edges=far), Error.VID_RANGE, 1 << 20),
    ):
        await machine.memory.load(layout.image)
        streams = await machine.run(layout, HALVING, limits)
        assert machine.completions == [{"code": code, "info": info}]
        assert not any(streams)
    await machine.memory.load(lay_out(graph).image)
    machine.memory.read_errors(range(LINE_BYTES, LINE_BYTES + 1))
    await machine.run(lay_out(graph), HALVING, limits)
    assert machine.completions == [{"code": Error.MEMORY_READ, "info": 1}]
    machine.memory.read_errors(None)
    await machine.locate(graph, HALVING, limits)


@cocotb.test()
async def a_read_that_fails_while_searching_is_reported(dut: Any) -> None:
    """Where lines are read when they are needed, they can fail then; the run ends, and the next one is right."""
    if not parameters()["config"].get("external"):
        return
    machine = await begin(dut)
    graph, limits = load(GRAPHS[0 if brief() else 7]), limits_of()
    layout = lay_out(graph)
    await machine.memory.load(layout.image)
    machine.memory.latency(60)
    machine.forget()
    machine.bench.drive("command", [layout.command(HALVING, limits)])
    while machine.counters()["locate_cycles"] <= 40:
        await machine.bench.cycles(20)
    machine.memory.read_errors(range(layout.fields["edges"] * LINE_BYTES, len(layout.image)))
    await machine.bench.until(lambda: bool(machine.completions), LIMIT)
    assert machine.completions[0]["code"] == Error.MEMORY_READ
    machine.memory.read_errors(None)
    await machine.locate(graph, HALVING, limits)


@cocotb.test()
@cocotb.parametrize(side=["read", "write"])
async def pages_that_the_memory_refuses_end_the_run(dut: Any, side: str) -> None:
    """Leave nothing behind that keeps a search waiting; the next run is right."""
    if not parameters()["config"].get("window"):
        return
    machine = await begin(dut)
    graph, limits = load(GRAPHS[7]), limits_of()
    layout = lay_out(graph)
    await machine.memory.load(layout.image)
    pages = range(layout.fields["state"] * LINE_BYTES, len(layout.image))
    refuse = machine.memory.read_errors if side == "read" else machine.memory.write_errors
    for wait in (0, 500, 3000, 9000):
        machine.forget()
        machine.bench.drive("command", [layout.command(HALVING, limits)])
        await machine.bench.cycles(wait)
        refuse(pages)
        await machine.bench.until(lambda: bool(machine.completions), LIMIT)
        code = Error.MEMORY_READ if side == "read" else Error.MEMORY_WRITE
        assert machine.completions[0]["code"] == code
        assert pages.start <= machine.completions[0]["info"] * LINE_BYTES < pages.stop
        refuse(None)
    await machine.locate(graph, HALVING, limits)


@cocotb.test()
async def the_watchdog_counts_rounds_and_names_what_is_pending(dut: Any) -> None:
    machine = await begin(dut)
    graph, limits = load(GRAPHS[4]), limits_of(4)
    layout = lay_out(graph)
    await machine.memory.load(layout.image)
    hubs, communities = partition(graph, Schedule(4, False, 1), limits)
    for rounds in range(1, 6):
        pending = graph.nodes - sum(number < rounds for number in hubs.values())
        pending -= sum(len(nodes) for nodes, number in communities if number < rounds)
        await machine.run(layout, Schedule(4, False, 1), limits, rounds=rounds)
        wanted = {"code": Error.ROUNDS, "info": pending} if pending else {"code": Error.NONE, "info": 0}
        assert machine.completions == [wanted]
    # A threshold that never falls ends as well.
    await machine.run(layout, Schedule(4, False, 1), limits, step=0, rounds=9)
    assert machine.completions == [{"code": Error.ROUNDS, "info": graph.nodes}]


def machine(config: dict[str, Any]) -> IslandMachine:
    """Return the design with all of it in one source, as mutation and coverage want it."""
    return IslandMachine(apart=False, **config)


def launch(component: IslandMachine, given: Mapping[str, Any], directory: Path | None = None) -> None:
    """Run all tests of this bench on a design.

    Raises
    ------
    AssertionError
        If one fails.
    """
    with TemporaryDirectory() as scratch:
        config, name = component.config, f"island_machine_{component.config.engines}"
        simulate_with_memory(
            component,
            __name__,
            directory or Path(scratch),
            name=name,
            memories={"m_axi": MemoryModel(depth=SIZE * 8 // config.data_width)},
            parameters=given,
            sources=worker_sources(component, name),
            options=BuildOptions(blocks=worker_blocks(component)),
        )


def run(tmp_path: Path, **config: Any) -> None:
    launch(IslandMachine(**config), {"config": config}, tmp_path)


SMALL = {"nodes": 256, "edges": 2048, "banks": 4, "line_banks": 4, "tasks": 4, "tag_bits": 6, "lanes": 2}


def test_one_engine(tmp_path: Path) -> None:
    run(tmp_path, engines=1, searches=1, data_width=64, **SMALL)


def test_four_engines(tmp_path: Path) -> None:
    run(tmp_path, engines=4, searches=2, outputs=3, hubs=128, data_width=128, **SMALL)


@pytest.mark.skipif("ATOLL_FULL" not in os.environ, reason="ATOLL_FULL is not set")
def test_lines_are_read_when_they_are_needed(tmp_path: Path) -> None:
    run(tmp_path, engines=2, searches=2, data_width=64, external=True, **SMALL)


def test_lines_are_read_and_states_exchanged_when_they_are_needed(tmp_path: Path) -> None:
    """A quarter of the states on the chip, in four pages, finds the same."""
    sizes = {"engines": 3, "searches": 2, "outputs": 2} if "ATOLL_FULL" in os.environ else {"engines": 2, "searches": 1}
    run(tmp_path, **sizes, data_width=128, external=True, window=64, page=16, **SMALL)


@pytest.mark.skipif("ATOLL_FULL" not in os.environ, reason="ATOLL_FULL is not set")
@pytest.mark.parametrize(("engines", "searches", "lanes"), [(2, 1, 4), (3, 2, 8), (8, 2, 4), (16, 1, 1), (16, 2, 2)])
def test_more_engines(engines: int, searches: int, lanes: int, tmp_path: Path) -> None:
    run(tmp_path, engines=engines, searches=searches, outputs=2, data_width=256, **{**SMALL, "lanes": lanes})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"engines": 0}, r"engines must be in 1\.\.64, not 0"),
        ({"searches": 9}, r"searches must be in 1\.\.8, not 9"),
        ({"engines": 2, "searches": 1, "outputs": 3}, r"outputs must be in 1\.\.2, not 3"),
        ({"lanes": 3}, r"lanes must be a power of two in 1\.\.8, not 3"),
        ({"lanes": 4, "data_width": 64}, r"lanes must be a power of two in 1\.\.2, not 4"),
        ({"banks": 3}, "banks must be a power of two from 2, not 3"),
        ({"nodes": 100}, "nodes must be a power of two from 64, not 100"),
        ({"edges": 128}, "edges must be at least 256, not 128"),
        ({"c_max": 65}, r"c_max must be a multiple of 64 in 64\.\.4096, not 65"),
        ({"hubs": 0}, r"hubs must be a multiple of 64 in 64\.\.4096, not 0"),
        ({"data_width": 512}, "data_width must be 64, 128 or 256, not 512"),
        ({"window": 512, "page": 16}, r"page must be a power of two in 32\.\.1024, not 16"),
        ({"window": 256}, r"window must be a power of two in 512\.\.2048, not 256"),
        ({"window": 3000}, r"window must be a power of two in 512\.\.2048, not 3000"),
        (
            {"window": 1024, "data_width": 64, "edges": 1 << 30, "nodes": 1 << 26},
            "data_width must be at least the 128 bits of a state, not 64",
        ),
        ({"window": 1024, "banks": 2}, "banks must be at least 4, the states of a beat, not 2"),
        ({"tag_bits": 2}, r"tag_bits must be in 3\.\.16, not 2"),
        ({"tag_bits": 4}, "tag_bits must leave room for 10 records, not 4"),
        ({"tasks": 0}, "tasks must be at least 1, not 0"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LocatorConfig(**parameters)
