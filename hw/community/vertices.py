"""Vertices: shares a range of them out to all PEs that combine (COMBINE)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from golden.contracts import VID_BITS

__all__ = ["Vertices"]


class Vertices(wiring.Component):
    """Gives every vertex of a range to a PE, in turn.

    Parameters
    ----------
    pes
        PEs, hub units' too, at least 1.

    Attributes
    ----------
    start : In(1)
        Begin with a new range.
    first, vertices : In(32)
        The range, constant from then on.
    o : streams of unsigned(32)
        VIDs, for every PE.
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
                "o": Out(stream.Signature(VID_BITS)).array(pes),
                "ended": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Count for every PE by itself, so that none waits for another."""
        m = Module()
        busy = Signal(self.pes)
        m.d.comb += self.ended.eq(~busy.any() & ~self.start)
        for n, port in enumerate(self.o):
            number, next_ = Signal(33, name=f"number_{n}"), Signal(34, name=f"next_{n}")
            m.d.comb += [
                port.valid.eq(busy[n]),
                port.payload.eq((self.first + number)[:VID_BITS]),
                next_.eq(Mux(self.start, n, number + self.pes)),
            ]
            with m.If(self.start | (port.valid & port.ready)):
                m.d.sync += [number.eq(next_), busy[n].eq(next_ < self.vertices)]
        return m
