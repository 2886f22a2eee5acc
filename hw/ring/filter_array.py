"""Filter array: one window per owner over the sorted list of needed VIDs (R4, R7)."""

from amaranth.hdl import Array, Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.memory.formats import RangeRequest, Word
from hw.stream.queue import Queue

__all__ = ["FilterArray", "FilterFeed", "FilterWindow"]

#: Words of a refill, and words that wait for an owner's window.
_CHUNK = 16
_WAITING = 32


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


class FilterFeed(wiring.Component):
    """Reads each owner's part of the needed list ahead of its window.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    chiplets
        Most chiplets of a ring.

    Attributes
    ----------
    start : In(1)
        From the beginning of the list; `address` and `counts` are constant from here on.
    address : In
        Word address of the list, whose parts lie one behind another.
    counts : In
        Entries of every owner.
    request : stream of `RangeRequest`
    i : stream of `Word`
    fill : stream of owner and VID
    room : In(chiplets)
        Owners whose window can take an entry.
    exhausted : Out(chiplets)
        Owners whose entries have all been handed on.
    """

    def __init__(self, address_width: int = 32, chiplets: int = 4) -> None:
        self.chiplets = chiplets
        super().__init__(
            {
                "start": In(1),
                "address": In(RangeRequest(address_width)["address"].shape),
                "counts": In(data.ArrayLayout(32, chiplets)),
                "request": Out(stream.Signature(RangeRequest(address_width))),
                "i": In(stream.Signature(Word())),
                "fill": Out(stream.Signature(data.StructLayout({"owner": range(chiplets), "vid": 32}))),
                "room": In(chiplets),
                "exhausted": Out(chiplets),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the requests, the words that wait and the way to the windows."""
        m = Module()
        count = self.chiplets
        owner_shape = range(count)
        m.submodules.words = words = Memory(shape=32, depth=count * _WAITING, init=[])
        read, write = words.read_port(domain="comb"), words.write_port()
        m.submodules.order = order = Queue(owner_shape, 2 * count)

        asked, come, given = (
            Array(Signal(32, name=f"{name}_{n}") for n in range(count)) for name in ("asked", "come", "given")
        )
        # Where the parts begin, relative to the list: sums of the counts below, made one a cycle after the start.
        first = Array(Signal(32, name=f"first_{n}") for n in range(count))
        active = Signal()
        summed = Signal(range(count + 1), init=count)

        def choose(name: str, wanted: list[object], step: object) -> Signal:
            """Move a turn to the nearest owner that wants it."""
            turn = Signal(owner_shape, name=name)
            with m.If(step | ~Array(wanted)[turn]):
                with m.Switch(turn):
                    for n in range(count):
                        with m.Case(n):
                            for distance in reversed(range(1, count)):
                                with m.If(wanted[(n + distance) % count]):
                                    m.d.sync += turn.eq((n + distance) % count)
            return turn

        wants = [Signal(name=f"wants_{n}") for n in range(count)]
        offers = [Signal(name=f"offers_{n}") for n in range(count)]
        for n in range(count):
            m.d.comb += [
                wants[n].eq(active & (asked[n] != self.counts[n]) & (asked[n] - given[n] <= _WAITING - _CHUNK)),
                offers[n].eq(active & (come[n] != given[n]) & self.room[n]),
                self.exhausted[n].eq(active & (given[n] == self.counts[n])),
            ]

        asking = Signal()
        left = Signal(32)
        turn = choose("asking_turn", wants, asking)
        m.d.comb += [
            left.eq(Array(self.counts[n] for n in range(count))[turn] - asked[turn]),
            self.request.payload.address.eq(self.address + first[turn] + asked[turn]),
            self.request.payload.words.eq(Mux(left > _CHUNK, _CHUNK, left)),
            order.i.payload.eq(turn),
            self.request.valid.eq(Array(wants)[turn] & order.i.ready),
            order.i.valid.eq(self.request.valid & self.request.ready),
            asking.eq(order.i.valid),
        ]
        with m.If(asking):
            m.d.sync += asked[turn].eq(asked[turn] + self.request.payload.words)

        place = order.o.payload
        m.d.comb += [
            self.i.ready.eq(order.o.valid),
            order.o.ready.eq(self.i.valid & self.i.payload.last),
            write.addr.eq(place * _WAITING + come[place][: (_WAITING - 1).bit_length()]),
            write.data.eq(self.i.payload.data),
            write.en.eq(self.i.valid & self.i.ready),
        ]
        with m.If(write.en):
            m.d.sync += come[place].eq(come[place] + 1)

        giving = Signal()
        gives = choose("giving_turn", offers, giving)
        m.d.comb += [
            self.fill.valid.eq(Array(offers)[gives]),
            self.fill.payload.owner.eq(gives),
            self.fill.payload.vid.eq(read.data),
            read.addr.eq(gives * _WAITING + given[gives][: (_WAITING - 1).bit_length()]),
            giving.eq(self.fill.valid & self.fill.ready),
        ]
        with m.If(giving):
            m.d.sync += given[gives].eq(given[gives] + 1)

        with m.If(summed != count):
            m.d.sync += summed.eq(summed + 1)
            for n in range(1, count):
                with m.If(summed == n):
                    m.d.sync += first[n].eq(first[n - 1] + self.counts[n - 1])
            with m.If(summed == count - 1):
                m.d.sync += active.eq(1)
        with m.If(self.start):
            m.d.sync += [summed.eq(1), active.eq(0), first[0].eq(0)]
            for n in range(count):
                m.d.sync += [asked[n].eq(0), come[n].eq(0), given[n].eq(0)]
        return m


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
