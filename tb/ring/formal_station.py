"""Proofs on a ring of three stations: buffers never overflow, the ring never fills, something always moves."""

from functools import partial
from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, ResetInserter, Signal
from amaranth.lib.wiring import connect

from hw.ring.formats import LinkState
from hw.ring.station import Station
from sim.harness.formal import Proof, assert_stream, assume_stream

STATIONS = 3
SLOTS = 2
#: Bits of a flit: the destination.
WIDTH = 2
#: Cycles in which nothing moves on an occupied ring: its first packet has just come to rest.
REST = 3


class RingSpec(Elaboratable):
    """Three stations that send packets anywhere at any time and take what has arrived at any time.

    Parameters
    ----------
    max_flits
        Flits of a packet: all have one, or any number up to this.
    upsets
        Stations are reset one by one and stop, at any time; then nothing is proved, but more states are reached.
    """

    def __init__(self, max_flits: int, *, upsets: bool = False) -> None:
        self.max_flits, self.upsets = max_flits, upsets

    def elaborate(self, platform: Any) -> Module:
        """Close the ring and count packets on it."""
        m = Module()
        stations = [Station(WIDTH, SLOTS, self.max_flits, patience=1) for _ in range(STATIONS)]
        moves: list[Any] = []
        occupied: list[Any] = []
        for n, station in enumerate(stations):
            m.submodules[f"station_{n}"] = ResetInserter(AnySeq(1))(station) if self.upsets else station
            m.d.comb += station.stop.eq(AnySeq(1) if self.upsets else 0)
            connect(m, station.m_axis, stations[(n + 1) % STATIONS].s_axis)
            m.d.comb += [
                station.works.eq(1),
                station.decided.eq(1),
                station.verdict.take.eq(station.header == n),
                station.verdict.forward.eq(station.header != n),
                station.o.ready.eq(AnySeq(1)),
                station.i.valid.eq(AnySeq(1)),
                station.i.payload.data.eq(AnySeq(WIDTH)),
                station.i.payload.last.eq(AnySeq(1)),
            ]
            assume_stream(m, station.i, f"i_{n}")
            assert_stream(m, station.o, f"o_{n}")
            # Packets of at most `max_flits` flits, to another chiplet, sent without a gap.
            flits = Signal(range(self.max_flits + 1), name=f"flits_{n}")
            with m.If(station.i.valid & station.i.ready):
                m.d.sync += flits.eq(Mux(station.i.payload.last, 0, flits + 1))
            m.d.comb += [
                Assert(flits < self.max_flits),
                Assume((flits != self.max_flits - 1) | station.i.payload.last),
                Assume((flits == 0) | station.i.valid),
            ]
            with m.If(flits == 0):
                m.d.comb += Assume((station.i.payload.data != n) & (station.i.payload.data < STATIONS))
            level = Signal(range(SLOTS * self.max_flits + 1), name=f"level_{n}")
            head = station.buffer.o
            m.d.comb += level.eq(station.buffer.rest.level + head.valid)
            occupied.append(level)
            moves += [station.m_axis.tvalid, station.s_axis.tcredit, station.begins, station.sent]
            # Only the ring must not hold up itself.
            moves.append(station.o.valid | ~station.o.ready)
            if self.max_flits == 1:
                # Every word that is written ends a packet, and so does every word that comes out.
                m.d.comb += [
                    Assert(~station.m_axis.tvalid | station.m_axis.tlast),
                    Assume(~level.any() | head.payload.last),
                    Assert(~(station.inside | station.passing | station.entering)),
                ]

        credits: Any = 0
        for n, station in enumerate(stations):
            after = stations[(n + 1) % STATIONS]
            credits = credits + station.free + after.s_axis.tcredit
            if self.max_flits == 1:
                # A slot is free, its credit is on the way, its packet is on the link, or it is taken.
                m.d.comb += Assert(
                    station.free + after.s_axis.tcredit + station.m_axis.tvalid + occupied[(n + 1) % STATIONS] == SLOTS
                )
        if self.max_flits == 1:
            m.d.comb += Assert(credits >= 1)
        moved = Signal()
        rest = Signal(range(REST + 1))
        m.d.comb += moved.eq(sum(moves) != 0)
        m.d.sync += rest.eq(Mux(moved | (rest == REST), 0, rest + 1))
        full = Signal()
        m.d.comb += full.eq(sum(occupied) != 0)
        if self.max_flits == 1:
            m.d.comb += Assert(~full | moved)
        m.d.comb += Assert(~full | (rest < REST))
        for station in stations:
            state, watch = station.m_axis.tstate, station.watch
            m.d.comb += [
                Assert(~watch.wasted & ((state != LinkState.IN_RESET) | ~watch.sent)),
                Assert(station.free <= SLOTS),
                # All begin and are reset together.
                Assert((station.lost == 0) & (state != LinkState.STOPPED) & (state == stations[0].m_axis.tstate)),
            ]
        m.d.comb += [
            Cover(credits == 1),
            Cover(stations[0].passed & stations[1].passed),
            Cover(stations[0].passed & stations[1].sent),
        ]
        return m


PROOFS = [
    Proof("never_fills_nor_stops", partial(RingSpec, 1), "prove", 2),
    Proof("never_stops_with_long_packets", partial(RingSpec, 2), "bmc", 12, quick=False),
    Proof("reaches_its_states", partial(RingSpec, 1, upsets=True), "cover", 18, quick=False),
]
