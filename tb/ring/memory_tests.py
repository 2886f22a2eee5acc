"""Tests of what shares readers and the memory port; `tb.ring.test_parts` runs them."""

import random
from collections import deque
from collections.abc import Collection
from itertools import pairwise
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from hw.memory.axi import AXI4Signature
from sim.ring.parts import CLIENTS, DATA, IDS, OUTSTANDING
from tb.ring.part_bench import begin

__all__ = [
    "a_reader_serves_who_is_selected",
    "two_managers_share_a_port",
]

#: Words of a beat.
LANES = DATA // 32


def stored(address: int) -> int:
    """Return the word at a word address."""
    return random.Random(address).getrandbits(32)


def whole(beat: int) -> int:
    """Return the beat at a beat address."""
    return sum(stored(beat * LANES + lane) << 32 * lane for lane in range(LANES))


def burst(request: dict[str, int], bad: Collection[int] = ()) -> list[dict[str, int]]:
    """Return the beats of a request, of which those at the `bad` addresses fail."""
    first, length = request["address"], request["length"]
    return [
        {"data": whole(beat), "error": int(beat in bad), "last": int(beat == first + length)}
        for beat in range(first, first + length + 1)
    ]


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def a_reader_serves_who_is_selected(dut: Any, idle: float, stall: float) -> None:
    """Ranges anywhere, failures among them; another client that asks at the same time waits for its turn."""
    bench = await begin(dut, idle=idle, stall=stall)
    source: random.Random = bench.random
    bad: set[int] = set()

    def answer(request: dict[str, int]) -> None:
        bench.drive("reader_beat", burst(request, bad))

    bench.take("reader_request", answer)
    dut.reader_select.value = 0
    for turn in range(12):
        client = turn % CLIENTS
        count = source.choice((0, 1, 5, 40))
        address = source.randrange((1 << 30) - count)
        bad = {(address + source.randrange(count)) // LANES} if count and source.random() < 0.3 else set()
        words = [
            {"data": stored(at), "last": int(at == address + count - 1), "error": int(at // LANES in bad), "empty": 0}
            for at in range(address, address + count)
        ]
        other = (client + 1) % CLIENTS
        dut.reader_select.value = other
        await bench.cycles(2)
        bench.drive(f"reader_asks__{client}", [{"address": address, "words": count}])
        await bench.cycles(6)
        assert bench.drivers[f"reader_asks__{client}"].busy_words == 1
        bench.expect(f"reader_o__{client}", words or [{"data": 0, "last": 1, "error": 0, "empty": 1}])
        dut.reader_select.value = client
        began = bench.cycle
        ended = await bench.drain(quiet=2)
        assert idle or stall or ended - began <= count + 24


_NAMES = [name for name in AXI4Signature(32, DATA, IDS).members if not name.endswith(("valid", "ready"))]
#: Fields of every channel, and the channels on which managers send.
CHANNELS = {prefix: [name for name in _NAMES if name.startswith(prefix)] for prefix in ("ar", "aw", "w", "r", "b")}
SENT = ("ar", "aw", "w")
#: Cycles at the beginning in which no write data are taken.
HELD = 40


class Port:
    """Signals of one AXI4 port of the merge, and what waits at it."""

    def __init__(self, dut: Any, name: str) -> None:
        self.dut, self.name = dut, name
        self.waits: dict[str, deque[dict[str, int]]] = {channel: deque() for channel in CHANNELS}
        self.valid = dict.fromkeys(CHANNELS, False)

    def set(self, signal: str, value: int) -> None:
        """Set an input."""
        getattr(self.dut, f"{self.name}__{signal}").value = value

    def get(self, signal: str) -> int:
        """Return what the design saw or said."""
        return int(getattr(self.dut, f"{self.name}__{signal}").value)

    def offer(self, channel: str, source: random.Random, idle: float) -> None:
        """Show what waits; what has been shown stays until it is taken."""
        waits = self.waits[channel]
        self.valid[channel] = bool(waits) and (self.valid[channel] or source.random() >= idle)
        self.set(f"{channel}valid", int(self.valid[channel]))
        for name in CHANNELS[channel]:
            bits = len(getattr(self.dut, f"{self.name}__{name}"))
            value = waits[0][name] if self.valid[channel] else source.getrandbits(bits)
            self.set(name, value)

    def passes(self, channel: str) -> bool:
        """Whether a word passes."""
        return bool(self.get(f"{channel}valid") and self.get(f"{channel}ready"))

    def fields(self, channel: str) -> dict[str, int]:
        """Return what stands on a channel."""
        return {name: self.get(name) for name in CHANNELS[channel]}

    def taken(self, channel: str) -> dict[str, int] | None:
        """Take off what passed on a channel on which this port sends."""
        if not self.passes(channel):
            return None
        self.valid[channel] = False
        return self.waits[channel].popleft()


def anything(source: random.Random, channel: str, bits: dict[str, int]) -> dict[str, int]:
    """Return random fields."""
    return {name: source.getrandbits(bits[name]) for name in CHANNELS[channel]}


@cocotb.test()
@cocotb.parametrize(busy=[0.5, 1.0])
async def two_managers_share_a_port(dut: Any, busy: float) -> None:
    """Addresses in turn, data in the order of their addresses, answers to whom they belong; nothing is lost."""
    source = random.Random(random.getrandbits(32))
    outer, managers = Port(dut, "merge_o"), [Port(dut, f"merge_i__{n}") for n in range(2)]
    for channel in CHANNELS:
        senders, end = (managers, outer) if channel in SENT else ([outer], None)
        for port in senders:
            port.set(f"{channel}valid", 0)
        if end:
            end.set(f"{channel}ready", 0)
    await begin(dut)
    edge = RisingEdge(dut.clk)
    bits = {name: len(getattr(dut, f"merge_i__0__{name}")) for name in _NAMES}
    for port in managers:
        for _ in range(40):
            port.waits["ar"].append(anything(source, "ar", bits))
            port.waits["aw"].append(anything(source, "aw", bits))
            length = source.randrange(1, 5)
            port.waits["w"] += [anything(source, "w", bits) | {"wlast": int(n == length - 1)} for n in range(length)]
    beats = sum(len(port.waits["w"]) for port in managers)
    accepted: dict[str, deque[tuple[int, dict[str, int]]]] = {"ar": deque(), "aw": deque()}
    turns: dict[str, list[int]] = {"ar": [], "aw": []}
    order: deque[int] = deque()
    most = cycle = 0
    while any(waits for port in managers for waits in port.waits.values()) or any(accepted.values()):
        for channel in SENT:
            outer.set(f"{channel}ready", int(source.random() < busy and (channel != "w" or cycle >= HELD)))
            for port in managers:
                port.offer(channel, source, 1 - busy if channel != "aw" or cycle > HELD else 0.0)
        answers = {}
        for channel in ("r", "b"):
            answer = anything(source, channel, bits | {f"{channel}id": IDS + 1}) | {"valid": source.getrandbits(1)}
            answers[channel] = answer
            for name in CHANNELS[channel]:
                outer.set(name, answer[name])
            outer.set(f"{channel}valid", answer["valid"])
        await edge
        cycle += 1
        assert cycle < 3000
        for channel in ("ar", "aw"):
            if outer.passes(channel):
                n, word = accepted[channel].popleft()
                assert outer.fields(channel) == word | {f"{channel}id": n << IDS | word[f"{channel}id"]}
            for n, port in enumerate(managers):
                taken = port.taken(channel)
                if taken is not None:
                    accepted[channel].append((n, taken))
                    turns[channel].append(n)
        # Data of the first address that has not got all of them.
        passes = [port.passes("w") for port in managers]
        assert outer.passes("w") == any(passes)
        if any(passes):
            assert passes == [n == order[0] for n in range(2)]
            beat = managers[order[0]].taken("w")
            assert outer.fields("w") == beat
            if beat and beat["wlast"]:
                order.popleft()
        # The address of this cycle may have its first data in the next one.
        if outer.passes("aw"):
            order.append(outer.get("awid") >> IDS)
        most = max(most, len(order))
        assert (outer.get("rready"), outer.get("bready")) == (1, 1)
        for channel, answer in answers.items():
            owner, mine = divmod(answer[f"{channel}id"], 1 << IDS)
            assert [port.get(f"{channel}valid") for port in managers] == [
                answer["valid"] * (owner == n) for n in range(2)
            ]
            want = {name: answer[name] for name in CHANNELS[channel]} | {f"{channel}id": mine}
            assert managers[owner].fields(channel) == want
    assert most <= OUTSTANDING
    if busy == 1.0:
        # Both always want to: they take turns, addresses go out as far ahead as they may, and data have no gaps.
        assert all(one != two for one, two in pairwise(turns["ar"]))
        assert (most, cycle) == (OUTSTANDING, HELD + beats)
