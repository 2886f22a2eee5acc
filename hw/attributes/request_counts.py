"""Request counts: requests for the attributes of a batch, by flow, and the rows that have been written (A7)."""

from amaranth import Elaboratable, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import Error, Flow
from hw.attributes.formats import AttributeConfig

__all__ = ["RequestCounts", "RequestTotals"]

#: Flows that are counted apart.
_FLOWS = (Flow.IN_PLACE, Flow.CACHED, Flow.MOVED, Flow.MISSED)


class RequestTotals(data.StructLayout):
    """``requests`` that have ended, and how many had the flow ``in_place``, ``cached``, ``moved`` or ``missed``."""

    def __init__(self, config: AttributeConfig) -> None:
        names = ("requests", *(flow.name.lower() for flow in _FLOWS))
        super().__init__({name: range((1 << config.tag_bits) + 1) for name in names})


class RequestCounts(wiring.Component):
    """Counts events and responses of the attribute processor, and rows that the row writer has handed on.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    start : In(1)
        Count from 0; no request is under way.
    event_valid, event : In
        The decision on a request, from the attribute processor.
    response : stream of ``config.response``, always ready
        The end of a request.
    row_written : In(1)
        A row has been handed on.
    positions : In
        Number of requests of the batch.
    totals : Out
        `RequestTotals`.
    settled : Out(1)
        Every request has been answered, and every row that was fetched without an error has been handed on.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        counted = range((1 << config.tag_bits) + 1)
        super().__init__(
            {
                "start": In(1),
                "event_valid": In(1),
                "event": In(config.event),
                "response": In(stream.Signature(config.response, always_ready=True)),
                "row_written": In(1),
                "positions": In(counted),
                "totals": Out(RequestTotals(config)),
                "settled": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Count."""
        m = Module()
        totals = Signal(RequestTotals(self.config), reset_less=True)
        good, written = (Signal.like(self.positions, name=name, reset_less=True) for name in ("good", "written"))
        response = self.response
        for flow in _FLOWS:
            count = totals[flow.name.lower()]
            m.d.sync += count.eq(count + (self.event_valid & (self.event.flow == flow)))
        m.d.sync += [
            totals.requests.eq(totals.requests + response.valid),
            good.eq(good + (response.valid & (response.payload.error == Error.NONE))),
            written.eq(written + self.row_written),
        ]
        with m.If(self.start):
            m.d.sync += [totals.eq(0), good.eq(0), written.eq(0)]
        m.d.comb += [
            self.totals.eq(totals),
            self.settled.eq((totals.requests == self.positions) & (written == good)),
        ]
        return m
