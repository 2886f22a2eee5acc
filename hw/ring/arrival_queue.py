"""Arrival queue: the buffer behind a link that has a clock of its own."""

from amaranth.hdl import DomainRenamer, Elaboratable, Module, ResetSignal, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.reset import Resettable
from hw.ring.formats import crossing_words
from hw.ring.head_queue import HeadQueue
from hw.stream.crossing import Crossing

__all__ = ["ArrivalQueue"]

#: Words at the head: with two, one moves up while the other is taken.
_HEAD = 2


class ArrivalQueue(wiring.Component):
    """A `HeadQueue` whose input has the clock of the link, domain ``link``.

    Its memory is that of the crossing, so clocks of their own cost no second buffer, and the link needs no ``ready``:
    the sender's credits stand for room here, however slow this chiplet is.

    A reset of this chiplet does not reset the crossing: between both ends of a link it is a part of the link. While the
    reset lasts, what comes out is dropped; after as many cycles as the crossing has words it is empty. Only
    the reset of ``link`` resets both of its sides.

    Parameters
    ----------
    shape
        Shape of a word.
    depth
        Words held at least.

    Attributes
    ----------
    i : stream of `shape`, domain ``link``
    o, following, advances
        As of `HeadQueue`, domain ``sync``.
    coming : Out(1)
        A word has been written that is not in the head queue yet.
    """

    domains = ("sync", "link")

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        self.crossing = Crossing(shape, crossing_words(depth))
        self.head = HeadQueue(shape, _HEAD)
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "following": Out(shape),
                "advances": Out(1),
                "coming": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Put the head behind the crossing."""
        m = Module()
        m.submodules.head = head = self.head
        crossing = self.crossing
        reset = Signal(init=1, reset_less=True)
        m.submodules.reset_synchroniser = FFSynchronizer(ResetSignal("link"), reset, init=1)
        reads = Resettable(m, "arrivals", reset)
        m.submodules.crossing = reads(DomainRenamer({"write": "link", "read": "sync"})(crossing))
        connect(m, flipped(self.i), crossing.i)
        connect(m, crossing.o, head.i)
        connect(m, head.o, flipped(self.o))
        m.d.comb += [
            self.following.eq(head.following),
            self.advances.eq(head.advances),
            self.coming.eq(crossing.o.valid | (crossing.stored_seen[-1] != crossing.sent)),
        ]
        return m
