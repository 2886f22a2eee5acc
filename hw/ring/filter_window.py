"""Filter window: compares a packet's VID with the next needed VIDs of its owner (R4, R7)."""

from amaranth.hdl import Array, Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["FilterWindow"]

#: Result of looking up a packet's VID: see the ports of the same names.
_Found = data.StructLayout({"decided": 1, "hit": 1, "late": 1, "outside": 1})


class FilterWindow(wiring.Component):
    """Compares a packet's VID with the entries of its owner's window, a packet a cycle.

    A comparison takes a cycle. So that no packet waits for it, the next VID is looked up too, while the packet in front
    of it is still at the head.

    Entries are filled in ascending order. With `in_order`, an entry is taken only when none below it is left: a packet
    that arrives earlier is `late`. Otherwise any entry may match.

    Parameters
    ----------
    chiplets
        Most chiplets of a ring, the owners.
    entries
        Entries of a window.

    Attributes
    ----------
    clear : In(1)
        Drop all entries.
    in_order : In(1)
    fill : stream of owner and VID
        The next entry of an owner; only while it has `room`.
    room : Out(chiplets)
        Owners with a free entry.
    exhausted : In(chiplets)
        Owners without further entries to fill in.
    boundaries : In
        First VID of each owner, and the end; constant from a cycle before `clear` on.
    owner, vid : In
        The packet at the head.
    next_owner, next_vid : In
        The packet that is at the head in the next cycle if `advances`.
    advances : In(1)
    decided : Out(1)
        The entries of a cycle ago decide whether the packet at the head is needed. Stays set.
    hit : Out(1)
        It is needed and in turn.
    late : Out(1)
        It is not taken while entries below it wait: in order, or because the window is full of them.
    outside : Out(1)
        Its VID is not in its owner's range.
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
                "boundaries": In(data.ArrayLayout(32, chiplets + 1)),
                "owner": In(range(chiplets)),
                "vid": In(32),
                "next_owner": In(range(chiplets)),
                "next_vid": In(32),
                "advances": In(1),
                "decided": Out(1),
                "hit": Out(1),
                "late": Out(1),
                "outside": Out(1),
                "take": In(1),
                "waiting": Out(chiplets),
                "lowest": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Look up two VIDs; register the result of the one that will be at the head."""
        m = Module()
        row = data.ArrayLayout(32, self.entries)
        vids = [Signal(row, name=f"vids_{n}") for n in range(self.chiplets)]
        used = [Signal(self.entries, name=f"used_{n}") for n in range(self.chiplets)]
        here, equal_here = self._look_up(m, "here", vids, used, self.owner, self.vid)
        following, equal_next = self._look_up(m, "next", vids, used, self.next_owner, self.next_vid)
        found, equal = Signal(_Found), Signal(self.entries)
        with m.If(self.advances):
            m.d.sync += [found.eq(following), equal.eq(equal_next)]
        with m.Else():
            m.d.sync += [found.eq(here), equal.eq(equal_here)]
        with m.If(self.clear):
            m.d.sync += found.eq(0)
        m.d.comb += [
            self.decided.eq(found.decided),
            self.hit.eq(found.hit),
            self.late.eq(found.late),
            self.outside.eq(found.outside),
        ]
        self._fill(m, vids, used, equal)
        for n in reversed(range(self.chiplets)):
            for k in reversed(range(self.entries)):
                with m.If(used[n][k]):
                    m.d.comb += self.lowest.eq(vids[n][k])
        m.d.sync += [Cover(self.late & equal.any()), Cover(self.late & ~equal.any()), Cover(self.hit & self.advances)]
        return m

    def _look_up(
        self, m: Module, name: str, vids: list[data.View], used: list[Signal], owner: Signal, vid: Signal
    ) -> tuple[data.View, Signal]:
        """Compare a VID with all entries of its owner at once; return the result and the entries that are equal."""
        chosen = data.View(vids[0].shape(), Array(v.as_value() for v in vids)[owner])
        present, equal, below = (Signal(self.entries, name=f"{name}_{n}") for n in ("present", "equal", "below"))
        m.d.comb += present.eq(Array(used)[owner])
        for k in range(self.entries):
            m.d.comb += [equal[k].eq(present[k] & (chosen[k] == vid)), below[k].eq(present[k] & (chosen[k] < vid))]
        found, finished = Signal(_Found, name=f"{name}_found"), Signal(name=f"{name}_finished")
        starts = Array(self.boundaries[n] for n in range(self.chiplets))
        ends = Array(self.boundaries[n + 1] for n in range(self.chiplets))
        waits = self.in_order & below.any()
        m.d.comb += [
            finished.eq(self.exhausted.bit_select(owner, 1)),
            found.decided.eq((present & ~below).any() | finished | present.all()),
            found.hit.eq(equal.any() & ~waits),
            found.late.eq(Mux(equal.any(), waits, below.all() & ~finished)),
            found.outside.eq((vid < starts[owner]) | (vid >= ends[owner])),
        ]
        return found, equal

    def _fill(self, m: Module, vids: list[data.View], used: list[Signal], equal: Signal) -> None:
        """Put new entries into the lowest free places of their owners; free the entry that is taken."""
        m.d.comb += self.fill.ready.eq(self.room.bit_select(self.fill.payload.owner, 1))
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
