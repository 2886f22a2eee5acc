"""Filter window: compares a packet's VID with the next needed VIDs of its owner (R4, R7)."""

from amaranth.hdl import Array, Cat, Cover, Elaboratable, Module, Mux, Signal, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["FilterWindow"]

#: Result of looking up a packet's VID: see the ports of the same names.
_Found = data.StructLayout({"decided": 1, "hit": 1, "least": 1, "late": 1, "outside": 1})


class FilterWindow(wiring.Component):
    """Compares a packet's VID with the entries of its owner's window, a packet a cycle.

    A comparison takes a cycle. So that no packet waits for it, the next VID is looked up too, while the packet in front
    of it is still at the head.

    Entries are filled in ascending order. With `in_order`, an entry leaves the window only when none below it is left:
    that of a packet that arrives earlier waits, while its row is in its place in the halo, so no other packet waits for
    it. Otherwise any entry leaves at once.

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
        Valid with `clear`; it holds until the next one.
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
        It is needed.
    least : Out(1)
        With `hit`: the packets of all lower entries of the owner have come.
    late : Out(1)
        The window is full of entries below it, so it cannot be compared with its own.
    outside : Out(1)
        Its VID is not in its owner's range.
    take : In(1)
        The hit's packet has come: its entry becomes free, in its turn.
    waiting : Out(chiplets)
        Owners with entries whose packets have not come.
    lowest : Out(32)
        Such an entry, of the lowest such owner.
    """

    def __init__(self, chiplets: int = 4, entries: int = 4) -> None:
        if not 2 <= chiplets <= 16:
            raise ValueError(f"chiplets must be in 2..16, not {chiplets!r}")
        if not 1 <= entries <= 64:
            raise ValueError(f"entries must be in 1..64, not {entries!r}")
        self.chiplets, self.entries = chiplets, entries
        # Internal, named for proofs. By owner: VIDs of the entries; places with an entry; entries whose packets have
        # come before their turn, only in order.
        self.vids = [Signal(data.ArrayLayout(32, entries), name=f"vids_{n}") for n in range(chiplets)]
        self.used = [Signal(entries, name=f"used_{n}") for n in range(chiplets)]
        self.early = [Signal(entries, name=f"early_{n}") for n in range(chiplets)]
        self.ordered = Signal()
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
                "least": Out(1),
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
        found, equal = Signal(_Found), Signal(self.entries)
        # The entry whose packet comes is still there while the next packet is looked up.
        comes = Mux(self.take & self.hit & (self.owner == self.next_owner), equal, 0)
        here, equal_here = self._look_up(m, "here", self.owner, self.vid, 0)
        following, equal_next = self._look_up(m, "next", self.next_owner, self.next_vid, comes)
        with m.If(self.advances):
            m.d.sync += [found.eq(following), equal.eq(equal_next)]
        with m.Else():
            m.d.sync += [found.eq(here), equal.eq(equal_here)]
        with m.If(self.clear):
            m.d.sync += [found.eq(0), self.ordered.eq(self.in_order)]
        m.d.comb += [
            self.decided.eq(found.decided),
            self.hit.eq(found.hit),
            self.least.eq(found.least),
            self.late.eq(found.late),
            self.outside.eq(found.outside),
        ]
        for n in range(self.chiplets):
            self._fill(m, n, equal)
        for n in reversed(range(self.chiplets)):
            for k in reversed(range(self.entries)):
                with m.If(self.used[n][k] & ~self.early[n][k]):
                    m.d.comb += self.lowest.eq(self.vids[n][k])
        m.d.sync += [Cover(Cat(*self.early).any()), Cover(self.late), Cover(self.hit & self.advances)]
        return m

    def _look_up(self, m: Module, name: str, owner: Signal, vid: Signal, comes: ValueLike) -> tuple[data.View, Signal]:
        """Compare a VID with all entries of its owner at once; return the result and the entries that are equal.

        Packets of the entries `comes` come in this cycle.
        """
        chosen = data.View(self.vids[0].shape(), Array(v.as_value() for v in self.vids)[owner])
        present, equal, below = (Signal(self.entries, name=f"{name}_{n}") for n in ("present", "equal", "below"))
        m.d.comb += present.eq(Array(self.used)[owner])
        for k in range(self.entries):
            m.d.comb += [equal[k].eq(present[k] & (chosen[k] == vid)), below[k].eq(present[k] & (chosen[k] < vid))]
        found, finished = Signal(_Found, name=f"{name}_found"), Signal(name=f"{name}_finished")
        starts = Array(self.boundaries[n] for n in range(self.chiplets))
        ends = Array(self.boundaries[n + 1] for n in range(self.chiplets))
        m.d.comb += [
            finished.eq(self.exhausted.bit_select(owner, 1)),
            found.decided.eq((present & ~below).any() | finished | present.all()),
            found.hit.eq((equal & ~Array(self.early)[owner]).any()),
            found.least.eq(~(below & ~Array(self.early)[owner] & ~comes).any()),
            found.late.eq(below.all() & ~finished),
            found.outside.eq((vid < starts[owner]) | (vid >= ends[owner])),
        ]
        return found, equal

    def _fill(self, m: Module, owner: int, equal: Signal) -> None:
        """Put an owner's new entry into a free place; free the entry that is taken, in its turn.

        In order the places are a queue, so that its first entry is always the lowest.
        """
        vids, used, early = self.vids[owner], self.used[owner], self.early[owner]
        first, end = (Signal(self.entries, init=1, name=f"{name}_{owner}") for name in ("first", "end"))
        free, come, released = ~used, Signal(self.entries), Signal(self.entries)
        mine = self.fill.valid & self.fill.ready & (self.fill.payload.owner == owner)
        slot = Mux(self.ordered, end, free & (used + 1))  # the end of the queue, or the lowest free entry
        with m.If(self.fill.payload.owner == owner):
            m.d.comb += self.fill.ready.eq(self.room[owner])
        m.d.comb += [
            self.room[owner].eq(free.any()),
            self.waiting[owner].eq((used & ~early).any()),
            come.eq(early | Mux(self.take & self.hit & (self.owner == owner), equal & used, 0)),
            released.eq(come & Mux(self.ordered, first, ~0)),
        ]
        m.d.sync += [used.eq((used & ~released) | Mux(mine, slot, 0)), early.eq(come & ~released)]
        for k in range(self.entries):
            with m.If(mine & slot[k]):
                m.d.sync += vids[k].eq(self.fill.payload.vid)
        with m.If(released.any()):
            m.d.sync += first.eq(first.rotate_left(1))
        with m.If(mine):
            m.d.sync += end.eq(end.rotate_left(1))
        with m.If(self.clear):
            m.d.sync += [used.eq(0), early.eq(0), first.eq(1), end.eq(1)]
