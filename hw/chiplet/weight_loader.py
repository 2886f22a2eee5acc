"""Weight loader: writes the rows of a weight matrix into the PEs' weight memories."""

from amaranth import Array, Cat, Elaboratable, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import VALUE_BITS
from hw.graph.csr_reader import RowBeat
from hw.pe.formats import PEConfig

__all__ = ["WeightLoader"]


class WeightLoader(wiring.Component):
    """Cuts each row into chunks of L weights, one a cycle.

    Where a row takes at most half of the lanes, an even one and the odd one behind it share a row of the memory, the
    even one in its lower half; see `hw.pe.formats.pairs`. The even one is written alone first: it may be the last.

    Parameters
    ----------
    config : PEConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, of which the width of a row and its chunks are used.
    start : In(1)
        The next beat belongs to row 0.
    i : stream of `RowBeat`
        Rows of weights, padded to a whole number of beats.
    o : stream of ``config.weight_write``, always ready
    row_loaded : Out(1)
        High for one cycle with the last write of a row.
    """

    def __init__(self, config: PEConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(config.settings),
                "start": In(1),
                "i": In(stream.Signature(RowBeat(config.data_width))),
                "o": Out(stream.Signature(config.weight_write, always_ready=True)),
                "row_loaded": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Count chunks of a row and parts of a beat."""
        m = Module()
        config = self.config
        row = Signal(range(config.weight_rows))
        chunk, part = Signal(range(config.max_chunks)), Signal(range(max(2, config.parts)))
        full = Signal()  # all chunks of the row are written, the rest is padding
        write = Signal()
        width = config.lanes * VALUE_BITS
        parts = Array(self.i.payload.data[n * width : (n + 1) * width] for n in range(config.parts))
        row_of_weights = data.ArrayLayout(signed(VALUE_BITS), config.lanes)
        half = config.half * VALUE_BITS
        # Constant while rows come; the lower half of the row in front.
        paired, even = Signal(), Signal(half, reset_less=True)
        m.d.sync += paired.eq(self.settings.f_out <= config.lanes // 2)
        m.d.comb += [
            write.eq(self.i.valid & ~full),
            self.i.ready.eq(full | (part == config.parts - 1) | (chunk == self.settings.last_chunk)),
            self.o.valid.eq(write),
            self.o.payload.address.eq(Mux(paired, row >> 1, (row << self.settings.chunk_shift) | chunk)),
            data.View(row_of_weights, self.o.payload.data.as_value()).eq(parts[part]),
            self.row_loaded.eq(self.i.valid & self.i.ready & self.i.payload.last),
        ]
        with m.If(paired):
            m.d.comb += self.o.payload.data.as_value().eq(Cat(Mux(row[0], even, parts[0][:half]), parts[0][:half]))
        with m.If(write):
            m.d.sync += even.eq(parts[0][:half])
            m.d.sync += [chunk.eq(chunk + 1), part.eq(part + 1), full.eq(chunk == self.settings.last_chunk)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += part.eq(0)
        with m.If(self.row_loaded):
            m.d.sync += [row.eq(row + 1), chunk.eq(0), full.eq(0)]
        with m.If(self.start):
            m.d.sync += row.eq(0)
        return m
