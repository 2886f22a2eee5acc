"""Root finder: the roots of a batch, one after another, each with its row and its random state (A1, A2)."""

from amaranth import Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import VID_BITS, Error
from contracts.sampling import NEGATIVE_HOP, WORD
from hw.attributes.row_finder import FoundRow, RowFinder
from hw.attributes.sampling_formats import SampleSettings, word_address
from hw.attributes.state_mixer import StateMixer
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser

__all__ = ["FoundRoot", "RootFinder"]

#: Beats of roots, and of offsets, that may be under way.
_DEPTH = 16


class FoundRoot(data.StructLayout):
    """A root: its ``root`` VID, word address ``start`` and ``length`` of its row, and ``others``.

    ``others``: number of nodes that are not joined to it; 0, as ``length``, if that is not known.
    """

    def __init__(self, address_width: int, id_bits: int) -> None:
        super().__init__(
            {"root": VID_BITS, "start": word_address(address_width), "length": unsigned(32), "others": id_bits}
        )


class RootFinder(wiring.Component):
    """Reads the list of roots; finds the row of a root and mixes its state side by side. One root at a time.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    id_bits
        Width of the IDs of nodes in the graph.

    Attributes
    ----------
    settings : In
        `SampleSettings`, constant while `busy`.
    start : In(1)
        Begin; only while not `busy`.
    busy : Out(1)
        Roots are still to come.
    o : stream of `FoundRoot`
        The next root is read after this one has been taken.
    state : stream of unsigned(32)
        State for the random numbers of the root; taken before `o`.
    error : stream of `ErrorReport`, always ready
        In the cycle before `o` is valid; the info is the root.
    requests, beats
        Clients' ends of the read arbiter: roots, offsets.
    """

    CLIENTS = 2

    def __init__(self, address_width: int, data_width: int, id_bits: int) -> None:
        self._port = port = (address_width, data_width)
        self.id_bits = id_bits
        super().__init__(
            {
                "settings": In(SampleSettings(address_width, id_bits)),
                "start": In(1),
                "busy": Out(1),
                "o": Out(stream.Signature(FoundRoot(address_width, id_bits))),
                "state": Out(stream.Signature(unsigned(WORD))),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
                "requests": Out(stream.Signature(ReadRequest(*port))).array(self.CLIENTS),
                "beats": In(stream.Signature(ReadBeat(data_width), always_ready=True)).array(self.CLIENTS),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Read a root, look it up, check its row, hand it out."""
        m = Module()
        settings = self.settings
        m.submodules.roots = roots = RangeReader(*self._port, _DEPTH)
        m.submodules.words = words = WordSerialiser(self._port[1])
        m.submodules.finder = finder = RowFinder(*self._port, _DEPTH)
        m.submodules.mixer = mixer = StateMixer()
        connect(m, roots.o, words.i)
        connect(m, mixer.o, flipped(self.state))
        for n, (request, beat) in enumerate(((roots.request, roots.beat), (finder.request, finder.beat))):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)

        left, root, bad = Signal(16, reset_less=True), Signal(VID_BITS, reset_less=True), Signal(reset_less=True)
        found, others = Signal(FoundRow, reset_less=True), Signal(self.id_bits, reset_less=True)
        root_asked, mix_asked = Signal(), Signal()
        word, error = words.o.payload, self.error.payload
        m.d.comb += [
            self.busy.eq(1),
            roots.i.payload.address.eq(settings.roots),
            roots.i.payload.words.eq(settings.root_count),
            *(finder.settings[name].eq(settings[name]) for name in ("offsets", "edge_count", "tiles")),
            finder.i.payload.eq(Mux(bad, 0, root)),
            mixer.i.payload.seed.eq(settings.seed),
            mixer.i.payload.batch.eq(settings.batch),
            mixer.i.payload.root.eq(root),
            mixer.i.payload.hop.eq(NEGATIVE_HOP),
            mixer.i.payload.node.eq(root),
            error.code.eq(Mux(bad, Error.VID_RANGE, found.error)),
            error.info.eq(root),
            self.o.payload.root.eq(root),
            self.o.payload.start.eq(settings.edges + found.start),
            self.o.payload.length.eq(found.length),
            self.o.payload.others.eq(others),
        ]
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
                m.d.comb += words.o.ready.eq(1)
                m.d.sync += [
                    root.eq(word.data),
                    bad.eq(word.error | (word.data >= settings.nodes)),
                    root_asked.eq(0),
                    mix_asked.eq(0),
                    left.eq(left - words.o.valid),
                ]
                with m.If(words.o.valid):
                    m.next = "LOOK_UP"
                    with m.If(word.empty):
                        m.next = "IDLE"
            with m.State("LOOK_UP"):
                m.d.comb += [finder.i.valid.eq(~root_asked), mixer.i.valid.eq(~mix_asked)]
                m.d.sync += [root_asked.eq(root_asked | finder.i.ready), mix_asked.eq(mix_asked | mixer.i.ready)]
                m.d.comb += finder.o.ready.eq(root_asked & mix_asked)
                m.d.sync += [found.eq(finder.o.payload), others.eq(settings.nodes - 1 - finder.o.payload.length)]
                with m.If(finder.o.valid & finder.o.ready):
                    m.next = "CHECK"
            with m.State("CHECK"):
                wrong = bad | (found.error != Error.NONE)
                m.d.comb += self.error.valid.eq(wrong)
                # Nothing is chosen if there are more neighbours than nodes, or if they are not known.
                with m.If(wrong | (found.length >= settings.nodes)):
                    m.d.sync += [others.eq(0), found.length.eq(0)]
                m.next = "HAND_OUT"
            with m.State("HAND_OUT"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "ROOT"
                    with m.If(left == 0):
                        m.next = "IDLE"
        return m
