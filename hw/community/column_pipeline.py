"""Column pipeline: reads the columns of a record in turn, compares two with one of them, counts rows (I6, I7)."""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts.communities import K_VALUES
from hw.block_memory import NO_BYPASS, registered_read
from hw.community.formats import CommunityConfig
from hw.community.multi_read_memory import write_signature

__all__ = ["ColumnPipeline", "request_layout"]

#: Rows counted in one step.
_GROUP = 16
#: Cycles from the request of a column to its decision: its memory, the register there, ones of groups, ones in all.
_STAGES = 4


def _sum(bits: list[Value]) -> Value:
    """Return the sum, by a tree of additions."""
    while len(bits) > 1:
        rest = bits[len(bits) & ~1 :]
        bits = [bits[n] + bits[n + 1] for n in range(0, len(bits) & ~1, 2)] + rest
    return bits[0]


def _one_and_two(bits: Value) -> tuple[Value, Value]:
    """Return whether at least one bit is set, and whether at least two are, by a tree."""
    if len(bits) == 2:
        return bits[0] | bits[1], bits[0] & bits[1]
    half = len(bits) // 2
    (low, low_two), (high, high_two) = _one_and_two(bits[:half]), _one_and_two(bits[half:])
    return low | high, low_two | high_two | (low & high)


def request_layout(config: CommunityConfig) -> data.StructLayout:
    """Return the layout of a request, which passes the stages as it is.

    ``valid``: the ``column`` belongs to a round: ``load``: as its head; ``both``: so does the one behind it; ``last``:
    no other one does; ``end``: there is no column, only the end behind the last round. ``formed``: it is a sum.
    ``tally``: the rows of a ``group`` are counted; ``load``: its first column; ``last``: its last one.
    """
    return data.StructLayout(
        {
            "valid": 1,
            "load": 1,
            "both": 1,
            "last": 1,
            "end": 1,
            "formed": 1,
            "tally": 1,
            "group": range(max(2, config.width // _GROUP)),
            "column": config.column_bits + 1,
        }
    )


class ColumnPipeline(wiring.Component):
    """Passes two columns a cycle, requested by number: those of the matrix and, from ``rows`` on, new sums.

    The first column of a *round* is its head, those behind it are its partners. At the decision about the last one the
    head is in `held`, whatever follows it.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    columns
        What is written to the matrix: columns by slot. It has the right of way.
    base, rows, tail : In
        Slot of the record's first column; number of its columns; the next sum.
    request : In
        See `request_layout`.
    moves, drops : In(1)
        Every stage passes on what it has; what is on its way is forgotten.
    split, rest : In(1)
        The rows that `held` shares with the `best` partner become the sum `tail`; a cycle later or more, both keep the
        other rows. Nothing happens without `free`. Partners for the rest of the head may be requested meanwhile.
    free : Out(1)
        The memory can be written.
    most : In
        Columns of the window without which adding its sum saves operations in a row.
    joins, clear : In(1)
        There may be a sum of the window; no row has one.
    decided : Out
        The request in the last stage.
    best, saves, another : Out
        The partner with the most rows in common with the head, of equals the first; it has two of them at least, up to
        and with the last stage; so has another one.
    held, formed : Out
        The head, and whether it is a sum.
    joined, some, lack : Out
        Rows that get the window's sum; there are some that the head has and they have not; the reverse.
    head : In
        Slot of the next head, if it is of the matrix.
    narrow : Out(1)
        The next head is of the matrix, and has one row at most.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config, self.group = config, min(_GROUP, config.width)
        number, request = config.column_bits + 1, request_layout(config)
        super().__init__(
            {
                "columns": In(write_signature(config.width, config.slots)),
                "base": In(range(config.slots)),
                "rows": In(config.row_bits + 1),
                "tail": In(number),
                "request": In(request),
                "moves": In(1),
                "drops": In(1),
                "split": In(1),
                "rest": In(1),
                "free": Out(1),
                "most": In(range(max(K_VALUES) // 2 + 1)),
                "joins": In(1),
                "clear": In(1),
                "decided": Out(request),
                "best": Out(number),
                "saves": Out(1),
                "another": Out(1),
                "held": Out(config.width),
                "formed": Out(1),
                "joined": Out(config.width),
                "some": Out(1),
                "lack": Out(1),
                "head": In(range(config.slots)),
                "narrow": Out(1),
            }
        )
        self._stages = [self.request, *(Signal(request, name=f"stage_{n}") for n in range(1, _STAGES + 1))]
        # Beside the first of them: which of both columns have no row in common with the head, whatever is read.
        self._apart = [Signal(2, name=f"apart_{n}") for n in range(_STAGES)]
        self._first = Signal(config.width, reset_less=True)
        # The requested column, and the one behind it.
        self._columns = [Signal(config.width, name=f"column_{n}", reset_less=True) for n in range(2)]
        self._column = self._columns[0]
        # The best partner.
        self._partner = Signal(config.width, reset_less=True)

    def elaborate(self, platform: object) -> Module:
        """Pass the requests on beside their columns."""
        m = Module()
        for before, stage in pairwise(self._stages):
            with m.If(self.moves):
                m.d.sync += stage.eq(before)
            with m.If(self.drops):
                m.d.sync += [stage.valid.eq(0), stage.tally.eq(0)]
        with m.If(self.moves):
            m.d.sync += [after.eq(before) for before, after in pairwise(self._apart)]
        m.d.comb += self.decided.eq(self._stages[-1])
        self._read_and_write(m)
        self._hold(m)
        self._compare(m)
        self._tally(m)
        return m

    def _read_and_write(self, m: Module) -> None:
        """Columns of the matrix by slot, sums behind them by number, twice, with registers behind the memories."""
        config, columns = self.config, self.columns
        write = Signal(data.StructLayout({"en": 1, "addr": config.column_bits + 1, "data": config.width}))
        places = [Signal(config.column_bits + 1, name=f"place_{n}") for n in range(2)]
        reads = self.request.tally | (self.request.valid & ~self.request.end)
        for n, (place, column) in enumerate(zip(places, self._columns, strict=True)):
            m.submodules[f"kept_{n}"] = kept = memory.Memory(
                shape=config.width, depth=2 << config.column_bits, init=[], attrs=dict(NO_BYPASS)
            )
            port, read = kept.write_port(), registered_read(m, kept)
            number, apart = Signal(config.column_bits + 1, name=f"number_{n}"), self._apart[0][n]
            m.d.comb += [
                number.eq(self.request.column + n),
                place.eq(self._place(number, number >= self.rows if n else self.request.formed)),
                # A split writes columns that have no row in common with the rest of the head.
                apart.eq((self.split | self.rest) & ((number == self.best) | (number == self.tail))),
                read.addr.eq(place),
                read.en.eq(self.moves),
                *(getattr(port, name).eq(getattr(write, name)) for name in ("en", "addr", "data")),
            ]
            with m.If(self.moves):
                m.d.sync += column.eq(read.data)
            used = (reads if n == 0 else self.request.valid & self.request.both) & ~apart & self.moves
            m.d.sync += Assert(~(used & write.en & (write.addr == place)), "a column is read while it is written")
        self._mark(m, write)

        # The place of the best partner, which is known before a split writes it.
        kept, writes = Signal(config.column_bits + 1), Signal()
        m.d.comb += [
            self.free.eq(~columns.enable),
            writes.eq((self.split | self.rest) & self.free),
            write.en.eq(columns.enable | writes),
            write.addr.eq(
                Mux(
                    columns.enable,
                    columns.address,
                    Mux(self.split, self._place(self.tail, 1), kept),
                )
            ),
            write.data.eq(
                Mux(columns.enable, columns.data, self._partner & (self.held ^ self.rest.replicate(config.width)))
            ),
        ]
        m.d.sync += kept.eq(self._place(self.best, self.best >= self.rows))

    def _place(self, number: Value, formed: ValueLike) -> Value:
        """Return the place of a column in the memories: sums are behind the columns of the matrix."""
        config = self.config
        slot = (self.base + number)[: exact_log2(config.slots)]
        return Mux(formed, (1 << config.column_bits) | number[: config.column_bits], slot)

    def _mark(self, m: Module, written: Any) -> None:
        """Keep a bit for each column of the matrix: whether it has two rows. A sum has two when it is formed."""
        config, size = self.config, self.group
        m.submodules.wide = wide = memory.Memory(shape=1, depth=1 << config.column_bits, init=[])
        write, read = wide.write_port(), wide.read_port(domain="comb")
        groups = [Signal(2, name=f"marks_{n}", reset_less=True) for n in range(config.width // size)]
        for n, group in enumerate(groups):
            m.d.sync += group.eq(Cat(*_one_and_two(written.data[n * size : (n + 1) * size])))
        two: Value = Cat(group[1] for group in groups).any()
        if len(groups) > 1:
            two |= _one_and_two(Cat(group[0] for group in groups))[1]
        m.d.sync += [write.en.eq(written.en & ~written.addr[-1]), write.addr.eq(written.addr)]
        # The head behind one that was split is often the partner that has just been written.
        written_now = write.en & (write.addr == self.head)
        m.d.comb += [
            write.data.eq(two),
            read.addr.eq(self.head),
            self.narrow.eq(~Mux(written_now, two, read.data) & ~self.request.formed),
        ]

    def _hold(self, m: Module) -> None:
        """Load heads; keep the one before, which the decision is about."""
        arrives = self._stages[2]
        first_formed = Signal()
        with m.If(self.moves & ~self.drops & arrives.valid & arrives.load):
            m.d.sync += [
                self._first.eq(self._column),
                first_formed.eq(arrives.formed),
                self.held.eq(self._first),
                self.formed.eq(first_formed),
                self.some.eq((self._first & ~self.joined).any()),
                self.lack.eq((self.joined & ~self._first).any()),
            ]
        with m.If(self.rest & self.free):
            m.d.sync += [self._first.eq(self.held & ~self._partner), first_formed.eq(self.formed)]

    def _compare(self, m: Module) -> None:
        """Count what each partner has in common with the head, by groups, then in all; keep the best and its number."""
        size, width, last = self.group, self.config.width, self._stages[-1]
        ones = [Signal(range(width + 1), name=f"ones_{n}", reset_less=True) for n in range(2)]
        # Beside their ones.
        counted = [Signal(width, name=f"counted_{n}", reset_less=True) for n in range(2)]
        for n, (column, count) in enumerate(zip(self._columns, ones, strict=True)):
            counting = Signal(width, name=f"counting_{n}", reset_less=True)
            groups = [Signal(range(size + 1), name=f"ones_{n}_{k}", reset_less=True) for k in range(width // size)]
            both = Signal(width, name=f"both_{n}")
            m.d.comb += both.eq(self._first & column)
            with m.If(self.moves):
                for k, group in enumerate(groups):
                    m.d.sync += group.eq(_sum(list(both[k * size : (k + 1) * size])))
                m.d.sync += [count.eq(_sum(list(groups))), counting.eq(column), counted[n].eq(counting)]
                with m.If(self._apart[-1][n]):
                    m.d.sync += count.eq(0)
        most, saved, shares, far = Signal.like(ones[0], init=1), Signal(), Signal(2), Signal()
        m.d.comb += [
            shares[0].eq(last.valid & ~last.load & (ones[0] > 1)),
            shares[1].eq(last.valid & last.both & (ones[1] > 1)),
            # Of equal partners the nearest.
            far.eq(last.both & (ones[1] > ones[0])),
            self.saves.eq(shares.any() | (saved & ~last.load)),
        ]
        more = Mux(far, ones[1], ones[0])
        # A head that waits is alone there: nothing is compared with it, and the round before is decided.
        with m.If((last.valid & last.load) | (self.split & self.free)):
            m.d.sync += [most.eq(1), saved.eq(0), self.another.eq(0)]
        with m.Elif(shares.any()):
            # A stage that waits is counted more than once, but only as long as it is the last of its round.
            m.d.sync += [saved.eq(1), self.another.eq(self.another | saved | shares.all())]
            with m.If(more > most):
                m.d.sync += [
                    most.eq(more),
                    self.best.eq(last.column + far),
                    self._partner.eq(Mux(far, counted[1], counted[0])),
                ]

    def _tally(self, m: Module) -> None:
        """Count the columns of a window in each row of a group; a row joins if there are more than `most`."""
        arrives, counted = self._stages[2], self._stages[3]
        top = max(K_VALUES)
        part = self._column.word_select(arrives.group, self.group)
        counts = [Signal(range(2 * top), name=f"count_{n}", reset_less=True) for n in range(self.group)]
        # From top - 1 - most on, so that the highest bit tells whether there are more.
        begin = Signal(range(top))
        m.d.comb += begin.eq(top - 1 - self.most)
        with m.If(arrives.tally):
            for count, bit in zip(counts, part, strict=True):
                before = Mux(arrives.load, begin, count)
                # Bit by bit: a carry chain for so few bits is larger.
                m.d.sync += count.eq(Cat(before[n] ^ (bit & before[:n].all()) for n in range(len(count))))
        with m.If(self.clear):
            m.d.sync += self.joined.eq(0)
        with m.Elif(counted.tally & counted.last):
            m.d.sync += self.joined.word_select(counted.group, self.group).eq(
                Mux(self.joins, Cat(count[-1] for count in counts), 0)
            )
