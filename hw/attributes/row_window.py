"""Row window: the engine reads the rows of a batch from here, in order, as they come out of the attribute RAM (A3)."""

from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import LINE_BYTES, Error
from hw.attributes.formats import AttributeConfig
from hw.block_memory import NO_BYPASS, registered_read
from hw.graph.formats import ErrorReport
from hw.memory.formats import BURST_BEATS, beat_address_width, line_address_width
from hw.memory.window import WindowBeat, WindowRead, window_members
from hw.stream.slice import Slice

__all__ = ["RowWindow", "WindowSettings"]

#: Rows that may be asked for and not yet read, a power of two.
ROWS = 64


class WindowSettings(data.StructLayout):
    """``rows``: line of the first row. ``count``: rows. ``beats`` of a row."""

    def __init__(self, config: AttributeConfig) -> None:
        super().__init__(
            {
                "rows": line_address_width(config.address_width),
                "count": range((1 << config.tag_bits) + 1),
                "beats": range(config.row_beats + 1),
            }
        )


class RowWindow(wiring.Component):
    """A queue of rows that is read like memory, at the addresses that the rows would have, each beat once and in order.

    Rows are asked for while the attribute RAM still fetches them, and a burst waits for its row; so the engine works on
    the first rows while the last ones are fetched, and no row is written to memory. Rows come in any order, since the
    attribute RAM answers hits while a miss is under way; a request is let through only when there is a place for its
    row, so the row that is read next always has one. If a row cannot be had, or a burst is not the next one, this and
    all further beats are errors, and the first of them is reported.

    Parameters
    ----------
    config : AttributeConfig
    depth
        Beats in the queue, a power of two, as many as the longest row has and at least two bursts.

    Attributes
    ----------
    settings : In
        `WindowSettings`, constant from `start` on.
    start : In(1)
        The window opens; nothing of an earlier one is left.
    room : Out(1)
        There is a place for the row of one more request.
    asks : In(1)
        A request passes.
    i : stream of ``config.row``
        Rows, each tagged with its number.
    failed : stream of `ErrorReport`, always ready
        A row does not come.
    abandon : In(1)
        Nobody reads the rest, and the window closes.
    taken : Out(1)
        The last beat of a row has been taken.
    open : Out(1)
        Beats are left that somebody may read.
    failure : stream of `ErrorReport`, always ready
        For whoever reads: why beats are errors.
    first, end, reads, beats
        See `hw.memory.window.window_members`.

    Raises
    ------
    ValueError
        If `depth` is no power of two or too small.
    """

    def __init__(self, config: AttributeConfig, depth: int = 256) -> None:
        least = max(2 * BURST_BEATS, config.row_beats)
        if depth < least or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two from {least}, not {depth!r}")
        self.config, self.depth = config, depth
        self._beats_of_line = exact_log2(8 * LINE_BYTES // config.data_width)
        report = stream.Signature(ErrorReport, always_ready=True)
        super().__init__(
            {
                "settings": In(WindowSettings(config)),
                "start": In(1),
                "room": Out(1),
                "asks": In(1),
                "i": In(stream.Signature(config.row)),
                "failed": In(report),
                "abandon": In(1),
                "taken": Out(1),
                "open": Out(1),
                "failure": Out(report),
                **window_members(config.address_width, config.data_width),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Put rows into their places, read them in order."""
        m = Module()
        config, settings = self.config, self.settings
        beats_of_line = self._beats_of_line
        m.submodules.queue = queue = memory.Memory(
            shape=config.data_width, depth=self.depth, init=[], attrs=dict(NO_BYPASS)
        )
        read = registered_read(m, queue)
        # Beats in all, and those that were read; which of the next rows are there as a whole.
        total = Signal(range((1 << config.tag_bits) * config.row_beats + 1), reset_less=True)
        state = _State(total, Signal.like(total, name="gone"), Signal(ROWS), Signal(name="broken"))
        lines = (total + ((1 << beats_of_line) - 1)) >> beats_of_line
        opening = Signal()  # a cycle after the start there is a total
        m.d.sync += opening.eq(self.start)
        with m.If(self.start):
            m.d.sync += [
                total.eq(settings.count * settings.beats),
                state.gone.eq(0),
                state.there.eq(0),
                state.broken.eq(0),
                self.open.eq(1),
                self.first.eq(settings.rows),
                self.end.eq(settings.rows),
            ]
        with m.Elif(opening):
            m.d.sync += self.end.eq(self.first + lines)
        with m.Elif(self.abandon | (self.open & (state.gone == total))):
            m.d.sync += [self.open.eq(0), self.end.eq(self.first)]
        self._let_through(m, state)
        comes = self._put(m, state, queue.write_port())
        goes = self._read(m, state, read)
        with m.If(~self.start):
            m.d.sync += state.there.eq((state.there | comes) & ~goes)
        return m

    def _let_through(self, m: Module, state: "_State") -> None:
        """Count the places of the rows that were asked for."""
        # Beats and rows that are asked for and not yet read.
        beats, rows = Signal(range(self.depth + 1)), Signal(range(ROWS + 1))
        m.d.comb += self.room.eq(state.broken | ((beats + self.settings.beats <= self.depth) & (rows != ROWS)))
        more, less = Mux(self.asks, self.settings.beats, 0), Signal()
        m.d.comb += less.eq(state.moves & ~state.broken)
        m.d.sync += [beats.eq(beats + more - less), rows.eq(rows + self.asks - (less & state.ends))]
        with m.If(self.start):
            m.d.sync += [beats.eq(0), rows.eq(0)]
        m.d.sync += Cover(~self.room, "a request waits for a place")

    def _put(self, m: Module, state: "_State", write: memory.WritePort) -> Signal:
        """Write a row where its number says; return which one is whole, as a bit of `there`."""
        config, beats = self.config, self.settings.beats
        held, valid, place = Signal(config.row), Signal(), Signal(range(self.depth))
        beat, comes = Signal(range(config.row_beats)), Signal(ROWS)
        m.d.comb += [
            self.i.ready.eq(1),
            self.taken.eq(valid & held.last),
            write.en.eq(valid & ~state.broken),
            write.addr.eq(place + beat),
            write.data.eq(held.data),
            comes.eq((valid & held.last) << held.tag[: exact_log2(ROWS)]),
        ]
        m.d.sync += [
            valid.eq(self.i.valid),
            held.eq(self.i.payload),
            place.eq(self.i.payload.tag[: len(place)] * beats),
        ]
        with m.If(valid):
            m.d.sync += beat.eq(Mux(held.last, 0, beat + 1))
        return comes

    def _read(self, m: Module, state: "_State", read: Any) -> Signal:
        """Walk through a burst; a beat waits until its row is there. Return which row has been read, as `_put` does."""
        config = self.config
        port = (config.address_width, config.data_width)
        beats_of_line, gone, broken = self._beats_of_line, state.gone, state.broken
        m.submodules.bursts = bursts = Slice(WindowRead(*port))
        connect(m, flipped(self.reads), bursts.i)
        burst, position = bursts.o.payload, Signal(range(BURST_BEATS))
        row, beat = Signal(range(ROWS)), Signal(range(config.row_beats))  # of the next beat
        base = Signal(beat_address_width(*port))
        turn, ends, goes = Signal(), Signal(), Signal(ROWS)
        m.d.comb += [
            base.eq(self.first << beats_of_line),
            # The next beat of all is this burst's.
            turn.eq((burst.address + position)[: len(base)] == (base + gone)[: len(base)]),
            state.moves.eq(bursts.o.valid & (broken | (turn & state.there.bit_select(row, 1)))),
            state.ends.eq(beat == self.settings.beats - 1),
            ends.eq(position == burst.length),
            bursts.o.ready.eq(state.moves & ends),
            read.addr.eq(gone),
            goes.eq((state.moves & state.ends & ~broken) << row),
        ]
        with m.If(state.moves):
            m.d.sync += position.eq(Mux(ends, 0, position + 1))
            with m.If(~broken):
                m.d.sync += [
                    gone.eq(gone + 1),
                    beat.eq(Mux(state.ends, 0, beat + 1)),
                    row.eq(row + state.ends),
                ]
        with m.If(self.start):
            m.d.sync += [beat.eq(0), row.eq(0)]
        # What is wrong, until somebody reads on.
        wrong, told, bad = Signal(ErrorReport, reset_less=True), Signal(), Signal()
        m.d.comb += bad.eq(bursts.o.valid & ~turn)
        with m.If((self.failed.valid | bad | self.abandon) & ~broken & self.open & ~self.start):
            # Rows that still come are dropped, and whoever waits for them goes on.
            m.d.sync += [
                broken.eq(1),
                self.open.eq(0),
                told.eq(self.abandon),
                wrong.code.eq(Mux(self.failed.valid, self.failed.payload.code, Error.BAD_OPERAND)),
                wrong.info.eq(Mux(self.failed.valid, self.failed.payload.info, burst.address >> beats_of_line)),
            ]
        with m.Elif(state.moves & broken):
            m.d.sync += told.eq(1)
        asked, given = Signal(WindowBeat(config.data_width), reset_less=True), Signal.like(self.beats.payload)
        asks, gives = Signal(), Signal()
        m.d.sync += [
            asks.eq(state.moves),
            asked.error.eq(broken),
            asked.last.eq(ends),
            asked.client.eq(burst.client),
            gives.eq(asks),
            given.eq(asked),
            given.data.eq(read.data),
        ]
        m.d.comb += [
            self.beats.valid.eq(gives),
            self.beats.payload.eq(given),
            self.failure.valid.eq(state.moves & broken & ~told),
            self.failure.payload.eq(wrong),
        ]
        m.d.sync += [
            Cover(bursts.o.valid & turn & ~state.moves, "a burst waits for its row"),
            Cover(self.failure.valid, "a row that does not come is told"),
        ]
        return goes


@dataclass(frozen=True)
class _State:
    """Signals that the parts of the window share.

    ``total``, ``gone``: beats in all, beats that were read. ``there``: of the next rows, by number, those that are
    whole. ``broken``: there is nothing but errors. ``moves``: a beat is read; ``ends``: it is the last of its row.
    """

    total: Signal
    gone: Signal
    there: Signal
    broken: Signal
    moves: Signal = field(default_factory=lambda: Signal(name="moves"))
    ends: Signal = field(default_factory=lambda: Signal(name="ends"))
