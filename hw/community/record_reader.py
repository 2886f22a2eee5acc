"""Record reader: takes a record apart into vertices to ask for and the columns of its matrix (I4, I6)."""

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from golden.contracts import RECORD_HEADER, VID_BITS
from hw.community.formats import SLOTS, CommunityConfig
from hw.community.halves import port_signature
from hw.community.lowest import lowest_one, without_lowest
from hw.contracts import struct
from hw.islands.formats import RecordBeat
from hw.stream.slice import Slice

__all__ = ["RecordReader"]

_BEAT = 64


class RecordReader(wiring.Component):
    """Reads one record at a time; the columns of hubs are the hub columns of the bitmap, turned over bit by bit.

    Begins a record when a slot and a half of the matrix are free. A record that is too wide, or part of a community,
    is passed over and reported.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    i
        Beats of records. The end of the stream is passed over.
    vertex : stream of ``config.request``, always ready
        Every vertex of a record, once, when it is asked for.
    node_request, hub_request : streams of ``config.request``
        Vertices of which the features, or the combined rows, are needed, each in the order of columns.
    begun : stream of ``config.record``, always ready
        A record's sizes, before any of its vertices.
    matrix
        Where its columns go.
    o : stream of ``config.record``
        A record whose columns are complete.
    slot_freed, half_freed : In(1)
        A record is finished; the matrix and the vectors of a record are not needed any more.
    busy : Out(1)
        Records are under way.
    refused : stream of unsigned(32), always ready
        Rows and columns that a record has, where that is too many; or 0 for a part of a community.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(RecordBeat)),
                "vertex": Out(stream.Signature(config.request, always_ready=True)),
                "node_request": Out(stream.Signature(config.request)),
                "hub_request": Out(stream.Signature(config.request)),
                "begun": Out(stream.Signature(config.record, always_ready=True)),
                "matrix": Out(port_signature(config.width, config.columns, 1)),
                "o": Out(stream.Signature(config.record)),
                "slot_freed": In(1),
                "half_freed": In(1),
                "busy": Out(1),
                "refused": Out(stream.Signature(32, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Walk through the sections of a record."""
        m = Module()
        config = self.config
        header = Signal(struct(RECORD_HEADER))
        requests = []
        for name, port in (("node_slice", self.node_request), ("hub_slice", self.hub_request)):
            m.submodules[name] = out = Slice(config.request)
            wiring.connect(m, out.o, wiring.flipped(port))
            requests.append(out.i)

        slots, halves = Signal(range(SLOTS + 1), init=SLOTS), Signal(2, init=2)
        begins = Signal()
        m.d.sync += [slots.eq(slots - begins + self.slot_freed), halves.eq(halves - begins + self.half_freed)]

        record, hub_edges, slot = Signal(config.record), Signal(), Signal(range(SLOTS))
        index, lane = Signal(config.row_bits + 1), Signal()
        vid = self.i.payload.data.word_select(lane, VID_BITS)
        request = Signal(config.request)
        m.d.comb += [
            header.eq(self.i.payload.data),
            request.vid.eq(vid),
            request.slot.eq(record.slot),
            request.column.eq(index),
            self.vertex.payload.eq(request),
            *(out.payload.eq(request) for out in requests),
            self.begun.payload.slot.eq(slot),
            self.begun.payload.rows.eq(header.nodes + header.hubs),
            self.begun.payload.nodes.eq(Mux(header.hub_edges, 0, header.nodes)),
            self.begun.valid.eq(begins),
            self.o.payload.eq(record),
            self.busy.eq(slots != SLOTS),
        ]

        words = -(-config.width // _BEAT)
        row_words = [Signal(min(_BEAT, config.width), name=f"word_{n}") for n in range(words)]
        row = Cat(row_words)
        word = Signal(range(max(2, words)))
        last_word = word == (record.rows - 1) >> ceil_log2(_BEAT)
        rest, hub_columns = Signal(config.width), Signal(config.width)
        bitmap_rows = Signal(config.row_bits + 1)
        touched = Signal(config.width)

        # Of the row's hub bits: the lowest is chosen, then the hub's column is read, then written.
        chosen, spread = Signal(config.row_bits), Signal()
        read, reads = Signal(config.row_bits), Signal()
        column = Mux(touched.bit_select(read, 1), self.matrix.data[0], 0)
        m.d.comb += [
            self.matrix.half.eq(record.slot[0]),
            self.matrix.address[0].eq(chosen),
        ]
        m.d.sync += [spread.eq(0), reads.eq(spread), read.eq(chosen)]
        with m.If(reads):
            m.d.comb += [
                self.matrix.write.eq(1),
                self.matrix.write_address.eq(read),
                self.matrix.write_data.eq(column | (1 << index)),
            ]
            m.d.sync += touched.eq(touched | (1 << read))

        vertices = Mux(lane | (index + 1 == bitmap_rows), 1, 0)
        with m.FSM():
            with m.State("HEADER"):
                rows = Signal(17)
                m.d.comb += rows.eq(header.nodes + header.hubs)
                bad = (rows > config.width) | (~header.hub_edges & ((header.part != 0) | ~header.last_part))
                with m.If(self.i.valid & header.end):
                    m.d.comb += self.i.ready.eq(1)
                with m.Elif(self.i.valid & bad):
                    m.d.comb += [
                        self.i.ready.eq(1),
                        self.refused.valid.eq(1),
                        self.refused.payload.eq(Mux(rows > config.width, rows, 0)),
                    ]
                    m.next = "PASS"
                with m.Elif(self.i.valid & (slots != 0) & (halves != 0)):
                    m.d.comb += [self.i.ready.eq(1), begins.eq(1)]
                    m.d.sync += [
                        record.eq(self.begun.payload),
                        slot.eq(slot + 1),
                        hub_edges.eq(header.hub_edges),
                        bitmap_rows.eq(header.nodes),
                        touched.eq(0),
                        index.eq(0),
                        lane.eq(0),
                    ]
                    m.next = "NODES"
            with m.State("PASS"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid & self.i.payload.last):
                    m.next = "HEADER"
            with m.State("NODES"):
                chosen_ready = Mux(hub_edges, requests[1].ready, requests[0].ready)
                moves = self.i.valid & chosen_ready
                m.d.comb += [
                    requests[0].valid.eq(self.i.valid & ~hub_edges),
                    requests[1].valid.eq(self.i.valid & hub_edges),
                    self.vertex.valid.eq(moves),
                    self.i.ready.eq(chosen_ready & vertices),
                ]
                m.d.sync += hub_columns.eq(Cat(bitmap_rows <= n for n in range(config.width)))
                with m.If(moves):
                    m.d.sync += [index.eq(index + 1), lane.eq(~lane)]
                    with m.If(index + 1 == bitmap_rows):
                        m.d.sync += lane.eq(0)
                        with m.If(bitmap_rows == record.rows):
                            m.d.sync += index.eq(0)
                            m.next = "ROWS"
                        with m.Else():
                            m.next = "HUBS"
            with m.State("HUBS"):
                moves = self.i.valid & requests[1].ready
                last_hub = index + 1 == record.rows
                m.d.comb += [
                    requests[1].valid.eq(self.i.valid),
                    self.vertex.valid.eq(moves),
                    self.i.ready.eq(requests[1].ready & (lane | last_hub)),
                ]
                with m.If(moves):
                    m.d.sync += [index.eq(index + 1), lane.eq(~lane)]
                    with m.If(last_hub):
                        m.d.sync += [lane.eq(0), index.eq(0)]
                        m.next = "ROWS"
            with m.State("ROWS"):
                m.d.comb += [self.matrix.active.eq(1), self.i.ready.eq(1)]
                with m.If(self.i.valid):
                    m.d.sync += [Array(row_words)[word].eq(self.i.payload.data), word.eq(word + 1)]
                    with m.If(last_word):
                        m.d.sync += word.eq(0)
                        m.next = "STORE"
            with m.State("STORE"):
                m.d.comb += [
                    self.matrix.active.eq(1),
                    self.matrix.write.eq(1),
                    self.matrix.write_address.eq(index),
                    self.matrix.write_data.eq(row),
                ]
                m.d.sync += [rest.eq(row & hub_columns), *(part.eq(0) for part in row_words)]
                m.next = "SPREAD"
            with m.State("SPREAD"):
                m.d.comb += self.matrix.active.eq(1)
                some, lowest = lowest_one(rest)
                m.d.sync += [chosen.eq(lowest), spread.eq(some), rest.eq(without_lowest(rest))]
                with m.If(~some & ~spread & ~reads):
                    m.d.sync += index.eq(index + 1)
                    m.next = "ROWS"
                    with m.If(index + 1 == bitmap_rows):
                        m.next = "HAND ON"
            with m.State("HAND ON"):
                m.d.comb += [self.matrix.active.eq(1), self.o.valid.eq(1)]
                with m.If(self.o.ready):
                    m.next = "HEADER"
        m.d.sync += [
            Cover(reads & spread, "hub columns written in a row"),
            Cover(slots == 0, "every slot is taken"),
            Cover((slots != 0) & (halves == 0), "both halves are taken"),
        ]
        return m
