"""Tests of partial sums: own shares, and the way home; `tb.ring.test_parts` runs them."""

import random
from typing import Any

import cocotb
from amaranth.hdl import Const

from contracts import PACKET_HEADER, Error, PacketKind
from hw.pe.formats import Coefficient
from sim.ring.parts import LINK
from tb.ring.part_bench import ADDRESSES, ROWS, WHOLE, begin, pulse, row_settings, words

__all__ = ["hubs_without_entries_end_at_once", "shares_are_sums_of_rows", "sums_go_home_with_every_share"]

ZERO, SELF, NEIGHBOUR = (
    Const.cast(factor).value for factor in (Coefficient.ZERO, Coefficient.SELF, Coefficient.NEIGHBOUR)
)
#: Flits of sums that stand in a beat of values: eight values, two sums a flit.
PARTS = 4


def lanes(value: int, bits: int, count: int) -> list[int]:
    """Cut a number into `count` unsigned ones of `bits` bits, the lowest first."""
    return [value >> bits * n & (1 << bits) - 1 for n in range(count)]


def joined(values: list[int], bits: int) -> int:
    """Put numbers of `bits` bits one behind another, cut to size."""
    return sum((value & (1 << bits) - 1) << bits * n for n, value in enumerate(values))


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def shares_are_sums_of_rows(dut: Any, idle: float, stall: float) -> None:
    """Clear with the first row, add neighbours and nothing else; nothing rounds, and sums have all 32 bits."""
    bench = await begin(dut, idle=idle, stall=stall)
    source: random.Random = bench.random
    for turn in range(6):
        flits = source.randrange(1, 17)
        beats = -(-flits // PARTS)
        dut.adder_last_beat.value, dut.adder_last_flit.value = beats - 1, flits - 1
        sent = 0
        for _ in range(4):
            rows = source.randrange(1, 6) if turn else 100
            sums = [[0] * 8 for _ in range(beats)]
            for row in range(rows):
                factor = SELF
                if row:
                    factor = source.choice((NEIGHBOUR, NEIGHBOUR, ZERO))
                for beat in range(beats):
                    # Now and then the largest values, so that high bits of the sums count.
                    values = [source.choice((0x7FFF, 0x8000, source.getrandbits(16))) for _ in range(8)]
                    if turn == 0:
                        values = [0x7FFF, 0x8000] * 4
                    if factor == NEIGHBOUR:
                        for n, value in enumerate(values):
                            sums[beat][n] += value - (value >> 15 << 16)
                    last = row == rows - 1 and beat == beats - 1
                    given = {"data": joined(values, 16), "coefficient": factor, "first": row + beat == 0}
                    bench.drive("adder_i", [given | {"last": last}])
                    sent += 1
            packed = [joined(beat[2 * n : 2 * n + 2], 32) for beat in sums for n in range(PARTS)][:flits]
            bench.expect("adder_o", words([packed]))
        began = bench.cycle
        await bench.drain(quiet=2)
        assert idle or stall or bench.cycle - began <= sent + 4 * flits + 4


class Hub:
    """What one hub asks of the reducer at `position` of `chiplets`."""

    def __init__(self, source: random.Random, number: int, chiplets: int, position: int, flits: int) -> None:
        self.home, self.start = source.randrange(chiplets), source.randrange(chiplets)
        way, here = (self.home - self.start) % chiplets, (position - self.start) % chiplets
        self.on_way = way > 0 and here <= way
        self.starts, self.ends = self.on_way and here == 0, self.on_way and here == way
        self.share = [source.getrandbits(LINK) for _ in range(flits)]
        self.come = [source.getrandbits(LINK) for _ in range(flits)]
        # Now and then a packet of another hub; sums with a single bit, so that each one counts.
        self.vid = number if source.random() < 0.8 else number ^ 1 << source.randrange(32)
        if source.random() < 0.3:
            self.come = [1 << source.randrange(LINK) for _ in range(flits)]

    @property
    def sent(self) -> list[int]:
        """Flits that go on."""
        if self.starts:
            return self.share
        pairs = zip(self.share, self.come, strict=True)
        return [joined([x + y for x, y in zip(lanes(a, 32, 2), lanes(b, 32, 2), strict=True)], 32) for a, b in pairs]

    @property
    def stored(self) -> list[tuple[int, int]]:
        """Beats of low and of high halves that are written at home."""
        sums = [value for flit in self.come for value in lanes(flit, 32, 2)]
        low, high = [value & 0xFFFF for value in sums], [value + 0x8000 >> 16 for value in sums]
        return [(joined(low[n : n + 8], 16), joined(high[n : n + 8], 16)) for n in range(0, len(sums), 8)]


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def sums_go_home_with_every_share(dut: Any, idle: float, stall: float) -> None:
    """All roles in the sums of many hubs on rings of all sizes; packets of a hub that has not its turn are told."""
    bench = await begin(dut, idle=idle, stall=stall)
    source: random.Random = bench.random
    errors: list[dict[str, int]] = []
    bench.take("reducer_error", errors.append)
    for _ in range(10):
        chiplets = source.choice((2, 3, 5, 8, 16))
        position, first = source.randrange(chiplets), source.getrandbits(32)
        rows = row_settings(source)
        flits = source.randrange(1, 17)
        dut.reducer_position.value, dut.reducer_chiplets.value = position, chiplets
        dut.reducer_rows.value, dut.reducer_first_partial.value = ROWS.pack(rows), first
        hubs = [Hub(source, n, chiplets, position, flits) for n in range(source.randrange(1, 12))]
        wrong = []
        for n, hub in enumerate(hubs):
            bench.drive("reducer_hubs", [{"data": hub.home | hub.start << 8, "last": n == len(hubs) - 1}])
            bench.drive("reducer_share", words([hub.share]))
            if not hub.on_way:
                continue
            if not hub.starts:
                header = {"kind": PacketKind.PARTIAL, "source": source.getrandbits(5), "vid": hub.vid}
                bench.drive("reducer_i", words([[PACKET_HEADER.pack(header), *hub.come]]))
                wrong += [{"code": Error.BAD_PACKET, "info": hub.vid}] * (hub.vid != n)
            if hub.ends:
                for beat, halves in enumerate(hub.stored):
                    for upper, data in enumerate(halves):
                        address = rows["base"] + (first + 2 * n + upper) * rows["stride"] + beat
                        write = {"address": address % ADDRESSES, "data": data, "strobe": WHOLE}
                        bench.expect("reducer_write", [write])
            else:
                header = {
                    "kind": PacketKind.PARTIAL, "source": position, "destination": hub.home,
                    "elements": rows["elements"], "vid": n,
                }  # fmt: skip
                bench.expect("reducer_o", words([[PACKET_HEADER.pack(header), *hub.sent]]))
        errors.clear()
        assert int(dut.reducer_done.value) == 1
        await bench.cycles(2)
        began = bench.cycle
        await pulse(dut, "reducer_start")
        assert int(dut.reducer_done.value) == 0
        await bench.drain(quiet=0)
        # Where nothing waits: a cycle for the hub, one for the header, one for a flit, one more for each pair of beats.
        most = sum(2 + flits + hub.ends * (-(-flits // PARTS) + 2) for hub in hubs) + 8
        assert idle or stall or bench.cycle - began <= most
        await bench.cycles(6 if not stall else 40)
        assert int(dut.reducer_done.value) == 1
        assert errors == wrong


@cocotb.test()
async def hubs_without_entries_end_at_once(dut: Any) -> None:
    """Without a hub, the reducer only waits for the reader to say so."""
    bench = await begin(dut)
    await pulse(dut, "reducer_start")
    await bench.cycles(20)
    assert int(dut.reducer_done.value) == 0
    bench.drive("reducer_hubs", [{"last": 1, "empty": 1}])
    await bench.cycles(4)
    assert int(dut.reducer_done.value) == 1
