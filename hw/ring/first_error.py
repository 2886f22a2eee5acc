"""First error: keeps what went wrong first, stops the ring unit, and has the others told."""

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import Error
from hw.graph.csr_reader import ErrorReport

__all__ = ["FirstError"]


class FirstError(wiring.Component):
    """The first report counts; of several in a cycle the one of the lowest input.

    Parameters
    ----------
    count
        Number of inputs.

    Attributes
    ----------
    i : streams of `ErrorReport`, always ready
    halt : stream of `ErrorReport`, always ready
        The chiplet has ended with this error, whoever found it.
    failed : Out(1)
        There was a report; stays.
    report : Out
        The first one.
    stopped, halted : Out(1)
        From the cycle after `failed` or `halt` on, from the cycle after `halt` on; both stay.
    tell : stream of `ErrorReport`, always ready
        The first error of `halt`, once, unless another chiplet began it and has told it already.

    Raises
    ------
    ValueError
        If there is no input.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count!r}")
        report = stream.Signature(ErrorReport, always_ready=True)
        super().__init__(
            {
                "i": In(report).array(count),
                "halt": In(report),
                "failed": Out(1),
                "report": Out(ErrorReport),
                "stopped": Out(1),
                "halted": Out(1),
                "tell": Out(report),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Keep the lowest valid report until the next reset."""
        m = Module()
        for report in reversed(self.i):
            with m.If(report.valid & ~self.failed):
                m.d.sync += [self.report.eq(report.payload), self.failed.eq(1)]
        m.d.sync += [
            self.halted.eq(self.halted | self.halt.valid),
            self.stopped.eq(self.stopped | self.failed | self.halt.valid),
        ]
        m.d.comb += [
            self.tell.valid.eq(self.halt.valid & ~self.halted & (self.halt.payload.code != Error.PEER)),
            self.tell.payload.eq(self.halt.payload),
        ]
        return m
