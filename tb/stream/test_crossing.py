"""Crossing: order under any two clocks and any stalls, rate and latency, resets with words inside."""

import random
from dataclasses import dataclass, field
from typing import Any

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import First, RisingEdge, Timer
from cocotb.utils import get_sim_time

from hw.stream.crossing import STAGES, Crossing
from sim.harness import parameters, simulate
from sim.harness.formal import prove_all
from tb.stream.formal_crossing import PROOFS

#: Periods of the two clocks in ps: equal, barely different, far apart either way. Random ones are tried beside these.
PERIODS = ((10_000, 10_000), (10_000, 10_026), (10_026, 10_000), (10_000, 3_700), (2_900, 10_000), (10_000, 61_000))
WORDS = 150


def crossing(depth: int, width: int) -> Crossing:
    return Crossing(width, depth)


@dataclass
class Pair:
    """Both ends of a crossing, each in its own clock.

    Attributes
    ----------
    idle, stall
        Probabilities that a free writer offers nothing, and that the reader takes nothing.
    received, times
        Words, and when they were taken, in ps.
    """

    dut: Any
    periods: tuple[int, int]
    idle: float = 0.0
    stall: float = 0.0
    to_send: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    async def start(self) -> None:
        """Start both clocks, the second some time after the first, and both ends."""
        dut = self.dut
        Clock(dut.write_clk, self.periods[0], unit="ps", impl="gpi").start()
        await Timer(random.randrange(1, self.periods[1]), unit="ps")
        Clock(dut.read_clk, self.periods[1], unit="ps", impl="gpi").start()
        await self.reset()
        cocotb.start_soon(self._write())
        cocotb.start_soon(self._read())

    async def reset(self, ends: tuple[int, int] | None = None) -> None:
        """Reset both sides; `ends` are clocks by which each outlasts the overlap."""
        dut = self.dut
        dut.write_rst.value, dut.read_rst.value = 1, 1
        dut.i__valid.value, dut.o__ready.value = 0, 0
        self.to_send.clear()
        # The first edge of each side brings its reset into effect.
        for _ in range(STAGES + 2):
            await RisingEdge(dut.write_clk)
        for _ in range(STAGES + 2):
            await RisingEdge(dut.read_clk)
        self.received.clear()
        self.times.clear()
        write_more, read_more = ends or (0, 0)
        released = [cocotb.start_soon(self._release(dut.write_clk, dut.write_rst, write_more)),
                    cocotb.start_soon(self._release(dut.read_clk, dut.read_rst, read_more))]  # fmt: skip
        for task in released:
            await task

    @staticmethod
    async def _release(clock: Any, reset: Any, clocks: int) -> None:
        for _ in range(clocks):
            await RisingEdge(clock)
        reset.value = 0

    async def _write(self) -> None:
        dut, edge, offered = self.dut, RisingEdge(self.dut.write_clk), None
        while True:
            if dut.write_rst.value:
                offered = None
            elif offered is None and self.to_send and random.random() >= self.idle:
                offered = self.to_send.pop(0)
            dut.i__valid.value = offered is not None
            dut.i__payload.value = random.getrandbits(len(dut.i__payload)) if offered is None else offered
            await edge
            if offered is not None and dut.i__ready.value:
                offered = None

    async def _read(self) -> None:
        dut, edge, kept = self.dut, RisingEdge(self.dut.read_clk), None
        while True:
            willing = random.random() >= self.stall
            dut.o__ready.value = willing
            await edge
            if dut.read_rst.value:
                kept = None
                continue
            valid, word = bool(dut.o__valid.value), int(dut.o__payload.value)
            assert kept is None or (valid and word == kept), "a word on offer changed"
            kept = word if valid and not willing else None
            if valid and willing:
                self.received.append(word)
                self.times.append(get_sim_time("ps"))

    async def settled(self, words: list[int]) -> None:
        """Wait until as many words have come, and a while longer, and compare."""
        for _ in range(40 * len(words) + 400):
            await First(RisingEdge(self.dut.write_clk), RisingEdge(self.dut.read_clk))
            if len(self.received) >= len(words):
                break
        await Timer(20 * sum(self.periods), unit="ps")
        assert self.received == words


def some_words(dut: Any, count: int) -> list[int]:
    return [random.getrandbits(len(dut.i__payload)) for _ in range(count)]


def periods() -> tuple[int, int]:
    """Periods of the bench, in ps."""
    write, read = parameters().get("periods", PERIODS[1])
    return write, read


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.6])
async def words_come_out_in_order(dut: Any, idle: float, stall: float) -> None:
    pair = Pair(dut, periods(), idle, stall)
    await pair.start()
    words = some_words(dut, WORDS)
    pair.to_send.extend(words)
    await pair.settled(words)


@cocotb.test()
async def a_word_passes_in_every_clock_of_the_slower_side(dut: Any) -> None:
    pair = Pair(dut, periods())
    await pair.start()
    words = some_words(dut, WORDS)
    pair.to_send.extend(words)
    await pair.settled(words)
    slower = max(pair.periods)
    rate = (len(words) - 1) * slower / (pair.times[-1] - pair.times[0])
    cocotb.log.info("periods %s: %.4f words per clock of the slower side", pair.periods, rate)
    if parameters()["depth"] >= 8:
        assert rate > 0.98


@cocotb.test()
async def words_inside_are_forgotten_by_a_reset(dut: Any) -> None:
    """Whichever side is released first, and however much later."""
    pair = Pair(dut, periods(), 0.2, 0.3)
    await pair.start()
    for ends in ((0, 0), (0, 9), (9, 0), (2, 3), (1, 0)):
        pair.stall = random.choice([0.3, 1.0])
        pair.to_send.extend(some_words(dut, 3 * parameters()["depth"]))
        await Timer(random.randrange(2, 30) * sum(pair.periods), unit="ps")
        await pair.reset(ends)
        pair.stall = 0.3
        words = some_words(dut, 20)
        pair.to_send.extend(words)
        await pair.settled(words)


@cocotb.test()
async def a_full_crossing_holds_its_depth_and_one_more(dut: Any) -> None:
    pair = Pair(dut, periods(), stall=1.0)
    await pair.start()
    depth = parameters()["depth"]
    words = some_words(dut, 2 * depth)
    pair.to_send.extend(words)
    await Timer(20 * depth * max(pair.periods), unit="ps")
    # One more is on offer.
    assert len(pair.to_send) == len(words) - (depth + 1) - 1
    assert not dut.i__ready.value
    pair.stall = 0.0
    await pair.settled(words)


@pytest.mark.parametrize("pair", PERIODS)
def test_crossing(pair: tuple[int, int]) -> None:
    simulate(crossing(8, 13), __name__, parameters={"depth": 8, "width": 13, "periods": list(pair)})


@pytest.mark.parametrize("number", range(3))
def test_the_smallest_crossing_under_random_clocks(number: int) -> None:
    rng = random.Random(number)
    pair = [rng.randrange(2_000, 30_000, 2) for _ in range(2)]
    simulate(crossing(4, 3), __name__, parameters={"depth": 4, "width": 3, "periods": pair})


@pytest.mark.parametrize("depth", [0, 2, 6])
def test_depths_out_of_range_are_refused(depth: int) -> None:
    with pytest.raises(ValueError, match=f"depth must be a power of 2 from 4 on, not {depth}"):
        Crossing(8, depth)


def test_proofs() -> None:
    prove_all("stream.crossing", PROOFS)
