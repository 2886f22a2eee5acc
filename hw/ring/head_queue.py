"""Head queue: a queue with its oldest word in a register, which also shows the next value of that register."""

from amaranth.hdl import Assert, Elaboratable, Module, Mux, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.stream.queue import Queue

__all__ = ["HeadQueue"]


class HeadQueue(wiring.Component):
    """A queue of `depth` words; one written to an empty queue is offered in the next cycle.

    Parameters
    ----------
    shape
        Shape of a word.
    depth
        Words held, at least 2.

    Attributes
    ----------
    i, o : streams of `shape`
        ``o`` comes from registers alone.
    following : Out
        The next cycle's ``o.payload`` if `advances`.
    advances : Out(1)
        The head is empty or is being taken.
    rest : Queue
        Queue of the words behind the head. Internal, named for proofs.

    Raises
    ------
    ValueError
        If `depth` is below 2.
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        if depth < 2:
            raise ValueError(f"depth must be at least 2, not {depth!r}")
        self.shape, self.depth = shape, depth
        self.rest = Queue(shape, depth - 1, storage="distributed")
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "following": Out(shape),
                "advances": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Keep all words but the oldest in a memory, with a bypass when it is empty."""
        m = Module()
        m.submodules.rest = rest = self.rest
        skips = Signal()
        m.d.comb += [
            self.advances.eq(~self.o.valid | self.o.ready),
            skips.eq(self.advances & ~rest.o.valid),
            self.following.eq(Mux(rest.o.valid, rest.o.payload, self.i.payload)),
            rest.i.valid.eq(self.i.valid & ~skips),
            rest.i.payload.eq(self.i.payload),
            rest.o.ready.eq(self.advances),
            self.i.ready.eq(rest.i.ready),
        ]
        with m.If(self.advances):
            # While the rest is full it has a word.
            m.d.sync += [
                self.o.valid.eq(rest.o.valid | self.i.valid),
                self.o.payload.eq(self.following),
            ]
        m.d.sync += Assert(self.o.valid | ~rest.o.valid)
        return m
