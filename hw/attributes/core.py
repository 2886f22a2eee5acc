"""Attribute core: carries out SAMPLE and COPY commands with its own sampler and attribute RAM (A1-A9)."""

from amaranth import Elaboratable, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped
from amaranth.utils import exact_log2

from contracts import LINE_BYTES, Error, Opcode
from hw.attributes.attribute_processor import AttributeProcessor
from hw.attributes.batch_writer import BatchWriter
from hw.attributes.command_walk import CommandWalk
from hw.attributes.copier import Copier
from hw.attributes.formats import AttributeCoreConfig
from hw.attributes.negative_sampler import NegativeSampler
from hw.attributes.request_counts import RequestCounts
from hw.attributes.row_writer import RowWriter
from hw.attributes.sample_sequencer import SampleSequencer
from hw.attributes.structure_processor import StructureProcessor
from hw.attributes.target_address import TargetAddress
from hw.chiplet.unit import unit_members
from hw.memory.formats import WriteRequest
from hw.memory.unit_port import UNIT_ID_WIDTH, UNIT_OUTSTANDING
from hw.stream.arbiter import Arbiter

__all__ = ["AttributeCore", "AttributeCoreConfig"]


class AttributeCore(wiring.Component):
    """One command at a time; addresses in commands count from `base`.

    Parameters
    ----------
    config : AttributeCoreConfig

    Attributes
    ----------
    command : stream of unsigned(512)
    executed : stream of `ErrorReport`
        ``FAN_OUT`` with a fan-out or number of negatives that is 0 or too large; ``BAD_OPERAND`` with another operand,
        or with the number of positions, or of lines to copy, if there is no room for them; ``VID_RANGE``;
        ``OFFSET_ORDER``; ``EDGE_RANGE``; ``MEMORY_READ``; ``MEMORY_WRITE``. A command ends with its first error,
        and the attribute RAM stays exact.
    base : In
        Line address.
    write : stream of `WriteRequest`
    writing : In(1)
        Writes have no answer yet.
    errors : streams of `ErrorReport`, always ready
        Failures of the memory port: reads and writes.
    requests, beats
        Clients' ends of the read arbiter.
    """

    #: Its commands.
    OPCODES = (Opcode.SAMPLE, Opcode.COPY)
    id_width, outstanding = UNIT_ID_WIDTH, UNIT_OUTSTANDING

    def __init__(self, config: AttributeCoreConfig | None = None) -> None:
        self.config = config = config or AttributeCoreConfig()
        attribute = config.attribute
        port = self.port = (attribute.address_width, attribute.data_width)
        self._processor = AttributeProcessor(attribute)
        #: Read clients: samplers, attribute processor, copier.
        self.clients = StructureProcessor.CLIENTS + NegativeSampler.CLIENTS + self._processor.clients + 1
        super().__init__(unit_members(port, self.clients))

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect command walk, sampler, attribute processor and writers."""
        m = Module()
        config, attribute, port = self.config, self.config.attribute, self.port
        most, id_bits = config.most, attribute.id_bits
        m.submodules.walk = walk = CommandWalk(config)
        m.submodules.positive = positive = StructureProcessor(*port, most, config.frontier, id_bits=id_bits)
        m.submodules.negative = negative = NegativeSampler(*port, most, id_bits=id_bits)
        m.submodules.sequencer = sequencer = SampleSequencer()
        m.submodules.target = target = TargetAddress(attribute)
        m.submodules.processor = processor = self._processor
        m.submodules.counts = counts = RequestCounts(attribute)
        m.submodules.row_writer = row_writer = RowWriter(attribute)
        m.submodules.batch_writer = batch = BatchWriter(config)
        m.submodules.copier = copier = Copier(*port)
        m.submodules.arbiter = arbiter = Arbiter(WriteRequest(*port), 1 + BatchWriter.WRITES)

        # Commands. The memory port reports the line that it could not read, so samplers' reports of that are dropped.
        connect(m, flipped(self.command), walk.command)
        connect(m, walk.executed, flipped(self.executed))
        settings = walk.settings
        m.d.comb += [
            walk.base.eq(self.base),
            walk.idle.eq(processor.idle),
            walk.batch_done.eq(batch.done),
            walk.copy_done.eq(copier.done),
            walk.writing.eq(self.write.valid | self.writing),
        ]
        samplers = (positive.error, negative.error)
        for end, source in zip(walk.errors, (*samplers, *self.errors), strict=True):
            here = source.payload.code != Error.MEMORY_READ if source in samplers else 1
            m.d.comb += [end.valid.eq(source.valid & here), end.payload.eq(source.payload)]

        # Samples become positions, requests for their attributes, and rows in memory.
        connect(m, positive.o, sequencer.positive)
        connect(m, negative.o, sequencer.negative)
        connect(m, sequencer.o, batch.samples)
        connect(m, batch.placed, target.i)
        connect(m, target.o, processor.i)
        connect(m, processor.responses, counts.response)
        connect(m, processor.rows, row_writer.i)
        m.d.comb += [
            positive.settings.eq(settings.sample),
            negative.settings.eq(settings.sample),
            positive.start.eq(sequencer.start_positive),
            negative.start.eq(sequencer.start_negative),
            sequencer.busy_positive.eq(positive.busy),
            sequencer.busy_negative.eq(negative.busy),
            sequencer.negatives.eq(settings.sample.negatives != 0),
            sequencer.start.eq(batch.sample),
            target.slotted.eq(settings.slotted),
            processor.settings.eq(settings.attribute),
            processor.flush.eq(walk.flush),
            counts.start.eq(batch.sample),
            counts.event_valid.eq(processor.event_valid),
            counts.event.eq(processor.event),
            counts.row_written.eq(row_writer.written),
            counts.positions.eq(batch.positions),
            row_writer.base.eq(settings.rows << exact_log2(8 * LINE_BYTES // attribute.data_width)),
            row_writer.beats.eq(settings.attribute.beats),
            batch.settings.eq(settings.batch),
            batch.start.eq(walk.batch),
            batch.sampling.eq(sequencer.busy),
            batch.totals.eq(counts.totals),
            batch.settled.eq(counts.settled & processor.idle & ~row_writer.o.valid),
        ]

        # Memory. Header and copies share an input of the arbiter: they are never written at the same time.
        clients = [
            *zip(positive.requests, positive.beats, strict=True),
            *zip(negative.requests, negative.beats, strict=True),
            *zip(processor.requests, processor.beats, strict=True),
            (copier.request, copier.beat),
        ]
        for n, (request, beat) in enumerate(clients):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)
        connect(m, walk.copy, copier.i)
        *arrays, header = batch.writes
        for end, source in zip(arbiter.i, (row_writer.o, *arrays), strict=False):
            connect(m, source, end)
        shared = arbiter.i[-1]
        m.d.comb += [
            shared.valid.eq(header.valid | copier.o.valid),
            shared.payload.eq(Mux(header.valid, header.payload, copier.o.payload)),
            header.ready.eq(shared.ready),
            copier.o.ready.eq(shared.ready),
            self.write.valid.eq(arbiter.o.valid),
            self.write.payload.eq(arbiter.o.payload.payload),
            arbiter.o.ready.eq(self.write.ready),
        ]
        return m
