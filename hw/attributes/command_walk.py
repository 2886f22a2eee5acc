"""Command walk: carries a SAMPLE or COPY command from its operands to its answer (A9)."""

from typing import Any

from amaranth import Elaboratable, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import COMMAND_BYTES, COMMANDS, LINE_BYTES, ROW_BYTES, Error, Opcode
from contracts.sampling import HOPS_MAX
from hw.attributes.batch_check import BatchCheck
from hw.attributes.batch_writer import BatchSettings
from hw.attributes.copier import CopyRequest
from hw.attributes.formats import AttributeSettings, CoreConfig
from hw.attributes.sampling_formats import SampleSettings
from hw.contracts import struct
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import WORD_BYTES, line_address_width

__all__ = ["CommandWalk", "CoreSettings"]

_LINE_WORDS = LINE_BYTES // WORD_BYTES


class CoreSettings(data.StructLayout):
    """Operands of a SAMPLE, relocated: `SampleSettings`, `AttributeSettings`, `BatchSettings`, and two more.

    ``rows``: line address of the row of position 0. ``slotted``: target addresses follow positions, not a hash.
    """

    def __init__(self, config: CoreConfig) -> None:
        attribute = config.attribute
        super().__init__(
            {
                "sample": SampleSettings(attribute.address_width, attribute.id_bits),
                "attribute": AttributeSettings(attribute),
                "batch": BatchSettings(attribute.address_width),
                "rows": unsigned(line_address_width(attribute.address_width)),
                "slotted": 1,
            }
        )


class CommandWalk(wiring.Component):
    """Checks a command, has it carried out, waits until its writes are in memory, and answers with its first error.

    Parameters
    ----------
    config : CoreConfig

    Attributes
    ----------
    command : stream of unsigned(512)
    executed : stream of `ErrorReport`
    base : In
        Line address that addresses in commands count from.
    settings : Out
        `CoreSettings`, constant from the cycle before `flush` to the answer.
    idle : In(1)
        The attribute processor has no request.
    flush : Out(1)
        The attribute processor forgets all attributes.
    batch : Out(1)
        The batch writer starts.
    batch_done : In(1)
        It has ended.
    copy : stream of `CopyRequest`
    copy_done : In(1)
        The copier has ended.
    errors : streams of `ErrorReport`, always ready
        Of two in one cycle, the first in this array counts: structure processor, negative sampler, reads, writes.
    writing : In(1)
        Beats are on their way to memory, or have no answer yet; a beat counts from the cycle after it has been offered.
    """

    #: Streams in `errors`.
    SOURCES = 4

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        attribute = config.attribute
        super().__init__(
            {
                "command": In(stream.Signature(8 * COMMAND_BYTES)),
                "executed": Out(stream.Signature(ErrorReport)),
                "base": In(line_address_width(attribute.address_width)),
                "settings": Out(CoreSettings(config)),
                "idle": In(1),
                "flush": Out(1),
                "batch": Out(1),
                "batch_done": In(1),
                "copy": Out(stream.Signature(CopyRequest(attribute.address_width, attribute.data_width))),
                "copy_done": In(1),
                "errors": In(stream.Signature(ErrorReport, always_ready=True)).array(self.SOURCES),
                "writing": In(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Latch a command, then walk: decode, check, count, flush, sample or copy, wait for writes, answer."""
        m = Module()
        m.submodules.check = check = BatchCheck(self.config)
        held = Signal(8 * COMMAND_BYTES, reset_less=True)
        command = data.View(struct(COMMANDS[Opcode.SAMPLE]), held)
        m.d.comb += check.command.eq(command)
        self._relocate(m, command)
        copy = self._copy(m, held)

        code, info = Signal(range(max(Error) + 1), reset_less=True), Signal(32, reset_less=True)
        busy = Signal()
        for source in self.errors:
            with m.If(source.valid & busy & (code == Error.NONE)):
                m.d.sync += [code.eq(source.payload.code), info.eq(source.payload.info)]

        def fail(error: Any, where: Any) -> None:
            m.d.sync += [code.eq(error), info.eq(where)]
            m.next = "ANSWER"

        m.d.comb += [
            busy.eq(1),
            self.executed.payload.code.eq(code),
            self.executed.payload.info.eq(info),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [busy.eq(0), self.command.ready.eq(1)]
                m.d.sync += [held.eq(self.command.payload), code.eq(Error.NONE), info.eq(0)]
                with m.If(self.command.valid):
                    m.next = "DECODE"
            with m.State("DECODE"):
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
                for n, (wrong, error, operand) in enumerate(self._checks(command)):
                    with m.Elif(wrong) if n else m.If(wrong):
                        fail(error, operand)
                with m.Else():
                    m.d.comb += check.start.eq(1)
                    m.next = "COUNT"
            with m.State("COUNT"):
                with m.If(check.done):
                    m.next = "FLUSH"
                    with m.If(check.error.code != Error.NONE):
                        fail(check.error.code, check.error.info)
            with m.State("FLUSH"):
                with m.If(self.idle):
                    m.d.comb += [self.flush.eq(command.flush), self.batch.eq(1)]
                    m.next = "BATCH"
            with m.State("BATCH"):
                with m.If(self.batch_done):
                    m.next = "WRITE"
            with m.State("COPY"):
                m.d.comb += self.copy.valid.eq(copy.lines <= 1 << len(self.base))
                with m.If(~self.copy.valid):
                    fail(Error.BAD_OPERAND, copy.lines)
                with m.Elif(self.copy.ready):
                    m.next = "COPYING"
            with m.State("COPYING"):
                with m.If(self.copy_done):
                    m.next = "WRITE"
            with m.State("WRITE"):
                # A beat that the memory port takes shows in `writing` one cycle later, so it must be 0 in two cycles.
                with m.If(~self.writing):
                    m.next = "WRITTEN"
            with m.State("WRITTEN"):
                m.next = "WRITE"
                with m.If(~self.writing):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += self.executed.valid.eq(1)
                with m.If(self.executed.ready):
                    m.next = "IDLE"
        return m

    def _checks(self, command: Any) -> list[tuple[Any, Error, Any]]:
        """Operands that need no counting: whether one is wrong, its error and its value; the first wrong one counts."""
        config, attribute = self.config, self.config.attribute
        beat_bytes = attribute.data_width // 8
        row_bytes = command.row_bytes
        row = (
            (row_bytes > attribute.row_beats * beat_bytes)
            | (row_bytes == 0)
            | row_bytes[: exact_log2(max(beat_bytes, ROW_BYTES))].any()
        )
        return [
            (row, Error.BAD_OPERAND, row_bytes),
            (command.vertices > (1 << attribute.id_bits), Error.BAD_OPERAND, command.vertices),
            (command.first_vertex != 0, Error.BAD_OPERAND, command.first_vertex),
            (command.tiles == 0, Error.BAD_OPERAND, command.tiles),
            (command.hops > HOPS_MAX, Error.BAD_OPERAND, command.hops),
            (command.negatives > config.fan_out_max, Error.FAN_OUT, command.negatives),
        ]

    def _word(self, line: Any) -> Any:
        """Word address of a line of the image."""
        return (self.base + line) << exact_log2(_LINE_WORDS)

    def _copy(self, m: Module, held: Any) -> Any:
        """Drive the copier's request from the operands of a COPY; return them."""
        copy, request = data.View(struct(COMMANDS[Opcode.COPY]), held), self.copy.payload
        line_beats = 8 * LINE_BYTES // self.config.attribute.data_width
        m.d.comb += [
            request.source.address.eq(self._word(copy.source)),
            request.source.words.eq(copy.lines << exact_log2(_LINE_WORDS)),
            request.target.eq((self.base + copy.target) << exact_log2(line_beats)),
        ]
        return copy

    def _relocate(self, m: Module, command: Any) -> None:
        """Drive `settings` from the operands of a SAMPLE; addresses, relative to `base`, go through registers."""
        settings, batch, attribute = self.settings, self.settings.batch, self.settings.attribute
        sample = Signal.like(settings.sample, name="sample", reset_less=True)
        attributes = Signal(len(attribute.attributes), reset_less=True)
        rows, tree = (Signal(len(self.base), name=name, reset_less=True) for name in ("rows", "tree"))
        m.d.sync += [
            sample.nodes.eq(command.vertices),
            sample.offsets.eq(self._word(command.offsets)),
            sample.edges.eq(self._word(command.edges)),
            sample.edge_count.eq(command.edge_count),
            sample.tiles.eq(command.tiles),
            sample.roots.eq(self._word(command.roots)),
            sample.root_count.eq(command.root_count),
            *(sample.fan_out[n].eq(command.fan_out[8 * n : 8 * (n + 1)]) for n in range(HOPS_MAX)),
            sample.hops.eq(command.hops),
            sample.negatives.eq(command.negatives),
            sample.seed.eq(command.seed),
            sample.batch.eq(command.batch),
            attributes.eq(self._word(command.attributes)),
            rows.eq(self.base + command.rows),
            tree.eq(self.base + command.tree),
        ]
        beat_bytes = self.config.attribute.data_width // 8
        m.d.comb += [
            settings.sample.eq(sample),
            *(attribute[name].eq(sample[name]) for name in ("nodes", "offsets", "edges", "edge_count", "tiles")),
            attribute.attributes.eq(attributes),
            attribute.row_words.eq(command.row_bytes >> exact_log2(WORD_BYTES)),
            attribute.beats.eq(command.row_bytes >> exact_log2(beat_bytes)),
            batch.tree.eq(tree),
            batch.span.eq(command.span),
            settings.rows.eq(rows),
            settings.slotted.eq(command.slotted),
        ]
