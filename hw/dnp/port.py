# mypy: disable-error-code="valid-type,call-arg,attr-defined,index,dict-item,misc"
"""One of the four ports of a DNP-II: an output buffer with its flag ORS, an input buffer with its flag IRS (D6)."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from contracts.dnp.config import WORD

__all__ = ["WORD_STREAM", "Port"]

#: Stream between two processors.
WORD_STREAM = stream.Signature(signed(WORD))


class Port(wiring.Component):
    """Port to one neighbour; the sender starts, the receiver answers.

    A word that arrives while the core waits for it goes straight through, so that words follow each other every clock;
    otherwise the input buffer keeps it. ``i.ready`` and ``o.valid`` come from flags alone.
    """

    #: Words from the neighbour.
    i: In(WORD_STREAM)
    #: Words to the neighbour.
    o: Out(WORD_STREAM)
    #: The processor is on-line; an off-line one accepts nothing.
    online: In(1)
    #: There is a word for the core.
    has_word: Out(1)
    #: That word.
    word: Out(signed(WORD))
    #: The core takes it; only while ``has_word``.
    take: In(1)
    #: The output buffer can be filled in this clock.
    has_room: Out(1)
    #: The core fills it with ``put_word``; only while ``has_room``.
    put: In(1)
    #: Word for the neighbour.
    put_word: In(signed(WORD))

    def elaborate(self, platform: Any) -> Module:
        """Two buffers and two flags."""
        m = Module()
        ors = Signal()
        irs = Signal()
        in_buffer = Signal(signed(WORD), reset_less=True)
        out_buffer = Signal(signed(WORD), reset_less=True)
        m.d.comb += [
            self.i.ready.eq(self.online & ~irs),
            self.has_word.eq(irs | self.i.valid),
            self.word.eq(Mux(irs, in_buffer, self.i.payload)),
            self.o.valid.eq(ors),
            self.o.payload.eq(out_buffer),
            self.has_room.eq(~ors | self.o.ready),
        ]
        # The flags mark valid words. While they are 0 the buffers follow their inputs, so that no late signal enables
        # them.
        with m.If(~irs):
            m.d.sync += in_buffer.eq(self.i.payload)
        with m.If(self.has_room):
            m.d.sync += out_buffer.eq(self.put_word)
        with m.If(irs):
            with m.If(self.take):
                m.d.sync += irs.eq(0)
        with m.Elif(self.i.valid & self.i.ready & ~self.take):
            m.d.sync += irs.eq(1)
        with m.If(self.put):
            m.d.sync += ors.eq(1)
        with m.Elif(self.o.ready):
            m.d.sync += ors.eq(0)
        return m
