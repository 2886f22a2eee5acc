"""Register slice: order, one cycle of latency, full throughput, reset with both registers full."""

from typing import Any

import cocotb
from amaranth.lib import data

from hw.stream.slice import Slice
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.formal import prove_all
from tb.stream.formal_slice import PROOFS


def slice_(width: int) -> Slice:
    return Slice(data.StructLayout({"tag": 3, "value": width}))


def words(bench: Bench, count: int, width: int) -> list[Any]:
    return [{"tag": bench.random.getrandbits(3), "value": bench.random.getrandbits(width)} for _ in range(count)]


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9])
async def words_come_out_in_order(dut: Any, idle: float, stall: float) -> None:
    width = parameters()["width"]
    bench = await start(dut, slice_(width), idle=idle, stall=stall)
    sent = words(bench, 200, width)
    bench.drive("i", sent)
    bench.expect("o", sent)
    await bench.drain()


@cocotb.test()
async def one_word_passes_per_cycle_after_one_cycle(dut: Any) -> None:
    width = parameters()["width"]
    bench = await start(dut, slice_(width))
    sent = words(bench, 100, width)
    bench.drive("i", sent)
    bench.expect("o", sent)
    # Word n is taken at edge n + 1 and read at the next.
    assert await bench.drain() == len(sent) + 1


@cocotb.test()
async def a_stall_costs_its_own_cycles_and_no_more(dut: Any) -> None:
    width = parameters()["width"]
    bench = await start(dut, slice_(width))
    sent = words(bench, 40, width)
    bench.drive("i", sent)
    bench.expect("o", sent)
    await bench.cycles(10)
    bench.pace(stall=1.0)
    await bench.cycles(7)
    assert dut.i__ready.value == 0
    bench.pace(stall=0.0)
    assert await bench.drain() == len(sent) + 1 + 7


@cocotb.test()
async def two_words_wait_inside(dut: Any) -> None:
    width = parameters()["width"]
    bench = await start(dut, slice_(width), stall=1.0)
    sent = words(bench, 5, width)
    bench.drive("i", sent)
    bench.expect("o", sent)
    await bench.cycles(10)
    assert bench.drivers["i"].busy_words == 3
    await bench.reset()
    assert dut.o__valid.value == 0
    assert dut.i__ready.value == 1
    bench.pace(idle=0.2, stall=0.2)
    again = words(bench, 50, width)
    bench.drive("i", again)
    bench.expect("o", again)
    await bench.drain()


def test_slice() -> None:
    simulate(slice_(13), __name__, parameters={"width": 13})


def test_slice_proofs() -> None:
    prove_all("slice", PROOFS)
