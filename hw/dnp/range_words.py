"""Range words: reads ranges of memory and hands on their words, and counts the ranges that are not yet answered."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.memory.formats import RangeRequest, ReadBeat, ReadRequest, Word
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser
from hw.stream.slice import Slice

__all__ = ["RangeWords"]

#: Bits of the number of ranges that have not been answered.
_OWED_BITS = 16


class RangeWords(wiring.Component):
    """A reader of ranges, a serialiser and a register behind it.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    depth
        Beats that may be asked for.

    Attributes
    ----------
    i : stream of `RangeRequest`
    o : stream of `Word`
    busy : Out(1)
        A range that was taken has not been handed on as a whole.
    request, beat
        Client's end of a read arbiter.
    """

    def __init__(self, address_width: int, data_width: int, depth: int) -> None:
        self.port, self.depth = (address_width, data_width), depth
        super().__init__(
            {
                "i": In(stream.Signature(RangeRequest(address_width))),
                "o": Out(stream.Signature(Word())),
                "busy": Out(1),
                "request": Out(stream.Signature(ReadRequest(address_width, data_width))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect the three; count."""
        m = Module()
        m.submodules.reader = reader = RangeReader(*self.port, self.depth)
        m.submodules.words = words = WordSerialiser(self.port[1])
        # Cuts the path from the choice of a word of a beat to what takes it.
        m.submodules.word = word = Slice(Word())
        connect(m, flipped(self.i), reader.i)
        connect(m, reader.request, flipped(self.request))
        connect(m, flipped(self.beat), reader.beat)
        connect(m, reader.o, words.i)
        connect(m, words.o, word.i)
        connect(m, word.o, flipped(self.o))
        owed = Signal(_OWED_BITS)
        ends = self.o.valid & self.o.ready & self.o.payload.last
        m.d.sync += owed.eq(owed + (self.i.valid & self.i.ready) - ends)
        m.d.comb += self.busy.eq(owed != 0)
        return m
