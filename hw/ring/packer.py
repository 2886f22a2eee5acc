"""Packer: puts a packet's header and elements one behind another into flits of a link (R3)."""

from amaranth.hdl import Cat, Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import PACKET_HEADER, PARTIAL_BITS, VALUE_BITS, PacketKind
from hw.contracts import struct
from hw.ring.formats import WORD, Flit, LinkFlit

__all__ = ["Packer"]


class Packer(wiring.Component):
    """Turns packets of units, a header and flits of elements, into packets of a link.

    On the link a packet is a row of words of 64 bits: the header, then as many as hold the elements that it names. So
    elements are always a word behind their place in a unit's flit, and the last word that would fill a flit of the
    link goes over into the next one.

    Parameters
    ----------
    width
        Bits of a unit's flit, a multiple of 64.
    link_width
        Bits of a flit of the link, a multiple of `width`.

    Attributes
    ----------
    i : stream of `Flit`
    o : stream of `LinkFlit`
        Depends on ``i`` of the same cycle. There is no gap in a packet if there is none in ``i`` and `link_width` is
        `width`.

    Raises
    ------
    ValueError
        If the widths do not fit.
    """

    def __init__(self, width: int = 64, link_width: int = 256) -> None:
        if width % WORD or link_width % width:
            raise ValueError(f"link_width must be a multiple of width = {width!r}, not {link_width!r}")
        self.width, self.link_width = width, link_width
        super().__init__({"i": In(stream.Signature(Flit(width))), "o": Out(stream.Signature(LinkFlit(link_width)))})

    def elaborate(self, platform: object) -> Elaboratable:
        """Keep what does not fill a flit of the link yet."""
        m = Module()
        words, parts = self.width // WORD, self.link_width // self.width
        given, flit = self.i.payload, self.o.payload
        if self.link_width == WORD:
            connect(m, flipped(self.i), flipped(self.o))
            return m
        # What is in front of the unit's flit: a word, and flits of elements. `at`: how many of these, 0 for a header.
        front, kept = Signal(WORD), [Signal(self.width, name=f"kept_{n}") for n in range(parts - 1)]
        at, over, moves = Signal(range(parts + 1)), Signal(), Signal()
        begins, fills = at == 0, at == parts
        used = self._used(m, begins, moves)
        spills = fills & ((used == words) | ~given.last)
        m.d.comb += [
            flit.data.eq(
                Cat(
                    Mux(begins, given.data[:WORD], front),
                    *(Mux(at == n, given.data, one) for n, one in enumerate(kept, 1)),
                    given.data,
                )
            ),
            flit.last.eq(given.last & ~spills),
            flit.words.eq(Mux(spills, parts * words - 1, Mux(begins, 0, (at - 1) * words + used))),
            self.o.valid.eq(self.i.valid & (fills | given.last)),
            self.i.ready.eq(self.o.ready | ~(fills | given.last)),
            moves.eq(self.i.valid & self.i.ready),
        ]
        with m.If(over):
            m.d.comb += [flit.data.eq(front), flit.words.eq(0), flit.last.eq(1), self.o.valid.eq(1), self.i.ready.eq(0)]
            m.d.sync += over.eq(~self.o.ready)
        with m.If(moves):
            m.d.sync += [
                at.eq(Mux(given.last, 0, Mux(fills, 1, at + 1))),
                over.eq(spills & given.last),
            ]
            with m.If(begins | fills):
                m.d.sync += front.eq(Mux(begins, given.data[:WORD], given.data[-WORD:]))
            for n, one in enumerate(kept, 1):
                with m.If(at == n):
                    m.d.sync += one.eq(given.data)
        m.d.sync += [
            Cover(over, "a last word goes over"),
            Cover(moves & fills & given.last & ~spills, "elements end in the flit"),
        ]
        return m

    def _used(self, m: Module, begins: Value, moves: Value) -> Signal:
        """Return the words of the unit's flit that hold elements, all of them unless it is the last one of rows."""
        words, used = self.width // WORD, Signal(range(self.width // WORD + 1))
        header = data.View(struct(PACKET_HEADER), self.i.payload.data[: PACKET_HEADER.bits])
        # Words of elements that have not come yet; 0: any number of them.
        left = Signal(range((1 << len(header.elements)) * PARTIAL_BITS // WORD + 1))
        m.d.comb += used.eq(Mux((left != 0) & (left < words), left, words))
        with m.If(moves):
            m.d.sync += left.eq(Mux(left > words, left - words, 0))
            with m.If(begins):
                m.d.sync += left.eq(0)
                for kind, bits in ((PacketKind.FEATURE, VALUE_BITS), (PacketKind.PARTIAL, PARTIAL_BITS)):
                    with m.If(header.kind == kind):
                        m.d.sync += left.eq((header.elements * bits + (WORD - 1)) >> exact_log2(WORD))
        return used
