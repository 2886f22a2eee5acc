"""Filter generator: makes entries for the filter array from what the PEs want now (R12, R13)."""

from amaranth.hdl import Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.stream.slice import Slice

__all__ = ["FilterGenerator"]


class FilterGenerator(wiring.Component):
    """Two register sets and a search through them.

    `reg` has the destination of every PE and its range of edges, `srcs` the sources it needs now. For a tile: the
    largest source that each group requests, the smallest of these maxima as bound, then all sources up to it in
    ascending order. As every group has asked for all it needs up to the bound, no group can see a newer version of
    a feature than another (R14).

    Parameters
    ----------
    groups, pes
        PE groups, and PEs of each.
    sources
        Sources that a PE may need at a time.

    Attributes
    ----------
    assign : stream
        A PE's next destination, with the range of its edges; empties its sources.
    want : stream
        A source for a PE; ``ready`` while that PE has room.
    finished : Out
        PEs without a destination: before the first one, and after `finish`.
    finish : stream of a PE's number, always ready
        It has done with its destination.
    tile : stream of first VID and VID behind the last
        Search for this tile; while it goes on nothing is assigned, wanted or finished.
    o : stream of VID and `last`
        Entries for the filter array. After the last one a word with ``last`` set that is no entry.
    served : Out(32)
        Bound of the last search.
    regs : Out
        `reg`, as it stands.

    Raises
    ------
    ValueError
        If a parameter is below 1.
    """

    def __init__(self, groups: int = 4, pes: int = 2, sources: int = 4) -> None:
        for name, value in (("groups", groups), ("pes", pes), ("sources", sources)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value!r}")
        self.groups, self.pes, self.sources = groups, pes, sources
        pe = range(groups * pes)
        self.reg = data.StructLayout({"destination": 32, "first_edge": 32, "end_edge": 32})
        super().__init__(
            {
                "assign": In(stream.Signature(data.StructLayout({"pe": pe, "reg": self.reg}))),
                "want": In(stream.Signature(data.StructLayout({"pe": pe, "vid": 32}))),
                "finish": In(stream.Signature(pe, always_ready=True)),
                "finished": Out(groups * pes, init=(1 << groups * pes) - 1),
                "tile": In(stream.Signature(data.StructLayout({"first": 32, "end": 32}))),
                "o": Out(stream.Signature(data.StructLayout({"vid": 32, "last": 1}))),
                "served": Out(32),
                "regs": Out(data.ArrayLayout(self.reg, groups * pes)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Keep the registers; look at a source a cycle, once for the bound and once for each entry."""
        m = Module()
        count, slots = self.groups * self.pes, self.groups * self.pes * self.sources
        m.submodules.srcs = srcs = Memory(shape=32, depth=slots, init=[])
        read, write = srcs.read_port(domain="comb"), srcs.write_port()
        used = Signal(slots)
        m.submodules.out = out = Slice(self.o.payload.shape())
        connect(m, out.o, flipped(self.o))
        idle = Signal()

        # A source goes to the lowest free slot of its PE.
        given, wanted = self.assign.payload, self.want.payload
        mine = used.word_select(wanted.pe, self.sources)
        place = Signal(range(self.sources))
        for k in reversed(range(self.sources)):
            with m.If(~mine[k]):
                m.d.comb += place.eq(k)
        m.d.comb += [
            self.assign.ready.eq(idle),
            self.want.ready.eq(idle & ~mine.all()),
            write.addr.eq(wanted.pe * self.sources + place),
            write.data.eq(wanted.vid),
            write.en.eq(self.want.valid & self.want.ready),
        ]
        for n in range(count):
            own = used.word_select(n, self.sources)
            with m.If(write.en & (wanted.pe == n)):
                m.d.sync += own.bit_select(place, 1).eq(1)
            with m.If(self.finish.valid & (self.finish.payload == n)):
                m.d.sync += [own.eq(0), self.finished[n].eq(1)]
            with m.If(self.assign.valid & self.assign.ready & (given.pe == n)):
                m.d.sync += [own.eq(0), self.finished[n].eq(0), self.regs[n].eq(given.reg)]

        # The walk through the slots, and a cycle later what was read.
        slot, part = Signal(range(slots)), Signal(range(self.pes * self.sources))  # part: of the group
        walks, come, searches, closes_bound = Signal(), Signal(), Signal(), Signal()
        vid, held, opens, closes = Signal(32), Signal(), Signal(), Signal()
        last_slot, last_part = slot == slots - 1, part == self.pes * self.sources - 1
        m.d.comb += read.addr.eq(slot)
        m.d.sync += [
            come.eq(walks),
            vid.eq(read.data),
            held.eq(used.bit_select(slot, 1)),
            opens.eq(part == 0),
            closes.eq(last_part),
        ]
        with m.If(walks):
            m.d.sync += [slot.eq(Mux(last_slot, 0, slot + 1)), part.eq(Mux(last_part, 0, part + 1))]

        tile = Signal.like(self.tile.payload)
        bound, found = Signal(32), Signal()  # of the groups so far
        least = Signal(33)  # entries below have been passed on
        exists, best = Signal(), Signal(32)  # smallest entry from there to the bound
        m.d.comb += self.served.eq(bound)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += [self.tile.ready.eq(1), idle.eq(1)]
                m.d.sync += [tile.eq(self.tile.payload), least.eq(self.tile.payload.first)]
                with m.If(self.tile.valid):
                    m.d.sync += [found.eq(0), bound.eq(0)]
                    m.next = "BOUND"
            with m.State("BOUND"):
                m.d.comb += walks.eq(1)
                with m.If(last_slot):
                    m.next = "SEARCH_WAITS"
            with m.State("SEARCH_WAITS"):
                with m.If(~come):
                    m.next = "SEARCH"
            with m.State("SEARCH"):
                m.d.comb += walks.eq(1)
                with m.If(last_slot):
                    m.next = "ENTRY_WAITS"
            with m.State("ENTRY_WAITS"):
                with m.If(~come):
                    m.next = "ENTRY"
            with m.State("ENTRY"):
                m.d.comb += [
                    out.i.valid.eq(1),
                    out.i.payload.vid.eq(Mux(exists, best, 0)),
                    out.i.payload.last.eq(~exists),
                ]
                with m.If(out.i.ready):
                    m.d.sync += [least.eq(best + 1), exists.eq(0)]
                    m.next = "SEARCH"
                    with m.If(~exists):
                        m.next = "IDLE"

        # The largest request of the group in turn; after its last slot the smallest of them is the bound. Searches
        # find the same once more.
        m.d.sync += searches.eq(fsm.ongoing("SEARCH"))
        largest, requests = Signal(32), Signal()
        hit = held & (vid >= tile.first) & (vid < tile.end)
        fresh = opens | ~requests
        with m.If(come):
            m.d.sync += requests.eq(hit | (requests & ~opens))
            with m.If(hit & (fresh | (vid > largest))):
                m.d.sync += largest.eq(vid)
        m.d.sync += closes_bound.eq(come & closes)
        with m.If(closes_bound & requests):
            m.d.sync += found.eq(1)
            with m.If(~found | (largest < bound)):
                m.d.sync += bound.eq(largest)

        # The smallest entry that has not been passed on.
        with m.If(come & searches & held & found & (vid >= least) & (vid <= bound) & (~exists | (vid < best))):
            m.d.sync += [exists.eq(1), best.eq(vid)]
        m.d.sync += Cover(closes_bound & requests & found & (largest > bound))
        return m
