"""Edge feeder: every port gets its words in order, and nobody else's; what is for no port of the host is refused."""

from itertools import product
from random import Random
from typing import Any

import cocotb

from contracts import ArrayError
from contracts.dnp.board import BEAT
from contracts.dnp.topology import Grid, Topology
from hw.dnp.factories import edge_feeder
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

SIDE, DEPTH = 2, 3


class Feeder:
    """The block between a stream and all ports."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.dut = bench, bench.dut
        self.side, self.depth = parameters()["side"], parameters()["depth"]
        self.edges = Grid(self.side, self.side).edges()
        self.refusals: list[tuple[int, int]] = []
        self.taken = 0
        self.dut.topology.value = self.dut.host.value = 0
        cocotb.start_soon(self._watch())

    @classmethod
    async def make(cls, dut: Any) -> "Feeder":
        """Start the clock and reset."""
        feeder = cls(await start(dut, edge_feeder(parameters()["side"], parameters()["depth"])))
        await feeder.join(Topology.MESH, 0)
        return feeder

    async def _watch(self) -> None:
        while True:
            await self.bench.edge
            self.taken += int(self.dut.taken.value)
            refusal = int(self.dut.refusal.value)
            bits = len(self.dut.refusal) - 32
            if code := refusal & ((1 << bits) - 1):
                self.refusals.append((code, refusal >> bits))

    async def join(self, topology: Topology, host: int) -> None:
        """Join the edges while no word is there."""
        self.dut.topology.value, self.dut.host.value = topology, host
        await self.bench.cycles(2)

    def send(self, random: Random, grid: Grid, ports: list[int]) -> tuple[int, list[tuple[int, int]]]:
        """Send a word to each port and expect it there; return how many go on, and what is refused."""
        went = 0
        refused: list[tuple[int, int]] = []
        for port in ports:
            beat = {"word": random.getrandbits(16), "port": port, "kind": random.getrandbits(4)}
            self.bench.drive("i", [beat])
            if port < len(self.edges) and grid.joint(*self.edges[port]) is None:
                self.bench.expect(f"o__{port}", [beat["word"] - (beat["word"] >> 15 << 16)])
                went += 1
            else:
                refused.append((int(ArrayError.PORT), BEAT.pack(beat)))
        return went, refused


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.5])
async def words_go_to_their_ports_in_every_topology(dut: Any, pace: float) -> None:
    """Ports that are joined to others, and numbers beyond the last port, are refused."""
    feeder = await Feeder.make(dut)
    random = feeder.bench.random
    feeder.bench.pace(idle=pace, stall=pace)
    beyond = sorted({port | 1 << bit for bit in range(12) for port in (0, 1, 5)} - set(range(len(feeder.edges))))
    went, refused = 0, list[tuple[int, int]]()
    for topology, host in product(Topology, range(16)):
        await feeder.join(topology, host)
        sides = frozenset(side for side in range(4) if host >> side & 1)
        grid = Grid(feeder.side, feeder.side, topology, sides)
        ports = [*range(len(feeder.edges))] * 2 + beyond
        random.shuffle(ports)
        more, others = feeder.send(random, grid, ports)
        went, refused = went + more, refused + others
        await feeder.bench.drain()
    assert feeder.refusals == refused
    assert feeder.taken == went


@cocotb.test()
async def a_port_that_waits_holds_up_the_others_only_when_its_queue_is_full(dut: Any) -> None:
    feeder = await Feeder.make(dut)
    bench, grid = feeder.bench, Grid(feeder.side, feeder.side)
    room = feeder.depth + 2  # its queue and the register behind it
    for slow in range(len(feeder.edges)):
        bench.pace(stall={f"o__{slow}": 1.0})
        await bench.cycles(2)
        fast = (slow + 1) % len(feeder.edges)
        feeder.send(bench.random, grid, [slow] * room + [fast] * 20)
        await bench.cycles(room + 40)
        waiting = bench.drivers["i"].busy_words
        assert not waiting
        assert not bench.expected[f"o__{fast}"]
        assert len(bench.expected[f"o__{slow}"]) == room
        feeder.send(bench.random, grid, [slow, fast])
        await bench.cycles(40)
        waiting = bench.drivers["i"].busy_words
        assert waiting == 2
        bench.pace(stall={f"o__{slow}": 0.0})
        await bench.drain()


@cocotb.test()
async def a_word_passes_in_every_clock(dut: Any) -> None:
    feeder = await Feeder.make(dut)
    began = feeder.bench.cycle
    ports = [n % len(feeder.edges) for n in range(200)]
    feeder.send(feeder.bench.random, Grid(feeder.side, feeder.side), ports)
    assert await feeder.bench.drain() - began <= 200 + 4


@cocotb.test()
async def a_reset_drops_all_words(dut: Any) -> None:
    feeder = await Feeder.make(dut)
    bench, grid = feeder.bench, Grid(feeder.side, feeder.side)
    for clocks in range(1, 20):
        bench.pace(stall=1.0)
        feeder.send(bench.random, grid, [n % len(feeder.edges) for n in range(30)])
        await bench.cycles(clocks)
        await bench.reset()
        bench.pace(stall=0.0)
        await bench.cycles(8)
        feeder.send(bench.random, grid, [*range(len(feeder.edges))])
        await bench.drain()


def test_edge_feeder() -> None:
    simulate(edge_feeder(SIDE, DEPTH), __name__, parameters={"side": SIDE, "depth": DEPTH})
