"""Neighbour chooser: from a position to the edges of its samples (A1, A2)."""

from amaranth import Array, Elaboratable, Module, Signal, unsigned
from amaranth.hdl import Assert, Cover
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import Error
from contracts.sampling import HOPS_MAX, WORD
from hw.attributes.chooser import Chooser
from hw.attributes.row_finder import RowFinder
from hw.attributes.sampling_formats import ChosenEdge, ExpandedNode, SampleSettings
from hw.attributes.state_mixer import StateMixer
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import ReadBeat, ReadRequest
from hw.stream.queue import Queue

__all__ = ["AHEAD", "NeighbourChooser"]

#: Beats of offsets that may be under way.
_DEPTH = 32
#: Nodes whose rows and states are found ahead.
AHEAD = 8


class NeighbourChooser(wiring.Component):
    """Finds the row of a node and the state of its random numbers side by side, then chooses edges of the row.

    Nodes stay in order. A row that cannot be read counts as empty, and so does that of a ``bad`` node.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    most
        Largest fan-out.
    id_bits
        Width of the IDs of nodes in the graph.

    Attributes
    ----------
    settings : In
        `SampleSettings`, constant while nodes are under way.
    i : stream of `ExpandedNode`
    o : stream of `ChosenEdge`
        For each node its samples, or one that is ``empty``; their hop is one more than the node's.
    error : stream of `ErrorReport`, always ready
        From the row finder; the info is the node.
    request, beat
        A client's end of the read arbiter: offsets.
    """

    def __init__(self, address_width: int, data_width: int, most: int, id_bits: int) -> None:
        self._port = port = (address_width, data_width)
        self.most, self.id_bits = most, id_bits
        super().__init__(
            {
                "settings": In(SampleSettings(address_width, id_bits)),
                "i": In(stream.Signature(ExpandedNode(id_bits))),
                "o": Out(stream.Signature(ChosenEdge(address_width, id_bits))),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
                "request": Out(stream.Signature(ReadRequest(*port))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Fork a node to row finder and mixer, join their results in the chooser."""
        m = Module()
        settings = self.settings
        expanded = self.i.payload.shape()
        # For addresses, which may wrap, and for numbers of edges.
        start_bits = max(len(settings.edges), self.id_bits)
        row_layout = data.StructLayout({"start": start_bits, "root": self.id_bits, "hop": expanded["hop"].shape})
        m.submodules.finder = finder = RowFinder(*self._port, _DEPTH)
        m.submodules.mixer = mixer = StateMixer()
        m.submodules.looked_up = looked_up = Queue(expanded, AHEAD)
        m.submodules.states = states = Queue(unsigned(WORD), AHEAD)
        m.submodules.chooser = chooser = Chooser(self.most)
        m.submodules.rows = rows = Queue(row_layout, 2)
        connect(m, finder.request, flipped(self.request))
        connect(m, flipped(self.beat), finder.beat)

        node, goes = self.i.payload, Signal()
        m.d.comb += [
            *(finder.settings[name].eq(settings[name]) for name in ("offsets", "edge_count", "tiles")),
            goes.eq(self.i.valid & finder.i.ready & mixer.i.ready & looked_up.i.ready),
            self.i.ready.eq(goes),
            *(part.valid.eq(goes) for part in (finder.i, mixer.i, looked_up.i)),
            finder.i.payload.eq(node.node),
            looked_up.i.payload.eq(node),
            mixer.i.payload.seed.eq(settings.seed),
            mixer.i.payload.batch.eq(settings.batch),
            mixer.i.payload.root.eq(node.root),
            mixer.i.payload.hop.eq(node.hop + 1),
            mixer.i.payload.node.eq(node.node),
            # `states` has as many places as `looked_up`, so a state is never held up.
            states.i.valid.eq(mixer.o.valid),
            states.i.payload.eq(mixer.o.payload),
            mixer.o.ready.eq(1),
        ]

        parent, found, chooses = looked_up.o.payload, finder.o.payload, Signal()
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
            self.error.valid.eq(chooses & (found.error != Error.NONE) & ~parent.bad),
            self.error.payload.code.eq(found.error),
            self.error.payload.info.eq(parent.node),
        ]
        with m.If(~parent.bad):
            m.d.comb += chooser.i.payload.population.eq(found.length)

        choice, row, edge = chooser.o.payload, rows.o.payload, self.o.payload
        number = Signal(len(row.start))
        m.d.comb += [
            self.o.valid.eq(chooser.o.valid & rows.o.valid),
            chooser.o.ready.eq(self.o.valid & self.o.ready),
            rows.o.ready.eq(self.o.valid & self.o.ready & choice.last),
            number.eq(row.start + choice.number),
            edge.address.eq(settings.edges + number),
            edge.edge.eq(number),
            edge.root.eq(row.root),
            edge.hop.eq(row.hop + 1),
            edge.last.eq(choice.last),
            edge.empty.eq(choice.empty),
        ]
        m.d.sync += [
            Assert(states.i.ready | ~mixer.o.valid, "a state has no place"),
            Assert(looked_up.o.valid | ~finder.o.valid, "a row has come before its node"),
            Cover(looked_up.o.valid & ~looked_up.i.ready, "as many nodes are looked up ahead as may be"),
        ]
        return m
