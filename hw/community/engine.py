"""Community engine: locates and processes communities of the graph in its memory, layer by layer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Array, Assert, Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.data import View
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2, exact_log2

from contracts import Error, Opcode
from hw.chiplet.unit import FurtherPort, engine_members
from hw.community.beat_store import BeatStore
from hw.community.combined_reader import CombinedReader
from hw.community.config import CommunityChipletConfig
from hw.community.controller import Controller
from hw.community.feature_reader import FeatureReader
from hw.community.formats import extended
from hw.community.halo_gate import HaloGate
from hw.community.hub_unit import HubUnit
from hw.community.location_counters import LOCATION_COUNTERS, LocationCounters
from hw.community.node_table import NodeTable
from hw.community.parameter_reader import ParameterReader
from hw.community.pe import CommunityPE
from hw.community.record_dispatcher import RecordDispatcher
from hw.community.record_grouper import RecordGrouper
from hw.community.result_writer import ResultWriter
from hw.community.row_finisher import RowFinisher
from hw.community.row_progress import RowProgress
from hw.community.vertex_dispatcher import VertexDispatcher
from hw.locator.engine import ENGINE_MODULE as LOCATOR_ENGINE
from hw.locator.engine import Engine as LocatorEngine
from hw.locator.locator import Locator
from hw.memory.unit_port import memory_members
from hw.memory.write_fence import FENCE
from hw.pe.core import PECore
from hw.pe.weight_memory import READERS, WeightMemory
from hw.ring.formats import HaloRows, MadeRows
from hw.stream.arbiter import merge, tagged
from hw.stream.black_box import BlackBox
from hw.stream.crossbar import Crossbar, route
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["COMBINER_MODULE", "HUB_MODULE", "PE_MODULE", "CommunityEngine"]

#: Names of the modules that are generated apart if they are emitted once.
COMBINER_MODULE, PE_MODULE, HUB_MODULE = "community_combiner", "community_pe", "community_hub_unit"

#: Readers of a cluster.
_READERS = ("features", "combined_reader")
#: Readers of the engine that share the clusters' ports with them: the graph through the first ports, then these.
_SHARED = ("parameters", "table")
#: Hubs of the first round that are combined before their records are there: enough until those come. More would leave
#: PEs without work when they wait for the planning of large records.
_EARLY = 128
#: Buses of rows from hub units to PEs, for each cluster: as many PEs have one each, more of them share four.
_BUSES = 5
#: Counters of what PEs do, and the pulses that they count.
_PE_COUNTERS = {"gross": "gross", "formed": "formed", "worked": "adding"}


@dataclass(frozen=True)
class _Cluster:
    """Blocks behind a memory port, from records and vertices to results; only hub units serve the PEs of others."""

    number: int
    groupers: Sequence[RecordGrouper]
    dispatcher: RecordDispatcher
    vertices: VertexDispatcher
    features: FeatureReader
    combined_reader: CombinedReader
    beat_store: BeatStore
    combiners: Sequence[PECore]
    pes: Sequence[CommunityPE]
    units: Sequence[HubUnit]
    finishers: Sequence[RowFinisher]
    writer: ResultWriter

    @property
    def sums(self) -> list[Any]:
        """What sums rows up: hub units first."""
        return [*self.units, *self.pes]

    def among(self, name: str) -> str:
        """Return the name of a part, with the number of the cluster behind the first one's."""
        return f"{name}_{self.number}" if self.number else name


@dataclass(frozen=True)
class _Blocks:
    """Blocks of an engine, for the methods that connect them."""

    controller: Controller
    locator: Locator
    table: NodeTable
    weights: Sequence[WeightMemory]
    parameters: ParameterReader
    clusters: Sequence[_Cluster]
    #: Of rows that go round a ring.
    progress: RowProgress | None
    #: A request for a hub's row, and a row or a partial sum, is on its way between PEs and hub units.
    asked: Signal = field(default_factory=Signal)
    moving: Signal = field(default_factory=Signal)

    def _all(self, name: str) -> list[Any]:
        return [block for cluster in self.clusters for block in getattr(cluster, name)]

    @property
    def combiners(self) -> list[PECore]:
        """Of all clusters."""
        return self._all("combiners")

    @property
    def pes(self) -> list[CommunityPE]:
        """Of all clusters."""
        return self._all("pes")

    @property
    def units(self) -> list[HubUnit]:
        """Of all clusters: hub units by the low bits of VIDs."""
        return self._all("units")

    @property
    def finishers(self) -> list[RowFinisher]:
        """Of all clusters."""
        return self._all("finishers")

    @property
    def groupers(self) -> list[RecordGrouper]:
        """Of all clusters: one for each record stream."""
        return self._all("groupers")

    @property
    def sums(self) -> list[Any]:
        """What sums rows up: hub units first."""
        return [*self.units, *self.pes]


class CommunityEngine(wiring.Component):
    """Carries out LOCATE, LOAD_WEIGHTS, COMBINE and PROCESS, and refuses commands that it does not have.

    Parameters
    ----------
    config : CommunityChipletConfig
    once
        Leave out what is inside combiners, PEs, hub units and the locator's workers: these are generated apart, see
        `modules`.

    Attributes
    ----------
    command, executed, ...
        As for `hw.chiplet.unit.Engine`.
    gross, formed, worked, smoothed, shared, replayed : Out(32)
        Vectors added to rows or subtracted; sums formed; cycles of the adders, over all PEs; records that another PE
        than the one in turn got; records issued in shares; locations saved because records were kept. All since reset.
    communities, hubs, rounds, edges_read : Out(32)
        Of the last layer that was located, all its tiles together; ``rounds`` is the largest number of a tile.
    """

    OPCODES: tuple[Opcode, ...] = ()
    id_width = 4

    def __init__(self, config: CommunityChipletConfig | None = None, *, once: bool = False) -> None:
        self.config, self.once = config or CommunityChipletConfig(), once
        self.port, self.outstanding = self.config.port, self.config.depth
        count, graph = self.config.clusters, self.config.locator.loaders
        #: Shared readers at the memory port of each cluster.
        self._shared = [[name for at, name in enumerate(_SHARED, start=2) if at % count == n] for n in range(count)]
        self.clients, *further = (len(names) + len(_READERS) + (n < graph) for n, names in enumerate(self._shared))
        members = engine_members(self.config, self.clients)
        if self.config.partials:
            members |= {"halo": In(HaloRows(*self.port)), "made": Out(MadeRows()), "sending": In(1), **FENCE}
        for n, clients in enumerate(further, start=1):
            members[f"port_{n}"] = Out(wiring.Signature(memory_members(self.port, clients)))
        super().__init__(members)

    @property
    def further(self) -> list[FurtherPort]:
        """Memory ports of all clusters but the first."""
        return [FurtherPort(self, port) for port in self._ports[1:]]

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """Components that are left out because of `once`, by the name of their module."""
        if not self.once:
            return {}
        return {
            COMBINER_MODULE: self.combiner_module(),
            PE_MODULE: self.pe_module(),
            HUB_MODULE: self.hub_module(),
            LOCATOR_ENGINE: LocatorEngine(self.config.locator),
        }

    def combiner_module(self) -> PECore:
        """Return a combiner as it is in this engine."""
        return PECore(self.config.pe)

    def pe_module(self) -> CommunityPE:
        """Return a PE as it is in this engine."""
        return CommunityPE(self.config.community)

    def hub_module(self) -> HubUnit:
        """Return a hub unit as it is in this engine."""
        config = self.config
        return HubUnit(config.community, config.pes, config.locator.nodes, config.hubs, config.units)

    def elaborate(self, platform: object) -> Module:
        """Connect locator, combiners, PEs and hub units with the memory port."""
        m = Module()
        blocks = self._make_blocks(m)
        self._connect_commands(m, blocks)
        self._connect_memory(m, blocks)
        self._load_parameters(m, blocks)
        self._dispatch_records(m, blocks)
        self._look_up(m, blocks)
        for cluster in blocks.clusters:
            self._read_features(m, blocks, cluster)
        self._connect_hubs(m, blocks)
        self._prefetch_hubs(m, blocks)
        for cluster in blocks.clusters:
            self._route_combined(m, blocks, cluster)
            self._finish_rows(m, cluster)
        if blocks.progress:
            self._follow_rows(m, blocks, blocks.progress)
        self._write_results(m, blocks)
        self._report_errors(m, blocks)
        self._count(m, blocks)
        return m

    @property
    def _ports(self) -> list[Any]:
        """Memory ports of the clusters; that of the first is the engine's own."""
        return [self, *(getattr(self, f"port_{n}") for n in range(1, self.config.clusters))]

    def _make_blocks(self, m: Module) -> _Blocks:
        """Make all blocks and add them."""
        config, community, nodes = self.config, self.config.community, self.config.locator.nodes
        errors = 3 * config.clusters + config.combiners + config.pes + config.units
        blocks = _Blocks(
            controller=Controller(community, nodes, self.port[0], errors),
            locator=Locator(config.locator, once=self.once),
            table=NodeTable(nodes, *self.port, ports=config.clusters),
            weights=[WeightMemory(config.pe, len(share)) for share in self._sharers()],
            parameters=ParameterReader(community.pe, self.port[0]),
            clusters=[self._make_cluster(n) for n in range(config.clusters)],
            progress=RowProgress(config.combiners, nodes) if config.partials and config.clusters == 1 else None,
        )
        if blocks.progress:
            m.submodules.progress = blocks.progress
        for name in ("controller", "locator", "table", "parameters"):
            m.submodules[name] = getattr(blocks, name)
        for cluster in blocks.clusters:
            for name in ("dispatcher", "vertices", "features", "combined_reader", "beat_store", "writer"):
                m.submodules[cluster.among(name)] = getattr(cluster, name)
        for n, combiner in enumerate(blocks.combiners):
            m.submodules[f"combiner_{n}"] = BlackBox(combiner, COMBINER_MODULE) if self.once else combiner
        for n, weights in enumerate(blocks.weights):
            m.submodules[f"weights_{n}"] = weights
        for n, pe in enumerate(blocks.pes):
            m.submodules[f"pe_{n}"] = BlackBox(pe, PE_MODULE) if self.once else pe
        for n, unit in enumerate(blocks.units):
            m.submodules[f"hub_unit_{n}"] = BlackBox(unit, HUB_MODULE) if self.once else unit
        for n, finisher in enumerate(blocks.finishers):
            m.submodules[f"finisher_{n}"] = finisher
        for n, grouper in enumerate(blocks.groupers):
            m.submodules[f"grouper_{n}"] = grouper
        return blocks

    def _make_cluster(self, number: int) -> _Cluster:
        """Make the blocks behind a memory port."""
        config, community, nodes = self.config, self.config.community, self.config.locator.nodes
        combiners, pes, units, finishers, streams = (
            count // config.clusters
            for count in (config.combiners, config.pes, config.units, config.finishers, config.locator.outputs)
        )
        return _Cluster(
            number=number,
            groupers=[RecordGrouper(community.width, community.vid_bits) for _ in range(streams)],
            dispatcher=RecordDispatcher(
                pes, config.kept // config.clusters, streams, community.width, community.vid_bits,
                partials=config.partials, shares=community.shares,
            ),
            vertices=VertexDispatcher(community, pes, units, nodes, number, config.clusters),
            features=FeatureReader(community, combiners, self.port[0], config.depth),
            combined_reader=CombinedReader(community, self.port[0], config.depth),
            beat_store=BeatStore(community, combiners),
            combiners=[self.combiner_module() for _ in range(combiners)],
            pes=[self.pe_module() for _ in range(pes)],
            units=[self.hub_module() for _ in range(units)],
            finishers=[RowFinisher(community) for _ in range(finishers)],
            writer=ResultWriter(community, self.port[0], finishers + 1),
        )  # fmt: skip

    def _sharers(self) -> list[range]:
        """Return the combiners that share a copy of the weights, for each copy."""
        combiners = range(self.config.combiners)
        return [combiners[n : n + READERS] for n in combiners[::READERS]]

    def _connect_commands(self, m: Module, blocks: _Blocks) -> None:
        """Let the controller carry commands out, and the locator those that it hands on."""
        controller, locator = blocks.controller, blocks.locator
        connect(m, flipped(self.command), controller.command)
        connect(m, controller.executed, flipped(self.executed))
        connect(m, controller.locate, locator.command)
        connect(m, locator.completion, controller.located)
        m.d.comb += [
            self.opcode.eq(controller.opcode),
            self.layer.eq(controller.layer),
            controller.base.eq(self.base),
            controller.forget.eq(self.starts),
            controller.records_there.eq(Cat(cluster.dispatcher.there for cluster in blocks.clusters).all()),
            controller.records_whole.eq(Cat(cluster.dispatcher.whole for cluster in blocks.clusters).all()),
        ]
        for cluster in blocks.clusters:
            dispatcher = cluster.dispatcher
            m.d.comb += [
                dispatcher.start.eq(self._begins(blocks)),
                dispatcher.behind.eq(controller.behind),
                dispatcher.turn.eq(controller.turn),
                dispatcher.hops.eq(self.config.hops),
                dispatcher.first.eq(controller.first_located),
                dispatcher.vertices.eq(self._known(controller.first_located, controller.vertices_located)),
                dispatcher.replay.eq(controller.replay),
            ]
            if self.config.partials:
                m.d.comb += [dispatcher.arrival.eq(controller.arrival_located), dispatcher.come.eq(self.halo.come)]
            if self.config.split:
                m.d.comb += dispatcher.split.eq(self.config.split)

    @staticmethod
    def _begins(blocks: _Blocks) -> Any:
        """Return whether a location begins in this cycle."""
        return blocks.locator.command.valid & blocks.locator.command.ready

    def _connect_memory(self, m: Module, blocks: _Blocks) -> None:
        """Give readers their clients, and each cluster's writer the cluster's memory port."""
        locator = blocks.locator
        for cluster, port, shared in zip(blocks.clusters, self._ports, self._shared, strict=True):
            graph = range(self.config.locator.loaders)[cluster.number : cluster.number + 1]
            ends: list[tuple[Any, Any]] = [(locator.requests[n], locator.beats[n]) for n in graph]
            for name in shared:
                block = getattr(blocks, name)
                ends.append(
                    (self._behind_graph(m, blocks, name, cluster.number) if graph else block.request, block.beat)
                )
            ends += [(reader.request, reader.beat) for reader in (getattr(cluster, name) for name in _READERS)]
            connect(m, cluster.writer.o, flipped(port.write))
            for n, (request, beat) in enumerate(ends):
                connect(m, request, flipped(port.requests[n]))
                connect(m, flipped(port.beats[n]), beat)
        failures: list[Any] = [port.errors[0] for port in self._ports[: self.config.locator.loaders]]
        m.d.comb += [
            locator.failure.valid.eq(Cat(failure.valid for failure in failures).any()),
            locator.failure.payload.eq(Mux(failures[0].valid, failures[0].payload.info, failures[-1].payload.info)),
        ]

    @staticmethod
    def _behind_graph(m: Module, blocks: _Blocks, name: str, port: int) -> Any:
        """Return the requests of a block, which wait while the graph is requested at the port: locating takes longest.

        COMBINE does not wait: other chiplets need its rows. Nor does what is used before the location that goes on.
        """
        request = getattr(blocks, name).request
        later, opens = request.signature.create(path=(f"{name}_request",)), Signal(name=f"{name}_open")
        m.d.comb += [
            later.payload.eq(request.payload),
            later.valid.eq(request.valid & opens),
            request.ready.eq(later.ready & opens),
        ]
        # What is offered stays.
        with m.If(~later.valid | later.ready):
            controller = blocks.controller
            m.d.sync += opens.eq(~blocks.locator.reading[port] | controller.combining | controller.ahead)
        return later

    def _load_parameters(self, m: Module, blocks: _Blocks) -> None:
        """Write weights into all copies, biases into all row finishers."""
        controller, parameters = blocks.controller, blocks.parameters
        connect(m, controller.load, parameters.i)
        m.d.comb += [
            parameters.settings.eq(controller.combination),
            parameters.row_beats.eq(controller.row_beats),
            parameters.skip.eq(controller.skip_weights),
            controller.loaded.eq(parameters.loaded),
        ]
        for weights, sharers in zip(blocks.weights, self._sharers(), strict=True):
            m.d.comb += [
                weights.write.valid.eq(parameters.weight_write.valid),
                weights.write.payload.eq(parameters.weight_write.payload),
                # The first row of a matrix is a multiple of its size, so that nothing carries.
                weights.write.payload.address.eq(parameters.weight_write.payload.address | controller.first_weight),
            ]
            for side, n in enumerate(sharers):
                combiner = blocks.combiners[n]
                own = View(self.config.community.tag, combiner.weighed).root
                m.d.comb += [
                    combiner.settings.eq(controller.combination),
                    *(
                        mine.eq(wanted | Mux(own, controller.first_own, controller.first_weight))
                        for mine, wanted in zip(weights.addresses[side], combiner.weight_addresses, strict=True)
                    ),
                    combiner.weights.eq(weights.rows[side]),
                ]
        for finisher in blocks.finishers:
            m.d.comb += [
                finisher.bias_write.valid.eq(parameters.bias_write.valid),
                finisher.bias_write.payload.eq(parameters.bias_write.payload),
            ]
        m.d.comb += [block.settings.eq(controller.settings) for block in (*blocks.sums, *blocks.finishers)]

    def _dispatch_records(self, m: Module, blocks: _Blocks) -> None:
        """Give records to PEs, and throw them away after an error."""
        controller, dispatchers = blocks.controller, [cluster.dispatcher for cluster in blocks.clusters]
        sums, summed = self._sums(blocks), self._summed(blocks)
        ports = [port for dispatcher in dispatchers for port in dispatcher.i]
        for stream_, grouper, port in zip(blocks.locator.records, blocks.groupers, ports, strict=True):
            connect(m, stream_, grouper.i)
            connect(m, grouper.o, port)
        given = [port for dispatcher in dispatchers for port in dispatcher.o]
        for pe, records in zip(blocks.pes, given, strict=True):
            m.d.comb += [
                pe.first.eq(controller.first),
                pe.vertices.eq(summed),
                pe.records.payload.eq(records.payload),
                pe.records.valid.eq(records.valid & sums),
                records.ready.eq((pe.records.ready & sums) | controller.discard),
            ]
        for dispatcher in dispatchers:
            # Also those that come before PROCESS: others' rows may be sent for before it.
            m.d.comb += dispatcher.holds.eq((self.exchanging | ~sums) & ~controller.discard)
        busy = [*blocks.sums, *blocks.finishers, *(cluster.vertices for cluster in blocks.clusters)]
        m.d.comb += [
            self.working.eq(Cat(*(unit.working for unit in blocks.combiners), *(pe.adding for pe in blocks.pes))),
            controller.records_ended.eq(Cat(dispatcher.ended for dispatcher in dispatchers).all()),
        ]
        # A layer has ended when all have rested for some cycles.
        m.d.sync += controller.records_busy.eq(
            Cat(block.busy for block in busy).any() | blocks.moving | blocks.table.reading
        )

    def _summed(self, blocks: _Blocks) -> Value:
        """Return the number of vertices that are summed, from the controller's first one."""
        return self._known(blocks.controller.first, blocks.controller.vertices)

    def _known(self, first: Signal, vertices: Signal) -> Value:
        """Return the number of `vertices` from the `first` one: 0 if no VID is that large."""
        bits = self.config.community.vid_bits
        return Mux(first >> bits == 0, vertices[: bits + 1], 0)

    @staticmethod
    def _sums(blocks: _Blocks) -> Any:
        """Return whether records may go to the PEs."""
        return blocks.controller.open & ~blocks.controller.combining

    def _look_up(self, m: Module, blocks: _Blocks) -> None:
        """Have the table of vertices read."""
        controller, table = blocks.controller, blocks.table
        m.d.comb += [
            table.start.eq(controller.table_start),
            table.forget.eq(self.starts),
            table.first.eq(controller.table_first),
            *(table.addresses[n].eq(address) for n, address in enumerate(controller.table_addresses)),
            *(table.words[n].eq(words) for n, words in enumerate(controller.table_words)),
            controller.vertices_ended.eq(Cat(cluster.vertices.ended for cluster in blocks.clusters).all()),
        ]
        m.d.sync += controller.ready.eq(~table.busy & ~Cat(unit.busy for unit in blocks.units).any())

    def _read_features(self, m: Module, blocks: _Blocks, cluster: _Cluster) -> None:
        """Read the features of vertices that are combined: those of records and separate ones."""
        controller, vertices, table, features = blocks.controller, cluster.vertices, blocks.table, cluster.features
        m.d.comb += [
            vertices.start.eq(controller.start & controller.combining),
            vertices.first.eq(controller.first),
            vertices.vertices.eq(controller.vertices),
            vertices.go.eq(controller.open),
            features.settings.eq(controller.features),
            table.vertex[cluster.number].eq(features.vertex),
            features.found.eq(table.found[cluster.number]),
            # Features wait until the combiners have their weights, and rows until there are biases.
            features.go.eq(controller.weights_there),
            cluster.combined_reader.go.eq(controller.weights_there),
        ]
        if self.config.partials:
            m.submodules[cluster.among("halo_gate")] = gate = HaloGate(self.config.community, self.port[0])
            m.d.comb += gate.halo.eq(self.halo)
            connect(m, features.combined, gate.i)
            connect(m, gate.o, cluster.combined_reader.i)
        else:
            connect(m, features.combined, cluster.combined_reader.i)
        for pe, port in zip(cluster.pes, vertices.requests, strict=True):
            connect(m, pe.node_request, port)
        connect(m, vertices.o, features.i)
        beats = cluster.beat_store
        connect(m, features.o, beats.i)
        for n, combiner in enumerate(cluster.combiners):
            m.d.comb += [
                combiner.i.valid.eq(beats.o[n].valid),
                combiner.i.payload.eq(beats.o[n].payload),
                beats.taken[n].eq(combiner.taken),
                features.taken[n].eq(combiner.taken),
            ]
            m.d.sync += Assert(~combiner.i.valid | combiner.i.ready, "a combiner has room for its features")

    def _connect_hubs(self, m: Module, blocks: _Blocks) -> None:
        """Connect PEs and hub units: each takes a request, sends a row and adds a chunk in every cycle.

        Rows of several units go over buses, one for each PE or for a part of them, so that a row whose PE does not take
        it yet holds up few others.
        """
        controller, community, pes, units = blocks.controller, self.config.community, blocks.pes, blocks.units
        most = _BUSES * self.config.clusters
        buses = len(pes) if len(pes) <= most else 1 << most.bit_length() - 1
        if len(units) == 1:
            buses = 1
        m.submodules.requests = requests = Crossbar(community.hub_request, len(pes), len(units), "vid")
        m.submodules.partials = partials = Crossbar(community.partial, len(pes), len(units), "vid")
        m.submodules.hub_rows = rows = Crossbar(community.hub_row, len(units), buses, "pe", whole=True)
        # Whether a unit adds depends on its row finisher, and would decide through the crossbar what PEs do.
        slices = [Slice(community.partial) for _ in units]
        m.d.comb += [
            blocks.asked.eq(requests.busy),
            blocks.moving.eq(requests.busy | partials.busy | rows.busy | Cat(cut.o.valid for cut in slices).any()),
        ]
        for n, pe in enumerate(pes):
            route(m, pe.hub_request, 0, [requests.i[n]])
            m.d.comb += requests.i[n].payload.pe.eq(n)
            connect(m, pe.partial, partials.i[n])
        drained, found = Signal(), blocks.locator.hubs
        # No record comes any more when it is looked at.
        m.d.sync += drained.eq(~(blocks.moving | Cat(pe.busy for pe in pes).any()))
        for n, unit in enumerate(units):
            connect(m, requests.o[n], unit.i)
            m.submodules[f"partials_{n}"] = cut = slices[n]
            connect(m, partials.o[n], cut.i)
            connect(m, cut.o, unit.partial)
            connect(m, unit.row, rows.i[n])
            connect(m, unit.wanted, [port for cluster in blocks.clusters for port in cluster.vertices.wanted][n])
            m.d.comb += [
                unit.start.eq(controller.start),
                unit.close.eq(controller.finish),
                unit.drained.eq(drained),
                unit.odd.eq(controller.odd),
                unit.degree.valid.eq(found.valid & (found.payload.vid[: exact_log2(len(units))] == n)),
                unit.degree.payload.vid.eq(found.payload.vid),
                unit.degree.payload.degree.eq(found.payload.degree),
                unit.degree.payload.odd.eq(controller.odd_found),
                unit.first.eq(controller.first),
                unit.vertices.eq(self._summed(blocks)),
                unit.first_partial.eq(controller.first_partial),
            ]
        for n, bus in enumerate(rows.o):
            ends = pes[n::buses]
            route(m, bus, bus.payload.pe >> ceil_log2(buses), [pe.hub_rows for pe in ends])

    def _prefetch_hubs(self, m: Module, blocks: _Blocks) -> None:
        """Have hubs combined before their records are there.

        The first hubs are found before the edges are read. A hub that does not fit into the queue is requested by its
        records.
        """
        bits = exact_log2(self.config.units)
        found, sums = blocks.locator.hubs, self._sums(blocks) & ~blocks.controller.ahead
        m.submodules.early = early = ResetInserter(self._begins(blocks))(Queue(self.config.community.vid_bits, _EARLY))
        waits = Signal()
        m.d.comb += [
            early.i.valid.eq(found.valid & found.payload.ahead),
            early.i.payload.eq(found.payload.vid),
            waits.eq(sums & (early.level != 0)),
            early.o.ready.eq(Cat(unit.ahead.valid & unit.ahead.ready for unit in blocks.units).any()),
        ]
        m.d.sync += blocks.controller.records_asking.eq(
            Cat(source.asking for source in blocks.sums).any() | waits | blocks.asked
        )
        for number, unit in enumerate(blocks.units):
            m.d.comb += [
                unit.ahead.payload.eq(early.o.payload),
                unit.ahead.valid.eq(early.o.valid & sums & (early.o.payload[:bits] == number)),
            ]

    def _route_combined(self, m: Module, blocks: _Blocks, cluster: _Cluster) -> None:
        """Send combined rows to their PEs; those of separate vertices, with COMBINE as results, else to hub units."""
        community, combining = self.config.community, blocks.controller.combining
        # The low bits of a VID name the hub unit, of which a cluster has neighbouring ones.
        units = [unit.combined for unit in cluster.units]
        bits = exact_log2(len(units))
        sources = [*(combiner.o for combiner in cluster.combiners), cluster.combined_reader.o]
        rows, _, _ = merge(m, cluster.among("combined"), sources, community.pe.row_beat, wide=True)
        # Who takes a row is chosen from many, which would decide what the combiners do.
        m.submodules[cluster.among("routed")] = cut = Slice(tagged(community.pe.row_beat, len(sources)))
        connect(m, rows, cut.i)
        combined, row, source = cut.o, cut.o.payload.payload, cut.o.payload.source
        tag = community.tag_of(row)
        if progress := blocks.progress:
            m.d.comb += [
                progress.leaves.eq(combined.valid & combined.ready),
                progress.combined.valid.eq(combined.valid & combined.ready & row.last),
                progress.combined.combiner.eq(source),
                progress.combined.vid.eq(tag.vid),
            ]
        for n, pe in enumerate(cluster.pes):
            m.d.comb += [pe.rows.payload.eq(row), pe.rows.valid.eq(combined.valid & ~tag.apart & (tag.pe == n))]
        result = cluster.writer.i[len(cluster.finishers)]
        for number, unit in enumerate(units):
            m.d.comb += [
                unit.payload.eq(row),
                unit.valid.eq(combined.valid & tag.apart & ~combining & (tag.vid[:bits] == number)),
            ]
        unit_ready = Array(unit.ready for unit in units)[tag.vid[:bits]] if bits else units[0].ready
        m.d.comb += [
            result.payload.vid.eq(tag.vid),
            result.payload.beat.eq(tag.beat),
            result.payload.data.eq(row.data),
            result.payload.last.eq(row.last),
            result.valid.eq(combined.valid & tag.apart & combining),
            combined.ready.eq(
                Mux(
                    tag.apart,
                    Mux(combining, result.ready, unit_ready),
                    Array(pe.rows.ready for pe in cluster.pes)[tag.pe],
                )
            ),
            cluster.vertices.returned.eq(combined.valid & combined.ready & tag.apart & row.last & ~tag.root),
        ]

    def _follow_rows(self, m: Module, blocks: _Blocks, progress: RowProgress) -> None:
        """Say which rows of a COMBINE can be sent; the engine of a ring's chiplet has one cluster."""
        controller, made, (cluster,) = blocks.controller, self.made, blocks.clusters
        m.d.comb += [
            controller.sending.eq(self.sending),
            progress.begins.eq(controller.start),
            progress.first.eq(controller.first),
            progress.going.eq(controller.making),
            progress.given.eq(cluster.features.given),
            progress.written.eq(cluster.writer.o.valid & cluster.writer.o.ready),
            progress.answered.eq(self.answered),
            self.mark.eq(progress.mark),
            made.known.eq(1),
            made.begins.eq(controller.start),
            made.going.eq(controller.making),
            made.limit.eq(progress.limit),
        ]

    def _finish_rows(self, m: Module, cluster: _Cluster) -> None:
        """Share the row finishers among all that sum rows up."""
        config, count = self.config.community, len(cluster.finishers)
        # Sums of nodes have fewer bits than those of hubs.
        ends = [stream.Signature(config.finish_chunk).create(path=(f"end_{n}",)) for n in range(len(cluster.sums))]
        for block, end in zip(cluster.sums, ends, strict=True):
            m.d.comb += [
                end.valid.eq(block.finish.valid),
                block.finish.ready.eq(end.ready),
                *extended(end.payload, block.finish.payload),
            ]
        for n, (finisher, result) in enumerate(zip(cluster.finishers, cluster.writer.i, strict=False)):
            # Hub units first: they have most of their rows at the same time.
            name = f"finish_{cluster.number * count + n}"
            chunks, chunk, _ = merge(m, name, ends[n::count], config.finish_chunk, whole=True, wide=True)
            m.d.comb += [
                finisher.i.payload.eq(chunk),
                finisher.i.valid.eq(chunks.valid),
                chunks.ready.eq(finisher.i.ready),
            ]
            connect(m, finisher.o, result)

    def _write_results(self, m: Module, blocks: _Blocks) -> None:
        """Tell the writers where results go."""
        controller, community = blocks.controller, self.config.community
        busy: list[Any] = []
        for cluster, port in zip(blocks.clusters, self._ports, strict=True):
            writer = cluster.writer
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
            ]
            busy += [writer.busy, port.writing]
        m.d.comb += controller.writing.eq(Cat(busy).any())

    def _report_errors(self, m: Module, blocks: _Blocks) -> None:
        """Report all errors to the controller, of which the lowest number counts."""
        controller, pes = blocks.controller, blocks.pes
        failures = [cluster.features.error for cluster in blocks.clusters]
        failures += [error for port in self._ports for error in port.errors]
        reports = [(error.valid, error.payload.code, error.payload.info) for error in failures]
        found = [(combiner.index_error, Error.INDEX_RANGE) for combiner in blocks.combiners]
        found += [(pe.refused, Error.BAD_OPERAND) for pe in pes]
        found += [(unit.overflow, Error.BAD_OPERAND) for unit in blocks.units]

        def late(value: Signal) -> Signal:
            m.d.sync += (register := Signal.like(value)).eq(value)
            return register

        # These blocks find errors late in a cycle, and a layer goes on for several.
        reports += [(late(source.valid), code, late(source.payload)) for source, code in found]
        for n, (valid, code, info) in enumerate(reports):
            m.d.comb += [
                controller.errors[n].valid.eq(valid),
                controller.errors[n].payload.code.eq(code),
                controller.errors[n].payload.info.eq(info),
            ]

    def _count(self, m: Module, blocks: _Blocks) -> None:
        """Add counters up: of the PEs, and of the locations of a layer."""
        dispatchers, locations = [cluster.dispatcher for cluster in blocks.clusters], blocks.locator.counters
        found = {name: Signal(32, name=f"{name}_found") for name in ("communities", "hubs")}
        for name, count in found.items():
            pulses = sum(getattr(grouper, name) for grouper in blocks.groupers)
            m.d.sync += count.eq(Mux(self._begins(blocks), 0, count + pulses))
        for name, pulse in _PE_COUNTERS.items():
            counter, pulses = getattr(self, name), Signal(range(2 * len(blocks.pes) + 1), name=f"{name}_pulses")
            m.d.sync += [
                pulses.eq(sum(getattr(pe, pulse) for pe in blocks.pes)),
                counter.eq(counter + pulses),
            ]
        m.d.sync += [
            self.smoothed.eq(self.smoothed + sum(dispatcher.smoothed for dispatcher in dispatchers)),
            self.replayed.eq(self.replayed + blocks.controller.replay),
        ]
        if self.config.split:
            m.d.sync += self.shared.eq(self.shared + sum(dispatcher.shared for dispatcher in dispatchers))
        m.submodules.counters = counters = LocationCounters()
        m.d.comb += [
            counters.begins.eq(self._begins(blocks)),
            counters.joins.eq(blocks.controller.locate.payload.joins),
            *(getattr(counters.location, name).eq(count) for name, count in found.items()),
            counters.location.rounds.eq(locations.rounds),
            counters.location.edges_read.eq(locations.edges_read),
            *(getattr(self, name).eq(getattr(counters.total, name)) for name in LOCATION_COUNTERS),
        ]
