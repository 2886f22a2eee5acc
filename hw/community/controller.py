"""Controller: carries out the commands of a community chiplet, LOCATE beside those that follow it."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Cover, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import bits_for, exact_log2

from contracts import (
    COMMAND_BYTES,
    DIGIT_BITS,
    DIGIT_FEATURES,
    ROW_BYTES,
    Activation,
    Combination,
    Error,
    Opcode,
)
from contracts.weights import GRANULE, WEIGHT_PAGES, page_bits
from hw.command.checks import Check, beyond, refuse
from hw.command.front_end import CommandFrontEnd
from hw.community.feature_reader import FeatureSettings
from hw.community.formats import CommunityConfig
from hw.community.load_sequencer import LoadSequencer
from hw.community.location import Location
from hw.community.node_table import ARRAYS
from hw.graph.formats import ErrorReport
from hw.locator.formats import location_command
from hw.memory.formats import WORD_BYTES, RangeRequest, beat_address_width, line_address_width, row_beats_width
from hw.pe.formats import Mode

__all__ = ["Controller"]

#: Cycle in which a command is accepted or refused: its operands, their sums, comparisons, the verdict.
_DECIDED = 4
#: Which address adder each operand uses.
_SLOTS = {
    Opcode.LOAD_WEIGHTS: ("weights", "biases"),
    Opcode.COMBINE: ("features", "feature_offsets", "scales", "combined", "scales_destination"),
    Opcode.LOCATE: ("offsets", "edges", "state"),
    Opcode.PROCESS: ("features", "feature_offsets", "scales_source", "results", "scales_destination", "rows"),
}
_WORDS_OF_GRANULE = ROW_BYTES // WORD_BYTES
_MAX_IN = 1 << 16
#: Cycles in a row in which nothing moves, so that nothing is on its way between two blocks.
_QUIET = 7
#: The same before it begins: what begins to be busy is not ready a cycle later.
_SETTLED = 2


@dataclass(frozen=True)
class _Sizes:
    """Of the weights that are loaded, `granules` of a row; `valid` is 0 after they were refused."""

    f_in: Any
    f_out: Any
    granules: Any
    valid: Any


class Controller(wiring.Component):
    """One command at a time, but a location goes on while others follow, until PROCESS has used its records.

    A second one may be asked for before that PROCESS: that of the next tile, which is found while records are used.

    While one goes on, weights are loaded beside it too, and PROCESS begins: features are asked for, but combined only
    with all weights. What goes wrong with them then is told by PROCESS.

    Parameters
    ----------
    config : CommunityConfig
    nodes
        Vertices at most.
    address_width
        Of the memory port, in bits.
    error_sources
        Number of units that report errors.

    Attributes
    ----------
    base : In
        Line address that a command's addresses count from; constant while one is under way.
    command : stream of unsigned(512)
    executed : stream of `ErrorReport`
        Its first error, or code 0. ``BAD_OPERAND`` has the operand: a size beyond the configuration, a number of
        features or vertices that is not that of the commands before (of outputs, too, if the weights were refused), or
        an address beyond the address space.
    opcode, layer : Out(8)
        Command under way.
    errors : streams of `ErrorReport`, always ready
    forget : In(1)
        The memory may have changed: the records of the last location are of no use.
    sending : In(1)
        Combined rows go round the ring beside PROCESS; COMBINE waits until they have.
    locate : stream of `hw.locator.formats.location_command`, located : stream of `ErrorReport`
        To the locator, addresses counted from 0, and from it.
    records_there : In(1)
        All records of the location that began last have left the locator.
    records_whole : In(1), replay : Out(1)
        The records of the last location are there; give them out again instead of a location that would find them.
    behind, ahead : Out(1)
        There is a location behind the one whose records are used; it has begun.
    turn : Out(1)
        Pulse: the records of the location that is ahead are used from now on.
    odd, odd_found : Out(1)
        See `hw.community.location.Location`.
    first_located, vertices_located : Out(32)
        Vertices of the location that began last.
    arrival_located : Out(5)
        Of its records, see `hw.community.record_dispatcher.RecordDispatcher`.
    settings, combination, features : Out
        Of the PEs, of the combiners, of the feature reader.
    table_start : Out(1), table_addresses, table_words, table_first : Out
        For the node table.
    load : stream of `RangeRequest`, loaded : In(1)
        Weights, then biases to read; a row of weights, or a bias, has been written.
    skip_weights : Out(1)
        Pulse: `load` has biases alone.
    first_weight, first_own : Out
        Row of the weight memories in which the weights begin, a multiple of a power of two not below their number; the
        same of the weights of own rows that PROCESS makes.
    weights_there : Out(1)
        All of them have been.
    start, open, finish : Out
        Hubs are forgotten; records may go to the PEs; no more hubs will be asked for, and they are finished.
    discard : Out(1)
        Records are thrown away: a command has failed, and the location before it will not be used.
    ready : In(1)
        The table is read and the hubs are forgotten.
    records_ended, records_asking, records_busy : In(1)
        All records have been given out; hubs may still be asked for; PEs or hub units are at work.
    writing : In(1)
        Results are on their way.
    combining : Out(1)
        Vertices are combined, and the rows are results (COMBINE).
    making : Out(1)
        They are from the cycle after `start` on, until all are written.
    vertices_ended : In(1)
        All of those have been given out.
    first, vertices : Out(32)
        Vertices that are summed: of others there are rows, but no results.
    first_result : Out(32)
        VID of the first row of results.
    first_partial : Out(32)
        See `hw.community.hub_unit.HubUnit`.
    row_beats : Out(8)
        Beats of a row of weights.
    result_beats, results : Out
        Beats between results, and the beat address of the first.
    """

    def __init__(self, config: CommunityConfig, nodes: int, address_width: int, error_sources: int) -> None:
        self.config, self.nodes, self.address_width = config, nodes, address_width
        # Pages of the weight memories: those with whole weights, and those that the command's lie in.
        self._whole, self._covered = Signal(WEIGHT_PAGES), Signal(WEIGHT_PAGES)
        # Of the weights of own rows: their page; whether they are there, or an error is still to be told; their shift.
        self._own_page, self._own_there = Signal(range(WEIGHT_PAGES)), Signal()
        self._own_shift = Signal(range(1 << 6))
        self._front = CommandFrontEnd(dict.fromkeys(_SLOTS, _DECIDED), address_width, 1, slots=_SLOTS)
        range_ = RangeRequest(address_width)
        super().__init__(
            {
                "base": In(line_address_width(address_width)),
                "command": In(stream.Signature(unsigned(8 * COMMAND_BYTES))),
                "executed": Out(stream.Signature(ErrorReport)),
                "opcode": Out(8),
                "layer": Out(8),
                "errors": In(stream.Signature(ErrorReport, always_ready=True)).array(error_sources),
                "forget": In(1),
                "sending": In(1),
                "records_there": In(1),
                "records_whole": In(1),
                **{name: Out(1) for name in ("replay", "behind", "ahead", "turn", "odd", "odd_found")},
                "locate": Out(stream.Signature(location_command(address_width))),
                "located": In(stream.Signature(ErrorReport)),
                "first_located": Out(32),
                "vertices_located": Out(32),
                "arrival_located": Out(5),
                "settings": Out(config.settings),
                "combination": Out(config.pe.settings),
                "features": Out(FeatureSettings(address_width)),
                "table_start": Out(1),
                "table_addresses": Out(range_["address"].shape).array(len(ARRAYS)),
                "table_words": Out(32).array(len(ARRAYS)),
                "table_first": Out(bits_for(nodes)),
                "load": Out(stream.Signature(range_)),
                "loaded": In(1),
                "skip_weights": Out(1),
                "first_weight": Out(range(config.weight_rows)),
                "first_own": Out(range(config.weight_rows)),
                "weights_there": Out(1),
                "start": Out(1),
                "open": Out(1),
                "finish": Out(1),
                "discard": Out(1),
                "ready": In(1),
                "records_ended": In(1),
                "records_asking": In(1),
                "records_busy": In(1),
                "writing": In(1),
                "combining": Out(1),
                "making": Out(1),
                "vertices_ended": In(1),
                **{name: Out(32) for name in ("first", "vertices", "first_result", "first_partial")},
                "row_beats": Out(8),
                "result_beats": Out(row_beats_width(config.data_width)),
                "results": Out(beat_address_width(address_width, config.data_width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Start what an accepted command asks for, and wait for it."""
        m = Module()
        m.submodules.front = front = self._front
        connect(m, flipped(self.command), front.command)
        connect(m, front.executed, flipped(self.executed))
        m.submodules.loader = loader = LoadSequencer(self.address_width)
        connect(m, loader.load, flipped(self.load))
        m.d.comb += [front.base.eq(self.base), self.opcode.eq(front.opcode), self.layer.eq(front.layer)]
        failing = Signal()
        # The lowest of the errors of a cycle, for the command and for the loader.
        lowest: Any = front.errors[0]
        for error in reversed(self.errors):
            with m.If(error.valid):
                m.d.comb += [lowest.valid.eq(1), lowest.payload.eq(error.payload)]
        m.d.comb += [loader.error.valid.eq(lowest.valid), loader.error.payload.eq(lowest.payload)]
        # What is reported in the last cycle counts, too.
        m.d.comb += failing.eq(front.failed | loader.error.valid)

        sizes = self._load(m, loader)
        m.submodules.location = location = Location(self.address_width)
        self._connect_location(m, location)
        self._refuse(m, sizes, location)
        begins = Signal()
        self._set_up(m, sizes, begins)
        # Chunks of rows of digits are counted otherwise than those of weights.
        counts = (front.opcode == Opcode.LOAD_WEIGHTS) | self._adds_digits()
        # Rows that are still sent stay as they are.
        m.d.comb += front.hold.eq((counts & loader.busy) | ((front.opcode == Opcode.COMBINE) & self.sending))

        quiet, still = Signal(range(_QUIET + 1)), Signal()
        m.d.sync += [quiet.eq(Mux(still, quiet + (quiet != _QUIET), 0)), self.start.eq(0), self.finish.eq(0)]
        m.d.comb += self.table_start.eq(self.start)
        ended = Mux(self.combining, self.vertices_ended, location.answered & self.records_ended)

        m.d.comb += front.listen.eq(0)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(front.refused):
                    m.next = "CLOSE"
                with m.If(front.start):
                    with m.Switch(front.opcode):
                        with m.Case(Opcode.LOAD_WEIGHTS):
                            m.next = "LOAD"
                        with m.Case(Opcode.LOCATE):
                            m.next = "LOCATE"
                        with m.Default():
                            m.next = "SET UP"
            with m.State("SET UP"):
                # Whether a command is accepted is known late in a cycle.
                m.d.comb += begins.eq(1)
                m.d.sync += self.start.eq(1)
                m.next = "PREPARE"
            with m.State("LOAD"):
                m.d.comb += loader.start.eq(1)
                m.next = "LOADED"
                with m.If(location.locating):
                    m.d.comb += front.done.eq(1)
                    m.d.sync += loader.follows.eq(1)
                    m.next = "IDLE"
            with m.State("LOADED"):
                m.d.comb += front.listen.eq(1)
                with m.If(~loader.busy):
                    m.d.comb += front.done.eq(1)
                    m.next = "CLOSE"
            with m.State("LOCATE"):
                self._ask(m, location)
            with m.State("PREPARE"):
                m.d.comb += [front.listen.eq(1), still.eq(self.ready & ~self.start)]
                with m.If(quiet == _SETTLED):
                    m.next = "WORK"
            with m.State("WORK"):
                m.d.comb += [
                    front.listen.eq(1),
                    self.open.eq(1),
                    still.eq(ended & ~self.records_asking & ~loader.busy),
                ]
                with m.If(quiet == _QUIET):
                    m.d.sync += self.finish.eq(~self.combining)
                    m.next = "FINISH"
            with m.State("FINISH"):
                m.d.comb += [front.listen.eq(1), still.eq(~self.records_busy & ~self.writing & ~self.finish)]
                with m.If((quiet == _QUIET) & still):
                    unloaded = loader.report.code != Error.NONE
                    m.d.comb += [front.done.eq(1), front.own.payload.eq(location.report)]
                    m.d.sync += loader.follows.eq(0)
                    m.next = "IDLE"
                    lost = ~self.combining & (location.report.code != Error.NONE)
                    m.d.comb += [location.ends.eq(~self.combining), front.own.valid.eq(~failing & lost)]
                    with m.If((failing | unloaded | lost) & (self.combining | location.behind)):
                        m.d.sync += quiet.eq(0)
                        m.next = "CLOSE"
                    with m.If(~failing & unloaded):
                        m.d.comb += [front.own.valid.eq(1), front.own.payload.eq(loader.report)]
            with m.State("CLOSE"):
                # A list of commands ends with its first error, so a location that goes on then serves no command.
                # (Weights come here without one, but not beside a location.)
                m.d.comb += [
                    front.closing.eq(1),
                    self.discard.eq(location.locating),
                    still.eq(self.discard & location.answered & self.records_ended),
                ]
                with m.If(~self.discard & ~loader.busy):
                    m.d.sync += loader.follows.eq(0)
                    m.next = "IDLE"
                with m.Elif(quiet == _QUIET):
                    m.d.comb += location.ends.eq(1)
                    m.d.sync += quiet.eq(0)
        works = fsm.ongoing("PREPARE") | fsm.ongoing("WORK") | fsm.ongoing("FINISH")
        m.d.comb += self.making.eq(self.combining & works & ~self.start)
        m.d.sync += [
            Cover(self.open & location.answered & ~self.records_ended, "located before all records are done"),
            Cover(self.discard, "a location that nobody uses"),
        ]
        return m

    def _load(self, m: Module, loader: LoadSequencer) -> _Sizes:
        """Keep the sizes of the weights that are loaded, for the commands that use them."""
        config, front = self.config, self._front
        load = front.view(Opcode.LOAD_WEIGHTS)
        sizes = _Sizes(
            Signal(bits_for(min(config.weight_rows, _MAX_IN)), name="f_in"),
            Signal(bits_for(config.max_out), name="f_out"),
            Signal(16, name="granules"),
            Signal(name="sized"),
        )
        # Chunks of a row in a combiner, and in a PE.
        last_chunk, last_sum, row_words = Signal(16), Signal(16), Signal(16)
        multipliers = config.pe.lanes
        chunk_shift = Signal.like(self.combination.chunk_shift)
        self._shift(m, last_chunk, chunk_shift)
        loads = front.opcode == Opcode.LOAD_WEIGHTS
        with m.If(front.refused & loads):
            m.d.sync += sizes.valid.eq(0)
        self._keep_pages(m, loader)
        adds, padded = Signal(), (sizes.granules << exact_log2(GRANULE // multipliers)) - 1
        with m.If(front.start):
            m.d.sync += adds.eq(self._adds_digits())
        with m.If(front.start & loads):
            m.d.sync += [
                sizes.valid.eq(1),
                sizes.f_in.eq(load.f_in),
                sizes.f_out.eq(load.f_out),
                last_chunk.eq((load.f_out - 1) >> exact_log2(multipliers)),
                last_sum.eq((load.f_out - 1) >> exact_log2(config.lanes)),
                sizes.granules.eq(((load.f_out - 1) >> exact_log2(GRANULE)) + 1),
                loader.addresses[0].eq(front.words(Opcode.LOAD_WEIGHTS, "weights")),
                loader.addresses[1].eq(front.words(Opcode.LOAD_WEIGHTS, "biases")),
                loader.resident.eq(load.resident),
                self.first_weight.eq(self._row_of_page(load.page)),
                self._own_page.eq(load.own_page),
                self._own_shift.eq(load.own_shift),
            ]
        m.d.sync += self._own_there.eq(self._whole.bit_select(self._own_page, 1) | (loader.report.code != Error.NONE))
        m.d.comb += [
            row_words.eq(sizes.granules * _WORDS_OF_GRANULE),
            self.row_beats.eq(sizes.granules * (ROW_BYTES * 8 // config.data_width)),
            self.combination.f_in.eq(sizes.f_in),
            self.combination.f_out.eq(sizes.f_out),
            self.combination.last_chunk.eq(Mux(adds, padded, last_chunk)),
            self.combination.chunk_shift.eq(chunk_shift),
            self.settings.f_out.eq(sizes.f_out),
            self.settings.last_chunk.eq(last_sum),
            loader.rows.eq(sizes.f_in),
            loader.row_words.eq(row_words),
            loader.biases_wanted.eq(sizes.f_out),
            loader.loaded.eq(self.loaded),
            self.skip_weights.eq(loader.start & loader.resident),
            self.weights_there.eq(~loader.busy),
            self.first_own.eq(self._row_of_page(self._own_page)),
        ]
        return sizes

    def _row_of_page(self, page: Any) -> Any:
        """Return the first row of a page of the weight memories."""
        return page << page_bits(self.config.weight_rows)

    def _keep_pages(self, m: Module, loader: LoadSequencer) -> None:
        """Keep account of the pages whose weights are whole: none of those that a load writes, until it has ended."""
        load = self._front.view(Opcode.LOAD_WEIGHTS)
        loading, page = Signal(), Signal.like(load.page)
        m.d.sync += loading.eq(loader.busy)
        with m.If(loader.start):
            m.d.sync += page.eq(load.page)
            with m.If(~loader.resident):
                m.d.sync += self._whole.eq(self._whole & ~self._covered)
        with m.Elif(loading & ~loader.busy & (loader.report.code == Error.NONE)):
            m.d.sync += self._whole.eq(self._whole | (1 << page))

    def _adds_digits(self) -> Any:
        """Return whether the command under way adds up rows of digits."""
        front = self._front
        return (front.opcode == Opcode.COMBINE) & (front.view(Opcode.COMBINE).kind == Combination.SUM)

    def _shift(self, m: Module, last_chunk: Any, chunk_shift: Any) -> None:
        """Set `chunk_shift` to the number of bits of `last_chunk`."""
        for bit in range(len(self.combination.last_chunk)):
            with m.If(last_chunk[bit]):
                m.d.comb += chunk_shift.eq(bit + 1)

    def _connect_location(self, m: Module, location: Location) -> None:
        """Lead the location's streams out; its addresses are relocated."""
        front = self._front
        view, lines = front.view(Opcode.LOCATE), {n: front.line(Opcode.LOCATE, n) for n in _SLOTS[Opcode.LOCATE]}
        connect(m, location.o, flipped(self.locate))
        connect(m, flipped(self.located), location.located)
        m.d.comb += [
            *(location.command[name].eq(lines.get(name, view[name])) for name in view.shape().members),
            location.forget.eq(self.forget),
            location.records_there.eq(self.records_there),
            location.records_whole.eq(self.records_whole),
            self.replay.eq(location.replay),
            self.behind.eq(location.behind),
            self.ahead.eq(location.ahead),
            self.odd.eq(location.odd),
            self.odd_found.eq(location.odd_found),
            self.turn.eq(location.ends & location.ahead),
            self.first_located.eq(location.first_found),
            self.vertices_located.eq(location.vertices_found),
            self.arrival_located.eq(location.arrival_found),
        ]

    def _ask(self, m: Module, location: Location) -> None:
        """Begin a location, or replay the records of the last one."""
        m.d.comb += location.ask.eq(1)
        with m.If(location.taken):
            m.d.comb += self._front.done.eq(1)
            m.next = "IDLE"

    def _refuse(self, m: Module, sizes: _Sizes, location: Location) -> None:
        """Check each command against the configuration and the commands before it."""
        config, front = self.config, self._front
        load, combine = front.view(Opcode.LOAD_WEIGHTS), front.view(Opcode.COMBINE)
        process = front.view(Opcode.PROCESS)
        # The spacing of the weights follows a cycle after the operands.
        last_chunk, chunk_shift = Signal(16), Signal.like(self.combination.chunk_shift)
        m.d.sync += last_chunk.eq((load.f_out - 1) >> exact_log2(config.pe.lanes))
        self._shift(m, last_chunk, chunk_shift)
        most = config.weight_rows >> chunk_shift
        # Pages that the weights lie in: those whose number differs from the first one's in bits below the size's.
        last = Signal(range(2 * config.weight_rows))
        m.d.sync += last.eq((load.f_in << chunk_shift) - 1)
        last_page = last >> page_bits(config.weight_rows)
        inner = Cat((last_page >> bit) != 0 for bit in range(len(load.page)))
        pages = range(WEIGHT_PAGES)
        m.d.sync += self._covered.eq(Cat(((load.page ^ n) & ~inner)[: len(load.page)] == 0 for n in pages))
        missing = load.resident & ~self._whole.bit_select(load.page, 1)
        outside = (self._row_of_page(load.page) | last) >= config.weight_rows
        weight = process.neighbour_weight
        adds, digits = (combine.kind == kind for kind in (Combination.SUM, Combination.DIGITS))
        wrong_columns = beyond(m, process.first_granule, sizes.granules, process.row_granules)
        digit_rows = len(DIGIT_BITS) * sizes.granules
        wrong_digits = digits & beyond(m, combine.first_granule, digit_rows, combine.row_granules)
        wrong_kind = (combine.kind > Combination.SUM) | (adds & combine.sparse)

        def loaded(view: Any, used: Any = 1) -> tuple[Check, Check]:
            """Compare sizes with those of the weights, of inputs if they are used."""
            return (
                Check((view.f_out != sizes.f_out) | ~sizes.valid, view.f_out),
                Check((view.f_in != sizes.f_in) & used, view.f_in),
            )

        refuse(
            m,
            front,
            {
                Opcode.LOAD_WEIGHTS: (
                    Check((load.f_out == 0) | (load.f_out > config.max_out), load.f_out),
                    Check((load.f_in == 0) | (load.f_in > most) | (load.f_in > _MAX_IN), load.f_in),
                    Check(((load.page & inner) != 0) | outside | missing, load.page),
                ),
                Opcode.COMBINE: (
                    *loaded(combine, ~adds),
                    Check(wrong_digits, combine.row_granules),
                    Check(digits & (sizes.f_in > DIGIT_FEATURES), sizes.f_in),
                    Check(wrong_kind, combine.kind),
                    Check(combine.vertices > self.nodes, combine.vertices),
                    Check(
                        (combine.table != 0) & ((combine.table < combine.vertices) | (combine.table > self.nodes)),
                        combine.table,
                    ),
                ),
                Opcode.LOCATE: (Check(location.behind, Opcode.LOCATE),),
                Opcode.PROCESS: (
                    # Own rows are all in memory, like combined ones, or all are made with weights that are there.
                    Check(
                        process.rooted & self._combines(process) & (process.combined | ~self._own_there),
                        Opcode.PROCESS,
                    ),
                    Check((weight != 1) & (weight != 256), weight),
                    *loaded(process),
                    Check(wrong_columns, process.row_granules),
                    Check(process.combined & (process.positions > self.nodes), process.positions),
                    Check(process.vertices > self.nodes, process.vertices),
                    Check(process.combined & (process.ahead > process.vertices), process.ahead),
                    # If all rows are combined, fewer vertices may be summed than were located.
                    Check(
                        (process.vertices > location.vertices)
                        | (self._combines(process) & (process.vertices != location.vertices)),
                        process.vertices,
                    ),
                    # Without a location there are no records to wait for.
                    Check(~location.locating, Opcode.PROCESS),
                ),
            },
            registered=True,
        )
        combines, placed = self._combines(process), self._placed(process)
        m.d.sync += [
            front.unused.eq(
                front.among(
                    (Opcode.COMBINE, "feature_offsets", ~combine.sparse),
                    (Opcode.COMBINE, "scales_destination", combine.table == 0),
                    (Opcode.PROCESS, "features", ~combines & ~process.rooted),
                    (Opcode.PROCESS, "feature_offsets", ~placed & ~(process.sparse & combines)),
                    (Opcode.PROCESS, "scales_source", ~combines),
                    (Opcode.PROCESS, "rows", ~process.combined),
                )
            ),
        ]

    @staticmethod
    def _combines(process: Any) -> Any:
        """Return whether PROCESS combines some of its vertices."""
        return ~process.combined | (process.ahead != process.vertices)

    @staticmethod
    def _placed(process: Any) -> Any:
        """Return whether combined rows lie at places."""
        return process.combined & (process.positions != 0)

    def _set_up(self, m: Module, sizes: _Sizes, begins: Signal) -> None:
        """Load the settings of COMBINE and PROCESS, which `begins`, with no more vertices than there may be."""
        front = self._front
        combine, process = front.view(Opcode.COMBINE), front.view(Opcode.PROCESS)
        count = bits_for(self.nodes + 1)
        vertices = Signal(count)
        lengths = [Signal(count, name=f"{name}_length") for name in ARRAYS]
        m.d.comb += [self.vertices.eq(vertices), self.features.vertices.eq(vertices)]
        m.d.comb += [port.eq(length) for port, length in zip(self.table_words, lengths, strict=True)]
        # Of several cycles: the operands stay.
        combines, placed = Signal(), Signal()
        m.d.sync += [combines.eq(self._combines(process)), placed.eq(self._placed(process))]
        sparse_words = Mux(process.sparse & combines, process.vertices + 1, 0)
        entries = Mux(combine.table == 0, combine.vertices, combine.table)
        with m.If(begins):
            with m.Switch(front.opcode):
                with m.Case(Opcode.COMBINE):
                    m.d.sync += [*self._of_combine(combine), vertices.eq(combine.vertices)]
                    m.d.sync += self.table_first.eq(combine.vertices)
                    m.d.sync += self._dense(sizes.f_in, sizes)
                    apart = combine.distance * _WORDS_OF_GRANULE
                    with m.If(combine.distance != 0):
                        m.d.sync += self.features.stride.eq(apart)
                    with m.If(combine.kind == Combination.SUM):
                        m.d.sync += self.features.words.eq(apart)
                    m.d.sync += self._of_table(
                        Opcode.COMBINE,
                        lengths,
                        # PROCESS needs the entries of the other vertices, and begins at once if they are there.
                        ("feature_offsets", Mux(combine.sparse, entries + 1, 0)),
                        ("scales", entries),
                        ("scales_destination", combine.table),
                    )
                with m.Case(Opcode.PROCESS):
                    m.d.sync += [*self._of_process(process), self.table_first.eq(0)]
                    m.d.sync += [vertices.eq(process.vertices), *self._dense(sizes.f_in, sizes)]
                    m.d.sync += [self.features.placed.eq(placed), self.features.shifted.eq(placed & combines)]
                    m.d.sync += self._of_table(
                        Opcode.PROCESS,
                        lengths,
                        ("feature_offsets", Mux(placed, process.positions + combines, sparse_words)),
                        ("scales_source", Mux(combines, process.vertices, 0)),
                        ("scales_destination", process.vertices),
                    )

    def _dense(self, width: Any, sizes: _Sizes) -> list[Any]:
        """Return the settings for dense rows of `width` elements, and those for combined rows."""
        features = self.features

        def stride(elements: Any) -> Any:
            return (((elements - 1) >> exact_log2(GRANULE)) + 1) * _WORDS_OF_GRANULE

        return [
            features.words.eq((width + 1) >> 1),
            features.stride.eq(stride(width)),
            features.most.eq(sizes.f_in),
            features.row_words.eq((sizes.f_out + 1) >> 1),
            features.row_stride.eq(stride(sizes.f_out)),
        ]

    def _of_table(self, opcode: Opcode, lengths: list[Any], *arrays: tuple[str, Any]) -> list[Any]:
        """Return the addresses of the node table's arrays and their words."""
        tables = zip(arrays, self.table_addresses, lengths, strict=True)
        return [
            assignment
            for (line, length), address, words in tables
            for assignment in (address.eq(self._front.words(opcode, line)), words.eq(length))
        ]

    def _of_combine(self, combine: Any) -> list[Any]:
        """Return the settings of COMBINE."""
        combination, features, front = self.combination, self.features, self._front
        data_width, digits = self.config.data_width, combine.kind == Combination.DIGITS
        beats_of_granule = 8 * ROW_BYTES // data_width
        results, mode = (
            front.beats(Opcode.COMBINE, "combined", data_width),
            Mux(combine.sparse, Mode.SPARSE, Mode.DENSE),
        )
        return [
            self.combining.eq(1),
            combination.mode.eq(Mux(combine.kind == Combination.SUM, Mode.DIGITS, mode)),
            combination.digits.eq(digits),
            combination.shift.eq(combine.shift),
            features.features.eq(front.words(Opcode.COMBINE, "features")),
            features.sparse.eq(combine.sparse),
            features.combined.eq(0),
            features.placed.eq(0),
            features.shifted.eq(0),
            features.rooted.eq(0),
            features.in_turn.eq(combine.in_turn),
            features.first.eq(combine.first_row),
            self.first.eq(combine.first_row),
            self.first_result.eq(0),
            self.results.eq(results + Mux(digits, combine.first_granule * beats_of_granule, 0)),
            self.result_beats.eq(Mux(digits, combine.row_granules * beats_of_granule, self.row_beats)),
        ]

    def _of_process(self, process: Any) -> list[Any]:
        """Return the settings of PROCESS."""
        settings, combination, features, front = self.settings, self.combination, self.features, self._front
        mode, data_width = Mux(process.sparse, Mode.SPARSE, Mode.DENSE), self.config.data_width
        beats_of_granule = 8 * ROW_BYTES // data_width
        own_more = Mux(process.rooted, self._own_shift - process.shift_source, 0)
        return [
            self.combining.eq(0),
            combination.mode.eq(mode),
            combination.digits.eq(0),
            # Own rows are made beside combined ones: what one shift has more of is in the factors of its rows.
            combination.shift.eq(Mux(own_more[-1], self._own_shift, process.shift_source)),
            features.own_more.eq(Mux(own_more[-1], 0, own_more)),
            features.row_more.eq(Mux(own_more[-1], -own_more, 0)),
            # Without room for sums nothing is shared.
            settings.windows.eq(~process.pairs & (process.window != 0)),
            settings.k.eq(process.window),
            settings.limit.eq(Mux(process.pairs | (process.window != 0), self.config.columns, 0)),
            settings.shift.eq(process.shift_destination),
            settings.relu.eq(process.activation == Activation.RELU),
            settings.bias.eq(process.activation != Activation.DNP),
            settings.wide.eq(process.neighbour_weight != 1),
            settings.own.eq(process.self_weight - Mux(process.rooted, 0, process.neighbour_weight)),
            settings.rooted.eq(process.rooted),
            features.features.eq(front.words(Opcode.PROCESS, "features")),
            features.sparse.eq(process.sparse),
            features.combined.eq(process.combined),
            features.rows.eq(front.words(Opcode.PROCESS, "rows")),
            features.ahead.eq(process.ahead),
            features.first.eq(process.first_vertex),
            features.rooted.eq(process.rooted),
            features.in_turn.eq(0),
            features.first_own.eq(process.first_row),
            self.first.eq(process.first_vertex),
            self.first_result.eq(process.first_vertex - process.first_row),
            self.first_partial.eq(process.first_partial),
            self.results.eq(
                front.beats(Opcode.PROCESS, "results", data_width) + process.first_granule * beats_of_granule
            ),
            self.result_beats.eq(process.row_granules * beats_of_granule),
        ]
