"""A chiplet with gather PEs, working alone on the graph in its memory."""

from amaranth import Cat, Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import COMPLETION, Error, Opcode
from hw.chiplet.command_reader import COMMANDS_AHEAD, CommandReader
from hw.chiplet.command_router import offload_members, route_commands
from hw.chiplet.config import GatherChipletConfig
from hw.chiplet.executor import Executor, Route
from hw.chiplet.gather import GatherUnit
from hw.chiplet.read_gate import ReadGate
from hw.chiplet.task_builder import TaskBuilder
from hw.chiplet.weight_loader import WeightLoader
from hw.contracts import struct
from hw.graph.csr_reader import CsrReader
from hw.memory.axi import AXI4Signature, connect_flat, flat_members
from hw.memory.formats import Word, line_address_width
from hw.memory.range_reader import RangeReader
from hw.memory.read_arbiter import ReadArbiter
from hw.memory.word_serialiser import WordSerialiser
from hw.memory.write_port import WritePort
from hw.pe.group import PEGroup
from hw.pe.router import TaskRouter
from hw.reset import Resettable
from hw.stream.arbiter import Arbiter
from hw.stream.slice import Slice

__all__ = ["Chiplet"]

#: Beats the readers of short streams (offsets, scales) may have asked for: half of it would do, but a block RAM costs
#: less than a distributed one.
_SHORT_DEPTH = 64
_READ_CLIENTS = 5
_ID_WIDTH = 3


class Chiplet(wiring.Component):
    """Runs an image: reads its command list and carries out the commands, all data in its own memory.

    Parameters
    ----------
    config : GatherChipletConfig
    offload
        Opcodes that a unit outside carries out; none by default.

    Attributes
    ----------
    start : stream of line addresses (byte address / 64)
        Where an image lies.
    done : stream of `contracts.COMPLETION`
        How its run ended; one for each start.
    opcode, layer : Out(8)
        Command under way, `Opcode.NOP` between commands.
    working : Out
        Which of the configuration's ``parts`` work in this cycle, for whoever watches.
    m_axi_* : AXI4 manager
        The memory port.
    offload : stream of unsigned(512), offloaded : stream of `ErrorReport`, base : Out
        Commands of the unit outside, its answers, and the line address that their addresses count from. Only there if
        `offload` names opcodes.
    """

    def __init__(self, config: GatherChipletConfig | None = None, offload: tuple[Opcode, ...] = ()) -> None:
        self.config, self.offloads = config or GatherChipletConfig(), offload
        pe = self.config.pe
        self.m_axi = AXI4Signature(pe.address_width, pe.data_width, _ID_WIDTH)
        super().__init__(
            {
                "start": In(stream.Signature(line_address_width(pe.address_width))),
                "done": Out(stream.Signature(struct(COMPLETION))),
                "opcode": Out(8),
                "layer": Out(8),
                "working": Out(len(self.config.parts)),
                **flat_members("m_axi", Out(self.m_axi)),
                **(offload_members(pe.address_width) if offload else {}),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect readers, units, PEs and the memory port."""
        m = Module()
        config, pe = self.config, self.config.pe
        port = (pe.address_width, pe.data_width)
        m.submodules.command_reader = command_reader = CommandReader(*port, ahead=COMMANDS_AHEAD)
        m.submodules.executor = executor = Executor(pe, 4 + config.groups)
        # After a reset and after an error the executor clears all that work on its commands.
        clearable = Resettable(m, "cleared", executor.clear)
        m.submodules.csr = csr = clearable(CsrReader(*port, config.depth, _SHORT_DEPTH))
        m.submodules.scales = scales = clearable(RangeReader(*port, _SHORT_DEPTH))
        m.submodules.scale_words = scale_words = clearable(WordSerialiser(pe.data_width))
        m.submodules.words = words = clearable(WordSerialiser(pe.data_width))
        # Between choosing a word of a beat and comparing it.
        m.submodules.word = word = clearable(Slice(Word()))
        m.submodules.loader = loader = clearable(WeightLoader(pe))
        m.submodules.gather = gather = clearable(GatherUnit(*port, pe.max_beats, config.depth))
        m.submodules.builder = builder = clearable(TaskBuilder(pe))
        groups = [clearable(PEGroup(pe, config.pes)) for _ in range(config.groups)]
        m.submodules.read_gate = read_gate = ReadGate(
            *port, clients=_READ_CLIENTS, most=max(config.depth, _SHORT_DEPTH) + 2
        )
        # Commands are read while others go on that have nothing to do with it: the reader tells by itself what failed.
        m.submodules.read_arbiter = read_arbiter = ReadArbiter(
            *port, clients=_READ_CLIENTS, outstanding=config.depth, silent=(0,)
        )
        m.submodules.write_port = write_port = WritePort(*port, id_width=_ID_WIDTH)

        # Commands.
        connect(m, flipped(self.start), command_reader.i)
        connect(m, command_reader.o, flipped(self.done))
        m.d.comb += [
            executor.base.eq(command_reader.base),
            self.opcode.eq(executor.opcode),
            self.layer.eq(executor.layer),
        ]
        if self.offloads:
            route_commands(m, self, self.offloads, command_reader, executor)
        else:
            connect(m, command_reader.command, executor.command)
            connect(m, executor.executed, command_reader.executed)

        # Memory.
        connect_flat(m, self, "m_axi", read_arbiter.m_axi)
        connect_flat(m, self, "m_axi", write_port.m_axi)
        clients = [
            (command_reader.request, command_reader.beat),
            (csr.requests[0], csr.beats[0]),
            (csr.requests[1], csr.beats[1]),
            (scales.request, scales.beat),
            (gather.request, gather.beat),
        ]
        for n, (request, beat) in enumerate(clients):
            connect(m, request, read_gate.i[n])
            connect(m, read_gate.o[n], read_arbiter.requests[n])
            connect(m, read_arbiter.beats[n], beat)
        m.d.comb += [
            read_gate.closed.eq(executor.halt),
            read_gate.answered.eq(Cat(beat.valid & beat.payload.last for beat in read_arbiter.beats).any()),
            executor.unanswered.eq(read_gate.unanswered),
        ]

        # Rows of the CSR reader go where the command says.
        connect(m, executor.csr, csr.i)
        connect(m, executor.scales, scales.i)
        connect(m, scales.o, scale_words.i)
        connect(m, scale_words.o, builder.scales)
        m.d.comb += [
            loader.i.payload.eq(csr.o.payload),
            builder.features.payload.eq(csr.o.payload),
            words.i.payload.data.eq(csr.o.payload.data),
            words.i.payload.mask.eq(csr.o.payload.mask),
            words.i.payload.last.eq(csr.o.payload.last),
            gather.i.payload.eq(word.o.payload),
        ]
        connect(m, words.o, word.i)
        bias = Signal(range(pe.max_out))
        bias_loaded = Signal()
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
        with m.If(executor.start):
            m.d.sync += bias.eq(0)
        with m.Elif(bias_loaded):
            m.d.sync += bias.eq(bias + 1)

        # Tasks.
        connect(m, gather.o, builder.rows)
        if config.groups == 1:
            tasks = [builder.o]
        else:
            m.submodules.router = router = clearable(TaskRouter(pe, config.groups))
            connect(m, builder.o, router.i)
            tasks = list(router.o)
        for unit in (loader, gather, builder):
            m.d.comb += unit.start.eq(executor.start)
        m.d.comb += [
            loader.settings.eq(executor.settings),
            builder.settings.eq(executor.task_settings),
            gather.settings.eq(executor.gather_settings),
        ]
        for n, group in enumerate(groups):
            m.submodules[f"group_{n}"] = group
            m.d.comb += self.working.word_select(n, config.pes).eq(group.working)
            connect(m, tasks[n], group.i)
            # Weights have a long way to the memories of the PEs, and until the first feature all the time.
            m.d.sync += [
                group.weight_write.valid.eq(loader.o.valid),
                group.weight_write.payload.eq(loader.o.payload),
            ]
            m.d.comb += [
                group.settings.eq(executor.settings),
                group.bias_write.valid.eq(bias_loaded),
                group.bias_write.payload.address.eq(bias),
                group.bias_write.payload.data.eq(word.o.payload.data),
            ]

        # Results.
        if config.groups == 1:
            row, row_valid, row_ready = groups[0].o.payload, groups[0].o.valid, groups[0].o.ready
        else:
            m.submodules.arbiter = arbiter = clearable(Arbiter(pe.row_beat, config.groups))
            for n, group in enumerate(groups):
                connect(m, group.o, arbiter.i[n])
            row, row_valid, row_ready = arbiter.o.payload.payload, arbiter.o.valid, arbiter.o.ready
        written = Signal()
        m.d.comb += [
            write_port.i.valid.eq(row_valid & ~executor.halt),
            row_ready.eq(write_port.i.ready & ~executor.halt),
            write_port.i.payload.address.eq(row.address),
            write_port.i.payload.data.eq(row.data),
            write_port.i.payload.strobe.eq(~0),
            written.eq(row_valid & row_ready & row.last),
        ]
        # The write port is busy from the cycle after it has taken a beat, when the count has moved too.
        m.d.comb += [
            executor.progress.eq(written | loader.row_loaded | bias_loaded),
            executor.reading.eq(csr.busy),
            executor.writing.eq(write_port.busy | write_port.failure.valid),
        ]

        # Errors. They are found late in a cycle, so the executor hears of them in the next one. It is still at work
        # then: the row that they belong to is on its way, and its end is what the executor counts; after the last error
        # of a request the CSR reader is busy for two cycles more; a failed write is under way until it is heard of.
        for n, source in enumerate((csr.error, gather.error)):
            m.d.sync += [executor.errors[n].valid.eq(source.valid), executor.errors[n].payload.eq(source.payload)]
        reports = [
            (read_arbiter.failure, Error.MEMORY_READ),
            (write_port.failure, Error.MEMORY_WRITE),
            *((group.index_error, Error.INDEX_RANGE) for group in groups),
        ]
        for n, (report, code) in enumerate(reports, start=2):
            m.d.comb += executor.errors[n].payload.code.eq(code)
            m.d.sync += [
                executor.errors[n].valid.eq(report.valid),
                executor.errors[n].payload.info.eq(report.payload),
            ]
        return m
