"""Shared lines: bursts of a divided graph from own memory and ring, in order; requests of others; what goes wrong."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

import cocotb
import pytest

from contracts import PACKET_HEADER, PACKET_LINES, Error, PacketKind
from hw.ring.formats import RingConfig
from hw.ring.line_formats import ARRAYS
from hw.ring.shared_lines import LineTableRequest, SharedLines
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec
from sim.harness.formal import check, prove_all
from tb.ring.formal_lines import PROOFS, REFUTED

#: Bits of what an error says, and of a beat's number in field `vid` of a packet.
INFO = VID = 1 << 32


def shared_lines(data: int, link: int, chiplets: int, requests: int, reply_beats: int, address: int) -> SharedLines:
    config = RingConfig(chiplets=chiplets, link_width=link, max_out=1, requests=requests, reply_beats=reply_beats)
    return SharedLines(config, address, data, 16)


class Beats(Sequence[int]):
    """So many random beats of `width` bits, which may be more than there is memory for."""

    def __init__(self, random: Random, width: int, count: int) -> None:
        self._seed, self._width, self._count = random.getrandbits(64), width, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(self._count))]
        if not 0 <= at < self._count:
            raise IndexError(at)
        return Random(self._seed + at).getrandbits(self._width)


class World:
    """A chiplet's shared lines, its memory, and all other chiplets.

    Attributes
    ----------
    graph
        Beats of the graph: few, or with addresses of more than 32 bits billions.
    some
        Those that are read: all, or of billions those near borders and some others.
    bad
        Lines that no memory can read.
    beats, failures, replies
        What came out.
    hold
        Whether the other chiplets do not answer.
    sleeps
        Whether the own memory does not.
    """

    def __init__(self, dut: Any, bench: Bench) -> None:
        self.dut, self.bench, self.random = dut, bench, bench.random
        given = parameters()
        self.address, self.far = given["address"], given["address"] > 32
        #: Lines from the beginning of a part in the own memory to that of another one.
        self.apart = 1 << 31 if self.far else 64
        self.width, self.link, self.most = given["data"], given["link"], given["chiplets"]
        self.slots, self.longest = given["requests"], given["reply_beats"]
        self.line = 512 // self.width  # beats of a line
        self.beats, self.failures = list[dict[str, int]](), list[dict[str, int]]()
        self.errors = list[dict[str, int]]()
        self.due, self.packet = list[list[int]](), list[int]()
        self.replies, self.asked = list[list[int]](), list[tuple[int, int]]()
        self.bad, self.hold, self.sleeps = set[int](), False, False
        self.read: list[deque[tuple[int, int]]] = [deque(), deque()]
        bench.take("lines__beats", self.beats.append)
        bench.take("lines__failure", self.failures.append)
        bench.take("error", self.errors.append)
        bench.take("requests", self._hear)
        bench.take("replies", self._collect)
        for n in range(2):
            bench.take(f"readers__{n}__request", partial(self._note, self.read[n]))

    async def share(self, sizes: list[list[int]], position: int) -> None:
        """Load a table: lines of each chiplet in each array."""
        random, chiplets = self.random, len(sizes[0])
        self.position, self.firsts, at = position, list[int](), 0
        for count in (count for array in sizes for count in array):
            self.firsts.append(at)
            at += count if not self.far or count == 0 else random.randrange(1 << 27, 1 << 28)
        self.total, self.chiplets = at, chiplets
        places = range(1, 8) if self.far else range(8, 30)
        self.own = [self.apart * n + random.randrange(8) for n in random.sample(places, ARRAYS)]
        self.first = 64 * (random.randrange(1 << 27) if self.far else random.randrange(40, 60))
        self.graph = Beats(random, self.width, self.total * self.line)
        self.some: Sequence[int] = range(len(self.graph))
        if self.far:
            near = {line + step for line in (*self.firsts, self.total) for step in range(-3, 4)}
            near |= {random.randrange(self.total) for _ in range(20)}
            lines = sorted(line for line in near if 0 <= line < self.total)
            self.some = [line * self.line + n for line in lines for n in range(self.line)]
        self.dut.position.value, self.dut.chiplets.value = position, chiplets
        given = {"table": random.getrandbits(10), "graph": self.first, "own": self.own}
        self.dut.given.value = Codec(LineTableRequest(self.address)).pack(given)
        self.bench.expect("table", [{"address": given["table"], "words": ARRAYS * chiplets + 1}])
        await self.bench.pulse(self.dut.start, 2)
        assert not int(self.dut.done.value)
        # Operands are gone once the request is taken.
        words = [*self.firsts, self.total]
        await self.bench.until(lambda: not self.bench.expected["table"])
        self.dut.given.value = 0
        self.bench.drive("words", [
            {"data": word, "last": int(n == len(words) - 1), "error": 0, "empty": 0} for n, word in enumerate(words)
        ])  # fmt: skip
        while not int(self.dut.done.value):
            await self.bench.cycles(1)
        await self.bench.cycles(3)
        assert int(self.dut.lines__first.value) == self.first
        assert int(self.dut.lines__end.value) == self.first + self.total

    def owner(self, beat: int) -> tuple[int, int]:
        """Return array and owner of a beat: the last that begins before it."""
        return divmod(bisect_right(self.firsts, beat // self.line) - 1, self.chiplets)

    def header(self, beat: int, count: int, tag: int, source: int, to: int, reply: int = 0) -> int:
        """Return the header of a packet."""
        lines = PACKET_LINES.pack({"last_beat": count - 1, "tag": tag, "reply": reply})
        fields = {"kind": PacketKind.LINES, "source": source, "destination": to, "elements": lines}
        return PACKET_HEADER.pack({**fields, "vid": beat % VID, "high": beat // VID})

    def lines(self) -> list[int]:
        """Return the lines of bursts that begin among `some`."""
        longest = 16 // self.line + 1
        found = {at // self.line + n for at in self.some for n in range(longest)}
        return sorted(line for line in found if line < self.total)

    def flits(self, beat: int, count: int) -> list[int]:
        """Return the flits of some beats."""
        parts, mask = self.width // self.link, (1 << self.link) - 1
        return [data >> (self.link * n) & mask for data in self.graph[beat : beat + count] for n in range(parts)]

    def is_bad(self, beat: int, count: int) -> bool:
        """Return whether one of some beats cannot be read."""
        return any(at // self.line in self.bad for at in range(beat, beat + count))

    def _note(self, bursts: deque[tuple[int, int]], burst: dict[str, int]) -> None:
        bursts.append((burst["address"], burst["length"]))

    def _hear(self, flit: dict[str, int]) -> None:
        """Take a request as its owner."""
        header = PACKET_HEADER.unpack(flit["data"] & ((1 << 64) - 1))
        lines = PACKET_LINES.unpack(header["elements"])
        beat, count, tag = beat_of(header), lines["last_beat"] + 1, lines["tag"]
        assert (flit["last"], header["kind"], header["source"]) == (1, PacketKind.LINES, self.position)
        assert (lines["reply"], header["destination"]) == (0, self.owner(beat)[1])
        assert header["destination"] != self.position
        assert count <= self.longest
        assert self.owner(beat) == self.owner(beat + count - 1)
        assert tag < self.slots
        assert len(self.due) < self.slots
        packet = [self.header(beat, count, tag, header["destination"], self.position, 1), *self.flits(beat, count)]
        if self.is_bad(beat, count):
            # Too long, or cut off anywhere.
            packet = self.random.choice([[*packet, 7], packet[: self.random.randrange(1, len(packet))]])
        self.due.append(packet)

    def _collect(self, flit: dict[str, int]) -> None:
        self.packet.append(flit["data"])
        if flit["last"]:
            self.replies.append(self.packet)
            self.packet = []

    def send(self, packet: list[int]) -> None:
        """Send a packet from the ring."""
        self.bench.drive("i", [{"data": flit, "last": int(n == len(packet) - 1)} for n, flit in enumerate(packet)])

    def ask(self, beat: int, count: int, tag: int, source: int) -> None:
        """Send a request of another chiplet."""
        self.asked.append((beat, count))
        self.send([self.header(beat, count, tag, source, self.position)])

    def reads(self, count: int, *, own: bool = False) -> list[tuple[int, int, int]]:
        """Read random bursts, or single beats of the `own` lines; return beat, beats and client of each."""
        random, bursts = self.random, list[tuple[int, int, int]]()
        beats = [at for at in self.some if not own or self.owner(at)[1] == self.position]
        for _ in range(count):
            beat, length = random.choice(beats), 1 if own else random.randint(1, 16)
            bursts.append((beat, min(length, len(self.graph) - beat), random.randrange(16)))
        self.bench.drive("lines__reads", [
            {"address": self.first * self.line + beat, "length": length - 1, "client": client}
            for beat, length, client in bursts
        ])  # fmt: skip
        return bursts

    async def run(self) -> None:
        """Be the memory, and the other chiplets, for ever."""
        random = self.random
        while True:
            for n, bursts in enumerate(self.read):
                if (
                    bursts
                    and not self.sleeps
                    and not self.bench.drivers[f"readers__{n}__beat"].busy_words
                    and random.random() < 0.4
                ):
                    self._answer(n, *bursts.popleft())
            if self.due and not self.hold and random.random() < 0.3:
                self.send(self.due.pop(random.randrange(len(self.due))))
            await self.bench.cycles(1)

    def _answer(self, reader: int, address: int, length: int) -> None:
        """Answer a burst to the memory, none of which crosses a line."""
        assert address // self.line == (address + length) // self.line
        line, words = address // self.line, []
        (array,) = [n for n, own in enumerate(self.own) if own <= line < own + self.apart - 8]
        at = line - self.own[array] + self.firsts[array * self.chiplets + self.position]
        for n in range(length + 1):
            beat = at * self.line + address % self.line + n
            assert self.owner(beat) == (array, self.position)
            bad = at in self.bad
            words.append({"data": 0 if bad else self.graph[beat], "error": int(bad), "last": int(n == length)})
        self.bench.drive(f"readers__{reader}__beat", words)

    async def reset(self) -> None:
        """Reset everything."""
        self.due.clear()
        for bursts in self.read:
            bursts.clear()
        await self.bench.reset()
        self.packet.clear()
        self._forget()

    def _forget(self) -> None:
        """Forget what has been read and answered."""
        for words in (self.beats, self.failures):
            words.clear()
        self.replies.clear()
        self.asked.clear()

    async def settled(self, bursts: list[tuple[int, int, int]]) -> None:
        """Wait for all beats and all replies, and compare them."""
        total = sum(count for _, count, _ in bursts)
        await self.bench.until(lambda: len(self.beats) == total and len(self.replies) == len(self.asked))
        await self.bench.cycles(4)
        assert len(self.beats) == total
        came, failed = iter(self.beats), set[int]()
        for beat, count, client in bursts:
            for n in range(count):
                got, bad = next(came), (beat + n) // self.line in self.bad
                assert (got["client"], got["last"]) == (client, int(n == count - 1))
                assert got["error"] or (not bad and got["data"] == self.graph[beat + n])
                near = range(max(beat, beat + n - self.longest + 1), min(beat + count, beat + n + self.longest))
                assert not got["error"] or self.is_bad(near[0], len(near))
                if got["error"]:
                    failed.add((self.first + (beat + n) // self.line) % INFO)
        assert {report["info"] for report in self.failures} <= failed
        assert all(report["code"] == Error.MEMORY_READ for report in self.failures)
        assert bool(self.failures) == bool(failed)
        # Replies come in the order of the requests.
        parts = self.width // self.link
        for (beat, count), packet in zip(self.asked, self.replies, strict=True):
            header, lines = PACKET_HEADER.unpack(packet[0] & ((1 << 64) - 1)), None
            lines = PACKET_LINES.unpack(header["elements"])
            assert (beat_of(header), lines["reply"], lines["last_beat"]) == (beat, 1, count - 1)
            assert header["source"] == self.position
            inside = beat < len(self.graph) and self.owner(beat)[1] == self.position
            length = 1 + count * parts + self.is_bad(beat, count) if inside else 1
            assert len(packet) == length
            if length == 1 + count * parts:
                assert packet[1:] == self.flits(beat, count)
        self._forget()


def beat_of(header: dict[str, int]) -> int:
    """Return the number of the first beat of a packet."""
    return header["vid"] + header["high"] * VID


def _sizes(world: World, chiplets: int) -> list[list[int]]:
    return [[world.random.choice((0, 1, 1, 2, 5)) for _ in range(chiplets)] for _ in range(ARRAYS)]


async def begin(dut: Any) -> World:
    component = shared_lines(
        **{name: parameters()[name] for name in ("data", "link", "chiplets", "requests", "reply_beats", "address")}
    )
    bench = await start(dut, component)
    dut.start.value = dut.cut.value = 0
    dut.given.value = dut.position.value = dut.chiplets.value = 0
    await bench.reset()
    world = World(dut, bench)
    cocotb.start_soon(world.run())
    return world


def others(world: World, count: int) -> None:
    """Have other chiplets ask for own lines, as many as may be on the way."""
    mine = [at for at in world.some if world.owner(at)[1] == world.position]
    for _ in range(count if mine and world.chiplets > 1 else 0):
        beat = world.random.choice(mine)
        length = world.random.randint(1, world.longest)
        while length > 1 and (beat + length > len(world.graph) or world.owner(beat + length - 1) != world.owner(beat)):
            length -= 1
        source = world.random.choice([n for n in range(world.chiplets) if n != world.position])
        world.ask(beat, length, world.random.randrange(world.slots), source)


@cocotb.test()
async def bursts_are_read_in_order_from_everywhere(dut: Any) -> None:
    """Any table, chiplets without lines, any place on the ring; both ways at once, with stalls."""
    world = await begin(dut)
    for chiplets in (1, *range(2, world.most + 1), world.most):
        sizes = _sizes(world, chiplets)
        sizes[world.random.randrange(ARRAYS)][world.random.randrange(chiplets)] += 9
        await world.share(sizes, world.random.randrange(chiplets))
        for idle, stall in ((0.0, 0.0), (0.5, 0.5), (0.1, 0.8)):
            world.bench.pace(idle=idle, stall={"requests": stall, "replies": stall, **_readers(stall)})
            bursts = world.reads(30)
            others(world, (world.most - 1) * world.slots)
            await world.settled(bursts)
    assert not world.errors


def _readers(stall: float) -> dict[str, float]:
    return {f"readers__{n}__request": stall for n in range(2)}


@cocotb.test()
async def what_cannot_be_read_fails_alone(dut: Any) -> None:
    """Lines of any memory that fail, replies that are cut off: errors of these pieces, with their lines."""
    world = await begin(dut)
    for _ in range(4):
        sizes = [[3] * world.most for _ in range(ARRAYS)]
        await world.share(sizes, world.random.randrange(world.most))
        world.bad = set(world.random.sample(world.lines(), 6))
        bursts = world.reads(40)
        others(world, (world.most - 1) * world.slots)
        await world.settled(bursts)
        world.bad = set()
        await world.settled(world.reads(10))
    assert not world.errors


@cocotb.test()
async def a_broken_ring_ends_all_reads_of_others(dut: Any) -> None:
    """Fail what is awaited at once, and later reads without a request; read own lines; drop late replies."""
    world = await begin(dut)
    await world.share([[3] * world.most for _ in range(ARRAYS)], 0)
    world.hold = True
    bursts = world.reads(20)
    await world.bench.cycles(200)
    assert 0 < len(world.due) <= world.slots
    *begun, rest = ({"data": flit, "last": 0} for flit in world.due.pop())
    world.bench.drive("i", begun)
    await world.bench.cycles(40)
    world.bad = {line for line in world.lines() if world.owner(line * world.line)[1]}
    dut.cut.value = 1
    await world.settled(bursts)
    # The rest of a packet comes when others have its slot.
    world.sleeps = True
    bursts = world.reads(world.slots, own=True)
    await world.bench.cycles(100)
    world.bench.drive("i", [{**rest, "last": 1}])
    await world.bench.cycles(20)
    world.sleeps = False
    await world.settled(bursts)
    world.hold = False
    while world.due:
        await world.bench.cycles(1)
    await world.settled(world.reads(20))
    assert not world.due
    assert not world.errors


@cocotb.test()
async def malformed_packets_are_reported(dut: Any) -> None:
    """Report stray replies, and requests with a body, for too many beats or foreign lines; the next one is answered."""
    world = await begin(dut)
    await world.share([[3] * world.most for _ in range(ARRAYS)], 1)
    foreign = next(at for at in world.some if world.owner(at)[1] == 0)
    mine = next(at for at in world.some if world.owner(at)[1] == 1)
    stray = world.header(mine, 1, 0, 0, 1, reply=1)
    for packet, beat in (
        ([stray, *world.flits(mine, 1)], mine),
        ([stray], mine),
        ([world.header(mine, 1, 0, 0, 1), 5, 6], mine),
        *([([world.header(mine, world.longest + 1, 0, 0, 1)], mine)] if world.longest < 16 else []),
    ):
        world.send(packet)
        await world.bench.until(lambda: bool(world.errors))
        assert world.errors == [{"code": Error.BAD_PACKET, "info": beat % INFO}]
        world.errors.clear()
        world.ask(mine, 1, 0, 0)
        await world.settled(world.reads(3))
    for beat in (foreign, len(world.graph) + 3):
        world.ask(beat, 1, 0, 0)
        await world.settled([])
        assert world.errors == [{"code": Error.BAD_PACKET, "info": beat % INFO}]
        world.errors.clear()


@cocotb.test()
async def a_reset_forgets_all(dut: Any) -> None:
    """In the middle of reads and replies; then the same work is done."""
    world = await begin(dut)
    for cycles in (1, 7, 40, 90):
        await world.share([[2] * world.most for _ in range(ARRAYS)], world.random.randrange(world.most))
        world.reads(20)
        others(world, world.slots)
        await world.bench.cycles(cycles)
        await world.reset()
        await world.share([[2] * world.most for _ in range(ARRAYS)], world.random.randrange(world.most))
        others(world, world.slots)
        await world.settled(world.reads(20))


SIZES = [
    {"data": 64, "link": 64, "chiplets": 2, "requests": 2, "reply_beats": 1, "address": 20},
    {"data": 256, "link": 64, "chiplets": 4, "requests": 4, "reply_beats": 8, "address": 20},
    {"data": 128, "link": 128, "chiplets": 3, "requests": 16, "reply_beats": 16, "address": 20},
    # More beats than a VID can count.
    {"data": 64, "link": 64, "chiplets": 4, "requests": 4, "reply_beats": 8, "address": 40},
]


@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: "-".join(map(str, sizes.values())))
def test_shared_lines(sizes: dict[str, int]) -> None:
    simulate(shared_lines(**sizes), __name__, name="ring_shared_lines", parameters=sizes)


def test_shared_lines_proofs() -> None:
    prove_all("ring.shared_lines", PROOFS)


def test_a_server_without_room_for_all_requests_is_refuted() -> None:
    verdict = check("ring.shared_lines", REFUTED)
    assert not verdict.passed
    assert "formal_lines.py" in verdict.message
