"""Command walk: carries SAMPLE and COPY commands from their operands to their answer (A9)."""

from typing import Any

from amaranth import Elaboratable, Module, Mux, unsigned
from amaranth.hdl import Assert
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import COMMAND_BYTES, LINE_BYTES, ROW_BYTES, Error, Opcode
from contracts.sampling import HOPS_MAX
from hw.attributes.batch_check import BatchCheck
from hw.attributes.batch_writer import BatchSettings
from hw.attributes.copier import CopyRequest
from hw.attributes.formats import AttributeCoreConfig, AttributeSettings
from hw.attributes.node_reader import NodeRange
from hw.attributes.sampling_formats import SampleSettings
from hw.command.checks import Check, refuse
from hw.command.front_end import CommandFrontEnd
from hw.graph.formats import ErrorReport
from hw.memory.formats import WORD_BYTES, line_address_width

__all__ = ["CommandWalk", "CoreSettings"]


class CoreSettings(data.StructLayout):
    """Operands of a SAMPLE or FETCH, relocated: settings of the parts, and some more.

    ``rows``: line address of the row of position 0. ``slotted``: target addresses follow positions, not a hash.
    ``later``: a SAMPLE fetches nothing. ``streamed``: rows go to the window. ``nodes``: of a FETCH.
    """

    def __init__(self, config: AttributeCoreConfig) -> None:
        attribute = config.attribute
        super().__init__(
            {
                "sample": SampleSettings(attribute.address_width, attribute.id_bits),
                "attribute": AttributeSettings(attribute),
                "batch": BatchSettings(attribute),
                "rows": unsigned(line_address_width(attribute.address_width)),
                "slotted": 1,
                "later": 1,
                "streamed": 1,
                "nodes": NodeRange(attribute),
            }
        )


class CommandWalk(wiring.Component):
    """Has a command checked and carried out, and waits until its writes are in memory.

    A FETCH whose rows go to the window is answered when this is open, and goes on.

    Parameters
    ----------
    config : AttributeCoreConfig

    Attributes
    ----------
    command, executed, base, errors
        As of `CommandFrontEnd`. Sources of errors: structure processor, negative sampler, reads, writes.
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
        To the copier, which is idle and takes it at once.
    copy_done : In(1)
        The copier has ended.
    writing : In(1)
        Beats are on their way to memory, or have no answer yet.
    busy : Out(1)
        A command is carried out, answered or not.
    """

    #: Sources of errors.
    SOURCES = 4

    def __init__(self, config: AttributeCoreConfig) -> None:
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
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Walk: count, flush, sample or copy, wait for writes."""
        m = Module()
        m.submodules.front = front = CommandFrontEnd(
            dict.fromkeys((Opcode.SAMPLE, Opcode.COPY, Opcode.FETCH), 2),
            self.config.attribute.address_width,
            self.SOURCES,
        )
        m.submodules.check = check = BatchCheck(self.config)
        sample, copy = front.view(Opcode.SAMPLE), front.view(Opcode.COPY)
        connect(m, flipped(self.command), front.command)
        connect(m, front.executed, flipped(self.executed))
        for source, end in zip(self.errors, front.errors, strict=True):
            connect(m, flipped(source), end)
        fetch = front.view(Opcode.FETCH)
        checks = {Opcode.SAMPLE: self._sample_checks(sample), Opcode.COPY: [self._copy_check(copy)]}
        refuse(m, front, {**checks, Opcode.FETCH: self._fetch_checks(fetch)})
        samples, fetches = front.opcode == Opcode.SAMPLE, front.opcode == Opcode.FETCH
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
        self._settings(m, front, sample, fetch)
        self._copy(m, front, copy)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(front.start):
                    m.next = "COPY"
                    with m.If(samples):
                        m.next = "COUNT"
                    with m.Elif(fetches):
                        m.next = "FLUSH"
            with m.State("COUNT"):
                with m.If(check.done):
                    m.next = "FLUSH"
                    with m.If(check.error.code != Error.NONE):
                        m.d.comb += [front.own.valid.eq(1), front.done.eq(1)]
                        m.next = "IDLE"
            with m.State("FLUSH"):
                with m.If(self.idle):
                    m.d.comb += [self.flush.eq(Mux(fetches, fetch.flush, sample.flush)), self.batch.eq(1)]
                    m.next = "BATCH"
            with m.State("BATCH"):
                m.d.comb += front.early.eq(self.settings.streamed)
                with m.If(self.batch_done):
                    m.next = "WRITE"
            with m.State("COPY"):
                with m.If(self.copy_done):
                    m.next = "WRITE"
            with m.State("WRITE"):
                # A beat that the memory port takes shows in `writing` one cycle later, so it must be 0 in two cycles.
                with m.If(~self.writing):
                    m.next = "WRITTEN"
            with m.State("WRITTEN"):
                m.next = "WRITE"
                with m.If(~self.writing):
                    m.d.comb += front.done.eq(1)
                    m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
        return m

    def _graph_checks(self, command: Any) -> list[Check]:
        """Operands of a graph and of attribute rows."""
        attribute = self.config.attribute
        beat_bytes, row_bytes = attribute.data_width // 8, command.row_bytes
        row = (
            (row_bytes > attribute.row_beats * beat_bytes)
            | (row_bytes == 0)
            | row_bytes[: exact_log2(max(beat_bytes, ROW_BYTES))].any()
        )
        return [
            Check(row, row_bytes),
            Check(command.vertices > (1 << attribute.id_bits), command.vertices),
            Check(command.first_vertex != 0, command.first_vertex),
            Check(command.tiles == 0, command.tiles),
        ]

    def _sample_checks(self, command: Any) -> list[Check]:
        """Operands of a SAMPLE that need no counting."""
        return [
            *self._graph_checks(command),
            Check(command.hops > HOPS_MAX, command.hops),
            Check(command.negatives > self.config.fan_out_max, command.negatives, Error.FAN_OUT),
        ]

    def _fetch_checks(self, command: Any) -> list[Check]:
        """Operands of a FETCH; only a core with a window has rows for PEs."""
        return [
            *self._graph_checks(command),
            Check(command.count > 1 << self.config.attribute.tag_bits, command.count),
            *([] if self.config.window else [Check(command.streamed, command.streamed)]),
        ]

    def _copy_check(self, command: Any) -> Check:
        """Refuse a copy of more lines than the memory has."""
        return Check(command.lines > 1 << len(self.base), command.lines)

    def _copy(self, m: Module, front: CommandFrontEnd, command: Any) -> None:
        """Drive `copy` from the operands of a COPY."""
        request = self.copy.payload
        m.d.comb += [
            request.source.address.eq(front.words(Opcode.COPY, "source")),
            request.source.words.eq(command.lines << exact_log2(LINE_BYTES // WORD_BYTES)),
            request.target.eq(front.beats(Opcode.COPY, "target", self.config.attribute.data_width)),
        ]

    def _settings(self, m: Module, front: CommandFrontEnd, sample: Any, fetch: Any) -> None:
        """Drive `settings` from the operands of a SAMPLE or a FETCH."""
        settings, attribute = self.settings, self.settings.attribute
        fetches = front.opcode == Opcode.FETCH

        def either(name: str, address: Any = None) -> Any:
            """Return an operand of both, or the address of one."""
            if address is None:
                return Mux(fetches, fetch[name], sample[name])
            return Mux(fetches, address(Opcode.FETCH, name), address(Opcode.SAMPLE, name))

        row_bytes, beat_bytes = either("row_bytes"), self.config.attribute.data_width // 8
        graph = {
            "nodes": either("vertices"),
            "offsets": either("offsets", front.words),
            "edges": either("edges", front.words),
            "edge_count": either("edge_count"),
            "tiles": either("tiles"),
        }
        plan = ("root_count", "fan_out", "hops", "negatives", "seed", "batch")
        m.d.comb += [
            *(part[name].eq(value) for name, value in graph.items() for part in (settings.sample, attribute)),
            *(settings.sample[name].eq(sample[name]) for name in plan),
            settings.sample.roots.eq(front.words(Opcode.SAMPLE, "roots")),
            attribute.attributes.eq(either("attributes", front.words)),
            attribute.row_words.eq(row_bytes >> exact_log2(WORD_BYTES)),
            attribute.beats.eq(row_bytes >> exact_log2(beat_bytes)),
            settings.batch.tree.eq(Mux(fetches, front.line(Opcode.FETCH, "report"), front.line(Opcode.SAMPLE, "tree"))),
            settings.batch.span.eq(sample.span),
            settings.batch.fetch.eq(fetches),
            settings.batch.count.eq(fetch.count),
            settings.rows.eq(either("rows", front.line)),
            settings.slotted.eq(either("slotted")),
            settings.later.eq(~fetches & sample.later),
            settings.streamed.eq(fetches & fetch.streamed),
            settings.nodes.address.eq(front.words(Opcode.FETCH, "nodes")),
            settings.nodes.count.eq(fetch.count),
        ]
