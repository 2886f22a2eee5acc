"""Edge reader: reads the edges of which the needed list is made, more or less far ahead."""

from amaranth.hdl import Cover, Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

from hw.memory.formats import BURST_BEATS
from hw.memory.range_reader import RangeReader

__all__ = ["EdgeReader"]

#: Most beats that have been asked for and have not come; the same if it is urgent, with those that wait.
_FEW, _MANY = 64, 512


class EdgeReader(wiring.Component):
    """Reads ranges of edges at a memory port that the PEs use as well.

    Rows travel once there is the needed list. If few do, what the PEs read is more urgent, and a queue of requests in
    front of theirs would hold these up.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.

    Attributes
    ----------
    urgent : In(1)
        Ask for as much as there is room for; constant while a range is read.
    i, o, request, beat
        As of `RangeReader`.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256) -> None:
        self._reader = RangeReader(address_width, data_width, _MANY)
        super().__init__({"urgent": In(1), **self._reader.signature.members})

    def elaborate(self, platform: object) -> Elaboratable:
        """Let a burst pass unless too much is under way; what is offered stays, since what comes only makes room."""
        m = Module()
        m.submodules.reader = reader = self._reader
        connect(m, flipped(self.i), reader.i)
        connect(m, reader.o, flipped(self.o))
        connect(m, flipped(self.beat), reader.beat)
        asked, passes = Signal(range(_MANY + 1)), Signal()
        m.d.comb += [
            passes.eq(self.urgent | (asked <= _FEW - BURST_BEATS)),
            self.request.payload.eq(reader.request.payload),
            self.request.valid.eq(reader.request.valid & passes),
            reader.request.ready.eq(self.request.ready & passes),
        ]
        with m.If(self.request.valid & self.request.ready):
            m.d.sync += asked.eq(asked + reader.request.payload.length + 1 - self.beat.valid)
        with m.Else():
            m.d.sync += asked.eq(asked - self.beat.valid)
        m.d.sync += Cover(reader.request.valid & ~passes, "a burst waits for others")
        return m
