"""Design under test: a closed ring of stations without chiplets behind them."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from golden.contracts import PACKET_HEADER
from hw.contracts import struct
from hw.ring.formats import Flit
from hw.ring.station import Station
from hw.stream.queue import Queue

__all__ = ["LINK_WIDTH", "RingOfStations"]

LINK_WIDTH = 64


class RingOfStations(wiring.Component):
    """Stations whose verdict comes from the packet itself: bit c of the VID says whether chiplet c takes a copy.

    Parameters
    ----------
    stations, slots, max_flits
        Size of the ring and of its buffers.

    Attributes
    ----------
    i, o : streams of `Flit`
        Of every station.
    links : Out
        Bit c: a flit is on the link behind chiplet c.
    """

    def __init__(self, stations: int = 4, slots: int = 3, max_flits: int = 4) -> None:
        self.stations, self.slots, self.max_flits = stations, slots, max_flits
        super().__init__(
            {
                "i": In(stream.Signature(Flit(LINK_WIDTH))).array(stations),
                "o": Out(stream.Signature(Flit(LINK_WIDTH))).array(stations),
                "links": Out(stations),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Close the ring."""
        m = Module()
        stations = [Station(LINK_WIDTH, self.slots, self.max_flits) for _ in range(self.stations)]
        for n, station in enumerate(stations):
            m.submodules[f"station_{n}"] = station
            m.submodules[f"queue_{n}"] = queue = Queue(Flit(LINK_WIDTH), 2 * self.max_flits)
            connect(m, flipped(self.i[n]), queue.i)
            connect(m, queue.o, station.i)
            connect(m, station.o, flipped(self.o[n]))
            connect(m, station.m_axis, stations[(n + 1) % self.stations].s_axis)
            header = data.View(struct(PACKET_HEADER), station.header)
            m.d.comb += [
                station.works.eq(1),
                station.decided.eq(1),
                station.verdict.forward.eq(header.destination != n),
                station.verdict.take.eq((header.destination == n) | header.vid[n]),
                self.links[n].eq(station.m_axis.tvalid),
            ]
        return m
