"""Feature reader: fetches the features of the vertices that PEs request, each once (I9)."""

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import ROW_BYTES, SCALE, VID_BITS, Error
from hw.community.formats import CommunityConfig
from hw.community.node_table import Lookup
from hw.contracts import struct
from hw.graph.formats import ErrorReport
from hw.memory.formats import RangeRequest, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.stream.arbiter import merge
from hw.stream.queue import Queue

__all__ = ["FeatureReader", "FeatureSettings"]

_WORD_BITS = 32
#: The factor 1.
_ONE = struct(SCALE).const({"mantissa": 1 << 15, "exponent": 0})
#: Most outstanding beats of a client at a new request, for records and for separate vertices, and beats of room: the
#: difference holds requests made before their beats are counted, with rows of at most three beats.
_OWED, _ROOM = (24, 8), (32, 16)
#: Outstanding beats for records below which a client is hungry.
_FEW = 8
#: Words of the longest row: a sparse one with an entry for every feature.
_MOST = 1 << 16
#: Most look-ups in progress, and most ranges that wait for the memory port.
_STAGES, _RANGES = 2, 5
#: Vertices of a client that are served before the first of them is counted.
_UNCOUNTED = 3


class FeatureSettings(data.StructLayout):
    """Location of features: ``features`` in words; ``sparse``; ``words`` of a dense row, and ``stride`` between rows.

    ``most``: largest number of words of a sparse row. ``first``: VID of the first entry of the node table, and of the
    first row of features. ``combined``: there is a row for every VID from 0, already scaled by s_src. ``placed``: rows
    are dense, and the node table gives the granule of each, from `features`; every row begins at a granule.
    ``rooted``: each of the ``vertices`` from ``first`` on has an own row too; these begin at ``own``, in words, and
    that of the first vertex has the number ``first_own``.
    """

    def __init__(self, address_width: int) -> None:
        super().__init__(
            {
                "features": RangeRequest(address_width)["address"].shape,
                "sparse": 1,
                "words": 17,
                "stride": 17,
                "most": 17,
                "first": 32,
                "combined": 1,
                "placed": 1,
                "rooted": 1,
                "own": RangeRequest(address_width)["address"].shape,
                "first_own": 32,
                "vertices": 32,
            }
        )


class FeatureReader(wiring.Component):
    """Looks a vertex up, reads its range, and tags the beats with the client.

    A client is served only while few beats are outstanding for it, so a slow client rarely stalls the others, and only
    with rows longer than its room; a client must take its beats without waiting for other clients. Separate vertices
    overtake those of the client's records, since other units wait for them. In a rooted layer a vertex's own row is
    read first, then its combined row.

    Parameters
    ----------
    config : CommunityConfig
    clients
        Number of clients, at least 1.
    address_width
        Of the memory port, in bits.
    depth
        Beats requested or waiting, see `hw.memory.fetcher.Fetcher`; also the limit of vertices in flight.

    Attributes
    ----------
    settings : In
        `FeatureSettings`, constant while vertices are requested.
    i : streams of ``config.request``
    apart : streams of unsigned(32)
        Separate vertices, which a client combines for other units. ``i[n].ready`` depends on ``apart[n].valid``.
    o : streams of ``config.pe.task_beat``
        Features, in the order of each client's requests of either kind, in whole rows; the address is a ``config.tag``.
    hungry : Out(1) for every client
        Few beats are outstanding for it.
    vertex, found
        See `hw.community.node_table.NodeTable`.
    error : stream of `ErrorReport`, always ready
        ``OFFSET_ORDER`` with the vertex, if its range is longer than a row; it is read as empty.
    request, beat
        Port of the read arbiter.

    Raises
    ------
    ValueError
        If `clients` is below 1.
    """

    def __init__(self, config: CommunityConfig, clients: int, address_width: int = 32, depth: int = 128) -> None:
        if clients < 1:
            raise ValueError(f"clients must be at least 1, not {clients!r}")
        self.config, self.clients, self.address_width = config, clients, address_width
        self._reader = RangeReader(address_width, config.data_width, depth)
        super().__init__(
            {
                "settings": In(FeatureSettings(address_width)),
                "i": In(stream.Signature(config.request)).array(clients),
                "apart": In(stream.Signature(VID_BITS)).array(clients),
                "o": Out(stream.Signature(config.pe.task_beat)).array(clients),
                "hungry": Out(1).array(clients),
                "vertex": Out(32),
                "found": In(Lookup),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
                "request": Out(stream.Signature(ReadRequest(address_width, config.data_width))),
                "beat": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Look a vertex up in two cycles, for its offset and the next one's."""
        m = Module()
        config, settings = self.config, self.settings
        m.submodules.reader = reader = self._reader
        wiring.connect(m, reader.request, wiring.flipped(self.request))
        wiring.connect(m, wiring.flipped(self.beat), reader.beat)
        source_shape = range(max(2, self.clients))
        # Two queues for each client: for its records, and for separate vertices, which overtake.
        queues = [[Queue(config.pe.task_beat, room) for room in _ROOM] for _ in range(self.clients)]
        tag = data.StructLayout({"client": source_shape, "source": struct(SCALE), "tag": config.tag})
        m.submodules.tags = tags = Queue(tag, self._reader.depth)
        # Number of beats of the requested range: a row may begin and end within a beat.
        words_of_beat = exact_log2(config.data_width // _WORD_BITS)
        most_beats = (_MOST >> words_of_beat) + 1
        asks, beats = Signal(), Signal(range(most_beats + 1))

        # The next client, in turn, among those with few outstanding beats.
        wish = data.StructLayout({"vid": VID_BITS, "apart": 1})
        offers = [stream.Signature(wish).create(path=(f"wish_{n}",)) for n in range(self.clients)]
        word, wanted, wanted_source = merge(m, "turn", offers, wish)
        for n, (port, apart, offer) in enumerate(zip(self.i, self.apart, offers, strict=True)):
            room = []
            for kind, queue in enumerate(queues[n]):
                m.submodules[f"queue_{n}_{kind}"] = queue
                owed = Signal(range(_OWED[kind] + _UNCOUNTED * most_beats), name=f"owed_{n}_{kind}")
                asked = asks & (tags.i.payload.client == n) & (tags.i.payload.tag.apart == kind)
                m.d.sync += owed.eq(owed + Mux(asked, beats, 0) - (queue.o.valid & queue.o.ready))
                room.append(owed < _OWED[kind])
                if kind == 0:
                    m.d.comb += self.hungry[n].eq(owed < _FEW)
            overtakes = apart.valid & room[1]
            m.d.comb += [
                offer.payload.vid.eq(Mux(overtakes, apart.payload, port.payload.vid)),
                offer.payload.apart.eq(overtakes),
                offer.valid.eq(overtakes | (port.valid & room[0])),
                apart.ready.eq(offer.ready & room[1]),
                port.ready.eq(offer.ready & room[0] & ~overtakes),
            ]
            self._hand_out(m, n, *queues[n])

        m.submodules.ranges = ranges = Queue(RangeRequest(self.address_width), _RANGES)
        wiring.connect(m, ranges.o, reader.i)
        # A completed look-up always has room.
        goes = Signal()
        m.d.comb += goes.eq(word.valid & (ranges.level <= _RANGES - _STAGES) & (tags.level <= tags.depth - _STAGES))

        # The start of the features is read in the second cycle, the end in the next one.
        row, at, first, own = Signal(32), Signal(32), Signal(32), Signal(32)
        looks, root, through = Signal(), Signal(), Signal()  # in turn: the own row; it has been asked for
        m.d.comb += [
            own.eq(wanted.vid - settings.first),
            root.eq(settings.rooted & (own < settings.vertices) & ~through),
        ]
        with m.FSM():
            with m.State("LOOK"):
                m.d.comb += self.vertex.eq(own)
                number = Mux(root, own + settings.first_own, Mux(settings.combined, wanted.vid, own))
                m.d.sync += row.eq(number[:32] * settings.stride)
                with m.If(goes):
                    m.next = "NEXT"
            with m.State("NEXT"):
                m.d.comb += [self.vertex.eq(own + 1), looks.eq(1), word.ready.eq(~root)]
                m.d.sync += [first.eq(self.found.offset), at.eq(row), through.eq(root)]
                m.next = "LOOK"
        found, known = Signal(tag), Signal()
        m.d.sync += [
            known.eq(looks),
            found.tag.vid.eq(wanted.vid),
            found.tag.apart.eq(wanted.apart),
            found.tag.root.eq(root),
            found.client.eq(wanted_source),
            found.source.eq(Mux(settings.combined, _ONE, self.found.source)),
            found.tag.scale.eq(self.found.destination),
        ]

        # Dense rows begin at a granule, whatever the table holds.
        place = first << exact_log2(ROW_BYTES * 8 // _WORD_BITS)
        # If a row's end lies before its start, its length wraps to almost 2^33 words.
        words, wrong = Signal(33), Signal()
        m.d.comb += [words.eq(self.found.offset - first), wrong.eq(words > settings.most)]
        range_, bad = Signal(RangeRequest(self.address_width)), Signal()
        m.d.sync += [
            asks.eq(known),
            bad.eq(settings.sparse & wrong),
            range_.address.eq(
                Mux(found.tag.root, settings.own, settings.features)
                + Mux(settings.sparse, first, Mux(settings.placed & ~found.tag.root, place, at))
            ),
            range_.words.eq(Mux(settings.sparse, Mux(wrong, 0, words), settings.words)),
            tags.i.payload.eq(found),
            self.error.payload.info.eq(found.tag.vid),
        ]
        end = range_.address[:words_of_beat] + range_.words + (config.data_width // _WORD_BITS - 1)
        m.d.comb += [
            ranges.i.valid.eq(asks),
            ranges.i.payload.eq(range_),
            tags.i.valid.eq(asks),
            self.error.valid.eq(asks & bad),
            self.error.payload.code.eq(Error.OFFSET_ORDER),
            # An empty range is a beat too.
            beats.eq(Mux(range_.words == 0, 1, end >> words_of_beat)),
        ]

        fresh = Signal(init=1)
        beat, owner = reader.o.payload, tags.o.payload
        ready = Array(queue.i.ready for pair in queues for queue in pair)[Cat(owner.tag.apart, owner.client)]
        moves = reader.o.valid & tags.o.valid & ready
        m.d.comb += [reader.o.ready.eq(tags.o.valid & ready), tags.o.ready.eq(moves & beat.last)]
        for n, (queue, kind) in enumerate((queue, kind) for pair in queues for kind, queue in enumerate(pair)):
            mine = (owner.client == n >> 1) & (owner.tag.apart == kind)
            task = queue.i.payload
            m.d.comb += [
                queue.i.valid.eq(reader.o.valid & tags.o.valid & mine),
                task.data.eq(beat.data),
                task.mask.eq(Cat(bit.replicate(2) for bit in beat.mask)),
                task.first.eq(fresh),
                task.last.eq(beat.last),
                task.scale.eq(owner.source),
                # A combined row has the factor 1.
                task.scalar.eq(1),
                config.tag_of(task).eq(owner.tag),
            ]
        with m.If(moves):
            m.d.sync += fresh.eq(beat.last)
        m.d.sync += [
            Cover(reader.o.valid & tags.o.valid & ~ready, "a client is slow"),
            Cover(self.error.valid, "offsets out of order"),
        ]
        return m

    def _hand_out(self, m: Module, client: int, records: Queue, apart: Queue) -> None:
        """Offer rows of separate vertices before those of records, each as a whole."""
        port = self.o[client]
        chosen, kind, stays = (Signal(name=f"{name}_{client}") for name in ("chosen", "kind", "stays"))
        m.d.comb += [
            chosen.eq(Mux(stays, kind, apart.o.valid)),
            port.payload.eq(Mux(chosen, apart.o.payload.as_value(), records.o.payload.as_value())),
            port.valid.eq(Mux(chosen, apart.o.valid, records.o.valid)),
            records.o.ready.eq(port.ready & ~chosen),
            apart.o.ready.eq(port.ready & chosen),
        ]
        m.d.sync += kind.eq(chosen)
        with m.If(port.valid):
            m.d.sync += stays.eq(~(port.ready & port.payload.last))
        m.d.sync += Cover(port.valid & chosen & records.o.valid, "a vertex apart overtakes")
