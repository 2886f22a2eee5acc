"""Community engine: locates and processes communities of the graph in its memory, layer by layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped
from amaranth.utils import exact_log2

from contracts import VID_BITS, Error, Opcode
from hw.chiplet.unit import engine_members
from hw.community.config import CommunityChipletConfig
from hw.community.controller import Controller
from hw.community.feature_reader import FeatureReader
from hw.community.hub_port import HubPort
from hw.community.hub_unit import HubUnit
from hw.community.location_counters import LOCATION_COUNTERS, LocationCounters
from hw.community.node_table import NodeTable
from hw.community.parameter_reader import ParameterReader
from hw.community.pe import CommunityPE
from hw.community.record_dispatcher import RecordDispatcher
from hw.community.result_writer import ResultWriter
from hw.community.row_memory import RowMemory
from hw.community.vertex_dispatcher import VertexDispatcher
from hw.locator.engine import WORKER_MODULE
from hw.locator.locator import Locator
from hw.locator.worker import Worker
from hw.stream.arbiter import merge
from hw.stream.black_box import BlackBox
from hw.stream.queue import Queue

__all__ = ["HUB_MODULE", "PE_MODULE", "CommunityEngine"]

#: Names of the modules that are generated apart if they are emitted once.
PE_MODULE, HUB_MODULE = "community_pe", "community_hub_unit"

_LOCATOR_CLIENTS = 3
#: Hubs of the first round that are combined before their records are there: enough until those come. More would leave
#: PEs without work when they wait for the planning of large records.
_EARLY = 128
#: Counters of the PEs, which are added up.
_PE_COUNTERS = ("gross", "formed", "worked")


@dataclass(frozen=True)
class _Blocks:
    """Blocks of an engine, for the methods that connect them."""

    controller: Controller
    locator: Locator
    dispatcher: RecordDispatcher
    vertices: VertexDispatcher
    table: NodeTable
    readers: Sequence[FeatureReader]
    parameters: ParameterReader
    pes: Sequence[CommunityPE]
    ports: Sequence[HubPort]
    units: Sequence[HubUnit]
    writer: ResultWriter
    row_memory: RowMemory | None

    @property
    def sources(self) -> list[Any]:
        """What makes rows of results."""
        return [*self.pes, *self.units]


class CommunityEngine(wiring.Component):
    """Carries out LOCATE, LOAD_WEIGHTS, COMBINE and PROCESS, and refuses commands that it does not have.

    Parameters
    ----------
    config : CommunityChipletConfig
    once
        Leave out what is inside PEs, hub units and the locator's workers: these are generated apart, see `modules`.

    Attributes
    ----------
    command, executed, ...
        As for `hw.chiplet.unit.Engine`.
    gross, formed, worked, smoothed, replayed : Out(32)
        Vectors added to rows or subtracted; sums formed; cycles of the adders, over all PEs; records that another PE
        than the one in turn got; locations saved because records were kept. All since reset.
    communities, hubs, rounds, edges_read : Out(32)
        Of the last layer that was located, all its tiles together; ``rounds`` is the largest number of a tile.
    """

    OPCODES: tuple[Opcode, ...] = ()
    id_width = 4

    def __init__(self, config: CommunityChipletConfig | None = None, *, once: bool = False) -> None:
        self.config, self.once = config or CommunityChipletConfig(), once
        self.port, self.outstanding = self.config.port, self.config.depth
        self.clients = _LOCATOR_CLIENTS + 2 + self.config.readers
        super().__init__(engine_members(self.config, self.clients))

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """Components that are left out because of `once`, by the name of their module."""
        if not self.once:
            return {}
        return {
            PE_MODULE: self.pe_module(),
            HUB_MODULE: self.hub_module(),
            WORKER_MODULE: Worker(self.config.locator),
        }

    def pe_module(self) -> CommunityPE:
        """Return a PE as it is in this engine."""
        return CommunityPE(self.config.community)

    def hub_module(self) -> HubUnit:
        """Return a hub unit as it is in this engine."""
        config = self.config
        return HubUnit(config.community, config.pes, config.locator.nodes, config.hubs, config.units, config.ways)

    def elaborate(self, platform: object) -> Module:
        """Connect locator, PEs and hub units with the memory port."""
        m = Module()
        blocks = self._make_blocks(m)
        self._connect_commands(m, blocks)
        self._connect_memory(m, blocks)
        self._load_parameters(m, blocks)
        self._dispatch_records(m, blocks)
        self._read_features(m, blocks)
        self._connect_hubs(m, blocks)
        self._prefetch_hubs(m, blocks)
        self._route_combined(m, blocks)
        self._collect_results(m, blocks)
        self._report_errors(m, blocks)
        self._count(m, blocks)
        return m

    def _make_blocks(self, m: Module) -> _Blocks:
        """Make all blocks and add them."""
        config, community, nodes = self.config, self.config.community, self.config.locator.nodes
        shares = [range(n, config.pes, config.readers) for n in range(config.readers)]
        errors = 2 + config.readers + 2 * config.pes + config.units + (config.row_lines > 0)
        blocks = _Blocks(
            controller=Controller(community, nodes, self.port[0], errors, row_memory=config.row_lines > 0),
            locator=Locator(config.locator, once=self.once),
            dispatcher=RecordDispatcher(
                config.pes, config.kept, config.locator.outputs, community.width, config.locator.node_bits
            ),
            vertices=VertexDispatcher(config.pes, config.units, nodes),
            table=NodeTable(nodes, *self.port, ports=config.readers),
            readers=[FeatureReader(community, len(share), self.port[0], config.depth) for share in shares],
            parameters=ParameterReader(community.pe, self.port[0]),
            pes=[self.pe_module() for _ in range(config.pes)],
            ports=[HubPort(community, config.units) for _ in range(config.pes)],
            units=[self.hub_module() for _ in range(config.units)],
            writer=ResultWriter(community, self.port[0], config.pes + config.units + 1),
            row_memory=RowMemory(*self.port, config.row_lines, max(2, config.readers)) if config.row_lines else None,
        )
        for name in ("controller", "locator", "dispatcher", "vertices", "table", "parameters", "writer"):
            m.submodules[name] = getattr(blocks, name)
        if blocks.row_memory:
            m.submodules.row_memory = blocks.row_memory
        for n, features in enumerate(blocks.readers):
            m.submodules[f"features_{n}"] = features
        for n, (pe, port) in enumerate(zip(blocks.pes, blocks.ports, strict=True)):
            m.submodules[f"pe_{n}"] = BlackBox(pe, PE_MODULE) if self.once else pe
            m.submodules[f"hub_port_{n}"] = port
        for n, unit in enumerate(blocks.units):
            m.submodules[f"hub_unit_{n}"] = BlackBox(unit, HUB_MODULE) if self.once else unit
        return blocks

    def _connect_commands(self, m: Module, blocks: _Blocks) -> None:
        """Let the controller carry commands out, and the locator those that it hands on."""
        controller, locator, dispatcher = blocks.controller, blocks.locator, blocks.dispatcher
        connect(m, flipped(self.command), controller.command)
        connect(m, controller.executed, flipped(self.executed))
        connect(m, controller.locate, locator.command)
        connect(m, locator.completion, controller.located)
        m.d.comb += [
            self.opcode.eq(controller.opcode),
            self.layer.eq(controller.layer),
            controller.base.eq(self.base),
            controller.forget.eq(self.starts),
            dispatcher.start.eq(self._begins(blocks)),
            dispatcher.hops.eq(self.config.hops),
            dispatcher.replay.eq(controller.replay),
            controller.records_whole.eq(dispatcher.whole),
        ]

    @staticmethod
    def _begins(blocks: _Blocks) -> Any:
        """Return whether a location begins in this cycle."""
        return blocks.locator.command.valid & blocks.locator.command.ready

    def _connect_memory(self, m: Module, blocks: _Blocks) -> None:
        """Give readers their clients, and put the row memory between them and the memory port if there is one."""
        locator, row_memory, writer = blocks.locator, blocks.row_memory, blocks.writer
        ends: list[tuple[Any, Any]] = [(locator.requests[n], locator.beats[n]) for n in range(_LOCATOR_CLIENTS)]
        ends += [(block.request, block.beat) for block in (blocks.parameters, blocks.table)]
        if row_memory is None:
            ends += [(features.request, features.beat) for features in blocks.readers]
            connect(m, writer.o, flipped(self.write))
        else:
            m.d.comb += [
                row_memory.read_inside.eq(blocks.controller.read_inside),
                row_memory.write_inside.eq(blocks.controller.write_inside),
            ]
            for n, features in enumerate(blocks.readers):
                connect(m, features.request, row_memory.requests[n])
                connect(m, row_memory.beats[n], features.beat)
                ends.append((row_memory.outside_requests[n], row_memory.outside_beats[n]))
            connect(m, writer.o, row_memory.write)
            connect(m, row_memory.outside_write, flipped(self.write))
        for n, (request, beat) in enumerate(ends):
            connect(m, request, flipped(self.requests[n]))
            connect(m, flipped(self.beats[n]), beat)
        m.d.comb += [
            locator.failure.valid.eq(self.errors[0].valid),
            locator.failure.payload.eq(self.errors[0].payload.info),
        ]

    def _load_parameters(self, m: Module, blocks: _Blocks) -> None:
        """Write weights into all PEs, biases into all that finish rows."""
        controller, parameters = blocks.controller, blocks.parameters
        connect(m, controller.load, parameters.i)
        m.d.comb += [
            parameters.settings.eq(controller.combination),
            parameters.row_beats.eq(controller.row_beats),
            controller.loaded.eq(parameters.loaded),
        ]
        for pe in blocks.pes:
            m.d.comb += [
                pe.combination.eq(controller.combination),
                pe.weight_write.valid.eq(parameters.weight_write.valid),
                pe.weight_write.payload.eq(parameters.weight_write.payload),
            ]
        for source in blocks.sources:
            m.d.comb += [
                source.settings.eq(controller.settings),
                source.bias_write.valid.eq(parameters.bias_write.valid),
                source.bias_write.payload.eq(parameters.bias_write.payload),
            ]

    def _dispatch_records(self, m: Module, blocks: _Blocks) -> None:
        """Give records to PEs, and throw them away after an error."""
        controller, dispatcher = blocks.controller, blocks.dispatcher
        for n in range(self.config.locator.outputs):
            connect(m, blocks.locator.records[n], dispatcher.i[n])
        sums = self._sums(blocks)
        for n, pe in enumerate(blocks.pes):
            records = dispatcher.o[n]
            m.d.comb += [
                self.working.word_select(n, 2).eq(Cat(pe.multiplying, pe.adding)),
                pe.first.eq(controller.first),
                pe.vertices.eq(controller.vertices),
                pe.records.payload.eq(records.payload),
                pe.records.valid.eq(records.valid & sums),
                records.ready.eq((pe.records.ready & sums) | controller.discard),
            ]
        m.d.comb += [
            controller.records_ended.eq(dispatcher.ended),
            controller.records_busy.eq(Cat(source.busy for source in blocks.sources).any() | blocks.vertices.busy),
        ]

    @staticmethod
    def _sums(blocks: _Blocks) -> Any:
        """Return whether records may go to the PEs."""
        return blocks.controller.open & ~blocks.controller.combining

    def _read_features(self, m: Module, blocks: _Blocks) -> None:
        """Read the features of vertices that are combined: of records, and of those that the dispatcher hands out."""
        controller, vertices, table = blocks.controller, blocks.vertices, blocks.table
        m.d.comb += [
            vertices.start.eq(controller.start & controller.combining),
            vertices.first.eq(controller.first),
            vertices.vertices.eq(controller.vertices),
            vertices.go.eq(controller.open),
            controller.vertices_ended.eq(vertices.ended),
            table.start.eq(controller.table_start),
            table.forget.eq(self.starts),
            *(table.addresses[n].eq(address) for n, address in enumerate(controller.table_addresses)),
            *(table.words[n].eq(words) for n, words in enumerate(controller.table_words)),
            controller.ready.eq(~table.busy & ~Cat(unit.busy for unit in blocks.units).any()),
        ]
        for n, features in enumerate(blocks.readers):
            m.d.comb += [
                features.settings.eq(controller.features),
                table.vertex[n].eq(features.vertex),
                features.found.eq(table.found[n]),
            ]
        for n, pe in enumerate(blocks.pes):
            features, client = blocks.readers[n % len(blocks.readers)], n // len(blocks.readers)
            connect(m, pe.node_request, features.i[client])
            connect(m, vertices.o[n], features.apart[client])
            rows = features.o[client]
            m.d.comb += [
                vertices.hungry[n].eq(features.hungry[client]),
                vertices.returned[n].eq(
                    pe.apart.valid
                    & pe.apart.ready
                    & pe.apart.payload.last
                    & ~self.config.community.tag_of(pe.apart.payload).root
                ),
                # Features wait until the PE has its weights.
                pe.features.payload.eq(rows.payload),
                pe.features.valid.eq(rows.valid & controller.weights_there),
                rows.ready.eq(pe.features.ready & controller.weights_there),
            ]

    def _connect_hubs(self, m: Module, blocks: _Blocks) -> None:
        """Connect every PE with every hub unit: requests, rows and partial sums."""
        controller = blocks.controller
        for n, (pe, port) in enumerate(zip(blocks.pes, blocks.ports, strict=True)):
            connect(m, pe.hub_request, port.i)
            connect(m, port.o, pe.hub_rows)
            connect(m, pe.partial, port.partial)
            for number, unit in enumerate(blocks.units):
                connect(m, port.requests[number], unit.i[n])
                connect(m, unit.rows[n], port.rows[number])
                connect(m, port.partials[number], unit.partials[n])
        for number, unit in enumerate(blocks.units):
            connect(m, unit.wanted, blocks.vertices.wanted[number])
            m.d.comb += [
                unit.start.eq(controller.start),
                unit.finish.eq(controller.finish),
                unit.first_partial.eq(controller.first_partial),
            ]

    def _prefetch_hubs(self, m: Module, blocks: _Blocks) -> None:
        """Have hubs combined before their records are there.

        The first hubs are found before the edges are read. A hub that does not fit into the queue is requested by its
        records.
        """
        bits = exact_log2(self.config.units)
        found, sums = blocks.locator.first_hubs, self._sums(blocks)
        m.submodules.early = early = ResetInserter(self._begins(blocks))(Queue(VID_BITS, _EARLY))
        waits = Signal()
        m.d.comb += [
            early.i.valid.eq(found.valid),
            early.i.payload.eq(found.payload),
            waits.eq(sums & (early.level != 0)),
            early.o.ready.eq(Cat(unit.ahead.valid & unit.ahead.ready for unit in blocks.units).any()),
            blocks.controller.records_asking.eq(Cat(source.asking for source in blocks.sources).any() | waits),
        ]
        for number, unit in enumerate(blocks.units):
            m.d.comb += [
                unit.ahead.payload.eq(early.o.payload),
                unit.ahead.valid.eq(early.o.valid & sums & (early.o.payload[:bits] == number)),
            ]

    def _route_combined(self, m: Module, blocks: _Blocks) -> None:
        """Send combined rows that belong to no record: with COMBINE they are results, else rows of hubs."""
        community, combining = self.config.community, blocks.controller.combining
        bits = exact_log2(self.config.units)
        combined, row, _ = merge(m, "combined", [pe.apart for pe in blocks.pes], community.pe.row_beat)
        tag = community.tag_of(row)
        units = [unit.combined for unit in blocks.units]
        result = blocks.writer.i[len(blocks.sources)]
        for number, unit in enumerate(units):
            m.d.comb += [
                unit.payload.eq(row),
                unit.valid.eq(combined.valid & ~combining & (tag.vid[:bits] == number)),
            ]
        unit_ready = Array(unit.ready for unit in units)[tag.vid[:bits]] if bits else units[0].ready
        m.d.comb += [
            result.payload.vid.eq(tag.vid),
            result.payload.beat.eq(tag.beat),
            result.payload.data.eq(row.data),
            result.payload.last.eq(row.last),
            result.valid.eq(combined.valid & combining),
            combined.ready.eq(Mux(combining, result.ready, unit_ready)),
        ]

    def _collect_results(self, m: Module, blocks: _Blocks) -> None:
        """Have results written but those of vertices that are not summed.

        These are other chiplets', which are hubs here, and source copies of a double cover.
        """
        controller, writer, community = blocks.controller, blocks.writer, self.config.community
        m.d.comb += [
            writer.f_out.eq(
                Mux(
                    controller.combination.digits,
                    community.row_beats * community.pe.elements,
                    controller.settings.f_out,
                )
            ),
            writer.first_result.eq(controller.first_result),
            writer.result_beats.eq(controller.result_beats),
            writer.results.eq(controller.results),
            controller.writing.eq(writer.busy | self.writing),
        ]
        for source, result in zip(blocks.sources, writer.i, strict=False):
            drops = (source.o.payload.vid - controller.first)[:32] >= controller.vertices
            m.d.comb += [
                result.payload.eq(source.o.payload),
                result.valid.eq(source.o.valid & ~drops),
                source.o.ready.eq(result.ready | drops),
            ]

    def _report_errors(self, m: Module, blocks: _Blocks) -> None:
        """Report all errors to the controller, of which the lowest number counts."""
        controller, pes = blocks.controller, blocks.pes
        for n, features in enumerate(blocks.readers):
            connect(m, features.error, controller.errors[n])
        reports = [(error.valid, error.payload.code, error.payload.info) for error in self.errors]
        found = [(pe.index_error, Error.INDEX_RANGE) for pe in pes]
        found += [(pe.refused, Error.BAD_OPERAND) for pe in pes]
        found += [(unit.overflow, Error.BAD_OPERAND) for unit in blocks.units]
        found += [(blocks.row_memory.beyond, Error.BAD_OPERAND)] if blocks.row_memory else []
        reports += [(source.valid, code, source.payload) for source, code in found]
        for n, (valid, code, info) in enumerate(reports, start=len(blocks.readers)):
            m.d.comb += [
                controller.errors[n].valid.eq(valid),
                controller.errors[n].payload.code.eq(code),
                controller.errors[n].payload.info.eq(info),
            ]

    def _count(self, m: Module, blocks: _Blocks) -> None:
        """Add counters up: of the PEs, and of the locations of a layer."""
        dispatcher, locations = blocks.dispatcher, blocks.locator.counters
        for name in _PE_COUNTERS:
            m.d.sync += getattr(self, name).eq(sum(getattr(pe, name) for pe in blocks.pes))
        m.d.sync += [
            self.smoothed.eq(self.smoothed + dispatcher.smoothed),
            self.replayed.eq(self.replayed + blocks.controller.replay),
        ]
        m.submodules.counters = counters = LocationCounters()
        m.d.comb += [
            counters.begins.eq(self._begins(blocks)),
            counters.joins.eq(blocks.controller.locate.payload.joins),
            counters.location.communities.eq(dispatcher.communities),
            counters.location.hubs.eq(dispatcher.hubs),
            counters.location.rounds.eq(locations.rounds),
            counters.location.edges_read.eq(locations.edges_read),
            *(getattr(self, name).eq(getattr(counters.total, name)) for name in LOCATION_COUNTERS),
        ]
