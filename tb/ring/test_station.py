"""Station: packets reach all that take them, once, in order of their source; latency, throughput, no deadlock."""

import random
from collections import defaultdict
from functools import partial
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from golden.contracts import PACKET_HEADER, PacketKind
from tb.harness import parameters, simulate
from tb.harness.bench import Bench, start
from tb.harness.formal import prove_all
from tb.ring.formal_station import PROOFS
from tb.ring.stations import LINK_WIDTH, RingOfStations

Packet = list[int]


def packet(source: int, destination: int, takers: int, number: int, flits: int) -> Packet:
    """Words of a packet; `number` makes it unlike all others."""
    header = PACKET_HEADER.pack(
        {"kind": PacketKind.FEATURE, "source": source, "destination": destination, "vid": takers | number << 16}
    )
    body = random.Random(number)
    return [header, *(body.getrandbits(LINK_WIDTH) for _ in range(flits - 1))]


def words(packets: list[Packet]) -> list[dict[str, int]]:
    return [{"data": word, "last": int(n == len(flits) - 1)} for flits in packets for n, word in enumerate(flits)]


class Traffic:
    """Packets sent by every chiplet, and what every chiplet has received from every source."""

    def __init__(self, bench: Bench, stations: int) -> None:
        self.bench, self.stations = bench, stations
        self.expected: dict[tuple[int, int], list[Packet]] = defaultdict(list)
        self.received: dict[tuple[int, int], list[Packet]] = defaultdict(list)
        self.arriving: dict[int, Packet] = defaultdict(list)
        self.number = 0
        for n in range(stations):
            bench.take(f"o__{n}", partial(self._arrives, n))

    def _arrives(self, n: int, word: dict[str, int]) -> None:
        self.arriving[n].append(word["data"])
        if word["last"]:
            flits = self.arriving.pop(n)
            self.received[PACKET_HEADER.unpack(flits[0])["source"], n].append(flits)

    def send(self, source: int, destination: int, takers: int, flits: int) -> None:
        """Send a packet, of which the destination and all `takers` on the way are to get a copy."""
        self.number += 1
        takers |= 1 << destination
        flit_words = packet(source, destination, takers, self.number, flits)
        self.bench.drive(f"i__{source}", words([flit_words]))
        for hop in range(1, (destination - source) % self.stations + 1):
            at = (source + hop) % self.stations
            if takers >> at & 1:
                self.expected[source, at].append(flit_words)

    def random(self, count: int, max_flits: int, longest: bool = False) -> None:
        """Send `count` packets, all the way round if `longest`."""
        source: random.Random = self.bench.random
        for _ in range(count):
            at = source.randrange(self.stations)
            hops = self.stations - 1 if longest else source.randrange(1, self.stations)
            self.send(
                at, (at + hops) % self.stations, source.getrandbits(self.stations), source.randrange(1, max_flits + 1)
            )

    async def finish(self, timeout: int = 100_000) -> int:
        """Wait for all copies, compare, and return the cycles waited."""

        def count(side: dict[tuple[int, int], list[Packet]]) -> int:
            return sum(map(len, side.values()))

        wanted = count(self.expected)
        cycles = await self.bench.until(lambda: count(self.received) >= wanted, timeout)
        await self.bench.cycles(40)
        assert dict(self.received) == dict(self.expected)
        return cycles


async def begin(dut: Any, **pace: Any) -> tuple[Bench, Traffic]:
    component = RingOfStations(**parameters())
    bench = await start(dut, component, **pace)
    return bench, Traffic(bench, component.stations)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9])
async def every_taker_gets_every_packet_once(dut: Any, idle: float, stall: float) -> None:
    bench, traffic = await begin(dut, idle=0.0, stall=stall)
    bench.pace(idle=idle, stall=stall)
    traffic.random(300, parameters()["max_flits"])
    await traffic.finish()


@cocotb.test()
async def a_ring_that_all_want_to_fill_goes_on(dut: Any) -> None:
    """Nothing is taken until every buffer is as full as it can get, all the way round."""
    bench, traffic = await begin(dut, stall=1.0)
    traffic.random(200, parameters()["max_flits"], longest=True)
    await bench.cycles(600)
    assert not any(traffic.received.values())
    bench.pace(stall=0.0)
    await traffic.finish()


@cocotb.test()
async def a_stalled_chiplet_slows_the_ring_and_loses_nothing(dut: Any) -> None:
    bench, traffic = await begin(dut)
    traffic.random(200, parameters()["max_flits"])
    for _ in range(5):
        bench.pace(stall={"o__1": 1.0})
        await bench.cycles(300)
        bench.pace(stall={"o__1": 0.0})
        await bench.cycles(20)
    await traffic.finish()


@cocotb.test()
async def a_hop_takes_two_cycles(dut: Any) -> None:
    bench, traffic = await begin(dut)
    stations = parameters()["stations"]
    times: dict[int, int] = {}
    edge = RisingEdge(dut.clk)
    traffic.send(0, stations - 1, 0, 2)
    for _ in range(40):
        await edge
        for n in range(stations):
            if int(dut.links.value) >> n & 1:
                times.setdefault(n, bench.cycle)
    await traffic.finish()
    assert [times[n] - times[0] for n in range(stations - 1)] == [2 * n for n in range(stations - 1)]
    assert stations - 1 not in times


@cocotb.test()
async def links_stay_busy_under_saturating_traffic(dut: Any) -> None:
    """At least 0.95 flits a cycle on every link while all chiplets send all the time."""
    bench, traffic = await begin(dut)
    stations, flits = parameters()["stations"], parameters()["max_flits"]
    for _ in range(300):
        for n in range(stations):
            traffic.send(n, (n + stations - 1) % stations, 0, flits)
    await bench.cycles(200)
    busy = [0] * stations
    edge = RisingEdge(dut.clk)
    cycles = 1000
    for _ in range(cycles):
        await edge
        for n in range(stations):
            busy[n] += int(dut.links.value) >> n & 1
    dut._log.info("flits per cycle and link: %s", [count / cycles for count in busy])
    assert min(busy) >= 0.95 * cycles
    await traffic.finish()


@cocotb.test()
async def a_reset_empties_the_ring(dut: Any) -> None:
    bench, traffic = await begin(dut, stall=0.7)
    traffic.random(100, parameters()["max_flits"])
    await bench.cycles(150)
    await bench.reset()
    await bench.cycles(60)
    bench.pace(idle=0.1, stall=0.3)
    again = Traffic(bench, parameters()["stations"])
    again.random(100, parameters()["max_flits"])
    await again.finish()


def test_station() -> None:
    sizes = {"stations": 4, "slots": 4, "max_flits": 4}
    simulate(RingOfStations(**sizes), __name__, name="ring_of_stations", parameters=sizes)


def test_station_proofs() -> None:
    prove_all("station", PROOFS)
