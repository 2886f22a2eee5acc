"""Filter generator: makes entries for the filter array from what the PEs want now (R12, R13)."""

from amaranth.hdl import Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
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
        """Keep the registers; search a group a cycle for the bound, then an entry a cycle."""
        m = Module()
        count = self.groups * self.pes
        srcs = [[Signal(32, name=f"src_{n}_{k}") for k in range(self.sources)] for n in range(count)]
        used = [Signal(self.sources, name=f"used_{n}") for n in range(count)]
        m.submodules.out = out = Slice(self.o.payload.shape())
        connect(m, out.o, flipped(self.o))
        idle = Signal()

        room = Signal(count)
        for n in range(count):
            m.d.comb += room[n].eq(~used[n].all())
            given = self.assign.valid & self.assign.ready & (self.assign.payload.pe == n)
            wanted = self.want.valid & self.want.ready & (self.want.payload.pe == n)
            slot = ~used[n] & (used[n] + 1)
            with m.If(wanted):
                m.d.sync += used[n].eq(used[n] | slot)
                for k in range(self.sources):
                    with m.If(slot[k]):
                        m.d.sync += srcs[n][k].eq(self.want.payload.vid)
            with m.If(self.finish.valid & (self.finish.payload == n)):
                m.d.sync += [used[n].eq(0), self.finished[n].eq(1)]
            with m.If(given):
                m.d.sync += [used[n].eq(0), self.finished[n].eq(0), self.regs[n].eq(self.assign.payload.reg)]
        m.d.comb += [
            self.assign.ready.eq(idle),
            self.want.ready.eq(idle & room.bit_select(self.want.payload.pe, 1)),
        ]

        tile = Signal.like(self.tile.payload)
        group = Signal(range(self.groups + 1))
        bound, found = Signal(32), Signal()  # of the groups so far
        least = Signal(33)  # entries below have been passed on

        def inside(vid: Value) -> Value:
            return (vid >= tile.first) & (vid < tile.end)

        # The largest request of the group in turn.
        largest, requests = Signal(32), Signal()
        with m.Switch(group):
            for g in range(self.groups):
                with m.Case(g):
                    best: Value | Signal = Value.cast(0)
                    any_: Value | Signal = Value.cast(0)
                    for n in range(g * self.pes, (g + 1) * self.pes):
                        for k in range(self.sources):
                            hit = used[n][k] & inside(srcs[n][k])
                            chain = Signal(32, name=f"max_{n}_{k}")
                            m.d.comb += chain.eq(Mux(hit & (srcs[n][k] > best), srcs[n][k], best))
                            best, any_ = chain, any_ | hit
                    m.d.comb += [largest.eq(best), requests.eq(any_)]

        # The smallest entry that has not been passed on.
        next_vid, exists = Signal(32), Signal()
        best, any_ = Value.cast((1 << 32) - 1), Value.cast(0)
        for n in range(count):
            for k in range(self.sources):
                hit = used[n][k] & inside(srcs[n][k]) & (srcs[n][k] >= least) & (srcs[n][k] <= bound)
                chain = Signal(32, name=f"min_{n}_{k}")
                m.d.comb += chain.eq(Mux(hit & (srcs[n][k] < best), srcs[n][k], best))
                best, any_ = chain, any_ | hit
        m.d.comb += [next_vid.eq(best), exists.eq(any_ & found), self.served.eq(bound)]

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.tile.ready.eq(1), idle.eq(~self.tile.valid)]
                m.d.sync += group.eq(0)
                with m.If(self.tile.valid):
                    m.d.sync += [tile.eq(self.tile.payload), found.eq(0), bound.eq(0), least.eq(0)]
                    m.next = "BOUND"
            with m.State("BOUND"):
                m.d.sync += group.eq(group + 1)
                with m.If(requests):
                    m.d.sync += [found.eq(1), bound.eq(Mux(found & (bound < largest), bound, largest))]
                with m.If(group == self.groups - 1):
                    m.next = "ENTRIES"
            with m.State("ENTRIES"):
                m.d.comb += [
                    out.i.valid.eq(1),
                    out.i.payload.vid.eq(Mux(exists, next_vid, 0)),
                    out.i.payload.last.eq(~exists),
                ]
                with m.If(out.i.ready):
                    m.d.sync += least.eq(next_vid + 1)
                    with m.If(~exists):
                        m.next = "IDLE"
        m.d.sync += Cover(found & requests & (largest > bound))
        return m
