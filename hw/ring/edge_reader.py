"""Edge reader: reads the edges of which the needed list is made, more or less far ahead."""

from amaranth.hdl import Cover, Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.memory.formats import BURST_BEATS, RangeBeat, RangeRequest, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader

__all__ = ["EdgeReader"]

#: Most beats that have been asked for and have not come; the same if it is urgent, with those that wait.
_FEW, _MANY = 64, 256


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
    i : stream of `RangeRequest`
    o : stream of `RangeBeat`
    request, beat
        A client's end of the read arbiter.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256) -> None:
        self.address_width, self.data_width = address_width, data_width
        super().__init__(
            {
                "urgent": In(1),
                "i": In(stream.Signature(RangeRequest(address_width))),
                "o": Out(stream.Signature(RangeBeat(data_width))),
                "request": Out(stream.Signature(ReadRequest(address_width, data_width))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Let a burst pass unless too much is under way; what is offered stays, since what comes only makes room."""
        m = Module()
        m.submodules.reader = reader = RangeReader(self.address_width, self.data_width, _MANY)
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
