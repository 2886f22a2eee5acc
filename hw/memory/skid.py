"""Skid buffer: a register in every wire of a stream, at a payload a cycle."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Skid"]


class Skid(wiring.Component):
    """Buffer of two payloads whose ``i.ready`` and ``o.valid`` are registers.

    Latency is one cycle. It breaks the combinational path of ``ready`` between two blocks.

    Parameters
    ----------
    shape
        Shape of the payload.

    Attributes
    ----------
    i
        Stream in.
    o
        The same stream, at least a cycle later.
    """

    def __init__(self, shape: Any) -> None:
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        """Build the block."""
        m = Module()
        spare = Signal.like(self.i.payload, reset_less=True)
        full = Signal()  # `spare` holds a payload, so `o` does too
        m.d.comb += self.i.ready.eq(~full)
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [
                self.o.payload.eq(self.i.payload),
                self.o.valid.eq(self.i.valid),
                full.eq(0),
            ]
            with m.If(full):
                m.d.sync += [self.o.payload.eq(spare), self.o.valid.eq(1)]
        with m.Elif(self.i.valid & self.i.ready):
            m.d.sync += [spare.eq(self.i.payload), full.eq(1)]
        return m
