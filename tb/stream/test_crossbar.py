"""Crossbar: each word at its output once, order of each pair, whole rows, rates, reset in the middle."""

from itertools import pairwise
from typing import Any

import cocotb
import pytest
from amaranth.lib import data
from amaranth.utils import ceil_log2

from hw.stream.crossbar import Crossbar
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles

SHAPE = data.StructLayout({"to": 4, "source": 4, "number": 8, "last": 1})


def crossbar(inputs: int, outputs: int) -> Crossbar:
    return Crossbar(SHAPE, inputs, outputs, "to", whole=True)


def rows(bench: Bench, source: int, outputs: int, count: int, longest: int = 3) -> list[dict[str, int]]:
    """Return words of rows, each for one output; the upper bits of ``to`` do not count."""
    words: list[dict[str, int]] = []
    numbers = 1 << ceil_log2(outputs)
    while len(words) < count:
        to = numbers * bench.random.randrange(16 // numbers) + bench.random.randrange(outputs)
        length = bench.random.randint(1, longest)
        for n in range(length):
            words.append({"to": to, "source": source, "number": len(words), "last": int(n == length - 1)})
    return words


def collect(bench: Bench, outputs: int) -> list[list[dict[str, int]]]:
    taken: list[list[dict[str, int]]] = [[] for _ in range(outputs)]
    for k, words in enumerate(taken):
        bench.take(f"o__{k}", words.append)
    return taken


def check(sent: list[list[dict[str, int]]], taken: list[list[dict[str, int]]]) -> None:
    for k, words in enumerate(taken):
        for n, source in enumerate(sent):
            expected = [word for word in source if word["to"] % (1 << ceil_log2(len(taken))) == k]
            assert [word for word in words if word["source"] == n] == expected
        for word, following in pairwise(words):
            assert word["last"] or following["source"] == word["source"], "a row goes without others between its words"


async def all_pass(bench: Bench, sent: list[list[dict[str, int]]], outputs: int) -> int:
    """Send the words of each input, wait until all have come out, compare them; return the cycles."""
    taken = collect(bench, outputs)
    for n, words in enumerate(sent):
        bench.drive(f"i__{n}", words)
    cycles = await bench.until(lambda: sum(map(len, taken)) == sum(map(len, sent)))
    check(sent, taken)
    return cycles


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.5])
async def every_word_reaches_its_output_in_order(dut: Any, idle: float, stall: float) -> None:
    model = crossbar(**parameters())
    inputs, outputs = len(model.i), len(model.o)
    bench = await start(dut, model, idle=idle, stall=stall)
    sent = [rows(bench, n, outputs, 80) for n in range(inputs)]
    await all_pass(bench, sent, outputs)
    await bench.cycles(4)
    assert dut.busy.value == 0


@cocotb.test()
async def an_output_that_stalls_holds_up_words_behind_its_own_only(dut: Any) -> None:
    model = crossbar(**parameters())
    inputs, outputs = len(model.i), len(model.o)
    bench = await start(dut, model)
    if outputs == 1:
        return
    bench.pace(stall={"o__0": 1.0})
    taken = collect(bench, outputs)
    # A register between an input and the output that stalls has room for a word.
    targets = [0, *[1] * 20]
    sent = [[{"to": to, "source": n, "number": k, "last": 1} for k, to in enumerate(targets)] for n in range(inputs)]
    for n, words in enumerate(sent):
        bench.drive(f"i__{n}", words)
    await bench.until(lambda: len(taken[1]) == 20 * inputs)
    bench.pace(stall=0.0)
    await bench.until(lambda: sum(map(len, taken)) == len(targets) * inputs)
    check(sent, taken)


@cocotb.test()
async def words_pass_at_the_rate_that_is_promised(dut: Any) -> None:
    """Words to ever other outputs, as of the rows of consecutive hubs; the cycles are kept."""
    model = crossbar(**parameters())
    inputs, outputs = len(model.i), len(model.o)
    bench = await start(dut, model)
    count = 100
    sent = [
        [{"to": (n + k) % outputs, "source": n, "number": k, "last": 1} for k in range(count)] for n in range(inputs)
    ]
    cycles = await all_pass(bench, sent, outputs)
    assert cycles >= max(count, count * inputs // outputs)
    expect_cycles(f"stream.crossbar.turns.{inputs}.{outputs}", cycles)


@cocotb.test()
async def reset_in_the_middle_loses_what_is_inside(dut: Any) -> None:
    model = crossbar(**parameters())
    inputs, outputs = len(model.i), len(model.o)
    bench = await start(dut, model, stall=0.7)
    for _ in range(3):
        collect(bench, outputs)
        for n in range(inputs):
            bench.drive(f"i__{n}", rows(bench, n, outputs, 40))
        await bench.cycles(bench.random.randrange(5, 25))
        await bench.reset()
        assert dut.busy.value == 0
    sent = [rows(bench, n, outputs, 30) for n in range(inputs)]
    await all_pass(bench, sent, outputs)


@pytest.mark.parametrize(("inputs", "outputs"), [(3, 2), (4, 4), (8, 4), (1, 4), (3, 1), (4, 5)])
def test_crossbar(inputs: int, outputs: int) -> None:
    simulate(crossbar(inputs, outputs), __name__, parameters={"inputs": inputs, "outputs": outputs})


def test_crossbar_refuses_numbers() -> None:
    with pytest.raises(ValueError, match="inputs must be at least 1, not 0"):
        Crossbar(SHAPE, 0, 2, "to")
    with pytest.raises(ValueError, match="outputs must be at least 1, not 0"):
        Crossbar(SHAPE, 2, 0, "to")
