"""Attribute core: carries out SAMPLE and COPY commands with its own sampler and attribute RAM (A1-A9)."""

from dataclasses import dataclass
from typing import Any

from amaranth import Array, Cat, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import connect, flipped
from amaranth.utils import exact_log2

from contracts import BATCH, COMMAND_BYTES, COMMANDS, LINE_BYTES, Error, Flow, Opcode
from contracts.parameters import Parameters, part, size
from contracts.sampling import HOPS_MAX
from contracts.scale import scales_of
from hw.attributes.attribute_processor import AttributeProcessor
from hw.attributes.formats import AttributeConfig
from hw.attributes.negative_sampler import NegativeSampler
from hw.attributes.row_writer import RowWriter
from hw.attributes.structure_processor import Sample, SampleSettings, StructureProcessor
from hw.attributes.target_address import TargetAddress
from hw.chiplet.unit import unit_members
from hw.contracts import struct
from hw.memory.formats import WORD_BYTES, WriteRequest, beat_address_width
from hw.memory.range_reader import RangeReader
from hw.memory.unit_port import UNIT_ID_WIDTH, UNIT_OUTSTANDING
from hw.memory.word_writer import WordWriter
from hw.stream.arbiter import Arbiter

__all__ = ["AttributeCore", "AttributeCoreConfig"]

_LINE_WORDS = LINE_BYTES // WORD_BYTES
#: Arrays behind the line of the batch, in their order.
_ARRAYS = ("offsets", "edges", "scales", "nodes")


@dataclass(frozen=True)
class AttributeCoreConfig(Parameters):
    """Sizes of a core.

    Parameters
    ----------
    attribute
        Sizes of the attribute RAM and the memory port.
    most
        Largest fan-out and number of negatives.
    frontier
        Most positions of a batch that are expanded: roots, and samples of all hops but the last.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    attribute: AttributeConfig = part(AttributeConfig, flat=True, follows=("address_width", "data_width"))
    most: int = size(16, 1, 255)
    frontier: int = size(1024, 2, 1 << 16)


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
        or with the number of positions, or of lines to copy, when they exceed what there is room for; ``VID_RANGE``;
        ``OFFSET_ORDER``; ``EDGE_RANGE``; ``MEMORY_READ``; ``MEMORY_WRITE``. A command ends with the first error it
        met, and the attribute RAM is as exact as before.
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

    #: What it carries out.
    OPCODES = (Opcode.SAMPLE, Opcode.COPY)
    id_width, outstanding = UNIT_ID_WIDTH, UNIT_OUTSTANDING

    def __init__(self, config: AttributeCoreConfig | None = None) -> None:
        self.config = config = config or AttributeCoreConfig()
        attribute = config.attribute
        port = self.port = (attribute.address_width, attribute.data_width)
        self._processor = AttributeProcessor(attribute)
        #: Read clients: sampler, negative sampler, attributes, copies.
        self.clients = StructureProcessor.CLIENTS + NegativeSampler.CLIENTS + self._processor.clients + 1
        super().__init__(unit_members(port, self.clients))

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect samplers, attribute processor and writers; walk through a command."""
        m = Module()
        config, attribute = self.config, self.config.attribute
        port, data_width = self.port, self.config.attribute.data_width
        line_beats = 8 * LINE_BYTES // data_width
        m.submodules.positive = positive = StructureProcessor(
            *port, config.most, config.frontier, id_bits=attribute.id_bits
        )
        m.submodules.negative = negative = NegativeSampler(*port, config.most, id_bits=attribute.id_bits)
        m.submodules.processor = processor = self._processor
        m.submodules.target = target = TargetAddress(attribute)
        m.submodules.row_writer = row_writer = RowWriter(attribute)
        m.submodules.copier = copier = RangeReader(*port, 64)
        writers = {name: WordWriter(*port) for name in _ARRAYS}
        for name, writer in writers.items():
            m.submodules[f"{name}_writer"] = writer
        m.submodules.arbiter = arbiter = Arbiter(WriteRequest(*port), len(writers) + 2)
        clients = [
            *zip(positive.requests, positive.beats, strict=True),
            *zip(negative.requests, negative.beats, strict=True),
            *zip(processor.requests, processor.beats, strict=True),
            (copier.request, copier.beat),
        ]
        for n, (request, beat) in enumerate(clients):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)
        connect(m, target.o, processor.i)
        connect(m, processor.rows, row_writer.i)
        for n, source in enumerate((row_writer.o, *(writer.o for writer in writers.values()))):
            connect(m, source, arbiter.i[n])
        own_write = arbiter.i[len(writers) + 1]
        m.d.comb += [
            self.write.valid.eq(arbiter.o.valid),
            self.write.payload.eq(arbiter.o.payload.payload),
            arbiter.o.ready.eq(self.write.ready),
        ]

        # What a command needs is loaded while there is none.
        held = Signal(8 * COMMAND_BYTES, reset_less=True)
        command = data.View(struct(COMMANDS[Opcode.SAMPLE]), held)
        copy = data.View(struct(COMMANDS[Opcode.COPY]), held)
        settings = Signal(SampleSettings(port[0], attribute.id_bits), reset_less=True)

        def words(line: Any) -> Any:
            """Word address of a line of the image."""
            return (self.base + line) << exact_log2(_LINE_WORDS)

        fan_out = [command.fan_out[8 * n : 8 * (n + 1)] for n in range(HOPS_MAX)]
        attributes = Signal(len(processor.settings.attributes), reset_less=True)
        rows_at, tree_at = (Signal(len(self.base), name=name, reset_less=True) for name in ("rows_at", "tree_at"))
        m.d.sync += [
            settings.nodes.eq(command.vertices),
            settings.offsets.eq(words(command.offsets)),
            settings.edges.eq(words(command.edges)),
            settings.edge_count.eq(command.edge_count),
            settings.tiles.eq(command.tiles),
            settings.roots.eq(words(command.roots)),
            settings.root_count.eq(command.root_count),
            *(settings.fan_out[n].eq(part) for n, part in enumerate(fan_out)),
            settings.hops.eq(command.hops),
            settings.negatives.eq(command.negatives),
            settings.seed.eq(command.seed),
            settings.batch.eq(command.batch),
            attributes.eq(words(command.attributes)),
            rows_at.eq(self.base + command.rows),
            tree_at.eq(self.base + command.tree),
        ]
        beat_bytes = data_width // 8
        beats = Signal(range(attribute.row_beats + 1))
        m.d.comb += [
            beats.eq(command.row_bytes >> exact_log2(beat_bytes)),
            positive.settings.eq(settings),
            negative.settings.eq(settings),
            processor.settings.nodes.eq(settings.nodes),
            processor.settings.attributes.eq(attributes),
            processor.settings.row_words.eq(command.row_bytes >> exact_log2(WORD_BYTES)),
            processor.settings.beats.eq(beats),
            processor.settings.offsets.eq(settings.offsets),
            processor.settings.edges.eq(settings.edges),
            processor.settings.edge_count.eq(settings.edge_count),
            processor.settings.tiles.eq(settings.tiles),
            target.slotted.eq(command.slotted),
            row_writer.base.eq(rows_at << exact_log2(line_beats)),
            row_writer.beats.eq(beats),
        ]

        # Positions, and what is written of each. There are as many as tags at most, and each that is expanded has
        # so many samples at most. What a copy counts are beats, of the whole memory at most.
        counted = range((1 << attribute.tag_bits) + 1)
        sampled = range(min(1 << attribute.tag_bits, config.frontier * config.most) + 1)
        position = Signal(max(attribute.tag_bits + 1, beat_address_width(*port)), reset_less=True)
        edges = Signal(sampled, reset_less=True)
        children = Signal(range(config.most + 1), reset_less=True)
        slot = Signal(range(attribute.slots), reset_less=True)
        counts = Array(
            Signal(counted if n in (0, HOPS_MAX + 1) else sampled, name=f"count_{n}", reset_less=True)
            for n in range(HOPS_MAX + 2)
        )
        of_negatives = Signal(reset_less=True)
        sample = Signal(Sample)
        m.d.comb += sample.eq(Mux(of_negatives, negative.o.payload, positive.o.payload))
        there, passes, real, child, parent_ends = Signal(), Signal(), Signal(), Signal(), Signal()
        begins, begun = Signal(), Signal()  # writers start; the offsets' first word
        m.d.comb += [
            real.eq(~sample.empty),
            there.eq(Mux(of_negatives, negative.o.valid, positive.o.valid)),
            passes.eq(there & target.i.ready & Cat(writer.i.ready for writer in writers.values()).all()),
            positive.o.ready.eq(passes & ~of_negatives),
            negative.o.ready.eq(passes & of_negatives),
            child.eq(~of_negatives & (sample.hop != 0)),
            parent_ends.eq(passes & child & sample.last),
            target.i.valid.eq(passes & real),
            target.i.payload.id.eq(sample.node),
            target.i.payload.tag.eq(position),
            target.i.payload.slot.eq(slot),
        ]
        for name, valid, payload in (
            ("offsets", begun | parent_ends, Mux(begun, 0, edges + real)),
            ("edges", passes & child & real, position[: (config.frontier * (1 + config.most)).bit_length()]),
            ("scales", parent_ends, self._scale(m, children + real)),
            ("nodes", passes & real, sample.node),
        ):
            m.d.comb += [writers[name].i.valid.eq(valid), writers[name].i.payload.eq(payload)]
        with m.If(passes):
            m.d.sync += children.eq(Mux(sample.last, 0, children + 1))
        with m.If(passes & real):
            m.d.sync += [
                position.eq(position + 1),
                edges.eq(edges + child),
                slot.eq(Mux(slot == attribute.slots - 1, 0, slot + 1)),
            ]
            kind = Mux(of_negatives, HOPS_MAX + 1, sample.hop)
            m.d.sync += counts[kind].eq(counts[kind] + 1)

        # What the attribute processor says.
        flows = {
            flow: Signal(counted, name=f"flow_{flow.name.lower()}", reset_less=True)
            for flow in (Flow.IN_PLACE, Flow.CACHED, Flow.MOVED, Flow.MISSED)
        }
        for flow, count in flows.items():
            m.d.sync += count.eq(count + (processor.event_valid & (processor.event.flow == flow)))
        answered, good, written = (
            Signal(counted, name=name, reset_less=True) for name in ("answered", "good", "written")
        )
        m.d.comb += processor.responses.ready.eq(1)
        response = processor.responses
        m.d.sync += [
            answered.eq(answered + response.valid),
            good.eq(good + (response.valid & (response.payload.error == Error.NONE))),
            written.eq(written + row_writer.written),
        ]

        # The first error counts. Samplers report a VID outside the graph before the attribute processor refuses it.
        code, info = Signal(range(max(Error) + 1), reset_less=True), Signal(32, reset_less=True)
        busy = Signal()
        reports: list[tuple[Any, Any, Any]] = []
        for source in (positive.error, negative.error):
            # The memory port says itself which line it could not read.
            at_memory = source.payload.code == Error.MEMORY_READ
            reports.append((source.valid & ~at_memory, source.payload.code, source.payload.info))
        reports += [(source.valid, source.payload.code, source.payload.info) for source in self.errors]
        for valid, what, where in reports:
            with m.If(valid & busy & (code == Error.NONE)):
                m.d.sync += [code.eq(what), info.eq(where)]

        # The command.
        header = data.View(struct(BATCH), Signal(8 * LINE_BYTES, name="header"))
        m.d.comb += [
            header.positions.eq(position),
            *(header[f"hop{n}"].eq(counts[n]) for n in range(HOPS_MAX + 1)),
            header.negatives.eq(counts[HOPS_MAX + 1]),
            header.requests.eq(answered),
            header.in_place.eq(flows[Flow.IN_PLACE]),
            header.cached.eq(flows[Flow.CACHED]),
            header.moved.eq(flows[Flow.MOVED]),
            header.missed.eq(flows[Flow.MISSED]),
        ]
        # Positions of a level, of those that are expanded, and of all: a level is multiplied once it is known to be
        # expanded as a whole, roots with negatives whatever they are.
        hop = Signal(range(HOPS_MAX + 1), reset_less=True)
        most_roots = (1 << len(command.root_count)) - 1
        level = Signal(range(max(most_roots, config.frontier * config.most) + 1), reset_less=True)
        inner = Signal(range(config.frontier + 1), reset_less=True)
        product = Signal(range(max(most_roots, config.frontier) * config.most + 1), reset_less=True)
        most_positions = max(most_roots * (1 + config.most), config.frontier * (1 + 2 * config.most))
        total = Signal(range(most_positions + 1), reset_less=True)
        ends, number = Signal(), Signal(range(line_beats), reset_less=True)
        fan = Array(fan_out)[hop[: exact_log2(HOPS_MAX)]]
        for name, writer in writers.items():
            m.d.comb += [
                writer.start.eq(begins),
                writer.ended.eq(ends),
                writer.address.eq((tree_at + 1 + _ARRAYS.index(name) * command.span) << exact_log2(line_beats)),
            ]

        def fail(what: Error, where: Any) -> None:
            m.d.sync += [code.eq(what), info.eq(where)]
            m.next = "ANSWER"

        m.d.comb += busy.eq(1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [busy.eq(0), self.command.ready.eq(1)]
                m.d.sync += [held.eq(self.command.payload), code.eq(Error.NONE), info.eq(0)]
                m.d.sync += [signal.eq(0) for signal in (position, edges, children, slot, of_negatives, ends, number)]
                m.d.sync += [signal.eq(0) for signal in (answered, good, written, *counts, *flows.values(), hop, inner)]
                with m.If(self.command.valid):
                    m.next = "DECODE"
            with m.State("DECODE"):
                m.d.sync += [level.eq(command.root_count), total.eq(command.root_count)]
                with m.Switch(command.opcode):
                    with m.Case(Opcode.NOP):
                        m.next = "ANSWER"
                    with m.Case(Opcode.COPY):
                        m.next = "COPY"
                    with m.Case(Opcode.SAMPLE):
                        m.next = "CHECK"
                    with m.Default():
                        fail(Error.BAD_OPCODE, command.opcode)
            with m.State("CHECK"):
                m.next = "CHECK_HOP"
                largest = attribute.row_beats * beat_bytes
                with m.If(
                    (command.row_bytes > largest)
                    | (command.row_bytes == 0)
                    | command.row_bytes[: exact_log2(max(beat_bytes, 32))].any()
                ):
                    fail(Error.BAD_OPERAND, command.row_bytes)
                with m.Elif(command.vertices > (1 << attribute.id_bits)):
                    fail(Error.BAD_OPERAND, command.vertices)
                with m.Elif(command.first_vertex != 0):
                    fail(Error.BAD_OPERAND, command.first_vertex)
                with m.Elif(command.tiles == 0):
                    fail(Error.BAD_OPERAND, command.tiles)
                with m.Elif(command.hops > HOPS_MAX):
                    fail(Error.BAD_OPERAND, command.hops)
                with m.Elif(command.negatives > min(config.most, attribute.slots)):
                    fail(Error.FAN_OUT, command.negatives)
            with m.State("CHECK_HOP"):
                m.d.sync += product.eq(level * fan)
                with m.If(hop == command.hops):
                    m.d.sync += product.eq(command.root_count * command.negatives[: config.most.bit_length()])
                    m.next = "CHECK_NEGATIVES"
                with m.Elif((fan == 0) | (fan > min(config.most, attribute.slots))):
                    fail(Error.FAN_OUT, fan)
                with m.Elif(inner + level > config.frontier):
                    fail(Error.BAD_OPERAND, inner + level)
                with m.Else():
                    m.next = "COUNT_HOP"
            with m.State("COUNT_HOP"):
                m.d.sync += [inner.eq(inner + level), level.eq(product), total.eq(total + product), hop.eq(hop + 1)]
                m.next = "CHECK_HOP"
            with m.State("CHECK_NEGATIVES"):
                m.d.sync += total.eq(total + product)
                m.next = "CHECK_TOTAL"
            with m.State("CHECK_TOTAL"):
                m.next = "FLUSH"
                with m.If((total > 1 << attribute.tag_bits) | (total >= command.span * _LINE_WORDS)):
                    fail(Error.BAD_OPERAND, total)
            with m.State("FLUSH"):
                with m.If(processor.idle):
                    m.d.comb += processor.flush.eq(command.flush)
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += begins.eq(1)
                m.next = "BEGUN"
            with m.State("BEGUN"):
                m.d.comb += [begun.eq(1), positive.start.eq(1)]
                m.next = "POSITIVE"
            with m.State("POSITIVE"):
                with m.If(~positive.busy & ~positive.o.valid):
                    m.d.comb += negative.start.eq(command.negatives != 0)
                    m.d.sync += of_negatives.eq(1)
                    m.next = "NEGATIVE"
            with m.State("NEGATIVE"):
                with m.If(~negative.busy & ~negative.o.valid):
                    m.d.sync += ends.eq(1)
                    m.next = "ROWS"
            with m.State("ROWS"):
                done = Cat(writer.done for writer in writers.values()).all()
                with m.If((answered == position) & (written == good) & ~row_writer.o.valid & processor.idle & done):
                    m.next = "HEADER"
            with m.State("HEADER"):
                m.d.comb += [
                    own_write.valid.eq(1),
                    own_write.payload.address.eq((tree_at << exact_log2(line_beats)) + number),
                    own_write.payload.data.eq(header.as_value().word_select(number, data_width)),
                    own_write.payload.strobe.eq(~0),
                ]
                with m.If(own_write.ready):
                    m.d.sync += number.eq(number + 1)
                    with m.If(number == line_beats - 1):
                        m.next = "WRITE"
            with m.State("WRITE"):
                # The write port is busy from the cycle after it has taken a beat.
                with m.If(~self.write.valid & ~self.writing):
                    m.next = "WRITTEN"
            with m.State("WRITTEN"):
                with m.If(~self.write.valid & ~self.writing):
                    m.next = "ANSWER"
                with m.Else():
                    m.next = "WRITE"
            with m.State("COPY"):
                m.d.comb += copier.i.valid.eq(copy.lines <= 1 << len(self.base))
                with m.If(~copier.i.valid):
                    fail(Error.BAD_OPERAND, copy.lines)
                with m.Elif(copier.i.ready):
                    m.next = "COPYING"
            with m.State("COPYING"):
                here = copier.o.payload.mask != 0
                m.d.comb += [
                    own_write.valid.eq(copier.o.valid & here),
                    own_write.payload.address.eq(((self.base + copy.target) << exact_log2(line_beats)) + position),
                    own_write.payload.data.eq(copier.o.payload.data),
                    # What could not be read is not written.
                    own_write.payload.strobe.eq((~copier.o.payload.error).replicate(beat_bytes)),
                    copier.o.ready.eq(own_write.ready | ~here),
                ]
                with m.If(copier.o.valid & copier.o.ready):
                    m.d.sync += position.eq(position + 1)
                    with m.If(copier.o.payload.last):
                        m.next = "WRITE"
            with m.State("ANSWER"):
                m.d.comb += [
                    self.executed.valid.eq(1),
                    self.executed.payload.code.eq(code),
                    self.executed.payload.info.eq(info),
                ]
                with m.If(self.executed.ready):
                    m.next = "IDLE"
        m.d.comb += [
            copier.i.payload.address.eq(words(copy.source)),
            copier.i.payload.words.eq(copy.lines << exact_log2(_LINE_WORDS)),
        ]
        return m

    def _scale(self, m: Module, children: Any) -> Any:
        """Factor of the mean over a position and its samples: mantissa and exponent of 1/(children + 1)."""
        scales = scales_of([1 / (count + 1) for count in range(self.config.most + 1)])
        table = Array(
            int(mantissa) | int(exponent) << 16
            for mantissa, exponent in zip(scales.mantissa, scales.exponent, strict=True)
        )
        scale = Signal(unsigned(32), name="scale")
        m.d.comb += scale.eq(table[children])
        return scale
