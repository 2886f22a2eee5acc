"""Word writer: writes a list of 32-bit words to memory, a beat at a time."""

from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from hw.memory.formats import WORD_BYTES, WriteRequest, beat_address_width
from hw.stream.slice import Slice

__all__ = ["WordWriter"]


class WordWriter(wiring.Component):
    """Packs words into beats; the last beat is written when the list ends.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.

    Attributes
    ----------
    start : In(1)
        The next word goes to `address`.
    address : In
        Beat address.
    i : stream of unsigned(32)
    ended : In(1)
        No further word follows.
    o : stream of `WriteRequest`
    done : Out(1)
        After `ended`: all beats are accepted.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256) -> None:
        self.data_width = data_width
        self._write = WriteRequest(address_width, data_width)
        super().__init__(
            {
                "start": In(1),
                "address": In(beat_address_width(address_width, data_width)),
                "i": In(stream.Signature(32)),
                "ended": In(1),
                "o": Out(stream.Signature(self._write)),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Fill a beat; write it when it is full or the list ends."""
        m = Module()
        m.submodules.out = out = Slice(self._write)
        connect(m, out.o, flipped(self.o))
        words = self.data_width // (8 * WORD_BYTES)
        held = Signal(self.data_width)
        count = Signal(range(words + 1))
        address = Signal.like(self.address)
        goes = (count == words) | (self.ended & (count != 0))
        m.d.comb += [
            out.i.valid.eq(goes),
            out.i.payload.address.eq(address),
            out.i.payload.data.eq(held),
            self.i.ready.eq(count != words),
            self.done.eq(self.ended & (count == 0) & ~out.o.valid),
        ]
        for word in range(words):
            lanes = slice(WORD_BYTES * word, WORD_BYTES * (word + 1))
            m.d.comb += out.i.payload.strobe[lanes].eq((count > word).replicate(WORD_BYTES))
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                held.word_select(count[: exact_log2(words)], 8 * WORD_BYTES).eq(self.i.payload),
                count.eq(count + 1),
            ]
        with m.Elif(out.i.valid & out.i.ready):
            m.d.sync += [count.eq(0), address.eq(address + 1)]
        with m.If(self.start):
            m.d.sync += [count.eq(0), address.eq(self.address)]
        return m
