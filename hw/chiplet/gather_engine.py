"""Gather engine: combines and aggregates row by row with gather PEs."""

from typing import Any

from amaranth import Cat, Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped

from contracts import Error, Opcode
from hw.chiplet.config import GatherChipletConfig
from hw.chiplet.executor import Executor, Route
from hw.chiplet.gather import GatherUnit, Source, gather_unit
from hw.chiplet.read_gate import ReadGate
from hw.chiplet.task_builder import TaskBuilder
from hw.chiplet.unit import FurtherPort, engine_members
from hw.chiplet.weight_loader import WeightLoader
from hw.graph.csr_reader import CsrReader
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser
from hw.pe.group import PEGroup
from hw.pe.router import TaskRouter
from hw.reset import Resettable
from hw.stream.arbiter import Arbiter
from hw.stream.slice import Slice

__all__ = ["GatherEngine"]

#: Beats that the readers of short streams (offsets, scales) may have asked for: half of it would do, but a block RAM
#: costs less than a distributed one.
_SHORT_DEPTH = 64
_READ_CLIENTS = 4


class GatherEngine(wiring.Component):
    """Carries out LOAD_WEIGHTS, COMBINE and AGGREGATE, and refuses commands that it does not have.

    Parameters
    ----------
    config : GatherChipletConfig
    once
        Leave out what repeats, to be generated apart: nothing does.

    Attributes
    ----------
    command, executed, ...
        As for `hw.chiplet.unit.Engine`.
    """

    OPCODES: tuple[Opcode, ...] = ()
    id_width = 3

    def __init__(self, config: GatherChipletConfig | None = None, *, once: bool = False) -> None:
        self.config, self.clients = config or GatherChipletConfig(), _READ_CLIENTS
        self.port, self.outstanding = self.config.port, self.config.depth
        self.modules: dict[str, wiring.Component] = {}
        self.further: list[FurtherPort] = []
        super().__init__(engine_members(self.config, self.clients))

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect readers, units and PEs."""
        m = Module()
        config, pe = self.config, self.config.pe
        m.submodules.executor = executor = Executor(pe, 4 + config.groups)
        # After a reset and after an error the executor clears all that work on its commands.
        clearable = Resettable(m, "cleared", executor.clear)
        m.submodules.csr = csr = clearable(CsrReader(*self.port, config.depth, _SHORT_DEPTH))
        m.submodules.scales = scales = clearable(RangeReader(*self.port, _SHORT_DEPTH))
        m.submodules.scale_words = scale_words = clearable(WordSerialiser(pe.data_width))
        m.submodules.words = words = clearable(WordSerialiser(pe.data_width))
        # Between choosing a word of a beat and comparing it.
        m.submodules.word = word = clearable(Slice(Source))
        m.submodules.loader = loader = clearable(WeightLoader(pe))
        m.submodules.gather = gather = clearable(gather_unit(pe, config.depth))
        m.submodules.builder = builder = clearable(TaskBuilder(pe))
        groups = [clearable(PEGroup(pe, config.pes)) for _ in range(config.groups)]
        for n, group in enumerate(groups):
            m.submodules[f"group_{n}"] = group
            m.d.comb += self.working.word_select(n, config.pes).eq(group.working)

        connect(m, flipped(self.command), executor.command)
        connect(m, executor.executed, flipped(self.executed))
        m.d.comb += [
            executor.base.eq(self.base),
            self.opcode.eq(executor.opcode),
            self.layer.eq(executor.layer),
        ]
        self._connect_memory(m, executor, csr, [scales, gather])
        connect(m, executor.csr, csr.i)
        connect(m, executor.scales, scales.i)
        connect(m, scales.o, scale_words.i)
        connect(m, scale_words.o, builder.scales)
        bias_loaded = self._route_rows(m, executor, csr, words, word, loader, gather, builder)
        self._load_parameters(m, executor, loader, bias_loaded, word.o.payload.data, groups)
        self._connect_tasks(m, clearable, executor, gather, builder, groups)
        written = self._connect_results(m, clearable, executor, groups)
        # The write port is busy from the cycle after it has taken a beat, when the count has moved too.
        m.d.comb += [
            executor.progress.eq(written | loader.row_loaded | bias_loaded),
            executor.reading.eq(csr.busy),
            executor.writing.eq(self.writing | self.errors[1].valid),
        ]
        self._report_errors(m, executor, csr, gather, groups)
        return m

    def _connect_memory(self, m: Module, executor: Executor, csr: CsrReader, readers: list[Any]) -> None:
        """Lead the requests of all readers through the gate that the executor closes."""
        m.submodules.read_gate = gate = ReadGate(
            *self.port, clients=_READ_CLIENTS, most=max(self.config.depth, _SHORT_DEPTH) + 2
        )
        ends = [(csr.requests[n], csr.beats[n]) for n in range(2)]
        ends += [(reader.request, reader.beat) for reader in readers]
        for n, (request, beat) in enumerate(ends):
            connect(m, request, gate.i[n])
            connect(m, gate.o[n], flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)
        m.d.comb += [
            gate.closed.eq(executor.halt),
            gate.answered.eq(Cat(beat.valid & beat.payload.last for beat in self.beats).any()),
            executor.unanswered.eq(gate.unanswered),
        ]

    def _route_rows(
        self,
        m: Module,
        executor: Executor,
        csr: CsrReader,
        words: WordSerialiser,
        word: Slice,
        loader: WeightLoader,
        gather: GatherUnit,
        builder: TaskBuilder,
    ) -> Signal:
        """Send the rows of the CSR reader where the command says; return the signal that `word` offers a bias."""
        row = csr.o.payload
        bias_loaded = Signal()
        m.d.comb += [
            loader.i.payload.eq(row),
            builder.features.payload.eq(row),
            words.i.payload.data.eq(row.data),
            words.i.payload.mask.eq(row.mask),
            words.i.payload.last.eq(row.last),
            words.paired.eq(executor.gather_settings.weighted),
            word.i.valid.eq(words.o.valid),
            words.o.ready.eq(word.i.ready),
            word.i.payload.data.eq(words.o.payload.data),
            word.i.payload.weight.eq(words.second),
            word.i.payload.last.eq(words.o.payload.last),
            word.i.payload.empty.eq(words.o.payload.empty),
            gather.i.payload.eq(word.o.payload),
        ]
        with m.Switch(executor.route):
            with m.Case(Route.WEIGHTS):
                m.d.comb += [loader.i.valid.eq(csr.o.valid), csr.o.ready.eq(loader.i.ready)]
            with m.Case(Route.FEATURES):
                m.d.comb += [builder.features.valid.eq(csr.o.valid), csr.o.ready.eq(builder.features.ready)]
            with m.Case(Route.BIASES):
                m.d.comb += [words.i.valid.eq(csr.o.valid), csr.o.ready.eq(words.i.ready)]
                m.d.comb += [bias_loaded.eq(word.o.valid), word.o.ready.eq(1)]
            with m.Case(Route.SOURCES):
                m.d.comb += [words.i.valid.eq(csr.o.valid), csr.o.ready.eq(words.i.ready)]
                m.d.comb += [gather.i.valid.eq(word.o.valid), word.o.ready.eq(gather.i.ready)]
        return bias_loaded

    def _load_parameters(
        self,
        m: Module,
        executor: Executor,
        loader: WeightLoader,
        bias_loaded: Signal,
        value: Any,
        groups: list[PEGroup],
    ) -> None:
        """Write weights and biases into all PEs."""
        bias = Signal(range(self.config.pe.max_out))
        with m.If(executor.start):
            m.d.sync += bias.eq(0)
        with m.Elif(bias_loaded):
            m.d.sync += bias.eq(bias + 1)
        m.d.comb += [loader.start.eq(executor.start), loader.settings.eq(executor.settings)]
        for group in groups:
            # Weights have a long way to the memories of the PEs, and until the first feature all the time.
            m.d.sync += [
                group.weight_write.valid.eq(loader.o.valid),
                group.weight_write.payload.eq(loader.o.payload),
            ]
            m.d.comb += [
                group.settings.eq(executor.settings),
                group.bias_write.valid.eq(bias_loaded),
                group.bias_write.payload.address.eq(bias),
                group.bias_write.payload.data.eq(value),
            ]

    def _connect_tasks(
        self,
        m: Module,
        clearable: Resettable,
        executor: Executor,
        gather: GatherUnit,
        builder: TaskBuilder,
        groups: list[PEGroup],
    ) -> None:
        """Share tasks out to the groups."""
        m.d.comb += [
            gather.start.eq(executor.start),
            gather.settings.eq(executor.gather_settings),
            builder.start.eq(executor.start),
            builder.settings.eq(executor.task_settings),
        ]
        connect(m, gather.o, builder.rows)
        tasks = [builder.o]
        if len(groups) > 1:
            m.submodules.router = router = clearable(TaskRouter(self.config.pe, len(groups)))
            connect(m, builder.o, router.i)
            tasks = list(router.o)
        for task, group in zip(tasks, groups, strict=True):
            connect(m, task, group.i)

    def _connect_results(self, m: Module, clearable: Resettable, executor: Executor, groups: list[PEGroup]) -> Signal:
        """Write the rows of all groups in turn; return the signal that the last beat of a row is handed on."""
        results: Any = groups[0].o
        row = results.payload
        if len(groups) > 1:
            m.submodules.arbiter = arbiter = clearable(Arbiter(self.config.pe.row_beat, len(groups)))
            for n, group in enumerate(groups):
                connect(m, group.o, arbiter.i[n])
            results, row = arbiter.o, arbiter.o.payload.payload
        written = Signal()
        m.d.comb += [
            self.write.valid.eq(results.valid & ~executor.halt),
            results.ready.eq(self.write.ready & ~executor.halt),
            self.write.payload.address.eq(row.address),
            self.write.payload.data.eq(row.data),
            self.write.payload.strobe.eq(~0),
            written.eq(results.valid & results.ready & row.last),
        ]
        return written

    def _report_errors(
        self, m: Module, executor: Executor, csr: CsrReader, gather: GatherUnit, groups: list[PEGroup]
    ) -> None:
        """Report all errors to the executor, a cycle later because they are found late in a cycle.

        It is still at work then: the row that they belong to is on its way, and its end is what the executor counts;
        after the last error of a request the CSR reader is busy for two cycles more; a failed write counts as under way
        until it is reported.
        """
        for n, source in enumerate((csr.error, gather.error)):
            m.d.sync += [executor.errors[n].valid.eq(source.valid), executor.errors[n].payload.eq(source.payload)]
        reports = [(error.valid, error.payload.code, error.payload.info) for error in self.errors]
        reports += [(group.index_error.valid, Error.INDEX_RANGE, group.index_error.payload) for group in groups]
        for n, (valid, code, info) in enumerate(reports, start=2):
            m.d.comb += executor.errors[n].payload.code.eq(code)
            m.d.sync += [executor.errors[n].valid.eq(valid), executor.errors[n].payload.info.eq(info)]
