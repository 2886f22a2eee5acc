"""Filter array: one window per owner over the sorted list of needed VIDs (R4, R7)."""

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import wiring

from hw.ring.filter_feed import FilterFeed
from hw.ring.filter_window import FilterWindow

__all__ = ["FilterArray"]

#: Ports that are passed through: of the feed, into the window, out of the window.
_FEED = ("start", "address", "request", "i", "exhausted")
_ASKED = ("in_order", "boundaries", "owner", "vid", "next_owner", "next_vid", "advances", "take")
_FOUND = ("decided", "hit", "least", "late", "outside", "waiting", "lowest")


class FilterArray(wiring.Component):
    """The filter windows with their feed.

    Parameters
    ----------
    address_width, chiplets, entries
        As for the parts.

    Attributes
    ----------
    start, address, request, i, exhausted
        See `FilterFeed`.
    in_order, boundaries, owner, vid, next_owner, next_vid, advances, take
        See `FilterWindow`.
    decided, hit, least, late, outside, waiting, lowest
        See `FilterWindow`.
    """

    def __init__(self, address_width: int = 32, chiplets: int = 4, entries: int = 4) -> None:
        self._window = FilterWindow(chiplets, entries)
        self._feed = FilterFeed(address_width, chiplets)
        feed, window = self._feed.signature.members, self._window.signature.members
        super().__init__({name: feed[name] for name in _FEED} | {name: window[name] for name in _ASKED + _FOUND})

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect the feed to the windows."""
        m = Module()
        m.submodules.window = window = self._window
        m.submodules.feed = feed = self._feed
        wiring.connect(m, feed.fill, window.fill)
        wiring.connect(m, feed.request, wiring.flipped(self.request))
        wiring.connect(m, wiring.flipped(self.i), feed.i)
        m.d.comb += [
            feed.room.eq(window.room),
            feed.start.eq(self.start),
            feed.address.eq(self.address),
            feed.boundaries.eq(self.boundaries),
            window.clear.eq(self.start),
            window.exhausted.eq(feed.exhausted),
            self.exhausted.eq(feed.exhausted),
            *(getattr(window, name).eq(getattr(self, name)) for name in _ASKED),
            *(getattr(self, name).eq(getattr(window, name)) for name in _FOUND),
        ]
        return m
