"""Register slice: cuts both directions of a stream at full throughput."""

from typing import Any

from amaranth.hdl import Cover, Module, ShapeLike, Signal
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

    Attributes
    ----------
    behind
        The second register (internal; read by proofs).
    """

    #: Words to pass on; ``ready`` while the second register is empty.
    i: stream.Interface
    #: The same words one cycle later.
    o: stream.Interface

    def __init__(self, shape: ShapeLike) -> None:
        self.shape = shape
        self.behind = Signal(shape, reset_less=True)
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: Any) -> Module:
        """Hold the front word in the output register and at most one more behind it."""
        m = Module()
        ready = Signal(init=1)
        front = Signal(self.shape, reset_less=True)
        m.d.comb += [self.i.ready.eq(ready), self.o.payload.eq(front)]

        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += ready.eq(1)
            with m.If(ready):
                m.d.sync += [self.o.valid.eq(self.i.valid), front.eq(self.i.payload)]
            with m.Else():
                m.d.sync += [self.o.valid.eq(1), front.eq(self.behind)]
        with m.Elif(self.i.valid & ready):
            m.d.sync += ready.eq(0)
        # While empty it follows the input, so the late stall signal drives fewer registers.
        with m.If(ready):
            m.d.sync += self.behind.eq(self.i.payload)
        m.d.sync += Cover(~ready & self.o.ready, "second register emptied")
        return m
