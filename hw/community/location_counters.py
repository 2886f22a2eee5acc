"""Location counters: add up what the locations of a layer, one for each of its tiles, have counted."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["LOCATION_COUNTERS", "LocationCounters"]

#: Counters of a location; ``rounds`` is the largest number of the layer's locations, the others are sums.
LOCATION_COUNTERS = ("communities", "hubs", "rounds", "edges_read")


class LocationCounters(wiring.Component):
    """A location of the same layer is another tile of it, unless a run has begun in between.

    Attributes
    ----------
    begins : In(1)
        Pulse: a location begins.
    layer : In(8)
        Its layer, when it begins.
    starts : In(1)
        Pulse: a run begins.
    location : In(32) for each counter
        Counters of the location under way, or of the last one.
    total : Out(32) for each counter
        Those of its layer.
    """

    def __init__(self) -> None:
        counters = wiring.Signature({name: Out(32) for name in LOCATION_COUNTERS})
        super().__init__(
            {
                "begins": In(1),
                "layer": In(8),
                "starts": In(1),
                "location": In(counters),
                "total": Out(counters),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep the totals of the locations before."""
        m = Module()
        layer, joins = Signal(8), Signal()
        same_layer = joins & (layer == self.layer)
        for name in LOCATION_COUNTERS:
            count, total = getattr(self.location, name), getattr(self.total, name)
            before = Signal(32, name=f"{name}_before")
            m.d.comb += total.eq(Mux(before > count, before, count) if name == "rounds" else before + count)
            with m.If(self.begins):
                m.d.sync += before.eq(Mux(same_layer, total, 0))
        with m.If(self.begins):
            m.d.sync += [layer.eq(self.layer), joins.eq(1)]
        with m.Elif(self.starts):
            m.d.sync += joins.eq(0)
        return m
