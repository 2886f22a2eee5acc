"""Tests of what makes packets, gives them out and takes them; `tb.ring.test_parts` runs them."""

import random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from contracts import PACKET_HEADER, Error, PacketKind
from sim.ring.parts import CHIPLETS, DATA, LINK, ROW_BEATS
from tb.ring.part_bench import ADDRESSES, MADE, PART, ROWS, WHOLE, beats_of, begin, pulse, row_settings, words

__all__ = [
    "a_packet_is_given_to_the_unit_for_its_kind",
    "a_packet_that_is_cut_off_is_ended",
    "packets_become_rows_in_memory",
    "packets_of_several_senders_stay_whole",
    "parts_are_sent_one_after_another",
    "rows_become_packets",
    "rows_leave_once_they_are_there",
]


def stored(address: int) -> int:
    """Return what lies at a beat address."""
    return random.Random(address).getrandbits(DATA)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def rows_become_packets(dut: Any, idle: float, stall: float) -> None:
    """Read each row and put a header in front of it, a flit a cycle."""
    bench = await begin(dut, idle=idle, stall=stall)
    source: random.Random = bench.random

    def answer(request: dict[str, int]) -> None:
        beats = [stored(request["address"] + n) for n in range(request["length"] + 1)]
        bench.drive("sender_beat", [{"data": beat, "last": n == request["length"]} for n, beat in enumerate(beats)])

    bench.take("sender_request", answer)
    for _ in range(8):
        rows = row_settings(source)
        position, backward, count = source.getrandbits(5), source.getrandbits(1), source.randrange(1, 9)
        dut.sender_rows.value = ROWS.pack(rows)
        dut.sender_position.value, dut.sender_backward.value = position, backward
        packets = []
        for _ in range(count):
            vid, destination = source.getrandbits(32), source.getrandbits(5)
            header = {
                "kind": PacketKind.FEATURE, "source": position, "destination": destination, "backward": backward,
                "elements": rows["elements"], "vid": vid,
            }  # fmt: skip
            first = rows["base"] + vid * rows["stride"]
            beats = [stored((first + n) % ADDRESSES) for n in range(rows["last_beat"] + 1)]
            flits = [beats[n // 2] >> LINK * (n % 2) & (1 << LINK) - 1 for n in range(rows["last_flit"] + 1)]
            packets.append([PACKET_HEADER.pack(header), *flits])
            bench.drive("sender_i", [{"vid": vid, "destination": destination}])
        bench.expect("sender_o", words(packets))
        began = bench.cycle
        assert int(dut.sender_idle.value) == 1
        await bench.cycles(3)
        assert idle or int(dut.sender_idle.value) == 0
        ended = await bench.drain(quiet=2)
        assert idle or stall or ended - began <= sum(map(len, packets)) + 11
        assert int(dut.sender_idle.value) == 1
    # A packet that nobody takes is under way.
    bench.pace(idle=idle, stall={"sender_o": 1.0})
    bench.drive("sender_i", [{"vid": vid, "destination": destination}])
    bench.expect("sender_o", words(packets[-1:]))
    await bench.cycles(100)
    assert int(dut.sender_idle.value) == 0
    bench.pace(idle=idle, stall={"sender_o": stall})
    await bench.drain(quiet=2)
    assert int(dut.sender_idle.value) == 1


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def parts_are_sent_one_after_another(dut: Any, idle: float, stall: float) -> None:
    """Each begins when it may and those before it are sent, asks for its tiles, and is named until it is sent."""
    bench = await begin(dut, idle=idle, stall=stall)
    source: random.Random = bench.random
    requests: list[dict[str, int]] = []
    bench.take("parts_out_tiles", requests.append)
    parts = [
        {
            "first_vertex": source.getrandbits(32),
            "out_tiles": {"address": source.getrandbits(30), "words": source.getrandbits(32)},
        }
        for _ in range(40)
    ]
    bench.drive("parts_i", parts)
    # A part is sent so many cycles after its tiles have been asked for; -1: none is being sent.
    left, began, ended = -1, 0, 0
    for _ in range(4000):
        go = source.getrandbits(1)
        dut.parts_go.value, dut.parts_sent.value = go, left == 0
        await RisingEdge(dut.clk)
        starts = int(dut.parts_start.value)
        assert not starts or (go and left < 0)
        if left >= 0:
            named = int(dut.parts_part.value)
            assert PART.unpack(named) == parts[began - 1]
            assert not int(dut.parts_idle.value)
            assert len(requests) <= began
        if left == 0:
            ended, left = ended + 1, -1
        elif starts:
            began, left = began + 1, source.randrange(2, 9)
        elif left > 1 or (left == 1 and len(requests) == began):
            left -= 1
        if ended == len(parts):
            break
    await bench.cycles(2)
    assert ended == began == len(parts)
    assert requests == [part["out_tiles"] for part in parts]
    assert int(dut.parts_idle.value)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def rows_leave_once_they_are_there(dut: Any, idle: float, stall: float) -> None:
    """Those of a COMBINE: none before it begins, then those below the limit, all others when it has ended."""
    bench = await begin(dut, idle=idle, stall=stall)
    source: random.Random = bench.random
    left: list[int] = []
    bench.take("gate_o", lambda row: left.append(row["vid"]))

    async def tell(**made: int) -> None:
        dut.gate_made.value = MADE.pack({"known": 1, "begins": 0, "going": 0, "limit": source.getrandbits(32), **made})
        await RisingEdge(dut.clk)

    async def settled(rows: list[int]) -> None:
        for _ in range(20 + 8 * len(rows)):
            await RisingEdge(dut.clk)
        assert left == rows

    for turn in range(12):
        left.clear()
        first = source.randrange(1 << 31)
        rows = sorted(source.sample(range(first, first + 100), 20))
        await tell()
        await pulse(dut, "gate_follows")
        assert int(dut.gate_expects.value)
        bench.drive("gate_i", [{"vid": vid, "destination": source.randrange(CHIPLETS)} for vid in rows])
        await settled([])
        if turn % 4 == 3:
            # No COMBINE comes, after an error.
            await pulse(dut, "gate_failed")
        elif turn % 4 == 2:
            # A PROCESS begins instead.
            await tell(begins=1)
            await tell()
        else:
            await tell(begins=1)
            await tell(going=1, limit=first)
            assert not int(dut.gate_expects.value)
            await settled([])
            limit = first
            while limit < first + 100 and (turn % 4 == 0 or limit < first + 50):
                limit += source.randrange(1, 30)
                await tell(going=1, limit=limit)
                await settled([vid for vid in rows if vid < limit])
            await tell()
        await settled(rows)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def packets_become_rows_in_memory(dut: Any, idle: float, stall: float) -> None:
    """Those of another length are reported with their VID, and write nothing behind their row."""
    bench = await begin(dut, idle=idle, stall=stall)
    source: random.Random = bench.random
    errors: list[dict[str, int]] = []
    bench.take("halo_error", errors.append)
    written: list[int] = []

    async def watch() -> None:
        while True:
            await bench.cycles(1)
            written.append(int(dut.halo_written.value))

    cocotb.start_soon(watch())
    for _ in range(12):
        rows = row_settings(source)
        dut.halo_rows.value = ROWS.pack(rows)
        packets, bad = [], []
        for _ in range(6):
            vid, length = source.getrandbits(32), rows["last_flit"] + 1
            if source.random() < 0.4:
                length = source.randrange(2 * ROW_BEATS + 3)
            header = PACKET_HEADER.pack({"vid": vid, "kind": PacketKind.FEATURE, "source": source.getrandbits(5)})
            flits = [source.getrandbits(LINK) for _ in range(length)]
            packets.append([header, *flits])
            if length != rows["last_flit"] + 1:
                bad.append({"code": Error.BAD_PACKET, "info": vid})
            # Of a packet that is too long, the beats that end within the row.
            fits = flits if length <= rows["last_flit"] + 1 else flits[: (rows["last_flit"] + 1) // 2 * 2]
            for n, beat in enumerate(beats_of(fits)):
                address = (rows["base"] + vid * rows["stride"] + n) % ADDRESSES
                bench.expect("halo_o", [{"address": address, "data": beat, "strobe": WHOLE}])
        errors.clear()
        written.clear()
        began = bench.cycle
        bench.drive("halo_i", words(packets))
        assert int(dut.halo_idle.value) == 1
        await bench.cycles(4)
        # A packet of no more flits may have gone by then.
        assert idle or len(packets[0]) < 6 or int(dut.halo_idle.value) == 0
        await bench.drain(quiet=2)
        assert idle or stall or bench.cycle - began <= sum(map(len, packets)) + 6
        assert errors == bad
        assert int(dut.halo_idle.value) == 1
        # With the last beat of each row that is no longer than it may be.
        assert sum(written) == sum(1 < len(packet) <= rows["last_flit"] + 2 for packet in packets)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.5])
async def packets_of_several_senders_stay_whole(dut: Any, idle: float, stall: float) -> None:
    """Hand packets on without gaps, each sender's in order, and of those that wait the lowest sender's first."""
    bench = await begin(dut, idle=idle, stall=stall)
    source: random.Random = bench.random
    sent: list[list[list[int]]] = [[], [], []]
    for n in range(3):
        for _ in range(25):
            flits = [source.getrandbits(LINK) for _ in range(source.randrange(1, 5))]
            sent[n].append([n | flits[0] & ~3, *flits[1:]])
        bench.drive(f"queue_i__{n}", words(sent[n]))
    came: list[list[int]] = [[]]
    order: list[int] = []

    def arrives(flit: dict[str, int]) -> None:
        came[-1].append(flit["data"])
        if flit["last"]:
            order.append(came[-1][0] & 3)
            came.append([])

    bench.take("queue_o", arrives)
    edge = RisingEdge(dut.clk)
    inside = False
    for _ in range(1500):
        await edge
        # What has begun goes on in each cycle.
        assert not inside or int(dut.queue_o__valid.value)
        if int(dut.queue_o__valid.value) and int(dut.queue_o__ready.value):
            inside = not int(dut.queue_o__payload.value) >> LINK
        if len(order) == 75:
            break
    assert [[packet for packet in came[:-1] if packet[0] & 3 == n] for n in range(3)] == sent
    if not idle:
        assert order == sorted(order)
    await bench.cycles(10)
    assert came[-1] == []


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def a_packet_is_given_to_the_unit_for_its_kind(dut: Any, idle: float, stall: float) -> None:
    """Once stopped, partial sums go nowhere, whether somebody takes them or not."""
    bench = await begin(dut, idle=idle, stall=stall)
    source: random.Random = bench.random
    for stopped in (0, 1):
        if stopped:
            bench.pace(stall={"packet_router_partials": 1.0})
        dut.packet_router_stopped.value = stopped
        await bench.cycles(2)
        packets = {kind: [] for kind in PacketKind}  # type: ignore[var-annotated]
        for _ in range(60):
            kind = source.choice([kind for kind in PacketKind if kind != PacketKind.LINES])
            length = 1 if kind == PacketKind.CONTROL else source.randrange(1, 6)
            flits = [source.getrandbits(LINK) for _ in range(length)]
            packets[kind].append([flits[0] & ~3 | kind, *flits[1:]])
            bench.drive("packet_router_i", words(packets[kind][-1:]))
        bench.expect("packet_router_features", words(packets[PacketKind.FEATURE]))
        bench.expect("packet_router_control", words(packets[PacketKind.CONTROL]))
        bench.expect("packet_router_partials", [] if stopped else words(packets[PacketKind.PARTIAL]))
        await bench.drain()


@cocotb.test()
async def a_packet_that_is_cut_off_is_ended(dut: Any) -> None:
    """Between packets nothing comes once it is stopped; within one, a last flit."""
    bench = await begin(dut, stall=0.5)
    for length, begun in ((3, 0), (3, 1), (3, 2), (3, 3), (1, 0), (1, 1)):
        flits = [bench.random.getrandbits(LINK) for _ in range(length)]
        got: list[dict[str, int]] = []
        bench.take("guard_o", got.append)
        bench.drive("guard_i", words([flits])[:begun])
        await bench.cycles(20)
        assert got == words([flits])[:begun]
        dut.guard_stopped.value = 1
        bench.drive("guard_i", words([flits])[begun:])
        await bench.cycles(30)
        assert bench.drivers["guard_i"].busy_words == length - begun
        cut = 0 < begun < length
        assert len(got) == begun + cut
        assert not cut or got[-1]["last"]
        dut.guard_stopped.value = 0
        await bench.reset()
