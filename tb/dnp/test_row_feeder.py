"""Row feeder: rows to outputs in turn, halves in order, a word a clock behind a register, outputs for themselves."""

from typing import Any

import cocotb
import pytest

from contracts.dnp.config import HIGHEST, LOWEST, WORD
from hw.dnp.row_feeder import RowFeeder
from hw.stream.queue import Queue
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start


def rows(bench: Bench, design: RowFeeder, count: int, elements: int) -> None:
    """Send rows and expect them where they belong, the first at the first output."""
    for number in range(count):
        row = [bench.random.randint(LOWEST, HIGHEST) for _ in range(elements)]
        # What an odd row leaves free of its last word is nobody's.
        halves = [*row, *[bench.random.randint(LOWEST, HIGHEST)] * (elements % 2)]
        words = [low & 0xFFFF | (high & 0xFFFF) << 16 for low, high in zip(halves[::2], halves[1::2], strict=True)]
        bench.drive("i", [{"data": word, "last": int(n == len(words) - 1)} for n, word in enumerate(words)])
        bench.expect(f"o__{number % design.ways}", row)


async def begin(dut: Any, **pace: Any) -> tuple[Bench, RowFeeder]:
    design = RowFeeder(**parameters())
    dut.elements.value = 1
    return await start(dut, design, **pace), design


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.6])
async def rows_go_to_outputs_in_turn(dut: Any, idle: float, stall: float) -> None:
    """Rows shorter and longer than a queue, of an odd and an even number of elements."""
    bench, design = await begin(dut, idle=idle, stall=stall)
    for elements in (1, 2, 3, 4, 7, 2 * design.depth, 6 * design.depth + 1):
        dut.elements.value = elements
        await bench.cycles(2)
        rows(bench, design, 3 * design.ways, elements)
        await bench.drain()


@cocotb.test()
async def a_word_a_clock_leaves_every_output(dut: Any) -> None:
    """Without stalls, once words have come; alone, it takes the clocks of the queue and of the register behind it."""
    bench, design = await begin(dut)
    for elements in (2 * design.depth, 2 * design.depth - 1):
        dut.elements.value = elements
        await bench.cycles(2)
        # The queues fill while nothing leaves them; the last word of an odd row is half a word.
        bench.pace(stall=1.0)
        rows(bench, design, design.ways, elements)
        await bench.until(lambda: not bench.drivers["i"].busy_words)
        await bench.cycles(5)
        bench.pace()
        # The words passed in all clocks but the one in which the outputs learn that they may.
        began = bench.cycle
        assert await bench.drain() - began == elements + 1
    dut.elements.value = 1
    await bench.cycles(2)
    began = bench.cycle
    rows(bench, design, 1, 1)
    assert await bench.drain() - began == 1 + Queue(0, design.depth).latency + 1


@cocotb.test()
async def an_output_that_stands_still_holds_up_no_other(dut: Any) -> None:
    """Until its queue is full: a row fits."""
    bench, design = await begin(dut)
    dut.elements.value = 2 * design.depth
    await bench.cycles(2)
    for still in range(design.ways):
        bench.pace(stall={f"o__{n}": float(n == still) for n in range(design.ways)})
        rows(bench, design, design.ways, 2 * design.depth)
        await bench.cycles(2 * design.depth * design.ways + 20)
        assert [len(bench.expected[f"o__{n}"]) for n in range(design.ways)] == [
            2 * design.depth * (n == still) for n in range(design.ways)
        ]
        bench.pace()
        await bench.drain()


@cocotb.test()
async def every_bit_of_an_element_counts(dut: Any) -> None:
    """Rows so long that they need the highest; between rows their length may be anything."""
    bench, design = await begin(dut)
    dut.elements.value = (1 << WORD) - 1
    await bench.cycles(2)
    await bench.cycles(2)
    elements = (1 << WORD - 1) + 1
    dut.elements.value = elements
    await bench.cycles(2)
    rows(bench, design, 2, elements)
    await bench.drain(3 * elements)


@cocotb.test()
async def a_reset_in_the_middle_leaves_nothing(dut: Any) -> None:
    bench, design = await begin(dut, stall=0.5)
    for cycles in (3, 8, 21, 40):
        dut.elements.value = 7
        await bench.cycles(2)
        rows(bench, design, 20, 7)
        await bench.cycles(cycles)
        await bench.reset()
        await bench.cycles(2)
        rows(bench, design, 2 * design.ways + 1, 7)
        await bench.drain()
        await bench.reset()


@pytest.mark.parametrize(("ways", "depth"), [(4, 8), (2, 40)])
def test_row_feeder(ways: int, depth: int) -> None:
    sizes = {"ways": ways, "depth": depth}
    simulate(RowFeeder(**sizes), __name__, parameters=sizes)
