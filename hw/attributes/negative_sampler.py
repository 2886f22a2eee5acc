"""Negative sampler: nodes that are not joined to a root (A2)."""

from typing import Any

from amaranth import Array, Elaboratable, Module, Mux, Signal
from amaranth.hdl import Cover
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import VID_BITS, Error
from contracts.sampling import NEGATIVE_HOP
from hw.attributes.chooser import Chooser
from hw.attributes.row_finder import FoundRow, RowFinder
from hw.attributes.sampling_formats import Sample, SampleSettings
from hw.attributes.state_mixer import StateMixer
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser
from hw.stream.slice import Slice

__all__ = ["NegativeSampler"]


class NegativeSampler(wiring.Component):
    """Chooses ranks among the nodes that are not joined to the root, and counts past those that are.

    The root's row is read once, in order; a rank that a neighbour does not exceed moves up by one. So the choice is
    uniform without replacement, and takes as long as the row whatever the share of neighbours is. One root at a time.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    most
        Largest number of negatives of a root.
    depth
        Beats of a row that may be under way.
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
        ``hop`` is 7; ``last`` and ``empty`` by root.
    error : stream of `ErrorReport`, always ready
    requests, beats
        Clients' ends of the read arbiter: roots, offsets, rows.
    """

    CLIENTS = 3

    def __init__(
        self, address_width: int = 32, data_width: int = 256, most: int = 16, depth: int = 32, id_bits: int = 20
    ) -> None:
        self._port = (address_width, data_width)
        self.most, self.depth, self.id_bits = most, depth, id_bits
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
        """Walk through the roots; every candidate has a register that counts."""
        m = Module()
        settings = self.settings
        m.submodules.roots = roots = RangeReader(*self._port, 16)
        m.submodules.root_words = root_words = WordSerialiser(self._port[1])
        m.submodules.finder = finder = RowFinder(*self._port, 16)
        m.submodules.mixer = mixer = StateMixer()
        m.submodules.chooser = chooser = Chooser(self.most, max(self.id_bits, self.most.bit_length()))
        m.submodules.row = row = RangeReader(*self._port, self.depth)
        m.submodules.row_words = row_words = WordSerialiser(self._port[1])
        m.submodules.out = out = Slice(Sample)
        connect(m, roots.o, root_words.i)
        connect(m, row.o, row_words.i)
        connect(m, out.o, flipped(self.o))
        readers: tuple[Any, ...] = (roots, finder, row)
        for n, reader in enumerate(readers):
            connect(m, reader.request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), reader.beat)

        left, root = Signal(16, reset_less=True), Signal(VID_BITS, reset_less=True)
        bad = Signal(reset_less=True)
        found = Signal(FoundRow, reset_less=True)
        rest = Signal(self.id_bits, reset_less=True)  # nodes not joined to the root
        # A rank moves up at most once for every node that is joined to the root, so it stays the ID of a node.
        candidates = Array(Signal(self.id_bits, name=f"candidate_{n}", reset_less=True) for n in range(self.most))
        have, at = Signal(range(self.most + 1)), Signal(range(self.most + 1))
        passed_root, counting = Signal(), Signal()
        joined = Signal(VID_BITS)  # a node that is passed, in ascending order
        with m.If(counting):
            for candidate in candidates:
                m.d.sync += candidate.eq(candidate + (joined <= candidate))
        root_asked, mix_asked = Signal(), Signal()
        word, choice, sample = row_words.o.payload, chooser.o.payload, out.i.payload
        m.d.comb += [
            self.busy.eq(1),
            finder.settings.offsets.eq(settings.offsets),
            finder.settings.edge_count.eq(settings.edge_count),
            finder.settings.tiles.eq(settings.tiles),
            finder.i.payload.eq(Mux(bad, 0, root)),
            mixer.i.payload.seed.eq(settings.seed),
            mixer.i.payload.batch.eq(settings.batch),
            mixer.i.payload.root.eq(root),
            mixer.i.payload.hop.eq(NEGATIVE_HOP),
            mixer.i.payload.node.eq(root),
            roots.i.payload.address.eq(settings.roots),
            roots.i.payload.words.eq(settings.root_count),
            row.i.payload.address.eq(settings.edges + found.start),
            row.i.payload.words.eq(found.length),
            chooser.i.payload.state.eq(mixer.o.payload),
            chooser.i.payload.count.eq(settings.negatives),
            chooser.i.payload.population.eq(rest),
            sample.node.eq(candidates[at]),
        ]
        error = self.error.payload
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.busy.eq(0)
                m.d.sync += left.eq(settings.root_count)
                with m.If(self.start):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += roots.i.valid.eq(1)
                with m.If(roots.i.ready):
                    m.next = "ROOT"
            with m.State("ROOT"):
                m.d.comb += root_words.o.ready.eq(1)
                m.d.sync += [
                    root.eq(root_words.o.payload.data),
                    bad.eq(root_words.o.payload.error | (root_words.o.payload.data >= settings.nodes)),
                    root_asked.eq(0),
                    mix_asked.eq(0),
                    passed_root.eq(0),
                    have.eq(0),
                    at.eq(0),
                    left.eq(left - root_words.o.valid),
                ]
                with m.If(root_words.o.valid):
                    m.next = "LOOK_UP"
                    with m.If(root_words.o.payload.empty):
                        m.next = "IDLE"
            with m.State("LOOK_UP"):
                m.d.comb += [finder.i.valid.eq(~root_asked), mixer.i.valid.eq(~mix_asked)]
                m.d.sync += [root_asked.eq(root_asked | finder.i.ready), mix_asked.eq(mix_asked | mixer.i.ready)]
                m.d.comb += finder.o.ready.eq(root_asked & mix_asked)
                m.d.sync += [found.eq(finder.o.payload), rest.eq(settings.nodes - 1 - finder.o.payload.length)]
                with m.If(finder.o.valid & finder.o.ready):
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += [
                    self.error.valid.eq(bad | (found.error != Error.NONE)),
                    error.code.eq(Mux(bad, Error.VID_RANGE, found.error)),
                    error.info.eq(root),
                ]
                # More neighbours than nodes, or none that are known: nothing is chosen.
                with m.If(bad | (found.error != Error.NONE) | (found.length >= settings.nodes)):
                    m.d.sync += [rest.eq(0), found.length.eq(0)]
                m.next = "CHOOSE"
            with m.State("CHOOSE"):
                m.d.comb += [chooser.i.valid.eq(mixer.o.valid), mixer.o.ready.eq(chooser.i.ready)]
                with m.If(chooser.i.valid & chooser.i.ready):
                    m.next = "RANKS"
            with m.State("RANKS"):
                m.d.comb += chooser.o.ready.eq(1)
                with m.If(chooser.o.valid):
                    m.d.sync += [candidates[have].eq(choice.number), have.eq(Mux(choice.empty, have, have + 1))]
                    with m.If(choice.last):
                        m.next = "READ"
            with m.State("READ"):
                m.d.comb += row.i.valid.eq(1)
                with m.If(row.i.ready):
                    m.next = "PASS"
            with m.State("PASS"):
                # The root itself is passed before the first neighbour above it, or at the end.
                above = word.empty | (word.data > root)
                with m.If(row_words.o.valid & above & ~passed_root):
                    m.d.comb += [counting.eq(1), joined.eq(root)]
                    m.d.sync += passed_root.eq(1)
                with m.Elif(row_words.o.valid):
                    m.d.comb += [counting.eq(~word.empty), joined.eq(word.data), row_words.o.ready.eq(1)]
                    with m.If(~word.empty & word.error):
                        m.d.comb += [self.error.valid.eq(1), error.code.eq(Error.MEMORY_READ)]
                    with m.If(word.last):
                        m.next = "END"
            with m.State("END"):
                m.d.comb += [counting.eq(~passed_root), joined.eq(root)]
                m.next = "HAND_OUT"
            with m.State("HAND_OUT"):
                m.d.comb += [
                    out.i.valid.eq(1),
                    sample.hop.eq(NEGATIVE_HOP),
                    sample.empty.eq(have == 0),
                    sample.last.eq(at + 1 >= have),
                ]
                with m.If(out.i.ready):
                    m.d.sync += at.eq(at + 1)
                    with m.If(sample.last):
                        m.next = "ROOT"
                        with m.If(left == 0):
                            m.next = "IDLE"
                m.d.sync += Cover(have == 0, "no node is not joined to the root")
        return m
