"""Packer and unpacker: packets of any length and pace against a model of the link's format; a proof of the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cocotb
import pytest

from contracts import PACKET_HEADER, PARTIAL_BITS, VALUE_BITS, PacketKind
from hw.ring.formats import WORD
from hw.ring.packer import Packer
from hw.ring.unpacker import Unpacker
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.formal import prove_all
from sim.ring.side_by_side import SideBySide
from tb.ring.formal_packing import PROOFS

#: Bits of flits of units, and of the link.
SIZES = [(64, 128), (64, 512), (128, 128), (256, 256), (256, 512)]
FIELDS = {field.name: field for field in PACKET_HEADER.fields}
#: Bits of an element by kind of packet.
ELEMENT = {PacketKind.FEATURE: VALUE_BITS, PacketKind.PARTIAL: PARTIAL_BITS}


def packing(width: int, link_width: int) -> SideBySide:
    """Both; ports are called ``packer_i`` and so on."""
    return SideBySide({"packer": Packer(width, link_width), "unpacker": Unpacker(width, link_width)})


def on_link(bits: int, length: int, link_width: int) -> list[dict[str, int]]:
    """Flits of a packet that is `length` words of `bits`."""
    per = link_width // WORD
    counts = [min(per, length - first) for first in range(0, length, per)]
    return [
        {
            "data": bits >> link_width * n & (1 << WORD * count) - 1,
            **({"words": count - 1} if per > 1 else {}),
            "last": int(n == len(counts) - 1),
        }
        for n, count in enumerate(counts)
    ]


def of_unit(bits: int, length: int, width: int) -> list[dict[str, int]]:
    """Flits of a unit for the same packet: the header alone, then the rest."""
    rest, flits = bits >> WORD, -(-(length - 1) * WORD // width)
    data = [bits & (1 << WORD) - 1, *(rest >> width * n & (1 << width) - 1 for n in range(flits))]
    return [{"data": flit, "last": int(n == flits)} for n, flit in enumerate(data)]


def packets(bench: Bench, count: int, width: int, *, honest: bool) -> list[tuple[int, int]]:
    """Return bits and words of packets; those that are not `honest` have any length, whatever their header says."""
    found = []
    for _ in range(count):
        kind = bench.random.choice(list(PacketKind))
        elements = bench.random.choice((0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 28, 29, 40, 64, 100))
        words = bench.random.randrange(5) * width // WORD
        if kind in ELEMENT and honest:
            words = -(-elements * ELEMENT[kind] // WORD)
        elif not honest:
            words = bench.random.randrange(40)
        header = {name: bench.random.getrandbits(field.bits) for name, field in FIELDS.items()}
        header |= {"kind": kind, "elements": elements}
        found.append((PACKET_HEADER.pack(header) | bench.random.getrandbits(WORD * words + 1) >> 1 << WORD, words + 1))
    return found


def masked(flit: dict[str, int]) -> dict[str, int]:
    """Return a flit of the link without what is behind its words."""
    count = flit.get("words", 0) + 1
    return flit | {"data": flit["data"] & (1 << WORD * count) - 1}


def flits(packets: Sequence[tuple[int, int]], form: Any, width: int) -> list[dict[str, int]]:
    return [flit for bits, length in packets for flit in form(bits, length, width)]


def collect(bench: Bench) -> list[dict[str, int]]:
    """Return a list that fills with what the packer puts out."""
    came: list[dict[str, int]] = []
    bench.take("packer_o", lambda flit: came.append(masked(flit)))
    return came


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.5])
async def rows_have_the_words_of_their_elements(dut: Any, idle: float, stall: float) -> None:
    """Cut a row to its elements and carry other packets whole; the way back is the reverse."""
    width, link_width = (parameters()[name] for name in ("width", "link_width"))
    bench = await start(dut, packing(width, link_width), idle=idle, stall=stall)
    for _ in range(4):
        sent = packets(bench, 60, width, honest=True)
        given, wide = flits(sent, of_unit, width), flits(sent, on_link, link_width)
        bench.drive("unpacker_i", wide)
        bench.expect("unpacker_o", given)
        began = bench.cycle
        await bench.drain(quiet=2)
        assert idle or stall or bench.cycle - began <= len(given) + 4
        came = collect(bench)
        bench.drive("packer_i", given)
        began = bench.cycle
        await bench.drain(quiet=2)
        while len(came) < len(wide):
            await bench.cycles(1)
        assert came == wide
        # A flit of a unit in each cycle, and one more where a last word goes over.
        assert idle or stall or bench.cycle - began <= len(given) + len(sent) + 4


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.5])
async def packets_of_any_length_are_taken_apart(dut: Any, idle: float, stall: float) -> None:
    width, link_width = (parameters()[name] for name in ("width", "link_width"))
    bench = await start(dut, packing(width, link_width), idle=idle, stall=stall)
    sent = packets(bench, 100, width, honest=False)
    bench.drive("unpacker_i", flits(sent, on_link, link_width))
    bench.expect("unpacker_o", flits(sent, of_unit, width))
    await bench.drain()


@cocotb.test()
async def the_longest_rows_have_their_words(dut: Any) -> None:
    width, link_width = (parameters()[name] for name in ("width", "link_width"))
    bench = await start(dut, packing(width, link_width))
    came = collect(bench)
    sent = []
    for kind, bits in ELEMENT.items():
        words = -(-4095 * bits // WORD)
        header = PACKET_HEADER.pack({"kind": kind, "elements": 4095})
        sent.append((header | bench.random.getrandbits(WORD * words) << WORD, words + 1))
    bench.drive("packer_i", flits(sent, of_unit, width))
    await bench.drain()
    assert came == flits(sent, on_link, link_width)


@cocotb.test()
async def what_fills_no_flit_is_taken_while_the_link_waits(dut: Any) -> None:
    width, link_width = (parameters()[name] for name in ("width", "link_width"))
    bench = await start(dut, packing(width, link_width), stall=1.0)
    collect(bench)
    bench.drive("packer_i", of_unit(PACKET_HEADER.pack({"kind": PacketKind.LINES}), 100, width))
    taken = 0
    for _ in range(30):
        await bench.cycles(1)
        taken += int(dut.packer_i__valid.value) & int(dut.packer_i__ready.value)
    assert taken == link_width // width


@cocotb.test()
async def after_a_reset_a_packet_begins(dut: Any) -> None:
    width, link_width = (parameters()[name] for name in ("width", "link_width"))
    bench = await start(dut, packing(width, link_width), idle=0.3, stall=0.3)
    for _ in range(30):
        bench.take("unpacker_o", lambda flit: None)
        collect(bench)
        sent = packets(bench, 20, width, honest=True)
        bench.drive("packer_i", flits(sent, of_unit, width))
        bench.drive("unpacker_i", flits(sent, on_link, link_width))
        await bench.cycles(bench.random.randrange(1, 40))
        await bench.reset()
        sent = packets(bench, 3, width, honest=True)
        given, wide = flits(sent, of_unit, width), flits(sent, on_link, link_width)
        packed, unpacked = collect(bench), list[dict[str, int]]()
        bench.take("unpacker_o", unpacked.append)
        bench.drive("packer_i", given)
        bench.drive("unpacker_i", wide)
        await bench.drain(quiet=40)
        assert (packed, unpacked) == (wide, given)


@pytest.mark.parametrize(("width", "link_width"), SIZES)
def test_packing(width: int, link_width: int) -> None:
    sizes = {"width": width, "link_width": link_width}
    simulate(packing(**sizes), __name__, name="packing", parameters=sizes)


def test_proofs() -> None:
    prove_all("ring.packer", PROOFS)


def test_widths_that_do_not_fit_are_refused() -> None:
    for width, link_width in ((96, 192), (128, 64), (256, 128), (64, 96)):
        with pytest.raises(ValueError, match="link_width must be a multiple of width"):
            Packer(width, link_width)
