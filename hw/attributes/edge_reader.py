"""Edge reader: the nodes at the other end of chosen edges, in order (A1)."""

from amaranth import Elaboratable, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.attributes.sampling_formats import ChosenEdge, NodeSample
from hw.memory.formats import ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser
from hw.stream.queue import Queue

__all__ = ["EdgeReader"]


class EdgeReader(wiring.Component):
    """Reads one word for each edge; an ``empty`` one passes without a read.

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
        """Fork an edge to the reader and to a queue, join the word with what waits there."""
        m = Module()
        edge, sample = self.i.payload, self.o.payload
        names = ("root", "hop", "last", "empty")
        m.submodules.reader = reader = RangeReader(*self._port, self.depth)
        m.submodules.words = words = WordSerialiser(self._port[1])
        m.submodules.waiting = waiting = Queue(
            data.StructLayout({name: edge.shape()[name].shape for name in names}), 2 * self.depth
        )
        connect(m, reader.o, words.i)
        connect(m, reader.request, flipped(self.request))
        connect(m, flipped(self.beat), reader.beat)
        reads, passes = Signal(), Signal()
        m.d.comb += [
            reads.eq(self.i.valid & waiting.i.ready & (reader.i.ready | edge.empty)),
            self.i.ready.eq(reads),
            reader.i.valid.eq(reads & ~edge.empty),
            reader.i.payload.address.eq(edge.address),
            reader.i.payload.words.eq(1),
            waiting.i.valid.eq(reads),
            *(waiting.i.payload[name].eq(edge[name]) for name in names),
            self.o.valid.eq(waiting.o.valid & (words.o.valid | sample.empty)),
            sample.node.eq(words.o.payload.data),
            sample.error.eq(words.o.payload.error),
            *(sample[name].eq(waiting.o.payload[name]) for name in names),
            passes.eq(self.o.valid & self.o.ready),
            waiting.o.ready.eq(passes),
            words.o.ready.eq(passes & ~sample.empty),
        ]
        return m
