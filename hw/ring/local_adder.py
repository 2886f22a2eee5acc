"""Local adder: forms this chiplet's shares of the partial sums, hub by hub (R11)."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import PARTIAL_BITS, VALUE_BITS
from hw.chiplet.gather import GatherBeat
from hw.pe.formats import Coefficient
from hw.ring.formats import Flit

__all__ = ["LocalAdder"]


class LocalAdder(wiring.Component):
    """Adds the rows of each hub's sources in 32 bits, without rounding or saturation.

    Parameters
    ----------
    data_width
        Bits of a memory beat.
    width
        Bits of a flit.
    max_beats
        Beats of the longest row.

    Attributes
    ----------
    last_beat, last_flit : In
        Beats of a row of values that hold data, and flits of a row of sums, less one.
    i : stream of `GatherBeat`
        Rows of a hub: its own first, which is not added, then those of the sources.
    o : stream of `Flit`
        Sums of a hub; ``last`` ends it.
    """

    def __init__(self, data_width: int = 256, width: int = 64, max_beats: int = 4) -> None:
        self.data_width, self.width, self.max_beats = data_width, width, max_beats
        super().__init__(
            {
                "last_beat": In(range(max(2, max_beats))),
                "last_flit": In(12),
                "i": In(stream.Signature(GatherBeat(data_width))),
                "o": Out(stream.Signature(Flit(width))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Accumulate until the last row has arrived, then send the sums."""
        m = Module()
        elements = self.data_width // VALUE_BITS
        parts = elements * PARTIAL_BITS // self.width
        m.submodules.sums = sums = Memory(shape=elements * PARTIAL_BITS, depth=max(2, self.max_beats), init=[])
        read, write = sums.read_port(domain="comb"), sums.write_port()
        beat = Signal.like(self.last_beat)
        flit = Signal.like(self.last_flit)
        whole = Signal()
        given = self.i.payload
        m.d.comb += [
            read.addr.eq(Mux(whole, flit >> exact_log2(parts), beat)),
            write.addr.eq(beat),
            write.en.eq(self.i.valid & self.i.ready),
            self.i.ready.eq(~whole),
            self.o.valid.eq(whole),
            self.o.payload.data.eq(read.data.word_select(flit[: exact_log2(parts)], self.width)),
            self.o.payload.last.eq(flit == self.last_flit),
        ]
        adds = given.coefficient == Coefficient.NEIGHBOUR
        own = given.coefficient == Coefficient.SELF
        for n in range(elements):
            before = read.data.word_select(n, PARTIAL_BITS)
            value = given.data.word_select(n, VALUE_BITS).as_signed()
            m.d.comb += write.data.word_select(n, PARTIAL_BITS).eq(Mux(own, 0, before) + Mux(adds, value, 0))
        with m.If(write.en):
            m.d.sync += [beat.eq(Mux(beat == self.last_beat, 0, beat + 1)), whole.eq(given.last)]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += flit.eq(flit + 1)
            with m.If(self.o.payload.last):
                m.d.sync += [flit.eq(0), whole.eq(0)]
        return m
