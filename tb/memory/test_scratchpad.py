"""Scratchpad and scratch gates: every client gets its beats in order, of the scratchpad or of memory; exact cycles."""

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any

import cocotb
import pytest

from contracts import LINE_BYTES, PAGE_BYTES
from hw.memory.scratch_gate import ScratchGate
from hw.memory.scratchpad import Scratchpad
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.formal import prove_all
from sim.memory.scratch_side import ScratchSide
from tb.memory.formal_scratch_gate import PROOFS

#: Cycles from the one in which a client's burst is taken to its first beat: a slice, two arbiters, memory.
LATENCY = 5
#: Bursts whose cycles are counted, and the beats that they come back to.
BURSTS, ROUND = 64, 64


def design() -> ScratchSide:
    return ScratchSide(**parameters())


class World:
    """The design, a memory behind each client's port, and what both hold.

    Attributes
    ----------
    here
        Beats, from the first of the scratchpad up to before its end.
    held
        Contents by beat.
    """

    def __init__(self, bench: Bench, first: int, end: int, dut: Any) -> None:
        self.bench, self.block, self.dut = bench, design(), dut
        self.beats_of_line = LINE_BYTES * 8 // self.block.data_width
        self.here = range(first * self.beats_of_line, end * self.beats_of_line)
        self.held: dict[int, int] = {}
        self.outside: deque[tuple[int, dict[str, int]]] = deque()
        for client in range(self.block.units * self.block.clients):
            bench.take(f"to_memory__{client}", partial(self._asked, client))

    def _asked(self, client: int, burst: dict[str, int]) -> None:
        assert burst["address"] not in self.here
        self.outside.append((client, burst))

    def beat(self, address: int) -> dict[str, int]:
        """Return what is read at an address; memory fails at every seventh."""
        error = int(address not in self.here and address % 7 == 3)
        return {
            "data": self.held.setdefault(address, self.bench.random.getrandbits(self.block.data_width)),
            "error": error,
        }

    def burst(self) -> tuple[int, int]:
        """Return address and beats of any burst near the scratchpad's lines, in one page."""
        page = PAGE_BYTES * 8 // self.block.data_width
        source, last = self.bench.random, self.here.stop + page
        address = source.choice((source.choice(self.here), source.randrange(max(0, self.here.start - page), last)))
        room = page - address % page
        if address < self.here.start:
            room = min(room, self.here.start - address)
        return address, source.choice((1, source.randint(1, min(16, room))))

    def ask(self, client: int, bursts: list[tuple[int, int]]) -> None:
        """Have a client read bursts."""
        self.bench.drive(f"requests__{client}", [{"address": at, "length": count - 1} for at, count in bursts])
        self.bench.expect(
            f"beats__{client}",
            [{**self.beat(at + n), "last": int(n == count - 1)} for at, count in bursts for n in range(count)],
        )

    async def answer(self, patience: float) -> None:
        """Answer bursts to memory, those of different clients in any order, until all expected beats have come."""
        source, bench = self.bench.random, self.bench
        while any(bench.expected[f"beats__{n}"] for n in range(self.block.units * self.block.clients)):
            if self.outside and source.random() > patience:
                client = source.choice(self.outside)[0]
                burst = next(burst for number, burst in self.outside if number == client)
                self.outside.remove((client, burst))
                beats = range(burst["address"], burst["address"] + burst["length"] + 1)
                words = [{**self.beat(at), "last": int(at == beats[-1])} for at in beats]
                bench.drive(f"from_memory__{client}", words)
            await bench.cycles(1)

    async def write(self, unit: int, addresses: list[int]) -> None:
        """Write beats, half of them with strobes, and wait until they are in the scratchpad."""
        source, width = self.bench.random, self.block.data_width // 8
        left = []
        for address in addresses:
            word, strobe = source.getrandbits(8 * width), source.choice((source.getrandbits(width), (1 << width) - 1))
            mask = sum(0xFF << 8 * n for n in range(width) if strobe >> n & 1)
            request = {"address": address, "data": word, "strobe": strobe}
            self.bench.drive(f"writes__{unit}", [request])
            if address in self.here:
                self.held[address] = (self.beat(address)["data"] & ~mask) | (word & mask)
            else:
                left.append(request)
        self.bench.expect(f"to_write__{unit}", left)
        await self.bench.drain()
        while int(self.dut.busy.value) >> unit & 1:
            await self.bench.cycles(1)


async def begin(dut: Any, first: int = 37, lines: int | None = None, **pace: Any) -> World:
    """Start with a scratchpad from line `first` on, which ends with a page; all of it is written."""
    bench, block = await start(dut, design(), **pace), design()
    page = PAGE_BYTES // LINE_BYTES
    end = (first + (block.lines if lines is None else lines)) // page * page if lines != 0 else first
    dut.first.value, dut.end.value = first, end
    await bench.cycles(1)
    world = World(bench, first, end, dut)
    world.held |= dict.fromkeys(world.here, 0)
    whole = (1 << block.data_width // 8) - 1
    words = {at: bench.random.getrandbits(block.data_width) for at in world.here}
    for at, data in words.items():
        bench.drive("writes__0", [{"address": at, "data": data, "strobe": whole}])
    world.held |= words
    await bench.drain(100_000)
    await bench.cycles(3)
    return world


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], patience=[0.0, 0.5, 0.95])
async def each_client_gets_its_beats_in_order(dut: Any, idle: float, patience: float) -> None:
    world = await begin(dut)
    world.bench.pace(idle={f"requests__{n}": idle for n in range(world.block.units * world.block.clients)})
    for client in range(world.block.units * world.block.clients):
        world.ask(client, [world.burst() for _ in range(60)])
    await world.answer(patience)
    await world.bench.drain()


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def what_was_written_is_read(dut: Any, idle: float, stall: float) -> None:
    """Units write in turn, here and elsewhere, and all clients read it."""
    world = await begin(dut)
    units, clients = world.block.units, world.block.clients
    world.bench.pace(
        idle={f"writes__{n}": idle for n in range(units)}, stall={f"to_write__{n}": stall for n in range(units)}
    )
    for turn in range(4):
        addresses = [world.burst()[0] for _ in range(80)]
        await world.write(turn % units, addresses)
        mine = [at for at in addresses if at in world.here]
        for client in range(units * clients):
            world.ask(client, [(at, 1) for at in mine])
        await world.answer(0.0)
        await world.bench.drain()


@cocotb.test()
async def a_beat_passes_in_every_cycle(dut: Any) -> None:
    world = await begin(dut)
    bench = world.bench
    for size in (1, 4, 16):
        first = -(-world.here.start // 16) * 16
        bursts = [(first + size * n % ROUND, size) for n in range(BURSTS)]
        began = bench.cycle
        world.ask(0, bursts)
        # Each arbiter may stand on another input; a few bursts under way do not fill the time until they are answered.
        limit = LATENCY + 2 if size * world.block.outstanding > LATENCY + 2 else BURSTS * LATENCY
        assert await bench.drain() - began - BURSTS * size in range(LATENCY, limit + 1), size


@cocotb.test()
async def without_lines_all_goes_to_memory(dut: Any) -> None:
    world = await begin(dut, lines=0)
    world.held.clear()
    for client in range(world.block.units * world.block.clients):
        world.ask(client, [(n * 16, 1 + n % 16) for n in range(40)])
    await world.answer(0.3)
    await world.write(0, list(range(50)))


@cocotb.test()
async def a_reset_ends_bursts(dut: Any) -> None:
    world = await begin(dut)
    bench = world.bench

    def mixed() -> Iterator[tuple[int, int]]:
        while True:
            yield world.burst()

    bursts = mixed()
    for cycles in range(1, 12):
        for client in range(world.block.clients):
            world.ask(client, [next(bursts) for _ in range(3)])
        await bench.cycles(cycles)
        await bench.reset()
        world.outside.clear()
        world.ask(world.block.clients - 1, [next(bursts) for _ in range(4)])
        await world.answer(0.2)
        await bench.drain()


@pytest.mark.parametrize(
    ("data_width", "units", "clients", "outstanding"),
    [(64, 2, 2, 4), (256, 1, 1, 64), (128, 3, 4, 8)],
    ids=["64 bits", "alone", "three units"],
)
def test_scratchpad(data_width: int, units: int, clients: int, outstanding: int) -> None:
    given = {
        "lines": 128, "data_width": data_width, "units": units, "clients": clients, "outstanding": outstanding,
    }  # fmt: skip
    simulate(ScratchSide(**given), __name__, parameters=given)


def test_proofs() -> None:
    prove_all("scratch_gate", PROOFS)


@pytest.mark.parametrize("wrong", [{"lines": 96}, {"lines": 0}, {"lines": 128, "units": 0}])
def test_sizes_of_the_scratchpad_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        Scratchpad(**wrong)


@pytest.mark.parametrize("clients", [0, 17])
def test_clients_of_the_gate_are_checked(clients: int) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        ScratchGate(128, clients=clients)
