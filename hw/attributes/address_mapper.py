"""Address mapper: address of a node's row in external memory (A1, A3)."""

from amaranth import Elaboratable, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import VID_BITS
from hw.memory.formats import WORD_BYTES, RangeRequest
from hw.stream.slice import Slice

__all__ = ["AddressMapper", "MappedRow", "MapperSettings"]


class MapperSettings(data.StructLayout):
    """Arrays of rows: word address of row 0 of each, distance of rows and words to read, in words."""

    def __init__(self, address_width: int, largest: int, arrays: int) -> None:
        base = unsigned(address_width - (WORD_BYTES.bit_length() - 1))
        bases = data.ArrayLayout(base, arrays)
        super().__init__({"bases": bases, "distance": range(largest + 1), "words": range(largest + 1)})


class MappedRow(data.StructLayout):
    """Number of a row, and of its array."""

    def __init__(self, id_bits: int, arrays: int) -> None:
        super().__init__({"row": unsigned(id_bits), "array": range(max(2, arrays))})


class AddressMapper(wiring.Component):
    """Turns each row's number into the range of its words; one in a cycle, three cycles later.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    largest
        Largest distance and number of words.
    id_bits
        Width of a row's number, the ID of a node or an edge.
    arrays
        Arrays that rows are in, 1 or 2.

    Attributes
    ----------
    settings : In
        `MapperSettings`, constant while rows are under way.
    i : stream of `MappedRow`
    o : stream of `RangeRequest`
    array : Out
        Of the row at `o`.
    """

    def __init__(
        self, address_width: int = 32, largest: int = (1 << 16) - 1, id_bits: int = VID_BITS, arrays: int = 1
    ) -> None:
        self.address_width, self.id_bits, self.arrays = address_width, id_bits, arrays
        super().__init__(
            {
                "settings": In(MapperSettings(address_width, largest, arrays)),
                "i": In(stream.Signature(MappedRow(id_bits, arrays))),
                "o": Out(stream.Signature(RangeRequest(address_width))),
                "array": Out(range(max(2, arrays))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Multiply between registers, then add."""
        m = Module()
        bases = self.settings.bases
        word = len(bases[0])
        m.submodules.out = out = Slice(data.StructLayout({"address": word, "array": self.array.shape()}))
        row, product, moves = Signal(self.i.payload.shape()), Signal(word), Signal()
        asked, multiplied, array = Signal(), Signal(), Signal.like(self.array)
        m.d.comb += [
            moves.eq(out.i.ready | ~multiplied),
            self.i.ready.eq(moves | ~asked),
            out.i.valid.eq(multiplied),
            out.i.payload.address.eq((bases[array] if self.arrays > 1 else bases[0]) + product),
            out.i.payload.array.eq(array),
            self.o.valid.eq(out.o.valid),
            self.o.payload.address.eq(out.o.payload.address),
            self.o.payload.words.eq(self.settings.words),
            self.array.eq(out.o.payload.array),
            out.o.ready.eq(self.o.ready),
        ]
        with m.If(self.i.ready):
            m.d.sync += [row.eq(self.i.payload), asked.eq(self.i.valid)]
        with m.If(moves):
            m.d.sync += [product.eq(row.row * self.settings.distance), array.eq(row.array), multiplied.eq(asked)]
        return m
