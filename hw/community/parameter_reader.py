"""Parameter reader: reads the weights of a layer, and behind them its biases, for all PEs and hub units."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from hw.bits import choose
from hw.chiplet.weight_loader import WeightLoader
from hw.memory.formats import RangeRequest, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.pe.formats import PEConfig

__all__ = ["ParameterReader"]

#: Beats that may be asked for.
_DEPTH = 128
#: Bits of a bias.
_WORD_BITS = 32


class ParameterReader(wiring.Component):
    """Takes ranges in pairs: rows of weights, in whole beats, then biases, in words; or biases alone.

    Parameters
    ----------
    config : PEConfig
        Sizes of the PEs that combine.
    address_width
        Of the memory port, in bits.

    Attributes
    ----------
    settings : In
        ``config.settings``, of which the chunks are used.
    row_beats : In(8)
        Beats of a row of weights.
    skip : In(1)
        Pulse, before a range and while none is read: the next one is biases.
    i : stream of `RangeRequest`
    weight_write : stream of ``config.weight_write``, always ready
    bias_write : stream of ``config.bias_write``, always ready
    loaded : Out(1)
        Pulse: a row of weights or a bias has been written.
    request, beat
        A client's end of the read arbiter.
    """

    def __init__(self, config: PEConfig, address_width: int) -> None:
        self.config, self.address_width = config, address_width
        port = (address_width, config.data_width)
        super().__init__(
            {
                "settings": In(config.settings),
                "row_beats": In(8),
                "skip": In(1),
                "i": In(stream.Signature(RangeRequest(address_width))),
                "weight_write": Out(stream.Signature(config.weight_write, always_ready=True)),
                "bias_write": Out(stream.Signature(config.bias_write, always_ready=True)),
                "loaded": Out(1),
                "request": Out(stream.Signature(ReadRequest(*port))),
                "beat": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Send one range to the weight loader, the next one to the biases."""
        m = Module()
        config = self.config
        m.submodules.reader = reader = RangeReader(self.address_width, config.data_width, _DEPTH)
        m.submodules.loader = loader = WeightLoader(config)
        connect(m, flipped(self.i), reader.i)
        connect(m, reader.request, flipped(self.request))
        connect(m, flipped(self.beat), reader.beat)
        connect(m, loader.o, flipped(self.weight_write))

        biases, beat = Signal(), Signal(8)
        row_end = beat == self.row_beats - 1
        # Biases begin with a beat, whose words are written in turn.
        count = config.data_width // _WORD_BITS
        place_bits = exact_log2(count)
        words = [reader.o.payload.data.word_select(n, _WORD_BITS) for n in range(count)]
        bias = Signal(range(max(count, config.max_out)))
        place, writes, beat_end = bias[:place_bits], Signal(), Signal()
        m.d.comb += [
            loader.settings.eq(self.settings),
            loader.start.eq(biases),
            loader.i.payload.data.eq(reader.o.payload.data),
            loader.i.payload.last.eq(row_end),
            loader.i.valid.eq(reader.o.valid & ~biases),
            writes.eq(reader.o.valid & biases),
            beat_end.eq(~(reader.o.payload.mask >> 1).bit_select(place, 1)),
            reader.o.ready.eq(Mux(biases, beat_end, loader.i.ready)),
            self.bias_write.valid.eq(writes),
            self.bias_write.payload.address.eq(bias),
            self.bias_write.payload.data.eq(choose(words, place)),
            self.loaded.eq(loader.row_loaded | writes),
        ]
        with m.If(reader.o.valid & reader.o.ready & reader.o.payload.last):
            m.d.sync += biases.eq(~biases)
        with m.If(self.skip):
            m.d.sync += biases.eq(1)
        with m.If(loader.i.valid & loader.i.ready):
            m.d.sync += beat.eq(Cat(beat + 1) & ~row_end.replicate(len(beat)))
        with m.If(writes):
            m.d.sync += bias.eq(Mux(beat_end & reader.o.payload.last, 0, bias + 1))
        return m
