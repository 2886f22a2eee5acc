"""Beat store: each combiner's beats whole, in order, at most as many as it has registers for; rates; resets."""

from collections import deque
from functools import partial
from typing import Any

import cocotb
import pytest

from hw.community.beat_store import BeatStore
from hw.community.factories import beat_store
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

#: Cycles from a beat at the input until it is at its combiner.
LATENCY = 2


class Combiners:
    """Beats that combiners wait for, those in their registers, and how fast they take them."""

    def __init__(self, bench: Bench, design: BeatStore) -> None:
        self.bench, self.dut, self.rng, self.count = bench, bench.dut, bench.random, design.combiners
        self.room, self.registers = design.config.queue, design.config.pe.queue
        #: How often a combiner takes no beat.
        self.stall = [0.0] * self.count
        self.forget()
        for n in range(self.count):
            bench.take(f"o__{n}", partial(self._come, n))
        cocotb.start_soon(self._take())

    def forget(self) -> None:
        """Nothing is stored."""
        self.wanted: list[deque[Any]] = [deque() for _ in range(self.count)]
        self.level, self.owed = [0] * self.count, [0] * self.count
        self.order: list[tuple[int, int]] = []

    def send(self, combiner: int) -> None:
        """Send a beat of random bits."""
        beat = self.bench.codecs["o__0"]
        word = beat.unpack(self.rng.getrandbits(beat.width))
        self.bench.drive("i", [{"combiner": combiner, "beat": word}])
        self.wanted[combiner].append(word)
        self.owed[combiner] += 1

    def ready(self) -> list[int]:
        """Return the combiners that have room for another beat."""
        return [n for n, owed in enumerate(self.owed) if owed < self.room]

    async def send_some(self, count: int) -> None:
        """Send beats to combiners that have room, as fast as they come."""
        for _ in range(count):
            while not self.ready() or self.bench.drivers["i"].busy_words > 1:
                await self.bench.cycles(1)
            self.send(self.rng.choice(self.ready()))

    def empty(self) -> bool:
        """Return whether every beat has come."""
        return not any(self.wanted)

    async def finish(self) -> None:
        """Wait until every beat has come and is taken; nothing stalls."""
        await self.bench.until(self.empty)
        await self.bench.cycles(self.registers + 2)
        assert not any(self.owed)

    def _come(self, combiner: int, word: Any) -> None:
        assert word == self.wanted[combiner].popleft()
        self.order.append((self.bench.cycle, combiner))
        self.level[combiner] += 1
        assert self.level[combiner] <= self.registers, f"combiner {combiner} has no register"

    async def _take(self) -> None:
        while True:
            await self.bench.edge
            for n, stall in enumerate(self.stall):
                takes = self.level[n] > 0 and self.rng.random() >= stall
                self.level[n] -= takes
                self.owed[n] -= takes
                getattr(self.dut, f"taken__{n}").value = int(takes)


async def begin(dut: Any, **pace: Any) -> Combiners:
    design = beat_store(**parameters())
    for n in range(design.combiners):
        getattr(dut, f"taken__{n}").value = 0
    return Combiners(await start(dut, design, **pace), design)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.9])
async def every_combiner_gets_its_beats_in_order(dut: Any, idle: float, stall: float) -> None:
    """One that takes hardly any holds up no other."""
    combiners = await begin(dut, idle=idle)
    combiners.stall[combiners.rng.randrange(combiners.count)] = stall
    await combiners.send_some(400)
    await combiners.bench.until(combiners.empty, 20_000)


@cocotb.test()
async def a_queue_can_be_full(dut: Any) -> None:
    combiners = await begin(dut)
    for _ in range(3):
        combiners.stall = [1.0] * combiners.count
        for n in range(combiners.count):
            for _ in range(combiners.room):
                combiners.send(n)
        await combiners.bench.cycles(combiners.count * combiners.room + 10)
        assert combiners.level == [min(combiners.registers, combiners.room)] * combiners.count
        combiners.stall = [0.0] * combiners.count
        await combiners.finish()


@cocotb.test()
async def a_beat_comes_in_every_cycle(dut: Any) -> None:
    """Alone a beat comes after its latency; several combiners have turns."""
    combiners = await begin(dut)
    await combiners.bench.cycles(5)
    for n in range(combiners.count):
        combiners.send(n)
        assert await combiners.bench.until(combiners.empty) == LATENCY + 1
        await combiners.bench.cycles(5)
    combiners.stall = [1.0] * combiners.count
    await combiners.send_some(combiners.count)
    beats = 0
    for _ in range(combiners.room // 2):
        for n in combiners.ready():
            combiners.send(n)
            beats += 1
    combiners.stall = [0.0] * combiners.count
    assert await combiners.bench.until(combiners.empty) <= 2 * beats + 10


@cocotb.test()
async def combiners_that_have_room_take_turns(dut: Any) -> None:
    """While several have beats and registers, one of each comes in so many cycles; others have no turn."""
    combiners = await begin(dut)
    for some in (range(combiners.count), range(combiners.count - 1, -1, -2), range(0, combiners.count, 2)):
        combiners.stall = [1.0] * combiners.count
        for _ in range(combiners.room):
            for n in some:
                combiners.send(n)
        await combiners.bench.cycles(2 * len(some) * combiners.room + 10)
        assert combiners.level == [
            min(combiners.registers, combiners.room) * (n in some) for n in range(combiners.count)
        ]
        combiners.order.clear()
        combiners.stall = [0.0] * combiners.count
        beats = len(some) * (combiners.room - combiners.level[some[0]])
        await combiners.finish()
        came, order = zip(*combiners.order, strict=True)
        for at in range(0, beats, len(some)):
            assert sorted(order[at : at + len(some)]) == sorted(some)
        if len(some) > 1:  # registers of one combiner alone do not last until another beat comes
            assert came == tuple(range(came[0], came[0] + beats))


@cocotb.test()
async def reset_forgets_all_beats(dut: Any) -> None:
    combiners = await begin(dut)
    for _ in range(10):
        combiners.stall = [combiners.rng.choice((0.0, 0.9, 1.0)) for _ in range(combiners.count)]
        for n in combiners.ready():
            combiners.send(n)
        await combiners.bench.cycles(combiners.rng.randrange(12))
        await combiners.bench.reset()
        combiners.forget()
        for n in range(combiners.count):
            getattr(dut, f"taken__{n}").value = 0
        combiners.stall = [0.0] * combiners.count
        await combiners.send_some(30)
        await combiners.bench.until(combiners.empty)


@pytest.mark.parametrize("combiners", [1, 2, 3, 4])
def test_beat_store(combiners: int) -> None:
    sizes = {"combiners": combiners, "data_width": 64, "lanes": 2, "queue": (3, 16, 12, 32)[combiners - 1]}
    simulate(beat_store(**sizes), __name__, parameters=sizes)


def test_there_is_a_combiner() -> None:
    with pytest.raises(ValueError, match=r"^combiners must be at least 1, not 0$"):
        beat_store(0)
