"""Packet guard: ends a truncated packet."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ring.formats import Flit

__all__ = ["PacketGuard"]


class PacketGuard(wiring.Component):
    """Forwards packets; once stopped, ends the current one and lets no other begin.

    Parameters
    ----------
    width
        Bits of a flit.

    Attributes
    ----------
    i, o : streams of `Flit`
        When it is stopped, ``o.payload`` of a flit that waits becomes the packet's last.
    stopped : In(1)
        Stays once set.
    """

    def __init__(self, width: int = 64) -> None:
        flits = stream.Signature(Flit(width))
        super().__init__({"i": In(flits), "o": Out(flits), "stopped": In(1)})

    def elaborate(self, platform: object) -> Elaboratable:
        """Remember whether a packet is under way."""
        m = Module()
        unfinished = Signal()
        m.d.comb += [
            self.o.valid.eq(Mux(self.stopped, unfinished, self.i.valid)),
            self.o.payload.data.eq(self.i.payload.data),
            self.o.payload.last.eq(self.i.payload.last | self.stopped),
            self.i.ready.eq(self.o.ready & ~self.stopped),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += unfinished.eq(~self.o.payload.last)
        return m
