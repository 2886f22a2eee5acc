"""Measures the links of a ring of stations: flits per cycle when all want to send, cycles per hop when none does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from sim.harness import parameters, simulate
from sim.harness.bench import start
from sim.ring.stations import RingOfStations
from sim.ring.traffic import Traffic

__all__ = ["measure"]

#: Cycles before and during a measurement.
_SETTLE, _MEASURE = 300, 2000


def measure(directory: Path, stations: int = 4, slots: int = 4, max_flits: int = 5) -> dict[str, Any]:
    """Simulate a ring of stations.

    Parameters
    ----------
    directory
        For the figures.
    stations, slots, max_flits
        Size of the ring; all packets have `max_flits` flits.

    Returns
    -------
    dict
        ``flits_per_cycle`` of every link under saturation and ``cycles_per_hop``.
    """
    sizes, directory = {"stations": stations, "slots": slots, "max_flits": max_flits}, directory.resolve()
    simulate(
        RingOfStations(**sizes), __name__, name="ring_of_stations", parameters={**sizes, "directory": str(directory)}
    )
    return dict(json.loads((directory / "links.json").read_text()))


@cocotb.test()
async def measures_links(dut: Any) -> None:
    given = parameters()
    stations, flits = given["stations"], given["max_flits"]
    for name in ("delay", "rests", "stop", *(f"reset__{n}" for n in range(stations))):
        getattr(dut, name).value = 0
    bench = await start(dut, RingOfStations(stations, given["slots"], flits))
    edge = RisingEdge(dut.clk)
    traffic = Traffic(bench, stations)
    first: dict[int, int] = {}
    traffic.send(0, stations - 1, 0, 1)
    for cycle in range(4 * stations + 20):
        await edge
        for n in range(stations):
            if int(dut.links.value) >> n & 1:
                first.setdefault(n, cycle)
    hops = [(first[n] - first[0]) / n for n in range(1, stations - 1)]
    for _ in range((_SETTLE + _MEASURE) // flits + stations):
        for n in range(stations):
            traffic.send(n, (n + stations - 1) % stations, 0, flits)
    await bench.cycles(_SETTLE)
    busy = [0] * stations
    for _ in range(_MEASURE):
        await edge
        for n in range(stations):
            busy[n] += int(dut.links.value) >> n & 1
    figures = {"flits_per_cycle": [count / _MEASURE for count in busy], "cycles_per_hop": max(hops)}
    (Path(given["directory"]) / "links.json").write_text(json.dumps(figures))
