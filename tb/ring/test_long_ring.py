"""Stations of a long ring: links carry nearly all that they can while rows leave it everywhere."""

import random
from typing import Any

import cocotb

from sim.harness import parameters, simulate
from sim.ring.stations import RingOfStations
from tb.ring.test_station import begin, busy_cycles


@cocotb.test()
async def links_stay_busy_while_packets_leave_anywhere(dut: Any) -> None:
    """Many leave at every chiplet; those that take their places must not fill the buffers."""
    bench, traffic = await begin(dut)
    source, stations = random.Random(5), parameters()["stations"]
    for _ in range(250):
        for n in range(stations):
            traffic.send(n, (n + source.randrange(1, stations)) % stations, 0, 1)
    await bench.cycles(300)
    busy = await busy_cycles(dut, stations, cycles := 1000)
    assert min(busy) > 0.98 * cycles, busy
    await traffic.finish()


def test_long_ring() -> None:
    sizes = {"stations": 16, "slots": 8, "max_flits": 2}
    simulate(RingOfStations(**sizes), __name__, name="ring_of_stations", parameters=sizes)
