"""Unpacker: takes flits of a link apart into the header and the elements of a packet (R3)."""

from amaranth.hdl import Array, Cat, Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ring.formats import WORD, Flit, LinkFlit

__all__ = ["Unpacker"]


class Unpacker(wiring.Component):
    """The reverse of `hw.ring.packer.Packer`, for packets of any length, whatever their header says.

    Parameters
    ----------
    width, link_width
        As of the packer.

    Attributes
    ----------
    i : stream of `LinkFlit`
    o : stream of `Flit`
        Depends on ``i`` of the same cycle. What is behind the packet's last word is 0.
    """

    def __init__(self, width: int = 64, link_width: int = 256) -> None:
        self.width, self.link_width = width, link_width
        super().__init__({"i": In(stream.Signature(LinkFlit(link_width))), "o": Out(stream.Signature(Flit(width)))})

    def elaborate(self, platform: object) -> Elaboratable:
        """Offer the parts of a flit one after another, the last one with the first word of the next flit."""
        m = Module()
        words, parts = self.width // WORD, self.link_width // self.width
        flit = self.i.payload
        if self.link_width == WORD:
            connect(m, flipped(self.i), flipped(self.o))
            return m
        # `at`: the flit's first word, with what is kept of the one before it, or flits of elements behind that word.
        at, inside, kept = Signal(range(parts + 1)), Signal(), Signal(max(1, self.width - WORD))
        offered, spends = Signal(), Signal()
        held = [flit.data.word_select(n, WORD) for n in range(self.link_width // WORD)]
        first, rest = held[0], Cat(Mux(flit.words >= n, word, 0) for n, word in enumerate(held) if n)
        joined = Cat(kept, first) if words > 1 else first
        slots = [Mux(inside, joined, first), *(rest.word_select(n, self.width) for n in range(parts))]
        ends = flit.last & (flit.words <= at * words)
        m.d.comb += [
            self.o.valid.eq(self.i.valid),
            self.o.payload.data.eq(Array(slots)[at]),
            self.o.payload.last.eq(ends),
            offered.eq(self.i.valid & self.o.ready),
            # The last elements wait for the next flit, if there is one.
            spends.eq(ends | ((at == parts - 1) & ~flit.last)),
            self.i.ready.eq(self.o.ready & spends),
        ]
        with m.If(offered):
            m.d.sync += [at.eq(Mux(spends, 0, at + 1)), inside.eq(~ends & (inside | spends))]
            with m.If(spends & (words > 1)):
                m.d.sync += kept.eq(rest[(parts - 1) * self.width :])
        m.d.sync += [
            Cover(offered & ends & inside & (at == 0), "a last word has gone over"),
            Cover(offered & ends & (at == parts), "elements end in a flit"),
        ]
        return m
