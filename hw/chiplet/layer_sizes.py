"""Layer sizes: what the executor derives from the sizes in a command, and which of them are too large."""

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for, exact_log2

from contracts import COMMANDS, ROW_BYTES, Opcode
from contracts.weights import GRANULE
from hw.contracts import struct
from hw.memory.formats import WORD_BYTES, row_beats_width
from hw.pe.formats import PEConfig

__all__ = ["WORDS_OF_GRANULE", "LayerSizes"]

#: Words of 32 bits in 32 bytes, to which rows are padded.
WORDS_OF_GRANULE = ROW_BYTES // WORD_BYTES
_ELEMENTS_OF_GRANULE = exact_log2(GRANULE)
_ROW_GRANULES = struct(COMMANDS[Opcode.COMBINE])["row_granules"].shape
#: Most rows of a weight matrix: a sparse entry names one with 16 bits.
_MAX_IN = 1 << 16
#: Offsets are counted in 32 bits, and there is one more than segments.
_MAX_SEGMENTS = (1 << 32) - 2


class LayerSizes(wiring.Component):
    """Derives sizes in three registered steps, each of which is a long carry chain: rows, a factor, its product.

    Parameters
    ----------
    config : PEConfig

    Attributes
    ----------
    opcode : In(8)
        Command under way.
    f_in, f_out, vertices, tiles, first_row : In
        Its operands; all outputs are valid three cycles after they become constant.
    row_granules : In
        Distance of the rows of a COMBINE, if they do not follow each other, else 0.
    width : Out
        ``f_out`` without the bits that only a refused one has.
    last_chunk, chunk_shift : Out
        Of an output row, as in the PEs' settings.
    granules, input_granules : Out
        Units of 32 bytes of a row of results or weights, and of a dense row of features.
    product : Out(48)
        Words of all weights (LOAD_WEIGHTS), beats in front of the first row (COMBINE), or segments (other opcodes).
    wrong_in, wrong_out : Out(1)
        ``f_in`` or ``f_out`` exceeds the configuration, or is 0.
    many : Out(1)
        There are more segments than offsets can count.
    """

    def __init__(self, config: PEConfig) -> None:
        self.config = config
        self._most_granules = 1 + ((config.max_out - 1) >> _ELEMENTS_OF_GRANULE)
        super().__init__(
            {
                "opcode": In(8),
                "f_in": In(32),
                "f_out": In(16),
                "vertices": In(32),
                "tiles": In(8),
                "first_row": In(32),
                "row_granules": In(_ROW_GRANULES),
                "width": Out(bits_for(config.max_out)),
                "last_chunk": Out(range(config.max_chunks)),
                "chunk_shift": Out(config.settings["chunk_shift"].shape),
                "granules": Out(range(self._most_granules + 1)),
                "input_granules": Out(bits_for(config.weight_rows)),
                "product": Out(48),
                "wrong_in": Out(1),
                "wrong_out": Out(1),
                "many": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Measure, choose a factor, multiply, compare."""
        m = Module()
        config, f_in, f_out = self.config, self.f_in, self.f_out
        beats_of_granule = ROW_BYTES * 8 // config.data_width
        last_chunk, granules = (
            Signal.like(self.last_chunk, reset_less=True),
            Signal.like(self.granules, reset_less=True),
        )
        factor, product = Signal(32, reset_less=True), Signal(48, reset_less=True)
        times = Signal(
            max(
                len(self.tiles),
                bits_for(self._most_granules * WORDS_OF_GRANULE),
                row_beats_width(config.data_width),
            )
        )
        distance = Mux(self.row_granules != 0, self.row_granules, granules)
        # A number of inputs that is not refused is at most `weight_rows`.
        inputs = f_in[: bits_for(config.weight_rows)]
        m.d.comb += [
            self.width.eq(f_out),
            self.last_chunk.eq(last_chunk),
            self.granules.eq(granules),
            self.input_granules.eq(((inputs - 1) >> _ELEMENTS_OF_GRANULE) + 1),
            self.product.eq(product),
        ]
        for bit in range(len(last_chunk)):
            with m.If(last_chunk[bit]):
                m.d.comb += self.chunk_shift.eq(bit + 1)
        m.d.sync += [
            last_chunk.eq((self.width - 1) >> exact_log2(config.lanes)),
            granules.eq((self.width + (1 << _ELEMENTS_OF_GRANULE) - 1) >> _ELEMENTS_OF_GRANULE),
            product.eq(factor * times),
            self.wrong_out.eq((f_out == 0) | (f_out > config.max_out)),
            self.wrong_in.eq((f_in == 0) | (f_in > (config.weight_rows >> self.chunk_shift)) | (f_in > _MAX_IN)),
            self.many.eq(Mux(self.opcode == Opcode.COMBINE, self.vertices, product) > _MAX_SEGMENTS),
        ]
        with m.Switch(self.opcode):
            with m.Case(Opcode.LOAD_WEIGHTS):
                m.d.sync += [factor.eq(f_in), times.eq(granules * WORDS_OF_GRANULE)]
            with m.Case(Opcode.COMBINE):
                m.d.sync += [factor.eq(self.first_row), times.eq(distance * beats_of_granule)]
            with m.Default():
                m.d.sync += [factor.eq(self.vertices), times.eq(self.tiles)]
        return m
