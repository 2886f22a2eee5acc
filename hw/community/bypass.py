"""Bypass: the way of vertices whose combined rows are results themselves, past all that sums rows up (COMBINE)."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from golden.contracts import VID_BITS
from hw.community.formats import CommunityConfig
from hw.stream.queue import Queue

__all__ = ["Bypass", "share", "split"]

#: Vertices under way: as many as hide the memory's latency if rows of features are short.
_VERTICES = 64


def share(m: Module, second: Value, target: Any, *sources: Any) -> None:
    """Let one of two streams, by `second`, be that of a component's port `target`."""
    for n, source in enumerate(sources):
        mine = second == n
        with m.If(mine):
            m.d.comb += [target.valid.eq(source.valid), target.payload.eq(source.payload)]
        m.d.comb += source.ready.eq(target.ready & mine)


def split(m: Module, second: Value, source: Any, *targets: Any) -> None:
    """Hand a stream on to one of two, by `second`."""
    for n, target in enumerate(targets):
        mine = second == n
        m.d.comb += [target.valid.eq(source.valid & mine), target.payload.eq(source.payload)]
        with m.If(mine):
            m.d.comb += source.ready.eq(target.ready)


class Bypass(wiring.Component):
    """Asks for the features of vertices and names the rows that the PE makes of them, which come in the same order.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    i : stream of unsigned(32)
        VIDs.
    request : stream of ``config.request``
        The same, as long as few are under way.
    rows : stream of ``config.pe.row_beat``
        Combined rows.
    o : stream of ``config.result``
        The same with their VIDs.
    busy : Out(1)
        Rows are under way.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(VID_BITS)),
                "request": Out(stream.Signature(config.request)),
                "rows": In(stream.Signature(config.pe.row_beat)),
                "o": Out(stream.Signature(config.result)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep VIDs in order, count beats."""
        m = Module()
        m.submodules.vids = vids = Queue(VID_BITS, _VERTICES)
        result, row = self.o.payload, self.rows.payload
        beat = Signal.like(result.beat)
        m.d.comb += [
            self.request.payload.vid.eq(self.i.payload),
            self.request.valid.eq(self.i.valid & vids.i.ready),
            self.i.ready.eq(self.request.ready & vids.i.ready),
            vids.i.payload.eq(self.i.payload),
            vids.i.valid.eq(self.i.valid & self.request.ready),
            result.vid.eq(vids.o.payload),
            result.beat.eq(beat),
            result.data.eq(row.data),
            result.last.eq(row.last),
            self.o.valid.eq(self.rows.valid & vids.o.valid),
            self.rows.ready.eq(self.o.ready & vids.o.valid),
            vids.o.ready.eq(self.o.valid & self.o.ready & row.last),
            self.busy.eq(vids.o.valid),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += beat.eq(Mux(row.last, 0, beat + 1))
        return m
