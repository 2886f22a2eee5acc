"""Load sequencer: requests the weights and biases of a layer, in parallel with other commands."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import Error
from hw.graph.formats import ErrorReport
from hw.memory.formats import RangeRequest

__all__ = ["LoadSequencer"]

#: Bits of the number of rows, and of rows and biases.
_ROW_BITS = 17


class LoadSequencer(wiring.Component):
    """Issues two requests back to back, so biases follow the weights without a gap.

    Parameters
    ----------
    address_width
        Of the memory port, in bits.

    Attributes
    ----------
    start : In(1)
        Start a load; only while not busy.
    addresses : In
        Addresses of weights and biases, in words.
    rows, row_words, biases_wanted : In
        Rows of weights, 1 to 65,536, words of a row, and biases, at least 1. Constant while busy, like the addresses.
    resident : In(1)
        With `start`: the weights are there already.
    follows : In(1)
        With `start`: an error of the load before has not been told yet, and stays.
    load : stream of `RangeRequest`
        Ranges to read: weights, unless they are resident, then biases.
    loaded : In(1)
        A row of weights, or a bias, has been written.
    error : stream of `ErrorReport`, always ready
        Errors of all sources.
    busy : Out(1)
        From the cycle of `start` until all is written.
    asked, count
        Requests taken; rows and biases written (internal; read by proofs).
    report : Out
        The first error while busy, or code 0; since a `start` that does not follow. An error in the cycle of ``start``
        belongs to another command.
    """

    def __init__(self, address_width: int) -> None:
        range_ = RangeRequest(address_width)
        self.asked, self.count = Signal(2), Signal(_ROW_BITS)
        super().__init__(
            {
                "start": In(1),
                "resident": In(1),
                "follows": In(1),
                "addresses": In(data.ArrayLayout(range_["address"].shape, 2)),
                "rows": In(_ROW_BITS),
                "row_words": In(16),
                "biases_wanted": In(16),
                "load": Out(stream.Signature(range_)),
                "loaded": In(1),
                "error": In(stream.Signature(ErrorReport, always_ready=True)),
                "busy": Out(1),
                "report": Out(ErrorReport),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Issue two requests, count to the end."""
        m = Module()
        load, asked, count = self.load, self.asked, self.count
        working, biases = Signal(), asked[0]
        m.d.comb += [
            load.valid.eq(working & ~asked[1]),
            load.payload.address.eq(Mux(biases, self.addresses[1], self.addresses[0])),
            load.payload.words.eq(Mux(biases, self.biases_wanted, self.rows * self.row_words)),
            self.busy.eq(self.start | working),
        ]
        with m.If(load.valid & load.ready):
            m.d.sync += asked.eq(asked + 1)
        with m.If(self.loaded):
            m.d.sync += count.eq(count + 1)
        with m.If(count == self.rows + self.biases_wanted):
            m.d.sync += working.eq(0)
        with m.If(working & self.error.valid & (self.report.code == Error.NONE)):
            m.d.sync += self.report.eq(self.error.payload)
        with m.If(self.start):
            m.d.sync += [
                working.eq(1),
                asked.eq(self.resident),
                count.eq(Mux(self.resident, self.rows, 0)),
            ]
        with m.If(self.start & ~self.follows):
            m.d.sync += self.report.eq(0)
        return m
