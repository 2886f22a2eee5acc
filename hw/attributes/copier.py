"""Copier: lines from one place of the memory to another (COPY)."""

from amaranth import Elaboratable, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.memory.formats import (
    RangeRequest,
    ReadBeat,
    ReadRequest,
    WriteRequest,
    beat_address_width,
)
from hw.memory.range_reader import RangeReader

__all__ = ["Copier", "CopyRequest"]

#: Beats that may be under way.
_DEPTH = 64


class CopyRequest(data.StructLayout):
    """A copy: the words ``source`` to read, and the beat address ``target`` of the first beat to write."""

    def __init__(self, address_width: int, data_width: int) -> None:
        target = unsigned(beat_address_width(address_width, data_width))
        super().__init__({"source": RangeRequest(address_width), "target": target})


class Copier(wiring.Component):
    """Reads a range of whole beats and writes each to the next address; one copy at a time.

    A beat that could not be read is written with strobe 0: the memory keeps what it has there.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.

    Attributes
    ----------
    i : stream of `CopyRequest`
        The next copy only after `done`. A copy of 0 words writes nothing.
    o : stream of `WriteRequest`
    done : Out(1)
        The last beat goes out in this cycle.
    request, beat
        A client's end of the read arbiter.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256) -> None:
        self._port = port = (address_width, data_width)
        super().__init__(
            {
                "i": In(stream.Signature(CopyRequest(*port))),
                "o": Out(stream.Signature(WriteRequest(*port))),
                "done": Out(1),
                "request": Out(stream.Signature(ReadRequest(*port))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Count the target's address up with every beat."""
        m = Module()
        m.submodules.reader = reader = RangeReader(*self._port, _DEPTH)
        connect(m, reader.request, flipped(self.request))
        connect(m, flipped(self.beat), reader.beat)
        beat, target = reader.o.payload, Signal.like(self.i.payload.target, reset_less=True)
        filled = Signal()  # not the one beat of an empty range
        m.d.comb += [
            reader.i.valid.eq(self.i.valid),
            reader.i.payload.eq(self.i.payload.source),
            self.i.ready.eq(reader.i.ready),
            filled.eq(beat.mask.any()),
            self.o.valid.eq(reader.o.valid & filled),
            self.o.payload.address.eq(target),
            self.o.payload.data.eq(beat.data),
            self.o.payload.strobe.eq((~beat.error).replicate(len(self.o.payload.strobe))),
            reader.o.ready.eq(self.o.ready | ~filled),
            self.done.eq(reader.o.valid & reader.o.ready & beat.last),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += target.eq(self.i.payload.target)
        with m.Elif(reader.o.valid & reader.o.ready):
            m.d.sync += target.eq(target + 1)
        return m
