"""Attribute core: carries out SAMPLE, FETCH and COPY commands with its own sampler and attribute RAM (A1-A9)."""

from typing import Any

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.hdl import Assert
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import LINE_BYTES, Error, Opcode
from hw.attributes.attribute_processor import AttributeProcessor
from hw.attributes.batch_writer import BatchWriter
from hw.attributes.command_walk import CommandWalk
from hw.attributes.copier import Copier
from hw.attributes.formats import AttributeCoreConfig
from hw.attributes.negative_sampler import NegativeSampler
from hw.attributes.node_reader import NodeReader
from hw.attributes.request_counts import RequestCounts
from hw.attributes.row_window import RowWindow
from hw.attributes.row_writer import RowWriter
from hw.attributes.sample_sequencer import SampleSequencer
from hw.attributes.structure_processor import StructureProcessor
from hw.attributes.target_address import TargetAddress
from hw.chiplet.unit import unit_members
from hw.graph.formats import ErrorReport
from hw.memory.formats import WriteRequest
from hw.memory.unit_port import UNIT_ID_WIDTH, UNIT_OUTSTANDING
from hw.memory.window import window_members
from hw.stream.arbiter import Arbiter

__all__ = ["AttributeCore", "AttributeCoreConfig"]

_REPORT = stream.Signature(ErrorReport, always_ready=True)


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
    ending : In(1)
        A run has no more commands: rows that nobody has read are dropped.
    background : Out(1)
        A command is carried out, answered or not.
    window : interface of `hw.memory.window.window_members`
        If the core has a window: rows for the engine, with ``failure``, why some of them are errors.
    """

    #: Its commands.
    OPCODES = (Opcode.SAMPLE, Opcode.COPY, Opcode.FETCH)
    id_width, outstanding = UNIT_ID_WIDTH, UNIT_OUTSTANDING

    def __init__(self, config: AttributeCoreConfig | None = None) -> None:
        self.config = config = config or AttributeCoreConfig()
        attribute = config.attribute
        port = self.port = (attribute.address_width, attribute.data_width)
        self._processor = AttributeProcessor(attribute)
        #: Read clients: samplers, attribute processor, copier, node reader.
        self.clients = StructureProcessor.CLIENTS + NegativeSampler.CLIENTS + self._processor.clients + 2
        members = {**unit_members(port, self.clients), "ending": In(1), "background": Out(1)}
        if config.window:
            members["window"] = Out(wiring.Signature({**window_members(*port), "failure": Out(_REPORT)}))
        super().__init__(members)

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
        m.submodules.node_reader = nodes = NodeReader(attribute)
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
        connect(m, target.o, processor.i)
        connect(m, processor.responses, counts.response)
        fetches = settings.batch.fetch
        m.d.comb += [
            target.i.valid.eq(Mux(fetches, nodes.o.valid, batch.placed.valid & ~settings.later)),
            target.i.payload.eq(Mux(fetches, nodes.o.payload, batch.placed.payload)),
            nodes.o.ready.eq(target.i.ready),
            batch.placed.ready.eq(target.i.ready),
            nodes.i.valid.eq(batch.counts & fetches),
            nodes.i.payload.eq(settings.nodes),
        ]
        m.d.sync += Assert(nodes.i.ready | ~nodes.i.valid, "the node reader is not idle")
        handed_on, waits = self._hand_on(m, settings, processor, row_writer, walk.batch, target, nodes)
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
            counts.start.eq(batch.counts),
            counts.event_valid.eq(processor.event_valid),
            counts.event.eq(processor.event),
            counts.row_written.eq(handed_on),
            counts.positions.eq(Mux(fetches, settings.nodes.count, Mux(settings.later, 0, batch.positions))),
            row_writer.base.eq(settings.rows << exact_log2(8 * LINE_BYTES // attribute.data_width)),
            row_writer.beats.eq(settings.attribute.beats),
            batch.settings.eq(settings.batch),
            batch.start.eq(walk.batch),
            batch.sampling.eq(sequencer.busy),
            batch.totals.eq(counts.totals),
            batch.settled.eq(counts.settled & processor.idle & ~waits),
            self.background.eq(walk.busy),
        ]

        # Memory. Header and copies share an input of the arbiter: they are never written at the same time.
        clients = [
            *zip(positive.requests, positive.beats, strict=True),
            *zip(negative.requests, negative.beats, strict=True),
            *zip(processor.requests, processor.beats, strict=True),
            (copier.request, copier.beat),
            (nodes.request, nodes.beat),
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

    def _hand_on(
        self, m: Module, settings: Any, processor: Any, row_writer: Any, begins: Any, target: Any, nodes: Any
    ) -> tuple[Any, Any]:
        """Lead rows to memory or to the window, which lets requests through when it has a place for their rows.

        Returns
        -------
        tuple
            Whether the last beat of a row is handed on, and whether beats wait.
        """
        rows = processor.rows
        if not self.config.window:
            connect(m, rows, row_writer.i)
            return row_writer.written, row_writer.o.valid
        streamed = settings.streamed
        m.submodules.row_window = window = RowWindow(self.config.attribute, self.config.window)
        m.d.comb += [
            row_writer.i.payload.eq(rows.payload),
            row_writer.i.valid.eq(rows.valid & ~streamed),
            window.i.payload.eq(rows.payload),
            window.i.valid.eq(rows.valid & streamed),
            rows.ready.eq(Mux(streamed, window.i.ready, row_writer.i.ready)),
            window.start.eq(begins & streamed),
            window.settings.rows.eq(settings.rows),
            window.settings.count.eq(settings.nodes.count),
            window.settings.beats.eq(settings.attribute.beats),
            window.abandon.eq(self.ending),
            window.asks.eq(target.i.valid & target.i.ready & streamed),
        ]
        with m.If(streamed & ~window.room):
            m.d.comb += [target.i.valid.eq(0), nodes.o.ready.eq(0)]
        for name, member in self.window.signature.members.items():
            outer, inner = getattr(self.window, name), getattr(window, name)
            if member.is_signature:
                connect(m, flipped(outer), inner)
            else:
                m.d.comb += outer.eq(inner)
        # The port says which line it could not read, the processor that a row does not come.
        response, line, unread = processor.responses, Signal.like(self.base, reset_less=True), Signal()
        with m.If(begins):
            m.d.sync += unread.eq(0)
        with m.Elif(self.errors[0].valid & ~unread):
            m.d.sync += [unread.eq(1), line.eq(self.errors[0].payload.info)]
        m.d.comb += [
            window.failed.valid.eq(streamed & response.valid & (response.payload.error != Error.NONE)),
            window.failed.payload.code.eq(Mux(unread, Error.MEMORY_READ, response.payload.error)),
            window.failed.payload.info.eq(Mux(unread, line, response.payload.tag)),
        ]
        return row_writer.written | window.taken, row_writer.o.valid | window.open
