"""Address mapper: address of a node's row in external memory (A1, A3)."""

from amaranth import Elaboratable, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import VID_BITS
from hw.memory.formats import WORD_BYTES, RangeRequest
from hw.stream.slice import Slice

__all__ = ["AddressMapper", "MapperSettings"]


class MapperSettings(data.StructLayout):
    """An array with one row a node: word address of row 0, distance of rows and words to read, in words."""

    def __init__(self, address_width: int, largest: int) -> None:
        base = unsigned(address_width - (WORD_BYTES.bit_length() - 1))
        super().__init__({"base": base, "distance": range(largest + 1), "words": range(largest + 1)})


class AddressMapper(wiring.Component):
    """Turns each ID into the range of words of its row; one in a cycle, three cycles later.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    largest
        Largest distance and number of words.
    id_bits
        Width of an ID, of nodes or of edges.

    Attributes
    ----------
    settings : In
        `MapperSettings`, constant while IDs are under way.
    i : stream of IDs
    o : stream of `RangeRequest`
    """

    def __init__(self, address_width: int = 32, largest: int = (1 << 16) - 1, id_bits: int = VID_BITS) -> None:
        self.address_width, self.id_bits = address_width, id_bits
        super().__init__(
            {
                "settings": In(MapperSettings(address_width, largest)),
                "i": In(stream.Signature(unsigned(id_bits))),
                "o": Out(stream.Signature(RangeRequest(address_width))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Multiply between registers, then add."""
        m = Module()
        word = len(self.settings.base)
        m.submodules.out = out = Slice(unsigned(word))
        identity, product = Signal(self.id_bits), Signal(word)
        asked, multiplied = Signal(), Signal()
        moves = Signal()
        m.d.comb += [
            moves.eq(out.i.ready | ~multiplied),
            self.i.ready.eq(moves | ~asked),
            out.i.valid.eq(multiplied),
            out.i.payload.eq(self.settings.base + product),
            self.o.valid.eq(out.o.valid),
            self.o.payload.address.eq(out.o.payload),
            self.o.payload.words.eq(self.settings.words),
            out.o.ready.eq(self.o.ready),
        ]
        with m.If(self.i.ready):
            m.d.sync += [identity.eq(self.i.payload), asked.eq(self.i.valid)]
        with m.If(moves):
            m.d.sync += [product.eq(identity * self.settings.distance), multiplied.eq(asked)]
        return m
