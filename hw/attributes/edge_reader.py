"""Edge reader: the nodes at the other end of chosen edges, in order (A1)."""

from amaranth.hdl import Array, Cat, Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from hw.attributes.sampling_formats import ChosenEdge, NodeSample
from hw.memory.fetcher import Fetcher
from hw.memory.formats import WORD_BYTES, ReadBeat, ReadRequest
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["EdgeReader"]

#: Beats that are kept, a power of two: a row of edges shorter than these is read once, in whatever order its edges are
#: chosen.
_KEPT = 4


class EdgeReader(wiring.Component):
    """Finds the word of each edge in a beat that it reads, or in one of the last beats that it has read.

    Edges of a node lie side by side, so most of a sample's edges need no beat of their own. Nothing is kept while no
    edge is under way: the memory may have changed then. An ``empty`` edge passes without a read.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    depth
        Beats that may be under way; every edge is a beat.
    id_bits
        Width of the IDs of nodes in the graph.

    Attributes
    ----------
    i : stream of `ChosenEdge`
    o : stream of `NodeSample`
    request, beat
        A client's end of the read arbiter.
    """

    def __init__(self, address_width: int, data_width: int, depth: int, id_bits: int) -> None:
        self._port = port = (address_width, data_width)
        self.depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(ChosenEdge(address_width, id_bits))),
                "o": Out(stream.Signature(NodeSample(id_bits))),
                "request": Out(stream.Signature(ReadRequest(*port))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Ask for a beat if it is not one of the last; at the end choose the word."""
        m = Module()
        # Finding a word takes a cycle, and what is done with it the next.
        m.submodules.out = out = Slice(self.o.payload.shape())
        connect(m, out.o, flipped(self.o))
        edge, sample = self.i.payload, out.i.payload
        bits = exact_log2(self._port[1] // (8 * WORD_BYTES))
        names = ("edge", "root", "hop", "last", "empty")
        m.submodules.fetcher = fetcher = Fetcher(*self._port, self.depth)
        m.submodules.waiting = waiting = Queue(
            data.StructLayout(
                {
                    **{name: edge.shape()[name].shape for name in names},
                    "word": bits,
                    "fresh": 1,
                    "place": range(_KEPT),
                }
            ),
            2 * self.depth,
        )
        connect(m, fetcher.request, flipped(self.request))
        connect(m, flipped(self.beat), fetcher.beat)
        # Addresses of the beats that are kept when all that is under way has been answered; the oldest goes next.
        address = edge.address[bits:]
        kept = [Signal.like(address, name=f"kept_{n}", reset_less=True) for n in range(_KEPT)]
        valid, oldest = Signal(_KEPT), Signal(range(_KEPT))
        same, reads, place = Signal(_KEPT), Signal(), Signal(range(_KEPT))
        m.d.comb += [
            same.eq(Cat(each == address for each in kept) & valid),
            place.eq(oldest),
            reads.eq(~edge.empty & ~same.any()),
            self.i.ready.eq(waiting.i.ready & (fetcher.i.ready | ~reads)),
            waiting.i.valid.eq(self.i.valid & self.i.ready),
            fetcher.i.valid.eq(self.i.valid & waiting.i.ready & reads),
            fetcher.i.payload.address.eq(address),
            waiting.i.payload.word.eq(edge.address[:bits]),
            waiting.i.payload.fresh.eq(reads),
            waiting.i.payload.place.eq(place),
            *(waiting.i.payload[name].eq(edge[name]) for name in names),
        ]
        for n in range(_KEPT):
            with m.If(same[n]):
                m.d.comb += place.eq(n)
        with m.If(self.i.valid & self.i.ready & reads):
            m.d.sync += [valid.bit_select(oldest, 1).eq(1), oldest.eq(oldest + 1)]
            for n, each in enumerate(kept):
                with m.If(oldest == n):
                    m.d.sync += each.eq(address)
        with m.Elif(~self.i.valid & ~waiting.o.valid & (waiting.level == 0)):
            m.d.sync += valid.eq(0)

        # A fresh beat takes its place when its first edge leaves.
        beats = [Signal(ReadBeat(self._port[1]), name=f"beat_{n}", reset_less=True) for n in range(_KEPT)]
        due, beat, passes = waiting.o.payload, Signal(ReadBeat(self._port[1])), Signal()
        m.d.comb += [
            beat.eq(Mux(due.fresh, fetcher.o.payload.as_value(), Array(each.as_value() for each in beats)[due.place])),
            out.i.valid.eq(waiting.o.valid & (fetcher.o.valid | ~due.fresh)),
            sample.node.eq(beat.data.word_select(due.word, 8 * WORD_BYTES)),
            sample.error.eq(beat.error),
            *(sample[name].eq(due[name]) for name in names),
            passes.eq(out.i.valid & out.i.ready),
            waiting.o.ready.eq(passes),
            fetcher.o.ready.eq(passes & due.fresh),
        ]
        with m.If(passes & due.fresh):
            for n, each in enumerate(beats):
                with m.If(due.place == n):
                    m.d.sync += each.eq(fetcher.o.payload)
        m.d.sync += Cover(self.i.valid & same.any() & ~edge.empty, "an edge needs no beat of its own")
        return m
