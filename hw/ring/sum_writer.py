"""Sum writer: writes the partial sums of hubs home, as two rows of values each (R19)."""

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import PARTIAL_BITS, VALUE_BITS
from hw.memory.formats import WriteRequest, beat_address_width
from hw.ring.formats import Flit
from hw.stream.slice import Slice

__all__ = ["SumWriter"]


class SumWriter(wiring.Component):
    """Splits each 32-bit sum into two 16-bit values and writes one row of low and one row of high halves.

    A sum is 65536 * high + low, where low has a sign. For each beat the low halves are written first, then the high
    ones, and only then is the last flit of the beat taken. ``i.ready`` depends on ``i.payload.last``.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    width
        Bits of a flit.
    max_beats
        Beats of the longest row of values.

    Attributes
    ----------
    start : In(1)
        The next flit is the first of a hub; `row` is latched.
    row : In
        Beat address of the low halves.
    stride : In
        Beats from a row to the next; the high halves lie one row further. Constant while a hub is written.
    i : stream of `Flit`
        Sums of one hub, without a header.
    o : stream of `WriteRequest`
    """

    def __init__(self, address_width: int = 32, data_width: int = 256, width: int = 64, max_beats: int = 4) -> None:
        self.data_width, self.width = data_width, width
        super().__init__(
            {
                "start": In(1),
                "row": In(unsigned(beat_address_width(address_width, data_width))),
                "stride": In(range(max_beats + 1)),
                "i": In(stream.Signature(Flit(width))),
                "o": Out(stream.Signature(WriteRequest(address_width, data_width))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Collect the halves of a beat's flits, then write the two beats."""
        m = Module()
        m.submodules.out = out = Slice(self.o.payload.shape())
        connect(m, out.o, flipped(self.o))
        half = self.width // 2
        parts = self.data_width // half
        part = Signal(range(parts))
        address = Signal.like(self.row)
        upper = Signal()  # the beat of low halves is written, that of high ones follows
        # Halves of the beat's earlier flits, and the same with those of this one.
        packed = [Signal(self.data_width - half, name=f"{name}_packed") for name in ("low", "high")]
        filled = [Signal(self.data_width, name=f"{name}_filled") for name in ("low", "high")]
        for side, values in enumerate(self._halves()):
            m.d.comb += filled[side].eq(Mux(part == 0, 0, packed[side]))
            m.d.comb += filled[side].word_select(part, half).eq(Cat(*values))

        beat_ends = (part == parts - 1) | self.i.payload.last
        m.d.comb += [
            out.i.valid.eq(self.i.valid & beat_ends),
            out.i.payload.address.eq(address + Mux(upper, self.stride, 0)),
            out.i.payload.data.eq(Mux(upper, filled[1], filled[0])),
            out.i.payload.strobe.eq(~0),
            self.i.ready.eq(~beat_ends | (upper & out.i.ready)),
        ]
        with m.If(out.i.valid & out.i.ready):
            m.d.sync += upper.eq(~upper)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                packed[0].eq(filled[0]),
                packed[1].eq(filled[1]),
                part.eq(Mux(beat_ends, 0, part + 1)),
                address.eq(address + beat_ends),
            ]
        with m.If(self.start):
            m.d.sync += [address.eq(self.row), part.eq(0), upper.eq(0)]
        return m

    def _halves(self) -> tuple[list[Value], list[Value]]:
        """Return the low and the high values of a flit's sums; a negative low adds 1 to its high value."""
        lows, highs = [], []
        for first in range(0, self.width, PARTIAL_BITS):
            total = self.i.payload.data[first : first + PARTIAL_BITS]
            lows.append(total[:VALUE_BITS])
            highs.append((total[VALUE_BITS:] + total[VALUE_BITS - 1])[:VALUE_BITS])
        return lows, highs
