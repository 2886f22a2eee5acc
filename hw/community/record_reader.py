"""Record reader: splits a record into vertices to request and the columns of its matrix (I4, I6)."""

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from contracts import RECORD_HEADER, VID_BITS
from hw.community.formats import RECORDS, CommunityConfig
from hw.community.multi_read_memory import read_signature, write_signature
from hw.contracts import struct
from hw.locator.formats import RecordBeat
from hw.lowest import lowest_one, without_lowest
from hw.stream.slice import Slice

__all__ = ["RecordReader"]

_BEAT = 64


class RecordReader(wiring.Component):
    """Reads one record at a time; the columns of hubs are the hub columns of the bitmap, transposed bit by bit.

    A column has rows of vertices that are summed only: nobody wants the sums of others, as of other chiplets' vertices.
    In a rooted layer no node is a neighbour of itself: the diagonal is left out, but for a record of one row, whose
    vector is 0 instead.

    A record begins when its rows have slots, which they keep until they are finished; so many small records are in
    progress, and their vertices are requested well before their sums. A record that is too wide, or part of a
    community, is skipped and reported.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while there are records.
    first, vertices : In(32)
        VIDs that are summed, constant while there are records.
    i
        Beats of records. The end of the stream is skipped.
    vertex : stream of ``config.request``, always ready
        Each vertex of a record, once, when it is requested.
    node_request, hub_request : streams of ``config.request``
        Requests for features of nodes, and for combined rows of hubs, each in the order of columns.
    begun : stream of ``config.record``, always ready
        A record's sizes, before any of its vertices.
    columns, column
        Write and read port of the matrix: columns by slot.
    o : stream of ``config.record``
        A record whose columns are complete.
    freed, retired : In(1)
        A row of the oldest record, and its last one, is finished: its slot is free.
    asking : Out(1)
        The records begun so far may still request hubs.
    busy : Out(1)
        Records are in progress.
    refused : stream of unsigned(32), always ready
        Rows and columns of a record that has too many; or 0 for a part of a community.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(config.settings),
                "first": In(32),
                "vertices": In(32),
                "i": In(stream.Signature(RecordBeat)),
                "vertex": Out(stream.Signature(config.request, always_ready=True)),
                "node_request": Out(stream.Signature(config.request)),
                "hub_request": Out(stream.Signature(config.request)),
                "begun": Out(stream.Signature(config.record, always_ready=True)),
                "columns": Out(write_signature(config.width, config.slots)),
                "column": Out(read_signature(config.width, config.slots)),
                "o": Out(stream.Signature(config.record)),
                "freed": In(1),
                "retired": In(1),
                "asking": Out(1),
                "busy": Out(1),
                "refused": Out(stream.Signature(32, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Step through the sections of a record."""
        m = Module()
        config = self.config
        header = Signal(struct(RECORD_HEADER))
        requests = []
        for name, port in (("node_slice", self.node_request), ("hub_slice", self.hub_request)):
            m.submodules[name] = out = Slice(config.request)
            wiring.connect(m, out.o, wiring.flipped(port))
            requests.append(out.i)

        records, room = Signal(range(RECORDS + 1), init=RECORDS), Signal(range(config.slots + 1), init=config.slots)
        begins, rows = Signal(), Signal(17)
        m.d.sync += [
            records.eq(records - begins + self.retired),
            room.eq(room - Mux(begins, rows, 0) + self.freed),
        ]

        record, hub_edges, base = Signal(config.record), Signal(), Signal(range(config.slots))
        index, lane = Signal(config.row_bits + 1), Signal()
        vid = self.i.payload.data.word_select(lane, VID_BITS)
        request = Signal(config.request)
        m.d.comb += [
            header.eq(self.i.payload.data),
            request.vid.eq(vid),
            request.slot.eq(record.base + index),
            request.alone.eq(record.rows == 1),
            self.vertex.payload.eq(request),
            *(out.payload.eq(request) for out in requests),
            rows.eq(header.nodes + header.hubs),
            self.begun.payload.base.eq(base),
            self.begun.payload.rows.eq(rows),
            self.begun.payload.nodes.eq(Mux(header.hub_edges, 0, header.nodes)),
            self.begun.payload.single.eq(header.nodes == 1),
            self.begun.valid.eq(begins),
            self.o.payload.eq(record),
            self.busy.eq(records != RECORDS),
        ]

        words = -(-config.width // _BEAT)
        row_words = [Signal(min(_BEAT, config.width), name=f"word_{n}") for n in range(words)]
        row = Cat(row_words)
        word, last_word = Signal(range(max(2, words))), Signal(init=1)
        if words > 1:
            m.d.comb += last_word.eq(word == (record.rows - 1) >> ceil_log2(_BEAT))
        rest, hub_columns = Signal(config.width), Signal(config.width)
        bitmap_rows = Signal(config.row_bits + 1)
        touched = Signal(config.width)
        # Rows of the record that are summed.
        summed = Signal(config.width)
        with m.If(self.vertex.valid):
            m.d.sync += summed.bit_select(index[: config.row_bits], 1).eq((vid - self.first)[:32] < self.vertices)

        # For the row's hub bits: select the lowest, read the hub's column, write it. The last column is written while
        # the next row is awaited, so the row's number is that of the previous cycle.
        chosen, spread = Signal(config.row_bits), Signal()
        read, reads = Signal(config.row_bits), Signal()
        column = Mux(touched.bit_select(read, 1), self.column.data, 0)
        m.d.comb += self.column.address.eq(record.base + chosen)
        row_before = Signal.like(index)
        low_row = row_before[: config.row_bits]
        m.d.sync += [spread.eq(0), reads.eq(spread), read.eq(chosen), row_before.eq(index)]
        # The bit of the row in a hub's column, or on the diagonal of its own column, which waits for no hub's.
        unlinked, bit = Signal(), Signal(config.width)
        m.d.sync += unlinked.eq(self.settings.rooted & (record.rows != 1))
        m.d.comb += bit.eq(Mux(reads, summed.bit_select(low_row, 1), unlinked) << low_row)
        with m.If(reads):
            m.d.comb += [
                self.columns.enable.eq(1),
                self.columns.address.eq(record.base + read),
                self.columns.data.eq(column | bit),
            ]
            m.d.sync += touched.eq(touched | (1 << read))

        last_of_bitmap, too_wide = Signal(), Signal()
        m.d.comb += [last_of_bitmap.eq(index + 1 == bitmap_rows), too_wide.eq(rows > config.width)]
        with m.FSM() as fsm:
            with m.State("HEADER"):
                bad = too_wide | (~header.hub_edges & ((header.part != 0) | ~header.last_part))
                with m.If(self.i.valid & header.end):
                    m.d.comb += self.i.ready.eq(1)
                with m.Elif(self.i.valid & bad):
                    m.d.comb += [
                        self.i.ready.eq(1),
                        self.refused.valid.eq(1),
                        self.refused.payload.eq(Mux(too_wide, rows, 0)),
                    ]
                    m.next = "PASS"
                with m.Elif(self.i.valid & (records != 0) & (rows <= room)):
                    m.d.comb += [self.i.ready.eq(1), begins.eq(1)]
                    m.d.sync += [
                        record.eq(self.begun.payload),
                        base.eq(base + rows),
                        hub_edges.eq(header.hub_edges),
                        bitmap_rows.eq(header.nodes),
                        touched.eq(0),
                        index.eq(0),
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
                    self.i.ready.eq(chosen_ready & (lane | last_of_bitmap)),
                ]
                m.d.sync += hub_columns.eq(Cat(bitmap_rows <= n for n in range(config.width)))
                with m.If(moves):
                    m.d.sync += [index.eq(index + 1), lane.eq(~lane)]
                    with m.If(last_of_bitmap):
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
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += Array(row_words)[word].eq(self.i.payload.data)
                    if words > 1:
                        m.d.sync += word.eq(Mux(last_word, 0, word + 1))
                    with m.If(last_word):
                        m.next = "STORE"
            with m.State("STORE"):
                m.d.comb += [
                    self.columns.enable.eq(1),
                    self.columns.address.eq(record.base + index),
                    self.columns.data.eq(row & summed & ~bit),
                ]
                m.d.sync += [rest.eq(row & hub_columns), *(part.eq(0) for part in row_words[1:])]
                m.next = "SPREAD"
            with m.State("SPREAD"):
                some, lowest = lowest_one(rest)
                m.d.sync += [chosen.eq(lowest), spread.eq(some), rest.eq(without_lowest(rest))]
                with m.If(~some):
                    m.d.sync += index.eq(index + 1)
                    m.next = "ROWS"
                    with m.If(last_of_bitmap):
                        m.next = "HAND ON"
            with m.State("HAND ON"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "HEADER"
        m.d.comb += self.asking.eq(fsm.ongoing("NODES") | fsm.ongoing("HUBS") | self.hub_request.valid)
        m.d.sync += [
            Cover(reads & spread, "hub columns written in a row"),
            Cover(reads & (row_before != index), "a hub column is written behind its row"),
            Cover(records == 0, "as many records as may be"),
            Cover(self.i.valid & begins & (rows == room), "every slot is taken"),
            Cover(begins & (base + rows > config.slots), "a record goes round the end of the ring"),
        ]
        return m
