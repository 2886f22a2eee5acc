"""Needed list: the VIDs of other chiplets among a chiplet's sources, sorted, each once (R4, R6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, TypeAlias

from amaranth.hdl import Cat, Const, Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import Error
from hw.block_memory import NO_BYPASS, RegisteredRead, registered_read
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import WORD_BYTES, RangeBeat, RangeRequest
from hw.stream.slice import Slice

__all__ = ["NeededList"]

#: Bits of a row of the bitmap, in all banks together: most, and of a word that is searched at a time.
_ROW, _WORD = 128, 32
#: Read and write port of each bank.
_Banks: TypeAlias = Sequence[tuple[RegisteredRead, Any]]


@dataclass(frozen=True)
class _Marks:
    """Whether the words of the next beat may come; whether all marks are written."""

    takes: Signal
    idle: Signal


@dataclass(frozen=True)
class _Place:
    """Where the walk through the bitmap is: window and row, which is the last one with vertices or not.

    Row 0 is read (`begins`) before it and the others are looked at (`scanning`); `next_row` asks for the one behind.
    """

    window: Signal
    row: Signal
    last_row: Signal
    begins: Signal
    scanning: Signal
    next_row: Signal


class NeededList(wiring.Component):
    """Marks sources in a bitmap, then reads it in order, which sorts them and drops duplicates.

    The bitmap is a window over the VIDs. The edges are read once for every window, so the graph may be larger than
    the bitmap. It has as many banks as a beat has words, by the lowest bits of the VID: of the words of a beat those
    are marked in the same cycle that are in different banks.

    Parameters
    ----------
    address_width, data_width
        Width of byte addresses and of a beat, in bits.
    chiplets
        Most chiplets of a ring.
    bitmap
        Vertices of a window, a power of two from 64.

    Attributes
    ----------
    start : In(1)
        Begin; the settings are constant until `done`.
    position : In
        Position of this chiplet on the ring.
    boundaries : In
        Boundary table; entries past the number of chiplets hold the number of vertices.
    edges : In(RangeRequest)
        Range of the sources.
    weighted : In(1)
        A source has two words, of which the first is its VID.
    partials : In(32)
        Number of VIDs behind those of the graph that stand for partial sums and are no vertices.
    request : stream of `RangeRequest`
        Requests `edges`, once a window.
    i : stream of `RangeBeat`
        The sources.
    o : stream of unsigned(32)
        The list.
    counts : Out
        Entries of every owner so far.
    done : Out(1)
        The list and its counts are complete.
    error : stream of `ErrorReport`, always ready
        ``VID_RANGE`` with a VID beyond the graph and its partial sums; it is left out.

    Raises
    ------
    ValueError
        If `bitmap` is out of range.
    """

    def __init__(self, address_width: int = 32, chiplets: int = 4, bitmap: int = 4096, data_width: int = 256) -> None:
        if bitmap < 2 * _WORD or bitmap & (bitmap - 1):
            raise ValueError(f"bitmap must be a power of two from {2 * _WORD}, not {bitmap!r}")
        self.chiplets, self.bitmap = chiplets, bitmap
        self._row = min(_ROW, bitmap // 2)
        self._banks = data_width // (8 * WORD_BYTES)
        super().__init__(
            {
                "start": In(1),
                "position": In(range(chiplets)),
                "boundaries": In(data.ArrayLayout(32, chiplets + 1)),
                "edges": In(RangeRequest(address_width)),
                "weighted": In(1),
                "partials": In(32),
                "request": Out(stream.Signature(RangeRequest(address_width))),
                "i": In(stream.Signature(RangeBeat(data_width))),
                "o": Out(stream.Signature(32)),
                "counts": Out(data.ArrayLayout(32, chiplets)),
                "done": Out(1),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect registers for the beats and for the list; walk through the windows and count the entries."""
        m = Module()
        m.submodules.taken = taken = Slice(self.i.payload.shape())
        m.submodules.found = found = Slice(32)
        connect(m, flipped(self.i), taken.i)
        connect(m, found.o, flipped(self.o))
        m.d.comb += self.request.payload.eq(self.edges)
        banks = []
        for n in range(self._banks):
            bank = Memory(
                shape=self._row // self._banks, depth=self.bitmap // self._row, init=[], attrs=dict(NO_BYPASS)
            )
            m.submodules[f"bank_{n}"] = bank
            banks.append((registered_read(m, bank, f"bank_{n}"), bank.write_port()))
        counted = self._count(m, found.o)
        finished = self._walk(m, taken.o, banks, found.i)
        m.d.comb += self.done.eq(finished & ~self.o.valid & ~counted.any())
        return m

    def _walk(self, m: Module, beats: stream.Interface, banks: _Banks, found: stream.Interface) -> Signal:
        """For every window clear the bitmap, request the edges, mark their sources, scan; return whether it is done."""
        # A VID is cut into window, row and bit, so nothing is added or subtracted.
        rows, bit_bits = self.bitmap // self._row, exact_log2(self._row)
        window, row = Signal(32 - exact_log2(self.bitmap) + 1), Signal(exact_log2(rows))
        vertices = self.boundaries[self.chiplets]
        # Behind the row of the last vertex nothing can be marked.
        final, last_row, last_window = Signal(32 - bit_bits + 1), Signal(), Signal()
        m.d.sync += [
            final.eq((vertices - 1)[:33] >> bit_bits),
            last_window.eq(((window + 1) << exact_log2(self.bitmap)) >= vertices),
        ]
        m.d.comb += [
            last_row.eq((row == rows - 1) | (Cat(row, window) >= final)),
            *(read.addr.eq(row) for read, _ in banks),
        ]
        marking, marked, emptied = Signal(), self._mark(m, beats, banks, window), Signal()
        m.d.comb += beats.ready.eq(marking & marked.takes)
        begins, scanning, next_row = (Signal(name=name) for name in ("begins", "scanning", "next_row"))
        scanned = self._scan(m, found, banks, _Place(window, row, last_row, begins, scanning, next_row))
        finished = Signal(init=1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [window.eq(0), row.eq(0)]
                with m.If(self.start):
                    m.d.sync += [finished.eq(0), self.counts.eq(0)]
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                for _, write in banks:
                    m.d.comb += [write.addr.eq(row), write.en.eq(1), write.data.eq(0)]
                m.d.sync += row.eq(row + 1)
                with m.If(last_row):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += self.request.valid.eq(1)
                with m.If(self.request.ready):
                    m.next = "MARK"
            with m.State("MARK"):
                m.d.comb += marking.eq(1)
                m.d.sync += [row.eq(0), emptied.eq(0)]
                with m.If(beats.valid & beats.ready & beats.payload.last):
                    m.next = "MARKED"
            with m.State("MARKED"):
                # The last marks are written, then the first row is read.
                m.d.sync += emptied.eq(marked.idle)
                m.d.comb += begins.eq(marked.idle & emptied)
                with m.If(begins):
                    m.next = "SCAN"
            with m.State("SCAN"):
                m.d.comb += scanning.eq(1)
                with m.If(next_row):
                    m.d.sync += row.eq(row + 1)
                with m.If(scanned):
                    m.d.sync += [window.eq(window + 1), row.eq(0)]
                    m.next = "CLEAR"
                    with m.If(last_window):
                        m.d.sync += finished.eq(1)
                        m.next = "IDLE"
        m.d.sync += Cover((window != 0) & found.valid)
        return finished

    def _scan(self, m: Module, found: stream.Interface, banks: _Banks, walk: _Place) -> Value:
        """Send the marks of a row word by word while the next row is read; return whether those of the last are sent.

        Words without marks take no cycle, a row two at least: it is read in the one and looked at in the other.
        """
        words, bank_of = self._row // _WORD, self._banks
        # Bits of a VID's place in its row: the bank's are the lowest.
        there = Cat(banks[bit % bank_of][0].data[bit // bank_of] for bit in range(self._row))
        # The row that was read, and its words that were not looked at; of one of these the marks that were not sent.
        held, left, at, read, ended = Signal(self._row), Signal(words), Signal.like(walk.row), Signal(), Signal()
        rest, place = Signal(_WORD), Signal(len(walk.row) + exact_log2(words))
        lowest, position = _lowest(m, rest)
        first = Signal(words)
        free, more = Signal(), Signal()
        m.d.comb += [
            found.valid.eq(walk.scanning & (rest != 0)),
            found.payload.eq(Cat(position, place, walk.window)),
            free.eq((rest == 0) | ((rest == lowest) & found.ready)),
            first.eq(left & -left),
            # The last word of a row makes room for the next row, unless that has been the last one.
            more.eq(~ended & read & ((left == 0) | (free & (left == first)))),
            walk.next_row.eq(walk.scanning & more),
        ]
        with m.If(walk.begins):
            m.d.sync += [rest.eq(0), left.eq(0), ended.eq(0)]
        m.d.sync += read.eq(walk.begins | (walk.scanning & ~more))
        with m.If(walk.scanning):
            with m.If(found.ready):
                m.d.sync += rest.eq(rest & ~lowest)
            with m.If(free):
                for n in range(words):
                    with m.If(first[n]):
                        m.d.sync += [
                            rest.eq(held.word_select(n, _WORD)),
                            place.eq(Cat(Const(n, exact_log2(words)), at)),
                        ]
                m.d.sync += left.eq(left & ~first)
            with m.If(more):
                m.d.sync += [
                    held.eq(there),
                    left.eq(Cat(there.word_select(n, _WORD).any() for n in range(words))),
                    at.eq(walk.row),
                    ended.eq(walk.last_row),
                ]
        return walk.scanning & ended & (left == 0) & (rest == 0)

    def _mark(self, m: Module, beats: stream.Interface, banks: _Banks, window: Value) -> "_Marks":
        """Compare the words of a beat, then mark in each cycle one of them in each bank, and report one."""
        count = self._banks
        vertices = self.boundaries[self.chiplets]
        # The limits are constant while sources arrive, so they are registered.
        own_first, own_end, limit = Signal(32), Signal(32), Signal(33)
        m.d.sync += [
            own_first.eq(self.boundaries.as_value().word_select(self.position, 32)),
            own_end.eq((self.boundaries.as_value() >> 32).word_select(self.position, 32)),
            limit.eq(vertices + self.partials),
        ]
        vids, first = Signal(data.ArrayLayout(32, count)), Signal(32)
        to_mark, to_report, marked, reported = (
            Signal(count, name=n) for n in ("to_mark", "to_report", "marked", "reported")
        )
        marks = _Marks(Signal(name="takes"), Signal(name="idle"))
        written = Signal(count)
        m.d.comb += [
            marks.takes.eq(((to_mark & ~marked) == 0) & ((to_report & ~reported) == 0)),
            marks.idle.eq(~to_mark.any() & ~to_report.any() & ~written.any()),
            reported.eq(to_report & -to_report),
            self.error.valid.eq(to_report.any()),
            self.error.payload.code.eq(Error.VID_RANGE),
            self.error.payload.info.eq(first),
        ]
        m.d.sync += [to_mark.eq(to_mark & ~marked), to_report.eq(to_report & ~reported)]
        for n in reversed(range(count)):
            with m.If(to_report[n]):
                m.d.comb += first.eq(vids[n])
        with m.If(beats.valid & beats.ready):
            m.d.sync += vids.eq(beats.payload.data)
            for n in range(count):
                vid = beats.payload.data.word_select(n, 32)
                real = beats.payload.mask[n] & (~self.weighted if n % 2 else 1)
                inside = (vid[exact_log2(self.bitmap) :] == window) & (vid < vertices)
                own = (vid >= own_first) & (vid < own_end)
                m.d.sync += [
                    to_mark[n].eq(real & inside & ~own),
                    to_report[n].eq(real & (vid >= limit) & (window == 0)),
                ]
        chosen = [self._mark_one(m, n, banks[n], to_mark, vids, written[n]) for n in range(count)]
        m.d.comb += marked.eq(reduce(or_, chosen))
        m.d.sync += Cover((to_mark & ~marked).any(), "words of a beat in the same bank")
        return marks

    def _mark_one(
        self, m: Module, number: int, bank: tuple[RegisteredRead, Any], to_mark: Value, vids: Any, written: Value
    ) -> Signal:
        """Mark the first of the words in a bank: its row is read, and in the next cycle written with the bit.

        Returns
        -------
        The word, one-hot.
        """
        (read, write), count, bank_bits = bank, self._banks, exact_log2(self._banks)
        mine, chosen = Signal(count, name=f"mine_{number}"), Signal(count, name=f"chosen_{number}")
        m.d.comb += [
            mine.eq(Cat(to_mark[n] & (vids[n][:bank_bits] == number) for n in range(count))),
            chosen.eq(mine & -mine),
        ]
        at = Signal(exact_log2(self.bitmap) - bank_bits, name=f"at_{number}")
        for n in range(count):
            with m.If(chosen[n]):
                m.d.comb += at.eq(vids[n][bank_bits:])
        bits = exact_log2(self._row) - bank_bits
        # A row that is written while it is read is that of the mark before.
        again, place, before = Signal(), Signal.like(at), Signal.like(write.data)
        m.d.sync += [
            written.eq(chosen.any()),
            place.eq(at),
            again.eq(written & (place[bits:] == at[bits:])),
            before.eq(write.data),
        ]
        with m.If(chosen.any()):
            m.d.comb += read.addr.eq(at[bits:])
        with m.If(written):
            m.d.comb += [
                write.en.eq(1),
                write.addr.eq(place[bits:]),
                write.data.eq(Mux(again, before, read.data) | (1 << place[:bits])),
            ]
        m.d.sync += Cover(written & again, "two marks of a row in a row")
        return chosen

    def _count(self, m: Module, found: stream.Interface) -> Signal:
        """Count the entries of every owner, a cycle after they leave; return whose entry left in the last cycle."""
        counted = Signal(self.chiplets)
        reached = [found.payload >= self.boundaries[n] for n in range(1, self.chiplets)]
        for n in range(self.chiplets):
            mine = (reached[n - 1] if n else 1) & (~reached[n] if n < self.chiplets - 1 else 1)
            m.d.sync += [
                counted[n].eq(found.valid & found.ready & mine),
                self.counts[n].eq(self.counts[n] + counted[n]),
            ]
        return counted


def _lowest(m: Module, rest: Signal) -> tuple[Signal, Signal]:
    """Return the lowest bit that is set, one-hot and as its position."""
    lowest, position = Signal(len(rest)), Signal(exact_log2(len(rest)))
    m.d.comb += lowest.eq(rest & -rest)
    for n in range(len(position)):
        m.d.comb += position[n].eq(Cat(lowest[k] for k in range(len(rest)) if k >> n & 1).any())
    return lowest, position
