"""Sender: reads the combined rows that leave and makes packets of them (R3, R5)."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import PACKET_HEADER, PacketKind
from hw.contracts import struct
from hw.memory.fetcher import Fetcher
from hw.memory.formats import ReadBeat, ReadRequest, beat_address_width
from hw.ring.formats import POSITION_BITS, Flit
from hw.ring.remote_array import Departure
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["RowSettings", "Sender"]


class RowSettings(data.StructLayout):
    """Places and sizes of rows.

    ``base``: beat address of row 0. ``stride``: distance of rows, in beats. ``last_beat``: beats of a row that hold
    data, less one. ``last_flit``: flits of a row, less one. ``elements``: elements of a row.
    """

    def __init__(self, address_width: int, data_width: int, max_beats: int) -> None:
        super().__init__(
            {
                "base": beat_address_width(address_width, data_width),
                "stride": range(max_beats + 1),
                "last_beat": range(max(2, max_beats)),
                "last_flit": 12,
                "elements": 12,
            }
        )


class Sender(wiring.Component):
    """Makes a packet with the row of each departure.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    width
        Bits of a flit, at most a beat.
    max_beats
        Beats of the longest row.
    depth
        Beats requested or waiting.

    Attributes
    ----------
    rows : In(RowSettings)
        Constant while packets are made.
    position : In
    backward : In(1)
        Mark the packets as gradients (R16).
    i : stream of `Departure`
    o : stream of `Flit`
    idle : Out(1)
        No packet is being made.
    request, beat
        A client's end of the read arbiter.
    """

    def __init__(
        self,
        address_width: int = 32,
        data_width: int = 256,
        width: int = 64,
        max_beats: int = 4,
        depth: int = 64,
    ) -> None:
        if width > data_width:
            raise ValueError(f"width must be at most data_width = {data_width}, not {width!r}")
        self.address_width, self.data_width, self.width = address_width, data_width, width
        self.max_beats, self.depth = max_beats, depth
        super().__init__(
            {
                "rows": In(RowSettings(address_width, data_width, max_beats)),
                "position": In(POSITION_BITS),
                "backward": In(1),
                "i": In(stream.Signature(Departure)),
                "o": Out(stream.Signature(Flit(width))),
                "idle": Out(1),
                "request": Out(stream.Signature(ReadRequest(address_width, data_width))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Request the beats of row after row; send them behind a header each."""
        m = Module()
        rows = self.rows
        m.submodules.fetcher = fetcher = Fetcher(self.address_width, self.data_width, self.depth)
        m.submodules.under_way = under_way = Queue(Departure, self.depth)
        connect(m, fetcher.request, flipped(self.request))
        connect(m, flipped(self.beat), fetcher.beat)

        m.submodules.located = located = Slice(
            data.StructLayout({"departure": Departure, "address": fetcher.i.payload.address.shape()})
        )
        self._request(m, located.o, fetcher.i, under_way.i)
        m.d.comb += [
            located.i.valid.eq(self.i.valid),
            located.i.payload.departure.eq(self.i.payload),
            located.i.payload.address.eq(rows.base + self.i.payload.vid * rows.stride),
            self.i.ready.eq(located.i.ready),
            self.idle.eq((under_way.level == 0) & ~located.o.valid & ~self.i.valid),
        ]
        self._send(m, under_way.o, fetcher.o)
        return m

    def _request(self, m: Module, rows: stream.Interface, beats: stream.Interface, under_way: stream.Interface) -> None:
        """Request the beats of a row one by one; with the last of them, queue the row's departure."""
        row = rows.payload
        beat = Signal.like(self.rows.last_beat)
        last_beat = beat == self.rows.last_beat
        m.d.comb += [
            beats.payload.address.eq(row.address + beat),
            beats.valid.eq(rows.valid & under_way.ready),
            rows.ready.eq(beats.ready & under_way.ready & last_beat),
            under_way.valid.eq(rows.valid & beats.ready & last_beat),
            under_way.payload.eq(row.departure),
        ]
        with m.If(beats.valid & beats.ready):
            m.d.sync += beat.eq(Mux(last_beat, 0, beat + 1))

    def _send(self, m: Module, departures: stream.Interface, beats: stream.Interface) -> None:
        """Send the header of the departure in turn, then the flits of its beats."""
        rows = self.rows
        flits_of_a_beat = self.data_width // self.width
        header = Signal(struct(PACKET_HEADER))
        in_row = Signal()
        flit = Signal.like(rows.last_flit)
        last_flit = flit == rows.last_flit
        part = flit[: exact_log2(flits_of_a_beat)] if flits_of_a_beat > 1 else 0
        last_part = last_flit | (part == flits_of_a_beat - 1) if flits_of_a_beat > 1 else 1
        m.d.comb += [
            header.eq(0),
            header.kind.eq(PacketKind.FEATURE),
            header.source.eq(self.position),
            header.destination.eq(departures.payload.destination),
            header.backward.eq(self.backward),
            header.elements.eq(rows.elements),
            header.vid.eq(departures.payload.vid),
        ]
        with m.If(~in_row):
            m.d.comb += [self.o.valid.eq(departures.valid), self.o.payload.data.eq(header)]
            with m.If(departures.valid & self.o.ready):
                m.d.sync += in_row.eq(1)
        with m.Else():
            m.d.comb += [
                self.o.valid.eq(beats.valid),
                self.o.payload.data.eq(beats.payload.data.word_select(part, self.width)),
                self.o.payload.last.eq(last_flit),
                beats.ready.eq(self.o.ready & last_part),
                departures.ready.eq(beats.valid & self.o.ready & last_flit),
            ]
            with m.If(beats.valid & self.o.ready):
                m.d.sync += [flit.eq(Mux(last_flit, 0, flit + 1)), in_row.eq(~last_flit)]
