# mypy: disable-error-code="attr-defined,index"
"""Neural unit: runs a program of a neural chip over rows in memory (D5, D7, D8)."""

from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Cat, Const, Cover, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import COMMAND_BYTES, COMMANDS, LINE_BYTES, ROW_BYTES, VALUE_BITS, Error, Opcode
from contracts.dnp.config import ProcessorConfig
from contracts.dnp.gbus import on
from contracts.dnp.isa import StopCode
from contracts.dnp.topology import CHIP, PROGRAM_WORDS, edge_ports
from hw.contracts import struct
from hw.dnp.chip import CORE_MODULE, NeuralChip
from hw.dnp.core import Core
from hw.dnp.row_collector import CollectedBeat, RowCollector
from hw.dnp.row_feeder import RowFeeder
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import WORD_BYTES, ReadBeat, ReadRequest, Word, WriteRequest, line_address_width
from hw.memory.range_reader import RangeReader
from hw.memory.word_serialiser import WordSerialiser
from hw.reset import Resettable
from hw.stream.arbiter import Arbiter
from hw.stream.slice import Slice

__all__ = ["NeuralConfig", "NeuralUnit"]

_WORDS_OF_LINE = exact_log2(LINE_BYTES // WORD_BYTES)
_ELEMENTS_OF_GRANULE = ROW_BYTES * 8 // VALUE_BITS
#: Clocks from the word that starts programs until the chip is on-line.
_START_CLOCKS = 3
#: Beats of a program that may be asked for: few would do, but a block RAM costs less than a distributed one.
_PROGRAM_DEPTH = 64
#: Bits of the number of ranges that a reader has not answered.
_OWED_BITS = 16


@dataclass(frozen=True)
class NeuralConfig:
    """Sizes of a neural unit.

    Parameters
    ----------
    core
        Of each of the chip's four processors.
    queue
        Words of 32 bits that wait for a processor, 3..4096: at best a row of input, so that none waits for another's.
    depth
        Beats of rows that may be asked for, 16..1024: the memory's latency in cycles hides behind that many.
    patience
        Clocks without a word in or out after which a program is given up, 1..2^31.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    core: ProcessorConfig = field(default_factory=ProcessorConfig)
    queue: int = 128
    depth: int = 64
    patience: int = 1 << 20

    def __post_init__(self) -> None:
        for name, low, high in (("queue", 3, 4096), ("depth", 16, 1024), ("patience", 1, 1 << 31)):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} must be in {low}..{high}, not {getattr(self, name)!r}")


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
        Line address that a command's addresses count from.
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

    def __init__(
        self, config: NeuralConfig | None = None, address_width: int = 32, data_width: int = 256, *, once: bool = False
    ) -> None:
        self.config, self.port, self.once = config or NeuralConfig(), (address_width, data_width), once
        self.clients = 2
        super().__init__(
            {
                "command": In(stream.Signature(8 * COMMAND_BYTES)),
                "executed": Out(stream.Signature(ErrorReport)),
                "base": In(line_address_width(address_width)),
                "write": Out(stream.Signature(WriteRequest(*self.port))),
                "writing": In(1),
                "errors": In(stream.Signature(ErrorReport, always_ready=True)).array(2),
                "requests": Out(stream.Signature(ReadRequest(*self.port))).array(self.clients),
                "beats": In(stream.Signature(ReadBeat(data_width), always_ready=True)).array(self.clients),
            }
        )

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """Components that are left out because of `once`, by the name of their module."""
        return {CORE_MODULE: Core(self.config.core, counters=0)} if self.once else {}

    def elaborate(self, platform: object) -> Module:
        """Connect readers, chip and collectors; walk through a command."""
        m = Module()
        config, data_width = self.config, self.port[1]
        # Two registers, set on the way into IDLE and RUN and out of them: one resets every processor, words of all wait
        # for the other. After a failure that comes while programs run, words move for one cycle more.
        idle, running = Signal(init=1), Signal()
        flushing = Signal()
        clearable = Resettable(m, "working", idle)
        m.submodules.chip = clearable(chip := NeuralChip(config.core, counters=0, once=self.once))
        m.submodules.feeder = clearable(feeder := RowFeeder(CHIP.processors, config.queue))
        # A program may ask for words that nobody reads.
        m.d.comb += chip.g_o.ready.eq(1)
        program, rows = self._words(m, "program", 0, _PROGRAM_DEPTH), self._words(m, "rows", 1, config.depth)
        owed = [Signal(_OWED_BITS, name=f"owed_{n}") for n in range(self.clients)]
        for count, (asked, answered) in zip(owed, (program, rows), strict=True):
            ends = answered.valid & answered.ready & answered.payload.last
            m.d.sync += count.eq(count + (asked.valid & asked.ready) - ends)

        held = Signal(8 * COMMAND_BYTES, reset_less=True)
        command = data.View(struct(COMMANDS[Opcode.NEURAL]), held)
        lines = {
            name: Signal(1 + max(len(self.base), 32), name=f"{name}_line", reset_less=True)
            for name in ("program", "rows", "results")
        }
        most = (1 << VALUE_BITS) // _ELEMENTS_OF_GRANULE
        granules = {name: Signal(range(most + 1), name=f"{name}_granules") for name in ("f_in", "f_out")}
        m.d.sync += [
            *(line.eq(self.base + command[name]) for name, line in lines.items()),
            *(
                count.eq((command[name] + _ELEMENTS_OF_GRANULE - 1) >> exact_log2(_ELEMENTS_OF_GRANULE))
                for name, count in granules.items()
            ),
        ]

        # What stopped the command: the memory, or a rule below.
        report = Signal(ErrorReport)
        failed = Signal()
        m.d.comb += [failed.eq(report.code != Error.NONE), self.executed.payload.eq(report)]
        for source in reversed(self.errors):
            with m.If(source.valid & ~idle & ~failed):
                m.d.sync += report.eq(source.payload)

        def refuse(code: Error, info: Any) -> None:
            m.d.sync += [report.code.eq(code), report.info.eq(info)]

        # Rows in.
        connect(m, rows[1], feeder.i)
        moves = []
        with m.If(flushing):
            m.d.comb += [feeder.i.valid.eq(0), rows[1].ready.eq(1)]
        m.d.comb += feeder.elements.eq(command.f_in)
        edges = chip.grid.edges()
        for n in range(CHIP.processors):
            edge = chip.i[edges.index(edge_ports(n)[0])]
            # There are no words before programs run, and none that count afterwards.
            connect(m, feeder.o[n], edge)
            moves.append(edge.valid & edge.ready)

        # Rows out.
        collectors = [RowCollector(*self.port) for _ in range(CHIP.processors)]
        m.submodules.arbiter = arbiter = Arbiter(CollectedBeat(*self.port), CHIP.processors)
        for n, collector in enumerate(collectors):
            m.submodules[f"collector_{n}"] = collector
            edge = chip.o[edges.index(edge_ports(n)[1])]
            m.d.comb += [
                collector.elements.eq(command.f_out),
                collector.i.valid.eq(edge.valid & running),
                collector.i.payload.eq(edge.payload),
                edge.ready.eq(collector.i.ready & running),
            ]
            connect(m, collector.o, arbiter.i[n])
            moves.append(edge.valid & edge.ready)
        beat = arbiter.o.payload.payload
        m.d.comb += [
            self.write.valid.eq(arbiter.o.valid),
            self.write.payload.eq(beat.write),
            arbiter.o.ready.eq(self.write.ready),
        ]
        missing, moving = Signal(32), Signal()  # rows not yet handed to the write port; beats are on their way there
        m.d.comb += moving.eq(arbiter.o.valid | Cat(collector.o.valid for collector in collectors).any())
        m.d.sync += missing.eq(missing - (self.write.valid & self.write.ready & beat.last))

        # A program that has ended or stands still before its results.
        quiet, over = Signal(range(config.patience + 1)), Signal()
        m.d.sync += quiet.eq(quiet + 1)
        with m.If(~running | moving | Cat(moves).any()):
            m.d.sync += quiet.eq(0)
        waiting = Cat(collector.i.valid & collector.some for collector in collectors).any()
        m.d.sync += over.eq((quiet == config.patience) | (chip.halted & ~moving & ~waiting))

        half, waited, placed = Signal(), Signal(range(_START_CLOCKS + 1)), Signal(range(CHIP.processors))
        starts = Signal(CHIP.processors)
        m.d.sync += starts.eq(0)
        row_words = granules["f_in"] << exact_log2(ROW_BYTES // WORD_BYTES)
        row_beats = granules["f_out"] << exact_log2(ROW_BYTES * 8 // data_width)
        place, rows_left = Signal.like(collectors[0].place), Signal(32)
        for n, collector in enumerate(collectors):
            m.d.comb += [
                collector.start.eq(starts[n]),
                collector.place.eq(place),
                collector.rows.eq((command.vertices + (CHIP.processors - 1 - n)) >> exact_log2(CHIP.processors)),
                collector.stride.eq(row_beats << exact_log2(CHIP.processors)),
            ]
        # A collector starts a cycle after its turn, and so the place of the next one follows.
        with m.If(starts.any()):
            m.d.sync += place.eq(place + row_beats)
        asks, asked_rows = program[0], rows[0]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.command.ready.eq(1)
                m.d.sync += [held.eq(self.command.payload), report.eq(0), half.eq(0), waited.eq(0), placed.eq(0)]
                with m.If(self.command.valid):
                    m.d.sync += idle.eq(0)
                    m.next = "MEASURE"
            with m.State("MEASURE"):
                m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += [
                    asks.payload.address.eq(lines["program"] << _WORDS_OF_LINE),
                    asks.payload.words.eq(command.words),
                    asked_rows.payload.address.eq(lines["rows"] << _WORDS_OF_LINE),
                    asked_rows.payload.words.eq((command.f_in + 1) >> 1),
                    place.eq(lines["results"] << exact_log2(8 * LINE_BYTES // data_width)),
                    rows_left.eq(command.vertices),
                    missing.eq(command.vertices),
                ]
                m.next = "ASK"
                wrong = {
                    **{name: line[len(self.base) :].any() for name, line in lines.items()},
                    "f_out": command.f_out == 0,
                    "f_in": command.f_in == 0,
                    "words": (command.words == 0) | (command.words > PROGRAM_WORDS),
                }
                for name, is_wrong in wrong.items():
                    with m.If(is_wrong):
                        refuse(Error.BAD_OPERAND, command[name])
                        m.next = "ANSWER"
            with m.State("ASK"):
                m.d.comb += asks.valid.eq(1)
                with m.If(asks.ready):
                    m.next = "LOAD"
            with m.State("LOAD"):
                word = program[1].payload
                m.d.comb += [
                    chip.g_i.valid.eq(program[1].valid),
                    chip.g_i.payload.eq(word.data.word_select(half, VALUE_BITS)),
                    program[1].ready.eq(chip.g_i.ready & half),
                ]
                with m.If(chip.g_i.valid & chip.g_i.ready):
                    m.d.sync += half.eq(~half)
                    with m.If(half & word.last):
                        m.next = "PLACE"
                with m.If(failed):
                    m.next = "FLUSH"
            with m.State("PLACE"):
                m.d.sync += [starts.eq(1 << placed), placed.eq(placed + 1)]
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
                    refuse(Error.BAD_OPERAND, command.words)
                    m.next = "FLUSH"
            with m.State("RUN"):
                m.d.comb += asked_rows.valid.eq((rows_left != 0) & ~failed)
                with m.If(asked_rows.valid & asked_rows.ready):
                    m.d.sync += rows_left.eq(rows_left - 1)
                    m.d.sync += asked_rows.payload.address.eq(asked_rows.payload.address + row_words)
                with m.If(failed | (missing == 0)):
                    m.d.sync += running.eq(0)
                    m.next = "FLUSH"
                with m.Else():
                    # Of several the lowest number counts, and a processor's own error first.
                    for n in reversed(range(CHIP.processors)):
                        with m.If(over & collectors[n].some):
                            refuse(Error.NEURAL, n)
                    for n, stop in reversed(list(enumerate(chip.stops))):
                        with m.If(stop != StopCode.NONE):
                            refuse(Error.NEURAL, Cat(Const(n, 8), stop))
            with m.State("FLUSH"):
                m.d.comb += [flushing.eq(1), program[1].ready.eq(1)]
                with m.If((owed[0] == 0) & (owed[1] == 0) & ~moving & ~self.writing):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += self.executed.valid.eq(1)
                with m.If(self.executed.ready):
                    m.d.sync += idle.eq(1)
                    m.next = "IDLE"
        m.d.sync += [
            Cover(running & (quiet == config.patience), "a program stands still"),
            Cover(flushing & rows[1].valid, "rows that nobody wants"),
        ]
        return m

    def _words(self, m: Module, name: str, client: int, depth: int) -> tuple[Any, Any]:
        """Add a reader of ranges; return its requests and its words."""
        reader, words = RangeReader(*self.port, depth), WordSerialiser(self.port[1])
        m.submodules[f"{name}_reader"], m.submodules[f"{name}_words"] = reader, words
        connect(m, reader.request, flipped(self.requests[client]))
        connect(m, flipped(self.beats[client]), reader.beat)
        connect(m, reader.o, words.i)
        # Between choosing a word of a beat and what the chip, or a feeder's queue, makes of it.
        m.submodules[f"{name}_word"] = word = Slice(Word())
        connect(m, words.o, word.i)
        return reader.i, word.o
