"""Halo limits: which rows of other chiplets can be read while more of them come (R4, R14, I9)."""

from amaranth.hdl import Array, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.formats import beat_address_width
from hw.memory.write_fence import FENCE, WriteFence
from hw.ring.formats import OWNERS, POSITION_BITS, HaloRows
from hw.ring.sender import RowSettings

__all__ = ["HaloLimits"]


class HaloLimits(wiring.Component):
    """Follows rows from the filter to memory; says up to where the rows of each owner are there.

    The filter knows of each row that comes whether all lower rows of its owner have come, in whatever order they are
    sent. A limit is such a row; limits are handed on when all rows that had come by then are written, so there is a
    lag of the memory's latency, at most twice.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    chiplets
        Most chiplets of a ring.
    max_beats
        Beats of the longest row.

    Attributes
    ----------
    start : In(1)
        Pulse, a cycle before `flows`: a pass begins. Rows come later than ``chiplets`` cycles behind it; limits of
        earlier ones are left out.
    flows : In(1)
        Rows come. While it is 0 no row is there.
    rows : In(RowSettings)
    boundaries, count : In
        First VID of each chiplet; number of chiplets. Constant while rows come.
    taken, least, owner, vid : In
        A row comes: whether all lower ones of its owner have, and which it is.
    written : In(1)
        Pulse: the memory port has taken a row that came, as a whole. Rows stay in order.
    mark, answered
        As in `hw.memory.write_fence.FENCE`.
    known, starts, limits, come : Out
        As in `HaloRows`.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256, chiplets: int = 4, max_beats: int = 4) -> None:
        self.address_width, self.data_width = address_width, data_width
        self.chiplets, self.max_beats = chiplets, max_beats
        self._beat = beat_address_width(address_width, data_width)
        halo = HaloRows(address_width, data_width)
        super().__init__(
            {
                "start": In(1),
                "flows": In(1),
                "rows": In(RowSettings(address_width, data_width, max_beats)),
                "boundaries": In(data.ArrayLayout(32, chiplets + 1)),
                "count": In(POSITION_BITS),
                "taken": In(1),
                "least": In(1),
                "owner": In(range(chiplets)),
                "vid": In(32),
                "written": In(1),
                **FENCE,
                "known": Out(1),
                "come": Out(halo["come"].shape),
                "starts": Out(halo["starts"].shape),
                "limits": Out(halo["limits"].shape),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Place a limit in memory in two cycles; take all limits at once, and wait until their rows are written."""
        m = Module()
        index = range(self.chiplets)
        begin, come, chosen, limits = (
            [Signal(self._beat, name=f"{name}_{n}") for n in index] for name in ("begin", "come", "chosen", "limit")
        )
        # What is multiplied by the stride: first the boundaries, for the starts, then rows behind those that come.
        sets, at = Signal(), Signal(range(self.chiplets))
        valid, first, whose, vid = Signal(), Signal(), Signal.like(at), Signal(32)
        placed, begins, whom, distance = Signal(), Signal(), Signal.like(at), Signal(self._beat)
        place, changed = Signal(self._beat), Signal()
        m.d.comb += place.eq(self.rows.base + distance)
        m.d.sync += [
            valid.eq(sets | (self.taken & self.least)),
            first.eq(sets),
            whose.eq(Mux(sets, at, self.owner)),
            vid.eq(Mux(sets, Array(self.boundaries[n] for n in index)[at], self.vid + 1)),
            placed.eq(valid),
            begins.eq(first),
            whom.eq(whose),
            distance.eq(vid * self.rows.stride),
        ]
        with m.If(sets):
            m.d.sync += [at.eq(at + 1), sets.eq(at != self.chiplets - 1)]
        for n in index:
            with m.If(placed & (whom == n)):
                with m.If(begins):
                    # Nothing belongs to a chiplet that is not there.
                    m.d.sync += begin[n].eq(Mux(n < self.count, place, ~0))
                with m.Else():
                    m.d.sync += come[n].eq(place)
        m.d.comb += [
            *(self.starts[n].eq(begin[n] if n in index else ~0) for n in range(OWNERS)),
            *(self.limits[n].eq(limits[n]) for n in index),
        ]

        m.submodules.fence = fence = WriteFence()
        m.d.comb += [
            fence.runs.eq(self.flows),
            fence.begun.eq(self.taken),
            fence.written.eq(self.written),
            fence.asks.eq(changed),
            self.mark.eq(fence.mark),
            fence.answered.eq(self.answered),
        ]
        with m.If(fence.asked):
            m.d.sync += [changed.eq(0), *(to.eq(row) for to, row in zip(chosen, come, strict=True))]
        with m.If(fence.done):
            m.d.sync += [limit.eq(row) for limit, row in zip(limits, chosen, strict=True)]
        with m.If(placed):
            with m.If(~begins):
                m.d.sync += changed.eq(1)
            with m.Elif(whom == self.chiplets - 1):
                m.d.sync += self.known.eq(1)
        with m.If(~self.flows):
            m.d.sync += [sig.eq(0) for sig in (self.known, changed, valid, placed, sets)]
            m.d.sync += [row.eq(0) for row in come]
            m.d.sync += [limit.eq(0) for limit in limits]
        m.d.sync += self.come.eq(self.come + self.written)
        with m.If(self.start):
            m.d.sync += [sets.eq(1), at.eq(0), self.come.eq(0)]
        return m
