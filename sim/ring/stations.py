"""Design under test: a closed ring of stations without chiplets behind them."""

from __future__ import annotations

from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import PACKET_HEADER
from hw.contracts import struct
from hw.ring.formats import LinkFlit
from hw.ring.station import Station
from hw.stream.queue import Queue

__all__ = ["LINK_WIDTH", "RingOfStations"]

LINK_WIDTH = 64


class RingOfStations(wiring.Component):
    """Stations whose verdict comes from the packet itself: bit c of the VID says whether chiplet c takes a copy.

    What has bit 1 set is no header and goes nowhere; a chiplet that has stopped or lost a neighbour takes nothing any
    more. One copy of a header is noted a cycle ahead, as who judges headers does, and says who takes it; the other
    one stands at the head of the station and says whether it goes on.

    Parameters
    ----------
    stations, slots, max_flits
        Size of the ring and of its buffers.
    fills
        1: stations fill packets whose rest is lost.

    Attributes
    ----------
    i, o : streams of `LinkFlit`
        Of every station.
    delay : In(2)
        Cycles for which a header waits for its verdict; until then the verdict is wrong.
    reset : In
        Of every chiplet: reset it alone.
    rests, stop : In
        Bit c: chiplet c has not come to work; has stopped.
    links : Out
        Bit c: a flit is on the link behind chiplet c.
    begins, sent, passed, lost, header : Out
        Of every station.
    noted : Out
        Headers as they were noted.
    """

    def __init__(self, stations: int = 4, slots: int = 3, max_flits: int = 4, *, fills: int = 0) -> None:
        self.stations, self.slots, self.max_flits, self.fills = stations, slots, max_flits, fills
        super().__init__(
            {
                "i": In(stream.Signature(LinkFlit(LINK_WIDTH))).array(stations),
                "o": Out(stream.Signature(LinkFlit(LINK_WIDTH))).array(stations),
                "delay": In(2),
                "reset": In(1).array(stations),
                **{name: In(stations) for name in ("rests", "stop")},
                **{name: Out(stations) for name in ("links", "begins", "sent", "passed")},
                "lost": Out(2 * stations),
                "header": Out(LINK_WIDTH).array(stations),
                "noted": Out(LINK_WIDTH).array(stations),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Close the ring."""
        m = Module()
        stations = [
            Station(LINK_WIDTH, self.slots, self.max_flits, fills=bool(self.fills)) for _ in range(self.stations)
        ]
        for n, station in enumerate(stations):
            queue = Queue(LinkFlit(LINK_WIDTH), 2 * self.max_flits)
            m.submodules[f"station_{n}"] = ResetInserter(self.reset[n])(station)
            m.submodules[f"queue_{n}"] = ResetInserter(self.reset[n])(queue)
            connect(m, flipped(self.i[n]), queue.i)
            connect(m, queue.o, station.i)
            connect(m, station.o, flipped(self.o[n]))
            connect(m, station.m_axis, stations[(n + 1) % self.stations].s_axis)
            waited = Signal(2, name=f"waited_{n}")
            with m.If(station.advances):
                m.d.sync += self.noted[n].eq(station.following)
            with m.If(station.begins):
                m.d.sync += waited.eq(0)
            with m.Elif(station.asks & ~station.decided):
                m.d.sync += waited.eq(waited + 1)
            layout = struct(PACKET_HEADER)
            head, ahead = data.View(layout, station.header), data.View(layout, self.noted[n])
            goes = ~head.kind[1] & (head.destination != n)
            mine = (ahead.destination == n) | ahead.vid[n]
            takes = mine & ~(self.stop[n] | station.lost.any())
            m.d.comb += [
                station.works.eq(~self.rests[n]),
                station.stop.eq(self.stop[n]),
                station.decided.eq(waited == self.delay),
                station.verdict.forward.eq(goes == station.decided),
                station.verdict.take.eq(takes == station.decided),
                self.links[n].eq(station.m_axis.tvalid),
                self.begins[n].eq(station.begins),
                self.sent[n].eq(station.sent),
                self.passed[n].eq(station.passed),
                self.header[n].eq(station.header),
                self.lost[2 * n : 2 * n + 2].eq(station.lost),
            ]
        return m
