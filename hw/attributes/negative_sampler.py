"""Negative sampler: nodes that are not joined to a root (A2)."""

from amaranth import Elaboratable, Module, Signal
from amaranth.hdl import Cover
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import Error
from contracts.sampling import NEGATIVE_HOP
from hw.attributes.candidates import Candidates
from hw.attributes.chooser import Chooser
from hw.attributes.root_finder import RootFinder
from hw.attributes.sampling_formats import Sample, SampleSettings
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser
from hw.stream.slice import Slice

__all__ = ["NegativeSampler"]


class NegativeSampler(wiring.Component):
    """Chooses ranks among the nodes that are not joined to the root, and moves them past those that are.

    The root's row is read once, in order; a rank that a neighbour does not exceed moves up by one. So the choice is
    uniform without replacement, and its time depends on the length of the row alone. One root at a time.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    most
        Largest number of negatives of a root.
    depth
        Most beats of a row under way.
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
        """Choose ranks for a root, let its row pass, hand out the candidates."""
        m = Module()
        m.submodules.roots = roots = RootFinder(*self._port, self.id_bits)
        m.submodules.chooser = chooser = Chooser(self.most, max(self.id_bits, self.most.bit_length()))
        m.submodules.candidates = candidates = Candidates(self.most, self.id_bits)
        m.submodules.row = row = RangeReader(*self._port, self.depth)
        m.submodules.row_words = row_words = WordSerialiser(self._port[1])
        m.submodules.out = out = Slice(Sample)
        connect(m, row.o, row_words.i)
        connect(m, out.o, flipped(self.o))
        clients = (*zip(roots.requests, roots.beats, strict=True), (row.request, row.beat))
        for n, (request, beat) in enumerate(clients):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)

        index, passed_root = Signal(range(self.most + 1)), Signal()
        # Who passes is found in a cycle, and who moves up for it in the next.
        passes, joined = Signal(), Signal.like(candidates.joined)
        m.d.sync += [candidates.passes.eq(passes), candidates.joined.eq(joined)]
        found, word, choice, sample = roots.o.payload, row_words.o.payload, chooser.o.payload, out.i.payload
        m.d.comb += [
            roots.settings.eq(self.settings),
            roots.start.eq(self.start),
            self.busy.eq(roots.busy),
            self.error.valid.eq(roots.error.valid),
            self.error.payload.eq(roots.error.payload),
            row.i.payload.address.eq(found.start),
            row.i.payload.words.eq(found.length),
            chooser.i.payload.state.eq(roots.state.payload),
            chooser.i.payload.count.eq(self.settings.negatives),
            chooser.i.payload.population.eq(found.others),
            candidates.rank.eq(choice.number),
            joined.eq(found.root),
            candidates.index.eq(index),
            sample.node.eq(candidates.node),
            sample.hop.eq(NEGATIVE_HOP),
            sample.empty.eq(candidates.count == 0),
            sample.last.eq(index + 1 >= candidates.count),
        ]
        with m.FSM():
            with m.State("CHOOSE"):
                m.d.comb += [
                    candidates.clear.eq(1),
                    chooser.i.valid.eq(roots.o.valid & roots.state.valid),
                    roots.state.ready.eq(roots.o.valid & chooser.i.ready),
                ]
                m.d.sync += [index.eq(0), passed_root.eq(0)]
                with m.If(chooser.i.valid & chooser.i.ready):
                    m.next = "RANKS"
            with m.State("RANKS"):
                m.d.comb += [chooser.o.ready.eq(1), candidates.put.eq(chooser.o.valid & ~choice.empty)]
                with m.If(chooser.o.valid & choice.last):
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += row.i.valid.eq(1)
                with m.If(row.i.ready):
                    m.next = "PASS"
            with m.State("PASS"):
                # The root itself passes before the first neighbour above it, or at the end.
                above = word.empty | (word.data > found.root)
                with m.If(row_words.o.valid & above & ~passed_root):
                    m.d.comb += passes.eq(1)
                    m.d.sync += passed_root.eq(1)
                with m.Elif(row_words.o.valid):
                    m.d.comb += [
                        passes.eq(~word.empty),
                        joined.eq(word.data),
                        row_words.o.ready.eq(1),
                    ]
                    with m.If(~word.empty & word.error):
                        m.d.comb += [self.error.valid.eq(1), self.error.payload.code.eq(Error.MEMORY_READ)]
                    with m.If(word.last):
                        m.next = "END"
            with m.State("END"):
                m.d.comb += passes.eq(~passed_root)
                m.next = "SETTLE"
            # Candidates move up for the last one that passes.
            with m.State("SETTLE"):
                m.next = "HAND_OUT"
            with m.State("HAND_OUT"):
                m.d.comb += out.i.valid.eq(1)
                with m.If(out.i.ready):
                    m.d.sync += index.eq(index + 1)
                    with m.If(sample.last):
                        m.d.comb += roots.o.ready.eq(1)
                        m.next = "CHOOSE"
                m.d.sync += Cover(candidates.count == 0, "no node is not joined to the root")
        return m
