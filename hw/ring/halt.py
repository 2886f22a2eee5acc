"""Halt: stops the ring unit after an error, and sends the first one to the other chiplets."""

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import Error
from hw.graph.formats import ErrorReport

__all__ = ["Halt"]


class Halt(wiring.Component):
    """Keeps that something failed, here or in the rest of the chiplet, until the next reset.

    Attributes
    ----------
    failed : In(1)
        A command of the ring has failed; stays.
    halt : stream of `ErrorReport`, always ready
        The chiplet has ended with this error, whoever found it.
    stopped, halted : Out(1)
        From the cycle after `failed` or `halt` on, from the cycle after `halt` on; both stay.
    tell : stream of `ErrorReport`, always ready
        The first error of `halt`, once, unless another chiplet began it and has sent it already.
    """

    def __init__(self) -> None:
        report = stream.Signature(ErrorReport, always_ready=True)
        super().__init__(
            {"failed": In(1), "halt": In(report), "stopped": Out(1), "halted": Out(1), "tell": Out(report)}
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Two registers."""
        m = Module()
        m.d.sync += [
            self.halted.eq(self.halted | self.halt.valid),
            self.stopped.eq(self.stopped | self.failed | self.halt.valid),
        ]
        m.d.comb += [
            self.tell.valid.eq(self.halt.valid & ~self.halted & (self.halt.payload.code != Error.PEER)),
            self.tell.payload.eq(self.halt.payload),
        ]
        return m
