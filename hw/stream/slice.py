"""Register slice: cuts both directions of a stream at full throughput."""

from typing import Any

from amaranth.hdl import Cover, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Slice(wiring.Component):
    """Two registers between two streams, so that no path of either direction crosses it.

    ``i.ready``, ``o.valid`` and ``o.payload`` are registers. A word is offered one cycle after it was taken and
    one word passes per cycle; when the receiver stalls, the word in flight waits in the second register.
    A reset clears the valid bits only; payload registers keep their values.

    Parameters
    ----------
    shape
        Shape of a word.
    merges
        ``i.payload`` is 0 while ``i.ready`` is: then the second register, which is 0 while it is empty, is one more of
        the words that are merged in front, and costs no LUTs of its own.

    Attributes
    ----------
    behind
        The second register (internal; read by proofs).
    opens
        ``i.ready`` of the next cycle.
    """

    #: Words to pass on; ``ready`` while the second register is empty.
    i: stream.Interface
    #: The same words one cycle later.
    o: stream.Interface

    def __init__(self, shape: ShapeLike, *, merges: bool = False) -> None:
        self.shape, self.merges = shape, merges
        self.behind = Signal(shape, reset_less=not merges)
        self.opens = Signal()
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: Any) -> Module:
        """Hold the front word in the output register and at most one more behind it."""
        m = Module()
        ready = Signal(init=1)
        front = Signal(self.shape, reset_less=True)
        moves, fills = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(ready),
            self.o.payload.eq(front),
            moves.eq(~self.o.valid | self.o.ready),
            fills.eq(self.i.valid & ready),
            self.opens.eq(moves | (ready & ~self.i.valid)),
        ]
        m.d.sync += ready.eq(self.opens)
        with m.If(moves):
            m.d.sync += self.o.valid.eq(fills | ~ready)
        words, behind = Value.cast(self.i.payload), Value.cast(self.behind)
        if self.merges:
            # Both registers load the same: it is filled only while it is 0.
            with m.If(moves):
                m.d.sync += [Value.cast(front).eq(words | behind), behind.eq(0)]
            with m.Elif(fills):
                m.d.sync += behind.eq(words | behind)
        else:
            with m.If(moves):
                m.d.sync += Value.cast(front).eq(Mux(ready, words, behind))
            # While empty it follows the input, so the late stall signal drives fewer registers.
            with m.If(ready):
                m.d.sync += behind.eq(words)
        m.d.sync += Cover(~ready & self.o.ready, "second register emptied")
        return m
