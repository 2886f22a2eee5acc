"""Replay FIFO: a queue in exact cycles, all of its words again, what does not fit, resets."""

from typing import Any

import cocotb
import pytest

from hw.community.replay_fifo import ReplayFifo
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

#: From the cycle in which a word is taken to the one in which it is offered.
LATENCY = 3


async def begin(dut: Any, **pace: Any) -> tuple[Bench, int]:
    depth, shape = parameters().get("depth", 16), parameters().get("shape", 33)
    bench = await start(dut, ReplayFifo(shape, depth), **pace)
    dut.start.value = dut.replay.value = 0
    return bench, depth


def words(bench: Bench, count: int) -> list[int]:
    return [bench.random.getrandbits(parameters().get("shape", 33)) for _ in range(count)]


async def through(bench: Bench, sent: list[int], *, again: bool = False) -> int:
    """Let words through, or have them given out again; return the cycles."""
    if not again:
        bench.drive("i", sent)
    bench.expect("o", sent)
    began = bench.cycle
    cycles = await bench.drain(10_000) - began
    assert int(bench.dut.empty.value)
    return cycles


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9])
async def all_that_fits_is_given_out_again(dut: Any, idle: float, stall: float) -> None:
    bench, depth = await begin(dut, idle=idle, stall=stall)
    for count in (1, depth - 1, depth, *(bench.random.randrange(1, depth + 1) for _ in range(4))):
        await bench.pulse(dut.start)
        sent = words(bench, count)
        await through(bench, sent)
        for _ in range(bench.random.randrange(3)):
            assert int(dut.whole.value)
            await bench.pulse(dut.replay)
            await through(bench, sent, again=True)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def what_does_not_fit_is_a_queue_and_not_whole(dut: Any, idle: float, stall: float) -> None:
    bench, depth = await begin(dut, idle=idle, stall=stall)
    for count in (depth + 1, 2 * depth, 2 * depth + 1, 5 * depth + 3):
        assert int(dut.whole.value)
        await through(bench, words(bench, count))
        assert not int(dut.whole.value)
        await bench.pulse(dut.start)
        await bench.cycles(1)


@cocotb.test()
async def it_holds_its_depth_and_two_words_more(dut: Any) -> None:
    bench, depth = await begin(dut, stall=1.0)
    bench.drive("i", words(bench, depth + 5))
    await bench.cycles(depth + 10)
    assert not int(dut.i__ready.value)
    assert not int(dut.empty.value)
    # Two more are read.
    assert int(dut.level.value) == depth
    assert bench.drivers["i"].busy_words == 5 - 2


@cocotb.test()
async def a_word_passes_every_cycle(dut: Any) -> None:
    bench, depth = await begin(dut)
    assert await through(bench, words(bench, 3 * depth)) == 3 * depth + LATENCY
    await bench.pulse(dut.start)
    sent = words(bench, depth)
    await through(bench, sent)
    await bench.pulse(dut.replay)
    assert await through(bench, sent, again=True) == depth + 2


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    bench, depth = await begin(dut, stall=0.7)
    for count in (depth // 2, depth, 3 * depth):
        sent = words(bench, count)
        bench.drive("i", sent)
        bench.expect("o", sent)
        await bench.cycles(count)
        await bench.reset()
        assert int(dut.whole.value)
        sent = words(bench, depth)
        await through(bench, sent)
        assert int(dut.whole.value)


@pytest.mark.parametrize("depth", [4, 16])
def test_replay_fifo(depth: int) -> None:
    simulate(ReplayFifo(33, depth), __name__, parameters={"depth": depth, "shape": 33})


@pytest.mark.parametrize("depth", [0, 2, 12])
def test_sizes_are_checked(depth: int) -> None:
    with pytest.raises(ValueError, match="depth must be a power of two from 4"):
        ReplayFifo(33, depth)
