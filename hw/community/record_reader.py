"""Record reader: splits a record into vertices to request and the columns of its matrix (I4, I6)."""

from typing import Any

from amaranth.hdl import Assert, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from contracts import RECORD_HEADER, VID_BITS
from contracts.communities import PIECE_BITS
from hw.block_memory import IN_BLOCK_RAM, registered_read
from hw.community.formats import RECORDS, CommunityConfig
from hw.community.multi_read_memory import read_signature, write_signature
from hw.contracts import struct
from hw.locator.formats import RecordBeat
from hw.lowest import lowest_one
from hw.stream.slice import Slice

__all__ = ["RecordReader"]

_BEAT = 64
#: Hub columns from which the next one is chosen.
_GROUP = 16


class RecordReader(wiring.Component):
    """Reads one record at a time; the columns of hubs are the hub columns of the bitmap, transposed bit by bit.

    A column is cleared when its hub is read. The bits of a row's hubs are taken by groups, the lowest one first. In a
    record of one node, as of a hub, all hubs are joined to it, so their columns are complete at once. They are kept for
    windows only, since pairs of them share no sums, and `hw.community.step_source.StepSource` adds them without a plan.

    A column has rows of vertices that are summed only: nobody wants the sums of others, as of other chiplets' vertices.
    In a rooted layer no node is a neighbour of itself: the diagonal is left out, but for a record of one row, whose
    vector is 0 instead.

    All that hubs of a record of one node get is that node's vector. So its column has one row for all of them, the last
    one, wanted or not: `hw.community.row_sender.RowSender` sends the sum there as each one's.

    A share of a record that is split over PEs has all of its vertices, since columns may come from any node, but sums
    only node rows of one piece, and adds only nodes of that piece to hubs. So over all shares each bit of the bitmap
    is used once. A hub may be joined to no node of the piece: its row is not kept then.

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
    first, vertices : In
        VIDs that are summed, constant while there are records.
    i
        Beats of records. The end of the stream is skipped.
    vertex : stream of ``config.vertex``, always ready
        Each vertex of a record, once, when it is requested.
    kept : stream of ``config.kept``, always ready
        With ``config.shares``: whether each row is kept, with its vertex, and again when a hub turns out to be joined
        to a node of the share.
    vectors : stream of ``config.vectors``, always ready
        Of each hub of a record of several nodes none at first, then one more with each node that it is joined to.
    node_request, hub_request : streams of ``config.request`` and ``config.pe_request``
        Requests for features of nodes, and for combined rows of hubs, each in the order of columns.
    columns, column
        Write and read port of the matrix: columns by slot.
    o : stream of ``config.read_record``, always ready
        A record whose columns are complete, if it is planned.
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
                "first": In(config.vid_bits),
                "vertices": In(config.vid_bits + 1),
                "i": In(stream.Signature(RecordBeat)),
                "vertex": Out(stream.Signature(config.vertex, always_ready=True)),
                **({"kept": Out(stream.Signature(config.kept, always_ready=True))} if config.shares else {}),
                "vectors": Out(stream.Signature(config.vectors, always_ready=True)),
                "node_request": Out(stream.Signature(config.request)),
                "hub_request": Out(stream.Signature(config.pe_request)),
                "columns": Out(write_signature(config.width, config.slots)),
                "column": Out(read_signature(config.width, config.slots)),
                "o": Out(stream.Signature(config.read_record, always_ready=True)),
                "freed": In(1),
                "retired": In(1),
                "asking": Out(1),
                "busy": Out(1),
                "refused": Out(stream.Signature(32, always_ready=True)),
            }
        )

        self._record, self._base = Signal(config.record), Signal(range(config.slots))
        self._hub_edges, self._bitmap_rows = Signal(), Signal(config.row_bits + 1)
        # The vertex or row under way: its number, its slot, its bit; no row has come yet.
        self._index, self._slot = Signal(config.row_bits + 1), Signal(range(config.slots))
        self._mark, self._first_row = Signal(config.width), Signal()
        self._following = Signal(config.width)
        # The record's columns are kept.
        self._planned = Signal()
        # Rows of the record that are summed; whether the row under way is; whether a row has no diagonal.
        self._summed, self._linked = Signal(config.width, reset_less=True), Signal()
        self._wanted = Signal()
        # A request for a hub has not left yet.
        self._hub_waits = Signal()
        # The vertex to come is the last one; it is a node; it, or the row to come, is in the share, as all are of a
        # whole record.
        self._last_vertex, self._is_node, self._inside = Signal(), Signal(), Signal(init=1)
        self._unlinked = Signal()
        # The row, and what becomes its column; both are cleared, a word of the row comes.
        self._row, self._stored = Signal(config.width), Signal(config.width)
        self._clears, self._comes = Signal(), Signal()
        # The next vertex or row is under way; the first one of the record, or none yet.
        self._passes, self._opens, self._turns = Signal(), Signal(), Signal()
        # Hub columns of the row that are left in a group; its number.
        self._group = Signal(range(max(2, config.width // _GROUP)))
        self._hubs = Signal(min(_GROUP, config.width))
        # One of them is chosen, and was in the cycle before.
        self._chooses, self._chosen = Signal(), Signal(config.row_bits)
        # The bit of a row is put into the column of a hub; the row is in the share.
        self._reads, self._joins = Signal(), Signal(init=1)
        self._word = Signal(range(max(2, -(-config.width // _BEAT))))

    def elaborate(self, platform: object) -> Module:
        """Step through the sections of a record."""
        m = Module()
        config, record, index = self.config, self._record, self._index
        header = Signal(struct(RECORD_HEADER))
        records, room = Signal(range(RECORDS + 1), init=RECORDS), Signal(range(config.slots + 1), init=config.slots)
        begins, rows = Signal(), Signal(17)
        m.d.sync += [
            records.eq(records - begins + self.retired),
            room.eq(room - Mux(begins, rows, 0) + self.freed),
        ]
        ask = self._requests(m)
        m.d.comb += self._following.eq(Cat(self._first_row, self._mark[:-1]))
        stores, clears, loads, stored = Signal(), Signal(), Signal(), Signal()
        self._store(m, stores=stores, clears=clears)
        last_node, last_row, last_vertex, too_wide = Signal(), Signal(), self._last_vertex, Signal()
        m.d.comb += [
            header.eq(self.i.payload.data),
            rows.eq(header.nodes + header.hubs),
            *(self.o.payload[name].eq(record[name]) for name in config.record.members),
            self.o.payload.planned.eq(self._planned),
            self.o.payload.wanted.eq(self._summed[0]),
            self.o.payload.own.eq(self._stored[0]),
            self._planned.eq(~record.single | self.settings.windows),
            self.busy.eq(records != RECORDS),
            last_node.eq(index + 1 == self._bitmap_rows),
            last_row.eq(index == self._bitmap_rows),
            last_vertex.eq(index + 1 == record.rows),
            too_wide.eq(rows > config.width),
        ]
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
                with m.Elif(self.i.valid & (records != 0) & (rows[: config.row_bits + 1] <= room)):
                    m.d.comb += [self.i.ready.eq(1), begins.eq(1)]
                    m.next = "NODES"
                m.d.sync += [
                    record.base.eq(self._base),
                    record.rows.eq(rows),
                    record.nodes.eq(Mux(header.hub_edges, 0, header.nodes)),
                    record.single.eq(header.nodes == 1),
                    record.later.eq(header.part != 0),
                    self._hub_edges.eq(header.hub_edges),
                    self._bitmap_rows.eq(header.nodes),
                    self._slot.eq(self._base),
                    index.eq(0),
                ]
                m.d.comb += [self._opens.eq(1), self._clears.eq(1)]
                with m.If(begins):
                    m.d.sync += self._base.eq(self._base + rows)
            with m.State("PASS"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid & self.i.payload.last):
                    m.next = "HEADER"
            with m.State("NODES"):
                m.d.comb += self._is_node.eq(1)
                with m.If(ask(self._hub_edges, last_node)):
                    # What columns of hubs are cleared with.
                    m.d.sync += self._stored[0].eq(record.single & self._wanted)
                    m.next = "HUBS"
                    with m.If(last_vertex):
                        self._turn(m)
                        m.next = "ROWS"
            with m.State("HUBS"):
                m.d.comb += clears.eq(self.vertex.valid)
                with m.If(ask(1, last_vertex)):
                    self._turn(m)
                    m.next = "ROWS"
            with m.State("ROWS"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    with m.If(self._keep(m)):
                        # Only now: the last bit of the row before is written in this cycle.
                        self._next(m)
                        m.next = "STORE"
                        with m.If(record.single):
                            m.d.sync += stored.eq(1)
                            m.next = "HEADER"
            with m.State("STORE"):
                m.d.comb += stores.eq(1)
                m.next = "SPREAD"
                with m.If(record.rows == self._bitmap_rows):
                    m.next = "ROWS"
                    with m.If(last_row):
                        m.next = "HAND ON"
            with m.State("SPREAD"):
                some, lowest = lowest_one(self._hubs)
                rest, more = Signal.like(self._hubs), Signal()
                m.d.comb += [
                    rest.eq(self._hubs & (self._hubs - 1)),
                    more.eq(self._group != (record.rows - 1) >> ceil_log2(len(rest))),
                    self._chooses.eq(some),
                ]
                m.d.sync += [self._chosen.eq(Cat(lowest, self._group)), self._hubs.eq(rest)]
                m.d.comb += loads.eq((rest == 0) & more)
                with m.If(~loads & ~some):
                    m.next = "ROWS"
                    with m.If(last_row):
                        m.next = "HAND ON"
            with m.State("HAND ON"):
                m.d.comb += self.o.valid.eq(1)
                m.next = "HEADER"
        # The only row of a record is stored, and the record handed on, in the first cycle of the next one's header.
        with m.If(stored):
            m.d.comb += [stores.eq(1), self.o.valid.eq(1)]
            m.d.sync += stored.eq(0)
        self._load_group(m, loads=stores | loads, first=stores)
        self._move(m, self._share(m, header) if config.shares else None)
        m.d.comb += self.asking.eq(fsm.ongoing("NODES") | fsm.ongoing("HUBS") | self._hub_waits)
        m.d.sync += [
            Cover(records == 0, "as many records as may be"),
            Cover(self.i.valid & begins & (rows == room), "every slot is taken"),
            Cover(begins & (self._base + rows > config.slots), "a record goes round the end of the ring"),
        ]
        return m

    def _requests(self, m: Module) -> Any:
        """Return a function that passes on the vertex under way, of a hub or not, and returns whether it was the last.

        Both kinds share a slice: a record's vertices are asked for in their order.
        """
        kind = data.StructLayout({"request": self.config.pe_request, "hub": 1})
        m.submodules.slice = out = Slice(kind)
        lane, moves, asks = Signal(), Signal(), Signal()
        # Also one behind a node's request, which may wait for long.
        m.d.comb += self._hub_waits.eq(self.hub_request.valid | (~out.i.ready & out.behind.hub))
        bits = self.config.vid_bits
        vid = self.i.payload.data.word_select(lane, VID_BITS)[:bits]
        m.d.comb += [
            out.i.payload.request.vid.eq(vid),
            out.i.payload.request.slot.eq(self._slot),
            out.i.payload.request.alone.eq(self._record.rows == 1),
            out.i.payload.request.head.eq(self._is_node & ~self._record.later),
            *(self.vertex.payload[name].eq(out.i.payload.request[name]) for name in self.config.request.members),
            self.vertex.valid.eq(moves),
            out.i.valid.eq(asks & self.i.valid),
            moves.eq(out.i.valid & out.i.ready),
            *(self.node_request.payload[name].eq(out.o.payload.request[name]) for name in self.config.request.members),
            self.hub_request.payload.eq(out.o.payload.request),
            self.node_request.valid.eq(out.o.valid & ~out.o.payload.hub),
            self.hub_request.valid.eq(out.o.valid & out.o.payload.hub),
            out.o.ready.eq(Mux(out.o.payload.hub, self.hub_request.ready, self.node_request.ready)),
        ]
        summed, end = Signal(), Signal(bits + 1)
        m.d.sync += end.eq(self.first + self.vertices)
        m.d.comb += [
            self._wanted.eq((vid >= self.first) & (vid < end)),
            self.vertex.payload.summed.eq(self._wanted),
            summed.eq(self._wanted & (~self._is_node | self._inside)),
        ]
        with m.If(self._record.single & ~self._is_node):
            m.d.comb += summed.eq(self._last_vertex)
        with m.If(moves):
            m.d.sync += self._summed.eq(Mux(summed, self._summed | self._mark, self._summed & ~self._mark))

        def ask(hub: Any, last: Value) -> Value:
            m.d.comb += [asks.eq(1), out.i.payload.hub.eq(hub), self.i.ready.eq(out.i.ready & (lane | last))]
            with m.If(moves):
                self._next(m)
                m.d.sync += lane.eq(~lane & ~last)
            return moves & last

        return ask

    def _next(self, m: Module) -> None:
        """Go on to the next vertex or row."""
        m.d.sync += [
            self._index.eq(self._index + 1),
            self._slot.eq(self._slot + 1),
            self._first_row.eq(0),
        ]
        m.d.comb += self._passes.eq(1)

    def _turn(self, m: Module) -> None:
        """Go back in front of the first row."""
        m.d.sync += [self._index.eq(0), self._slot.eq(self._record.base - 1), self._first_row.eq(1)]
        m.d.comb += self._turns.eq(1)

    def _share(self, m: Module, header: Any) -> Signal:
        """Tell rows of a share from others; return the nodes' rows.

        Rows that are kept are nodes of the piece, and hubs that are joined to one of these. All hubs of a record of one
        node are joined to it.
        """
        config, reads = self.config, self._reads
        shared, piece, nodes = Signal(), Signal(PIECE_BITS), Signal(config.width, reset_less=True)
        # The row under way is in the share, and was in the cycle before.
        within, joins = Signal(), self._joins
        with m.If(self._opens):
            m.d.sync += [shared.eq(header.shared), piece.eq(header.piece)]
        with m.If(self.vertex.valid):
            m.d.sync += nodes.eq(Mux(self._is_node, nodes | self._mark, nodes & ~self._mark))
        with m.If(self._passes):
            m.d.sync += within.eq(self._inside)
        m.d.sync += joins.eq(within)
        m.d.comb += [
            self._inside.eq(~shared | (self._index[config.row_bits - PIECE_BITS : config.row_bits] == piece)),
            self.kept.valid.eq(self.vertex.valid | (reads & joins)),
            self.kept.payload.slot.eq(self.columns.address),
            self.kept.payload.kept.eq(reads | Mux(self._is_node, self._inside, self._record.single)),
        ]
        m.d.sync += [
            Cover(self._turns & shared & (piece != 0), "a share of a later piece"),
            Cover(reads & ~joins, "a node outside of the share has a hub"),
        ]
        return nodes

    def _move(self, m: Module, nodes: Signal | None) -> None:
        """Move the mark, take words of a row; outside of the states, so that resets of registers clear both, not gates.

        In front of the first row there is no mark. In a share only `nodes` take a node outside of the piece.
        """
        with m.If(self._passes):
            m.d.sync += self._mark.eq(self._following)
        with m.If(self._opens | self._turns):
            m.d.sync += [self._mark.eq(0), self._mark[0].eq(self._opens)]
        # A row of rows that are summed, and without the diagonal if it does not count: its mark comes with the next.
        rows = self._summed & ~(self._following & self._unlinked.replicate(self.config.width))
        if nodes is not None:
            rows &= nodes | self._inside.replicate(self.config.width)
        word, bits = self._word, min(self.config.width, _BEAT)
        data = self.i.payload.data[:bits]
        with m.If(self._comes):
            m.d.sync += [
                self._row.word_select(word, bits).eq(data),
                self._stored.word_select(word, bits).eq(data & rows.word_select(word, bits)),
            ]
        with m.If(self._clears):
            m.d.sync += [self._row.eq(0), self._stored.eq(0)]

    def _keep(self, m: Module) -> Value | int:
        """Keep a word of a row; return whether it is the last one."""
        m.d.comb += self._comes.eq(1)
        if self.config.width <= _BEAT:
            return 1
        last = Signal()
        m.d.comb += last.eq(self._word == (self._record.rows - 1) >> ceil_log2(_BEAT))
        m.d.sync += self._word.eq(Mux(last, 0, self._word + 1))
        return last

    def _store(self, m: Module, *, stores: Value, clears: Value) -> None:
        """Write the column of a row, an empty column of a hub, or a bit into it.

        For a row's hub bits: the hub's column is read two cycles after it was chosen, and written with the bit of the
        row.
        """
        columns = self.columns
        chooses, reads, read = Signal(), self._reads, Signal.like(self._chosen)
        m.d.sync += [
            chooses.eq(self._chooses),
            reads.eq(chooses),
            read.eq(self._chosen),
            self._unlinked.eq(self.settings.rooted & (self._record.rows != 1)),
            self._linked.eq((self._summed & self._mark).any()),
        ]
        m.d.comb += [
            self.column.address.eq(self._record.base + self._chosen),
            columns.enable.eq(((stores | clears) & self._planned) | (reads & self._linked)),
            columns.address.eq(Mux(reads, self._record.base + read, self._slot)),
            columns.data.eq(Mux(reads, self.column.data | self._mark, self._stored)),
        ]
        self._count(m, clears=clears, read=self.column.address)
        m.d.sync += [
            Assert(~(reads & (stores | clears)), "one column is written at a time"),
            Assert(~(chooses & columns.enable & (columns.address == self.column.address)), "a column is read at rest"),
            Cover(reads & chooses, "hub columns written in a row"),
        ]

    def _count(self, m: Module, *, clears: Value, read: Value) -> None:
        """Count the nodes that each hub is joined to, of a share those in it, as their bits come."""
        config, reads, vectors = self.config, self._reads, self.vectors
        shape = vectors.payload.vectors.shape()
        m.submodules.counts = counts = Memory(shape=shape, depth=config.slots, init=[], attrs=dict(IN_BLOCK_RAM))
        write, count = counts.write_port(), registered_read(m, counts)
        m.d.comb += [
            count.addr.eq(read),
            vectors.valid.eq(clears | (reads & self._joins)),
            vectors.payload.slot.eq(self.columns.address),
            vectors.payload.vectors.eq(Mux(reads, count.data + 1, 0)),
            write.en.eq(vectors.valid),
            write.addr.eq(vectors.payload.slot),
            write.data.eq(vectors.payload.vectors),
        ]

    def _load_group(self, m: Module, *, loads: Value, first: Value) -> None:
        """Load the next group of hub columns of the row, or the `first` one."""
        size = len(self._hubs)
        bits = ceil_log2(size)
        group = Signal.like(self._group)
        hubs = Cat(self._bitmap_rows[:bits] <= n for n in range(size)) | (~first).replicate(size)
        m.d.comb += group.eq(Mux(first, self._bitmap_rows >> bits, self._group + 1))
        with m.If(loads):
            m.d.sync += [self._group.eq(group), self._hubs.eq(self._row.word_select(group, size) & hubs)]
