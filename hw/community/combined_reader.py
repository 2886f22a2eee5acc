"""Combined reader: fetches rows that need no combiner, since they are combined already (I9)."""

from amaranth.hdl import Cover, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.community.formats import CommunityConfig
from hw.memory.formats import RangeRequest, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.stream.queue import Queue

__all__ = ["CombinedReader", "CombinedRow"]


class CombinedRow(data.StructLayout):
    """A row to fetch: where it lies, its ``config.tag``, and whether its vertex is one of those that are summed."""

    def __init__(self, config: CommunityConfig, address_width: int) -> None:
        super().__init__({"range": RangeRequest(address_width), "tag": config.tag, "own": 1})


class CombinedReader(wiring.Component):
    """Reads rows in order, past all features: neither waits for the other, nor whoever takes them.

    Parameters
    ----------
    config : CommunityConfig
    address_width
        Of the memory port, in bits.
    depth
        Beats requested or waiting, see `hw.memory.fetcher.Fetcher`.

    Attributes
    ----------
    i : stream of `CombinedRow`
    o : stream of ``config.pe.row_beat``
        With a ``config.tag`` as address.
    go : In(1)
        Rows may leave: the biases of their sums are there.
    request, beat
        Port of the read arbiter.
    """

    def __init__(self, config: CommunityConfig, address_width: int = 32, depth: int = 128) -> None:
        self.config, self.address_width, self.depth = config, address_width, depth
        super().__init__(
            {
                "i": In(stream.Signature(CombinedRow(config, address_width))),
                "o": Out(stream.Signature(config.pe.row_beat)),
                "go": In(1),
                "request": Out(stream.Signature(ReadRequest(address_width, config.data_width))),
                "beat": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep the tags of the rows that are on their way; number their beats."""
        m = Module()
        config = self.config
        m.submodules.reader = reader = RangeReader(self.address_width, config.data_width, self.depth)
        m.submodules.tags = tags = Queue(config.tag, self.depth)
        wiring.connect(m, reader.request, wiring.flipped(self.request))
        wiring.connect(m, wiring.flipped(self.beat), reader.beat)
        beat, row, number = reader.o.payload, self.o.payload, Signal(range(max(2, config.row_beats)))
        comes, moves = Signal(), Signal()
        m.d.comb += [
            # A row is asked for, and its tag kept, in one cycle.
            reader.i.payload.eq(self.i.payload.range),
            tags.i.payload.eq(self.i.payload.tag),
            reader.i.valid.eq(self.i.valid & tags.i.ready),
            tags.i.valid.eq(self.i.valid & reader.i.ready),
            self.i.ready.eq(reader.i.ready & tags.i.ready),
            comes.eq(reader.o.valid & tags.o.valid & self.go),
            moves.eq(comes & self.o.ready),
            reader.o.ready.eq(tags.o.valid & self.go & self.o.ready),
            tags.o.ready.eq(moves & beat.last),
            self.o.valid.eq(comes),
            row.data.eq(beat.data),
            row.last.eq(beat.last),
            config.tag_of(row).eq(tags.o.payload),
            config.tag_of(row).beat.eq(number),
        ]
        with m.If(moves):
            m.d.sync += number.eq(Mux(beat.last, 0, number + 1))
        m.d.sync += [
            Cover(reader.o.valid & ~self.go, "a row waits for biases"),
            Cover(comes & ~self.o.ready, "a row waits for whoever takes it"),
        ]
        return m
