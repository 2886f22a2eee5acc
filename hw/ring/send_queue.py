"""Send queue: parts of a chiplet's rows that are to be sent, one after another (R15)."""

from amaranth.hdl import Cover, Elaboratable, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.memory.formats import RangeRequest
from hw.stream.queue import Queue

__all__ = ["Part", "SendQueue"]

#: Parts that wait or are being sent.
_DEPTH = 4


class Part(data.StructLayout):
    """Rows of which those are sent that others need.

    ``first_vertex``: VID of the first one. ``out_tiles``: range of the tiles into which they have edges.
    """

    def __init__(self, address_width: int = 32) -> None:
        super().__init__({"first_vertex": 32, "out_tiles": RangeRequest(address_width)})


class SendQueue(wiring.Component):
    """Has parts sent in turn, so that a command only has to hand its part over.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.

    Attributes
    ----------
    i : stream of `Part`
    go : In(1)
        A part may be begun.
    start : Out(1)
        For a cycle: a part begins.
    part : Out(Part)
        The part that is being sent.
    out_tiles : stream of `RangeRequest`
        Once a part.
    sent : In(1)
        All entries of the part have been taken; 0 in the cycle after `start`.
    idle : Out(1)
        No part waits or is being sent.
    """

    def __init__(self, address_width: int = 32) -> None:
        self.address_width = address_width
        super().__init__(
            {
                "i": In(stream.Signature(Part(address_width))),
                "go": In(1),
                "start": Out(1),
                "part": Out(Part(address_width)),
                "out_tiles": Out(stream.Signature(RangeRequest(address_width))),
                "sent": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Keep the part that is being sent at the head of the queue."""
        m = Module()
        m.submodules.waiting = waiting = Queue(Part(self.address_width), _DEPTH)
        connect(m, flipped(self.i), waiting.i)
        sends, asked = Signal(), Signal()
        m.d.comb += [
            self.start.eq(waiting.o.valid & ~sends & self.go),
            self.part.eq(waiting.o.payload),
            self.out_tiles.valid.eq(sends & ~asked),
            self.out_tiles.payload.eq(waiting.o.payload.out_tiles),
            waiting.o.ready.eq(sends & asked & self.sent),
            self.idle.eq(waiting.level == 0),
        ]
        with m.If(self.start):
            m.d.sync += [sends.eq(1), asked.eq(0)]
        with m.If(self.out_tiles.valid & self.out_tiles.ready):
            m.d.sync += asked.eq(1)
        with m.If(waiting.o.ready):
            m.d.sync += sends.eq(0)
        m.d.sync += Cover(waiting.o.ready & (waiting.level > 1), "a part follows another at once")
        return m
