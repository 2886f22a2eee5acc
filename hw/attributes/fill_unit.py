"""Fill unit: requests missing rows in order, and writes them into their slots (A3, A7c)."""

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.hdl import Cover
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.attributes.flows import Missing
from hw.attributes.formats import AttributeConfig, AttributeSettings
from hw.attributes.replica_table import replica_members
from hw.attributes.row_source import RowSource
from hw.attributes.row_store import FillBeat
from hw.memory.formats import RangeBeat, ReadBeat, ReadRequest
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
    requests, beats
        Clients' ends of the read arbiter, those of `RowSource`.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        port = (config.address_width, config.data_width)
        self._source = RowSource(config)
        #: Read clients.
        self.clients = self._source.clients
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
                "requests": Out(stream.Signature(ReadRequest(*port))).array(self.clients),
                "beats": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)).array(self.clients),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Queue the requests; count the beats of the oldest."""
        m = Module()
        config = self.config
        m.submodules.source = source = self._source
        m.submodules.waiting = waiting = Queue(Missing(config), config.outstanding)
        m.submodules.done = done = Queue(self.landed_layout, 2)
        # A beat comes late out of its memory, and its `error` takes part in the handshake, so it is registered.
        m.submodules.beats = beats = Slice(RangeBeat(config.data_width))
        connect(m, source.o, beats.i)
        if config.replicas:
            connect(m, flipped(self.replica), source.replica)
        for n, (request, beat) in enumerate(zip(source.requests, source.beats, strict=True)):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)
        connect(m, done.o, flipped(self.landed))
        both = Signal()
        m.d.comb += [
            source.settings.eq(self.settings),
            both.eq(source.i.ready & waiting.i.ready),
            self.i.ready.eq(both),
            source.i.valid.eq(self.i.valid & both),
            source.i.payload.eq(self.i.payload.id),
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
