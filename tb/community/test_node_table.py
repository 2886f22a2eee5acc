"""Node table: what is read and what is not, what is found on every port, one array for both scales; exact cycles."""

from typing import Any

import cocotb
import pytest

from contracts import SCALE
from hw.community.node_table import ARRAYS, Lookup, NodeTable
from hw.contracts import struct
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import codec
from sim.harness.expected import expect_cycles
from tb.graph.responder import Responder
from tb.harness.marks import full

#: Where each array begins, in words, and how many it has.
Places = list[tuple[int, int]]


class Table:
    """The memory beside the table, and what the table must know."""

    def __init__(self, bench: Bench, design: NodeTable) -> None:
        self.bench, self.dut, self.rng = bench, bench.dut, bench.random
        self.nodes, self.ports, self.beat_words = design.nodes, design.ports, design.data_width // 32
        self.addresses = 1 << len(bench.dut.addresses__0)
        self.memory = Responder(bench, "request", "beat", 4 * self.beat_words)
        self.change()
        self.forget()
        self.wanted: list[int] = []
        self.found: list[list[int]] = [[] for _ in ARRAYS]
        self.dut.start.value = self.dut.forget.value = self.dut.first.value = 0

    def change(self) -> None:
        """Write other words into the memory: a prime number of beats, so that every bit of an address counts."""
        self.memory.repeat = self.rng.randbytes(4 * self.beat_words * 251)

    def forget(self) -> None:
        """Nothing is there."""
        self.there: list[tuple[int, int] | None] = [None] * len(ARRAYS)

    def somewhere(self) -> int:
        """Return the word address of a beat from which on there is room for the longest array."""
        return self.rng.randrange((self.addresses - 2 * self.nodes) // self.beat_words) * self.beat_words

    def full(self) -> Places:
        """Return places of arrays for all vertices."""
        return [(self.somewhere(), self.nodes + (name == "offsets")) for name in ARRAYS]

    async def read(self, places: Places, first: int = 0) -> int:
        """Begin to read, the entries of `first` vertices before others; return the beats that must be asked for."""
        missing = [place[1] > 0 and place != there for place, there in zip(places, self.there, strict=True)]
        source, destination = ARRAYS.index("source"), ARRAYS.index("destination")
        twice = missing[source] and missing[destination] and places[source] == places[destination]
        self.first = first
        split = first // self.beat_words + 1 if first else 2 * self.nodes
        before: list[int] = []
        after: list[int] = []
        for n, (address, words) in enumerate(places):
            if missing[n]:
                self.there[n] = address, words
                self.found[n] = [self._word(address + at) for at in range(words)]
                if not (twice and n == destination):
                    beats = range(address // self.beat_words, (address + words - 1) // self.beat_words + 1)
                    before += beats[:split]
                    after += beats[split:]
        self.wanted, self.early = before + after, len(before)
        self.dut.first.value = first
        self.memory.asked.clear()
        for n, (address, words) in enumerate(places):
            getattr(self.dut, f"addresses__{n}").value = address
            getattr(self.dut, f"words__{n}").value = words
        await self.bench.pulse(self.dut.start)
        return len(self.wanted)

    def _word(self, address: int) -> int:
        beat = self.memory.beat(address // self.beat_words)
        return beat >> address % self.beat_words * 32 & 0xFFFFFFFF

    async def settle(self) -> int:
        """Wait until the table is not busy, from the cycle after the start; return the cycles. All was asked for.

        Vertices whose entries come first are looked up while those of others are read.
        """
        began = self.bench.cycle
        waited = await self._falls(self.dut.busy)
        if self.first:
            assert self.memory.asked[: self.early] == self.wanted[: self.early]
            await self.look_up(self.first + 1)
            await self._falls(self.dut.reading)
        assert self.memory.asked == self.wanted
        return waited - began - 1

    async def _falls(self, level: Any) -> int:
        """Wait until `level` is 0, at least a cycle; return the cycle."""
        began = self.bench.cycle
        while True:
            await self.bench.cycles(1)
            if not int(level.value):
                return self.bench.cycle
            assert self.bench.cycle - began < 5_000

    async def look_up(self, most: int | None = None) -> None:
        """Look up vertices that are known of on every port, each in another order, one a cycle: all, or the first."""
        lengths = [len(words[:most]) for words in self.found]
        count = max(lengths)
        orders = [self.rng.sample(range(count), count) for _ in range(self.ports)]
        for cycle in range(count + 2):
            for port, order in enumerate(orders):
                if cycle >= 2:
                    self._compare(port, order[cycle - 2])
                if cycle < count:
                    getattr(self.dut, f"vertex__{port}").value = order[cycle]
            await self.bench.cycles(1)

    def _compare(self, port: int, vertex: int) -> None:
        # A word has bits that a factor has not.
        scale, found = codec(struct(SCALE)), codec(Lookup).unpack(int(getattr(self.dut, f"found__{port}").value))
        for name, words in zip(("offset", "source", "destination"), self.found, strict=True):
            if vertex < len(words):
                wanted = words[vertex] if name == "offset" else scale.unpack(words[vertex])
                assert found[name] == wanted, f"{name} of {vertex} on port {port}"


async def begin(dut: Any, **pace: Any) -> Table:
    design = NodeTable(**parameters())
    return Table(await start(dut, design, **pace), design)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def what_is_there_is_not_read_again(dut: Any, idle: float, stall: float) -> None:
    """Arrays of any length at few places: most are there, some are one; at times nothing is there any more."""
    table = await begin(dut, idle=idle, stall=stall)
    rng = table.rng
    nodes = table.nodes
    table.memory.latency = rng.choice((0, 0, 10))
    spots = [table.somewhere() for _ in range(2)]
    read = kept = 0
    places = table.full()
    for _ in range(60):
        for n in range(len(ARRAYS)):
            if rng.random() < 0.4:
                length = rng.choice((nodes, nodes, nodes - 1, nodes // 2 + 1, 1, 0, rng.randrange(nodes)))
                places[n] = rng.choice(spots), length + (n == 0)
        if rng.random() < 0.2:
            places[2] = places[1]
        beats = await table.read(places, rng.choice((0, 1, rng.randrange(nodes + 1))))
        read += beats > 0
        kept += beats == 0
        if rng.random() < 0.1:
            await table.bench.pulse(dut.forget)
            table.forget()
        await table.settle()
        if rng.random() < 0.7:
            await table.look_up()
        if rng.random() < 0.2:
            await table.bench.pulse(dut.forget)
            table.forget()
            table.change()
    assert min(read, kept) > 2


@cocotb.test()
async def each_array_is_read_for_itself(dut: Any) -> None:
    """Another address or another length of any array, and nothing else is read."""
    table = await begin(dut)
    places = table.full()
    await table.read(places)
    await table.settle()
    for n, (address, words) in enumerate(places):
        bits = [1 << bit for bit in range((table.beat_words - 1).bit_length(), (table.addresses - 1).bit_length())]
        for place in (*((address ^ bit, words) for bit in bits), *((address, words ^ 1 << bit) for bit in range(3))):
            if place[0] + table.nodes >= table.addresses or place[1] > table.nodes + (n == 0):
                continue
            other = [place if m == n else same for m, same in enumerate(places)]
            assert await table.read(other) == -(-place[1] // table.beat_words)
            await table.settle()
            await table.look_up()
            assert not await table.read([place if m == n else (0, 0) for m in range(len(ARRAYS))])
            await table.settle()
            await table.look_up()
        places[n] = other[n]


@cocotb.test()
async def one_array_is_both_scales(dut: Any) -> None:
    """Read it once if neither is there, and for whom it is not there if one is."""
    table = await begin(dut)
    nodes = table.nodes
    beats = nodes // table.beat_words
    one, two = (table.somewhere(), nodes), (table.somewhere(), nodes)
    for source, destination, asked in (
        (one, one, beats),
        (two, one, beats),
        (two, two, beats),
        (one, one, beats),
        (one, (one[0], nodes - 1), beats),
        ((one[0], nodes - 1), (one[0], nodes - 1), beats),
        (two, one, 2 * beats),
        (one, two, 2 * beats),
        (two, two, beats),
        ((one[0], 0), one, beats),
        (one, (one[0], 0), beats),
        ((two[0], 1), (two[0], 1), 1),
        (one, two, 2 * beats),
        ((one[0], 1), (one[0], 2), 1 + -(-2 // table.beat_words)),
    ):
        assert await table.read([(one[0], 0), source, destination]) == asked
        await table.settle()
        await table.look_up()


@cocotb.test()
async def a_beat_is_read_in_every_cycle(dut: Any) -> None:
    table = await begin(dut)
    name = f"community.node_table.{table.nodes}"
    places = table.full()
    await table.read(places)
    expect_cycles(f"{name}.full", await table.settle())
    assert not await table.read(places)
    assert not await table.settle()
    await table.bench.pulse(dut.forget)
    table.forget()
    await table.read([places[0], places[1], places[1]])
    expect_cycles(f"{name}.both", await table.settle())
    await table.read([(0, 1), (0, 1), (table.beat_words, 1)])
    expect_cycles(f"{name}.one", await table.settle())
    await table.look_up()


@cocotb.test()
async def a_reset_leaves_nothing(dut: Any) -> None:
    table = await begin(dut)
    places = table.full()
    table.memory.latency = 3
    for cycles in (1, 2, 5, 8, 9, 12, 60):
        for again in range(2):
            await table.read(places if cycles % 2 else [places[0], places[1], places[1]])
            if not again:
                await table.bench.cycles(cycles)
                table.memory.forget()
                await table.bench.reset()
                table.memory.forget()
                table.forget()
                assert not int(dut.busy.value)
        await table.settle()
        await table.look_up()
        await table.bench.pulse(dut.forget)
        table.forget()


@pytest.mark.parametrize(
    ("nodes", "data_width", "ports"), [(64, 256, 2), (8, 64, 1), pytest.param(16, 128, 4, marks=full)]
)
def test_node_table(nodes: int, data_width: int, ports: int) -> None:
    sizes = {"nodes": nodes, "address_width": 13 if nodes == 8 else 32, "data_width": data_width, "ports": ports}
    simulate(NodeTable(**sizes), __name__, parameters=sizes, name=f"node_table_{nodes}")


@pytest.mark.parametrize("wrong", [{"nodes": 8}, {"nodes": 48}, {"nodes": 0}, {"nodes": 64, "ports": 0}])
def test_sizes_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"nodes must be a power of two from 16|ports must be at least 1"):
        NodeTable(**wrong)
