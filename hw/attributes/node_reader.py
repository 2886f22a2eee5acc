"""Node reader: the VIDs of a batch that was sampled before, as requests for their attributes (A3)."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.attributes.formats import AttributeConfig
from hw.attributes.target_address import Placed
from hw.memory.formats import RangeRequest, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser

__all__ = ["NodeRange", "NodeReader"]

#: Beats of VIDs outstanding or waiting: few would do, but a block RAM costs less than a distributed one.
_DEPTH = 64


class NodeRange(data.StructLayout):
    """``address`` of the first VID, in words, and their ``count``."""

    def __init__(self, config: AttributeConfig) -> None:
        word = RangeRequest(config.address_width)["address"].shape
        super().__init__({"address": word, "count": range((1 << config.tag_bits) + 1)})


class NodeReader(wiring.Component):
    """Numbers the VIDs of a list from 0 on; each is a position with the next slot in turn.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    i : stream of `NodeRange`
        Lists, one at a time: another one is taken when all of the last one's have left.
    o : stream of `Placed`
    request, beat
        Port of the read arbiter.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        port = (config.address_width, config.data_width)
        super().__init__(
            {
                "i": In(stream.Signature(NodeRange(config))),
                "o": Out(stream.Signature(Placed(config))),
                "request": Out(stream.Signature(ReadRequest(*port))),
                "beat": In(stream.Signature(ReadBeat(port[1]), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Read, take apart, count."""
        m = Module()
        config = self.config
        m.submodules.reader = reader = RangeReader(config.address_width, config.data_width, _DEPTH)
        m.submodules.words = words = WordSerialiser(config.data_width)
        connect(m, reader.request, flipped(self.request))
        connect(m, flipped(self.beat), reader.beat)
        connect(m, reader.o, words.i)
        number = Signal(range((1 << config.tag_bits) + 1), reset_less=True)
        slot = Signal(range(config.slots), reset_less=True)
        busy, passes = Signal(), Signal()
        word = words.o.payload
        m.d.comb += [
            reader.i.payload.address.eq(self.i.payload.address),
            reader.i.payload.words.eq(self.i.payload.count),
            reader.i.valid.eq(self.i.valid & ~busy),
            self.i.ready.eq(reader.i.ready & ~busy),
            # What could not be read is refused like any ID that the graph does not have.
            self.o.payload.id.eq(Mux(word.error, ~0, word.data)),
            self.o.payload.tag.eq(number),
            self.o.payload.slot.eq(slot),
            self.o.valid.eq(words.o.valid & ~word.empty),
            passes.eq(words.o.valid & words.o.ready),
            words.o.ready.eq(self.o.ready | word.empty),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [busy.eq(1), number.eq(0), slot.eq(0)]
        with m.Elif(passes):
            m.d.sync += [
                busy.eq(~word.last),
                number.eq(number + 1),
                slot.eq(Mux(slot == config.slots - 1, 0, slot + 1)),
            ]
        return m
