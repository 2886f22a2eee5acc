"""Shared lines: a graph that is divided among the memories of a ring, as one range of lines for this chiplet."""

from amaranth.hdl import Cat, Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import LINE_BYTES, PACKET_HEADER, PACKET_LINES, Error, PacketKind
from hw.contracts import struct
from hw.graph.formats import ErrorReport
from hw.memory.formats import RangeRequest, ReadBeat, ReadRequest, Word, line_address_width
from hw.memory.window import window_members
from hw.ring.formats import POSITION_BITS, Flit, RingConfig
from hw.ring.line_bursts import LineBursts
from hw.ring.line_formats import ARRAYS, LAST_BEAT_BITS, TAG_BITS, Fill
from hw.ring.line_receiver import LineReceiver
from hw.ring.line_server import LineServer
from hw.ring.line_splitter import LineSplitter
from hw.ring.line_table import LineTable
from hw.ring.reply_store import ReplyStore
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["LineTableRequest", "SharedLines", "lines_members", "reader_members"]


class LineTableRequest(data.StructLayout):
    """Operands of a SHARE: ``table`` in words; ``graph`` and ``own`` lines of offsets, edges and attributes."""

    def __init__(self, address_width: int) -> None:
        line = line_address_width(address_width)
        super().__init__(
            {
                "table": RangeRequest(address_width)["address"].shape,
                "graph": line,
                "own": data.ArrayLayout(line, ARRAYS),
            }
        )


def lines_members(address_width: int, data_width: int) -> wiring.Signature:
    """Return the window behind which others read the graph: `window_members` and the lines that cannot be read."""
    report = stream.Signature(ErrorReport, always_ready=True)
    return wiring.Signature({**window_members(address_width, data_width), "failure": Out(report)})


def reader_members(address_width: int, data_width: int) -> wiring.Signature:
    """Return a client's end of the read arbiter that reports failures itself."""
    return wiring.Signature(
        {
            "request": Out(stream.Signature(ReadRequest(address_width, data_width))),
            "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
        }
    )


class SharedLines(wiring.Component):
    """Reads the graph for this chiplet: own lines from memory, others' over the ring; and serves the own ones.

    A piece of a burst has its slot before it is requested, and the server's queue has room for all requests that all
    chiplets may have on the way. So what comes from the ring is taken without waiting for the ring.

    Parameters
    ----------
    config : RingConfig
    address_width, data_width
        Widths of the memory port, in bits.
    depth
        Beats that the server has requested or waiting.

    Attributes
    ----------
    position, chiplets : In
    start : In(1)
        Read the table.
    given : In
        `LineTableRequest`, valid with `start`; ``table`` until the request is taken.
    done : Out(1)
        The table has been read.
    table : stream of `RangeRequest`
    words : stream of `Word`
    lines : interface of `lines_members`
        Bursts, whatever their length, and their beats in the order of the bursts.
    i : stream of `Flit`
        Packets of kind ``LINES``.
    requests, replies : streams of `Flit`
        Packets.
    cut : In(1)
        The ring is broken: reads of others' lines fail. Stays once set.
    error : stream of `ErrorReport`, always ready
        ``BAD_PACKET``, as of `LineReceiver`, or with a beat that this chiplet does not have.
    readers
        Clients' ends of the read arbiter: own reads; those of the server.
    """

    def __init__(self, config: RingConfig, address_width: int = 32, data_width: int = 256, depth: int = 64) -> None:
        self.config, self._port = config, (address_width, data_width)
        width, most, slots, beats = config.width(data_width), config.chiplets, config.requests, config.reply_beats
        port = self._port
        # Internal, named for proofs.
        self.line_table = LineTable(address_width, most)
        self.splitter = LineSplitter(*port, most, beats)
        self.store = ReplyStore(*port, slots, beats)
        self.receiver = LineReceiver(*port, width, slots, beats)
        self.server = LineServer(*port, width, most, most * slots, depth)
        super().__init__(
            {
                "position": In(POSITION_BITS),
                "chiplets": In(POSITION_BITS),
                "start": In(1),
                "given": In(LineTableRequest(address_width)),
                "done": Out(1),
                "table": Out(stream.Signature(RangeRequest(address_width))),
                "words": In(stream.Signature(Word())),
                "lines": Out(lines_members(*port)),
                "i": In(stream.Signature(Flit(width))),
                "requests": Out(stream.Signature(Flit(width))),
                "replies": Out(stream.Signature(Flit(width))),
                "cut": In(1),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
                "readers": Out(reader_members(*port)).array(2),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect table, splitter, store, receiver and server."""
        m = Module()
        m.submodules.table = table = self.line_table
        m.submodules.splitter = splitter = self.splitter
        m.submodules.store = store = self.store
        m.submodules.receiver = receiver = self.receiver
        m.submodules.server = server = self.server
        self._share_table(m, table)
        connect(m, flipped(self.lines.reads), splitter.i)
        connect(m, store.o, flipped(self.lines.beats))
        connect(m, flipped(self.i), receiver.i)
        connect(m, receiver.requests, server.i)
        connect(m, server.o, flipped(self.replies))
        connect(m, server.request, flipped(self.readers[1].request))
        connect(m, flipped(self.readers[1].beat), server.beat)
        m.d.comb += [
            store.cut.eq(self.cut),
            receiver.cut.eq(self.cut),
            receiver.awaited.eq(store.awaited),
            self.lines.failure.valid.eq(store.failure.valid),
            self.lines.failure.payload.code.eq(Error.MEMORY_READ),
            self.lines.failure.payload.info.eq(store.failure.payload),
            self.error.valid.eq(receiver.error.valid | server.refused.valid),
            self.error.payload.code.eq(Error.BAD_PACKET),
            self.error.payload.info.eq(Mux(receiver.error.valid, receiver.error.payload.info, server.refused.payload)),
        ]
        own = self._read_own(m, table)
        self._request(m, own.i)
        return m

    def _share_table(self, m: Module, table: LineTable) -> None:
        """Have the table read, and hand it to those that look lines up."""
        splitter, server = self.splitter, self.server
        connect(m, table.request, flipped(self.table))
        connect(m, flipped(self.words), table.i)
        m.d.comb += [
            table.start.eq(self.start),
            table.position.eq(self.position),
            table.chiplets.eq(self.chiplets),
            table.table.eq(self.given.table),
            table.graph.eq(self.given.graph),
            *(line.eq(self.given.own[n]) for n, line in enumerate(table.lines)),
            self.done.eq(table.done),
            self.lines.first.eq(table.first),
            self.lines.end.eq(table.end),
            splitter.first.eq(table.first),
            server.position.eq(self.position),
            server.serves.eq(table.done),
            *(inner.eq(outer) for inner, outer in zip(server.shifts, table.shifts, strict=True)),
        ]
        for unit in (splitter, server):
            m.d.comb += [unit.firsts.eq(table.firsts), unit.total.eq(table.total)]

    def _request(self, m: Module, own: stream.Interface) -> None:
        """Give each piece a slot, then read it or send a request for it."""
        piece, taken = self.splitter.o, self.store.i
        bits = exact_log2(8 * LINE_BYTES // self._port[1])
        m.submodules.sent = sent = Queue(self.requests.payload.shape(), 2)
        connect(m, sent.o, flipped(self.requests))
        header, lines = Signal(struct(PACKET_HEADER)), Signal(struct(PACKET_LINES))
        here, ready = Signal(), Signal()
        word, ask = piece.payload, Signal()
        m.d.comb += [
            here.eq(word.owner == self.position),
            ask.eq(~here & ~self.cut),
            ready.eq(Mux(here, own.ready, ~ask | sent.i.ready)),
            taken.valid.eq(piece.valid & ready),
            piece.ready.eq(taken.ready & ready),
            *(taken.payload[name].eq(word[name]) for name in ("client", "last_beat", "last")),
            taken.payload.line.eq((word.address >> bits) + self.lines.first),
            taken.payload.remote.eq(~here),
            taken.payload.lost.eq(~here & self.cut),
            own.valid.eq(piece.valid & taken.ready & here),
            own.payload.address.eq(word.address),
            own.payload.array.eq(word.array),
            own.payload.last_beat.eq(word.last_beat),
            own.payload.slot.eq(self.store.slot),
            lines.last_beat.eq(word.last_beat),
            lines.tag.eq(self.store.slot),
            header.kind.eq(PacketKind.LINES),
            header.source.eq(self.position),
            header.destination.eq(word.owner),
            header.elements.eq(lines),
            Cat(header.vid, header.high).eq(word.address),
            sent.i.valid.eq(piece.valid & taken.ready & ask),
            sent.i.payload.data.eq(header),
            sent.i.payload.last.eq(1),
        ]
        m.d.sync += Cover(piece.valid & self.cut, "a piece is wanted of a broken ring")

    def _read_own(self, m: Module, table: LineTable) -> Slice:
        """Read own pieces into their slots; beats from the ring come when none of these does."""
        bits, reader, fill = exact_log2(8 * LINE_BYTES // self._port[1]), self.readers[0], self.store.fill
        where = data.StructLayout({"slot": TAG_BITS, "last_beat": LAST_BEAT_BITS})
        piece = data.StructLayout(
            {**where.members, "array": range(ARRAYS), "address": self.splitter.o.payload.address.shape()}
        )
        m.submodules.own = own = Slice(piece)
        m.submodules.bursts = bursts = LineBursts(*self._port)
        m.submodules.tags = tags = Queue(where, self.config.requests)
        word, come, beat = own.o.payload, self.receiver.fill, Signal(LAST_BEAT_BITS)
        shift, both, place, ends = Signal.like(table.shifts[0]), Signal(), tags.o.payload, Signal()
        mine = Signal(Fill(self._port[1]))
        connect(m, bursts.o, flipped(reader.request))
        with m.Switch(word.array):
            for n, each in enumerate(table.shifts):
                with m.Case(n):
                    m.d.comb += shift.eq(each)
        m.d.comb += [
            both.eq(bursts.i.ready & tags.i.ready),
            bursts.i.valid.eq(own.o.valid & both),
            tags.i.valid.eq(own.o.valid & both),
            own.o.ready.eq(both),
            bursts.i.payload.address.eq(word.address + (shift << bits)),
            bursts.i.payload.last_beat.eq(word.last_beat),
            tags.i.payload.slot.eq(word.slot),
            tags.i.payload.last_beat.eq(word.last_beat),
            ends.eq(beat == place.last_beat),
            tags.o.ready.eq(reader.beat.valid & ends),
            mine.slot.eq(place.slot),
            mine.beat.eq(beat),
            mine.data.eq(reader.beat.payload.data),
            mine.error.eq(reader.beat.payload.error),
            mine.last.eq(ends),
            # The rest of a packet that was cut off may come after its slot has been given to another piece.
            fill.valid.eq(reader.beat.valid | (come.valid & ~self.cut)),
            fill.payload.eq(Mux(reader.beat.valid, mine.as_value(), come.payload.as_value())),
            come.ready.eq(~reader.beat.valid),
        ]
        with m.If(reader.beat.valid):
            m.d.sync += beat.eq(Mux(ends, 0, beat + 1))
        return own
