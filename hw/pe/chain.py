"""A few words in a row of registers: a queue without memory, for wide words that come seldom."""

from amaranth.hdl import Const, Elaboratable, Module, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Chain"]


class Chain(wiring.Component):
    """A queue of `depth` registers, which words move through.

    A register only loads the word in front of it, so that words cost no logic; a distributed RAM takes 1.5 LUTs a bit.
    The last register takes a word only while it is empty, hence at most one word every second cycle leaves, and
    ``i.ready`` does not depend on ``o.ready``. `depth` words always find room.

    Parameters
    ----------
    shape
        Of a word.
    depth
        Registers, at least 1: a word needs as many cycles to pass.

    Attributes
    ----------
    i, o : streams of `shape`
    level : Out
        Words held now.
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        self.shape, self.depth, self.latency = shape, depth, depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect the registers; one of them moves on if there is an empty one anywhere behind it."""
        m = Module()
        valid = Signal(self.depth)
        words = [Signal(self.shape, reset_less=True, name=f"word_{n}") for n in range(self.depth)]
        for n, word in enumerate(words):
            taken = valid[n - 1] if n else self.i.valid
            with m.If(~valid[n:].all()):
                m.d.sync += [valid[n].eq(taken), word.eq(words[n - 1] if n else self.i.payload)]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += valid[-1].eq(0)
        m.d.comb += [
            self.i.ready.eq(~valid.all()),
            self.o.valid.eq(valid[-1]),
            self.o.payload.eq(words[-1]),
            self.level.eq(sum(valid, start=Const(0))),
        ]
        return m
