"""Vertex dispatcher: issues separate vertices to PEs, which combine them for other units (COMBINE, I8)."""

from typing import Any

from amaranth.hdl import Cat, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from contracts import VID_BITS
from hw.lowest import next_one
from hw.stream.arbiter import Arbiter
from hw.stream.queue import Queue

__all__ = ["VertexDispatcher"]

#: Depth of each PE's queue: the vertex being requested, and one behind it.
_WAITING = 2
#: Bound of a PE's outstanding rows.
_UNDER_WAY = 128


class VertexDispatcher(wiring.Component):
    """Issues hubs, and all vertices of a range, to PEs in turn; hungry PEs have priority.

    Parameters
    ----------
    pes
        PEs, at least 1.
    units
        Hub units, at least 1.
    nodes
        Most vertices of a range.

    Attributes
    ----------
    start : In(1)
        Start of a new range.
    first : In(32)
    vertices : In(range(nodes + 1))
        The range, constant from then on.
    go : In(1)
        Enables the issue of the range.
    wanted : streams of unsigned(32)
        Hubs to combine, from each unit.
    hungry : In(1) for every PE
        The PE has little work.
    o : streams of unsigned(32)
        VIDs, for each PE.
    returned : In(1) for every PE
        Pulse: a row has left the PE.
    ended : Out(1)
        The whole range has been issued.
    busy : Out(1)
        Rows are in progress.
    """

    def __init__(self, pes: int, units: int, nodes: int = 4096) -> None:
        self.pes, self.units, self.nodes = pes, units, nodes
        vid = stream.Signature(VID_BITS)
        super().__init__(
            {
                "start": In(1),
                "first": In(32),
                "vertices": In(range(self.nodes + 1)),
                "go": In(1),
                "wanted": In(vid).array(units),
                "hungry": In(1).array(pes),
                "o": Out(vid).array(pes),
                "returned": In(1).array(pes),
                "ended": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Issue a vertex a cycle to a PE with room."""
        m = Module()
        number, left = Signal(VID_BITS), Signal(range(self.nodes + 1))
        m.submodules.offers = offers = Arbiter(VID_BITS, self.units + 1)
        for wanted, offer in zip(self.wanted, offers.i, strict=False):
            connect(m, flipped(wanted), offer)
        range_: Any = offers.i[self.units]
        m.d.comb += [
            range_.valid.eq((left != 0) & self.go),
            range_.payload.eq(number),
            self.ended.eq((left == 0) & ~self.start),
        ]
        with m.If(self.start):
            m.d.sync += [number.eq(self.first), left.eq(self.vertices)]
        with m.Elif(range_.valid & range_.ready):
            m.d.sync += [number.eq(number + 1), left.eq(left - 1)]

        queues = [Queue(VID_BITS, _WAITING) for _ in range(self.pes)]
        for n, (queue, port) in enumerate(zip(queues, self.o, strict=True)):
            m.submodules[f"queue_{n}"] = queue
            connect(m, queue.o, flipped(port))
        # PEs with room, hungry ones first; round robin.
        bits = max(1, ceil_log2(self.pes))
        room, best, hungry = (Signal(1 << bits, name=name) for name in ("room", "best", "hungry"))
        last, chosen = Signal(bits), Signal(bits)
        gives = Signal()
        m.d.comb += [
            room.eq(Cat(queue.i.ready for queue in queues)),
            hungry.eq(room & Cat(self.hungry)),
            best.eq(Mux(hungry.any(), hungry, room)),
            chosen.eq(next_one(best, last)),
            gives.eq(offers.o.valid & room.any()),
            offers.o.ready.eq(room.any()),
        ]
        for n, queue in enumerate(queues):
            m.d.comb += [
                queue.i.payload.eq(offers.o.payload.payload),
                queue.i.valid.eq(gives & (chosen == n)),
            ]
        with m.If(gives):
            m.d.sync += last.eq(chosen)

        under_way = Signal(range(_UNDER_WAY * self.pes))
        m.d.sync += under_way.eq(under_way + gives - sum(self.returned))
        m.d.comb += self.busy.eq(offers.o.valid | Cat(wanted.valid for wanted in self.wanted).any() | (under_way != 0))
        m.d.sync += [
            Cover(offers.o.valid & ~room.any(), "no PE has room"),
            Cover(gives & hungry.any() & (hungry != room), "a hungry PE comes first"),
            Cover(gives & ~hungry.any() & (room != (1 << self.pes) - 1), "a PE without room is left out"),
        ]
        return m
