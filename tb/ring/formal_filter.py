"""Proofs of the filter window: in order, entries leave in ascending order, each as soon as its turn has come (R7)."""

from functools import partial
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal, Value

from hw.ring.filter_window import FilterWindow
from sim.harness.formal import Proof

CHIPLETS = 2


class FilterWindowSpec(Elaboratable):
    """Entries of every owner come in ascending order, at any pace; packets with any VIDs, in any order, at any pace.

    Parameters
    ----------
    entries
        Of a window.
    """

    def __init__(self, entries: int) -> None:
        self.entries = entries

    def elaborate(self, platform: Any) -> Module:
        """Follow two entries of an owner, of which one is lower."""
        m = Module()
        m.submodules.dut = dut = FilterWindow(CHIPLETS, self.entries)
        begun, in_order = Signal(), AnyConst(1)
        m.d.sync += begun.eq(1)
        m.d.comb += [dut.clear.eq(~begun), dut.in_order.eq(in_order), dut.advances.eq(AnySeq(1))]
        self._fill(m, dut, begun)
        self._packets(m, dut, begun)
        low, high = AnyConst(32), AnyConst(32)
        m.d.comb += [
            Assume(low < high),
            Assert(~begun | (dut.ordered == in_order)),
            # Unordered nothing waits.
            Assert(dut.ordered | ~Value.cast(dut.early[0]).any()),
        ]
        filled = Signal()
        with m.If(dut.fill.valid & dut.fill.ready & (dut.fill.payload.owner == 0) & (dut.fill.payload.vid == high)):
            m.d.sync += filled.eq(begun)
        here, there = (self._places(m, dut, name, vid) for name, vid in (("low", low), ("high", high)))
        # In order the higher one is there as long as the lower one is, marked or not.
        m.d.comb += [
            Assert(~(begun & dut.ordered & filled & here.any()) | there.any()),
            # An entry is there once, and only those that are there are marked.
            Assert((here & (here - 1)) == 0),
            Assert((dut.early[0] & ~dut.used[0]) == 0),
            Cover(dut.ordered & here.any() & (there & dut.early[0]).any()),
        ]
        self._turns(m, dut)
        # A row counts as the least only if no lower one is waited for, and does in each of two cycles.
        least, before = Signal(), Signal()
        m.d.comb += least.eq(dut.take & dut.hit & dut.least & (dut.owner == 0))
        m.d.sync += before.eq(least)
        m.d.comb += [
            Assert(~(begun & least & (dut.vid > low)) | ~(here & ~dut.early[0]).any()),
            Cover(before & least & there.any() & ~dut.ordered),
        ]
        return m

    def _fill(self, m: Module, dut: FilterWindow, begun: Signal) -> None:
        """Fill in ascending entries."""
        m.d.comb += [
            dut.fill.valid.eq(begun & AnySeq(1)),
            dut.fill.payload.owner.eq(AnySeq(1)),
            dut.fill.payload.vid.eq(AnySeq(32)),
            dut.exhausted.eq(AnySeq(CHIPLETS)),
        ]
        for n in range(CHIPLETS):
            last, some = Signal(32, name=f"last_{n}"), Signal(name=f"some_{n}")
            fills = dut.fill.valid & dut.fill.ready & (dut.fill.payload.owner == n)
            m.d.comb += Assume(~fills | ~some | (dut.fill.payload.vid > last))
            with m.If(fills):
                m.d.sync += [last.eq(dut.fill.payload.vid), some.eq(1)]

    def _packets(self, m: Module, dut: FilterWindow, begun: Signal) -> None:
        """Let packets come to the head, where each is taken at most once, by the result of its own VID."""
        vid, owner, taken = Signal.like(dut.vid), Signal.like(dut.owner), Signal()
        m.d.comb += [
            dut.next_owner.eq(AnySeq(1)),
            dut.next_vid.eq(AnySeq(32)),
            dut.owner.eq(owner),
            dut.vid.eq(vid),
            dut.take.eq(begun & AnySeq(1) & dut.decided & ~taken),
        ]
        m.d.sync += taken.eq(~dut.advances & (taken | dut.take))
        with m.If(dut.advances):
            m.d.sync += [vid.eq(dut.next_vid), owner.eq(dut.next_owner)]

    def _places(self, m: Module, dut: FilterWindow, name: str, vid: Value) -> Value:
        """Return the places in which the first owner has an entry."""
        found = Signal(self.entries, name=f"places_{name}")
        m.d.comb += [found[k].eq(dut.used[0][k] & (dut.vids[0][k] == vid)) for k in range(self.entries)]
        return found

    def _turns(self, m: Module, dut: FilterWindow) -> None:
        """Count cycles in which all entries that are left have come: they leave one a cycle."""
        waits, left = Signal(range(self.entries + 2)), dut.used[0] & ~dut.early[0]
        m.d.sync += waits.eq(Mux(dut.used[0].any() & ~left.any(), waits + 1, 0))
        m.d.comb += [Assert(waits < self.entries), Cover(waits == self.entries - 1)]


PROOFS = [
    Proof("entries_leave_in_order", partial(FilterWindowSpec, 2), "bmc", 11),
    Proof("an_entry_waits_for_a_lower_one", partial(FilterWindowSpec, 2), "cover", 8, outer=True),
    Proof("entries_leave_in_order_for_longer", partial(FilterWindowSpec, 3), "bmc", 10, quick=False),
]
