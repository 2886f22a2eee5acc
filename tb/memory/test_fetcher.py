"""Fetcher: order, room for all it asks for, exact cycles, errors."""

from pathlib import Path
from typing import Any

import cocotb
import pytest

from hw.memory.fetcher import Fetcher
from hw.memory.formats import BURST_BEATS, LINE_BYTES
from sim.harness.formal import prove_all
from sim.memory.memory_side import CONFIGURATIONS
from tb.memory.formal_fetcher import PROOFS
from tb.memory.memory_bench import SIZE, begin, design, random_bursts, simulate_memory_side

#: Cycles of a burst from ``fetch_i`` to ``fetch_o`` beyond the memory's latency and the FIFO's: slice, arbiter, R.
OVERHEAD = 2


def fifo_latency() -> int:
    """Return the cycles of a FIFO; in block RAM it shows a beat a cycle later."""
    return 2 if design().depth > 32 else 1


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.6], stall=[0.0, 0.4])
async def bursts_of_every_length_come_in_order(dut: Any, pace: float, stall: float) -> None:
    bench = await begin(dut, idle=pace, stall=pace)
    bench.memory.stall(stall)
    bench.memory.latency(5)
    bench.fetch((BURST_BEATS * beats, beats) for beats in range(1, BURST_BEATS + 1))
    bench.fetch(random_bursts(bench.bench.random, 60, bench.beat_bytes))
    await bench.finish()


@cocotb.test()
@cocotb.parametrize(latency=[1, 2, 30, 100])
async def a_linear_read_takes_a_cycle_a_beat(dut: Any, latency: int) -> None:
    bench = await begin(dut)
    bench.memory.latency(latency)
    sustained = latency <= design().depth - BURST_BEATS - 4
    beats = 256 if sustained else BURST_BEATS
    began = bench.bench.cycle
    bench.fetch((at, BURST_BEATS) for at in range(0, beats, BURST_BEATS))
    assert await bench.finish() - began == beats + latency + OVERHEAD + fifo_latency() + 1


@cocotb.test()
async def never_more_is_asked_for_than_there_is_room(dut: Any) -> None:
    """With the receiver stalled, exactly `depth` beats are read; then they all come."""
    bench = await begin(dut)
    depth = design().depth
    for beats in (1, 3, 5, BURST_BEATS):
        bench.bench.pace(stall={"fetch_o": 1.0})
        before = bench.memory.counters()["beats_read"]
        bursts = 2 * depth // beats
        bench.fetch((i * BURST_BEATS % (SIZE // bench.beat_bytes), beats) for i in range(bursts))
        await bench.bench.cycles(400 + 2 * depth)
        read = bench.memory.counters()["beats_read"] - before
        assert read == depth // beats * beats
        bench.bench.pace(stall=0.0)
        await bench.finish()
        assert bench.memory.counters()["beats_read"] - before == bursts * beats


@cocotb.test()
async def a_burst_waits_for_the_room_it_needs_and_no_longer(dut: Any) -> None:
    """With no room, a beat that leaves lets the next single beat in."""
    bench = await begin(dut)
    depth = design().depth
    bench.memory.latency(1)
    bench.bench.pace(stall={"fetch_o": 1.0})
    bench.fetch((i, 1) for i in range(2 * depth))
    await bench.bench.cycles(4 * depth + 20)
    assert bench.memory.counters()["beats_read"] == depth
    bench.bench.pace(stall=0.0)
    began = bench.bench.cycle
    await bench.finish()
    # The window of `depth` beats turns once; its round trip is short, so a beat leaves every cycle.
    assert bench.bench.cycle - began < 2 * depth + 30


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.4])
async def failing_beats_are_marked_and_reported_by_line(dut: Any, stall: float) -> None:
    bench = await begin(dut)
    bench.memory.stall(stall)
    line = 5
    bench.memory.read_errors(range(line * LINE_BYTES, (line + 1) * LINE_BYTES))
    beats = LINE_BYTES // bench.beat_bytes
    first = line * beats
    taken: list[Any] = bench.taken["fetch_o"]
    bursts = [(first - 2, beats + 4), (first + beats, 2), (first, 1)]
    failing = [first <= at + i < first + beats for at, length in bursts for i in range(length)]
    for at, length in bursts:
        bench.bench.drive("fetch_i", [{"address": at, "length": length - 1}])
    await bench.bench.until(lambda: len(taken) == len(failing))
    await bench.bench.cycles(8)
    assert [bool(beat["error"]) for beat in taken] == failing
    assert [beat["last"] for beat in taken] == [int(i == n - 1) for _, n in bursts for i in range(n)]
    assert bench.taken["read_failure"] == [line] * sum(failing)


@cocotb.test()
async def addresses_past_the_memory_fail(dut: Any) -> None:
    bench = await begin(dut)
    width = design().address_width
    last = (1 << width) // bench.beat_bytes - 1
    bench.bench.drive("fetch_i", [{"address": last, "length": 0}, {"address": SIZE // bench.beat_bytes, "length": 0}])
    await bench.bench.until(lambda: len(bench.taken["fetch_o"]) == 2)
    await bench.bench.cycles(8)
    assert [beat["error"] for beat in bench.taken["fetch_o"]] == [1, 1]
    assert bench.taken["read_failure"] == [(1 << width) // LINE_BYTES - 1, SIZE // LINE_BYTES]


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_fetcher(configuration: str, tmp_path: Path) -> None:
    simulate_memory_side(configuration, __name__, tmp_path)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"depth": 15}, "depth must be in 16..4096, not 15"),
        ({"depth": 4097}, "depth must be in 16..4096, not 4097"),
        ({"data_width": 32}, "data_width must be 64, 128 or 256, not 32"),
        ({"address_width": 12}, "address_width must be in 13..64, not 12"),
    ],
)
def test_fetcher_refuses(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Fetcher(**parameters)


def test_fetcher_proofs() -> None:
    prove_all("memory_fetcher", PROOFS)
