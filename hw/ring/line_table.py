"""Line table: which chiplet has which lines of a divided graph, and where the own ones are."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.formats import RangeRequest, Word, line_address_width
from hw.ring.formats import POSITION_BITS
from hw.ring.line_formats import ARRAYS

__all__ = ["LineTable"]


class LineTable(wiring.Component):
    """A register for the first line of each chiplet in each array, filled in order.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    chiplets
        Most chiplets of a ring.

    Attributes
    ----------
    start : In(1)
        Read the table. `table`, `graph` and `lines` are valid in this cycle, `table` until the request is taken.
    position, chiplets : In
    table : In
        Word address of the table, ``3 * chiplets + 1`` words.
    graph : In
        Line 0 of the graph.
    lines : In
        Line of the own part of each array.
    request : stream of `RangeRequest`
    i : stream of `Word`
    done : Out(1)
        The table has been read. 0 until then.
    firsts : Out
        First line of each chiplet in each array, counted from line 0 of the graph. Entries of chiplets that the ring
        does not have hold the first line of the next array.
    total : Out
        Lines of the graph.
    first, end : Out
        Line addresses of the graph; equal until the table has been read.
    shifts : Out
        What is added to an own line of each array for its address in memory; two cycles after `done`.
    """

    def __init__(self, address_width: int = 32, chiplets: int = 4) -> None:
        self.most = chiplets
        line = line_address_width(address_width)
        super().__init__(
            {
                "start": In(1),
                "position": In(POSITION_BITS),
                "chiplets": In(POSITION_BITS),
                "table": In(RangeRequest(address_width)["address"].shape),
                "graph": In(line),
                "lines": In(line).array(ARRAYS),
                "request": Out(stream.Signature(RangeRequest(address_width))),
                "i": In(stream.Signature(Word())),
                "done": Out(1),
                "firsts": Out(data.ArrayLayout(data.ArrayLayout(32, chiplets), ARRAYS)),
                "total": Out(32),
                "first": Out(line),
                "end": Out(line),
                "shifts": Out(line).array(ARRAYS),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Request the table once; each word fills its entry and all behind it."""
        m = Module()
        asks = Signal()
        chiplet, array = Signal(POSITION_BITS), Signal(range(ARRAYS + 1))
        ends = chiplet == self.chiplets - 1
        m.d.comb += [
            self.request.valid.eq(asks),
            self.request.payload.address.eq(self.table),
            self.request.payload.words.eq(sum([self.chiplets] * ARRAYS) + 1),
            self.i.ready.eq(1),
        ]
        with m.If(self.request.ready):
            m.d.sync += asks.eq(0)
        with m.If(self.i.valid):
            m.d.sync += [
                chiplet.eq(Mux(ends, 0, chiplet + 1)),
                array.eq(array + ends),
                self.total.eq(self.i.payload.data),
            ]
            for a in range(ARRAYS):
                for c in range(self.most):
                    behind = (array < a) | ((array == a) & (chiplet <= c))
                    # The next array begins where the last chiplet ends.
                    missing = (array == a + 1) & (chiplet == 0) & (c >= self.chiplets)
                    with m.If(behind | missing):
                        m.d.sync += self.firsts[a][c].eq(self.i.payload.data)
            with m.If(self.i.payload.last):
                m.d.sync += self.done.eq(1)
        self._place(m)
        with m.If(self.start):
            m.d.sync += [asks.eq(1), chiplet.eq(0), array.eq(0), self.done.eq(0)]
        return m

    def _place(self, m: Module) -> None:
        """Keep the addresses of the graph and of the own lines."""
        m.d.comb += self.end.eq(self.first)
        with m.If(self.done):
            m.d.comb += self.end.eq(self.first + self.total)
        own = [Signal.like(line, name=f"own_{n}") for n, line in enumerate(self.lines)]
        with m.If(self.start):
            m.d.sync += [
                self.first.eq(self.graph),
                *(kept.eq(line) for kept, line in zip(own, self.lines, strict=True)),
            ]
        for array, shift in enumerate(self.shifts):
            m.d.sync += shift.eq(own[array] - self.firsts[array][self.position])
