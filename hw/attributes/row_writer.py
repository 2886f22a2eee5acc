"""Row writer: attribute rows to their positions in memory."""

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.attributes.formats import AttributeConfig
from hw.memory.formats import WriteRequest, beat_address_width
from hw.stream.slice import Slice

__all__ = ["RowWriter"]


class RowWriter(wiring.Component):
    """Writes each row to the position in its tag.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    base, beats : In
        Beat address of position 0, and beats of a row.
    i : stream of ``config.row``
    o : stream of `WriteRequest`
    written : Out(1)
        A row has been handed on.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        port = (config.address_width, config.data_width)
        super().__init__(
            {
                "base": In(beat_address_width(*port)),
                "beats": In(range(config.row_beats + 1)),
                "i": In(stream.Signature(config.row)),
                "o": Out(stream.Signature(WriteRequest(*port))),
                "written": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Multiply the tag in one cycle, add base and beat in the next."""
        m = Module()
        config = self.config
        m.submodules.out = out = Slice(data.StructLayout({"address": len(self.base), "data": config.data_width}))
        held, valid = Signal(config.row), Signal()
        start, beat = Signal.like(self.base), Signal(range(config.row_beats + 1))
        moves = Signal()
        m.d.comb += [
            moves.eq(out.i.ready | ~valid),
            self.i.ready.eq(moves),
            out.i.valid.eq(valid),
            out.i.payload.address.eq(self.base + start + beat),
            out.i.payload.data.eq(held.data),
            self.o.valid.eq(out.o.valid),
            self.o.payload.address.eq(out.o.payload.address),
            self.o.payload.data.eq(out.o.payload.data),
            self.o.payload.strobe.eq(~0),
            out.o.ready.eq(self.o.ready),
            self.written.eq(valid & out.i.ready & held.last),
        ]
        with m.If(moves):
            m.d.sync += [valid.eq(self.i.valid), held.eq(self.i.payload), start.eq(self.i.payload.tag * self.beats)]
        with m.If(valid & out.i.ready):
            m.d.sync += beat.eq(Mux(held.last, 0, beat + 1))
        return m
