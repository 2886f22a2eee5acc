"""Row collector: packs words from a port of a processor into rows in memory (D6)."""

from amaranth.hdl import Cover, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts.dnp.config import WORD
from hw.dnp.port import WORD_STREAM
from hw.memory.formats import WriteRequest, beat_address_width

__all__ = ["CollectedBeat", "RowCollector"]


class CollectedBeat(data.StructLayout):
    """A beat of a row for the write port; ``last``: the row's last."""

    def __init__(self, address_width: int, data_width: int) -> None:
        super().__init__({"write": WriteRequest(address_width, data_width), "last": 1})


class RowCollector(wiring.Component):
    """Fills one beat at a time and offers it; the end of a row's last beat is 0.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.

    Attributes
    ----------
    start : In(1)
        Drop the current beat; the next word is the first of a row at ``place``.
    place : In
        Beat address.
    rows : In(32)
        Number of rows.
    elements : In(16)
        Of a row, at least 1.
    stride : In
        Distance of these rows, in beats.
    i : stream of signed(16)
        Words; none is taken behind the last row.
    o : stream of `CollectedBeat`
    left, some : Out
        Rows not yet written; whether there are any, from a register.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256) -> None:
        self.data_width = data_width
        beat = beat_address_width(address_width, data_width)
        super().__init__(
            {
                "start": In(1),
                "place": In(beat),
                "rows": In(32),
                "elements": In(WORD),
                "stride": In(beat),
                "i": In(WORD_STREAM),
                "o": Out(stream.Signature(CollectedBeat(address_width, data_width))),
                "left": Out(32),
                "some": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Count words of a row, beats of a row, rows."""
        m = Module()
        words = self.data_width // WORD
        beat = Signal(data.ArrayLayout(WORD, words), reset_less=True)
        place, full = Signal(range(words)), Signal()
        element, row, address = Signal(WORD), Signal.like(self.place), Signal.like(self.place)
        last, next_row = Signal(), Signal.like(self.place)
        # In registers, because the processor waits for them: a row is left, and the number of a row's last element.
        some, final = self.some, Signal(WORD)
        m.d.sync += final.eq(self.elements - 1)
        m.d.comb += [
            self.i.ready.eq(~full & some),
            next_row.eq(row + self.stride),
            self.o.valid.eq(full),
            self.o.payload.write.address.eq(address),
            self.o.payload.write.data.eq(beat),
            self.o.payload.write.strobe.eq(~0),
            self.o.payload.last.eq(last),
        ]
        with m.If(self.i.valid & self.i.ready):
            ends = element == final
            # The first word clears the others: a register's own reset does that, and no gates stand in front of it.
            with m.If(place == 0):
                m.d.sync += beat[0].eq(self.i.payload)
            for n in range(1, words):
                with m.If(place == 0):
                    m.d.sync += beat[n].eq(0)
                with m.Elif(place == n):
                    m.d.sync += beat[n].eq(self.i.payload)
            m.d.sync += [
                place.eq(place + 1),
                element.eq(Mux(ends, 0, element + 1)),
                full.eq(ends | (place == words - 1)),
                last.eq(ends),
            ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [full.eq(0), place.eq(0), address.eq(address + 1)]
            with m.If(last):
                m.d.sync += [row.eq(next_row), address.eq(next_row), self.left.eq(self.left - 1)]
                m.d.sync += some.eq(self.left != 1)
        with m.If(self.start):
            m.d.sync += [full.eq(0), place.eq(0), element.eq(0), self.left.eq(self.rows), some.eq(self.rows != 0)]
            m.d.sync += [row.eq(self.place), address.eq(self.place)]
        m.d.sync += Cover(self.i.valid & (self.left == 0), "a word behind the last row")
        return m
