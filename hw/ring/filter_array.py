"""Filter array: one window per owner over the sorted list of needed VIDs (R4, R7)."""

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import wiring

from hw.ring.filter_feed import FilterFeed
from hw.ring.filter_window import FilterWindow

__all__ = ["FilterArray"]


class FilterArray(wiring.Component):
    """Windows and feed together.

    Parameters
    ----------
    address_width, chiplets, entries
        As for the parts.

    Attributes
    ----------
    start, address, counts, request, i, exhausted
        See `FilterFeed`.
    in_order, owner, vid, decided, hit, late, take, waiting, lowest
        See `FilterWindow`.
    """

    def __init__(self, address_width: int = 32, chiplets: int = 4, entries: int = 4) -> None:
        self._window = FilterWindow(chiplets, entries)
        self._feed = FilterFeed(address_width, chiplets)
        feed, window = self._feed.signature.members, self._window.signature.members
        shared = ("start", "address", "counts", "request", "i", "exhausted")
        looked = ("in_order", "owner", "vid", "decided", "hit", "late", "take", "waiting", "lowest")
        super().__init__({name: feed[name] for name in shared} | {name: window[name] for name in looked})

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect the feed to the windows."""
        m = Module()
        m.submodules.window = window = self._window
        m.submodules.feed = feed = self._feed
        wiring.connect(m, feed.fill, window.fill)
        wiring.connect(m, feed.request, wiring.flipped(self.request))
        wiring.connect(m, wiring.flipped(self.i), feed.i)
        m.d.comb += [
            feed.start.eq(self.start),
            feed.address.eq(self.address),
            feed.counts.eq(self.counts),
            feed.room.eq(window.room),
            window.exhausted.eq(feed.exhausted),
            self.exhausted.eq(feed.exhausted),
            window.clear.eq(self.start),
            window.in_order.eq(self.in_order),
            window.owner.eq(self.owner),
            window.vid.eq(self.vid),
            self.decided.eq(window.decided),
            self.hit.eq(window.hit),
            self.late.eq(window.late),
            window.take.eq(self.take),
            self.waiting.eq(window.waiting),
            self.lowest.eq(window.lowest),
        ]
        return m
