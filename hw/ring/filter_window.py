"""Filter window: compares a packet's VID with the next needed VIDs of its owner (R4, R7)."""

from amaranth.hdl import Array, Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["FilterWindow"]


class FilterWindow(wiring.Component):
    """Compares a packet's VID with the entries of its owner's window, a packet a cycle.

    Entries come in ascending order. In order, an entry is taken only when none below it is left: what arrives
    before is not taken, and the window waits. Unordered, any entry may match.

    Parameters
    ----------
    chiplets
        Most chiplets of a ring, the owners.
    entries
        Entries of a window.

    Attributes
    ----------
    clear : In(1)
        Forget all entries.
    in_order : In(1)
    fill : stream of owner and VID
        The next entry of an owner; only while it has `room`.
    room : Out(chiplets)
        Owners with a free entry.
    exhausted : In(chiplets)
        Owners of which no further entry comes.
    owner, vid : In
        What is looked up.
    decided : Out(1)
        The entries that are here suffice to say whether it is needed. In the same cycle, and once set it stays.
    hit : Out(1)
        It is needed, and its turn has come.
    late : Out(1)
        It is not taken while entries below it wait: in order, or because the window is full of them.
    take : In(1)
        The hit's entry becomes free.
    waiting : Out(chiplets)
        Owners with entries left.
    lowest : Out(32)
        An entry that is left, of the lowest such owner.
    """

    def __init__(self, chiplets: int = 4, entries: int = 4) -> None:
        if not 2 <= chiplets <= 16:
            raise ValueError(f"chiplets must be in 2..16, not {chiplets!r}")
        if not 1 <= entries <= 64:
            raise ValueError(f"entries must be in 1..64, not {entries!r}")
        self.chiplets, self.entries = chiplets, entries
        super().__init__(
            {
                "clear": In(1),
                "in_order": In(1),
                "fill": In(stream.Signature(data.StructLayout({"owner": range(chiplets), "vid": 32}))),
                "room": Out(chiplets),
                "exhausted": In(chiplets),
                "owner": In(range(chiplets)),
                "vid": In(32),
                "decided": Out(1),
                "hit": Out(1),
                "late": Out(1),
                "take": In(1),
                "waiting": Out(chiplets),
                "lowest": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Select the owner's entries, compare them all at once."""
        m = Module()
        row = data.ArrayLayout(32, self.entries)
        vids = [Signal(row, name=f"vids_{n}") for n in range(self.chiplets)]
        used = [Signal(self.entries, name=f"used_{n}") for n in range(self.chiplets)]
        chosen = data.View(row, Array(v.as_value() for v in vids)[self.owner])
        present = Signal(self.entries)
        equal, below, above = Signal(self.entries), Signal(self.entries), Signal(self.entries)
        m.d.comb += present.eq(Array(used)[self.owner])
        for k in range(self.entries):
            m.d.comb += [
                equal[k].eq(present[k] & (chosen[k] == self.vid)),
                below[k].eq(present[k] & (chosen[k] < self.vid)),
                above[k].eq(present[k] & (chosen[k] > self.vid)),
            ]
        finished = Signal()
        m.d.comb += [
            finished.eq(self.exhausted.bit_select(self.owner, 1)),
            self.decided.eq(equal.any() | above.any() | finished | present.all()),
            self.hit.eq(equal.any() & ~(self.in_order & below.any())),
            self.late.eq(Mux(equal.any(), self.in_order & below.any(), below.all() & ~finished)),
            self.fill.ready.eq(self.room.bit_select(self.fill.payload.owner, 1)),
        ]
        for n in range(self.chiplets):
            free = ~used[n]
            slot = free & (used[n] + 1)  # the lowest free entry
            m.d.comb += [self.room[n].eq(free.any()), self.waiting[n].eq(used[n].any())]
            mine = self.fill.valid & self.fill.ready & (self.fill.payload.owner == n)
            released = Mux(self.take & self.hit & (self.owner == n), equal, 0)
            m.d.sync += used[n].eq((used[n] & ~released) | Mux(mine, slot, 0))
            for k in range(self.entries):
                with m.If(mine & slot[k]):
                    m.d.sync += vids[n][k].eq(self.fill.payload.vid)
            with m.If(self.clear):
                m.d.sync += used[n].eq(0)
        for n in reversed(range(self.chiplets)):
            for k in reversed(range(self.entries)):
                with m.If(used[n][k]):
                    m.d.comb += self.lowest.eq(vids[n][k])
        m.d.sync += [Cover(self.hit & below.any()), Cover(self.late & equal.any()), Cover(~self.decided & self.clear)]
        return m
