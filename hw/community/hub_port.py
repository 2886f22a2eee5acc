"""Hub port: connects a PE to the hub units; rows return in the order of the PE's requests (I9)."""

from amaranth.hdl import Array, Cover, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.community.formats import CommunityConfig
from hw.stream.queue import Queue

__all__ = ["HubPort"]


class HubPort(wiring.Component):
    """Requests only rows that it has room for, so no PE stalls a hub unit, and through it another PE.

    Parameters
    ----------
    config : CommunityConfig
    units
        Hub units, a power of two; the low VID bits select the unit of a hub.
    rows
        Most outstanding rows of the PE, at least 1.

    Attributes
    ----------
    i : stream of ``config.request``
        Requests of the PE.
    o : stream of ``config.hub_row``
        Rows for the PE.
    partial : stream of ``config.partial``
        Partial sums of the PE.
    requests : streams of ``config.request``
    rows : streams of ``config.hub_row``, always ready
    partials : streams of ``config.partial``
        To and from each unit. A unit is offered only its own requests and sums; ``ready`` of the PE's streams is that
        of the selected unit.
    """

    def __init__(self, config: CommunityConfig, units: int, rows: int = 32) -> None:
        self.config, self.units, self.room = config, units, rows
        self._bits = exact_log2(units)
        super().__init__(
            {
                "i": In(stream.Signature(config.request)),
                "o": Out(stream.Signature(config.hub_row)),
                "partial": In(stream.Signature(config.partial)),
                "requests": Out(stream.Signature(config.request)).array(units),
                "rows": In(stream.Signature(config.hub_row, always_ready=True)).array(units),
                "partials": Out(stream.Signature(config.partial)).array(units),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep the unit of each outstanding row; take rows from the units in that order."""
        m = Module()
        config = self.config
        m.submodules.order = order = Queue(range(max(2, self.units)), self.room)
        queues = [Queue(config.hub_row, self.room * config.pe.max_beats) for _ in range(self.units)]
        unit, partial_unit = self.i.payload.vid[: self._bits], self.partial.payload.vid[: self._bits]
        room = order.i.ready
        moves = self.i.valid & self.i.ready
        m.d.comb += [
            self.i.ready.eq(Array(port.ready for port in self.requests)[unit] & room),
            order.i.valid.eq(moves),
            order.i.payload.eq(unit),
            self.partial.ready.eq(Array(port.ready for port in self.partials)[partial_unit]),
        ]
        # Every row was requested: without outstanding rows all queues are empty.
        chosen = order.o.payload
        for n, (request, row, partial) in enumerate(zip(self.requests, self.rows, self.partials, strict=True)):
            m.submodules[f"queue_{n}"] = queue = queues[n]
            m.d.comb += [
                request.payload.eq(self.i.payload),
                request.valid.eq(self.i.valid & room & (unit == n)),
                queue.i.valid.eq(row.valid),
                queue.i.payload.eq(row.payload),
                queue.o.ready.eq((chosen == n) & self.o.ready),
                partial.payload.eq(self.partial.payload),
                partial.valid.eq(self.partial.valid & (partial_unit == n)),
            ]
        m.d.comb += [
            self.o.payload.eq(Array(queue.o.payload.as_value() for queue in queues)[chosen]),
            self.o.valid.eq(Array(queue.o.valid for queue in queues)[chosen]),
            order.o.ready.eq(self.o.valid & self.o.ready & self.o.payload.last),
        ]
        m.d.sync += Cover(self.i.valid & ~room, "no room for another row")
        return m
