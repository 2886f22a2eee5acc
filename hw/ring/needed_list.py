"""Needed list: the VIDs of other chiplets among a chiplet's sources, sorted, each once (R4, R6)."""

from typing import Any

from amaranth.hdl import Cat, Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import Error
from hw.block_memory import NO_BYPASS, RegisteredRead, registered_read
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import RangeRequest, Word
from hw.stream.slice import Slice

__all__ = ["NeededList"]

#: Bits of a row of the bitmap.
_ROW = 32


class NeededList(wiring.Component):
    """Marks sources in a bitmap, then reads it in order, which sorts them and drops duplicates.

    The bitmap is a window over the VIDs. The edges are read once for every window, so the graph may be larger than
    the bitmap; where it is not, an edge takes a cycle, and so does a vertex that is needed.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
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
    partials : In(32)
        Number of VIDs behind those of the graph that stand for partial sums and are no vertices.
    request : stream of `RangeRequest`
        Requests `edges`, once a window.
    i : stream of `Word`
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

    def __init__(self, address_width: int = 32, chiplets: int = 4, bitmap: int = 4096) -> None:
        if bitmap < 2 * _ROW or bitmap & (bitmap - 1):
            raise ValueError(f"bitmap must be a power of two from {2 * _ROW}, not {bitmap!r}")
        self.chiplets, self.bitmap = chiplets, bitmap
        super().__init__(
            {
                "start": In(1),
                "position": In(range(chiplets)),
                "boundaries": In(data.ArrayLayout(32, chiplets + 1)),
                "edges": In(RangeRequest(address_width)),
                "partials": In(32),
                "request": Out(stream.Signature(RangeRequest(address_width))),
                "i": In(stream.Signature(Word())),
                "o": Out(stream.Signature(32)),
                "counts": Out(data.ArrayLayout(32, chiplets)),
                "done": Out(1),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect registers for the words and for the list; walk through the windows and count the entries."""
        m = Module()
        # A register between the multiplexers of a beat and three comparisons.
        m.submodules.taken = taken = Slice(Word())
        m.submodules.bits = bits = Memory(shape=_ROW, depth=self.bitmap // _ROW, init=[], attrs=dict(NO_BYPASS))
        m.submodules.found = found = Slice(32)
        connect(m, flipped(self.i), taken.i)
        connect(m, found.o, flipped(self.o))
        m.d.comb += self.request.payload.eq(self.edges)
        counted = self._count(m, found.o)
        finished = self._walk(m, taken.o, bits, found.i)
        m.d.comb += self.done.eq(finished & ~self.o.valid & ~counted.any())
        return m

    def _walk(self, m: Module, words: stream.Interface, bits: Memory, found: stream.Interface) -> Signal:
        """For every window clear the bitmap, request the edges, mark their sources, scan; return whether it is done."""
        read, write = registered_read(m, bits), bits.write_port()
        # A VID is cut into window, row and bit, so nothing is added or subtracted.
        rows, bit_bits = self.bitmap // _ROW, exact_log2(_ROW)
        window, row = Signal(32 - exact_log2(self.bitmap) + 1), Signal(exact_log2(rows))
        vertices = self.boundaries[self.chiplets]
        # Behind the row of the last vertex nothing can be marked.
        final, last_window = Signal(32 - bit_bits + 1), Signal()
        m.d.sync += [
            final.eq((vertices - 1)[:33] >> bit_bits),
            last_window.eq(((window + 1) << exact_log2(self.bitmap)) >= vertices),
        ]
        last_row = Signal()
        m.d.comb += last_row.eq((row == rows - 1) | (Cat(row, window) >= final))
        # Marks of a row that have not been sent, and which row it is.
        rest, loaded, shown, ends = Signal(_ROW), Signal(), Signal.like(row), Signal()
        lowest, position = _lowest(m, rest)
        m.d.comb += [found.payload.eq(Cat(position, shown, window)), read.addr.eq(row)]
        vid = words.payload.data
        own, outside = self._compare(m, vid)
        inside = vid[exact_log2(self.bitmap) :] == window
        real = words.valid & ~words.payload.empty
        marks, emptied = Signal(), Signal()
        self._mark(m, read, write, marks, vid[: exact_log2(self.bitmap)])
        finished = Signal(init=1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [window.eq(0), row.eq(0)]
                with m.If(self.start):
                    m.d.sync += [finished.eq(0), self.counts.eq(0)]
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += [write.addr.eq(row), write.en.eq(1), write.data.eq(0)]
                m.d.sync += row.eq(row + 1)
                with m.If(last_row):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += self.request.valid.eq(1)
                with m.If(self.request.ready):
                    m.next = "MARK"
            with m.State("MARK"):
                m.d.comb += [
                    words.ready.eq(1),
                    read.addr.eq(vid[bit_bits:]),
                    marks.eq(real & inside & ~own & (vid < vertices)),
                    self.error.valid.eq(real & outside & (window == 0)),
                    self.error.payload.code.eq(Error.VID_RANGE),
                    self.error.payload.info.eq(vid),
                ]
                m.d.sync += [row.eq(0), loaded.eq(0), emptied.eq(0)]
                with m.If(words.valid & words.payload.last):
                    m.next = "MARKED"
            with m.State("MARKED"):
                # The last mark is written, then the first row is read.
                m.d.sync += emptied.eq(1)
                with m.If(emptied):
                    m.next = "SCAN"
            with m.State("SCAN"):
                m.d.comb += found.valid.eq(loaded & (rest != 0))
                with m.If(~loaded):
                    # The next row is read while this one is sent.
                    m.d.sync += [rest.eq(read.data), loaded.eq(1), shown.eq(row), row.eq(row + 1), ends.eq(last_row)]
                with m.Elif(found.ready):
                    m.d.sync += rest.eq(rest & ~lowest)
                with m.If(loaded & (rest == lowest) & found.ready):
                    m.d.sync += loaded.eq(0)
                    with m.If(ends):
                        m.d.sync += [window.eq(window + 1), row.eq(0)]
                        m.next = "CLEAR"
                        with m.If(last_window):
                            m.d.sync += finished.eq(1)
                            m.next = "IDLE"
        m.d.sync += Cover((window != 0) & found.valid)
        return finished

    @staticmethod
    def _mark(m: Module, read: RegisteredRead, write: Any, marks: Signal, at: Value) -> None:
        """Set the bit `at` a cycle after its row was read; a row that was written meanwhile is the one of before."""
        bit_bits = exact_log2(_ROW)
        marked, again, place, before = Signal(), Signal(), Signal(len(at)), Signal(_ROW)
        m.d.sync += [
            marked.eq(marks),
            place.eq(at),
            again.eq(marked & (place[bit_bits:] == at[bit_bits:])),
            before.eq(write.data),
        ]
        with m.If(marked):
            m.d.comb += [
                write.en.eq(1),
                write.addr.eq(place[bit_bits:]),
                write.data.eq(Mux(again, before, read.data) | (1 << place[:bit_bits])),
            ]
        m.d.sync += Cover(marked & again, "two marks of a row in a row")

    def _compare(self, m: Module, vid: Value) -> tuple[Value, Value]:
        """Return whether a source is an own vertex, and whether it is no vertex at all."""
        # The limits are constant while sources arrive, so they are registered.
        own_first, own_end, limit = Signal(32), Signal(32), Signal(33)
        m.d.sync += [
            own_first.eq(self.boundaries.as_value().word_select(self.position, 32)),
            own_end.eq((self.boundaries.as_value() >> 32).word_select(self.position, 32)),
            limit.eq(self.boundaries[self.chiplets] + self.partials),
        ]
        return (vid >= own_first) & (vid < own_end), vid >= limit

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
