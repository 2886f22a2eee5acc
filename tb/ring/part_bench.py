"""What the benches of the ring's parts have in common."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from amaranth.lib.wiring import In
from cocotb.triggers import RisingEdge

from hw.ring.control import ExchangeSettings
from hw.ring.formats import MadeRows
from hw.ring.list_control import ListSettings
from hw.ring.send_queue import Part
from hw.ring.sender import RowSettings
from sim.harness.bench import Bench, start
from sim.harness.codec import Codec
from sim.ring.parts import DATA, LINK, ROW_BEATS, RingParts

__all__ = [
    "ADDRESSES",
    "EXCHANGE",
    "LIST",
    "MADE",
    "PART",
    "ROWS",
    "WHOLE",
    "beats_of",
    "begin",
    "pack",
    "pulse",
    "rises",
    "row_settings",
    "words",
]

#: So many beat addresses.
ADDRESSES = 1 << 28
LIST = Codec(ListSettings(32, DATA))
EXCHANGE = Codec(ExchangeSettings(32))
MADE = Codec(MadeRows())
PART = Codec(Part(32))
ROWS = Codec(RowSettings(32, DATA, ROW_BEATS))
WHOLE = (1 << DATA // 8) - 1


async def begin(dut: Any, **options: Any) -> Bench:
    """Start with all inputs of all parts at 0; reports of errors are taken and not looked at."""
    component = RingParts()
    bench = await start(dut, component, **options)
    for name, member in component.signature.members.items():
        if not member.is_signature and member.flow == In:
            getattr(dut, name).value = 0
    for name in bench.monitors:
        if name.endswith("_error"):
            bench.take(name, lambda word: None)
    # Monitors of streams that are always ready look from the second cycle on.
    await bench.cycles(1)
    return bench


async def pulse(dut: Any, port: str) -> None:
    """Set `port` for a cycle."""
    getattr(dut, port).value = 1
    await RisingEdge(dut.clk)
    getattr(dut, port).value = 0
    await RisingEdge(dut.clk)


async def rises(dut: Any, port: str, limit: int = 8000) -> None:
    """Wait until `port` is set, or fail after `limit` cycles."""
    for _ in range(limit):
        if int(getattr(dut, port).value):
            return
        await RisingEdge(dut.clk)
    raise AssertionError(f"{port} is not set after {limit} cycles")


def pack(values: list[int], bits: int = 32) -> int:
    """Return `values` one behind another, the first lowest."""
    return sum(value << (bits * n) for n, value in enumerate(values))


def words(packets: Sequence[Sequence[int]]) -> list[dict[str, int]]:
    """Flits of whole packets."""
    return [{"data": flit, "last": int(n == len(flits) - 1)} for flits in packets for n, flit in enumerate(flits)]


def row_settings(source: random.Random) -> dict[str, int]:
    """Return settings at random; rows lie anywhere."""
    flits = source.randrange(1, 2 * ROW_BEATS + 1)
    return {
        "base": source.randrange(ADDRESSES),
        "stride": source.randrange(ROW_BEATS + 1),
        "last_beat": (flits - 1) // 2,
        "last_flit": flits - 1,
        "elements": source.getrandbits(12),
    }


def beats_of(flits: Sequence[int]) -> list[int]:
    """Pack flits into beats; the rest of the last one is 0."""
    return [sum(flit << LINK * k for k, flit in enumerate(flits[n : n + 2])) for n in range(0, len(flits), 2)]
