"""Packets that cross a ring of stations, and what every chiplet has to receive."""

import random
from collections import defaultdict
from functools import partial

from contracts import PACKET_HEADER
from sim.harness.bench import Bench
from sim.ring.stations import LINK_WIDTH

__all__ = ["Packet", "Traffic", "packet", "words"]

Packet = list[int]


def packet(source: int, destination: int, takers: int, number: int, flits: int) -> Packet:
    """Words of a packet; `number` makes it unlike all others. Behind the header no word looks like one."""
    body = random.Random(number)
    fields = {"source": source, "destination": destination, "vid": takers | number << 16}
    # All other fields are anything.
    others = {name: body.getrandbits(bits) for name, bits in (("kind", 1), ("pass_", 1), ("elements", 12))}
    header = PACKET_HEADER.pack({**fields, **others, "backward": number & 1, "weighted": number >> 1 & 1})
    header |= body.getrandbits(5) << 59
    return [header, *(body.getrandbits(LINK_WIDTH) | 2 for _ in range(flits - 1))]


def words(packets: list[Packet]) -> list[dict[str, int]]:
    """Flits of `packets`, each with its last one marked."""
    return [{"data": word, "last": int(n == len(flits) - 1)} for flits in packets for n, word in enumerate(flits)]


class Traffic:
    """Packets sent by every chiplet, and what every chiplet has received from every source."""

    def __init__(self, bench: Bench, stations: int) -> None:
        self.bench, self.stations = bench, stations
        self.expected: dict[tuple[int, int], list[Packet]] = defaultdict(list)
        self.received: dict[tuple[int, int], list[Packet]] = defaultdict(list)
        self.arriving: dict[int, Packet] = defaultdict(list)
        self.number = 0
        #: Packets that enter, or pass, by station; headers that are judged there.
        self.enter, self.pass_, self.judged = [0] * stations, [0] * stations, [0] * stations
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
        self.enter[source] += 1
        for hop in range(1, (destination - source) % self.stations + 1):
            at = (source + hop) % self.stations
            self.judged[at] += 1
            self.pass_[at] += at != destination
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
