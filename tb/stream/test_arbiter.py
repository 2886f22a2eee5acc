"""Arbiter: nothing lost or doubled, order per input, round-robin order, exact cycles, reset in the middle."""

from typing import Any

import cocotb
import pytest

from hw.stream.arbiter import Arbiter
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles
from sim.harness.formal import prove_all
from tb.stream.formal_arbiter import PROOFS

WIDTH = 12


def arbiter(count: int, *, wide: bool = False) -> Arbiter:
    return Arbiter(WIDTH, count, wide=wide)


def built() -> tuple[Arbiter, int]:
    """Return the arbiter of this run and its number of inputs."""
    given = parameters()
    return arbiter(given["count"], wide=given["wide"]), given["count"]


def words(bench: Bench, count: int) -> list[Any]:
    return [bench.random.getrandbits(WIDTH) for _ in range(count)]


def collect(bench: Bench, count: int) -> tuple[list[list[int]], list[int]]:
    """Return lists that fill with the words of each input as they come out, and one with the sources in order."""
    taken: list[list[int]] = [[] for _ in range(count)]
    order: list[int] = []

    def note(word: Any) -> None:
        taken[word["source"]].append(word["payload"])
        order.append(word["source"])

    bench.take("o", note)
    return taken, order


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.7], stall=[0.0, 0.5])
async def every_word_comes_out_once_and_each_input_keeps_its_order(dut: Any, idle: float, stall: float) -> None:
    block, count = built()
    bench = await start(dut, block, idle=idle, stall=stall)
    sent = [words(bench, bench.random.randrange(20, 60)) for _ in range(count)]
    taken, order = collect(bench, count)
    for n in range(count):
        bench.drive(f"i__{n}", sent[n])
    await bench.until(lambda: len(order) == sum(map(len, sent)))
    await bench.drain()
    assert taken == sent


@cocotb.test()
async def waiting_inputs_take_turns_without_a_gap(dut: Any) -> None:
    block, count = built()
    bench = await start(dut, block)
    rounds = 20
    sent = [words(bench, rounds) for _ in range(count)]
    for n in range(count):
        bench.drive(f"i__{n}", sent[n])
    bench.expect("o", [{"payload": sent[n][k], "source": n} for k in range(rounds) for n in range(count)])
    # The grant register stands on input 0 after reset, so the first word is taken at edge 1 and read at edge 2.
    cycles = await bench.drain()
    assert cycles == rounds * count + 1
    expect_cycles(f"stream.arbiter.rounds.{count}", cycles)


@cocotb.test()
async def one_input_alone_streams_without_a_gap(dut: Any) -> None:
    block, count = built()
    bench = await start(dut, block)
    for n in range(count):
        sent = words(bench, 30)
        began = bench.cycle
        bench.drive(f"i__{n}", sent)
        bench.expect("o", [{"payload": word, "source": n} for word in sent])
        moves = 0 if n == 0 else 1
        assert await bench.drain() - began == len(sent) + 1 + moves


@cocotb.test()
async def a_turn_goes_to_the_next_waiting_input(dut: Any) -> None:
    """Every subset of waiting inputs is served in the order after the one served last."""
    block, count = built()
    bench = await start(dut, block)
    grant = 0
    for _ in range(40):
        waiting = bench.random.sample(range(count), bench.random.randrange(1, count + 1))
        sent = {n: words(bench, 1)[0] for n in waiting}
        first = grant if grant in waiting else min(waiting, key=lambda n: (n - grant) % count)
        turns = sorted(waiting, key=lambda n: (n - first) % count)
        began = bench.cycle
        for n in waiting:
            bench.drive(f"i__{n}", [sent[n]])
        bench.expect("o", [{"payload": sent[n], "source": n} for n in turns])
        assert await bench.drain() - began == len(waiting) + 1 + (first != grant)
        grant = turns[-1]


@cocotb.test()
async def reset_in_the_middle_starts_again_with_input_0(dut: Any) -> None:
    block, count = built()
    bench = await start(dut, block, stall=0.5)
    for _ in range(4):
        for n in range(count):
            bench.drive(f"i__{n}", words(bench, 20))
        collect(bench, count)
        await bench.cycles(bench.random.randrange(5, 15))
        await bench.reset()
        assert dut.o__valid.value == 0
    taken, order = collect(bench, count)
    sent = [words(bench, 10) for _ in range(count)]
    for n in range(count):
        bench.drive(f"i__{n}", sent[n])
    await bench.until(lambda: len(order) == 10 * count)
    assert taken == sent
    assert order == [*range(count)] * 10


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_arbiter(count: int, wide: bool) -> None:
    simulate(arbiter(count, wide=wide), __name__, parameters={"count": count, "wide": wide})


def test_arbiter_refuses_one_input() -> None:
    with pytest.raises(ValueError, match="count must be at least 2, not 1"):
        Arbiter(8, 1)


def test_arbiter_proofs() -> None:
    prove_all("arbiter", PROOFS)
