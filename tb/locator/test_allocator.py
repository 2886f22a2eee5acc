"""Allocator: the same decisions as the golden model, bounded differences, better than taking turns."""

from __future__ import annotations

import gc
import os
from typing import Any

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.errors import InputError
from golden.datasets import load
from golden.locator.allocator import Allocator as Golden
from golden.locator.allocator import longest_first, lower_bound, work_of
from golden.locator.locator import locate
from golden.locator.schedule import Schedule
from hw.locator.allocator import Allocator
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start


def drive(bench: Bench, golden: Golden, tasks: list[tuple[int, int]]) -> None:
    """Send tasks and expect what the golden model decides."""
    begins = len(golden.allocation.assignments)
    for number, (rows, columns) in enumerate(tasks):
        bench.drive("i", [{"task": number, "rows": rows, "columns": columns}])
        golden.add(number, rows, columns)
    shares = golden.allocation.assignments[begins:]
    ends = [n + 1 == len(shares) or shares[n + 1].first == 0 for n in range(len(shares))]
    bench.expect(
        "o",
        [
            {"task": s.task, "pe": s.pe, "first": s.first, "rows": s.rows, "last": int(end)}
            for s, end in zip(shares, ends, strict=True)
        ],
    )


def tasks_of(bench: Bench, count: int) -> list[tuple[int, int]]:
    """Mostly small tasks, some very large."""
    source = bench.random
    return [(source.randrange(1, 64 if source.random() < 0.1 else 5), source.randrange(1, 99)) for _ in range(count)]


def configure(dut: Any, bench: Bench, hops: int, threshold: int, grain: int) -> Golden:
    dut.settings.value = bench_settings(hops, threshold, grain)
    return Golden(parameters()["pes"], hops, threshold, grain)


def loads_of(dut: Any) -> list[int]:
    return [int(getattr(dut, f"loads__{pe}").value) for pe in range(parameters()["pes"])]


def bench_settings(hops: int, threshold: int, grain: int) -> int:
    return grain << 34 | threshold << 2 | hops


@cocotb.test()
@cocotb.parametrize(hops=[0, 1, 2, 3], threshold=[0, 150, 5000], pace=[0.0, 0.5])
async def every_decision_is_that_of_the_model(dut: Any, hops: int, threshold: int, pace: float) -> None:
    bench = await start(dut, Allocator(**parameters()), idle=pace, stall=pace)
    golden = configure(dut, bench, hops, threshold, bench.random.choice([1, 3, 16]))
    pulses = {"smoothed": 0, "remapped": 0}

    async def watch() -> None:
        while True:
            await RisingEdge(dut.clk)
            for name in pulses:
                pulses[name] += int(getattr(dut, name).value)

    cocotb.start_soon(watch())
    drive(bench, golden, tasks_of(bench, 60))
    await bench.drain(20_000)
    assert pulses == {name: getattr(golden.allocation, name) for name in pulses}
    loads = loads_of(dut)
    assert loads == golden.allocation.loads


@cocotb.test()
async def what_has_been_done_is_taken_off(dut: Any) -> None:
    bench = await start(dut, Allocator(**parameters()))
    golden = configure(dut, bench, 2, 300, 4)
    for _ in range(20):
        drive(bench, golden, tasks_of(bench, 5))
        await bench.drain()
        pe = bench.random.randrange(golden.pes)
        work = golden.allocation.loads[pe] // 2
        bench.drive("retired", [{"pe": pe, "work": work}])
        golden.retire(pe, work)
        await bench.drain()
        await bench.cycles(2)
    # A share that waits to be taken stays as it was decided.
    bench.pace(stall=1.0)
    drive(bench, golden, [(2, 2)])
    await bench.cycles(6)
    bench.drive("retired", [{"pe": pe, "work": golden.allocation.loads[pe]} for pe in range(golden.pes)])
    await bench.cycles(10)
    bench.pace(stall=0.0)
    await bench.drain()
    await bench.reset()
    golden = configure(dut, bench, 1, 10, 2)
    drive(bench, golden, tasks_of(bench, 10))
    await bench.drain()


@cocotb.test()
@cocotb.parametrize(hops=[0, 1, 2, 3], turn=[0, 1, 2, 3])
async def loads_fill_all_their_bits(dut: Any, hops: int, turn: int) -> None:
    """Take tasks, thresholds and pieces of all sizes, and what has been done off again in parts."""
    bench = await start(dut, Allocator(**parameters()))
    source = bench.random
    threshold = source.randrange(1 << 32) >> (0, 2, 8, source.randrange(32))[turn]
    golden = configure(dut, bench, hops, threshold, source.randrange(1 << 12, 1 << 16))
    loads, given = golden.allocation.loads, 0
    while (work := source.randrange(1 << 30) >> source.randrange(24)) < (1 << 32) - given:
        rows = source.randrange(1 << 16) >> source.randrange(16) or 1
        drive(bench, golden, [(rows, min(work // rows, (1 << 16) - 1) or 1)])
        given = sum(loads)
        await bench.drain(50_000)
    assert loads_of(dut) == loads
    for share in (3, 2, 1):
        for pe, held in enumerate(list(loads)):
            done = held if share == 1 else source.randrange(held // share + 1)
            bench.drive("retired", [{"pe": pe, "work": done}])
            golden.retire(pe, done)
        await bench.drain()
        await bench.cycles(2)
        drive(bench, golden, tasks_of(bench, 5))
        await bench.drain()


@cocotb.test()
@cocotb.parametrize(height=[6, 14, 22, 32])
async def close_loads_are_told_apart_at_any_height(dut: Any, height: int) -> None:
    """All have nearly the same, of that many bits; then small tasks go where there is a little less."""
    bench = await start(dut, Allocator(**parameters()))
    source = bench.random
    for _ in range(12):
        golden = configure(dut, bench, 0, (1 << 32) - 1, 1)
        rows, columns = (source.randrange(1 << height // 2 - 1, 1 << height // 2) for _ in range(2))
        spread = 1 << source.randrange(1, 9)
        drive(bench, golden, [(rows, columns)] * golden.pes)
        drive(bench, golden, [(1, source.randrange(1, spread + 1)) for _ in range(golden.pes)])
        await bench.drain()
        golden.hops, golden.threshold, golden.grain = source.randrange(1, 4), source.randrange(2 * spread), 2
        dut.settings.value = bench_settings(golden.hops, golden.threshold, golden.grain)
        # Loads within reach pass the levels.
        await bench.cycles(8)
        drive(bench, golden, [(source.randrange(1, 5), source.randrange(1, spread + 1)) for _ in range(20)])
        await bench.drain()
        assert loads_of(dut) == golden.allocation.loads
        await bench.reset()


@cocotb.test()
async def a_threshold_is_exact(dut: Any) -> None:
    """Keep a task of just that much whole, split one of a position more."""
    bench = await start(dut, Allocator(**parameters()))
    source = bench.random
    for bits in range(1, 17):
        for _ in range(4):
            rows, columns = source.randrange(1 << bits - 1, 1 << bits), source.randrange(1 << bits - 1, 1 << bits)
            whole = source.randrange(2)
            golden = configure(dut, bench, source.randrange(4), rows * columns - 1 + whole, (rows + 1) // 2)
            await bench.cycles(8)
            drive(bench, golden, [(rows, columns)])
            assert golden.allocation.remapped == 1 - whole
            await bench.drain()
            await bench.reset()


@cocotb.test()
async def one_may_have_nearly_all_there_is(dut: Any) -> None:
    bench = await start(dut, Allocator(**parameters()))
    golden = configure(dut, bench, 0, (1 << 32) - 1, 1)
    for busiest in range(golden.pes):
        drive(bench, golden, [((1 << 16) - 1,) * 2 if pe == busiest else (1, 1) for pe in range(golden.pes)])
        await bench.drain()
        loads = loads_of(dut)
        assert loads == golden.allocation.loads
        bench.drive("retired", [{"pe": pe, "work": held} for pe, held in enumerate(loads)])
        for pe, held in enumerate(loads):
            golden.retire(pe, held)
        await bench.drain()


@cocotb.test()
async def what_is_done_while_a_share_is_given_counts_too(dut: Any) -> None:
    bench = await start(dut, Allocator(**parameters()), idle=0.3, stall=0.3)
    golden = configure(dut, bench, 0, 1 << 31, 1)
    tasks = [(bench.random.randrange(1, 9), bench.random.randrange(1, 9)) for _ in range(golden.pes)]
    drive(bench, golden, tasks)
    await bench.drain()
    # Nobody is chosen by load here, so that decisions do not depend on when work is taken off.
    for pe, work in enumerate(list(golden.allocation.loads)):
        for _ in range(work):
            bench.drive("retired", [{"pe": pe, "work": 1}])
            golden.retire(pe, 1)
    drive(bench, golden, [(3, 3)] * 2 * golden.pes)
    await bench.drain()
    await bench.cycles(2)
    assert loads_of(dut) == golden.allocation.loads


@cocotb.test()
async def records_and_pieces_take_six_cycles(dut: Any) -> None:
    bench = await start(dut, Allocator(**parameters()))
    golden = configure(dut, bench, 1, 1 << 30, 1)
    drive(bench, golden, [(3, 4)] * 10)
    assert await bench.drain() == 5 + 6 * 9
    golden = configure(dut, bench, 1, 0, 1)
    await bench.reset()
    drive(bench, golden, [(12, 4)])
    assert await bench.drain() == 1 + 6 * 12


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 50)), max_size=60),
    st.integers(1, 9),
    st.integers(0, 3),
    st.integers(0, 500),
    st.integers(1, 8),
)
@settings(max_examples=200, deadline=None)
def test_every_row_is_given_once_and_loads_differ_by_a_threshold_or_a_piece(
    tasks: list[tuple[int, int]], pes: int, hops: int, threshold: int, grain: int
) -> None:
    golden = Golden(pes, hops, threshold, grain)
    for number, (rows, columns) in enumerate(tasks):
        golden.add(number, rows, columns)
    found = golden.allocation
    rows_of: dict[int, list[int]] = {number: [] for number in range(len(tasks))}
    for share in found.assignments:
        rows_of[share.task] += range(share.first, share.first + share.rows)
    assert all(sorted(rows) == list(range(tasks[number][0])) for number, rows in rows_of.items())
    assert sum(found.loads) == sum(rows * columns for rows, columns in tasks)
    pieces = [min(grain, rows) * columns for rows, columns in tasks]
    assert max(found.loads) - min(found.loads) <= max(threshold, *pieces, 0)
    works = [rows * columns for rows, columns in tasks]
    assert max(longest_first(works, pes)) >= lower_bound(works, pes)


@pytest.mark.parametrize("name", ["cora", "synthetic:power-law,nodes=3000,degree=4"])
def test_the_busiest_of_eight_has_at_most_a_tenth_more_than_the_mean(name: str) -> None:
    if name == "cora":
        if "ATOLL_PLANETOID" not in os.environ:
            pytest.skip("ATOLL_PLANETOID is not set")
        name = f"planetoid:{os.environ['ATOLL_PLANETOID']}/cora"
    works = [work_of(record) for record in locate(load(name), Schedule(16, False, 1)).records]
    golden, turns = Golden(8, 2, 512, 8), Golden(8, 0, 1 << 30, 1)
    for number, (rows, columns) in enumerate(works):
        golden.add(number, rows, columns)
        turns.add(number, rows, columns)
    assert golden.allocation.imbalance <= 1.1 < turns.allocation.imbalance


# The fewest of which all within three hops are others, and no power of two.
@pytest.mark.parametrize("pes", [7])
def test_allocator(pes: int) -> None:
    simulate(Allocator(pes), __name__, parameters={"pes": pes})


def test_allocator_refuses() -> None:
    with pytest.raises(ValueError, match=r"pes must be in 2\.\.64, not 1"):
        Allocator(1)
    gc.collect()  # the half-made component, while warnings about it are let pass


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0, 1, 1, 1), "pes: is 0"),
        ((1, 4, 1, 1), r"hops: is 4; expected 0\.\.3"),
        ((1, 1, -1, 1), "threshold: is -1"),
        ((1, 1, 1, 0), "grain: is 0"),
    ],
)
def test_values_out_of_range_are_refused(values: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Golden(*values)
