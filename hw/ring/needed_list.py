"""Needed list: the VIDs of other chiplets among a chiplet's sources, sorted, each once (R4, R6)."""

from amaranth.hdl import Cat, Cover, Elaboratable, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import Error
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import RangeRequest, Word
from hw.stream.slice import Slice

__all__ = ["NeededList"]

#: Bits of a row of the bitmap.
_ROW = 32


class NeededList(wiring.Component):
    """Marks sources in a bitmap, then reads it in order: that drops duplicates and sorts.

    The bitmap is a window over the VIDs. The edges are read once for every window, so the graph may be larger than
    the bitmap.

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
        Of this chiplet.
    boundaries : In
        Boundary table; entries past the number of chiplets hold the number of vertices.
    edges : In(RangeRequest)
        Where the sources are.
    partials : In(32)
        So many VIDs behind those of the graph stand for partial sums and are no vertices.
    request : stream of `RangeRequest`
        Asks for `edges`, once a window.
    i : stream of `Word`
        The sources.
    o : stream of unsigned(32)
        The list.
    counts : Out
        Entries of every owner so far.
    done : Out(1)
        Nothing more comes.
    error : stream of `ErrorReport`, always ready
        ``VID_RANGE`` with a VID that is in no chiplet; it is left out.

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
        """Build the bitmap and the walk: clear, ask, mark, scan, next window."""
        m = Module()
        rows = self.bitmap // _ROW
        m.submodules.bits = bits = Memory(shape=_ROW, depth=rows, init=[])
        read, write = bits.read_port(domain="comb"), bits.write_port()
        m.submodules.found = found = Slice(32)
        connect(m, found.o, flipped(self.o))
        # The word comes through the multiplexers of a beat and goes through three comparisons.
        m.submodules.taken = taken = Slice(Word())
        connect(m, flipped(self.i), taken.i)
        source = taken.o.payload
        m.d.comb += self.request.payload.eq(self.edges)

        # VIDs are cut into window, row and bit; so there is nothing to add or subtract.
        bit_bits, row_bits = exact_log2(_ROW), exact_log2(rows)
        window = Signal(32 - row_bits - bit_bits + 1)
        row = Signal(row_bits)
        vertices = self.boundaries[self.chiplets]
        last_row, last_window = row == rows - 1, Signal()
        rest = Signal(_ROW)  # bits of the row that have not been passed on
        loaded = Signal()
        lowest = Signal(_ROW)
        position = Signal(bit_bits)
        m.d.comb += lowest.eq(rest & -rest)
        for n in range(bit_bits):
            m.d.comb += position[n].eq(Cat(lowest[k] for k in range(_ROW) if k >> n & 1).any())
        last_bit = rest == lowest

        # What the sources are compared with is constant while they come.
        own_first, own_end, limit = Signal(32), Signal(32), Signal(33)
        m.d.sync += [
            own_first.eq(self.boundaries.as_value().word_select(self.position, 32)),
            own_end.eq((self.boundaries.as_value() >> 32).word_select(self.position, 32)),
            limit.eq(vertices + self.partials),
            last_window.eq(((window + 1) << (row_bits + bit_bits)) >= vertices),
        ]
        vid = source.data
        own = (vid >= own_first) & (vid < own_end)
        inside = vid[row_bits + bit_bits :] == window

        # Owner of the VID that comes out, counted a cycle later.
        counted = Signal(self.chiplets)
        reached = [found.o.payload >= self.boundaries[n] for n in range(1, self.chiplets)]
        m.d.comb += [found.i.payload.eq(Cat(position, row, window)), read.addr.eq(row)]
        for n in range(self.chiplets):
            mine = (reached[n - 1] if n else 1) & (~reached[n] if n < self.chiplets - 1 else 1)
            m.d.sync += [
                counted[n].eq(found.o.valid & found.o.ready & mine),
                self.counts[n].eq(self.counts[n] + counted[n]),
            ]

        finished = Signal(init=1)
        m.d.comb += self.done.eq(finished & ~self.o.valid & ~counted.any())
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [window.eq(0), row.eq(0)]
                with m.If(self.start):
                    m.d.sync += [finished.eq(0), self.counts.eq(0)]
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += [write.addr.eq(row), write.en.eq(1)]
                m.d.sync += row.eq(row + 1)
                with m.If(last_row):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += self.request.valid.eq(1)
                with m.If(self.request.ready):
                    m.next = "MARK"
            with m.State("MARK"):
                m.d.comb += [
                    taken.o.ready.eq(1),
                    read.addr.eq(vid[bit_bits:]),
                    write.addr.eq(vid[bit_bits:]),
                    write.data.eq(read.data | (1 << vid[:bit_bits])),
                    write.en.eq(taken.o.valid & ~source.empty & inside & ~own & (vid < vertices)),
                    self.error.valid.eq(taken.o.valid & ~source.empty & (vid >= limit) & (window == 0)),
                    self.error.payload.code.eq(Error.VID_RANGE),
                    self.error.payload.info.eq(vid),
                ]
                m.d.sync += [row.eq(0), loaded.eq(0)]
                with m.If(taken.o.valid & source.last):
                    m.next = "SCAN"
            with m.State("SCAN"):
                m.d.comb += found.i.valid.eq(loaded & (rest != 0))
                with m.If(~loaded):
                    m.d.sync += [rest.eq(read.data), loaded.eq(1)]
                with m.Elif(found.i.ready):
                    m.d.sync += rest.eq(rest & ~lowest)
                with m.If(loaded & last_bit & found.i.ready):
                    m.d.sync += [loaded.eq(0), row.eq(row + 1)]
                    with m.If(last_row):
                        m.d.sync += window.eq(window + 1)
                        m.next = "CLEAR"
                        with m.If(last_window):
                            m.d.sync += finished.eq(1)
                            m.next = "IDLE"
        m.d.sync += Cover((window != 0) & found.i.valid)
        return m
