"""A chiplet with community PEs: locates and processes communities of the graph in its memory, layer by layer."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import COMPLETION, VID_BITS, Error, Opcode
from hw.chiplet.command_reader import COMMANDS_AHEAD, CommandReader
from hw.chiplet.command_router import offload_members, route_commands
from hw.chiplet.weight_loader import WeightLoader
from hw.community.controller import Controller
from hw.community.feature_reader import FeatureReader
from hw.community.formats import CommunityConfig, HubConfig
from hw.community.hub_port import HubPort
from hw.community.hub_unit import HubUnit
from hw.community.node_table import NodeTable
from hw.community.pe import CommunityPE
from hw.community.record_dispatcher import RecordDispatcher
from hw.community.row_memory import RowMemory
from hw.community.vertex_dispatcher import VertexDispatcher
from hw.contracts import struct
from hw.locator.config import LocatorConfig
from hw.locator.engine import WORKER_MODULE
from hw.locator.locator import Locator
from hw.locator.worker import Worker
from hw.memory.axi import AXI4Signature, connect_flat, flat_members
from hw.memory.formats import WriteRequest, line_address_width
from hw.memory.range_reader import RangeReader
from hw.memory.read_arbiter import ReadArbiter
from hw.memory.word_serialiser import WordSerialiser
from hw.memory.write_port import WritePort
from hw.pe.formats import PEConfig
from hw.stream.arbiter import Arbiter, merge
from hw.stream.black_box import BlackBox
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["HUB_MODULE", "PE_MODULE", "CommunityChiplet", "CommunityChipletConfig"]

#: Names of the modules that are generated apart if they are emitted once.
PE_MODULE, HUB_MODULE = "community_pe", "community_hub_unit"

_ID_WIDTH = 3
_LOCATOR_CLIENTS = 3
#: Hubs of the first round that are combined before their records are there: enough until those come. More would leave
#: PEs without work when they wait for the planning of large records.
_EARLY = 128


@dataclass(frozen=True)
class CommunityChipletConfig:
    """Sizes of a chiplet with community PEs.

    Parameters
    ----------
    community
        Of a PE.
    locator
        Of the locator, whose nodes and edges bound the graph; its record streams, 1 to 4, go side by side.
    pes
        PEs, 1 to 16, which combine nodes and hubs and sum records up.
    units
        Hub units, 1, 2, 4 or 8, which keep and finish hubs.
    hubs
        Hubs of a unit at most, a power of two from 8.
    hops
        Reach of the allocator's smoothing, 0 to 3.
    depth
        Beats a reader may have asked for.
    kept
        Beats of records that are kept for each PE, a power of two from 64: if all records of a graph fit, the layers
        after the first have them without a location.
    ways
        Elements of a hub that a unit finishes in a cycle, a power of two up to the lanes.
    row_lines
        Lines of 64 bytes for rows that stay on the chip between layers, a power of two from 2; 0: all go to memory.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    #: As in `GatherChipletConfig`.
    kind: ClassVar[Literal["community"]] = "community"
    counters: ClassVar[tuple[str, ...]] = (
        "gross", "formed", "worked", "smoothed", "replayed", "communities", "hubs", "rounds", "edges_read",
    )  # fmt: skip

    community: CommunityConfig = field(default_factory=CommunityConfig)
    locator: LocatorConfig = field(default_factory=LocatorConfig)
    pes: int = 8
    units: int = 4
    hubs: int = 512
    hops: int = 3
    depth: int = 128
    kept: int = 2048
    ways: int = 4
    row_lines: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.pes <= 16:
            raise ValueError(f"pes must be in 1..16, not {self.pes!r}")
        if self.units not in (1, 2, 4, 8):
            raise ValueError(f"units must be 1, 2, 4 or 8, not {self.units!r}")
        if self.kept < 64 or self.kept & (self.kept - 1):
            raise ValueError(f"kept must be a power of two from 64, not {self.kept!r}")
        _ = HubConfig.of(self.community, self.hubs, self.ways)  # which checks both
        if self.row_lines == 1 or self.row_lines & (self.row_lines - 1):
            raise ValueError(f"row_lines must be 0 or a power of two from 2, not {self.row_lines!r}")
        if self.locator.outputs > 4:
            raise ValueError(f"locator.outputs must be in 1..4, not {self.locator.outputs!r}")
        if self.locator.external or self.locator.paged:
            raise ValueError(
                "locator.external must be False and locator.window 0: the chiplet keeps its graph on the chip"
            )
        if self.locator.data_width != self.community.data_width:
            raise ValueError(f"locator.data_width must be {self.community.data_width}, not {self.locator.data_width!r}")
        if self.locator.c_max + self.locator.hubs > self.community.width:
            raise ValueError(
                f"community.width must be at least {self.locator.c_max + self.locator.hubs}, c_max and hubs of the "
                f"locator, not {self.community.width!r}"
            )

    @property
    def pe(self) -> PEConfig:
        """Sizes of the PEs that combine."""
        return self.community.pe

    @property
    def port(self) -> tuple[int, int]:
        """Widths of the memory port: of a byte address and of a beat, in bits."""
        return self.locator.address_width, self.community.data_width

    @property
    def parts(self) -> tuple[str, ...]:
        """What is watched at work, in the order of the bits of ``working``."""
        return tuple(f"PE {n} {part}" for n in range(self.pes) for part in ("multipliers", "adders"))

    @property
    def settling(self) -> int:
        """Cycles after a reset in which tables by VID are cleared; work that is started then waits for their end."""
        return max(self.locator.nodes, self.hubs)

    @property
    def lanes(self) -> int:
        """Multipliers of the whole chiplet, as many as adders for rows."""
        return self.pes * self.community.lanes

    @property
    def readers(self) -> int:
        """Feature readers, which share the PEs: each looks a vertex up in two cycles."""
        return min(self.pes, 2)


class CommunityChiplet(wiring.Component):
    """Runs an image whose layers are LOCATE, LOAD_WEIGHTS and PROCESS.

    Parameters
    ----------
    config : CommunityChipletConfig
    once
        Leave out what is inside PEs, hub units and the locator's workers: these are generated apart, see `modules`.
    offload
        Opcodes that a unit outside carries out; none by default.

    Attributes
    ----------
    start, done, opcode, layer, working, m_axi_*, offload, offloaded, base
        As for `hw.chiplet.chiplet.Chiplet`.
    gross, formed, worked, smoothed, replayed : Out(32)
        Vectors added to rows or subtracted; sums formed; cycles of the adders, over all PEs; records that another PE
        than the one in turn got; locations saved because records were kept. All since reset.
    communities, hubs, rounds, edges_read : Out(32)
        What the last layer that was located had: all its tiles together, but the most rounds of one.
    """

    def __init__(
        self, config: CommunityChipletConfig | None = None, *, once: bool = False, offload: tuple[Opcode, ...] = ()
    ) -> None:
        self.config, self.once, self.offloads = config or CommunityChipletConfig(), once, offload
        locator = self.config.locator
        self.m_axi = AXI4Signature(locator.address_width, locator.data_width, _ID_WIDTH + 1)
        super().__init__(
            {
                "start": In(stream.Signature(line_address_width(locator.address_width))),
                "done": Out(stream.Signature(struct(COMPLETION))),
                "opcode": Out(8),
                "layer": Out(8),
                "working": Out(len(self.config.parts)),
                **{name: Out(32) for name in self.config.counters},
                **flat_members("m_axi", Out(self.m_axi)),
                **(offload_members(locator.address_width) if offload else {}),
            }
        )

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
        """Return a PE as it is in this chiplet."""
        return CommunityPE(self.config.community)

    def hub_module(self) -> HubUnit:
        """Return a hub unit as it is in this chiplet."""
        config = self.config
        return HubUnit(config.community, config.pes, config.locator.nodes, config.hubs, config.units, config.ways)

    @staticmethod
    def _feed(m: Module, features: Any, taker: Any, there: Signal) -> None:
        """Hand features to a PE that combines as soon as it has its weights."""
        m.d.comb += [
            taker.payload.eq(features.payload),
            taker.valid.eq(features.valid & there),
            features.ready.eq(taker.ready & there),
        ]

    def elaborate(self, platform: object) -> Module:
        """Connect locator, PEs and hub units with the memory port."""
        m = Module()
        config, community = self.config, self.config.community
        port = config.port
        clients = 1 + _LOCATOR_CLIENTS + 2 + config.readers
        m.submodules.command_reader = reader = CommandReader(*port, ahead=COMMANDS_AHEAD)
        # The command reader, client 0, has commands read while others go on that have nothing to do with it.
        m.submodules.read_arbiter = arbiter = ReadArbiter(*port, clients=clients, outstanding=config.depth, silent=(0,))
        m.submodules.write_port = write_port = WritePort(*port, id_width=_ID_WIDTH + 1)
        m.submodules.locator = locator = Locator(config.locator, once=self.once)
        m.submodules.dispatcher = dispatcher = RecordDispatcher(config.pes, config.kept, config.locator.outputs)
        m.submodules.table = table = NodeTable(config.locator.nodes, *port, ports=config.readers)
        shares = [range(n, config.pes, config.readers) for n in range(config.readers)]
        readers = [FeatureReader(community, len(share), port[0], config.depth) for share in shares]
        units = [self.hub_module() for _ in range(config.units)]
        pes = [self.pe_module() for _ in range(config.pes)]
        ports = [HubPort(community, config.units) for _ in range(config.pes)]
        m.submodules.controller = controller = Controller(
            community,
            config.locator.nodes,
            port[0],
            2 + config.readers + 2 * config.pes + config.units + (config.row_lines > 0),
            row_memory=config.row_lines > 0,
        )
        m.submodules.loads = loads = RangeReader(*port, 128)
        m.submodules.loader = loader = WeightLoader(community.pe)
        m.submodules.bias_words = bias_words = WordSerialiser(community.data_width)

        # Commands. The host may have written before it starts another list.
        starts = self.start.valid & self.start.ready
        begins = locator.command.valid & locator.command.ready
        connect(m, flipped(self.start), reader.i)
        connect(m, reader.o, flipped(self.done))
        m.d.comb += [self.opcode.eq(controller.opcode), self.layer.eq(controller.layer)]
        if self.offloads:
            route_commands(m, self, self.offloads, reader, controller)
        else:
            connect(m, reader.command, controller.command)
            connect(m, controller.executed, reader.executed)
        connect(m, controller.locate, locator.command)
        connect(m, locator.completion, controller.located)
        m.d.comb += [
            controller.base.eq(reader.base),
            dispatcher.start.eq(begins),
            dispatcher.hops.eq(config.hops),
            dispatcher.replay.eq(controller.replay),
            controller.records_whole.eq(dispatcher.whole),
            controller.forget.eq(starts),
        ]

        # A location of the same layer is another tile of it.
        counts = {
            "communities": dispatcher.communities,
            "hubs": dispatcher.hubs,
            "rounds": locator.counters.rounds,
            "edges_read": locator.counters.edges_read,
        }
        layer, joins = Signal(8), Signal()
        same_layer = joins & (layer == controller.locate.payload.layer)
        for name, count in counts.items():
            before, total = Signal(32, name=f"{name}_before"), getattr(self, name)
            m.d.comb += total.eq(Mux(before > count, before, count) if name == "rounds" else before + count)
            with m.If(begins):
                m.d.sync += before.eq(Mux(same_layer, total, 0))
        with m.If(begins):
            m.d.sync += [layer.eq(controller.locate.payload.layer), joins.eq(1)]
        with m.Elif(starts):
            m.d.sync += joins.eq(0)

        # Memory.
        connect_flat(m, self, "m_axi", arbiter.m_axi)
        connect_flat(m, self, "m_axi", write_port.m_axi)
        ends: list[tuple[Any, Any]] = [(reader.request, reader.beat)]
        ends += [(locator.requests[n], locator.beats[n]) for n in range(_LOCATOR_CLIENTS)]
        blocks: list[Any] = [loads, table]
        ends += [(block.request, block.beat) for block in blocks]
        m.submodules.writes = writes = Queue(WriteRequest(*port), 2)
        if config.row_lines:
            m.submodules.row_memory = row_memory = RowMemory(*port, config.row_lines, max(2, config.readers))
            m.d.comb += [
                row_memory.read_inside.eq(controller.read_inside),
                row_memory.write_inside.eq(controller.write_inside),
            ]
            for n, features in enumerate(readers):
                connect(m, features.request, row_memory.requests[n])
                connect(m, row_memory.beats[n], features.beat)
                ends.append((row_memory.outside_requests[n], row_memory.outside_beats[n]))
            connect(m, writes.o, row_memory.write)
            connect(m, row_memory.outside_write, write_port.i)
        else:
            row_memory = None
            ends += [(features.request, features.beat) for features in readers]
            connect(m, writes.o, write_port.i)
        for n, (request, beat) in enumerate(ends):
            connect(m, request, arbiter.requests[n])
            connect(m, arbiter.beats[n], beat)
        m.d.comb += [
            locator.failure.valid.eq(arbiter.failure.valid),
            locator.failure.payload.eq(arbiter.failure.payload),
        ]

        # Weights, rows of whole beats, and behind them biases, words: one range, then the other.
        connect(m, controller.load, loads.i)
        biases, beat, bias = Signal(), Signal(8), Signal(range(community.max_out))
        row_end = beat == controller.row_beats - 1
        m.d.comb += [
            loader.settings.eq(controller.combination),
            loader.start.eq(biases),
            loader.i.payload.data.eq(loads.o.payload.data),
            loader.i.payload.last.eq(row_end),
            loader.i.valid.eq(loads.o.valid & ~biases),
            bias_words.i.payload.eq(loads.o.payload),
            bias_words.i.valid.eq(loads.o.valid & biases),
            bias_words.o.ready.eq(1),
            loads.o.ready.eq(Mux(biases, bias_words.i.ready, loader.i.ready)),
            controller.loaded.eq(loader.row_loaded | bias_words.o.valid),
        ]
        with m.If(loads.o.valid & loads.o.ready & loads.o.payload.last):
            m.d.sync += biases.eq(~biases)
        with m.If(loader.i.valid & loader.i.ready):
            m.d.sync += beat.eq(Cat(beat + 1) & ~row_end.replicate(len(beat)))
        with m.If(bias_words.o.valid):
            m.d.sync += bias.eq(Mux(bias_words.o.payload.last, 0, bias + 1))
        for pe in pes:
            m.d.comb += [
                pe.combination.eq(controller.combination),
                pe.weight_write.valid.eq(loader.o.valid),
                pe.weight_write.payload.eq(loader.o.payload),
            ]
        sources: list[Any] = [*pes, *units]
        for source in sources:
            m.d.comb += [
                source.settings.eq(controller.settings),
                source.bias_write.valid.eq(bias_words.o.valid),
                source.bias_write.payload.address.eq(bias),
                source.bias_write.payload.data.eq(bias_words.o.payload.data),
            ]

        # Vertices apart: all of COMBINE, and hubs.
        m.submodules.vertices = vertices = VertexDispatcher(config.pes, config.units, config.locator.nodes)
        m.d.comb += [
            vertices.start.eq(controller.start & controller.combining),
            vertices.first.eq(controller.first),
            vertices.vertices.eq(controller.vertices),
            vertices.go.eq(controller.open),
            controller.vertices_ended.eq(vertices.ended),
        ]
        combined, combined_row, _ = merge(m, "combined", [pe.apart for pe in pes], community.pe.row_beat)
        tag = data.View(community.tag, combined_row.address)
        takers = [unit.combined for unit in units]
        unit_bits = exact_log2(config.units)
        for number, taker in enumerate(takers):
            mine = ~controller.combining & (tag.vid[:unit_bits] == number)
            m.d.comb += [taker.payload.eq(combined_row), taker.valid.eq(combined.valid & mine)]

        # Records to PEs, features and hubs' rows.
        sums = Signal()
        m.d.comb += sums.eq(controller.open & ~controller.combining)
        # The first hubs are known before the edges are there; what there is no room for is asked for by its records.
        m.submodules.early = early = ResetInserter(begins)(Queue(VID_BITS, _EARLY))
        early_waits = Signal()
        m.d.comb += [
            early.i.valid.eq(locator.first_hubs.valid),
            early.i.payload.eq(locator.first_hubs.payload),
            early_waits.eq(sums & (early.level != 0)),
            early.o.ready.eq(Cat(unit.ahead.valid & unit.ahead.ready for unit in units).any()),
        ]
        for number, unit in enumerate(units):
            m.d.comb += [
                unit.ahead.payload.eq(early.o.payload),
                unit.ahead.valid.eq(early.o.valid & sums & (early.o.payload[:unit_bits] == number)),
            ]
        for n in range(config.locator.outputs):
            connect(m, locator.records[n], dispatcher.i[n])
        for n, (pe, hub_port) in enumerate(zip(pes, ports, strict=True)):
            m.submodules[f"pe_{n}"] = BlackBox(pe, PE_MODULE) if self.once else pe
            m.submodules[f"hub_port_{n}"] = hub_port
            m.d.comb += [
                self.working.word_select(n, 2).eq(Cat(pe.multiplying, pe.adding)),
                pe.records.payload.eq(dispatcher.o[n].payload),
                pe.records.valid.eq(dispatcher.o[n].valid & sums),
                dispatcher.o[n].ready.eq((pe.records.ready & sums) | controller.discard),
                dispatcher.retired[n].eq(
                    pe.retired | (controller.discard & dispatcher.o[n].valid & dispatcher.o[n].payload.last)
                ),
                vertices.returned[n].eq(pe.apart.valid & pe.apart.ready & pe.apart.payload.last),
            ]
            features, client = readers[n % config.readers], n // config.readers
            connect(m, pe.node_request, features.i[client])
            connect(m, vertices.o[n], features.apart[client])
            m.d.comb += vertices.hungry[n].eq(features.hungry[client])
            self._feed(m, features.o[client], pe.features, controller.weights_there)
            connect(m, pe.hub_request, hub_port.i)
            connect(m, hub_port.o, pe.hub_rows)
            connect(m, pe.partial, hub_port.partial)
            for number, unit in enumerate(units):
                connect(m, hub_port.requests[number], unit.i[n])
                connect(m, unit.rows[n], hub_port.rows[number])
                connect(m, hub_port.partials[number], unit.partials[n])
        for number, unit in enumerate(units):
            m.submodules[f"hub_unit_{number}"] = BlackBox(unit, HUB_MODULE) if self.once else unit
            connect(m, unit.wanted, vertices.wanted[number])
            m.d.comb += [
                unit.start.eq(controller.start),
                unit.finish.eq(controller.finish),
                unit.first_partial.eq(controller.first_partial),
            ]
        for n, features in enumerate(readers):
            m.submodules[f"features_{n}"] = features
            m.d.comb += [
                features.settings.eq(controller.features),
                table.vertex[n].eq(features.vertex),
                features.found.eq(table.found[n]),
            ]
        m.d.comb += [
            table.start.eq(controller.table_start),
            table.forget.eq(starts),
            *(table.addresses[n].eq(address) for n, address in enumerate(controller.table_addresses)),
            *(table.words[n].eq(words) for n, words in enumerate(controller.table_words)),
            controller.records_ended.eq(dispatcher.ended),
            controller.records_asking.eq(Cat(source.asking for source in sources).any() | early_waits),
            controller.records_busy.eq(Cat(source.busy for source in sources).any() | vertices.busy),
            controller.ready.eq(~table.busy & ~Cat(unit.busy for unit in units).any()),
        ]

        # Results of all in turn, with their address. Other chiplets' vertices are hubs here, and have none.
        m.submodules.results = results = Arbiter(community.result, len(sources) + 1)
        for n, (source, result) in enumerate(zip(sources, results.i, strict=False)):
            own = (source.o.payload.vid - controller.first)[:32]
            others = Const(0) if n < config.pes else own >= controller.vertices
            m.d.comb += [
                result.payload.eq(source.o.payload),
                result.valid.eq(source.o.valid & ~others),
                source.o.ready.eq(result.ready | others),
            ]
        result = results.i[len(sources)]
        m.d.comb += [
            result.payload.vid.eq(tag.vid),
            result.payload.beat.eq(tag.beat),
            result.payload.data.eq(combined_row.data),
            result.payload.last.eq(combined_row.last),
            result.valid.eq(combined.valid & controller.combining),
            combined.ready.eq(
                Mux(
                    controller.combining,
                    result.ready,
                    Array(taker.ready for taker in takers)[tag.vid[:unit_bits]] if unit_bits else takers[0].ready,
                )
            ),
        ]
        row = results.o.payload.payload
        elements = community.pe.elements
        m.submodules.products = products = Slice(WriteRequest(*port))
        m.d.comb += [
            products.i.valid.eq(results.o.valid),
            results.o.ready.eq(products.i.ready),
            products.i.payload.address.eq((row.vid - controller.first_result)[:32] * controller.row_beats + row.beat),
            products.i.payload.data.eq(row.data),
            # What pads a row is not written.
            products.i.payload.strobe.eq(
                Cat((row.beat * elements + n < controller.settings.f_out).replicate(2) for n in range(elements))
            ),
            writes.i.valid.eq(products.o.valid),
            writes.i.payload.eq(products.o.payload),
            writes.i.payload.address.eq(products.o.payload.address + controller.results),
            products.o.ready.eq(writes.i.ready),
            controller.writing.eq(Cat(results.o.valid, products.o.valid, writes.o.valid, write_port.busy).any()),
        ]

        # Errors, and what is counted.
        reports = [(arbiter.failure, Error.MEMORY_READ), (write_port.failure, Error.MEMORY_WRITE)]
        reports += [(pe.index_error, Error.INDEX_RANGE) for pe in pes]
        reports += [(pe.refused, Error.BAD_OPERAND) for pe in pes]
        reports += [(unit.overflow, Error.BAD_OPERAND) for unit in units]
        reports += [(row_memory.beyond, Error.BAD_OPERAND)] if row_memory else []
        for n, features in enumerate(readers):
            connect(m, features.error, controller.errors[n])
        for n, (source, code) in enumerate(reports, len(readers)):
            m.d.comb += [
                controller.errors[n].valid.eq(source.valid),
                controller.errors[n].payload.code.eq(code),
                controller.errors[n].payload.info.eq(source.payload),
            ]
        for name in ("gross", "formed", "worked"):
            m.d.sync += getattr(self, name).eq(sum(getattr(pe, name) for pe in pes))
        m.d.sync += [
            self.smoothed.eq(self.smoothed + dispatcher.smoothed),
            self.replayed.eq(self.replayed + controller.replay),
        ]
        return m
