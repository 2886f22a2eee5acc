"""Planner: turns the columns of a record into tasks that share sums, during the accumulation (I6, I7)."""

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts.communities import K_VALUES
from hw.community.formats import CommunityConfig
from hw.community.multi_read_memory import read_signature
from hw.lowest import without_lowest
from hw.stream.slice import Slice

__all__ = ["Planner"]

#: Bits counted in one step.
_GROUP = 16


def _count(bits: Value) -> Value:
    """Return the number of ones, by a tree of additions."""
    values: list[Value] = [bits[n] for n in range(len(bits))]
    while len(values) > 1:
        rest = values[len(values) & ~1 :]
        values = [values[n] + values[n + 1] for n in range(0, len(values) & ~1, 2)] + rest
    return values[0]


def _better(two: list[tuple[Value | int, Value]]) -> tuple[Value | int, Value]:
    """Return index and count of the larger one; of equals the first."""
    if len(two) == 1:
        return two[0]
    (low, low_ones), (high, high_ones) = two
    more = high_ones > low_ones
    return Mux(more, high, low), Mux(more, high_ones, low_ones)


class Planner(wiring.Component):
    """Holds a few columns at a time, in the order of the record; sums of pairs join them at the end.

    *Pairs*: the first column is compared with all its partners at once, and its intersection with the best of them
    becomes a new column, until no intersection saves an operation. *Windows*: for k columns and all rows at once, it
    selects the rows for which adding their sum and subtracting the excess takes fewer operations.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while there are records.
    i : stream of ``config.record``
        Records whose columns are complete.
    column
        Read port of the matrix: columns by slot.
    o : stream of ``config.task``
        Tasks, `golden.community.plan.plan`; one with ``last`` and no rows ends a record.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(config.settings),
                "i": In(stream.Signature(config.record)),
                "column": Out(read_signature(config.width, config.slots)),
                "o": Out(stream.Signature(config.task)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Fill the window, compare in steps, emit, move on."""
        m = Module()
        config, settings = self.config, self.settings
        m.submodules.out = out = Slice(config.task)
        wiring.connect(m, out.o, wiring.flipped(self.o))
        task = out.i.payload

        pair = data.StructLayout({"left": config.column_bits, "right": config.column_bits})
        m.submodules.pairs = pairs = memory.Memory(shape=pair, depth=config.columns, init=[])
        pair_write, pair_read = pairs.write_port(), pairs.read_port()
        # Columns of new sums, used only by the planner.
        m.submodules.shared = kept = memory.Memory(shape=config.width, depth=config.columns, init=[])
        kept_write, kept_read = kept.write_port(), kept.read_port()

        number = config.column_bits + 1
        record = Signal(config.record)
        head, fetch, tail = Signal(number), Signal(number), Signal(number)
        look = config.look
        window = [Signal(config.width, name=f"column_{n}") for n in range(look)]
        filled, wanted, loading = Signal(range(look + 1)), Signal(range(look + 1)), Signal()
        again = Signal()  # the last read column has not been taken
        new = Signal()  # the arriving column is that of a new sum
        first, rest = window[0], Signal(range(look + 1))
        shift, splits, runs = Signal(), Signal(), Signal()
        m.d.comb += [
            wanted.eq(Mux(settings.windows, settings.k + 1, config.partners + 1)),
            self.column.address.eq(record.base + Mux(again, head, fetch)),
            kept_read.addr.eq(fetch),
            kept_read.en.eq(1),
            kept_write.addr.eq(tail),
            # A sum's parts are written well before it becomes the first column.
            pair_read.addr.eq(head + shift),
            pair_read.en.eq(1),
            pair_write.addr.eq(tail),
        ]

        # Pairs: common ones, by groups, then in total; then the best partner.
        group = min(_GROUP, config.width)
        groups = config.width // group
        partial = [
            [Signal(range(group + 1), name=f"ones_{n}_{g}") for g in range(groups)] for n in range(config.partners)
        ]
        ones = [Signal(range(config.width + 1), name=f"ones_{n}") for n in range(config.partners)]
        best = Signal(range(max(2, config.partners)))
        saves = Signal()
        for n in range(config.partners):
            both = Signal(config.width, name=f"both_{n}")
            m.d.comb += both.eq(Mux(n + 1 < filled, first & window[n + 1], 0))
            for g in range(groups):
                m.d.sync += partial[n][g].eq(_count(both[g * group : (g + 1) * group]))
            total: Value = partial[n][0]
            for g in range(1, groups):
                total = total + partial[n][g]
            m.d.sync += ones[n].eq(total)
        # The better of each two neighbours in one cycle, the best of those in the next.
        halves: list[tuple[Value | int, Value]] = []
        for n in range(0, config.partners, 2):
            place, most = Signal.like(best, name=f"place_{n}"), Signal.like(ones[0], name=f"most_{n}")
            place_next, most_next = _better(list(enumerate(ones))[n : n + 2])
            m.d.sync += [place.eq(place_next), most.eq(most_next)]
            halves.append((place, most))
        winner = halves
        while len(winner) > 1:
            winner = [_better(winner[n : n + 2]) for n in range(0, len(winner), 2)]
        m.d.sync += [best.eq(winner[0][0]), saves.eq(winner[0][1] > 1)]
        common = Signal(config.width)
        m.d.comb += [
            common.eq(first & Array(window[1 : config.partners + 1])[best]),
            # A write takes effect when `tail` advances.
            kept_write.en.eq(1),
            kept_write.data.eq(common),
            pair_write.en.eq(1),
            pair_write.data.left.eq(head),
            pair_write.data.right.eq(head + 1 + best),
        ]

        # Windows: rows for which the sum is cheaper: more than half of the columns, and one, are connected.
        cheaper, rows = Signal(config.width), Signal(config.width)
        widest = max(K_VALUES)
        there, most = Signal(widest), Signal(range(widest // 2 + 1))
        m.d.comb += [there.eq(Cat(n < filled for n in range(widest))), most.eq((filled + 1) >> 1)]
        for row in range(config.width):
            connected = Signal(widest, name=f"connected_{row}")
            m.d.comb += [
                connected.eq(Cat(column[row] for column in window[:widest]) & there),
                cheaper[row].eq(_count(connected) > most),
            ]
        start, taken = Signal(config.row_bits), Signal(config.row_bits)

        # Properties of the first column, registered a cycle before use: `known` unless it has just changed.
        empty, shared, known = Signal(), Signal(), Signal()
        joined, missing = Signal(config.width), Signal(config.width)
        any_joined, any_missing = Signal(), Signal()
        coming = Signal(config.width)
        m.d.comb += coming.eq(Mux(shift, window[1], first))

        # Columns shift up; the next one arrives behind them, two cycles after room for it appears.
        more, behind = Signal(), Signal(range(look + 1))
        all_fetched, complete = Signal(), Signal()
        m.d.comb += [
            # In windows new sums have no columns of their own.
            all_fetched.eq(fetch == Mux(settings.windows, record.rows, tail)),
            more.eq(runs & ~all_fetched & (filled + loading - shift < wanted)),
            behind.eq(filled - shift),
            complete.eq(~loading & (all_fetched | (filled == wanted))),
        ]
        m.d.sync += [
            loading.eq(more),
            new.eq(fetch >= record.rows),
            fetch.eq(fetch + more),
            filled.eq(behind + loading),
            head.eq(head + shift),
            empty.eq(coming == 0),
            shared.eq((without_lowest(coming) != 0) & (tail < settings.limit)),
            known.eq(~splits & (behind != 0)),
        ]
        arriving = Signal(config.width)
        m.d.comb += arriving.eq(Mux(new, kept_read.data, self.column.data))
        for n in range(look):
            if n + 1 < look:
                with m.If(shift):
                    m.d.sync += window[n].eq(window[n + 1])
            with m.If(loading & (behind == n)):
                m.d.sync += window[n].eq(arriving)
        emits, formed, nothing = Signal(), Signal(), Signal()
        m.d.comb += [formed.eq(head >= record.rows), nothing.eq(empty & ~formed)]

        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [
                    record.eq(self.i.payload),
                    head.eq(0),
                    fetch.eq(0),
                    tail.eq(self.i.payload.rows),
                    filled.eq(0),
                ]
                with m.If(self.i.valid):
                    m.next = "LOOK"
                    with m.If(settings.windows):
                        m.next = "FILL"
                    with m.Elif(self.i.payload.single):
                        m.next = "PASS"
            with m.State("PASS"):
                # No shared sums: every column is a task, one a cycle.
                moves = ~loading | out.i.ready
                m.d.comb += [
                    task.index.eq(head),
                    task.rows.eq(self.column.data),
                    out.i.valid.eq(loading),
                    again.eq(~moves),
                ]
                m.d.sync += [loading.eq(1), filled.eq(0)]
                with m.If(moves):
                    m.d.sync += head.eq(head + loading)
                    with m.If(~all_fetched):
                        m.d.sync += fetch.eq(fetch + 1)
                    with m.Else():
                        m.next = "END"
            with m.State("FILL"):
                with m.If(complete):
                    m.next = "DECIDE"
                    with m.If(filled == 0):
                        m.next = "END"
            with m.State("LOOK"):
                alone = (filled == 1) & complete
                with m.If((filled == 0) & complete):
                    m.next = "END"
                with m.If((filled != 0) & known):
                    with m.If(~shared | alone):
                        m.d.comb += emits.eq(1)
                    with m.Elif(complete):
                        m.next = "ADD"
            with m.State("ADD"):
                m.next = "COMPARE"
            with m.State("COMPARE"):
                m.next = "RANK"
            with m.State("RANK"):
                m.next = "SPLIT"
            with m.State("SPLIT"):
                with m.If(saves):
                    m.d.comb += splits.eq(1)
                    m.d.sync += [first.eq(first & ~common), tail.eq(tail + 1)]
                    for n in range(config.partners):
                        with m.If(best == n):
                            m.d.sync += window[n + 1].eq(window[n + 1] & ~common)
                    m.next = "LOOK"
                with m.Else():
                    m.d.comb += emits.eq(1)
                    with m.If(shift):
                        m.next = "LOOK"
            with m.State("DECIDE"):
                m.d.sync += [
                    rows.eq(Mux(tail < settings.limit, cheaper, 0)),
                    start.eq(head),
                    rest.eq(filled),
                ]
                m.next = "CONNECTIONS"
            with m.State("CONNECTIONS"):
                m.d.sync += [joined.eq(first & ~rows), missing.eq(rows & ~first)]
                m.next = "ANY"
            with m.State("ANY"):
                m.d.sync += [any_joined.eq(joined.any()), any_missing.eq(missing.any())]
                m.next = "JOINED"
            with m.State("JOINED"):
                m.d.comb += [task.index.eq(head), task.rows.eq(joined), out.i.valid.eq(any_joined)]
                with m.If(out.i.ready | ~any_joined):
                    m.next = "NOT JOINED"
            with m.State("NOT JOINED"):
                m.d.comb += [
                    task.index.eq(head),
                    task.rows.eq(missing),
                    task.negative.eq(1),
                    out.i.valid.eq(any_missing),
                    shift.eq(out.i.ready | ~any_missing),
                ]
                with m.If(shift):
                    m.d.sync += [rest.eq(rest - 1), taken.eq(start + 1)]
                    m.next = "CONNECTIONS"
                    with m.If(rest == 1):
                        m.next = "FILL"
                        with m.If(rows != 0):
                            m.next = "FORM"
            with m.State("FORM"):
                last = taken + 1 == head
                m.d.comb += [
                    task.index.eq(tail),
                    task.rows.eq(Mux(last, rows, 0)),
                    task.form.eq(1),
                    task.left.eq(Mux(taken == start + 1, start, tail)),
                    task.right.eq(taken),
                    out.i.valid.eq(1),
                ]
                with m.If(out.i.ready):
                    m.d.sync += taken.eq(taken + 1)
                    with m.If(last):
                        m.d.sync += tail.eq(tail + 1)
                        m.next = "FILL"
            with m.State("END"):
                m.d.comb += [task.last.eq(1), out.i.valid.eq(1)]
                with m.If(out.i.ready):
                    m.next = "IDLE"
        # The first column becomes a task, if it has rows or is a sum that others need.
        with m.If(emits):
            m.d.comb += [
                task.index.eq(head),
                task.rows.eq(first),
                task.form.eq(formed),
                task.left.eq(pair_read.data.left),
                task.right.eq(pair_read.data.right),
                out.i.valid.eq(~nothing),
                shift.eq(nothing | out.i.ready),
            ]
        m.d.comb += runs.eq(~fsm.ongoing("IDLE") & ~fsm.ongoing("PASS"))
        m.d.sync += [
            Cover(settings.windows & (rows != 0) & (start + 2 < head), "a sum of more than two columns"),
            Cover(shift & formed, "a sum of two columns"),
            Cover(again, "a column of a record without sums waits"),
            Cover(~settings.windows & (tail == settings.limit), "no column is left"),
        ]
        return m
