"""Queue: order, capacity, latency and throughput in exact cycles, reset with words inside."""

from typing import Any

import cocotb
import pytest
from amaranth.lib import data

from hw.stream.queue import Queue
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.formal import prove_all
from tb.stream.formal_queue import PROOFS


def queue(depth: int, storage: Any, width: int = 8) -> Queue:
    return Queue(data.StructLayout({"key": 2, "value": width}), depth, storage=storage)


def words(bench: Bench, count: int) -> list[Any]:
    width = parameters().get("width", 8)
    return [{"key": bench.random.getrandbits(2), "value": bench.random.getrandbits(width)} for _ in range(count)]


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9])
async def words_come_out_in_order(dut: Any, idle: float, stall: float) -> None:
    bench = await start(dut, queue(**parameters()), idle=idle, stall=stall)
    sent = words(bench, 200)
    bench.drive("i", sent)
    bench.expect("o", sent)
    await bench.drain(10_000)
    assert dut.level.value == 0


@cocotb.test()
async def one_word_passes_per_cycle_after_the_latency(dut: Any) -> None:
    model = queue(**parameters())
    bench = await start(dut, model)
    sent = words(bench, 100)
    bench.drive("i", sent)
    bench.expect("o", sent)
    # Word n is taken at edge n + 1 and offered `latency` cycles later; a queue of one word alternates.
    spacing = 2 if model.depth == 1 else 1
    assert await bench.drain() == spacing * (len(sent) - 1) + 1 + model.latency


@cocotb.test()
async def level_counts_the_words_inside(dut: Any) -> None:
    model = queue(**parameters())
    bench = await start(dut, model, idle=0.3, stall=0.7)
    sent = words(bench, 150)
    bench.drive("i", sent)
    bench.expect("o", sent)
    inside = 0
    for cycle in range(400):
        await bench.edge
        assert int(dut.level.value) == inside
        inside += int(dut.i__valid.value) & int(dut.i__ready.value)
        inside -= int(dut.o__valid.value) & int(dut.o__ready.value)
        if cycle == 200:
            bench.pace(idle=0.6, stall=0.2)
    await bench.drain()


@cocotb.test()
async def it_holds_depth_words_and_no_more(dut: Any) -> None:
    model = queue(**parameters())
    bench = await start(dut, model, stall=1.0)
    sent = words(bench, model.depth + 3)
    bench.drive("i", sent)
    bench.expect("o", sent)
    await bench.cycles(model.depth + 8)
    assert dut.level.value == model.depth
    assert bench.drivers["i"].busy_words == 3
    bench.pace(stall=0.0)
    await bench.drain()


@cocotb.test()
async def reset_empties_it_and_it_works_again(dut: Any) -> None:
    model = queue(**parameters())
    bench = await start(dut, model, stall=0.9)
    for _ in range(3):
        sent = words(bench, 50)
        bench.drive("i", sent)
        bench.expect("o", sent)
        await bench.cycles(bench.random.randrange(5, 40))
        await bench.reset()
        assert dut.level.value == 0
        assert dut.o__valid.value == 0
    bench.pace(stall=0.2)
    sent = words(bench, 50)
    bench.drive("i", sent)
    bench.expect("o", sent)
    await bench.drain()


@pytest.mark.parametrize(
    ("depth", "storage"),
    [(1, "distributed"), (2, "distributed"), (5, "auto"), (3, "block"), (6, "block"), (64, "auto")],
)
def test_queue(depth: int, storage: str) -> None:
    simulate(queue(depth, storage), __name__, parameters={"depth": depth, "storage": storage})


@pytest.mark.parametrize(
    ("depth", "storage", "message"),
    [
        (0, "auto", "depth must be at least 1, not 0"),
        (2, "block", "depth must be at least 3 with storage 'block', not 2"),
        (4, "ram", "storage must be 'auto', 'distributed' or 'block', not 'ram'"),
    ],
)
def test_queue_refuses(depth: int, storage: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Queue(8, depth, storage=storage)


def test_queue_proofs() -> None:
    prove_all("queue", PROOFS)
