"""Load sequencer: asks for the weights of a layer, then for its biases, beside other commands."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from golden.contracts import Error
from hw.graph.formats import ErrorReport
from hw.memory.formats import RangeRequest

__all__ = ["LoadSequencer"]

#: Bits of the number of rows.
_ROW_BITS = 17


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
        Rows of weights, 1 to 65,536, their words, and biases, at least 1. Like the addresses constant while busy.
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
    asked, count
        What is at hand has been asked for; rows or biases of it that are written (inside; proofs look at them).
    report : Out
        The first error while it was busy, or code 0; what is told in the cycle of ``start`` is of something else.
    """

    def __init__(self, address_width: int) -> None:
        range_ = RangeRequest(address_width)
        self.asked, self.count = Signal(), Signal(_ROW_BITS)
        super().__init__(
            {
                "start": In(1),
                "addresses": In(data.ArrayLayout(range_["address"].shape, 2)),
                "rows": In(_ROW_BITS),
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
        load, asked, count = self.load, self.asked, self.count
        working = Signal()
        m.d.comb += [
            load.valid.eq(working & ~asked),
            load.payload.address.eq(Mux(self.biases, self.addresses[1], self.addresses[0])),
            load.payload.words.eq(Mux(self.biases, self.biases_wanted, self.rows * self.row_words)),
            self.busy.eq(self.start | working),
        ]
        with m.If(load.valid & load.ready):
            m.d.sync += asked.eq(1)
        with m.If(self.loaded):
            m.d.sync += count.eq(count + 1)
        with m.If(asked & (count == Mux(self.biases, self.biases_wanted, self.rows))):
            m.d.sync += [asked.eq(0), count.eq(0), self.biases.eq(1), working.eq(~self.biases)]
        with m.If(working & self.error.valid & (self.report.code == Error.NONE)):
            m.d.sync += self.report.eq(self.error.payload)
        with m.If(self.start):
            m.d.sync += [working.eq(1), self.biases.eq(0), count.eq(0), self.report.eq(0)]
        return m
