"""Load sequencer: asks for the weights of a layer, then for its biases, beside other commands."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from golden.contracts import Error
from hw.graph.formats import ErrorReport
from hw.memory.formats import RangeRequest

__all__ = ["LoadSequencer"]


class LoadSequencer(wiring.Component):
    """One request after the other, each when what was asked for before has been written.

    Parameters
    ----------
    address_width
        Of the memory port, in bits.

    Attributes
    ----------
    start : In(1)
        Begin; only while not busy.
    addresses : In
        Of weights and biases, in words.
    rows, row_words, biases_wanted : In
        Rows of weights, their words, and biases. Like the addresses constant while busy.
    load : stream of `RangeRequest`
        What to read.
    biases : Out(1)
        It is biases that are read.
    loaded : In(1)
        A row of weights, or a bias, has been written.
    error : stream of `ErrorReport`, always ready
        Something has gone wrong anywhere.
    busy : Out(1)
        From the cycle of `start` until all is written.
    report : Out
        The first error while it was busy, or code 0.
    """

    def __init__(self, address_width: int) -> None:
        range_ = RangeRequest(address_width)
        super().__init__(
            {
                "start": In(1),
                "addresses": In(data.ArrayLayout(range_["address"].shape, 2)),
                "rows": In(32),
                "row_words": In(16),
                "biases_wanted": In(16),
                "load": Out(stream.Signature(range_)),
                "biases": Out(1),
                "loaded": In(1),
                "error": In(stream.Signature(ErrorReport, always_ready=True)),
                "busy": Out(1),
                "report": Out(ErrorReport),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Ask, count, ask, count."""
        m = Module()
        load = self.load
        count = Signal(32)
        with m.If(self.loaded):
            m.d.sync += count.eq(count + 1)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [self.biases.eq(0), count.eq(0), self.report.eq(0)]
                    m.next = "WEIGHTS"
            with m.State("WEIGHTS"):
                m.d.comb += [
                    load.valid.eq(1),
                    load.payload.address.eq(self.addresses[0]),
                    load.payload.words.eq(self.rows[:17] * self.row_words),
                ]
                with m.If(load.ready):
                    m.next = "LOADING"
            with m.State("LOADING"):
                with m.If(count == self.rows):
                    m.d.sync += [count.eq(0), self.biases.eq(1)]
                    m.next = "BIASES"
            with m.State("BIASES"):
                m.d.comb += [
                    load.valid.eq(1),
                    load.payload.address.eq(self.addresses[1]),
                    load.payload.words.eq(self.biases_wanted),
                ]
                with m.If(load.ready):
                    m.next = "LOADING BIASES"
            with m.State("LOADING BIASES"):
                with m.If(count == self.biases_wanted):
                    m.next = "IDLE"
        m.d.comb += self.busy.eq(self.start | ~fsm.ongoing("IDLE"))
        with m.If(self.error.valid & ~fsm.ongoing("IDLE") & (self.report.code == Error.NONE)):
            m.d.sync += self.report.eq(self.error.payload)
        return m
