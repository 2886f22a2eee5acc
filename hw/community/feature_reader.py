"""Feature reader: brings the features of the vertices that PEs ask for, each once (I9)."""

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from golden.contracts import SCALE, Error
from hw.community.feeder import features_of
from hw.community.formats import CommunityConfig
from hw.community.node_table import Lookup
from hw.contracts import struct
from hw.graph.formats import ErrorReport
from hw.memory.formats import RangeRequest, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.stream.arbiter import Arbiter
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["FeatureReader", "FeatureSettings"]

#: Vertices under way at once.
_TAGS = 32
#: Vertices of one client under way, and beats that wait for it when another is asked for at most.
_OWED = 2
_LEVEL = 6


class FeatureSettings(data.StructLayout):
    """Where features are: ``features`` in words; ``sparse``; ``words`` of a dense row, and ``stride`` between rows.

    ``most``: words of a sparse row at most.
    """

    def __init__(self, address_width: int) -> None:
        super().__init__(
            {
                "features": RangeRequest(address_width)["address"].shape,
                "sparse": 1,
                "words": 17,
                "stride": 17,
                "most": 17,
            }
        )


class FeatureReader(wiring.Component):
    """Looks a vertex up, reads its range, marks what comes back for who asked.

    A client is served only while little is waiting for it, so that one that is slow holds up the others seldom; a
    client must take what it has asked for without waiting for others.

    Parameters
    ----------
    config : CommunityConfig
    clients
        Number of clients, at least 1.
    address_width
        Of the memory port, in bits.
    depth
        Beats asked for or waiting, see `hw.memory.fetcher.Fetcher`.

    Attributes
    ----------
    settings : In
        `FeatureSettings`, constant while vertices are asked for.
    i : streams of ``config.request``
    o : streams of `features_of`
        In the order of each client's requests.
    vertex, found
        See `hw.community.node_table.NodeTable`.
    error : stream of `ErrorReport`, always ready
        ``OFFSET_ORDER`` with the vertex, if its range is longer than a row can be; it is taken as empty.
    request, beat
        A client's end of the read arbiter.
    """

    def __init__(self, config: CommunityConfig, clients: int, address_width: int = 32, depth: int = 128) -> None:
        self.config, self.clients, self.address_width = config, clients, address_width
        self._reader = RangeReader(address_width, config.data_width, depth)
        super().__init__(
            {
                "settings": In(FeatureSettings(address_width)),
                "i": In(stream.Signature(config.request)).array(clients),
                "o": Out(stream.Signature(features_of(config))).array(clients),
                "vertex": Out(32),
                "found": In(Lookup),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
                "request": Out(stream.Signature(ReadRequest(address_width, config.data_width))),
                "beat": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Three cycles a vertex: its offset, the next one's, its range."""
        m = Module()
        config, settings = self.config, self.settings
        m.submodules.reader = reader = self._reader
        wiring.connect(m, reader.request, wiring.flipped(self.request))
        wiring.connect(m, wiring.flipped(self.beat), reader.beat)
        source_shape = range(max(2, self.clients))
        queues = [Queue(features_of(config), 16) for _ in range(self.clients)]
        owed = [Signal(range(_OWED + 1), name=f"owed_{n}") for n in range(self.clients)]
        asked, answered = Signal(self.clients), Signal(self.clients)

        # Who is served next: in turn, if little waits for him.
        if self.clients == 1:
            m.submodules.turn = turn = Slice(config.request)
            offers, wanted, wanted_source = [turn.i], turn.o.payload, 0
            word = turn.o
        else:
            m.submodules.turn = many = Arbiter(config.request, self.clients)
            offers = list(many.i)
            word = many.o
            wanted, wanted_source = word.payload.payload, word.payload.source
        for n, (port, offer) in enumerate(zip(self.i, offers, strict=True)):
            m.submodules[f"queue_{n}"] = queues[n]
            wiring.connect(m, queues[n].o, wiring.flipped(self.o[n]))
            room = (owed[n] != _OWED) & (queues[n].level <= _LEVEL)
            m.d.comb += [
                offer.payload.eq(port.payload),
                offer.valid.eq(port.valid & room),
                port.ready.eq(offer.ready & room),
                asked[n].eq(port.valid & port.ready),
            ]
            m.d.sync += owed[n].eq(owed[n] + asked[n] - answered[n])

        tag = data.StructLayout({"client": source_shape, "source": struct(SCALE), "destination": struct(SCALE)})
        m.submodules.tags = tags = Queue(tag, _TAGS)
        m.submodules.ranges = ranges = Queue(RangeRequest(self.address_width), 2)
        wiring.connect(m, ranges.o, reader.i)

        first, found = Signal(32), Signal(Lookup)
        words = Signal(33)
        m.d.comb += words.eq(self.found.offset - first)
        wrong = (self.found.offset < first) | (words > settings.most)
        m.d.comb += [
            tags.i.payload.client.eq(wanted_source),
            tags.i.payload.source.eq(found.source),
            tags.i.payload.destination.eq(found.destination),
            self.error.payload.code.eq(Error.OFFSET_ORDER),
            self.error.payload.info.eq(wanted.vid),
        ]
        row, range_ = Signal(32), Signal(RangeRequest(self.address_width))
        bad = Signal()
        m.d.comb += ranges.i.payload.eq(range_)
        with m.FSM():
            with m.State("LOOK"):
                m.d.comb += self.vertex.eq(wanted.vid)
                m.d.sync += row.eq(wanted.vid * settings.stride)
                with m.If(word.valid):
                    m.next = "FIRST"
            with m.State("FIRST"):
                m.d.comb += self.vertex.eq(wanted.vid + 1)
                m.d.sync += [first.eq(self.found.offset), found.eq(self.found)]
                m.next = "LENGTH"
            with m.State("LENGTH"):
                m.d.comb += self.vertex.eq(wanted.vid)
                m.d.sync += [
                    bad.eq(settings.sparse & wrong),
                    range_.address.eq(settings.features + Mux(settings.sparse, first, row)),
                    range_.words.eq(Mux(settings.sparse, Mux(wrong, 0, words), settings.words)),
                ]
                m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += [
                    ranges.i.valid.eq(tags.i.ready),
                    tags.i.valid.eq(ranges.i.ready),
                    word.ready.eq(ranges.i.ready & tags.i.ready),
                    self.error.valid.eq(bad & word.ready),
                ]
                with m.If(word.ready):
                    m.next = "LOOK"

        fresh = Signal(init=1)
        beat, owner = reader.o.payload, tags.o.payload
        ready = Array(queue.i.ready for queue in queues)[owner.client]
        moves = reader.o.valid & tags.o.valid & ready
        m.d.comb += [reader.o.ready.eq(tags.o.valid & ready), tags.o.ready.eq(moves & beat.last)]
        for n, queue in enumerate(queues):
            mine = owner.client == n
            task = queue.i.payload.beat
            m.d.comb += [
                queue.i.valid.eq(reader.o.valid & tags.o.valid & mine),
                task.data.eq(beat.data),
                task.mask.eq(Cat(bit.replicate(2) for bit in beat.mask)),
                task.first.eq(fresh),
                task.last.eq(beat.last),
                task.scale.eq(owner.source),
                queue.i.payload.destination.eq(owner.destination),
                answered[n].eq(moves & beat.last & mine),
            ]
        with m.If(moves):
            m.d.sync += fresh.eq(beat.last)
        m.d.sync += [
            Cover(reader.o.valid & tags.o.valid & ~ready, "a client is slow"),
            Cover(self.error.valid, "offsets out of order"),
        ]
        return m
