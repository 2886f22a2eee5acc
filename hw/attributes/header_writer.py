"""Header writer: the line with which a SAMPLE or a FETCH says what it did (A9)."""

from amaranth import Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import BATCH, LINE_BYTES
from hw.contracts import struct
from hw.memory.formats import WriteRequest, line_address_width

__all__ = ["HeaderWriter"]


class HeaderWriter(wiring.Component):
    """Writes a `Batch`, beat by beat.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.

    Attributes
    ----------
    line : In
        Line address of the header.
    header : In
        `contracts.BATCH`.
    write : In(1)
        Write it; this, `line` and `header` are constant from here to `done`.
    done : Out(1)
        The last beat goes out in this cycle.
    o : stream of `WriteRequest`
    """

    def __init__(self, address_width: int = 32, data_width: int = 256) -> None:
        self._data_width = data_width
        super().__init__(
            {
                "line": In(line_address_width(address_width)),
                "header": In(struct(BATCH)),
                "write": In(1),
                "done": Out(1),
                "o": Out(stream.Signature(WriteRequest(address_width, data_width))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Count beats."""
        m = Module()
        beats = 8 * LINE_BYTES // self._data_width
        number = Signal(range(beats))
        m.d.comb += [
            self.o.valid.eq(self.write),
            self.o.payload.address.eq((self.line << exact_log2(beats)) + number),
            self.o.payload.data.eq(self.header.as_value().word_select(number, self._data_width)),
            self.o.payload.strobe.eq(~0),
            self.done.eq(self.o.valid & self.o.ready & (number == beats - 1)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += number.eq(number + 1)
        return m
