"""Controller: carries out the commands of a community chiplet, LOCATE beside those that follow it."""

from typing import Any

from amaranth.hdl import Cat, Cover, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import bits_for, exact_log2

from contracts import COMMAND_BYTES, COMMANDS, LINE_BYTES, ROW_BYTES, VALUE_BITS, Activation, Error, Opcode
from contracts.scale import MANTISSA_FRACTION
from hw.community.feature_reader import FeatureSettings
from hw.community.formats import CommunityConfig
from hw.community.load_sequencer import LoadSequencer
from hw.community.node_table import ARRAYS
from hw.contracts import struct
from hw.graph.formats import ErrorReport
from hw.memory.formats import RangeRequest, beat_address_width, line_address_width
from hw.pe.formats import Mode

__all__ = ["Controller"]

_WORD_BYTES = 4
_WORDS_OF_LINE = exact_log2(LINE_BYTES // _WORD_BYTES)
_WORDS_OF_GRANULE = ROW_BYTES // _WORD_BYTES
_ELEMENTS_OF_GRANULE = ROW_BYTES * 8 // VALUE_BITS
_MAX_IN = 1 << 16
#: What a location depends on, beside the graph in the memory.
_LOCATION = (
    "first_vertex", "vertices", "offsets", "edges", "edge_count", "tiles", "halving", "differences", "degrees",
    "threshold", "step", "rounds", "c_max", "h_max",
)  # fmt: skip
#: Cycles in a row in which nothing moves, so that nothing is on its way between two blocks.
_QUIET = 7


class Controller(wiring.Component):
    """One command at a time, but a location goes on while others follow, until PROCESS has used its records.

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
    row_memory
        Whether rows can stay on the chip.

    Attributes
    ----------
    base : In
        Line address that a command's addresses count from.
    command : stream of unsigned(512)
    executed : stream of `ErrorReport`
        Its first error, or code 0. ``BAD_OPERAND`` has the operand: a size beyond the configuration, or a number of
        features or vertices that is not that of the commands before; of outputs, too, if the weights were refused.
    opcode, layer : Out(8)
        Command under way.
    errors : streams of `ErrorReport`, always ready
    forget : In(1)
        The memory may have changed: the records of the last location are of no use.
    locate : stream of LOCATE commands, located : stream of `ErrorReport`
        To the locator, addresses counted from 0, and from it.
    records_whole : In(1), replay : Out(1)
        The records of the last location are there; give them out again instead of a location that would find them.
    settings, combination, features : Out
        Of the PEs, of the PEs that combine, of the feature readers.
    table_start : Out(1), table_addresses, table_words : Out
        For the node table.
    load : stream of `RangeRequest`, loaded : In(1)
        Weights, then biases to read; a row of weights, or a bias, has been written.
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
    vertices_ended : In(1)
        All of those have been given out.
    first, vertices : Out(32)
        Vertices that are the chiplet's own: of others there are rows, but no results.
    first_result : Out(32)
        VID of the first row of results.
    first_partial : Out(32)
        See `hw.community.hub_unit.HubUnit`.
    row_beats, results : Out
        Beats between results, and the beat address of the first.
    read_inside, write_inside : Out(1)
        Features come from the row memory; results go there. Their addresses count from its beginning.
    """

    def __init__(
        self, config: CommunityConfig, nodes: int, address_width: int, error_sources: int, *, row_memory: bool = False
    ) -> None:
        self.config, self.nodes, self.address_width, self.row_memory = config, nodes, address_width, row_memory
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
                "records_whole": In(1),
                "replay": Out(1),
                "locate": Out(stream.Signature(struct(COMMANDS[Opcode.LOCATE]))),
                "located": In(stream.Signature(ErrorReport)),
                "settings": Out(config.settings),
                "combination": Out(config.pe.settings),
                "features": Out(FeatureSettings(address_width)),
                "table_start": Out(1),
                "table_addresses": Out(range_["address"].shape).array(len(ARRAYS)),
                "table_words": Out(32).array(len(ARRAYS)),
                "load": Out(stream.Signature(range_)),
                "loaded": In(1),
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
                "vertices_ended": In(1),
                **{name: Out(32) for name in ("first", "vertices", "first_result", "first_partial")},
                "row_beats": Out(8),
                "results": Out(beat_address_width(address_width, config.data_width)),
                "read_inside": Out(1),
                "write_inside": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Decode, check, wait."""
        m = Module()
        config, settings, combination, features = self.config, self.settings, self.combination, self.features
        bits = Signal(8 * COMMAND_BYTES)
        views = {
            opcode: data.View(struct(COMMANDS[opcode]), bits)
            for opcode in (Opcode.NOP, Opcode.LOAD_WEIGHTS, Opcode.COMBINE, Opcode.LOCATE, Opcode.PROCESS)
        }
        head, load, combine, locate, process = views.values()
        report, working = Signal(ErrorReport), Signal()
        failed, failing = report.code != Error.NONE, Signal()
        # Nothing begins with more vertices than there may be.
        count_bits = bits_for(self.nodes + 1)
        vertices = Signal(count_bits)
        lengths = [Signal(count_bits, name=f"{name}_length") for name in ARRAYS]
        m.d.comb += self.vertices.eq(vertices)
        m.d.comb += [port.eq(length) for port, length in zip(self.table_words, lengths, strict=True)]
        for source in reversed(self.errors):
            with m.If(source.valid & working & ~failed):
                m.d.sync += report.eq(source.payload)

        def words(line: Any, inside: Any = 0) -> Any:
            return (Mux(inside, 0, self.base) + line) << _WORDS_OF_LINE

        def refuse(info: object) -> None:
            m.d.sync += [report.code.eq(Error.BAD_OPERAND), report.info.eq(info)]
            m.next = "CLOSE"

        def beats(line: Any, inside: Any = 0) -> Any:
            return (Mux(inside, 0, self.base) + line) << exact_log2(8 * LINE_BYTES // config.data_width)

        def read_dense(width: Any) -> None:
            """Dense rows have `width` elements."""
            m.d.sync += [
                features.words.eq((width + 1) >> 1),
                features.stride.eq((((width - 1) >> exact_log2(_ELEMENTS_OF_GRANULE)) + 1) * _WORDS_OF_GRANULE),
                features.most.eq(f_in),
            ]

        def read_table(*arrays: tuple[Any, Any]) -> None:
            """Where the node table's arrays are, and their words."""
            for (line, length), address, words_ in zip(arrays, self.table_addresses, lengths, strict=True):
                m.d.sync += [address.eq(words(line)), words_.eq(length)]

        def begin(*bad: tuple[Any, Any]) -> None:
            """Start unless an operand is bad; of several the last is told."""
            m.d.sync += self.start.eq(1)
            m.next = "PREPARE"
            for wrong, operand in bad:
                with m.If(wrong):
                    m.d.sync += self.start.eq(0)
                    refuse(operand)

        # Of the weights that are loaded, whether they were not refused, and of the location that goes on.
        f_in, f_out = Signal(bits_for(min(config.weight_rows, _MAX_IN))), Signal(bits_for(config.max_out))
        sized = Signal()
        located_vertices, locating, answered = Signal(32), Signal(), Signal()
        location = Signal(ErrorReport)
        m.d.comb += self.located.ready.eq(locating & ~answered)
        with m.If(self.located.valid & self.located.ready):
            m.d.sync += [answered.eq(1), location.eq(self.located.payload)]

        # The location whose records are there, if it has found all.
        found, kept = Signal(self.locate.payload.shape()), Signal()
        same = Cat(found[name] == self.locate.payload[name] for name in _LOCATION).all()
        with m.If(self.forget | (self.located.valid & self.located.ready & (self.located.payload.code != Error.NONE))):
            m.d.sync += kept.eq(0)

        last_chunk, granules = Signal(16), Signal(16)
        chunk_shift = Signal.like(combination.chunk_shift)
        for bit in range(len(combination.last_chunk)):
            with m.If(last_chunk[bit]):
                m.d.comb += chunk_shift.eq(bit + 1)
        row_words = Signal(16)
        m.d.comb += [
            row_words.eq(granules * _WORDS_OF_GRANULE),
            self.row_beats.eq(granules * (ROW_BYTES * 8 // config.data_width)),
            combination.f_in.eq(f_in),
            combination.f_out.eq(f_out),
            combination.last_chunk.eq(last_chunk),
            combination.chunk_shift.eq(chunk_shift),
            combination.self_weight.eq(1),
            settings.f_out.eq(f_out),
            settings.last_chunk.eq(last_chunk),
            settings.limit.eq(config.columns),
            settings.k.eq(1),
            self.executed.payload.eq(report),
        ]
        moved = Signal(self.locate.payload.shape())
        m.d.comb += [
            moved.eq(locate),
            self.locate.payload.eq(moved),
            *(
                self.locate.payload[name].eq(self.base + locate[name])
                for name in ("offsets", "edges", "degrees", "records", "state")
            ),
        ]
        quiet, still = Signal(range(_QUIET + 1)), Signal()
        m.d.sync += [quiet.eq(Mux(still, quiet + (quiet != _QUIET), 0)), self.start.eq(0), self.finish.eq(0)]
        m.d.comb += self.table_start.eq(self.start)

        m.submodules.loader = loader = LoadSequencer(self.address_width)
        connect(m, loader.load, flipped(self.load))
        m.d.comb += [
            loader.rows.eq(f_in),
            loader.row_words.eq(row_words),
            loader.biases_wanted.eq(f_out),
            self.weights_there.eq(~loader.busy),
            loader.loaded.eq(self.loaded),
        ]
        for source in reversed(self.errors):
            with m.If(source.valid):
                m.d.comb += [loader.error.valid.eq(1), loader.error.payload.eq(source.payload)]
        # What is told in the last cycle counts, too.
        m.d.comb += failing.eq(failed | loader.error.valid)

        ended = Mux(self.combining, self.vertices_ended, answered & self.records_ended)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += self.command.ready.eq(1)
                m.d.sync += [bits.eq(self.command.payload), report.eq(0)]
                with m.If(self.command.valid):
                    m.next = "DECODE"
            with m.State("DECODE"):
                with m.Switch(head.opcode):
                    with m.Case(Opcode.NOP):
                        m.next = "ANSWER"
                    with m.Case(Opcode.LOAD_WEIGHTS):
                        with m.If(~loader.busy):
                            m.d.sync += [
                                f_in.eq(load.f_in),
                                f_out.eq(load.f_out),
                                sized.eq(0),
                                last_chunk.eq((load.f_out - 1) >> exact_log2(config.lanes)),
                                granules.eq(((load.f_out - 1) >> exact_log2(_ELEMENTS_OF_GRANULE)) + 1),
                                loader.addresses[0].eq(words(load.weights)),
                                loader.addresses[1].eq(words(load.biases)),
                            ]
                            m.next = "SIZES"
                    with m.Case(Opcode.LOCATE):
                        m.next = "LOCATE"
                        with m.If(locating):
                            refuse(head.opcode)
                    with m.Case(Opcode.COMBINE):
                        m.next = "COMBINE"
                    with m.Case(Opcode.PROCESS):
                        m.next = "PROCESS"
                    with m.Default():
                        m.d.sync += [report.code.eq(Error.BAD_OPCODE), report.info.eq(head.opcode)]
                        m.next = "CLOSE"
            with m.State("SIZES"):
                m.next = "LOAD"
                rows = load.f_in
                with m.If((load.f_out == 0) | (load.f_out > config.max_out)):
                    refuse(load.f_out)
                with m.Elif((rows == 0) | (rows > (config.weight_rows >> chunk_shift)) | (rows > _MAX_IN)):
                    refuse(rows)
            with m.State("LOAD"):
                m.d.comb += loader.start.eq(1)
                m.d.sync += sized.eq(1)
                m.next = "LOADED"
                with m.If(locating):
                    m.next = "ANSWER"
            with m.State("LOADED"):
                m.d.comb += working.eq(1)
                with m.If(~loader.busy):
                    m.next = "CLOSE"
            with m.State("LOCATE"):
                again = kept & self.records_whole & same
                m.d.comb += [self.locate.valid.eq(~again), self.replay.eq(again)]
                with m.If(again | self.locate.ready):
                    m.d.sync += [
                        located_vertices.eq(locate.vertices),
                        locating.eq(1),
                        answered.eq(again),
                        location.eq(0),
                        found.eq(self.locate.payload),
                        kept.eq(1),
                    ]
                    m.next = "ANSWER"
            with m.State("COMBINE"):
                m.d.sync += [
                    self.combining.eq(1),
                    combination.mode.eq(Mux(combine.sparse, Mode.SPARSE, Mode.DENSE)),
                    combination.shift.eq(combine.shift),
                    features.features.eq(words(combine.features)),
                    features.sparse.eq(combine.sparse),
                    features.combined.eq(0),
                    features.placed.eq(0),
                    self.read_inside.eq(0),
                    self.write_inside.eq(0),
                    features.first.eq(combine.first_row),
                    self.first.eq(combine.first_row),
                    vertices.eq(combine.vertices),
                    self.first_result.eq(0),
                    self.results.eq(beats(combine.combined)),
                ]
                read_dense(f_in)
                read_table(
                    (combine.feature_offsets, Mux(combine.sparse, combine.vertices + 1, 0)),
                    (combine.scales, combine.vertices),
                    (combine.scales, 0),
                )
                begin(
                    (combine.vertices > self.nodes, combine.vertices),
                    (combine.f_in != f_in, combine.f_in),
                    ((combine.f_out != f_out) | ~sized, combine.f_out),
                )
            with m.State("PROCESS"):
                mode = Mux(process.sparse, Mode.SPARSE, Mode.DENSE)
                m.d.sync += [
                    self.combining.eq(0),
                    combination.mode.eq(Mux(process.combined, Mode.GATHER, mode)),
                    combination.shift.eq(Mux(process.combined, MANTISSA_FRACTION, process.shift_source)),
                    settings.windows.eq(~process.window),
                    settings.shift.eq(process.shift_destination),
                    settings.relu.eq(process.activation == Activation.RELU),
                    settings.bias.eq(process.activation != Activation.DNP),
                    settings.wide.eq(process.neighbour_weight != 1),
                    settings.own.eq(process.self_weight - process.neighbour_weight),
                    features.features.eq(words(process.features, process.read_inside)),
                    features.sparse.eq(process.sparse & ~process.combined),
                    features.combined.eq(process.combined),
                    features.placed.eq(process.combined & (process.positions != 0)),
                    features.first.eq(process.first_vertex),
                    self.first.eq(process.first_vertex),
                    vertices.eq(process.vertices),
                    self.first_result.eq(process.first_vertex - process.first_row),
                    self.first_partial.eq(process.first_partial),
                    self.results.eq(beats(process.results, process.write_inside)),
                    self.read_inside.eq(process.read_inside),
                    self.write_inside.eq(process.write_inside),
                ]
                read_dense(Mux(process.combined, f_out, f_in))
                sparse_words = Mux(process.sparse, process.vertices + 1, 0)
                read_table(
                    (process.feature_offsets, Mux(process.combined, process.positions, sparse_words)),
                    (process.scales_source, Mux(process.combined, 0, process.vertices)),
                    (process.scales_destination, process.vertices),
                )
                # Without a location there are no records to wait for.
                begin(
                    (~locating, Opcode.PROCESS),
                    (process.vertices != located_vertices, process.vertices),
                    (process.vertices > self.nodes, process.vertices),
                    (process.combined & (process.positions > self.nodes), process.positions),
                    (process.f_in != f_in, process.f_in),
                    ((process.f_out != f_out) | ~sized, process.f_out),
                    ((process.neighbour_weight != 1) & (process.neighbour_weight != 256), process.neighbour_weight),
                    (process.read_inside & (process.sparse | process.combined), Opcode.PROCESS),
                    *([] if self.row_memory else [(process.read_inside | process.write_inside, Opcode.PROCESS)]),
                )
            with m.State("PREPARE"):
                m.d.comb += [working.eq(1), still.eq(self.ready & ~self.start)]
                with m.If(quiet == 1):
                    m.next = "WORK"
            with m.State("WORK"):
                m.d.comb += [
                    working.eq(1),
                    self.open.eq(1),
                    still.eq(ended & ~self.records_asking & ~loader.busy),
                ]
                with m.If(quiet == _QUIET):
                    m.d.sync += self.finish.eq(~self.combining)
                    m.next = "FINISH"
            with m.State("FINISH"):
                m.d.comb += [working.eq(1), still.eq(~self.records_busy & ~self.writing & ~self.finish)]
                with m.If((quiet == _QUIET) & still):
                    unloaded = loader.report.code != Error.NONE
                    m.next = "ANSWER"
                    with m.If(self.combining):
                        with m.If(failing | unloaded):
                            m.d.sync += quiet.eq(0)
                            m.next = "CLOSE"
                    with m.Else():
                        m.d.sync += locating.eq(0)
                        with m.If(~failing):
                            m.d.sync += report.eq(location)
                    with m.If(~failing & unloaded):
                        m.d.sync += report.eq(loader.report)
            with m.State("CLOSE"):
                # A list of commands ends with its first error, so a location that goes on then serves nobody. (Weights
                # come here without one, but not beside a location.)
                m.d.comb += [
                    self.discard.eq(locating),
                    still.eq(self.discard & answered & self.records_ended),
                ]
                with m.If(~self.discard & ~loader.busy):
                    m.next = "ANSWER"
                with m.Elif(quiet == _QUIET):
                    m.d.sync += locating.eq(0)
            with m.State("ANSWER"):
                m.d.comb += self.executed.valid.eq(1)
                with m.If(self.executed.ready):
                    m.next = "IDLE"
        with m.If(~fsm.ongoing("IDLE")):
            m.d.comb += [self.opcode.eq(head.opcode), self.layer.eq(head.layer)]
        m.d.sync += [
            Cover(self.open & answered & ~self.records_ended, "located before all records are done"),
            Cover(self.discard, "a location that nobody uses"),
        ]
        return m
