"""Executor: carries out one command at a time by setting up the units and counting what they finish."""

from amaranth import Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import bits_for, exact_log2

from contracts import COMMAND_BYTES, DIGIT_BITS, DIGIT_FEATURES, ROW_BYTES, Activation, Combination, Opcode
from contracts.weights import GRANULE
from hw.chiplet.gather import gather_settings
from hw.chiplet.layer_sizes import WORDS_OF_GRANULE, LayerSizes
from hw.chiplet.task_builder import TaskSettings
from hw.command.checks import Check, beyond, refuse
from hw.command.front_end import CommandFrontEnd
from hw.graph.csr_reader import CsrRequest, ErrorReport
from hw.memory.formats import RangeRequest, line_address_width
from hw.pe.formats import Mode, PEConfig

__all__ = ["Executor", "Route"]

#: Cycle in which a command is accepted or refused: `LayerSizes` needs so long.
_DECIDED = 5
#: Which address adder each operand uses; a unit's address comes from the same adder with every opcode.
_SLOTS = {
    Opcode.LOAD_WEIGHTS: ("weights", "biases"),
    Opcode.COMBINE: ("features", "scales", "combined", "feature_offsets", "scales_destination"),
    Opcode.AGGREGATE: ("edges", "scales", "combined", "results", "offsets", "own"),
}


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
        Line address that a command's addresses count from; constant while one is under way.
    command : stream of unsigned(512)
    executed : stream of `ErrorReport`
        First error of the command, or code 0. ``BAD_OPERAND`` has the operand: a size beyond the configuration, an
        address beyond the address space, or the number of vertices where they have too many segments.
    errors : streams of `ErrorReport`, always ready
        Reports of the units, as for `hw.command.front_end.CommandFrontEnd`.
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
        self._front = CommandFrontEnd(
            dict.fromkeys(_SLOTS, _DECIDED), config.address_width, error_sources, slots=_SLOTS, registered=True
        )
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
                "gather_settings": Out(gather_settings(config)),
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
        """Set up the units for a command that is accepted; wait for them, or break off."""
        m = Module()
        m.submodules.front = front = self._front
        m.submodules.sizes = sizes = LayerSizes(self.config)
        connect(m, flipped(self.command), front.command)
        connect(m, front.executed, flipped(self.executed))
        for outer, inner in zip(self.errors, front.errors, strict=True):
            connect(m, flipped(outer), inner)
        m.d.comb += [front.base.eq(self.base), self.opcode.eq(front.opcode), self.layer.eq(front.layer)]
        biases = Signal()  # second step of LOAD_WEIGHTS
        self._size(m, sizes)
        self._refuse(m, sizes)
        self._set_up(m, sizes)
        self._request(m, sizes, biases)

        loads = front.opcode == Opcode.LOAD_WEIGHTS
        attends = (front.opcode == Opcode.AGGREGATE) & (front.view(Opcode.AGGREGATE).attention != 0)
        missing = Signal(32, reset_less=True)  # rows or biases not yet done
        m.d.sync += missing.eq(missing - self.progress)
        csr_asked, scales_asked = Signal(), Signal()
        with m.FSM():
            with m.State("RESET"):
                m.d.sync += [self.halt.eq(0), self.clear.eq(0)]
                m.next = "IDLE"

            with m.State("IDLE"):
                m.d.sync += [
                    biases.eq(0),
                    missing.eq(Mux(loads, sizes.f_in, sizes.vertices)),
                    csr_asked.eq(0),
                    scales_asked.eq(loads | attends),
                ]
                with m.If(front.start):
                    m.next = "PREPARE"

            with m.State("LOAD_BIASES"):
                m.d.sync += [missing.eq(sizes.f_out), csr_asked.eq(0)]
                m.next = "PREPARE"

            with m.State("PREPARE"):
                m.d.comb += self.start.eq(1)
                m.next = "START"

            with m.State("START"):
                m.d.comb += [self.csr.valid.eq(~csr_asked), self.scales.valid.eq(~scales_asked)]
                m.d.sync += [
                    csr_asked.eq(csr_asked | self.csr.ready),
                    scales_asked.eq(scales_asked | self.scales.ready),
                ]
                # Units may be done with what was asked of them before all has been asked.
                with m.If((missing == 0) & ~csr_asked):
                    m.d.comb += [self.csr.valid.eq(0), self.scales.valid.eq(0), front.done.eq(1)]
                    m.next = "IDLE"
                with m.Elif((csr_asked | self.csr.ready) & (scales_asked | self.scales.ready)):
                    m.next = "WORK"

            with m.State("WORK"):
                with m.If(front.failed):
                    m.d.sync += self.halt.eq(1)
                    m.next = "HALT"
                with m.Elif((missing == 0) & ~self.reading & ~self.writing):
                    with m.If(loads & ~biases):
                        m.d.sync += biases.eq(1)
                        m.next = "LOAD_BIASES"
                    with m.Else():
                        m.d.comb += front.done.eq(1)
                        m.next = "IDLE"

            # Registers drive halt and clear, set on the way into these states, because they reach every unit.
            with m.State("HALT"):
                with m.If(~self.unanswered & ~self.writing):
                    m.d.sync += self.clear.eq(1)
                    m.next = "CLEAR"

            with m.State("CLEAR"):
                m.d.comb += front.done.eq(1)
                m.d.sync += [self.halt.eq(0), self.clear.eq(0)]
                m.next = "IDLE"
        return m

    def _size(self, m: Module, sizes: LayerSizes) -> None:
        """Choose the sizes of the layer by opcode."""
        front = self._front
        combine, aggregate = front.view(Opcode.COMBINE), front.view(Opcode.AGGREGATE)
        m.d.comb += [
            sizes.opcode.eq(front.opcode),
            sizes.first_row.eq(combine.first_row),
            sizes.row_granules.eq(Mux(combine.kind == Combination.DIGITS, combine.row_granules, 0)),
            sizes.tiles.eq(aggregate.tiles),
        ]
        chosen = {name: Signal.like(getattr(sizes, name), reset_less=True) for name in ("f_in", "f_out", "vertices")}
        for name, register in chosen.items():
            m.d.comb += getattr(sizes, name).eq(register)
        # An AGGREGATE has no inputs.
        m.d.sync += chosen["f_in"].eq(1)
        with m.Switch(front.opcode):
            for opcode in _SLOTS:
                view = front.view(opcode)
                with m.Case(opcode):
                    known = view.shape().members
                    m.d.sync += [register.eq(view[name]) for name, register in chosen.items() if name in known]
        # Neither has a sum of digits.
        with m.If((front.opcode == Opcode.COMBINE) & (combine.kind == Combination.SUM)):
            m.d.sync += chosen["f_in"].eq(1)

    def _refuse(self, m: Module, sizes: LayerSizes) -> None:
        """Check operands; each check is registered, one cycle after its inputs, and sums of operands are inputs."""
        front = self._front
        combine, aggregate = front.view(Opcode.COMBINE), front.view(Opcode.AGGREGATE)
        wrong_kind, digits = Signal(), combine.kind == Combination.DIGITS
        wrong_columns = beyond(m, aggregate.first_granule, sizes.granules, aggregate.row_granules)
        digit_rows = sizes.granules * len(DIGIT_BITS)
        wrong_digits = digits & beyond(m, combine.first_granule, digit_rows, combine.row_granules)
        m.d.sync += wrong_kind.eq(
            (combine.kind > Combination.SUM) | ((combine.kind == Combination.SUM) & combine.sparse)
        )
        # Every destination has a row of its own among the combined ones.
        first, end, no_row = Signal(33, reset_less=True), Signal(34, reset_less=True), Signal()
        m.d.sync += [
            first.eq(aggregate.first_vertex - aggregate.first_source),
            end.eq(first + aggregate.vertices),
            no_row.eq(first[-1] | (end > aggregate.sources)),
        ]
        rows = (Check(sizes.wrong_out, sizes.f_out), Check(sizes.wrong_in, sizes.f_in))
        many = Check(sizes.many, sizes.vertices)
        kinds = (
            Check(wrong_digits, combine.row_granules),
            Check(digits & (sizes.f_in > DIGIT_FEATURES), sizes.f_in),
            Check(wrong_kind, combine.kind),
        )
        tiles = (
            Check(wrong_columns, aggregate.row_granules),
            Check(aggregate.tiles == 0, aggregate.tiles),
            Check(no_row, aggregate.first_vertex),
            # An array has fewer than 2^32 words.
            Check(aggregate.weighted & aggregate.edge_count[-1], aggregate.edge_count),
        )
        refuse(
            m,
            front,
            {
                Opcode.LOAD_WEIGHTS: rows,
                Opcode.COMBINE: (*rows, *kinds, many),
                Opcode.AGGREGATE: (*rows, *tiles, many),
            },
        )
        m.d.comb += front.unused.eq(
            front.among(
                (Opcode.COMBINE, "feature_offsets", ~combine.sparse),
                (Opcode.COMBINE, "scales_destination", 1),
                (Opcode.AGGREGATE, "scales", aggregate.attention != 0),
                (Opcode.AGGREGATE, "own", ~aggregate.rooted),
            )
        )

    def _set_up(self, m: Module, sizes: LayerSizes) -> None:
        """Derive the settings; they follow the command, which is constant while units work."""
        config, front = self.config, self._front
        combine, aggregate = front.view(Opcode.COMBINE), front.view(Opcode.AGGREGATE)
        settings = Signal(config.settings, reset_less=True)
        task = Signal.like(self.task_settings, reset_less=True)
        gather = Signal.like(self.gather_settings, reset_less=True)
        m.d.comb += [self.settings.eq(settings), self.task_settings.eq(task), self.gather_settings.eq(gather)]
        beats_of_granule = ROW_BYTES * 8 // config.data_width
        stride = sizes.granules * beats_of_granule
        columns = aggregate.first_granule * beats_of_granule
        results = columns + front.beats(Opcode.AGGREGATE, "results", config.data_width)
        combined = front.beats(Opcode.COMBINE, "combined", config.data_width)
        own = front.beats(Opcode.AGGREGATE, "own", config.data_width)
        features = front.beats(Opcode.COMBINE, "features", config.data_width)
        gathers, combines = front.opcode == Opcode.AGGREGATE, front.opcode == Opcode.COMBINE
        attends = gathers & (aggregate.attention != 0)
        digits, adds = (combines & (combine.kind == kind) for kind in (Combination.DIGITS, Combination.SUM))
        # A number of inputs that is not refused is at most `weight_rows`.
        apart, inputs = self._rows_apart(), sizes.f_in[: bits_for(config.weight_rows)]
        mode = Mux(adds, Mode.DIGITS, Mux(combine.sparse, Mode.SPARSE, Mode.DENSE))
        padded = (sizes.granules << exact_log2(GRANULE // config.lanes)) - 1
        blocks = combined + combine.first_granule * beats_of_granule
        m.d.sync += [
            settings.f_in.eq(sizes.f_in),
            settings.f_out.eq(sizes.f_out),
            settings.last_chunk.eq(Mux(adds, padded, sizes.last_chunk)),
            settings.chunk_shift.eq(sizes.chunk_shift),
            settings.mode.eq(Mux(gathers, Mode.GATHER, mode)),
            settings.digits.eq(digits),
            settings.shift.eq(Mux(gathers, aggregate.shift, combine.shift)),
            settings.relu.eq(gathers & (aggregate.activation == Activation.RELU)),
            settings.bias.eq(gathers & (aggregate.activation != Activation.DNP)),
            settings.attends.eq(attends),
            task.stride.eq(
                Mux(
                    gathers,
                    aggregate.row_granules * beats_of_granule,
                    Mux(digits, combine.row_granules * beats_of_granule, stride),
                )
            ),
            task.gather.eq(gathers | apart),
            task.rooted.eq(gathers & aggregate.rooted),
            task.attends.eq(attends),
            task.results.eq(Mux(gathers, results, Mux(digits, blocks, combined) + sizes.product)),
            gather.stride.eq(Mux(apart, combine.distance * beats_of_granule, stride)),
            gather.last_beat.eq((Mux(apart, inputs, sizes.width) - 1) >> exact_log2(config.elements)),
            gather.own.eq(Mux(apart, features, Mux(aggregate.rooted, own, combined))),
            gather.first_own.eq(Mux(apart | aggregate.rooted, 0, aggregate.first_vertex - aggregate.first_source)),
            gather.first_source.eq(Mux(apart, 0, aggregate.first_source)),
            gather.sources.eq(aggregate.sources),
            gather.partials.eq(aggregate.partials),
            gather.self_weight.eq(aggregate.self_weight),
            gather.neighbour_weight.eq(aggregate.neighbour_weight),
            gather.weighted.eq(gathers & aggregate.weighted),
            gather.margin.eq(Mux(gathers, aggregate.attention, 0)),
            gather.combined.eq(Mux(apart, features, combined)),
        ]

    def _rows_apart(self) -> Value:
        """Return whether features are parts of longer rows: the gather unit reads a row for every vertex."""
        combine = self._front.view(Opcode.COMBINE)
        whole = combine.sparse | (combine.kind == Combination.SUM) | (combine.distance == 0)
        return (self._front.opcode == Opcode.COMBINE) & ~whole

    def _request(self, m: Module, sizes: LayerSizes, biases: Value) -> None:
        """Derive what the readers are asked for, and where the rows go."""
        front = self._front
        combine, aggregate = front.view(Opcode.COMBINE), front.view(Opcode.AGGREGATE)
        csr = Signal.like(self.csr.payload, reset_less=True)
        scales = Signal.like(self.scales.payload, reset_less=True)
        row_words = sizes.granules * WORDS_OF_GRANULE
        m.d.comb += [self.csr.payload.eq(csr), self.scales.payload.eq(scales)]
        m.d.sync += [
            csr.eq(0),
            csr.rows.eq(sizes.vertices),
            csr.tiles.eq(1),
            scales.address.eq(front.words(Opcode.COMBINE, "scales")),
            scales.words.eq(sizes.vertices),
        ]
        with m.Switch(front.opcode):
            with m.Case(Opcode.LOAD_WEIGHTS):
                m.d.sync += [
                    self.route.eq(Route.WEIGHTS),
                    csr.array.eq(front.words(Opcode.LOAD_WEIGHTS, "weights")),
                    csr.words.eq(sizes.product),
                    csr.rows.eq(sizes.f_in),
                    csr.uniform.eq(1),
                    csr.stride.eq(row_words),
                ]
                with m.If(biases):
                    m.d.sync += [
                        self.route.eq(Route.BIASES),
                        csr.array.eq(front.words(Opcode.LOAD_WEIGHTS, "biases")),
                        csr.words.eq(sizes.f_out),
                        csr.rows.eq(1),
                        csr.stride.eq(sizes.f_out),
                    ]
            with m.Case(Opcode.COMBINE):
                m.d.sync += [
                    self.route.eq(Route.FEATURES),
                    csr.offsets.eq(front.words(Opcode.COMBINE, "feature_offsets")),
                    csr.array.eq(front.words(Opcode.COMBINE, "features")),
                    csr.words.eq(combine.entries),
                    csr.uniform.eq(~combine.sparse),
                    csr.stride.eq(
                        Mux(combine.distance != 0, combine.distance, sizes.input_granules) * WORDS_OF_GRANULE
                    ),
                ]
                with m.If(self._rows_apart()):
                    # A destination without sources for every vertex.
                    m.d.sync += [self.route.eq(Route.SOURCES), csr.words.eq(0), csr.stride.eq(0)]
            with m.Case(Opcode.AGGREGATE):
                m.d.sync += [
                    self.route.eq(Route.SOURCES),
                    csr.offsets.eq(front.words(Opcode.AGGREGATE, "offsets")),
                    csr.array.eq(front.words(Opcode.AGGREGATE, "edges")),
                    csr.words.eq(aggregate.edge_count << aggregate.weighted),
                    csr.paired.eq(aggregate.weighted),
                    csr.tiles.eq(aggregate.tiles),
                ]
