"""Needed list: a bit for each VID whose row a chiplet takes from the ring (R4, R6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, TypeAlias

from amaranth.hdl import Cat, Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import NEEDED_ROW, Error
from hw.block_memory import NO_BYPASS, RegisteredRead, registered_read
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import WORD_BYTES, RangeBeat, RangeRequest, Word
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["NeededList"]

#: Bits of a word of the list.
_WORD = 32
#: Words of each place in a beat that may wait for their bank.
_LANE = 4
#: Read and write port of each bank.
_Banks: TypeAlias = Sequence[tuple[RegisteredRead, Any]]


@dataclass(frozen=True)
class _Marks:
    """Whether the words of the next beat may come; whether all marks are written."""

    takes: Signal
    idle: Signal


@dataclass(frozen=True)
class _Walk:
    """Where the walk is.

    ``finished``: the list is complete. ``gives``: words are being read. ``writes``: those of a window are to be, of
    which there are ``words``.
    """

    finished: Signal
    gives: Signal
    writes: Signal
    words: Signal


class NeededList(wiring.Component):
    """Marks VIDs in a bitmap, which sorts them and drops duplicates.

    If the graph has no more vertices than the bitmap, the list is kept there, and read as a range of memory would be.
    Otherwise the bitmap is a window over the VIDs: they are read once for every window, and the marks of each are
    written to memory. It has as many banks as a beat has words, by the lowest bits of the VID, and in each a word is
    marked in a cycle: words wait for their bank in lanes, so that a beat does not wait for the one before.

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
    others : In(RangeRequest)
        Range of the VIDs, in any order. Those that the chiplet owns are left out.
    request : stream of `RangeRequest`
        Requests `others`, once a window.
    i : stream of `RangeBeat`
        The VIDs.
    kept : Out(1)
        The list is in the bitmap, from `done` on.
    o : stream of unsigned(32)
        The list otherwise: of each VID a bit, lowest VID lowest, in whole rows of the bitmap.
    asks : stream of `RangeRequest`
        Words of a list that is kept: address 0 is that of VIDs 0 to 31. Not between `start` and `done`.
    words : stream of `Word`
        They, as from memory; at least one a range.
    done : Out(1)
        The list is complete.
    error : stream of `ErrorReport`, always ready
        ``VID_RANGE`` with a VID beyond the graph; it is left out.

    Raises
    ------
    ValueError
        If `bitmap` is out of range.
    """

    def __init__(self, address_width: int = 32, chiplets: int = 4, bitmap: int = 4096, data_width: int = 256) -> None:
        if bitmap < 2 * _WORD or bitmap & (bitmap - 1):
            raise ValueError(f"bitmap must be a power of two from {2 * _WORD}, not {bitmap!r}")
        self.chiplets, self.bitmap = chiplets, bitmap
        # Bits of a row of the bitmap, in all banks together.
        self._row = min(NEEDED_ROW, bitmap // 2)
        self._banks = data_width // (8 * WORD_BYTES)
        super().__init__(
            {
                "start": In(1),
                "position": In(range(chiplets)),
                "boundaries": In(data.ArrayLayout(32, chiplets + 1)),
                "others": In(RangeRequest(address_width)),
                "request": Out(stream.Signature(RangeRequest(address_width))),
                "i": In(stream.Signature(RangeBeat(data_width))),
                "kept": Out(1),
                "o": Out(stream.Signature(32)),
                "asks": In(stream.Signature(RangeRequest(address_width))),
                "words": Out(stream.Signature(Word())),
                "done": Out(1),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect a register for the beats; walk through the windows, whose words go to memory or to who asks."""
        m = Module()
        m.submodules.taken = taken = Slice(self.i.payload.shape())
        connect(m, flipped(self.i), taken.i)
        m.d.comb += self.request.payload.eq(self.others)
        banks = []
        for n in range(self._banks):
            bank = Memory(
                shape=self._row // self._banks, depth=self.bitmap // self._row, init=[], attrs=dict(NO_BYPASS)
            )
            m.submodules[f"bank_{n}"] = bank
            banks.append((registered_read(m, bank, f"bank_{n}"), bank.write_port()))
        walk = _Walk(
            finished=Signal(init=1, name="finished"),
            gives=Signal(name="gives"),
            writes=Signal(name="writes"),
            words=Signal(32, name="words_of_window"),
        )
        self._read(m, banks, walk)
        self._walk(m, taken.o, banks, walk)
        m.d.comb += self.done.eq(walk.finished)
        return m

    def _walk(self, m: Module, beats: stream.Interface, banks: _Banks, walk: _Walk) -> None:
        """For every window request the VIDs, clear the bitmap, mark them; of several windows have each written."""
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
            walk.words.eq((row + 1) << exact_log2(self._row // _WORD)),
            self.kept.eq(vertices <= self.bitmap),
        ]
        marking, marked, emptied = Signal(), self._mark(m, beats, banks, window), Signal()
        m.d.comb += beats.ready.eq(marking & marked.takes)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [window.eq(0), row.eq(0)]
                with m.If(self.start):
                    m.d.sync += walk.finished.eq(0)
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += self.request.valid.eq(1)
                with m.If(self.request.ready):
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                for _, write in banks:
                    m.d.comb += [write.addr.eq(row), write.en.eq(1), write.data.eq(0)]
                with m.If(last_row):
                    m.next = "MARK"
                with m.Else():
                    m.d.sync += row.eq(row + 1)
            with m.State("MARK"):
                m.d.comb += marking.eq(1)
                m.d.sync += emptied.eq(0)
                with m.If(beats.valid & beats.ready & beats.payload.last):
                    m.next = "MARKED"
            with m.State("MARKED"):
                # The last marks are written in this cycle or before.
                m.d.sync += emptied.eq(marked.idle)
                with m.If(marked.idle & emptied):
                    m.next = "WRITE"
                    with m.If(self.kept):
                        m.d.sync += walk.finished.eq(1)
                        m.next = "IDLE"
            with m.State("WRITE"):
                # The rows that were cleared, whose number is that of the last one.
                m.d.comb += walk.writes.eq(1)
                m.next = "WRITTEN"
            with m.State("WRITTEN"):
                with m.If(~walk.gives):
                    m.d.sync += [window.eq(window + 1), row.eq(0)]
                    m.next = "ASK"
                    with m.If(last_window):
                        m.d.sync += walk.finished.eq(1)
                        m.next = "IDLE"
        m.d.sync += Cover(window != 0)

    def _read(self, m: Module, banks: _Banks, walk: _Walk) -> None:
        """Send words of the bitmap, one a cycle: those of a window to memory, then those that are asked for."""
        words_bits, row_bits = exact_log2(self.bitmap // _WORD), exact_log2(self._row // _WORD)
        place, following, left = Signal(words_bits), Signal(words_bits), Signal.like(self.asks.payload.words)
        goes = Signal()
        # Bits of a VID's place in its row: the bank's are the lowest.
        there = Cat(banks[bit % self._banks][0].data[bit // self._banks] for bit in range(self._row))
        m.d.comb += [
            self.asks.ready.eq(walk.finished & ~walk.gives),
            following.eq(place),
            self.o.payload.eq(there.word_select(place[:row_bits], _WORD)),
            self.o.valid.eq(walk.gives & ~walk.finished),
            self.words.payload.data.eq(self.o.payload),
            self.words.payload.last.eq(left == 1),
            self.words.valid.eq(walk.gives & walk.finished),
            goes.eq(Mux(walk.finished, self.words.ready, self.o.ready)),
        ]
        with m.If(walk.gives & goes):
            m.d.comb += following.eq(place + 1)
            m.d.sync += [left.eq(left - 1), walk.gives.eq(left != 1)]
        with m.Elif(walk.writes):
            m.d.comb += following.eq(0)
            m.d.sync += [left.eq(walk.words), walk.gives.eq(1)]
        with m.Elif(self.asks.valid & self.asks.ready):
            m.d.comb += following.eq(self.asks.payload.address)
            m.d.sync += [left.eq(self.asks.payload.words), walk.gives.eq(1)]
        m.d.sync += place.eq(following)
        for read, _ in banks:
            m.d.comb += read.addr.eq(following >> row_bits)

    def _mark(self, m: Module, beats: stream.Interface, banks: _Banks, window: Value) -> "_Marks":
        """Compare the words of a beat, then report one of them in a cycle; mark one in each bank, of any beats."""
        count = self._banks
        vertices = self.boundaries[self.chiplets]
        # The limits are constant while VIDs arrive, so they are registered.
        own_first, own_end = Signal(32), Signal(32)
        m.d.sync += [
            own_first.eq(self.boundaries.as_value().word_select(self.position, 32)),
            own_end.eq((self.boundaries.as_value() >> 32).word_select(self.position, 32)),
        ]
        vids, first = Signal(data.ArrayLayout(32, count)), Signal(32)
        to_mark, to_report, marked, reported = (
            Signal(count, name=n) for n in ("to_mark", "to_report", "marked", "reported")
        )
        marks = _Marks(Signal(name="takes"), Signal(name="idle"))
        written, lanes = Signal(count), []
        for n in range(count):
            m.submodules[f"lane_{n}"] = lane = Queue(exact_log2(self.bitmap), _LANE)
            m.d.comb += [
                lane.i.valid.eq(to_mark[n] & marks.takes),
                lane.i.payload.eq(vids[n]),
                lane.o.ready.eq(marked[n]),
            ]
            lanes.append(lane)
        m.d.comb += [
            marks.takes.eq(((to_mark & ~Cat(lane.i.ready for lane in lanes)) | (to_report & ~reported)) == 0),
            marks.idle.eq(~(to_mark | to_report | written | Cat(lane.o.valid for lane in lanes)).any()),
            reported.eq(to_report & -to_report),
            self.error.valid.eq(to_report.any()),
            self.error.payload.code.eq(Error.VID_RANGE),
            self.error.payload.info.eq(first),
        ]
        m.d.sync += to_report.eq(to_report & ~reported)
        with m.If(marks.takes):
            m.d.sync += to_mark.eq(0)
        for n in reversed(range(count)):
            with m.If(to_report[n]):
                m.d.comb += first.eq(vids[n])
        with m.If(beats.valid & beats.ready):
            m.d.sync += vids.eq(beats.payload.data)
            for n in range(count):
                vid = beats.payload.data.word_select(n, 32)
                real, beyond = beats.payload.mask[n], vid >= vertices
                inside = (vid[exact_log2(self.bitmap) :] == window) & ~beyond
                own = (vid >= own_first) & (vid < own_end)
                m.d.sync += [
                    to_mark[n].eq(real & inside & ~own),
                    to_report[n].eq(real & beyond & (window == 0)),
                ]
        heads = [lane.o for lane in lanes]
        m.d.comb += marked.eq(reduce(or_, [self._mark_one(m, n, banks[n], heads, written[n]) for n in range(count)]))
        m.d.sync += Cover(Cat(head.valid & ~head.ready for head in heads).any(), "words for the same bank")
        return marks

    def _mark_one(
        self, m: Module, number: int, bank: tuple[RegisteredRead, Any], heads: Sequence[Any], written: Value
    ) -> Signal:
        """Mark one of the words in a bank: its row is read, and in the next cycle written with the bit.

        Returns
        -------
        The word's lane, one-hot.
        """
        (read, write), count, bank_bits = bank, self._banks, exact_log2(self._banks)
        mine, chosen = Signal(count, name=f"mine_{number}"), Signal(count, name=f"chosen_{number}")
        m.d.comb += [
            mine.eq(Cat(head.valid & (head.payload[:bank_bits] == number) for head in heads)),
            chosen.eq(mine & -mine),
        ]
        at = Signal(exact_log2(self.bitmap) - bank_bits, name=f"at_{number}")
        for n, head in enumerate(heads):
            with m.If(chosen[n]):
                m.d.comb += at.eq(head.payload[bank_bits:])
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
