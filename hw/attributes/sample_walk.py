"""Sample walk: carries SAMPLE and COPY commands from their operands to their answer (A9)."""

from typing import Any

from amaranth import Elaboratable, Module, Signal
from amaranth.hdl import Assert
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import COMMAND_BYTES, COMMANDS, COMPLETION, LINE_BYTES, Error, Opcode, Targets
from contracts.sampling import HOPS_MAX
from hw.attributes.access_operands import access_operands, graph_checks, graph_operands
from hw.attributes.batch_check import BatchCheck
from hw.attributes.batch_writer import BatchSettings
from hw.attributes.copier import CopyRequest
from hw.attributes.formats import AccessSettings, AttributeCoreConfig
from hw.attributes.sampling_formats import SampleSettings
from hw.command.checks import Check, refuse
from hw.command.front_end import CommandFrontEnd
from hw.contracts import struct
from hw.graph.formats import ErrorReport
from hw.memory.formats import WORD_BYTES, line_address_width
from hw.memory.unit_port import when_written

__all__ = ["SampleOperands", "SampleWalk"]

_LINE_WORDS = LINE_BYTES // WORD_BYTES


class SampleOperands(data.StructLayout):
    """Operands of a SAMPLE, relocated: settings of the parts; ``later``: nothing is fetched."""

    def __init__(self, config: AttributeCoreConfig) -> None:
        attribute = config.attribute
        super().__init__(
            {
                "sample": SampleSettings(attribute.address_width, attribute.id_bits),
                "access": AccessSettings(attribute),
                "batch": BatchSettings(attribute),
                "later": 1,
            }
        )


class SampleWalk(wiring.Component):
    """Has a command checked and carried out, and waits until its writes are in memory.

    A SAMPLE in the background is answered when it has been checked, and goes on; the next command waits for it.

    Parameters
    ----------
    config : AttributeCoreConfig
    background
        Whether there is somebody who waits for a SAMPLE in the background and asks for its error.

    Attributes
    ----------
    command, executed, base, errors
        As of `CommandFrontEnd`. Sources of errors: structure processor, negative sampler, reads, writes.
    settings : Out
        `SampleOperands`, constant from the cycle before `batch` until `busy` is 0.
    idle : In(1)
        Nothing is fetched, so that a SAMPLE may fetch.
    flush : Out(1)
        The attribute processor forgets all attributes.
    batch : Out(1)
        The batch writer starts.
    batch_done : In(1)
        It has ended.
    copy : stream of `CopyRequest`
        To the copier, which is idle and takes it at once.
    copy_done : In(1)
        The copier has ended.
    writing : In(1)
        Beats are on their way to memory, or have no answer yet.
    busy : Out(1)
        A command is carried out, answered or not.
    late : Out
        `COMPLETION` of the first SAMPLE in the background that has failed since `forget`; its error is ``NONE`` if
        there is none.
    forget : In(1)
        Forget it.
    """

    #: Sources of errors.
    SOURCES = 4

    def __init__(self, config: AttributeCoreConfig, *, background: bool = True) -> None:
        self.config, self._background = config, background
        attribute = config.attribute
        super().__init__(
            {
                "command": In(stream.Signature(8 * COMMAND_BYTES)),
                "executed": Out(stream.Signature(ErrorReport)),
                "base": In(line_address_width(attribute.address_width)),
                "settings": Out(SampleOperands(config)),
                "idle": In(1),
                "flush": Out(1),
                "batch": Out(1),
                "batch_done": In(1),
                "copy": Out(stream.Signature(CopyRequest(attribute.address_width, attribute.data_width))),
                "copy_done": In(1),
                "errors": In(stream.Signature(ErrorReport, always_ready=True)).array(self.SOURCES),
                "writing": In(1),
                "busy": Out(1),
                "late": Out(struct(COMPLETION)),
                "forget": In(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Walk: count, flush, sample or copy, wait for writes."""
        m = Module()
        m.submodules.front = front = CommandFrontEnd(
            dict.fromkeys((Opcode.SAMPLE, Opcode.COPY), 2), self.config.attribute.address_width, self.SOURCES
        )
        m.submodules.check = check = BatchCheck(self.config)
        sample, copy = front.view(Opcode.SAMPLE), front.view(Opcode.COPY)
        connect(m, flipped(self.command), front.command)
        connect(m, front.executed, flipped(self.executed))
        for source, end in zip(self.errors, front.errors, strict=True):
            connect(m, flipped(source), end)
        refuse(m, front, {Opcode.SAMPLE: self._sample_checks(sample), Opcode.COPY: [self._copy_check(copy)]})
        samples = front.opcode == Opcode.SAMPLE
        m.d.comb += [
            front.base.eq(self.base),
            # Addresses wrap round the end of the memory.
            front.unused.eq(~0),
            check.command.eq(sample),
            check.start.eq(front.start & samples),
            front.own.payload.eq(check.error),
            self.copy.valid.eq(front.start & (front.opcode == Opcode.COPY)),
        ]
        m.d.sync += Assert(self.copy.ready | ~self.copy.valid, "the copier is not idle")
        self._settings(m, front, sample)
        self._copy(m, front, copy)
        ended = self._late(m, front, sample)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(front.start):
                    m.next = "COPY"
                    with m.If(samples):
                        m.next = "COUNT"
            with m.State("COUNT"):
                with m.If(check.done):
                    m.next = "FLUSH"
                    with m.If(check.error.code != Error.NONE):
                        m.d.comb += [front.own.valid.eq(1), front.done.eq(1)]
                        m.next = "IDLE"
            with m.State("FLUSH"):
                # A sample whose attributes are fetched later leaves the attribute processor alone.
                with m.If(self.idle | sample.later):
                    m.d.comb += [self.flush.eq(sample.flush & ~sample.later), self.batch.eq(1)]
                    m.next = "BATCH"
            with m.State("BATCH"):
                m.d.comb += front.early.eq(sample.background)
                with m.If(self.batch_done):
                    m.next = "WRITE"
            with m.State("COPY"):
                with m.If(self.copy_done):
                    m.next = "WRITE"
            with when_written(m, self.writing):
                m.d.comb += front.done.eq(1)
                m.d.sync += ended.eq(samples & sample.background)
        # Until it is known how a SAMPLE in the background has ended.
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE") | ended)
        return m

    def _late(self, m: Module, front: CommandFrontEnd, sample: Any) -> Signal:
        """Keep the error of a SAMPLE in the background; return the signal that is 1 a cycle after one has ended.

        Its first error and its operands are still there in that cycle.
        """
        ended, tag = Signal(), Signal(16, reset_less=True)
        head = data.View(struct(COMMANDS[Opcode.NOP]), self.command.payload)
        with m.If(front.command.valid & front.command.ready):
            m.d.sync += tag.eq(head.tag)
        m.d.sync += ended.eq(0)
        with m.If(ended & front.failed & (self.late.error == Error.NONE)):
            m.d.sync += [
                self.late.error.eq(front.report.code),
                self.late.info.eq(front.report.info),
                self.late.layer.eq(sample.layer),
                self.late.tag.eq(tag),
            ]
        with m.Elif(self.forget):
            m.d.sync += self.late.error.eq(Error.NONE)
        return ended

    def _sample_checks(self, command: Any) -> list[Check]:
        """Operands of a SAMPLE that need no counting."""
        return [
            *graph_checks(self.config.attribute, command),
            Check(command.background & (~command.later if self._background else 1), command.background),
            # A SAMPLE that fetches takes each position for one ID.
            Check(command.paired & ~command.later, command.paired),
            # Nor is it known how many there will be.
            Check((command.targets > Targets.POSITION) & ~command.later, command.targets),
            # The last key is that of no edge.
            Check(
                command.paired & ((command.vertices + command.edge_count) >= 1 << self.config.attribute.id_bits),
                command.edge_count,
            ),
            Check(command.hops > HOPS_MAX, command.hops),
            Check(command.negatives > self.config.fan_out_max, command.negatives, Error.FAN_OUT),
        ]

    def _copy_check(self, command: Any) -> Check:
        """Refuse a copy of more lines than the memory has, or of more words than a range."""
        range_lines = ((1 << len(self.copy.payload.source.words)) - 1) // _LINE_WORDS
        return Check(command.lines > min(1 << len(self.base), range_lines), command.lines)

    def _copy(self, m: Module, front: CommandFrontEnd, command: Any) -> None:
        """Drive `copy` from the operands of a COPY."""
        request = self.copy.payload
        m.d.comb += [
            request.source.address.eq(front.words(Opcode.COPY, "source")),
            request.source.words.eq(command.lines << exact_log2(_LINE_WORDS)),
            request.target.eq(front.beats(Opcode.COPY, "target", self.config.attribute.data_width)),
        ]

    def _settings(self, m: Module, front: CommandFrontEnd, sample: Any) -> None:
        """Drive `settings` from the operands of a SAMPLE."""
        settings = self.settings
        plan = ("root_count", "fan_out", "hops", "negatives", "seed", "batch")
        m.d.comb += [
            *(settings.sample[name].eq(value) for name, value in graph_operands(front, Opcode.SAMPLE).items()),
            *(settings.sample[name].eq(sample[name]) for name in plan),
            settings.sample.roots.eq(front.words(Opcode.SAMPLE, "roots")),
            *access_operands(front, Opcode.SAMPLE, self.config.attribute, settings.access),
            settings.batch.tree.eq(front.line(Opcode.SAMPLE, "tree")),
            settings.batch.span.eq(sample.span),
            settings.batch.keys.paired.eq(sample.paired),
            settings.batch.keys.vertices.eq(sample.vertices),
            settings.batch.keys.edge_count.eq(sample.edge_count),
            settings.later.eq(sample.later),
        ]
