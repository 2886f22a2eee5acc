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
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Multiply between registers, then add."""
        m = Module()
        bases = self.settings.bases
        word = len(bases[0])
        m.submodules.out = out = Slice(unsigned(word))
        identity, product = Signal(self.id_bits), Signal(word)
        asked, multiplied = Signal(), Signal()
        moves = Signal()
        base = bases[0]
        if self.arrays > 1:
            array, summed = Signal(range(self.arrays)), Signal(range(self.arrays))
            base = bases[summed]
            with m.If(self.i.ready):
                m.d.sync += array.eq(self.i.payload.array)
            with m.If(moves):
                m.d.sync += summed.eq(array)
        m.d.comb += [
            moves.eq(out.i.ready | ~multiplied),
            self.i.ready.eq(moves | ~asked),
            out.i.valid.eq(multiplied),
            out.i.payload.eq(base + product),
            self.o.valid.eq(out.o.valid),
            self.o.payload.address.eq(out.o.payload),
            self.o.payload.words.eq(self.settings.words),
            out.o.ready.eq(self.o.ready),
        ]
        with m.If(self.i.ready):
            m.d.sync += [identity.eq(self.i.payload.row), asked.eq(self.i.valid)]
        with m.If(moves):
            m.d.sync += [product.eq(identity * self.settings.distance), multiplied.eq(asked)]
        return m
