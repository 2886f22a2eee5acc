"""Planner: tasks in the order of the golden plan, both ways of sharing, every limit, exact cycles, resets."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import cocotb
import pytest

from contracts.communities import K_VALUES
from golden.community.plan import Kind, Scheme, plan
from hw.community.formats import CommunityConfig
from hw.community.planner import Planner
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles
from tb.community.beside import Filled, settings_of
from tb.harness.marks import full

#: The narrowest, one whose rows are counted in two groups, and odd numbers of partners.
SIZES: tuple[dict[str, Any], ...] = (
    {"width": 8, "columns": 16, "partners": 4},
    {"width": 32, "columns": 64, "partners": 8},
)
MORE: tuple[dict[str, Any], ...] = (
    {"width": 8, "columns": 32, "partners": 1},
    {"width": 8, "columns": 16, "partners": 2},
    {"width": 16, "columns": 32, "partners": 5},
    {"width": 64, "columns": 128, "partners": 11},
)


def planner(**sizes: Any) -> Filled:
    """Return a planner whose columns the bench writes."""
    return Filled(Planner(CommunityConfig(**sizes)), "columns")


async def begin(dut: Any, **pace: Any) -> tuple[Bench, CommunityConfig]:
    bench = await start(dut, planner(**parameters()), **pace)
    return bench, CommunityConfig(**parameters())


def random_columns(rng: random.Random, rows: int) -> list[int]:
    """Return columns of any density: some empty, some alike, some in all rows."""
    whole, density = (1 << rows) - 1, rng.choice((0.05, 0.3, 0.6, 0.9))
    columns: list[int] = []
    for _ in range(rows):
        drawn = sum(1 << row for row in range(rows) if rng.random() < density)
        columns.append(rng.choice((drawn, drawn, drawn, drawn & rng.choice([*columns, whole]), 0, whole)))
    return columns


def single_row(rng: random.Random, rows: int) -> list[int]:
    """Return what a bitmap of one row gives: the node's column has all rows, those of hubs only that of the node."""
    own = rng.getrandbits(1) if rows > 1 else 1
    return [((1 << rows) - 2) | own, *[1] * (rows - 1)]


def some_records(rng: random.Random, config: CommunityConfig) -> Iterator[list[int]]:
    """Yield as many random records as there are places."""
    room = config.slots
    while room:
        rows = min(room, rng.choice((1, 2, rng.randint(1, config.width), config.width - 1, config.width)))
        room -= rows
        yield (single_row if rng.random() < 0.3 else random_columns)(rng, rows)


async def plans(
    bench: Bench, config: CommunityConfig, records: Sequence[Sequence[int]], scheme: Scheme, later: int = 0
) -> int:
    """Have records planned, which all find places; compare every task; return the cycles.

    Meanwhile `later` columns are written to places that are left.
    """
    rng, windows = bench.random, int(scheme.kind is Kind.WINDOW)
    # Pairs have no width.
    k = scheme.k - 1 if windows else rng.randrange(8)
    chosen = {"windows": windows, "k": k, "limit": scheme.room}
    bench.dut.settings.value = settings_of(config, rng, **chosen)
    place = rng.randrange(config.slots)
    words: list[dict[str, int]] = []
    wanted: list[Any] = []
    for record in records:
        rows = len(record)
        words.append({"base": place, "rows": rows, "nodes": rng.randint(1, rows), "single": rng.getrandbits(1)})
        for column in record:
            bench.drive("fill", [{"address": place, "data": column}])
            place = (place + 1) % config.slots
        for task in plan(record, scheme):
            operands = (task.left, task.right) if task.form else None
            wanted.append((task.index, task.rows, int(task.negative), int(task.form), operands))
        wanted.append(None)
    await bench.drain(quiet=0)
    came: list[Any] = []

    def take(task: dict[str, int]) -> None:
        if task["last"]:
            assert not task["rows"]
            assert not task["form"]
            came.append(None)
        else:
            operands = (task["left"], task["right"]) if task["form"] else None
            came.append((task["index"], task["rows"], task["negative"], task["form"], operands))
        assert came[-1] == wanted[len(came) - 1], f"task {len(came) - 1} is {came[-1]}, not {wanted[len(came) - 1]}"

    bench.take("o", take)
    bench.drive("i", words)
    room = config.slots - sum(map(len, records))
    for _ in range(later):
        word = {"address": (place + rng.randrange(room)) % config.slots, "data": rng.getrandbits(config.width)}
        bench.drive("fill", [word])
    cycles = await bench.until(lambda: len(came) == len(wanted), 50_000)
    # No more comes: the bench would find it missing in what is wanted.
    await bench.cycles(4)
    return cycles


def scheme(rng: random.Random, config: CommunityConfig, kind: Kind) -> Scheme:
    """Return a way of sharing with any limit, that of the memories most often."""
    limit = rng.choice((config.columns, config.columns, rng.randint(1, config.columns)))
    return Scheme(kind, rng.choice(K_VALUES), config.partners, limit)


@cocotb.test()
@cocotb.parametrize(kind=list(Kind), idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9])
async def tasks_are_those_of_the_plan(dut: Any, kind: Kind, idle: float, stall: float) -> None:
    bench, config = await begin(dut, idle=idle, stall=stall)
    for _ in range(6):
        records = list(some_records(bench.random, config))
        await plans(bench, config, records, scheme(bench.random, config, kind))


@cocotb.test()
@cocotb.parametrize(kind=list(Kind), stall=[0.0, 0.5])
async def corner_records_are_planned(dut: Any, kind: Kind, stall: float) -> None:
    """Empty, full, and such that sums of sums use up all columns; every limit around the number of rows."""
    bench, config = await begin(dut, stall=stall)
    width = config.width
    for rows in {1, 2, 3, config.partners, config.partners + 1, config.partners + 2, 8, width}:
        whole = (1 << rows) - 1
        corners = [
            [0] * rows,
            [whole] * rows,
            [*[0] * (rows - 1), whole],
            [whole, *[0] * (rows - 1)],
            [whole ^ 1 << n for n in range(rows)],
            [1 << n for n in range(rows)],
        ]
        for columns in corners:
            for limit in {rows, rows + 1, config.columns}:
                await plans(bench, config, [columns] * 2, Scheme(kind, 8, config.partners, limit))
        await plans(bench, config, [single_row(bench.random, rows)] * 2, Scheme(kind, 2, config.partners, rows))


@cocotb.test()
@cocotb.parametrize(kind=list(Kind), idle=[0.0, 0.5])
async def columns_of_later_records_have_the_right_of_way(dut: Any, kind: Kind, idle: float) -> None:
    bench, config = await begin(dut, idle=idle, stall=0.2)
    for _ in range(10):
        record = random_columns(bench.random, config.width)
        way = Scheme(kind, 8, config.partners, config.columns)
        await plans(bench, config, [record], way, later=bench.random.randrange(8 * config.width))


@cocotb.test()
@cocotb.parametrize(kind=list(Kind))
async def every_count_of_ones_is_right(dut: Any, kind: Kind) -> None:
    """Windows of eight in which each row has every pattern; pairs in which each partner has."""
    bench, config = await begin(dut)
    orders = [bench.random.sample(range(256), 256) for _ in range(8)]
    way = Scheme(kind, 8, config.partners, config.columns)
    records = []
    for patterns in zip(*orders, strict=True):
        turned = [sum((row >> column & 1) << n for n, row in enumerate(patterns)) for column in range(8)]
        records.append(turned if kind is Kind.WINDOW else [255, *patterns[1:]])
    at_once = config.slots // 8
    for first in range(0, 256, at_once):
        await plans(bench, config, records[first : first + at_once], way)


@cocotb.test()
@cocotb.parametrize(kind=list(Kind))
async def plans_take_their_cycles(dut: Any, kind: Kind) -> None:
    """Every cycle of plans whose tasks are taken at once: of single rows, of few columns, of any."""
    bench, config = await begin(dut)
    rng = random.Random(config.width)
    name = f"community.planner.{kind.name.lower()}.{config.width}.{config.partners}"
    for case in ("single", "sparse", "dense", "any"):
        cycles = 0
        for _ in range(4):
            rows = rng.randint(3, config.width)
            drawn = [[rng.getrandbits(rows) for _ in range(rows)] for _ in range(4)]
            records = {
                "single": [single_row(rng, rows), single_row(rng, 1)],
                "sparse": [[a & b & c & d for a, b, c, d in zip(*drawn, strict=True)]] * 2,
                "dense": [[a | b for a, b, *_ in zip(*drawn, strict=True)]] * 2,
                "any": list(some_records(rng, config)),
            }[case]
            way = Scheme(kind, rng.choice(K_VALUES), config.partners, config.columns)
            cycles += await plans(bench, config, records, way)
        expect_cycles(f"{name}.{case}", cycles)


@cocotb.test()
@cocotb.parametrize(kind=list(Kind))
async def a_reset_leaves_nothing(dut: Any, kind: Kind) -> None:
    bench, config = await begin(dut, stall=0.3)
    for _ in range(12):
        records, way = list(some_records(bench.random, config)), scheme(bench.random, config, kind)
        work = cocotb.start_soon(plans(bench, config, records, way))
        await bench.cycles(config.slots + bench.random.randrange(120))
        work.cancel()
        await bench.reset()
        await plans(bench, config, records[:2], way)


@pytest.mark.parametrize("sizes", [*SIZES, *(pytest.param(one, marks=full) for one in MORE)], ids=str)
def test_planner(sizes: dict[str, int]) -> None:
    simulate(planner(**sizes), __name__, parameters=sizes)
