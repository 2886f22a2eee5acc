"""Filter generator: makes entries for the filter array from the sources that PEs request (R12, R13)."""

from typing import NamedTuple

from amaranth.hdl import Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.stream.slice import Slice

__all__ = ["FilterGenerator"]


class _Source(NamedTuple):
    """A slot as it was read.

    ``held``: it holds a source, `vid`. ``opens``, ``closes``: it is the first or the last slot of its group.
    """

    valid: Signal
    vid: Signal
    held: Signal
    opens: Signal
    closes: Signal


class FilterGenerator(wiring.Component):
    """Two register sets and a search through them.

    `reg` has the destination of every PE and its range of edges, `srcs` the sources that it requests. For a tile the
    search finds the largest source that each group requests, takes the smallest of these maxima as the bound, and
    sends all sources up to the bound in ascending order. Every group has requested all its sources up to the bound,
    so no group can see a newer version of a feature than another (R14).

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
        A source for a PE; ``ready`` while that PE has a free slot.
    finished : Out
        PEs without a destination: before the first one, and after `finish`.
    finish : stream of a PE's number, always ready
        That PE has finished its destination.
    tile : stream of first VID and VID behind the last
        Search for this tile; `assign`, `want` and `finish` are idle during a search.
    o : stream of VID and `last`
        Entries for the filter array. A word with ``last`` set, which is no entry, ends them.
    served : Out(32)
        Bound of the last search.
    regs : Out
        `reg`, for reading.

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
        """Keep the register sets; read a source a cycle, in one pass for the bound and one for each entry."""
        m = Module()
        slots = self.groups * self.pes * self.sources
        m.submodules.srcs = srcs = Memory(shape=32, depth=slots, init=[])
        m.submodules.out = out = Slice(self.o.payload.shape())
        connect(m, out.o, flipped(self.o))
        used = Signal(slots)
        idle, walks = Signal(), Signal()
        self._register_sets(m, srcs, used, idle)
        source, last_slot = self._walk(m, srcs, used, walks)

        tile = Signal.like(self.tile.payload)
        bound, found = Signal(32), Signal()  # smallest maximum of the groups so far, if there is one
        least = Signal(33)  # entries below it are sent
        exists, best = Signal(), Signal(32)  # smallest entry from `least` to the bound
        m.d.comb += self.served.eq(bound)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += [self.tile.ready.eq(1), idle.eq(1)]
                m.d.sync += [tile.eq(self.tile.payload), least.eq(self.tile.payload.first)]
                with m.If(self.tile.valid):
                    m.d.sync += [found.eq(0), bound.eq(0)]
                    m.next = "BOUND"
            for state, following in (("BOUND", "SEARCH"), ("SEARCH", "ENTRY")):
                with m.State(state):
                    m.d.comb += walks.eq(1)
                    with m.If(last_slot):
                        m.next = f"{following}_WAITS"
                with m.State(f"{following}_WAITS"):
                    with m.If(~source.valid):
                        m.next = following
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

        # Only the first pass finds a new bound; searches find the same one again.
        searches = Signal()
        m.d.sync += searches.eq(fsm.ongoing("SEARCH"))
        self._bound(m, source, tile, bound, found)
        entry = source.valid & searches & source.held & found & (source.vid >= least) & (source.vid <= bound)
        with m.If(entry & (~exists | (source.vid < best))):
            m.d.sync += [exists.eq(1), best.eq(source.vid)]
        return m

    def _register_sets(self, m: Module, srcs: Memory, used: Signal, idle: Signal) -> None:
        """Assign, fill and free the register sets of the PEs; a source goes to the lowest free slot of its PE."""
        write = srcs.write_port()
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
        for n in range(self.groups * self.pes):
            own = used.word_select(n, self.sources)
            with m.If(write.en & (wanted.pe == n)):
                m.d.sync += own.bit_select(place, 1).eq(1)
            with m.If(self.finish.valid & (self.finish.payload == n)):
                m.d.sync += [own.eq(0), self.finished[n].eq(1)]
            with m.If(self.assign.valid & self.assign.ready & (given.pe == n)):
                m.d.sync += [own.eq(0), self.finished[n].eq(0), self.regs[n].eq(given.reg)]

    def _walk(self, m: Module, srcs: Memory, used: Signal, walks: Signal) -> tuple[_Source, Value]:
        """Read a slot in each cycle of `walks`; return the slot read before, and whether this is the last one."""
        read = srcs.read_port(domain="comb")
        slot, part = Signal(range(len(used))), Signal(range(self.pes * self.sources))  # part: slot of the group
        come, vid, held, opens, closes = Signal(), Signal(32), Signal(), Signal(), Signal()
        last_slot, last_part = slot == len(used) - 1, part == self.pes * self.sources - 1
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
        return _Source(come, vid, held, opens, closes), last_slot

    def _bound(self, m: Module, source: _Source, tile: data.View, bound: Signal, found: Signal) -> None:
        """Keep the largest request of the group in turn; after its last slot, the smallest of these is the bound."""
        largest, requests, closes_bound = Signal(32), Signal(), Signal()
        hit = source.held & (source.vid >= tile.first) & (source.vid < tile.end)
        fresh = source.opens | ~requests
        with m.If(source.valid):
            m.d.sync += requests.eq(hit | (requests & ~source.opens))
            with m.If(hit & (fresh | (source.vid > largest))):
                m.d.sync += largest.eq(source.vid)
        m.d.sync += closes_bound.eq(source.valid & source.closes)
        with m.If(closes_bound & requests):
            m.d.sync += found.eq(1)
            with m.If(~found | (largest < bound)):
                m.d.sync += bound.eq(largest)
        m.d.sync += Cover(closes_bound & requests & found & (largest > bound))
