"""Row source: the beats of attribute rows, in the order of their IDs, from the graph or from copies (A3, R1)."""

from amaranth.hdl import Cover, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.attributes.address_mapper import AddressMapper
from hw.attributes.formats import AttributeConfig, AttributeSettings
from hw.attributes.replica_table import ReplicaTable, replica_members
from hw.memory.formats import RangeBeat, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.stream.queue import Queue

__all__ = ["RowSource"]


class RowSource(wiring.Component):
    """Reads row after row; up to ``config.outstanding`` are under way.

    Copies have a read client of their own: they lie in the own memory, other rows where the graph is, and a client that
    changed between both from row to row would wait each time (`hw.memory.scratch_gate`).

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    settings : In
        `AttributeSettings`, constant while rows are under way.
    i : stream of IDs
    replica : stream of `ReplicaEntry`, always ready
        If there is a table of replicas; only while no row is under way.
    o : stream of `RangeBeat`
        All beats of each row.
    requests, beats
        Clients' ends of the read arbiter: rows of the graph, and copies if there is a table of replicas.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        port = (config.address_width, config.data_width)
        #: Read clients.
        self.clients = 2 if config.replicas else 1
        super().__init__(
            {
                "settings": In(AttributeSettings(config)),
                "i": In(stream.Signature(unsigned(config.id_bits))),
                **replica_members(config),
                "o": Out(stream.Signature(RangeBeat(config.data_width))),
                "requests": Out(stream.Signature(ReadRequest(*port))).array(self.clients),
                "beats": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)).array(self.clients),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Find where each row is, and let its client read it."""
        m = Module()
        config = self.config
        m.submodules.mapper = mapper = AddressMapper(
            config.address_width, config.row_words, config.id_bits, self.clients
        )
        readers = [RangeReader(config.address_width, config.data_width, config.depth) for _ in range(self.clients)]
        for n, (name, reader) in enumerate(zip(("reader", "copy_reader"), readers, strict=False)):
            m.submodules[name] = reader
            connect(m, reader.request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), reader.beat)
            m.d.comb += reader.i.payload.eq(mapper.o.payload)
        m.d.comb += [
            mapper.settings.bases[0].eq(self.settings.attributes),
            mapper.settings.distance.eq(self.settings.row_words),
            mapper.settings.words.eq(self.settings.row_words),
        ]
        if config.replicas:
            self._place(m, mapper)
            self._join(m, mapper, readers)
        else:
            (reader,) = readers
            m.d.comb += [
                mapper.i.valid.eq(self.i.valid),
                mapper.i.payload.row.eq(self.i.payload),
                self.i.ready.eq(mapper.i.ready),
                reader.i.valid.eq(mapper.o.valid),
                mapper.o.ready.eq(reader.i.ready),
            ]
            connect(m, reader.o, flipped(self.o))
        return m

    def _place(self, m: Module, mapper: AddressMapper) -> None:
        """Ask the table for each row."""
        m.submodules.replicas = replicas = ReplicaTable(self.config)
        connect(m, flipped(self.i), replicas.i)
        connect(m, flipped(self.replica), replicas.replica)
        m.d.comb += [
            replicas.use.eq(self.settings.replicated),
            mapper.settings.bases[1].eq(self.settings.replicas),
            mapper.i.valid.eq(replicas.o.valid),
            mapper.i.payload.row.eq(replicas.o.payload.row),
            mapper.i.payload.array.eq(replicas.o.payload.copied),
            replicas.o.ready.eq(mapper.i.ready),
        ]

    def _join(self, m: Module, mapper: AddressMapper, readers: list[RangeReader]) -> None:
        """Remember which client reads each row, and take the beats of the oldest one."""
        m.submodules.turns = turns = Queue(unsigned(1), self.config.outstanding)
        rows, copies = readers
        ready, turn = Signal(), turns.o.payload
        m.d.comb += [
            ready.eq(Mux(mapper.array, copies.i.ready, rows.i.ready)),
            rows.i.valid.eq(mapper.o.valid & turns.i.ready & ~mapper.array),
            copies.i.valid.eq(mapper.o.valid & turns.i.ready & mapper.array),
            turns.i.valid.eq(mapper.o.valid & ready),
            turns.i.payload.eq(mapper.array),
            mapper.o.ready.eq(turns.i.ready & ready),
            self.o.valid.eq(turns.o.valid & Mux(turn, copies.o.valid, rows.o.valid)),
            self.o.payload.eq(Mux(turn, copies.o.payload.as_value(), rows.o.payload.as_value())),
            rows.o.ready.eq(self.o.ready & turns.o.valid & ~turn),
            copies.o.ready.eq(self.o.ready & turns.o.valid & turn),
            turns.o.ready.eq(self.o.valid & self.o.ready & self.o.payload.last),
        ]
        m.d.sync += Cover(turns.o.valid & ~turn & ~rows.o.valid & copies.o.valid, "a copy waits for an earlier row")
