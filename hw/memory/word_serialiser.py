"""Word serialiser: turns the beats of ranges into their words, one a cycle."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.bits import several
from hw.memory.formats import RangeBeat, Word, check_port
from hw.stream.slice import Slice

__all__ = ["WordSerialiser"]


class WordSerialiser(wiring.Component):
    """Sends the words in each beat's mask, lowest first; an empty range becomes one word marked ``empty``.

    Where words come in pairs, the first of each is sent, with the second beside it.

    Words outside the range cost no cycle. Registers show whether a beat ends with its next word, because that enables
    all bits of the beats behind it.

    Parameters
    ----------
    data_width
        Width of a beat, in bits.

    Attributes
    ----------
    i
        Beats of ranges.
    o
        Words of ranges.
    paired : In(1)
        Words come in pairs; ranges begin and end between pairs. Constant while there are beats.
    second : Out(32)
        Second word of the pair, valid with `o`.
    """

    def __init__(self, data_width: int = 256) -> None:
        check_port(32, data_width)
        self.data_width = data_width
        super().__init__(
            {
                "i": In(stream.Signature(RangeBeat(data_width))),
                "o": Out(stream.Signature(Word())),
                "paired": In(1),
                "second": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the block."""
        m = Module()
        layout = RangeBeat(self.data_width)
        m.submodules.slice = held = Slice(data.StructLayout({"beat": layout, "few": 1}))
        mask = Signal.like(self.i.payload.mask)  # without second words
        m.d.comb += [
            mask.eq(self.i.payload.mask & ~Mux(self.paired, int("10" * (len(mask) // 2), 2), 0)),
            held.i.valid.eq(self.i.valid),
            held.i.payload.beat.eq(self.i.payload),
            held.i.payload.beat.mask.eq(mask),
            held.i.payload.few.eq(~several(mask)),
            self.i.ready.eq(held.i.ready),
        ]

        beat, o = held.o.payload.beat, self.o
        done = Signal.like(beat.mask)  # words of the beat already sent
        left, rest = Signal.like(beat.mask), Signal.like(beat.mask)
        begun, few = Signal(), Signal()  # one has been sent; at most one of those behind it is left
        final = Signal()
        m.d.comb += [
            left.eq(beat.mask & ~done),
            rest.eq(left & (left - 1)),
            final.eq(Mux(begun, few, held.o.payload.few)),
            o.valid.eq(held.o.valid),
            o.payload.last.eq(beat.last & final),
            o.payload.error.eq(beat.error),
            o.payload.empty.eq(beat.mask == 0),
            held.o.ready.eq(o.ready & final),
        ]
        for word in reversed(range(len(beat.mask))):
            with m.If(left[word]):
                m.d.comb += o.payload.data.eq(beat.data.word_select(word, 32))
        for word in reversed(range(0, len(beat.mask), 2)):
            with m.If(left[word]):
                m.d.comb += self.second.eq(beat.data.word_select(word + 1, 32))
        with m.If(o.valid & o.ready):
            m.d.sync += [done.eq(~rest), begun.eq(1), few.eq(~several(rest))]
            with m.If(final):
                m.d.sync += [done.eq(0), begun.eq(0)]
        return m
