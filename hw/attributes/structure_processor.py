"""Structure processor and positive sampler: neighbourhoods of roots, hop by hop (A1, A2)."""

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.hdl import Cover
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import Error
from hw.attributes.edge_reader import EdgeReader
from hw.attributes.neighbour_chooser import AHEAD, NeighbourChooser
from hw.attributes.sampling_formats import ExpandedNode, NodeSample, Sample, SampleSettings
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["StructureProcessor"]

#: Beats of the list of roots that may be under way.
_ROOTS_DEPTH = 16


class StructureProcessor(wiring.Component):
    """Reads roots, then for every position of every hop but the last its row, and chooses neighbours from it.

    Nodes wait in a queue until their turn; several rows are looked up ahead, and the choice from a row depends only on
    seed, batch, root, hop and node. A batch ends for any data: a row that cannot be read counts as empty, a VID outside
    the graph as a node without neighbours.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    most
        Largest fan-out.
    frontier
        Most nodes that wait: roots and samples of all hops but the last.
    depth
        Most beats of edges under way; every sample is a beat.
    id_bits
        Width of the IDs of nodes in the graph.

    Attributes
    ----------
    settings : In
        `SampleSettings`.
    start : In(1)
        Sample; only while not `busy`.
    busy : Out(1)
    o : stream of `Sample`
        In the order of their positions; see `golden.attributes.sampler`.
    error : stream of `ErrorReport`, always ready
    requests, beats
        Clients' ends of the read arbiter: roots, offsets, edges.
    """

    CLIENTS = 3

    def __init__(
        self,
        address_width: int = 32,
        data_width: int = 256,
        most: int = 16,
        frontier: int = 1024,
        depth: int = 64,
        id_bits: int = 20,
    ) -> None:
        self._port = (address_width, data_width)
        self.most, self.frontier, self.depth, self.id_bits = most, frontier, depth, id_bits
        super().__init__(
            {
                "settings": In(SampleSettings(address_width, id_bits)),
                "start": In(1),
                "busy": Out(1),
                "o": Out(stream.Signature(Sample)),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
                "requests": Out(stream.Signature(ReadRequest(*self._port))).array(self.CLIENTS),
                "beats": In(stream.Signature(ReadBeat(data_width), always_ready=True)).array(self.CLIENTS),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect queue, chooser and reader of edges in a ring."""
        m = Module()
        settings, id_bits = self.settings, self.id_bits
        m.submodules.roots = roots = RangeReader(*self._port, _ROOTS_DEPTH)
        m.submodules.root_words = root_words = WordSerialiser(self._port[1])
        m.submodules.frontier = frontier = Queue(ExpandedNode(id_bits), self.frontier)
        m.submodules.chooser = chooser = NeighbourChooser(*self._port, self.most, id_bits)
        m.submodules.edges = edges = EdgeReader(*self._port, self.depth, id_bits)
        m.submodules.chosen = chosen = Slice(edges.i.payload.shape())
        m.submodules.out = out = Slice(Sample)
        connect(m, roots.o, root_words.i)
        connect(m, frontier.o, chooser.i)
        connect(m, chooser.o, chosen.i)
        connect(m, chosen.o, edges.i)
        connect(m, out.o, flipped(self.o))
        clients = ((roots.request, roots.beat), (chooser.request, chooser.beat), (edges.request, edges.beat))
        for n, (request, beat) in enumerate(clients):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)

        # Roots, then samples, become positions and, but for the last hop, wait to be expanded.
        reading, expanding = Signal(), Signal()
        left = Signal(16, reset_less=True)
        root, current = root_words.o.payload, Signal(NodeSample(id_bits))
        there, deeper, bad, passes = Signal(), Signal(), Signal(), Signal()
        with m.If(reading):
            m.d.comb += [
                there.eq(root_words.o.valid & (left != 0)),
                # An empty list is one word marked `empty`.
                root_words.o.ready.eq(passes | (left == 0)),
                current.node.eq(root.data),
                current.error.eq(root.error),
                current.root.eq(root.data),
                current.last.eq(1),
            ]
        with m.Else():
            m.d.comb += [there.eq(edges.o.valid), edges.o.ready.eq(passes), current.eq(edges.o.payload)]
        node = frontier.i.payload
        m.d.comb += [
            bad.eq(current.error | (current.node >= settings.nodes)),
            deeper.eq((current.hop < settings.hops) & ~current.empty),
            passes.eq(there & out.i.ready & (frontier.i.ready | ~deeper)),
            out.i.valid.eq(passes),
            *(out.i.payload[name].eq(current[name]) for name in ("node", "hop", "last", "empty", "edge")),
            frontier.i.valid.eq(passes & deeper),
            # A VID outside the graph does not fit; nothing is looked up or drawn for it.
            node.node.eq(Mux(bad, 0, current.node)),
            node.root.eq(current.root),
            node.hop.eq(current.hop),
            node.bad.eq(bad),
        ]

        pending = Signal(range(2 * self.frontier + 1))  # nodes that wait or are being expanded
        expanded = passes & ~reading & current.last
        m.d.sync += pending.eq(pending + frontier.i.valid - expanded)
        m.d.comb += [
            self.busy.eq(reading | expanding),
            chooser.settings.eq(settings),
            roots.i.payload.address.eq(settings.roots),
            roots.i.payload.words.eq(settings.root_count),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += left.eq(settings.root_count)
                with m.If(self.start):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += [self.busy.eq(1), roots.i.valid.eq(1)]
                with m.If(roots.i.ready):
                    m.d.sync += reading.eq(1)
                    m.next = "ROOTS"
            with m.State("ROOTS"):
                with m.If((left == 0) & root_words.o.valid):
                    m.d.sync += reading.eq(0)
                    m.next = "IDLE"
                with m.Elif(passes):
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 1):
                        m.d.sync += [reading.eq(0), expanding.eq(1)]
                        m.next = "EXPAND"
            with m.State("EXPAND"):
                with m.If((pending == 0) & ~expanded):
                    m.d.sync += expanding.eq(0)
                    m.next = "IDLE"

        # Of several errors in one cycle, one is reported.
        error = self.error.payload
        with m.If(passes & ~current.empty & current.error):
            m.d.comb += [self.error.valid.eq(1), error.code.eq(Error.MEMORY_READ)]
        with m.Elif(passes & ~current.empty & bad):
            m.d.comb += [self.error.valid.eq(1), error.code.eq(Error.VID_RANGE), error.info.eq(current.node)]
        with m.Else():
            m.d.comb += [self.error.valid.eq(chooser.error.valid), error.eq(chooser.error.payload)]
        m.d.sync += Cover(expanding & (frontier.level > AHEAD), "nodes wait to be expanded")
        return m
