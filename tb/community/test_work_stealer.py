"""Work stealer: whole records, in order, to their PE or to the one before it, cycle by cycle; resets."""

from typing import Any

import cocotb
import pytest

from contracts import RECORD_HEADER
from hw.community.work_stealer import WorkStealer
from hw.locator.formats import RecordBeat
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import codec

#: Records that a PE can have under way.
MOST = 32


class World:
    """Sources of records, PEs that take and retire them, and what the work stealer must say in every cycle."""

    def __init__(self, bench: Bench, pes: int, reach: int) -> None:
        self.bench, self.dut, self.rng, self.pes, self.reach = bench, bench.dut, bench.random, pes, reach
        self.beats = codec(RecordBeat)
        #: Probabilities in a cycle: a beat is there, a PE takes one, a PE retires a record.
        self.willing, self.takes, self.retires = 1.0, [1.0] * pes, [0.1] * pes
        self.steals = 0
        self.forget()

    def forget(self) -> None:
        """As after a reset."""
        pes = self.pes
        self.left: list[list[dict[str, int]]] = [[] for _ in range(pes)]
        self.offered = [False] * pes
        self.begun, self.taker, self.under_way = [False] * pes, list(range(pes)), [0] * pes
        #: Records of every source that each PE got, by source.
        self.got = [[0] * pes for _ in range(pes)]
        for n in range(pes):
            for port in ("ended", "retired", "i__{}__valid", "o__{}__ready"):
                getattr(self.dut, port.format(n) if "{}" in port else f"{port}__{n}").value = 0

    def send(self, source: int, beats: int) -> None:
        """Let a record of so many beats come."""
        data = [RECORD_HEADER.pack({"nodes": beats}), *(self.rng.getrandbits(64) for _ in range(beats - 1))]
        self.left[source] += [{"data": beat, "last": int(n == beats - 1)} for n, beat in enumerate(data)]

    async def run(self, cycles: int | None = None) -> int:
        """Go on for so many cycles, or until all is taken and retired; return the cycles."""
        count = 0
        while count != cycles if cycles is not None else any(self.left) or any(self.under_way):
            await self.step()
            count += 1
            assert count < 50_000
        return count

    async def step(self) -> None:
        """Let a cycle pass and compare all of it."""
        dut, rng, pes = self.dut, self.rng, range(self.pes)
        dut.steals.value = self.steals
        # Without sharing it does not matter who has nothing.
        ended = [not self.left[n] if self.steals else bool(rng.getrandbits(1)) for n in pes]
        ready = [rng.random() < self.takes[n] and self.under_way[n] < MOST for n in pes]
        retired = [self.under_way[n] > 0 and rng.random() < self.retires[n] for n in pes]
        for n in pes:
            self.offered[n] = bool(self.left[n]) and (self.offered[n] or rng.random() < self.willing)
            getattr(dut, f"i__{n}__valid").value = int(self.offered[n])
            beat = self.left[n][0] if self.offered[n] else {"data": rng.getrandbits(64), "last": rng.getrandbits(1)}
            getattr(dut, f"i__{n}__payload").value = self.beats.pack(beat)
            getattr(dut, f"ended__{n}").value = int(ended[n])
            getattr(dut, f"o__{n}__ready").value = int(ready[n])
            getattr(dut, f"retired__{n}").value = int(retired[n])
        await self.bench.edge
        wanted: dict[int, int] = {}
        lent = 0
        for n in pes:
            if self.offered[n] and not self.begun[n]:
                self.taker[n] = self.decide(n, ended)
                lent += self.taker[n] != n
            if self.offered[n]:
                assert self.taker[n] not in wanted
                wanted[self.taker[n]] = n
        assert int(dut.stolen.value) == lent
        for n in pes:
            assert int(getattr(dut, f"o__{n}__valid").value) == (n in wanted)
        for taker, n in wanted.items():
            assert self.beats.unpack(int(getattr(dut, f"o__{taker}__payload").value)) == self.left[n][0]
            assert int(getattr(dut, f"i__{n}__ready").value) == ready[taker]
            self.begun[n] = True
            if ready[taker]:
                last = self.left[n].pop(0)["last"]
                self.offered[n] = False
                self.begun[n] = not last
                self.under_way[taker] += last
                self.got[taker][n] += last
        for n in pes:
            self.under_way[n] -= retired[n]

    def decide(self, source: int, ended: list[bool]) -> int:
        """Return who gets the next record of a source: itself, or who lies before it and finds nothing nearer."""
        takers = [source]
        while self.steals and len(takers) <= self.reach and ended[(takers[-1] - 1) % self.pes]:
            takers.append((takers[-1] - 1) % self.pes)
        return min(takers, key=lambda taker: self.under_way[taker])


async def begin(dut: Any) -> World:
    pes, reach = parameters()["pes"], parameters()["reach"]
    ports = [f"{port}__{n}" for port in ("i", "o") for n in range(pes)]
    dut.steals.value = 0
    bench = await start(dut, WorkStealer(pes, reach), manual=ports)
    return World(bench, pes, reach)


@cocotb.test()
@cocotb.parametrize(shares=[0, 1], willing=[1.0, 0.5], takes=[1.0, 0.6])
async def records_go_whole_to_one_or_the_other(dut: Any, shares: int, willing: float, takes: float) -> None:
    """Any number of records of any length, PEs of any speed; without sharing each gets its own."""
    world = await begin(dut)
    rng, pes = world.rng, world.pes
    for _ in range(5):
        world.steals, world.willing = shares, willing
        world.takes = [rng.choice((takes, takes, takes * rng.random())) + 0.02 for _ in range(pes)]
        world.retires = [rng.choice((0.05, 0.1, 0.5, 1.0)) for _ in range(pes)]
        counts = [rng.choice((0, 0, 1, 5, 20)) for _ in range(pes)]
        for n, count in enumerate(counts):
            for _ in range(count):
                world.send(n, rng.choice((1, 2, 3, 12)))
        before = [sum(got) for got in zip(*world.got, strict=True)]
        await world.run()
        assert [sum(got) for got in zip(*world.got, strict=True)] == [
            old + new for old, new in zip(before, counts, strict=True)
        ]
        others = sum(world.got[n][other] for n in range(pes) for other in range(pes) if n != other)
        assert shares or not others


@cocotb.test()
async def idle_pes_share_the_work(dut: Any) -> None:
    """Of equally fast PEs, of which one has all records, those that reach it do about as many as that one."""
    world = await begin(dut)
    pes, busy = world.pes, world.pes - 1
    helpers = [(busy - step) % pes for step in range(world.reach + 1)]
    world.steals, world.retires = 1, [0.1] * pes
    count = 50 * len(helpers)
    for _ in range(count):
        world.send(busy, 2)
    await world.run()
    shares = [world.got[n][busy] for n in range(pes)]
    assert sum(shares) == count
    for n, share in enumerate(shares):
        assert 25 <= share <= 75 if n in helpers else share == 0


@cocotb.test()
async def pes_can_have_as_many_as_there_are(dut: Any) -> None:
    """While none is done, each in turn gets as many as it can have; then as before."""
    world = await begin(dut)
    pes = world.pes
    for busy in {0, pes - 1}:
        world.steals, world.retires = 1, [0.0] * pes
        for _ in range(MOST * (world.reach + 1) + 3):
            world.send(busy, 1)
        await world.run(MOST * (world.reach + 1) + 10)
        assert world.under_way == [MOST * ((busy - n) % pes <= world.reach) for n in range(pes)]
        # One gets room at a time.
        for slow in (0.02, 0.3):
            world.retires = [slow] * pes
            await world.run(40 if slow < 0.1 else None)


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    world = await begin(dut)
    for n in range(20):
        world.steals, world.willing = n & 1, 0.7
        for source in range(world.pes):
            for _ in range(source * 4):
                world.send(source, 3)
        await world.run(world.rng.randrange(40))
        world.forget()
        await world.bench.reset()


@pytest.mark.parametrize(("pes", "reach"), [(1, 0), (2, 1), (5, 3)])
def test_work_stealer(pes: int, reach: int) -> None:
    sizes = {"pes": pes, "reach": reach}
    simulate(WorkStealer(**sizes), __name__, parameters=sizes, name=f"work_stealer_{pes}")


@pytest.mark.parametrize("reach", [-1, 3])
def test_sizes_are_checked(reach: int) -> None:
    with pytest.raises(ValueError, match=r"reach must be in 0\.\.2"):
        WorkStealer(3, reach)
