"""Batch sampler: carries out SAMPLE and COPY commands, but for the attributes of what is sampled (A1, A2, A9)."""

from amaranth import Elaboratable, Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import COMPLETION, Error
from hw.attributes.batch_writer import BatchWriter
from hw.attributes.copier import Copier
from hw.attributes.formats import AccessSettings, AttributeCoreConfig
from hw.attributes.negative_sampler import NegativeSampler
from hw.attributes.request_counts import RequestTotals
from hw.attributes.sample_sequencer import SampleSequencer
from hw.attributes.sample_walk import SampleWalk
from hw.attributes.structure_processor import StructureProcessor
from hw.attributes.target_address import Placed
from hw.chiplet.unit import command_members
from hw.contracts import struct
from hw.memory.formats import WriteRequest
from hw.memory.unit_port import client_members

__all__ = ["BatchSampler"]


class BatchSampler(wiring.Component):
    """Samples a batch and writes it; has the attributes fetched by somebody else, unless a FETCH does so later.

    Parameters
    ----------
    config : AttributeCoreConfig
    background
        As of `SampleWalk`.

    Attributes
    ----------
    command, executed, base, writing, errors, requests, beats
        As of `AttributeCore`.
    writes : streams of `WriteRequest`
    placed : stream of `Placed`
        Positions whose attributes are fetched at once.
    access : Out
        `AccessSettings` for them, constant from the cycle before `counts` until `settled`.
    idle : In(1)
        Nothing is fetched.
    flush : Out(1)
        Attributes of earlier commands are forgotten.
    counts : Out(1)
        Requests for `placed` begin.
    positions : Out
        Their number so far.
    totals : In
        `RequestTotals` since `counts`.
    settled : In(1)
        As many requests as `positions` have ended, and their rows are written.
    busy, late, forget
        As of `SampleWalk`.
    """

    #: Streams in `writes`.
    WRITES = BatchWriter.WRITES
    #: Read clients: samplers, copier.
    CLIENTS = StructureProcessor.CLIENTS + NegativeSampler.CLIENTS + 1

    def __init__(self, config: AttributeCoreConfig, *, background: bool = True) -> None:
        self.config, self._background = config, background
        attribute = config.attribute
        self._port = port = (attribute.address_width, attribute.data_width)
        super().__init__(
            {
                **command_members(port[0]),
                **client_members(port, self.CLIENTS),
                "writes": Out(stream.Signature(WriteRequest(*port))).array(self.WRITES),
                "placed": Out(stream.Signature(Placed(attribute))),
                "access": Out(AccessSettings(attribute)),
                "idle": In(1),
                "flush": Out(1),
                "counts": Out(1),
                "positions": Out(range((1 << attribute.tag_bits) + 1)),
                "totals": In(RequestTotals(attribute)),
                "settled": In(1),
                "busy": Out(1),
                "late": Out(struct(COMPLETION)),
                "forget": In(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect command walk, samplers, batch writer and copier."""
        m = Module()
        config, port = self.config, self._port
        most, id_bits = config.most, config.attribute.id_bits
        m.submodules.walk = walk = SampleWalk(config, background=self._background)
        m.submodules.positive = positive = StructureProcessor(*port, most, config.frontier, id_bits=id_bits)
        m.submodules.negative = negative = NegativeSampler(*port, most, id_bits=id_bits)
        m.submodules.sequencer = sequencer = SampleSequencer()
        m.submodules.batch_writer = batch = BatchWriter(config)
        m.submodules.copier = copier = Copier(*port)

        # Commands. The memory port reports the line that it could not read, so samplers' reports of that are dropped.
        connect(m, flipped(self.command), walk.command)
        connect(m, walk.executed, flipped(self.executed))
        settings = walk.settings
        samplers = (positive.error, negative.error)
        for end, source in zip(walk.errors, (*samplers, *self.errors), strict=True):
            here = source.payload.code != Error.MEMORY_READ if source in samplers else 1
            m.d.comb += [end.valid.eq(source.valid & here), end.payload.eq(source.payload)]
        m.d.comb += [
            walk.base.eq(self.base),
            walk.idle.eq(self.idle),
            walk.batch_done.eq(batch.done),
            walk.copy_done.eq(copier.done),
            walk.writing.eq(self.writing),
            walk.forget.eq(self.forget),
            self.busy.eq(walk.busy),
            self.late.eq(walk.late),
        ]

        # Samples become positions, and requests for their attributes.
        connect(m, positive.o, sequencer.positive)
        connect(m, negative.o, sequencer.negative)
        connect(m, sequencer.o, batch.samples)
        m.d.comb += [
            positive.settings.eq(settings.sample),
            negative.settings.eq(settings.sample),
            positive.start.eq(sequencer.start_positive),
            negative.start.eq(sequencer.start_negative),
            sequencer.busy_positive.eq(positive.busy),
            sequencer.busy_negative.eq(negative.busy),
            sequencer.negatives.eq(settings.sample.negatives != 0),
            sequencer.start.eq(batch.sample),
            batch.settings.eq(settings.batch),
            batch.start.eq(walk.batch),
            batch.sampling.eq(sequencer.busy),
            batch.totals.eq(Mux(settings.later, 0, self.totals)),
            batch.settled.eq(settings.later | self.settled),
            self.placed.valid.eq(batch.placed.valid & ~settings.later),
            self.placed.payload.eq(batch.placed.payload),
            batch.placed.ready.eq(settings.later | self.placed.ready),
            self.access.eq(settings.access),
            self.flush.eq(walk.flush),
            self.counts.eq(batch.sample & ~settings.later),
            self.positions.eq(batch.positions),
        ]

        # Memory. Header and copies share a stream: they are never written at the same time.
        clients = [
            *zip(positive.requests, positive.beats, strict=True),
            *zip(negative.requests, negative.beats, strict=True),
            (copier.request, copier.beat),
        ]
        for n, (request, beat) in enumerate(clients):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)
        connect(m, walk.copy, copier.i)
        *arrays, header = batch.writes
        *ends, shared = self.writes
        for end, source in zip(ends, arrays, strict=True):
            connect(m, source, flipped(end))
        m.d.comb += [
            shared.valid.eq(header.valid | copier.o.valid),
            shared.payload.eq(Mux(header.valid, header.payload, copier.o.payload)),
            header.ready.eq(shared.ready),
            copier.o.ready.eq(shared.ready),
        ]
        return m
