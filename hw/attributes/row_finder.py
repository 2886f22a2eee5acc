"""Row finder: position and number of a node's edges (A1)."""

from amaranth import Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import VID_BITS, Error
from hw.attributes.address_mapper import AddressMapper
from hw.memory.formats import WORD_BYTES, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser
from hw.stream.slice import Slice

__all__ = ["FoundRow", "RowFinder", "RowFinderSettings"]


#: Bits of the number of offsets that a row has.
TILE_BITS = 8


class RowFinderSettings(data.StructLayout):
    """``offsets``: word address of the tiled offsets. ``edge_count``: edges. ``tiles``: offsets of a row."""

    def __init__(self, address_width: int) -> None:
        word = unsigned(address_width - (WORD_BYTES.bit_length() - 1))
        super().__init__({"offsets": word, "edge_count": 32, "tiles": TILE_BITS})


#: Edges of a node: number of the first, their number, and a `contracts.Error`.
FoundRow = data.StructLayout({"start": unsigned(32), "length": unsigned(32), "error": unsigned(8)})


class RowFinder(wiring.Component):
    """Reads the offsets of nodes, several ahead; answers come in order.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    depth
        Most beats under way.

    Attributes
    ----------
    settings : In
        `RowFinderSettings`, constant while nodes are under way.
    i : stream of node IDs
    o : stream of `FoundRow`
        ``length`` is 0 if there is an error: ``MEMORY_READ``, ``OFFSET_ORDER`` or ``EDGE_RANGE``.
    request, beat
        A client's end of the read arbiter.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256, depth: int = 32) -> None:
        self._port = (address_width, data_width)
        self._depth = depth
        super().__init__(
            {
                "settings": In(RowFinderSettings(address_width)),
                "i": In(stream.Signature(unsigned(VID_BITS))),
                "o": Out(stream.Signature(FoundRow)),
                "request": Out(stream.Signature(ReadRequest(*self._port))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Keep the first word of a row's offsets until the last one comes."""
        m = Module()
        address_width, data_width = self._port
        m.submodules.mapper = mapper = AddressMapper(address_width, 1 << TILE_BITS)
        m.submodules.reader = reader = RangeReader(*self._port, self._depth)
        m.submodules.words = words = WordSerialiser(data_width)
        m.submodules.pair = pair = Slice(data.StructLayout({"start": 32, "end": 32, "error": 1}))
        m.submodules.out = out = Slice(FoundRow)
        connect(m, mapper.o, reader.i)
        connect(m, reader.request, flipped(self.request))
        connect(m, flipped(self.beat), reader.beat)
        connect(m, reader.o, words.i)
        connect(m, out.o, flipped(self.o))
        m.d.comb += [
            mapper.i.valid.eq(self.i.valid),
            mapper.i.payload.row.eq(self.i.payload),
            self.i.ready.eq(mapper.i.ready),
            mapper.settings.bases[0].eq(self.settings.offsets),
            mapper.settings.distance.eq(self.settings.tiles),
            mapper.settings.words.eq(self.settings.tiles + 1),
        ]
        word = words.o.payload
        begun, start, failed = Signal(), Signal(32), Signal()
        m.d.comb += [
            pair.i.valid.eq(words.o.valid & word.last),
            words.o.ready.eq(pair.i.ready),
            pair.i.payload.start.eq(start),
            pair.i.payload.end.eq(word.data),
            pair.i.payload.error.eq(failed | word.error),
        ]
        with m.If(words.o.valid & words.o.ready):
            m.d.sync += [begun.eq(~word.last), failed.eq(~word.last & (failed | word.error))]
            with m.If(~begun):
                m.d.sync += start.eq(word.data)

        found, result = pair.o.payload, out.i.payload
        m.d.comb += [
            out.i.valid.eq(pair.o.valid),
            pair.o.ready.eq(out.i.ready),
            result.start.eq(found.start),
        ]
        # A signal of its own: the length depends on it, and both are parts of one payload.
        error = Signal.like(result.error)
        with m.If(found.error):
            m.d.comb += error.eq(Error.MEMORY_READ)
        with m.Elif(found.end < found.start):
            m.d.comb += error.eq(Error.OFFSET_ORDER)
        with m.Elif(found.end > self.settings.edge_count):
            m.d.comb += error.eq(Error.EDGE_RANGE)
        m.d.comb += [
            result.error.eq(error),
            result.length.eq(Mux(error == Error.NONE, found.end - found.start, 0)),
        ]
        return m
