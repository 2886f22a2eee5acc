"""Location counters: add up what the locations of a layer, one for each of its tiles, have counted."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["LOCATION_COUNTERS", "LocationCounters"]

#: Counters of a location; ``rounds`` is the largest number of the layer's locations, the others are sums.
LOCATION_COUNTERS = ("communities", "hubs", "rounds", "edges_read")


class LocationCounters(wiring.Component):
    """The commands say which locations belong together.

    Attributes
    ----------
    begins : In(1)
        Pulse: a location begins.
    joins : In(1)
        It is another tile of the layer of the location before.
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
                "joins": In(1),
                "location": In(counters),
                "total": Out(counters),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep the totals of the locations before."""
        m = Module()
        for name in LOCATION_COUNTERS:
            count, total = getattr(self.location, name), getattr(self.total, name)
            before = Signal(32, name=f"{name}_before")
            m.d.comb += total.eq(Mux(before > count, before, count) if name == "rounds" else before + count)
            with m.If(self.begins):
                m.d.sync += before.eq(Mux(self.joins, total, 0))
        return m
