"""Needed list: the VIDs of other chiplets among a chiplet's sources, sorted, each once (R4, R6)."""

from amaranth.hdl import Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from golden.contracts import Error
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
        m.submodules.out = out = Slice(32)
        connect(m, out.o, flipped(self.o))
        m.d.comb += self.request.payload.eq(self.edges)

        base = Signal(33)
        row = Signal(range(rows))
        vertices = self.boundaries[self.chiplets]
        last_row = row == rows - 1
        rest = Signal(_ROW)  # bits of the row that have not been passed on
        loaded = Signal()
        position = Signal(range(_ROW))
        for bit in reversed(range(_ROW)):
            with m.If(rest[bit]):
                m.d.comb += position.eq(bit)

        # A source's place in the window.
        vid = self.i.payload.data
        place = Signal(33)
        own = (vid >= self.boundaries[self.position]) & (
            vid < (self.boundaries.as_value() >> 32).word_select(self.position, 32)
        )
        inside = (vid >= base) & (place < self.bitmap)
        m.d.comb += place.eq(vid - base)

        # Owner of the VID that comes out.
        owner = Signal(range(self.chiplets))
        for n in range(1, self.chiplets):
            with m.If(out.i.payload >= self.boundaries[n]):
                m.d.comb += owner.eq(n)
        counted = Signal(self.chiplets)
        m.d.comb += [out.i.payload.eq(base + (row << exact_log2(_ROW)) + position), read.addr.eq(row)]
        for n in range(self.chiplets):
            m.d.comb += counted[n].eq(out.i.valid & out.i.ready & (owner == n))
            m.d.sync += self.counts[n].eq(self.counts[n] + counted[n])

        finished = Signal(init=1)
        m.d.comb += self.done.eq(finished & ~self.o.valid)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [base.eq(0), row.eq(0)]
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
                    self.i.ready.eq(1),
                    read.addr.eq(place >> exact_log2(_ROW)),
                    write.addr.eq(place >> exact_log2(_ROW)),
                    write.data.eq(read.data | (1 << place[: exact_log2(_ROW)])),
                    write.en.eq(self.i.valid & ~self.i.payload.empty & inside & ~own & (vid < vertices)),
                    self.error.valid.eq(
                        self.i.valid & ~self.i.payload.empty & (vid >= vertices + self.partials) & (base == 0)
                    ),
                    self.error.payload.code.eq(Error.VID_RANGE),
                    self.error.payload.info.eq(vid),
                ]
                m.d.sync += [row.eq(0), loaded.eq(0)]
                with m.If(self.i.valid & self.i.payload.last):
                    m.next = "SCAN"
            with m.State("SCAN"):
                m.d.comb += out.i.valid.eq(loaded & (rest != 0))
                with m.If(~loaded):
                    m.d.sync += [rest.eq(read.data), loaded.eq(read.data != 0)]
                with m.Elif(out.i.ready):
                    m.d.sync += rest.eq(rest & (rest - 1))
                with m.If(Mux(loaded, out.i.ready & ((rest & (rest - 1)) == 0), read.data == 0)):
                    m.d.sync += [loaded.eq(0), row.eq(row + 1)]
                    with m.If(last_row):
                        m.d.sync += base.eq(base + self.bitmap)
                        m.next = "CLEAR"
                        with m.If(base + self.bitmap >= vertices):
                            m.d.sync += finished.eq(1)
                            m.next = "IDLE"
        m.d.sync += Cover((base != 0) & out.i.valid)
        return m
