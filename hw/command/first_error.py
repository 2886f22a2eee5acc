"""First error: the one rule for which error a command ends with."""

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.graph.formats import ErrorReport

__all__ = ["FirstError"]


class FirstError(wiring.Component):
    """Keeps the error of the first cycle; within a cycle the unit's own comes first, then the lowest source.

    Parameters
    ----------
    sources
        Number of inputs for reports.

    Attributes
    ----------
    own : stream of `ErrorReport`, always ready
        What the unit itself refuses or finds.
    errors : streams of `ErrorReport`, always ready
        What others report; counts only while `listen` is 1.
    listen : In(1)
    clear : In(1)
        Forget the error; nothing is kept in the same cycle.
    failed : Out(1)
        There is an error.
    report : Out
        It, or code 0.

    Raises
    ------
    ValueError
        If the number of sources is negative.
    """

    def __init__(self, sources: int) -> None:
        if sources < 0:
            raise ValueError(f"sources must be at least 0, not {sources!r}")
        report = stream.Signature(ErrorReport, always_ready=True)
        super().__init__(
            {
                "own": In(report),
                "errors": In(report).array(sources),
                "listen": In(1),
                "clear": In(1),
                "failed": Out(1),
                "report": Out(ErrorReport),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Load the report of the highest priority, once."""
        m = Module()
        with m.If(~self.failed):
            for source in reversed(self.errors):
                with m.If(source.valid & self.listen):
                    m.d.sync += [self.report.eq(source.payload), self.failed.eq(1)]
            with m.If(self.own.valid):
                m.d.sync += [self.report.eq(self.own.payload), self.failed.eq(1)]
        with m.If(self.clear):
            m.d.sync += [self.report.eq(0), self.failed.eq(0)]
        return m
