# mypy: disable-error-code="attr-defined,index"
"""Neural unit: runs a program of a neural chip over rows in memory (D5, D7, D8)."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Cover, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped
from amaranth.utils import exact_log2

from contracts import ROW_BYTES, VALUE_BITS, Error, Opcode
from contracts.dnp.config import ProcessorConfig
from contracts.dnp.gbus import on
from contracts.dnp.isa import StopCode
from contracts.dnp.topology import CHIP, PROGRAM_WORDS, edge_ports
from contracts.parameters import Parameters, part, size
from contracts.weights import GRANULE
from hw.chiplet.unit import unit_members
from hw.command.checks import Check, refuse
from hw.command.front_end import CommandFrontEnd
from hw.dnp.chip import CORE_MODULE, NeuralChip
from hw.dnp.core import Core
from hw.dnp.range_words import RangeWords
from hw.dnp.result_writer import ResultWriter
from hw.dnp.row_feeder import RowFeeder
from hw.memory.formats import WORD_BYTES
from hw.memory.unit_port import UNIT_ID_WIDTH, UNIT_OUTSTANDING
from hw.reset import Resettable

__all__ = ["NeuralConfig", "NeuralUnit"]

#: Cycle in which a command is accepted or refused.
_DECIDED = 2
#: Clocks from the word that starts programs until the chip is on-line.
_START_CLOCKS = 3
#: Beats of a program that may be asked for: few would do, but a block RAM costs less than a distributed one.
_PROGRAM_DEPTH = 64


@dataclass(frozen=True)
class NeuralConfig(Parameters):
    """Sizes of a neural unit.

    Parameters
    ----------
    core
        Sizes of each of the chip's four processors.
    queue
        Words of 32 bits queued in front of each processor; with a row of input, no processor waits for another's row.
    depth
        Most outstanding beats of rows; as many as hide the memory's latency in cycles.
    patience
        Clocks without a word in or out after which a program is aborted.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    core: ProcessorConfig = part(ProcessorConfig, flat=True)
    queue: int = size(128, 3, 4096)
    depth: int = size(64, 16, 1024)
    patience: int = size(1 << 20, 1, 1 << 31)


class NeuralUnit(wiring.Component):
    """Loads a program into the chip, streams rows through its processors, writes what they make of them.

    Row r goes to processor r mod 4, at the port that `contracts.dnp.topology.edge_ports` names; what leaves at the
    other port named there is row r of the results. The command ends when all of these are in memory.

    Parameters
    ----------
    config : NeuralConfig
    address_width, data_width
        Widths of the memory port, in bits.
    once
        As for `hw.dnp.chip.NeuralChip`.

    Attributes
    ----------
    command : stream of unsigned(512)
    executed : stream of `ErrorReport`
        ``BAD_OPERAND`` with a size that is 0, a program that is too long or ends within a frame, or an address beyond
        the address space; ``NEURAL``; ``MEMORY_READ``; ``MEMORY_WRITE``. After the first error nothing new is asked of
        the memory.
    base : In
        Line address that a command's addresses count from; constant while one is under way.
    write : stream of `WriteRequest`
    writing : In(1)
        Writes have no answer yet.
    errors : streams of `ErrorReport`, always ready
        Failures of the memory port: reads and writes.
    requests, beats
        Clients' ends of the read arbiter: program, rows.
    """

    #: What it carries out.
    OPCODES = (Opcode.NEURAL,)
    id_width, outstanding = UNIT_ID_WIDTH, UNIT_OUTSTANDING

    def __init__(
        self, config: NeuralConfig | None = None, address_width: int = 32, data_width: int = 256, *, once: bool = False
    ) -> None:
        self.config, self.port, self.once = config or NeuralConfig(), (address_width, data_width), once
        self.clients = 2
        self._front = CommandFrontEnd(dict.fromkeys(self.OPCODES, _DECIDED), address_width, error_sources=2)
        super().__init__(unit_members(self.port, self.clients))

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """Components that are left out because of `once`, by the name of their module."""
        return {CORE_MODULE: Core(self.config.core, counters=0)} if self.once else {}

    def elaborate(self, platform: object) -> Module:
        """Connect readers, chip and collectors; walk through a command."""
        m = Module()
        config = self.config
        m.submodules.front = front = self._front
        connect(m, flipped(self.command), front.command)
        connect(m, front.executed, flipped(self.executed))
        for outer, inner in zip(self.errors, front.errors, strict=True):
            connect(m, flipped(outer), inner)
        m.d.comb += front.base.eq(self.base)
        command = front.view(Opcode.NEURAL)
        # Two registers, set on the way into IDLE and RUN and out of them: one resets every processor, words of all wait
        # for the other. After a failure that comes while programs run, words move for one cycle more.
        idle, running, flushing = Signal(init=1), Signal(), Signal()
        clearable = Resettable(m, "working", idle)
        m.submodules.chip = clearable(chip := NeuralChip(config.core, counters=0, once=self.once))
        m.submodules.feeder = clearable(feeder := RowFeeder(CHIP.processors, config.queue))
        m.submodules.program = program = RangeWords(*self.port, _PROGRAM_DEPTH)
        m.submodules.rows = rows = RangeWords(*self.port, config.depth)
        m.submodules.results = results = ResultWriter(*self.port)
        for n, reader in enumerate((program, rows)):
            connect(m, reader.request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), reader.beat)
        connect(m, results.o, flipped(self.write))
        # A program may ask for words that nobody reads.
        m.d.comb += chip.g_o.ready.eq(1)
        row_words = self._refuse(m, results)
        self._connect_chip(m, chip, feeder, rows, results, flushing)
        stops = self._watch(m, chip, results, running)

        half, waited, placed = Signal(), Signal(range(_START_CLOCKS + 1)), Signal(range(CHIP.processors))
        rows_left, missing = Signal(32), Signal(32)  # rows not yet asked for, not yet handed to the write port
        address = Signal.like(rows.i.payload.address)
        m.d.sync += [results.start.eq(0), missing.eq(missing - results.row_ends)]
        m.d.comb += [
            results.idle.eq(idle),
            results.running.eq(running),
            program.i.payload.address.eq(front.words(Opcode.NEURAL, "program")),
            program.i.payload.words.eq(command.words),
            rows.i.payload.address.eq(address),
            rows.i.payload.words.eq((command.f_in + 1) >> 1),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [
                    half.eq(0),
                    waited.eq(0),
                    placed.eq(0),
                    address.eq(front.words(Opcode.NEURAL, "rows")),
                    rows_left.eq(command.vertices),
                    missing.eq(command.vertices),
                ]
                with m.If(front.start):
                    m.d.sync += idle.eq(0)
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += program.i.valid.eq(1)
                with m.If(program.i.ready):
                    m.next = "LOAD"
            with m.State("LOAD"):
                word = program.o.payload
                m.d.comb += [
                    chip.g_i.valid.eq(program.o.valid),
                    chip.g_i.payload.eq(word.data.word_select(half, VALUE_BITS)),
                    program.o.ready.eq(chip.g_i.ready & half),
                ]
                with m.If(chip.g_i.valid & chip.g_i.ready):
                    m.d.sync += half.eq(~half)
                    with m.If(half & word.last):
                        m.next = "PLACE"
                with m.If(front.failed):
                    m.next = "FLUSH"
            with m.State("PLACE"):
                m.d.sync += [results.start.eq(1 << placed), placed.eq(placed + 1)]
                with m.If(placed == CHIP.processors - 1):
                    m.next = "START"
            with m.State("START"):
                m.d.comb += [chip.g_i.valid.eq(1), chip.g_i.payload.eq(on()[0])]
                with m.If(chip.g_i.ready):
                    m.next = "WAIT"
            with m.State("WAIT"):
                m.d.sync += waited.eq(waited + 1)
                with m.If(chip.online):
                    m.d.sync += running.eq(1)
                    m.next = "RUN"
                with m.Elif(waited == _START_CLOCKS):
                    # The chip took the word for a part of a frame that has not ended.
                    m.d.comb += [front.own.valid.eq(1), front.own.payload.code.eq(Error.BAD_OPERAND)]
                    m.d.comb += front.own.payload.info.eq(command.words)
                    m.next = "FLUSH"
            with m.State("RUN"):
                m.d.comb += rows.i.valid.eq((rows_left != 0) & ~front.failed)
                with m.If(rows.i.valid & rows.i.ready):
                    m.d.sync += [rows_left.eq(rows_left - 1), address.eq(address + row_words)]
                with m.If(front.failed | (missing == 0)):
                    m.d.sync += running.eq(0)
                    m.next = "FLUSH"
                with m.Else():
                    # Of several the lowest number counts, and a processor's own error first.
                    for wrong, info in reversed(stops):
                        with m.If(wrong):
                            m.d.comb += [front.own.valid.eq(1), front.own.payload.code.eq(Error.NEURAL)]
                            m.d.comb += front.own.payload.info.eq(info)
            with m.State("FLUSH"):
                m.d.comb += [flushing.eq(1), program.o.ready.eq(1)]
                with m.If(~program.busy & ~rows.busy & ~results.moving & ~self.writing):
                    m.d.comb += front.done.eq(1)
                    m.d.sync += idle.eq(1)
                    m.next = "IDLE"
        m.d.sync += Cover(flushing & rows.o.valid, "rows that nobody wants")
        return m

    def _refuse(self, m: Module, results: ResultWriter) -> Any:
        """Check the command and set up the results; return the words from one input row to the next."""
        front, data_width = self._front, self.port[1]
        command = front.view(Opcode.NEURAL)
        words = (command.words == 0) | (command.words > PROGRAM_WORDS)
        sizes = (("f_in", command.f_in == 0), ("f_out", command.f_out == 0))
        checks = [Check(wrong, command[name]) for name, wrong in (("words", words), *sizes)]
        refuse(m, front, {Opcode.NEURAL: checks})
        most = (1 << VALUE_BITS) // GRANULE
        granules = {name: Signal(range(most + 1), name=f"{name}_granules") for name in ("f_in", "f_out")}
        m.d.sync += (count.eq((command[name] + GRANULE - 1) >> exact_log2(GRANULE)) for name, count in granules.items())
        m.d.comb += [
            results.place.eq(front.beats(Opcode.NEURAL, "results", data_width)),
            results.row_beats.eq(granules["f_out"] << exact_log2(ROW_BYTES * 8 // data_width)),
            results.vertices.eq(command.vertices),
            results.elements.eq(command.f_out),
        ]
        return granules["f_in"] << exact_log2(ROW_BYTES // WORD_BYTES)

    def _connect_chip(
        self, m: Module, chip: NeuralChip, feeder: RowFeeder, rows: RangeWords, results: ResultWriter, flushing: Any
    ) -> None:
        """Lead rows into the chip's edges and results out; while flushing, rows are thrown away."""
        connect(m, rows.o, feeder.i)
        with m.If(flushing):
            m.d.comb += [feeder.i.valid.eq(0), rows.o.ready.eq(1)]
        m.d.comb += feeder.elements.eq(self._front.view(Opcode.NEURAL).f_in)
        edges = chip.grid.edges()
        for n in range(CHIP.processors):
            inward, outward = (edges.index(edge) for edge in edge_ports(n))
            # There are no words before programs run, and none that count afterwards.
            connect(m, feeder.o[n], chip.i[inward])
            connect(m, chip.o[outward], results.i[n])

    def _watch(self, m: Module, chip: NeuralChip, results: ResultWriter, running: Any) -> list[tuple[Any, Any]]:
        """Watch programs that end or stand still before their results; return conditions and infos, first first."""
        edges = chip.grid.edges()
        ports = [
            (chip.i[edges.index(inward)], chip.o[edges.index(outward)])
            for inward, outward in map(edge_ports, range(CHIP.processors))
        ]
        moves = Cat(port.valid & port.ready for pair in ports for port in pair).any()
        quiet, over = Signal(range(self.config.patience + 1)), Signal()
        m.d.sync += quiet.eq(quiet + 1)
        with m.If(~running | results.moving | moves):
            m.d.sync += quiet.eq(0)
        m.d.sync += over.eq((quiet == self.config.patience) | (chip.halted & ~results.moving & ~results.waiting))
        m.d.sync += Cover(running & (quiet == self.config.patience), "a program stands still")
        stopped = [(stop != StopCode.NONE, Cat(Const(n, 8), stop)) for n, stop in enumerate(chip.stops)]
        return [*stopped, *((over & results.some[n], Const(n, 8)) for n in range(CHIP.processors))]
