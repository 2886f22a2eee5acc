"""Locator: partition, records, step-exact with one engine, the same sets with several."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from itertools import chain, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cocotb
import numpy as np
import pytest

from contracts import Error
from golden.datasets import load
from golden.graph import Graph
from golden.locator.locator import locate
from golden.locator.partition import check_records, partition
from golden.locator.record import beats_of
from golden.locator.schedule import Schedule, falling
from hw.locator.config import LocatorConfig
from sim.harness import BuildOptions, parameters
from sim.harness.modules import module_sources
from sim.locator.locator_design import LocatorDesign, engine_blocks, lay_out
from sim.models.simulate import simulate_with_memory
from sim.models.wrap import MemoryModel
from tb.harness.marks import full
from tb.locator.graphs import (
    GRAPHS,
    bound_stars,
    bursts,
    cliques,
    congruent,
    full_record,
    late_hub,
    many_hubs,
    scattered,
    several,
    shuffled,
    stars,
    tangled,
)
from tb.locator.locator_driver import HALVING, LIMIT, SIZE, SLOW, begin, brief, expect, limits_of
from tb.locator.locator_error_tests import *  # noqa: F403  # cocotb looks for tests in this module


@cocotb.test()
@cocotb.parametrize(kind=["halving", "slow", "falling"], c_max=[64, 5])
async def every_graph_is_parted_as_by_connected_components(dut: Any, kind: str, c_max: int) -> None:
    if brief() and c_max != {"halving": 64, "slow": 5, "falling": 64}[kind]:
        return
    machine = await begin(dut)
    config, cycles = machine.config, 0
    for name in GRAPHS:
        graph, limits = load(name), limits_of(c_max)
        schedule = {"halving": HALVING, "slow": SLOW}.get(kind) or falling(graph)
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
        # No search is given up that has not begun, and none retreats before it has read an edge.
        assert counters["given_up"] <= counters["searches"], name
        assert counters["retreats"] <= counters["edges_read"], name
    expect(f"{kind} c_max={c_max}", cycles)


@cocotb.test()
async def any_number_of_engines_finds_the_same(dut: Any) -> None:
    """Engines that rest change neither records nor, by much, the edges read; more engines need fewer cycles."""
    machine = await begin(dut)
    machine.memory.stall(0.3)
    machine.memory.out_of_order(True)
    config, limits = machine.config, limits_of(20)
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
        # What these small graphs have to do is soon spread out; then more searches meet, and some have begun in vain.
        # Nor can more lanes be served than there are banks.
        most = 1.0 if active <= 4 and active * config.lanes <= 2 * config.banks else 1.25
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
async def many_hubs_come_in_parts_or_are_too_many(dut: Any) -> None:
    machine = await begin(dut)
    hubs, schedule = parameters()["config"].get("hubs", 64), Schedule(7, False, 7)
    for nodes in (14,) if brief() else (14, 28):
        graph, touched = many_hubs(nodes), 5 * nodes
        for h_max in (64, 128):
            limits = limits_of(64, hubs, h_max)
            records = await machine.parted(graph, schedule, limits)
            parts = [record.part for record in records if record.nodes.size == nodes]
            assert parts == (list(range(-(-touched // h_max))) if hubs >= touched else [])
    # More searches than one meet them.
    sizes = machine.config
    for nodes in (14, 28):
        one, each = many_hubs(nodes), -(-5 * nodes // 64) if hubs >= 5 * nodes else 0
        count = min((sizes.edges - 1) // one.edge_count, sizes.nodes // one.nodes)
        if count > 1:
            # In their order one after the other, in another order side by side.
            ordered = several(one, count)
            for graph in (ordered, *(() if brief() else (shuffled(ordered, seed) for seed in range(3)))):
                records = await machine.parted(graph, schedule, limits_of(64, hubs))
                assert sum(record.nodes.size == nodes for record in records) == count * each


@cocotb.test()
async def records_use_all_the_room_there_is(dut: Any) -> None:
    """Communities of as many nodes as fit, with hubs in every column, and numbers of hubs that are powers of two."""
    machine = await begin(dut)
    schedule, limits = Schedule(8, False, 8), limits_of(64)
    for hubs in sorted({limits.hubs, 64, 32, 16}):
        graph = full_record(64, hubs)
        records = await machine.parted(graph, schedule, limits)
        parts = [(64, 64)] * (hubs // 64) or [(64, hubs)]
        assert [(r.nodes.size, r.hubs.size) for r in records if not r.hub_edges] == parts
        if not brief():
            expect(f"{hubs} hubs", machine.counters()["locate_cycles"])


@cocotb.test()
async def words_are_visited_when_they_have_a_candidate(dut: Any) -> None:
    """Hubs everywhere, in every other round; looking too often takes more cycles, too seldom finds them late."""
    if brief():
        return
    machine = await begin(dut)
    kinds = ((3, 13, 5, 11, 7, 9) * 4 + (3,) * 15, (9, 3, 3, 7, 13, 3, 11, 5) * 4 + (13, 3, 5, 11))
    expect("cliques", await machine.cycles((cliques(sizes), SLOW, limits_of()) for sizes in kinds))


@cocotb.test()
async def vertices_may_meet_in_the_column_table(dut: Any) -> None:
    """Nodes and hubs of a community have the same place, and take the ones behind it."""
    machine = await begin(dut)
    config = machine.config
    if config.nodes == 1 << config.table_bits:
        return  # Every vertex has a place of its own.
    for fours in (40,) if brief() else (40, 17):
        records = await machine.parted(congruent(1 << config.table_bits, fours), Schedule(30, False, 10), limits_of())
        assert sum(record.nodes.size == 4 for record in records) == fours
    if not brief():
        expect("congruent", machine.counters()["locate_cycles"])


@cocotb.test()
async def vertices_lie_anywhere_in_their_range(dut: Any) -> None:
    """In the largest graph there is room for, every word of the scan has candidates and every bit of a VID is used."""
    if brief():
        return
    machine = await begin(dut)
    runs = enumerate((Schedule(8), Schedule(4, False, 1)))
    expect(
        "scattered",
        await machine.cycles((scattered(machine.config.nodes, seed), plan, limits_of(9)) for seed, plan in runs),
    )


@cocotb.test()
async def searches_meet_and_are_given_up(dut: Any) -> None:
    """Components of any size around the largest that is searched: some are found at once, some in a later round."""
    machine = await begin(dut)
    sizes, done = machine.config, Counter[str]()
    vertices = min(sizes.nodes, sizes.edges // 4)
    kinds = [(degree, c_max, step) for degree in (1.6, 2.2, 2.8) for c_max in (7, 20, 64) for step in (1, 3)]
    for seed, (degree, c_max, step) in enumerate(kinds[: 2 if brief() else None]):
        graph = tangled(vertices, degree, seed)
        await machine.parted(graph, Schedule(7, False, step), limits_of(c_max))
        done.update(machine.counters())
    if not brief():
        for name in ("locate_cycles", "edges_read", "searches", "given_up", "retreats"):
            expect(f"tangled, {name}", done[name])


@cocotb.test()
@cocotb.parametrize(graph=["windmill,nodes=61,degree=12", "caveman,nodes=80,degree=19"])
async def searches_of_one_clique_put_much_aside(dut: Any, graph: str) -> None:
    """Take rows before so much is put aside that none of their lines is requested."""
    machine = await begin(dut)
    await machine.parted(load(f"synthetic:{graph},features=1"), SLOW, limits_of(32))


@cocotb.test()
async def words_beyond_the_graph_are_not_visited(dut: Any) -> None:
    if brief():
        return
    machine = await begin(dut)
    most = machine.config.nodes

    def graph(vertices: int) -> Graph:
        ends = np.array([[0, 1, vertices - 1], [1, 2, vertices // 2]])
        return Graph.from_edges("few edges", vertices, *ends, symmetrise=True)

    sizes = range(most // 21, most, most // 9)
    expect("few edges", await machine.cycles((graph(size), Schedule(4), limits_of()) for size in sizes))


@cocotb.test()
async def nodes_may_have_many_neighbours(dut: Any) -> None:
    machine = await begin(dut)
    sizes = machine.config
    graph = bound_stars(sizes.nodes, sizes.edges - 1, 0)
    records = await machine.parted(graph, Schedule(70, False, 70), limits_of(64))
    assert sum(record.nodes.size == 64 for record in records) == graph.edge_count // 272


@cocotb.test()
async def few_words_have_a_candidate_late(dut: Any) -> None:
    """Few vertices, anywhere, have degrees above those that are told apart; they become hubs in two late rounds."""
    if brief():
        return
    machine = await begin(dut)
    graphs = [bound_stars(machine.config.nodes, machine.config.edges - 1, seed) for seed in range(2)]
    runs = product(graphs, (Schedule(150, False, 41), Schedule(130, False, 60)), [limits_of(4)])
    expect("few candidates", await machine.cycles(runs))


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
async def rounds_have_numbers_of_all_bits(dut: Any) -> None:
    """Hubs, communities and searches given up in many rounds, early and late; with one engine exactly as the model."""
    if brief():
        return
    machine = await begin(dut)
    dut.active.value = 1
    alone = machine.config.searches == 1
    graph, limits = stars((3, 5, 9, 12, 17, 33, 34)), limits_of(1)
    for threshold in (40, 150, 300, 600, 1020):
        schedule = Schedule(threshold, False, 1)
        golden = locate(graph, schedule, limits)
        records = await machine.parted(graph, schedule, limits)
        assert {record.key for record in records} == {record.key for record in golden.records}
        counters = machine.counters()
        for name in ("rounds", "edges_read", "searches", "given_up") if alone else ("rounds",):
            assert counters[name] == getattr(golden, name), f"{name}, threshold {threshold}"


@cocotb.test()
async def vertices_without_edges_are_hubs_among_others(dut: Any) -> None:
    """Every third vertex has an empty row; what lies behind it in the memory is another's."""
    machine = await begin(dut)
    for seed in range(1 if brief() else 3):
        whole = load(GRAPHS[6 + seed % 2])
        alone = np.arange(whole.nodes) % 3 == seed
        kept = ~alone[whole.edges] & ~alone[whole.destinations]
        graph = Graph.from_edges("sparse", whole.nodes, whole.edges[kept], whole.destinations[kept])
        for schedule in (HALVING, Schedule(3, False, 1)):
            limits = limits_of(9)
            records = await machine.parted(graph, schedule, limits)
            assert {r.key for r in records} == {r.key for r in locate(graph, schedule, limits).records}


def wide(seed: int, size: int, hubs: int, known: int = 12) -> Graph:
    """Return a community, each node of which knows so many of its hubs; hubs have more neighbours than it has."""
    source = np.random.default_rng(seed)
    nodes, among = np.arange(size), size + np.arange(hubs)
    ends = np.concatenate([source.permutation(hubs) for _ in range(known * size // hubs + 1)])[: known * size]
    # A ring of hubs, as far as it takes.
    steps = range(1, 1 + max(0, known + 5 - known * size // hubs) // 2)
    first = [np.repeat(nodes, known), nodes[1:], *(among for _ in steps)]
    second = [size + ends, nodes[:-1], *(np.roll(among, step) for step in steps)]
    names = source.permutation(size + hubs)
    starts, stops = np.concatenate(first), np.concatenate(second)
    return Graph.from_edges("wide", size + hubs, names[starts], names[stops], symmetrise=True)


@cocotb.test()
async def rows_may_have_several_words(dut: Any) -> None:
    """Nodes' and hubs' columns meet anywhere in a word, and most bits of a row are somebody's."""
    machine = await begin(dut)
    most = parameters()["config"].get("hubs", 64)
    graphs = [wide(seed, size, hubs) for seed, (size, hubs) in enumerate(((64, 45), (53, 33), (44, 27)))]
    # Another search has the second of two.
    graphs += [several(wide(3, 33, 18)), *([wide(4, 64, most, 7)] if most > 64 else [])]
    for graph in graphs[: 1 if brief() else None]:
        schedule, limits = Schedule(9 if graph is graphs[-1] and most > 64 else 14, False, 1), limits_of(64, most)
        streams = await machine.locate(graph, schedule, limits)
        records = [record for records in streams for record in records]
        check_records(graph, schedule, limits, records)
        assert max(record.nodes.size + record.hubs.size for record in records) > 50


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
async def the_first_threshold_may_follow_from_the_degrees(dut: Any) -> None:
    """Find the same as with the threshold that the golden model computes, for any share of vertices in a list."""
    machine = await begin(dut)
    limits = limits_of(8)
    source = np.random.default_rng(3)
    for name in (*GRAPHS[: 3 if brief() else None], *(f"synthetic:erdos,nodes={n},degree=3" for n in (10, 20, 39, 40))):
        graph = load(name)
        for given in (graph, shuffled(graph, int(source.integers(100)))):
            schedule = falling(given)
            await machine.parted(given, schedule, limits)
            assert machine.counters()["rounds"] == locate(given, schedule, limits).rounds, name


@cocotb.test()
async def degrees_above_the_last_list_are_told_apart(dut: Any) -> None:
    """Hubs of large degrees are found in the round in which they are, whatever else is in their list."""
    machine = await begin(dut)
    top, limits = machine.config.top_level, limits_of()
    graph = bursts((top + 45, top + 145, top))
    if machine.config.nodes < graph.nodes:
        return  # No vertex has a degree that is not told apart.
    for schedule in (
        Schedule(top + 95, False, 60),
        Schedule(top + 145, False, 1, top + 146),
        Schedule(top, False, 1),
        Schedule(top - 1, True),
        falling(graph),
    ):
        golden = locate(graph, schedule, limits)
        streams = await machine.locate(graph, schedule, limits)
        check_records(graph, schedule, limits, list(chain.from_iterable(streams)))
        if machine.config.workers == 1:
            assert [beats_of(record) for record in streams[0]] == [beats_of(record) for record in golden.records]


@cocotb.test()
async def hubs_are_named_with_their_degrees(dut: Any) -> None:
    """Those of the first round before the rounds, in the order in which they are found, and all in their rounds."""
    machine = await begin(dut)
    limits = limits_of()
    for name in ("karate", *GRAPHS[5:]):
        graph = load(name)
        for schedule in (HALVING, falling(graph)):
            await machine.locate(graph, schedule, limits)
            records = locate(graph, schedule, limits).records
            heads = [record for record in records if record.hub_edges and record.part == 0]
            first = [int(record.nodes[0]) for record in heads if record.round_number == 0]
            assert [hub["vid"] for hub in machine.hubs if hub["ahead"]] == first
            assert all(hub["ahead"] for hub in machine.hubs[: len(first)])
            assert [hub["vid"] for hub in machine.hubs if not hub["ahead"]] == [int(head.nodes[0]) for head in heads]
            assert all(hub["degree"] == graph.degrees[hub["vid"]] for hub in machine.hubs)


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
        layout = lay_out(rows, offsets=offsets, edges=edges)
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


def machine(config: dict[str, Any]) -> LocatorDesign:
    """Return the design with all of it in one source, as mutation and coverage want it."""
    return LocatorDesign(once=False, **config)


def launch(component: LocatorDesign, given: Mapping[str, Any], directory: Path | None = None) -> None:
    """Run all tests of this bench on a design.

    Raises
    ------
    AssertionError
        If one fails.
    """
    with TemporaryDirectory() as scratch:
        config, name = component.config, f"locator_design_{component.config.engines}"
        simulate_with_memory(
            component,
            __name__,
            directory or Path(scratch),
            name=name,
            memories={"m_axi": MemoryModel(depth=SIZE * 8 // config.data_width)},
            parameters=given,
            sources=module_sources(component, name),
            options=BuildOptions(blocks=engine_blocks(component)),
        )


def run(tmp_path: Path, **config: Any) -> None:
    launch(LocatorDesign(**config), {"config": config}, tmp_path)


SMALL = {
    "nodes": 256,
    "edges": 2048,
    "banks": 4,
    "load_words": 2,
    "tasks": 4,
    "tag_bits": 6,
    "lanes": 2,
}


def test_one_engine(tmp_path: Path) -> None:
    run(tmp_path, engines=1, searches=1, data_width=64, **{**SMALL, "nodes": 1024})


def test_four_engines(tmp_path: Path) -> None:
    run(tmp_path, engines=4, searches=2, outputs=3, hubs=128, data_width=128, apart=True, **SMALL)


def test_as_many_searches_as_in_a_chiplet(tmp_path: Path) -> None:
    run(tmp_path, engines=4, searches=4, outputs=4, data_width=256, **{**SMALL, "lanes": 4, "tag_bits": 7})


@full
def test_lines_are_read_when_they_are_needed(tmp_path: Path) -> None:
    run(tmp_path, engines=2, searches=2, data_width=64, external=True, **SMALL)


def test_lines_are_read_and_states_exchanged_when_they_are_needed(tmp_path: Path) -> None:
    """A quarter of the states on the chip, in four pages, finds the same."""
    sizes = {"engines": 3, "searches": 2, "outputs": 2} if "ATOLL_FULL" in os.environ else {"engines": 2, "searches": 1}
    run(tmp_path, **sizes, data_width=128, external=True, window=64, page=16, **SMALL)


@full
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
        ({"load_words": 3}, r"load_words must be a power of two in 1\.\.8, not 3"),
        ({"load_words": 8, "data_width": 128}, r"load_words must be a power of two in 1\.\.4, not 8"),
        ({"load_words": 8, "banks": 4}, r"load_words must be a power of two in 1\.\.4, not 8"),
        ({"nodes": 100}, "nodes must be a power of two from 32, not 100"),
        ({"edges": 8}, "edges must be a power of two from 16, not 8"),
        ({"c_max": 65}, r"c_max must be a multiple of 32 in 32\.\.4096, not 65"),
        ({"hubs": 0}, r"hubs must be a multiple of 32 in 32\.\.4096, not 0"),
        ({"data_width": 512}, "data_width must be 64, 128 or 256, not 512"),
        ({"window": 512, "page": 8}, r"page must be a power of two in 16\.\.1024, not 8"),
        ({"window": 256}, r"window must be a power of two in 512\.\.2048, not 256"),
        ({"window": 3000}, r"window must be a power of two in 512\.\.2048, not 3000"),
        (
            {"window": 1024, "data_width": 64, "edges": 1 << 30, "nodes": 1 << 26},
            "data_width must be at least the 128 bits of a state, not 64",
        ),
        ({"window": 1024, "banks": 2}, "banks must be at least 4, the states of a beat, not 2"),
        ({"tag_bits": 2}, r"tag_bits must be in 3\.\.16, not 2"),
        ({"tag_bits": 4}, "tag_bits must leave room for 18 records, not 4"),
        ({"tasks": 0}, "tasks must be at least 1, not 0"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LocatorConfig(**parameters)
