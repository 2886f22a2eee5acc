"""Structure processor and positive sampler: neighbourhoods of roots, hop by hop (A1, A2)."""

from typing import Any

from amaranth import Array, Elaboratable, Module, Signal, unsigned
from amaranth.hdl import Assert, Cover
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import VID_BITS, Error
from contracts.sampling import HOPS_MAX, WORD
from hw.attributes.chooser import COUNT_BITS, Chooser
from hw.attributes.row_finder import RowFinder
from hw.attributes.state_mixer import StateMixer
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import WORD_BYTES, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["Sample", "SampleSettings", "StructureProcessor"]

_HOP_BITS = 3
#: A position. ``node``: its VID. ``hop``: 0 for roots. ``last``: the last one sampled for its parent; a root is alone.
#: ``empty``: nothing could be sampled for a parent, and there is no position.
Sample = data.StructLayout({"node": unsigned(VID_BITS), "hop": unsigned(_HOP_BITS), "last": 1, "empty": 1})
#: Beats under way of readers whose words are few.
_DEPTH = 32
#: Nodes whose rows and states are looked up ahead.
_AHEAD = 8


class SampleSettings(data.StructLayout):
    """What to sample, and where the graph lies; constant while sampling.

    Addresses are word addresses. ``nodes``: VIDs from here on are wrong. ``fan_out``: of every hop. ``hops``: their
    number. ``negatives``: of a root.
    """

    def __init__(self, address_width: int, id_bits: int) -> None:
        word = unsigned(address_width - (WORD_BYTES.bit_length() - 1))
        super().__init__(
            {
                "nodes": range((1 << id_bits) + 1),
                "offsets": word,
                "edges": word,
                "edge_count": unsigned(32),
                "tiles": unsigned(8),
                "roots": word,
                "root_count": unsigned(16),
                "fan_out": data.ArrayLayout(unsigned(COUNT_BITS), HOPS_MAX),
                "hops": unsigned(_HOP_BITS),
                "negatives": unsigned(COUNT_BITS),
                "seed": unsigned(WORD),
                "batch": unsigned(WORD),
            }
        )


class StructureProcessor(wiring.Component):
    """Reads roots, then for every position of every hop but the last its row, and chooses neighbours from it.

    Nodes wait in a queue until their turn; several rows are looked up ahead, and what is chosen from a row depends only
    on seed, batch, root, hop and node. Every start ends, whatever the data are: a row that cannot be read counts as
    empty, a VID outside the graph as a node without neighbours.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    most
        Largest fan-out.
    frontier
        Nodes that may wait: roots and samples of all hops but the last.
    depth
        Beats of edges that may be under way; every sample is a beat.
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
        """Connect queue, row finder, mixer, chooser and reader of edges in a ring."""
        m = Module()
        settings = self.settings
        # A VID outside the graph does not fit; nothing is looked up or drawn for it.
        node_bits = self.id_bits
        waiting = data.StructLayout({"node": node_bits, "root": node_bits, "hop": _HOP_BITS, "bad": 1})
        from_row = data.StructLayout({"start": len(settings.edges), "root": node_bits, "hop": _HOP_BITS})
        from_choice = data.StructLayout({"root": node_bits, "hop": _HOP_BITS, "last": 1, "empty": 1})
        m.submodules.roots = roots = RangeReader(*self._port, 16)
        m.submodules.root_words = root_words = WordSerialiser(self._port[1])
        m.submodules.frontier = frontier = Queue(waiting, self.frontier)
        m.submodules.finder = finder = RowFinder(*self._port, _DEPTH)
        m.submodules.mixer = mixer = StateMixer()
        m.submodules.looked_up = looked_up = Queue(waiting, _AHEAD)
        m.submodules.states = states = Queue(unsigned(WORD), _AHEAD)
        m.submodules.chooser = chooser = Chooser(self.most)
        m.submodules.rows = rows = Queue(from_row, 2)
        m.submodules.edges = edges = RangeReader(*self._port, self.depth)
        m.submodules.edge_words = edge_words = WordSerialiser(self._port[1])
        m.submodules.choices = choices = Queue(from_choice, 2 * self.depth)
        m.submodules.out = out = Slice(Sample)
        connect(m, roots.o, root_words.i)
        connect(m, edges.o, edge_words.i)
        connect(m, out.o, flipped(self.o))
        readers: tuple[Any, ...] = (roots, finder, edges)
        for n, reader in enumerate(readers):
            connect(m, reader.request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), reader.beat)

        # Nodes from the queue: row and state are found side by side.
        node = frontier.o.payload
        parts = (finder.i, mixer.i, looked_up.i)
        goes = Signal()
        m.d.comb += [
            finder.settings.offsets.eq(settings.offsets),
            finder.settings.edge_count.eq(settings.edge_count),
            finder.settings.tiles.eq(settings.tiles),
            goes.eq(frontier.o.valid & finder.i.ready & mixer.i.ready & looked_up.i.ready),
            frontier.o.ready.eq(goes),
            finder.i.payload.eq(node.node),
            looked_up.i.payload.eq(node),
            mixer.i.payload.seed.eq(settings.seed),
            mixer.i.payload.batch.eq(settings.batch),
            mixer.i.payload.root.eq(node.root),
            mixer.i.payload.hop.eq(node.hop + 1),
            mixer.i.payload.node.eq(node.node),
            *(part.valid.eq(goes) for part in parts),
        ]

        # There is room for the states of all that are looked up, and a node is there before its row.
        m.d.comb += [states.i.valid.eq(mixer.o.valid), states.i.payload.eq(mixer.o.payload), mixer.o.ready.eq(1)]
        m.d.sync += [
            Assert(states.i.ready | ~mixer.o.valid, "a state has no place"),
            Assert(looked_up.o.valid | ~finder.o.valid, "a row has come before its node"),
        ]

        # Row and state meet: choose.
        parent, found = looked_up.o.payload, finder.o.payload
        chooses = Signal()
        m.d.comb += [
            chooses.eq(finder.o.valid & states.o.valid & chooser.i.ready & rows.i.ready),
            *(part.ready.eq(chooses) for part in (looked_up.o, finder.o, states.o)),
            chooser.i.valid.eq(chooses),
            chooser.i.payload.state.eq(states.o.payload),
            chooser.i.payload.count.eq(Array(settings.fan_out[n] for n in range(HOPS_MAX))[parent.hop]),
            rows.i.valid.eq(chooses),
            rows.i.payload.start.eq(found.start),
            rows.i.payload.root.eq(parent.root),
            rows.i.payload.hop.eq(parent.hop),
        ]
        with m.If(~parent.bad):
            m.d.comb += chooser.i.payload.population.eq(found.length)

        # What is chosen becomes a read of one edge.
        choice, row = chooser.o.payload, rows.o.payload
        reads = Signal()
        m.d.comb += [
            reads.eq(chooser.o.valid & rows.o.valid & choices.i.ready & (edges.i.ready | choice.empty)),
            chooser.o.ready.eq(reads),
            rows.o.ready.eq(reads & choice.last),
            edges.i.valid.eq(reads & ~choice.empty),
            edges.i.payload.address.eq(settings.edges + row.start + choice.number),
            edges.i.payload.words.eq(1),
            choices.i.valid.eq(reads),
            choices.i.payload.root.eq(row.root),
            choices.i.payload.hop.eq(row.hop + 1),
            choices.i.payload.last.eq(choice.last),
            choices.i.payload.empty.eq(choice.empty),
        ]

        # Roots, then samples, become positions and, but for the last hop, wait to be expanded.
        sampled, sample = choices.o.payload, out.i.payload
        reading, expanding = Signal(), Signal()
        left = Signal(16, reset_less=True)
        pending = Signal(range(2 * self.frontier + 1))  # waiting, or being expanded
        word = Signal.like(edge_words.o.payload)
        there, deeper, bad = Signal(), Signal(), Signal()
        expanded, passes = Signal(), Signal()
        m.d.comb += [
            self.busy.eq(reading | expanding),
            bad.eq(word.error | (word.data >= settings.nodes)),
            deeper.eq((sample.hop < settings.hops) & ~sample.empty),
            passes.eq(there & out.i.ready & (frontier.i.ready | ~deeper)),
            out.i.valid.eq(passes),
            sample.node.eq(word.data),
            frontier.i.valid.eq(passes & deeper),
            frontier.i.payload.hop.eq(sample.hop),
            frontier.i.payload.bad.eq(bad),
        ]
        with m.If(~bad):
            m.d.comb += frontier.i.payload.node.eq(word.data)
        with m.If(reading):
            m.d.comb += [
                word.eq(root_words.o.payload),
                there.eq(root_words.o.valid & (left != 0)),
                # An empty list is one word that says so.
                root_words.o.ready.eq(passes | (left == 0)),
                sample.last.eq(1),
                frontier.i.payload.root.eq(word.data),
            ]
        with m.Else():
            m.d.comb += [
                word.eq(edge_words.o.payload),
                there.eq(choices.o.valid & (edge_words.o.valid | sampled.empty)),
                choices.o.ready.eq(passes),
                edge_words.o.ready.eq(passes & ~sampled.empty),
                sample.hop.eq(sampled.hop),
                sample.last.eq(sampled.last),
                sample.empty.eq(sampled.empty),
                frontier.i.payload.root.eq(sampled.root),
                expanded.eq(passes & sampled.last),
            ]
        m.d.sync += pending.eq(pending + frontier.i.valid - expanded)
        m.d.comb += [
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

        # What is wrong with the data; one of them at a time is enough, the first one counts.
        error = self.error.payload
        with m.If(passes & ~sample.empty & word.error):
            m.d.comb += [self.error.valid.eq(1), error.code.eq(Error.MEMORY_READ), error.info.eq(0)]
        with m.Elif(passes & ~sample.empty & bad):
            m.d.comb += [self.error.valid.eq(1), error.code.eq(Error.VID_RANGE), error.info.eq(word.data)]
        with m.Elif(chooses & (found.error != Error.NONE) & ~parent.bad):
            m.d.comb += [self.error.valid.eq(1), error.code.eq(found.error), error.info.eq(parent.node)]
        m.d.sync += [
            Cover(expanding & (frontier.level > _AHEAD), "nodes wait to be expanded"),
            Cover(looked_up.o.valid & ~looked_up.i.ready, "as many nodes are looked up ahead as may be"),
        ]
        return m
