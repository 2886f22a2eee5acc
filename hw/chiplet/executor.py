"""Executor: carries out one command at a time by setting up the units and counting what they finish."""

from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for, exact_log2

from contracts import COMMAND_BYTES, COMMANDS, LINE_BYTES, ROW_BYTES, VALUE_BITS, Activation, Error, Opcode
from hw.chiplet.gather import GatherSettings
from hw.chiplet.task_builder import TaskSettings
from hw.contracts import struct
from hw.graph.csr_reader import CsrRequest, ErrorReport
from hw.memory.formats import WORD_BYTES, RangeRequest, line_address_width
from hw.pe.formats import Mode, PEConfig

__all__ = ["Executor", "Route"]

_WORDS_OF_LINE = exact_log2(LINE_BYTES // WORD_BYTES)
_WORDS_OF_GRANULE = ROW_BYTES // WORD_BYTES
_ELEMENTS_OF_GRANULE = exact_log2(ROW_BYTES * 8 // VALUE_BITS)
#: Most rows of a weight matrix: a sparse entry names one with 16 bits.
_MAX_IN = 1 << 16
#: Most addresses of a command.
_MOST_LINES = 5
#: Offsets are counted in 32 bits, and there is one more than segments.
_MAX_SEGMENTS = (1 << 32) - 2


class Route(enum.Enum, shape=2):  # type: ignore[call-arg]
    """Where the rows of the CSR reader go."""

    WEIGHTS = 0
    BIASES = 1
    FEATURES = 2
    SOURCES = 3


class Executor(wiring.Component):
    """Checks a command's operands, starts the units, and answers when all its results are in memory.

    After the first error of a command nothing new is asked of the memory; when all that was asked has been answered,
    the units are cleared, so that a command ends soon whatever its operands and data are.

    Parameters
    ----------
    config : PEConfig
    error_sources
        Number of units that report errors.

    Attributes
    ----------
    base : In
        Line address that a command's addresses count from.
    command : stream of unsigned(512)
    executed : stream of `ErrorReport`
        First error of the command, or code 0. ``BAD_OPERAND`` has the operand: a size beyond the configuration, an
        address beyond the address space, or the number of vertices where they have too many segments.
    errors : streams of `ErrorReport`, always ready
        What the units report; with several in one cycle the lowest counts. Only a command under way has errors.
    opcode, layer : Out
        Command under way, for counters; `Opcode.NOP` while idle.
    route : Out(Route)
    settings, task_settings, gather_settings : Out
        Constant while units work.
    start : Out(1)
        Units forget the request before.
    csr : stream of `CsrRequest`
    scales : stream of `RangeRequest`
    progress : In(1)
        A weight row or a bias has been loaded, or the last beat of a result row handed to the write port.
    reading, writing : In(1)
        The CSR reader, or the write port, is busy.
    halt : Out(1)
        After a reset or an error: no request to read and no beat to write may pass from the units to the memory.
    unanswered : In(1)
        Reads that have passed have no answer yet.
    clear : Out(1)
        A register: the units return to their first state; nothing of theirs is under way. It is their only reset, and
        so comes after each one of the executor too.
    """

    def __init__(self, config: PEConfig, error_sources: int) -> None:
        self.config = config
        super().__init__(
            {
                "base": In(line_address_width(config.address_width)),
                "command": In(stream.Signature(unsigned(8 * COMMAND_BYTES))),
                "executed": Out(stream.Signature(ErrorReport)),
                "errors": In(stream.Signature(ErrorReport, always_ready=True)).array(error_sources),
                "opcode": Out(8),
                "layer": Out(8),
                "route": Out(Route),
                "settings": Out(config.settings),
                "task_settings": Out(TaskSettings(config)),
                "gather_settings": Out(GatherSettings(config.address_width, config.data_width, config.max_beats)),
                "start": Out(1),
                "csr": Out(stream.Signature(CsrRequest(config.address_width))),
                "scales": Out(stream.Signature(RangeRequest(config.address_width))),
                "progress": In(1),
                "reading": In(1),
                "writing": In(1),
                "halt": Out(1, init=1),
                "unanswered": In(1),
                "clear": Out(1, init=1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the checks and the set-up of each opcode."""
        m = Module()
        config = self.config
        beats_of_line = exact_log2(8 * LINE_BYTES // config.data_width)
        beats_of_granule = ROW_BYTES * 8 // config.data_width

        # What no opcode uses is not kept.
        most = max(layout.offsets.get("reserved", 8 * COMMAND_BYTES) for layout in COMMANDS.values())
        kept = Signal(most, reset_less=True)
        bits = Cat(kept, Const(0, 8 * COMMAND_BYTES - len(kept)))
        head = data.View(struct(COMMANDS[Opcode.NOP]), bits)
        load = data.View(struct(COMMANDS[Opcode.LOAD_WEIGHTS]), bits)
        combine = data.View(struct(COMMANDS[Opcode.COMBINE]), bits)
        aggregate = data.View(struct(COMMANDS[Opcode.AGGREGATE]), bits)

        report = Signal(ErrorReport)
        working = Signal()
        failed = report.code != Error.NONE
        m.d.comb += self.executed.payload.eq(report)
        for source in reversed(self.errors):
            with m.If(source.valid & working & ~failed):
                m.d.sync += report.eq(source.payload)

        # Derived from the command before anything starts, in three steps, because each of them is a long carry chain:
        # sizes and line addresses chosen by opcode; rows measured and addresses counted from the base; one product.
        # The last two follow the first by themselves, in MEASURE, CHECK and MULTIPLY.
        f_in, f_out = Signal(32, reset_less=True), Signal(16, reset_less=True)
        vertices = Signal(32, reset_less=True)
        lines = [Signal(32, name=f"line{k}", reset_less=True) for k in range(_MOST_LINES)]
        sum_bits = 1 + max(len(self.base), 32)
        sums = [Signal(sum_bits, name=f"sum{k}", reset_less=True) for k in range(_MOST_LINES)]
        # A width that is not refused is at most `max_out`, and a number of inputs at most `weight_rows`.
        width = f_out[: bits_for(config.max_out)]
        inputs = f_in[: bits_for(config.weight_rows)]
        last_chunk = Signal(range(config.max_chunks))  # of an output row
        most_granules = 1 + ((config.max_out - 1) >> _ELEMENTS_OF_GRANULE)
        granules = Signal(range(most_granules + 1))  # of a row of results or weights
        factor, product = Signal(32, reset_less=True), Signal(48, reset_less=True)
        times = Signal(max(len(aggregate.tiles), bits_for(most_granules * max(_WORDS_OF_GRANULE, beats_of_granule))))
        first, end = Signal(33, reset_less=True), Signal(34, reset_less=True)
        settings = Signal(config.settings, reset_less=True)
        task_settings = Signal.like(self.task_settings, reset_less=True)
        gather_settings = Signal.like(self.gather_settings, reset_less=True)
        m.d.comb += [
            self.settings.eq(settings),
            self.task_settings.eq(task_settings),
            self.gather_settings.eq(gather_settings),
        ]
        m.d.sync += [
            last_chunk.eq((width - 1) >> exact_log2(config.lanes)),
            granules.eq((width + (1 << _ELEMENTS_OF_GRANULE) - 1) >> _ELEMENTS_OF_GRANULE),
            first.eq(aggregate.first_vertex - aggregate.first_source),
            end.eq(first + aggregate.vertices),
            *(sum_.eq(self.base + line) for sum_, line in zip(sums, lines, strict=True)),
            product.eq(factor * times),
        ]
        with m.Switch(head.opcode):
            with m.Case(Opcode.LOAD_WEIGHTS):
                m.d.sync += [factor.eq(f_in), times.eq(granules * _WORDS_OF_GRANULE)]
            with m.Case(Opcode.COMBINE):
                m.d.sync += [factor.eq(combine.first_row), times.eq(granules * beats_of_granule)]
            with m.Default():
                m.d.sync += [factor.eq(vertices), times.eq(aggregate.tiles)]
        # What is wrong with them, each known a cycle after what it hangs on and looked at no sooner.
        wrong_out, wrong_in, no_row, many = Signal(), Signal(), Signal(), Signal()
        beyond = Signal(_MOST_LINES)
        chunk_shift = Signal.like(settings.chunk_shift)
        m.d.sync += [
            wrong_out.eq((f_out == 0) | (f_out > config.max_out)),
            wrong_in.eq((f_in == 0) | (f_in > (config.weight_rows >> chunk_shift)) | (f_in > _MAX_IN)),
            no_row.eq(first[-1] | (end > aggregate.sources)),
            many.eq(Mux(head.opcode == Opcode.COMBINE, vertices, product) > _MAX_SEGMENTS),
            beyond.eq(Cat(sum_[len(self.base) :].any() for sum_ in sums)),
        ]
        for bit in range(len(settings.last_chunk)):
            with m.If(last_chunk[bit]):
                m.d.comb += chunk_shift.eq(bit + 1)

        missing = Signal(32, reset_less=True)  # rows or biases not yet done
        m.d.sync += missing.eq(missing - self.progress)
        csr = Signal.like(self.csr.payload, reset_less=True)
        scales = Signal.like(self.scales.payload, reset_less=True)
        csr_asked, scales_asked = Signal(), Signal()
        m.d.comb += [self.csr.payload.eq(csr), self.scales.payload.eq(scales)]

        # Which of the lines each opcode's addresses are.
        weights, biases = 0, 1
        features, combined, feature_offsets = 0, 2, 3
        edges, results, offsets = 0, 3, 4
        row_scales = 1

        def choose(*chosen: Value) -> None:
            m.d.sync += [line.eq(address) for line, address in zip(lines, chosen, strict=False)]

        def words(line: int) -> Value:
            return sums[line] << _WORDS_OF_LINE

        def beats(line: int) -> Value:
            return sums[line] << beats_of_line

        def refuse(code: Error, info: Value) -> None:
            m.d.sync += [report.code.eq(code), report.info.eq(info)]
            m.next = "ANSWER"

        def refuse_beyond(*chosen: int) -> None:
            """Refuse addresses that the port cannot reach; the first named counts."""
            for line in reversed(chosen):
                with m.If(beyond[line]):
                    refuse(Error.BAD_OPERAND, lines[line])

        with m.FSM() as fsm:
            with m.State("RESET"):
                m.d.sync += [self.halt.eq(0), self.clear.eq(0)]
                m.next = "IDLE"

            with m.State("IDLE"):
                m.d.comb += self.command.ready.eq(1)
                m.d.sync += [kept.eq(self.command.payload), report.eq(0)]
                with m.If(self.command.valid):
                    m.next = "DECODE"

            with m.State("DECODE"):
                m.d.sync += csr.eq(0)
                m.next = "MEASURE"
                with m.Switch(head.opcode):
                    with m.Case(Opcode.NOP):
                        m.next = "ANSWER"
                    with m.Case(Opcode.LOAD_WEIGHTS):
                        m.d.sync += [f_in.eq(load.f_in), f_out.eq(load.f_out)]
                        choose(load.weights, load.biases)
                    with m.Case(Opcode.COMBINE):
                        m.d.sync += [f_in.eq(combine.f_in), f_out.eq(combine.f_out), vertices.eq(combine.vertices)]
                        choose(combine.features, combine.scales, combine.combined, combine.feature_offsets)
                    with m.Case(Opcode.AGGREGATE):
                        m.d.sync += [f_in.eq(1), f_out.eq(aggregate.f_out), vertices.eq(aggregate.vertices)]
                        choose(
                            aggregate.edges,
                            aggregate.scales,
                            aggregate.combined,
                            aggregate.results,
                            aggregate.offsets,
                        )
                    with m.Default():
                        refuse(Error.BAD_OPCODE, head.opcode)

            with m.State("MEASURE"):
                m.next = "CHECK"

            with m.State("CHECK"):
                m.d.sync += [
                    settings.f_in.eq(f_in),
                    settings.f_out.eq(f_out),
                    settings.last_chunk.eq(last_chunk),
                    settings.chunk_shift.eq(chunk_shift),
                    settings.relu.eq(0),
                    settings.bias.eq(0),
                    settings.self_weight.eq(aggregate.self_weight),
                    settings.neighbour_weight.eq(aggregate.neighbour_weight),
                    task_settings.stride.eq(granules * beats_of_granule),
                    task_settings.gather.eq(0),
                    gather_settings.stride.eq(granules * beats_of_granule),
                    gather_settings.last_beat.eq((width - 1) >> exact_log2(config.elements)),
                    gather_settings.first_vertex.eq(aggregate.first_vertex),
                    gather_settings.first_source.eq(aggregate.first_source),
                    gather_settings.sources.eq(aggregate.sources),
                    gather_settings.partials.eq(aggregate.partials),
                    gather_settings.combined.eq(beats(combined)),
                    missing.eq(vertices),
                    csr_asked.eq(0),
                    scales_asked.eq(0),
                ]
                m.next = "MULTIPLY"
                with m.If(wrong_out):
                    refuse(Error.BAD_OPERAND, f_out)

            with m.State("MULTIPLY"):
                with m.Switch(head.opcode):
                    with m.Case(Opcode.LOAD_WEIGHTS):
                        m.next = "LOAD_WEIGHTS"
                    with m.Case(Opcode.COMBINE):
                        m.next = "COMBINE"
                    with m.Case(Opcode.AGGREGATE):
                        m.next = "AGGREGATE"
                with m.If(wrong_in):
                    refuse(Error.BAD_OPERAND, f_in)

            with m.State("LOAD_WEIGHTS"):
                m.d.sync += [
                    self.route.eq(Route.WEIGHTS),
                    csr.array.eq(words(weights)),
                    csr.words.eq(product),
                    csr.rows.eq(f_in),
                    csr.tiles.eq(1),
                    csr.uniform.eq(1),
                    csr.stride.eq(granules * _WORDS_OF_GRANULE),
                    missing.eq(f_in),
                    scales_asked.eq(1),
                ]
                m.next = "PREPARE"
                refuse_beyond(weights, biases)

            with m.State("LOAD_BIASES"):
                m.d.sync += [
                    self.route.eq(Route.BIASES),
                    csr.array.eq(words(biases)),
                    csr.words.eq(f_out),
                    csr.rows.eq(1),
                    csr.stride.eq(f_out),
                    missing.eq(f_out),
                    csr_asked.eq(0),
                ]
                m.next = "PREPARE"

            with m.State("COMBINE"):
                m.d.sync += [
                    self.route.eq(Route.FEATURES),
                    settings.mode.eq(Mux(combine.sparse, Mode.SPARSE, Mode.DENSE)),
                    settings.shift.eq(combine.shift),
                    task_settings.results.eq(beats(combined) + product),
                    csr.offsets.eq(words(feature_offsets)),
                    csr.array.eq(words(features)),
                    csr.words.eq(combine.entries),
                    csr.rows.eq(vertices),
                    csr.tiles.eq(1),
                    csr.uniform.eq(~combine.sparse),
                    csr.stride.eq((((inputs - 1) >> _ELEMENTS_OF_GRANULE) + 1) * _WORDS_OF_GRANULE),
                    scales.address.eq(words(row_scales)),
                    scales.words.eq(vertices),
                ]
                m.next = "PREPARE"
                refuse_beyond(features, row_scales, combined)
                with m.If(combine.sparse):
                    refuse_beyond(feature_offsets)
                with m.If(many):
                    refuse(Error.BAD_OPERAND, vertices)

            with m.State("AGGREGATE"):
                m.d.sync += [
                    self.route.eq(Route.SOURCES),
                    settings.mode.eq(Mode.GATHER),
                    settings.shift.eq(aggregate.shift),
                    settings.relu.eq(aggregate.activation == Activation.RELU),
                    settings.bias.eq(aggregate.activation != Activation.DNP),
                    task_settings.gather.eq(1),
                    task_settings.results.eq(beats(results)),
                    csr.offsets.eq(words(offsets)),
                    csr.array.eq(words(edges)),
                    csr.words.eq(aggregate.edge_count),
                    csr.rows.eq(vertices),
                    csr.tiles.eq(aggregate.tiles),
                    scales.address.eq(words(row_scales)),
                    scales.words.eq(vertices),
                ]
                m.next = "PREPARE"
                refuse_beyond(offsets, edges, row_scales, combined, results)
                with m.If(aggregate.tiles == 0):
                    refuse(Error.BAD_OPERAND, aggregate.tiles)
                # Every destination has a row of its own among the combined ones.
                with m.Elif(no_row):
                    refuse(Error.BAD_OPERAND, aggregate.first_vertex)
                with m.Elif(many):
                    refuse(Error.BAD_OPERAND, vertices)

            with m.State("PREPARE"):
                m.d.comb += self.start.eq(1)
                m.next = "START"

            with m.State("START"):
                m.d.comb += [self.csr.valid.eq(~csr_asked), self.scales.valid.eq(~scales_asked), working.eq(1)]
                m.d.sync += [
                    csr_asked.eq(csr_asked | self.csr.ready),
                    scales_asked.eq(scales_asked | self.scales.ready),
                ]
                # Units may be done with what was asked of them before all has been asked.
                with m.If((missing == 0) & ~csr_asked):
                    m.d.comb += [self.csr.valid.eq(0), self.scales.valid.eq(0)]
                    m.next = "ANSWER"
                with m.Elif((csr_asked | self.csr.ready) & (scales_asked | self.scales.ready)):
                    m.next = "WORK"

            with m.State("WORK"):
                m.d.comb += working.eq(1)
                with m.If(failed):
                    m.d.sync += self.halt.eq(1)
                    m.next = "HALT"
                with m.Elif((missing == 0) & ~self.reading & ~self.writing):
                    m.next = "ANSWER"
                    with m.If((head.opcode == Opcode.LOAD_WEIGHTS) & (self.route == Route.WEIGHTS)):
                        m.next = "LOAD_BIASES"

            # Registers say what goes to every unit, set on the way into these states.
            with m.State("HALT"):
                with m.If(~self.unanswered & ~self.writing):
                    m.d.sync += self.clear.eq(1)
                    m.next = "CLEAR"

            with m.State("CLEAR"):
                m.d.sync += [self.halt.eq(0), self.clear.eq(0)]
                m.next = "ANSWER"

            with m.State("ANSWER"):
                m.d.comb += self.executed.valid.eq(1)
                with m.If(self.executed.ready):
                    m.next = "IDLE"
        with m.If(~fsm.ongoing("RESET") & ~fsm.ongoing("IDLE")):
            m.d.comb += [self.opcode.eq(head.opcode), self.layer.eq(head.layer)]
        return m
