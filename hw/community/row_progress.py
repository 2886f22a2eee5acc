"""Row progress: up to where the rows of a COMBINE are combined and can be read (R3, R14)."""

from typing import Any

from amaranth.hdl import Array, Cover, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from contracts import VID_BITS
from hw.memory.write_fence import FENCE, WriteFence

__all__ = ["CombinerRow", "RowProgress"]


class CombinerRow(data.StructLayout):
    """A row comes to one of so many combiners, or leaves it, in a cycle in which it is ``valid``."""

    def __init__(self, combiners: int, vid_bits: int = VID_BITS) -> None:
        super().__init__({"valid": 1, "combiner": range(max(2, combiners)), "vid": vid_bits})


class RowProgress(wiring.Component):
    """Follows rows through the combiners and to memory.

    Combiners are given rows in ascending order of VIDs, and each has its own in that order; but one may be far ahead of
    another. So no row is missing below the lowest that a combiner was given and has not combined, or below the next one
    that is given. That limit is handed on when what was combined by then can be read.

    Parameters
    ----------
    combiners
        Number of combiners, at least 1.
    rows
        Most rows of a COMBINE.
    most
        Fewer beats than this are on the way from the combiners to the memory port.
    settles
        As of `hw.memory.write_fence.WriteFence`.

    Attributes
    ----------
    begins : In(1)
        Pulse: from the next cycle on rows are combined.
    first : In(32)
        VID of the first one, constant as long as they are.
    going : In(1)
        They are; until it is 0 nothing else is written. It is 0 with `begins`.
    given : In(CombinerRow)
        A row begins its way to a combiner.
    combined : In(CombinerRow)
        The last beat of a row leaves a combiner.
    leaves, written : In(1)
        Pulses: a beat leaves the combiners; the memory port has taken one. Beats stay in order.
    mark, answered
        As in `hw.memory.write_fence.FENCE`.
    limit : Out
        While it is `going`: lower rows can be read.
    """

    def __init__(self, combiners: int, rows: int = 8192, most: int = 16, settles: int = 4) -> None:
        self.combiners, self.rows, self.most, self.settles = combiners, rows, most, settles
        super().__init__(
            {
                "begins": In(1),
                "first": In(VID_BITS),
                "going": In(1),
                "given": In(CombinerRow(combiners)),
                "combined": In(CombinerRow(combiners)),
                "leaves": In(1),
                "written": In(1),
                **FENCE,
                "limit": Out(VID_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Look at a combiner a cycle for the lowest row of all, and wait until those below it are written.

        The lowest row of a combiner only rises, so the lowest one that was seen is not above the lowest of all.
        """
        m = Module()
        # Rows are counted from the first one, in as many bits as it takes; they are noted a cycle later.
        bits = bits_for(self.rows)
        given, combined = (Signal(CombinerRow(self.combiners, bits), name=name) for name in ("gives", "takes"))
        for noted, row in ((given, self.given), (combined, self.combined)):
            m.d.sync += [
                noted.valid.eq(row.valid & ~self.begins),
                noted.combiner.eq(row.combiner),
                noted.vid.eq(row.vid - self.first),
            ]
        following, seen, lowest, least, chosen, reached = (
            Signal(bits, name=name) for name in ("following", "seen", "lowest", "least", "chosen", "reached")
        )
        turn, at = Signal(range(max(2, self.combiners))), Signal(range(max(2, self.combiners)))
        lows = [self._lowest(m, n, given, combined, following) for n in range(self.combiners)]
        last = self.combiners - 1
        lower = Mux((at == 0) | (seen < lowest), seen, lowest)
        m.d.sync += [
            turn.eq(Mux(turn == last, 0, turn + 1)),
            at.eq(turn),
            seen.eq(Array(lows)[turn]),
            lowest.eq(lower),
        ]
        with m.If(at == last):
            m.d.sync += least.eq(lower)
        with m.If(given.valid):
            m.d.sync += following.eq(given.vid + 1)

        m.submodules.fence = fence = WriteFence(self.most, self.settles)
        m.d.comb += [
            fence.runs.eq(self.going),
            fence.begun.eq(self.leaves),
            fence.written.eq(self.written),
            fence.asks.eq(least > reached),
            self.mark.eq(fence.mark),
            fence.answered.eq(self.answered),
        ]
        with m.If(fence.asked):
            m.d.sync += chosen.eq(least)
        with m.If(fence.done):
            m.d.sync += [reached.eq(chosen), self.limit.eq(self.first + chosen)]
        with m.If(self.begins):
            m.d.sync += [signal.eq(0) for signal in (following, seen, lowest, least, reached)]
            m.d.sync += self.limit.eq(self.first)
        same = given.combiner == combined.combiner
        m.d.sync += Cover(given.valid & combined.valid & same, "one row after another")
        return m

    def _lowest(self, m: Module, number: int, given: Any, combined: Any, following: Signal) -> Any:
        """Return the lowest row that a combiner may still have to combine."""
        # It has nothing below `low`; if it has anything, it was given `last` at the end.
        low, last = (Signal.like(following, name=f"{name}_{number}") for name in ("low", "last"))
        busy = Signal(name=f"busy_{number}")
        comes, leaves = (row.valid & (row.combiner == number) for row in (given, combined))
        with m.If(comes):
            m.d.sync += [last.eq(given.vid), busy.eq(1)]
        with m.Elif(leaves & (combined.vid == last)):
            m.d.sync += busy.eq(0)
        with m.If(leaves):
            m.d.sync += low.eq(combined.vid + 1)
        with m.Elif(comes & ~busy):
            m.d.sync += low.eq(given.vid)
        with m.If(self.begins):
            m.d.sync += busy.eq(0)
        return Mux(busy, low, following)
