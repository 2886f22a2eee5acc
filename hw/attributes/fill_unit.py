"""Fill unit: requests missing rows in order, and writes them into their slots (A3, A7c)."""

from amaranth import Elaboratable, Module, Mux, Signal, unsigned
from amaranth.hdl import Cover
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.attributes.address_mapper import AddressMapper
from hw.attributes.flows import Missing
from hw.attributes.formats import AttributeConfig, AttributeSettings
from hw.attributes.replica_table import PlacedRow, ReplicaTable, replica_members
from hw.attributes.row_store import FillBeat
from hw.memory.formats import RangeBeat, ReadBeat, ReadRequest
from hw.memory.range_reader import RangeReader
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["FillUnit"]


class FillUnit(wiring.Component):
    """Fetches rows in order; up to ``config.outstanding`` are under way.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    settings : In
        `AttributeSettings`, constant while rows are under way.
    i : stream of `Missing`
    replica : stream of `ReplicaEntry`, always ready
        If there is a table of replicas.
    fill : stream of `FillBeat`
    hold, hold_row : In
        Row that must not be written now.
    landed : stream of `Missing` and ``error``
        A row has been written; with ``error``, a beat of it could not be read, and the row must not be used.
    request, beat
        A client's end of the read arbiter.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        port = (config.address_width, config.data_width)
        self.landed_layout = data.StructLayout({"missing": Missing(config), "error": 1})
        super().__init__(
            {
                "settings": In(AttributeSettings(config)),
                "i": In(stream.Signature(Missing(config))),
                **replica_members(config),
                "fill": Out(stream.Signature(FillBeat(config))),
                "hold": In(1),
                "hold_row": In(range(config.rows)),
                "landed": Out(stream.Signature(self.landed_layout)),
                "request": Out(stream.Signature(ReadRequest(*port))),
                "beat": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Queue the requests; count the beats of the oldest."""
        m = Module()
        config = self.config
        port = (config.address_width, config.data_width)
        arrays = 2 if config.replicas else 1
        m.submodules.mapper = mapper = AddressMapper(config.address_width, config.row_words, config.id_bits, arrays)
        m.submodules.reader = reader = RangeReader(*port, config.depth)
        m.submodules.waiting = waiting = Queue(Missing(config), config.outstanding)
        m.submodules.done = done = Queue(self.landed_layout, 2)
        connect(m, mapper.o, reader.i)
        # A beat comes late out of its memory, and its `error` takes part in the handshake, so it is registered.
        m.submodules.beats = beats = Slice(RangeBeat(config.data_width))
        connect(m, reader.o, beats.i)
        connect(m, reader.request, flipped(self.request))
        connect(m, flipped(self.beat), reader.beat)
        connect(m, done.o, flipped(self.landed))
        asked = stream.Signature(unsigned(config.id_bits)).create(path=("asked",))
        self._place(m, asked, mapper)
        both = Signal()
        m.d.comb += [
            mapper.settings.bases[0].eq(self.settings.attributes),
            mapper.settings.distance.eq(self.settings.row_words),
            mapper.settings.words.eq(self.settings.row_words),
            both.eq(asked.ready & waiting.i.ready),
            self.i.ready.eq(both),
            asked.valid.eq(self.i.valid & both),
            asked.payload.eq(self.i.payload.id),
            waiting.i.valid.eq(self.i.valid & both),
            waiting.i.payload.eq(self.i.payload),
        ]

        row, beat = waiting.o.payload, beats.o.payload
        number, failed = Signal(range(config.row_beats + 1)), Signal()
        error = Signal()
        free = Signal()  # the oldest row may be written, and can land
        m.d.comb += [
            free.eq(waiting.o.valid & done.i.ready & ~(self.hold & (self.hold_row == row.slot))),
            self.fill.valid.eq(beats.o.valid & free & ~beat.error),
            self.fill.payload.row.eq(row.slot),
            self.fill.payload.beat.eq(number),
            self.fill.payload.data.eq(beat.data),
            beats.o.ready.eq(free & (self.fill.ready | beat.error)),
            error.eq(failed | beat.error),
            done.i.valid.eq(beats.o.valid & beats.o.ready & beat.last),
            done.i.payload.missing.eq(row),
            done.i.payload.error.eq(error),
            waiting.o.ready.eq(done.i.valid),
        ]
        with m.If(beats.o.valid & beats.o.ready):
            m.d.sync += [number.eq(Mux(beat.last, 0, number + 1)), failed.eq(Mux(beat.last, 0, error))]
        m.d.sync += [
            Cover(waiting.o.valid & self.hold & (self.hold_row == row.slot), "the row that is to be filled is in use"),
            Cover(~waiting.i.ready, "as many rows are under way as may be"),
        ]
        return m

    def _place(self, m: Module, asked: stream.Interface, mapper: AddressMapper) -> None:
        """Have the row of each ID read, or its copy."""
        if not self.config.replicas:
            m.d.comb += [
                mapper.i.valid.eq(asked.valid),
                mapper.i.payload.row.eq(asked.payload),
                asked.ready.eq(mapper.i.ready),
            ]
            return
        m.submodules.replicas = replicas = ReplicaTable(self.config)
        placed: PlacedRow = replicas.o.payload
        connect(m, asked, replicas.i)
        connect(m, flipped(self.replica), replicas.replica)
        m.d.comb += [
            replicas.use.eq(self.settings.replicated),
            mapper.settings.bases[1].eq(self.settings.replicas),
            mapper.i.valid.eq(replicas.o.valid),
            mapper.i.payload.row.eq(placed.row),
            mapper.i.payload.array.eq(placed.copied),
            replicas.o.ready.eq(mapper.i.ready),
        ]
