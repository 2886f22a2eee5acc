"""Planner: turns the columns of a record into tasks that share sums, during the accumulation (I6, I7)."""

from amaranth.hdl import Cover, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts.communities import K_VALUES
from hw.block_memory import NO_BYPASS, registered_read
from hw.community.column_pipeline import ColumnPipeline
from hw.community.formats import CommunityConfig
from hw.community.multi_read_memory import write_signature

__all__ = ["Planner"]

#: Records with columns on their way at once: each has one and an end, of which the stages hold four.
_BEGUN = 3


class Planner(wiring.Component):
    """Compares a column with its partners, two at a time.

    *Pairs*: the intersection of the head with the best of its partners becomes a new column, and rounds of the same
    head go on until none saves an operation. Meanwhile the next head's round is on its way already; it is dropped if
    the head is split. A column with one row has no partners. A record with as many columns as
    there may be stays whole, so the columns of the next record follow at once. Those of a long record have
    fewer partners (`golden.community.plan.Scheme.near`). *Windows*: the rows of k columns are counted, some rows at a
    time; then each column is a round without partners, with the rows for which adding the sum and subtracting the
    excess takes fewer operations.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while there are records.
    columns
        What is written to the matrix: columns by slot. The planner keeps them, too.
    i : stream of ``config.record``
        Records whose columns are complete.
    o : stream of ``config.task``
        Tasks, `golden.community.plan.plan`; one with ``last`` and no rows ends a record.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(config.settings),
                "columns": In(write_signature(config.width, config.slots)),
                "i": In(stream.Signature(config.record)),
                "o": Out(stream.Signature(config.task)),
            }
        )
        number = config.column_bits + 1
        self._record = Signal(config.record, reset_less=True)
        # The next column to request, its round's head, the one behind the last; the one that is decided next.
        self._column, self._head, self._stop = (Signal(number, name=name) for name in ("column", "head", "stop"))
        self._index, self._tail, self._full = Signal(number), Signal(number), Signal()
        # Slots of the next head and of the column that is through: whether a head has partners is known by its slot.
        self._head_slot, self._slot = (Signal(range(config.slots), name=name) for name in ("head_slot", "slot"))
        # The next request is a head; all are made. Requests go on; a split head can save nothing more.
        self._loading, self._ended, self._asks, self._cut = Signal(), Signal(init=1), Signal(), Signal()
        # Partners of the round that are left.
        self._left = Signal(range(max(config.partners, *K_VALUES) + 1))
        # Of each head of this record.
        self._partners = Signal(range(config.partners + 1))
        # Of a window: its first column, its columns, the rows that are counted, and whether it has a sum.
        self._start, self._size = Signal(config.column_bits), Signal(range(max(K_VALUES) + 1))
        self._group, self._sums = Signal(range(max(2, config.width))), Signal()
        # Records whose end is not decided yet; none of the last one's columns is split, nor of those before it.
        self._begun, self._begins, self._whole = Signal(range(_BEGUN + 1)), Signal(), Signal()
        # The rows of the head that has none of its own left to send are those to be subtracted.
        self._negative = Signal()
        # Rows of a task: of the head without those of the window's sum, the reverse, or with both all of the sum.
        self._of_head, self._of_sum = Signal(), Signal()
        self._new_sum, self._shifts = Signal(), Signal()

    def elaborate(self, platform: object) -> Module:
        """Request columns, decide about rounds, split heads, form the sums of windows."""
        m = Module()
        settings, record, task = self.settings, self._record, self.o.payload
        m.submodules.pipe = pipe = ColumnPipeline(self.config)
        connect(m, flipped(self.columns), pipe.columns)
        last_sum, collides = self._number(m, pipe), Signal()
        m.d.comb += [
            pipe.base.eq(record.base),
            pipe.rows.eq(record.rows),
            pipe.tail.eq(self._tail),
            pipe.most.eq((self._size + 1) >> 1),
            pipe.joins.eq(~self._full),
            pipe.request.column.eq(self._column),
            pipe.request.formed.eq(pipe.request.column >= record.rows),
            pipe.request.group.eq(self._group),
            pipe.head.eq(self._head_slot),
            self._slot.eq(record.base + self._index),
            pipe.moves.eq(1),
            pipe.clear.eq(self._begins),
            task.index.eq(self._index),
            self._of_head.eq(~self._negative),
            self._of_sum.eq(self._negative),
            task.rows.eq(self._rows(pipe)),
            task.negative.eq(self._negative),
            task.form.eq(pipe.formed),
        ]
        m.d.sync += self._sums.eq(pipe.joined.any())
        closes, finishes = Signal(), Signal()
        m.d.comb += [
            closes.eq(pipe.decided.valid & pipe.decided.end),
            finishes.eq(~settings.windows | (~self._sums & (self._index == record.rows))),
        ]
        ends = Signal()
        m.d.sync += self._begun.eq(self._begun + self._begins - ends)
        with m.If(ends):
            m.d.sync += self._index.eq(0)
        self._request(m, pipe)
        with m.FSM():
            with m.State("ROUNDS"):
                m.d.comb += self._asks.eq(1)
                with m.If(closes & finishes):
                    m.d.comb += [ends.eq(self._end(m)), pipe.moves.eq(self.o.ready)]
                with m.Elif(closes):
                    m.next = "WINDOW"
                    with m.If(self._sums):
                        m.d.sync += self._column.eq(self._start + 1)
                        m.next = "FORM"
                with m.Elif(pipe.decided.valid & pipe.decided.last):
                    with m.If(pipe.saves & ~self._full):
                        m.d.comb += pipe.drops.eq(1)
                        # The head's next round begins with its first partner.
                        m.d.sync += [
                            self._head.eq(self._index),
                            self._head_slot.eq(self._slot),
                            self._column.eq(self._index + 1),
                            self._left.eq(self._partners),
                            self._stop.eq(self._stop + 1),
                            *(mark.eq(0) for mark in (self._loading, self._ended)),
                        ]
                        m.next = "SUM"
                    with m.Else():
                        self._emit(m, pipe)
                self._begin(m)
            # Nothing is on its way but the requests of the head's next round, which wait with the split.
            with m.State("SUM"):
                m.d.comb += [
                    pipe.split.eq(1),
                    self._new_sum.eq(pipe.free),
                    self._asks.eq(1),
                    # The round ends with its first partners if it can save nothing.
                    self._cut.eq(~pipe.another | last_sum),
                    pipe.moves.eq(pipe.free),
                ]
                with m.If(pipe.free):
                    m.next = "REST"
            with m.State("REST"):
                m.d.comb += [
                    pipe.rest.eq(1),
                    self._asks.eq(1),
                    # The next head is the partner that is being written.
                    collides.eq(self._loading & (self._column == pipe.best)),
                    pipe.moves.eq(pipe.free & ~collides),
                ]
                with m.If(pipe.free):
                    m.next = "ROUNDS"
            with m.State("WINDOW"):
                self._open(m)
                m.next = "COUNT"
            with m.State("COUNT"):
                with m.If(self._tally(m, pipe)):
                    m.next = "ROUNDS"
            with m.State("FORM"):
                with m.If(self._form(m, pipe)):
                    m.next = "WINDOW"
                    with m.If(self._index == record.rows):
                        m.next = "END"
            with m.State("END"):
                with m.If(self._end(m)):
                    m.d.comb += ends.eq(1)
                    m.next = "ROUNDS"
        m.d.sync += [
            Cover(
                settings.windows & self._new_sum & (self._start + 2 < self._column), "a sum of more than two columns"
            ),
            Cover(self._shifts & pipe.formed, "a sum of two columns"),
            Cover(pipe.drops & pipe.request.valid, "the next round is dropped"),
            Cover(pipe.split & ~pipe.free, "a split waits for the memory"),
            Cover(collides & pipe.free, "the next head waits for the end of a split"),
            Cover(pipe.request.valid & pipe.narrow & ~self._full, "a column of one row has no partners"),
            Cover(~settings.windows & self._full, "no column is left"),
            Cover(self._begins & (self._begun > 1), "three records at once"),
        ]
        return m

    def _rows(self, pipe: ColumnPipeline) -> Value:
        """Return the rows of a task: two bits choose them, so that each row takes a LUT."""
        of_head = self._of_head.replicate(self.config.width)
        return Mux(self._of_sum, pipe.joined & (~pipe.held | of_head), pipe.held & ~pipe.joined & of_head)

    def _number(self, m: Module, pipe: ColumnPipeline) -> Signal:
        """Count columns that are through, and sums, whose parts are kept until they are through as well.

        Return whether a sum that is formed now is the last one.
        """
        config, task = self.config, self.o.payload
        following, tail, last_sum = Signal.like(self._index), Signal.like(self._tail), Signal()
        m.d.comb += [following.eq(self._index + 1), tail.eq(self._tail + 1)]
        # Sums are several cycles apart.
        m.d.sync += last_sum.eq(tail >= self.settings.limit)
        with m.If(self._begins):
            rows, full = self.i.payload.rows, Signal()
            fewer = max(config.partners - 2, min(config.partners, 2))
            m.d.comb += full.eq(rows >= self.settings.limit)
            m.d.sync += [
                self._partners.eq(Mux(rows > self.settings.limit >> 3, fewer, config.partners)),
                self._tail.eq(rows),
                self._full.eq(full),
                self._whole.eq(full & ~self.settings.windows),
            ]
        with m.If(self._shifts):
            m.d.sync += self._index.eq(following)
        with m.If(self._new_sum):
            m.d.sync += [self._tail.eq(tail), self._full.eq(last_sum)]

        pair = data.StructLayout({"left": config.column_bits, "right": config.column_bits})
        m.submodules.parts = parts = memory.Memory(shape=pair, depth=config.columns, init=[], attrs=dict(NO_BYPASS))
        write, read = parts.write_port(), registered_read(m, parts)
        # A sum's parts are written before the column in front of it is through: it was split from one before that.
        m.d.comb += [
            read.addr.eq(following),
            read.en.eq(self._shifts),
            write.addr.eq(self._tail),
            write.en.eq(pipe.split),
            write.data.left.eq(self._index),
            write.data.right.eq(pipe.best),
            task.left.eq(read.data.left),
            task.right.eq(read.data.right),
        ]
        return last_sum

    def _request(self, m: Module, pipe: ColumnPipeline) -> None:
        """Request a head, then its partners, then the next head; behind the last column, the end."""
        request, plain = pipe.request, Signal()
        following, behind = Signal.like(self._column), Signal.like(self._column)
        m.d.comb += [
            following.eq(self._column + 1),
            behind.eq(self._column + 2),
            plain.eq(self.settings.windows | self._full | pipe.narrow),
            request.valid.eq(self._asks & ~self._ended),
            request.load.eq(self._loading),
            request.end.eq(self._loading & (self._column == self._stop)),
            request.both.eq(~self._loading & (self._left != 1) & (following != self._stop)),
            request.last.eq(
                Mux(self._loading, plain, self._cut | (self._left <= 2) | (behind == self._stop))
                | (following == self._stop)
            ),
        ]
        with m.If(pipe.moves & request.valid):
            m.d.sync += [
                self._ended.eq(request.end),
                self._left.eq(Mux(self._loading, self._partners, self._left - 2)),
                self._loading.eq(request.last),
                self._column.eq(Mux(self._loading, following, behind)),
            ]
            with m.If(request.last):
                m.d.sync += [
                    *(place.eq(self._head + 1) for place in (self._head, self._column)),
                    self._head_slot.eq(self._head_slot + 1),
                ]

    def _emit(self, m: Module, pipe: ColumnPipeline) -> None:
        """Send the head, if it has rows or is a sum that others need; then what the window's sum has too many."""
        through = Signal()
        m.d.comb += [
            self.o.valid.eq(self._negative | pipe.some | pipe.formed),
            through.eq(self.o.ready | ~self.o.valid),
            pipe.moves.eq(through & (self._negative | ~pipe.lack)),
            self._shifts.eq(pipe.moves),
        ]
        with m.If(through):
            m.d.sync += self._negative.eq(~self._negative & pipe.lack)

    def _end(self, m: Module) -> Value:
        """End the record; return whether its end is through."""
        task = self.o.payload
        m.d.comb += [self.o.valid.eq(1), task.last.eq(1), task.form.eq(0)]
        m.d.comb += [self._of_head.eq(0), self._of_sum.eq(0)]
        return self.o.ready

    def _begin(self, m: Module) -> None:
        """Begin the next record when all columns of the one before are requested and none of them can be split."""
        record, room = self._record, Signal()
        m.d.comb += [
            room.eq((self._begun == 0) | (self._whole & (self._begun != _BEGUN))),
            self.i.ready.eq(self._ended & room),
            self._begins.eq(self.i.valid & self.i.ready),
        ]
        with m.If(self._begins):
            m.d.sync += [
                record.eq(self.i.payload),
                self._stop.eq(self.i.payload.rows),
                *(place.eq(0) for place in (self._column, self._head, self._ended)),
                self._head_slot.eq(self.i.payload.base),
                self._loading.eq(1),
            ]
            with m.If(self.settings.windows):
                m.d.sync += self._ended.eq(1)
                m.next = "WINDOW"

    def _open(self, m: Module) -> None:
        """Begin a window of k columns, or as many as are left."""
        rest, size = Signal.like(self._index), Signal.like(self._size)
        m.d.comb += [
            rest.eq(self._record.rows - self._index),
            size.eq(Mux(rest > self.settings.k, self.settings.k + 1, rest)),
        ]
        m.d.sync += [
            *(place.eq(self._index) for place in (self._start, self._column, self._head)),
            *(count.eq(size) for count in (self._size, self._left)),
            self._group.eq(0),
            self._loading.eq(1),
            self._ended.eq(0),
        ]

    def _tally(self, m: Module, pipe: ColumnPipeline) -> Signal:
        """Request the window's columns once for each group of rows; return whether this is the last request."""
        last, last_group = Signal(), Signal()
        m.d.comb += [
            last.eq(self._left == 1),
            # No column has rows beyond those of the record.
            last_group.eq(self._group == (self._record.rows - 1) >> exact_log2(pipe.group)),
            pipe.request.tally.eq(1),
            pipe.request.load.eq(self._column == self._start),
            pipe.request.last.eq(last),
        ]
        m.d.sync += [self._column.eq(self._column + 1), self._left.eq(self._left - 1)]
        with m.If(last):
            m.d.sync += [
                self._stop.eq(self._column + 1),
                self._column.eq(self._start),
                self._left.eq(self._size),
                self._group.eq(self._group + 1),
            ]
        return last & last_group

    def _form(self, m: Module, pipe: ColumnPipeline) -> Signal:
        """Add up the window's columns; return whether its sum is through."""
        task, first, last, done = self.o.payload, Signal(), Signal(), Signal()
        m.d.comb += [
            first.eq(self._column == self._start + 1),
            last.eq(self._column + 1 == self._stop),
            self.o.valid.eq(1),
            task.index.eq(self._tail),
            self._of_head.eq(last),
            self._of_sum.eq(last),
            task.form.eq(1),
            task.left.eq(Mux(first, self._start, self._tail)),
            task.right.eq(self._column),
            done.eq(last & self.o.ready),
            self._new_sum.eq(done),
        ]
        with m.If(self.o.ready):
            m.d.sync += self._column.eq(self._column + 1)
        return done
