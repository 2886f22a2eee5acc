"""Locator: commands and data that are wrong, memories that fail, and resets, each followed by a run that is right."""

from __future__ import annotations

from typing import Any

import cocotb

from contracts import LINE_BYTES, Error
from golden.datasets import load
from golden.locator.locator import locate
from golden.locator.partition import partition
from golden.locator.schedule import Schedule
from sim.harness import parameters
from sim.locator.locator_design import Layout, LocatorDesign, lay_out
from tb.locator.graphs import GRAPHS
from tb.locator.locator_driver import HALVING, LIMIT, begin, brief, limits_of


@cocotb.test()
async def reset_in_the_middle_is_followed_by_the_same_result(dut: Any) -> None:
    """Reset while it loads, searches and emits."""
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
async def bad_operands_are_refused(dut: Any) -> None:
    """Refuse every operand out of range with its value, and run again."""
    machine = await begin(dut)
    graph, limits, component = load("karate"), limits_of(), LocatorDesign(**parameters()["config"])
    layout, config = lay_out(graph), component.config
    await machine.memory.load(layout.image)
    for field, value, info in (
        ("c_max", 0, 0),
        ("c_max", config.c_max + 1, config.c_max + 1),
        ("h_max", 0, 0),
        ("h_max", 65, 65),
        ("rounds", 0, 0),
        ("rounds", 1024, 1024),
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
    """Refuse offsets and edges that cannot be, with where they are; and a read that fails."""
    machine = await begin(dut)
    graph, limits = load("karate"), limits_of()
    far = graph.edges.copy()
    far[5] = 1 << 20

    def changed(at: int, offset: int) -> Layout:
        offsets = graph.offsets.copy()
        offsets[at] = offset
        return lay_out(graph, offsets=offsets)

    # Offsets in every place of a group of those that are looked at together.
    falls = [(changed(at, graph.offsets[at - 1] - 1), Error.OFFSET_ORDER, at - 1) for at in range(8, 17)]
    jumps = [(changed(at, 1 << 14 + at), Error.EDGE_RANGE, at - 1) for at in range(1, 10)]
    for layout, code, info in (
        *falls,
        *jumps,
        (changed(graph.nodes, graph.edge_count - 1), Error.EDGE_RANGE, graph.nodes - 1),
        (changed(graph.nodes, graph.edge_count + 1), Error.EDGE_RANGE, graph.nodes - 1),
        (changed(0, 1), Error.OFFSET_ORDER, 0),
        (changed(0, 1 << 31), Error.OFFSET_ORDER, 0),
        (lay_out(graph, edges=far), Error.VID_RANGE, 1 << 20),
    ):
        await machine.memory.load(layout.image)
        streams = await machine.run(layout, HALVING, limits)
        assert machine.completions == [{"code": code, "info": info}]
        assert not any(streams)
    for line in (1, 1365):
        layout = lay_out(graph, first_line=line - 1)
        await machine.memory.load(layout.image)
        machine.memory.read_errors(range(line * LINE_BYTES, line * LINE_BYTES + 1))
        await machine.run(layout, HALVING, limits)
        assert machine.completions == [{"code": Error.MEMORY_READ, "info": line}]
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
    """End after as many rounds as the command allows, with the number of vertices left."""
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
