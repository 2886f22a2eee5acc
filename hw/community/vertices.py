"""Vertices: records of one vertex each, so that what comes out of the PEs are combined rows."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from golden.contracts import RECORD_HEADER
from hw.contracts import struct
from hw.islands.formats import RecordBeat

__all__ = ["Vertices"]


class Vertices(wiring.Component):
    """Gives every vertex of a range to a PE, in turn: a community of one that touches no hub.

    Rows that other chiplets need have to be combined before anything is added up, and the PEs know how.

    Parameters
    ----------
    pes
        PEs, at least 1.

    Attributes
    ----------
    start : In(1)
        Begin with a new range.
    first, vertices : In(32)
        The range, constant from then on.
    o
        Beats of records, for every PE.
    ended : Out(1)
        All have been taken.
    """

    def __init__(self, pes: int) -> None:
        self.pes = pes
        super().__init__(
            {
                "start": In(1),
                "first": In(32),
                "vertices": In(32),
                "o": Out(stream.Signature(RecordBeat)).array(pes),
                "ended": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Count for every PE by itself, so that none waits for another."""
        m = Module()
        header = struct(RECORD_HEADER).const({"nodes": 1, "last_part": 1})
        busy = Signal(self.pes)
        m.d.comb += self.ended.eq(~busy.any() & ~self.start)
        for n, port in enumerate(self.o):
            number = Signal(33, name=f"number_{n}")
            # The header, the vertex, the bitmap.
            named, ends = Signal(name=f"named_{n}"), Signal(name=f"ends_{n}")
            m.d.comb += [
                busy[n].eq(number < self.vertices),
                port.valid.eq(busy[n]),
                port.payload.last.eq(ends),
                port.payload.data.eq(header.as_value()),
            ]
            with m.If(ends):
                m.d.comb += port.payload.data.eq(1)
            with m.Elif(named):
                m.d.comb += port.payload.data.eq((self.first + number)[:32])
            with m.If(port.valid & port.ready):
                m.d.sync += Cat(named, ends).eq(Cat(~named & ~ends, named))
                with m.If(ends):
                    m.d.sync += number.eq(number + self.pes)
            with m.If(self.start):
                m.d.sync += [number.eq(n), named.eq(0), ends.eq(0)]
        return m
