"""PE group: each row once and whole, whatever PE it came from; PEs share uneven work; reset in the middle."""

from collections import Counter
from random import Random
from typing import Any

import cocotb
import pytest

from golden.pe.pe import Layer, Mode, Task, operations, row_beats
from hw.pe.factories import group
from hw.pe.formats import PEConfig
from hw.pe.group import PEGroup
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles
from tb.pe.work import SELF, Maker, Ports, at, unpacked

GROUP = {"pes": 3, "lanes": 4, "data_width": 64, "weight_rows": 32, "max_out": 9, "queue": 16}


class Rows:
    """Rows as they come from a group, in any order of beats.

    Parameters
    ----------
    bench
        Whose ``o`` brings them.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.got: Counter[int] = Counter()
        self.count = 0
        bench.take("o", self._note)

    def _note(self, beat: Any) -> None:
        self.got[self.bench.codecs["o"].pack(beat)] += 1
        self.count += 1

    async def run(self, ports: Ports, layer: Layer, tasks: list[Task], base: int = 0) -> int:
        """Do `tasks`, each with a row of its own from beat address `base` on; return the cycles they took."""
        tasks = [at(task, base + 64 * number) for number, task in enumerate(tasks)]
        wanted = Counter(
            self.bench.codecs["o"].pack(unpacked(beat)) for task in tasks for beat in row_beats(task, layer)
        )
        self.got.clear()
        began, self.count = self.bench.cycle, 0
        ports.drive(tasks, layer)
        await self.bench.until(lambda: self.count == wanted.total(), 20_000)
        cycle = self.bench.cycle - began
        await self.bench.cycles(20)
        assert self.got == wanted
        return cycle


async def begin(dut: Any, *, idle: float = 0.0, stall: float = 0.0) -> tuple[Bench, Maker, Ports, Rows]:
    given = parameters()
    pes = given.pop("pes")
    config = PEConfig(**given)
    bench = await start(dut, PEGroup(config, pes))
    bench.pace(idle={"i": idle}, stall={"o": stall})
    return bench, Maker(config, bench.random), Ports(bench, config), Rows(bench)


@cocotb.test()
@cocotb.parametrize(mode=list(Mode), pace=[0.0, 0.5])
async def every_row_comes_once_and_exact(dut: Any, mode: Mode, pace: float) -> None:
    _, maker, ports, rows = await begin(dut, idle=pace, stall=pace)
    for f_out in (1, maker.config.lanes, maker.config.lanes + 2, maker.config.max_out):
        layer = maker.layer(mode, f_out, relu=f_out == 1, bias=mode == Mode.GATHER)
        await ports.load(layer)
        base = rows.bench.random.getrandbits(maker.config.beat_address_width) & ~0xFFF
        await rows.run(ports, layer, maker.tasks(layer, 30, 30), base)


@cocotb.test()
async def beats_of_a_row_come_in_order(dut: Any) -> None:
    """Rows of several PEs mix, but each is written from its beginning to its end."""
    bench, maker, ports, rows = await begin(dut, stall=0.3)
    layer = maker.layer(Mode.GATHER, maker.config.max_out)
    await ports.load(layer)
    order: list[tuple[int, int]] = []
    rows.bench.monitors["o"].add_callback(
        lambda word: order.append((bench.codecs["o"].unpack(word)["address"], bench.codecs["o"].unpack(word)["last"]))
    )
    await rows.run(ports, layer, [maker.gather(layer, [SELF]) for _ in range(20)])
    length = -(-maker.config.max_out // maker.config.elements)
    for number in range(20):
        row = [beat for beat in order if 64 * number <= beat[0] < 64 * number + length]
        assert row == [(64 * number + n, int(n == length - 1)) for n in range(length)]


@cocotb.test()
async def pes_share_uneven_work(dut: Any) -> None:
    """Tasks of very different length keep all PEs busy."""
    _, maker, ports, rows = await begin(dut)
    lengths = Random(1)  # the same work whatever the seed
    layer = maker.layer(Mode.SPARSE, maker.config.max_out, f_in=4)
    await ports.load(layer)
    tasks = [maker.sparse(layer, 24 if n % 7 == 0 else lengths.randrange(3, 7), gap=0.0) for n in range(90)]
    work = sum(count for task in tasks for count, _ in operations(task, layer, maker.config.lanes))
    took = await rows.run(ports, layer, tasks)
    assert took < 1.15 * work / parameters()["pes"] + 40
    expect_cycles(f"pe.group.uneven_tasks.{parameters()['pes']}x{parameters()['lanes']}", took)


@cocotb.test()
async def one_long_task_does_not_hold_up_short_ones(dut: Any) -> None:
    _, maker, ports, rows = await begin(dut)
    layer = maker.layer(Mode.SPARSE, maker.config.max_out)
    await ports.load(layer)
    # All its beats fit its PE's queue, and wait there while the other PEs work.
    long, short = maker.sparse(layer, 30, gap=0.0), maker.sparse(layer, 1, gap=0.0)
    order: list[int] = []
    rows.bench.monitors["o"].add_callback(lambda word: order.append(rows.bench.codecs["o"].unpack(word)["address"]))
    await rows.run(ports, layer, [long, *[short] * 10])
    beats = -(-layer.f_out // maker.config.elements)
    assert order.index(0) >= 6 * beats


@cocotb.test()
async def an_index_out_of_range_of_any_pe_is_reported(dut: Any) -> None:
    bench, maker, ports, rows = await begin(dut)
    layer = maker.layer(Mode.SPARSE, 1, f_in=2)
    await ports.load(layer)
    reported: list[int] = []
    bench.take("index_error", reported.append)
    for bit in range(1, 15):
        for index in (1 << bit, 0x7FFE ^ 1 << bit):
            # One after the other they go to all PEs.
            for _ in range(parameters()["pes"]):
                tasks = [maker.sparse(layer, 1, gap=0.0)]
                tasks[0].beats[0].data[0] = index
                reported.clear()
                await rows.run(ports, layer, tasks)
                assert reported == ports.wrong_indices(tasks, layer) == [index]


@cocotb.test()
async def reset_in_the_middle_is_followed_by_the_same_work(dut: Any) -> None:
    bench, maker, ports, rows = await begin(dut)
    layer = maker.layer(Mode.DENSE, maker.config.max_out, bias=True)
    await ports.load(layer)
    tasks = maker.tasks(layer, 10, 10)
    took = set()
    for _ in range(5):
        ports.drive(tasks, layer)
        await bench.cycles(bench.random.randrange(5, 120))
        await bench.reset()
        rows = Rows(bench)
        took.add(await rows.run(ports, layer, tasks))
    assert len(took) == 1


def test_group() -> None:
    simulate(group(**GROUP), __name__, parameters=GROUP)


def test_group_refuses_no_pe() -> None:
    with pytest.raises(ValueError, match="pes must be at least 1, not 0"):
        PEGroup(PEConfig(), 0)
