"""Locator: rounds of hub detection and parallel search over a graph in memory (I1-I4, I10)."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import LINE_BYTES, Error
from contracts.communities import HUB_WORD, ROUNDS_MAX
from hw.graph.csr_reader import ErrorReport
from hw.locator.adjacency_port import AdjacencyPort
from hw.locator.adjacency_store import AdjacencyStore
from hw.locator.collector import Collector
from hw.locator.config import LocatorConfig
from hw.locator.degree_lists import DegreeLists
from hw.locator.dispatcher import Dispatcher
from hw.locator.engine import ENGINE_MODULE, Engine
from hw.locator.formats import Counts, HubDegree, RecordBeat, Settings, location_command
from hw.locator.hub_detector import HubDetector
from hw.locator.loader import Loader
from hw.locator.resolver import Resolver
from hw.locator.state_store import StateStore
from hw.locator.task_generator import TaskGenerator
from hw.memory.formats import ReadBeat, ReadRequest, WriteRequest, line_address_width
from hw.stream.black_box import BlackBox

__all__ = ["Counters", "Locator"]

#: Counters of a run. ``rounds`` that had pending vertices; ``edges_read``; ``searches`` begun, ``given_up`` for
#: size and ``retreats`` from another search; cycles of loading and of locating.
Counters = data.StructLayout(
    {
        "rounds": 16,
        "edges_read": 32,
        "searches": 32,
        "given_up": 32,
        "retreats": 32,
        "load_cycles": 32,
        "locate_cycles": 32,
    }
)


@dataclass(frozen=True)
class _Blocks:
    """Blocks of a locator."""

    loader: Loader
    lists: DegreeLists
    states: StateStore
    adjacency: AdjacencyPort | AdjacencyStore
    detector: HubDetector
    generator: TaskGenerator
    dispatcher: Dispatcher
    resolver: Resolver
    engines: list[Engine]
    collectors: list[Collector]

    @property
    def new_hub(self) -> Value:
        """Whether the detector finds a hub that has neighbours."""
        found = self.detector.o
        return found.valid & found.ready & ~found.payload.isolated


class Locator(wiring.Component):
    """Loads a graph, finds its hubs and communities round by round, and emits records as they are found.

    Parameters
    ----------
    config
        Sizes.
    once
        Make each engine a black box; `hw.locator.engine.Engine` is then generated separately, as `ENGINE_MODULE`.

    Attributes
    ----------
    active
        Number of engines that work, from the first; 0: all. Constant during a run.
    command
        LOCATE commands, one at a time.
    completion
        Result of the command: a code of `contracts.Error` and its info. Every record stream has ended by then.
    reading
        Beats of the graph are left to request, which only the memory holds up: a bit for each of its clients.
    hubs
        Every hub, before its own first record; records of other hubs may name it earlier. Those of the first round come
        as soon as the rows are loaded, unless these are wrong, ``ahead`` of all others, and again in the round.
    records
        Record streams; each ends with an end-of-stream beat, after an error too.
    counters
        Of the last run.
    requests, beats
        Clients of the read arbiter.
    failure
        Line addresses of reads that failed, from the read arbiter.
    write, unwritten, write_failure
        If ``config.paged``: pages of the node state to write, whether write responses are outstanding, and line
        addresses of failed writes.
    """

    def __init__(self, config: LocatorConfig, *, once: bool = False) -> None:
        self.config, self.once = config, once
        widths = (config.address_width, config.data_width)
        failure = stream.Signature(line_address_width(config.address_width), always_ready=True)
        paging = {
            "write": Out(stream.Signature(WriteRequest(*widths))),
            "unwritten": In(1),
            "write_failure": In(failure),
        }
        super().__init__(
            {
                "active": In(range(config.engines + 1)),
                "command": In(stream.Signature(location_command(config.address_width))),
                "completion": Out(stream.Signature(ErrorReport)),
                "reading": Out(config.loaders),
                "hubs": Out(stream.Signature(HubDegree(config), always_ready=True)),
                "records": Out(stream.Signature(RecordBeat)).array(config.outputs),
                "counters": Out(Counters),
                "requests": Out(stream.Signature(ReadRequest(*widths))).array(config.clients),
                "beats": In(stream.Signature(ReadBeat(config.data_width), always_ready=True)).array(config.clients),
                "failure": In(failure),
                **(paging if config.paged else {}),
            }
        )

    @property
    def modules(self) -> dict[str, wiring.Component]:
        """Black boxes due to `once`, by the name of their module."""
        return {ENGINE_MODULE: Engine(self.config)} if self.once else {}

    def elaborate(self, platform: object) -> Module:
        """Connect the blocks; step through the rounds."""
        m = Module()
        blocks, settings = self._blocks(m), Signal(Settings(self.config))
        self._load(m, blocks, settings)
        self._find(m, blocks, settings)
        self._search(m, blocks, settings)
        self._emit(m, blocks, settings)
        self._count(m, blocks)
        self._step(m, blocks, settings)
        return m

    def _blocks(self, m: Module) -> _Blocks:
        """Return the blocks, with one adjacency, and a collector for each record stream."""
        config = self.config
        m.submodules.loader = loader = Loader(config)
        m.submodules.lists = lists = DegreeLists(config)
        m.submodules.states = states = StateStore(config)
        m.submodules.adjacency = adjacency = AdjacencyPort(config) if config.external else AdjacencyStore(config)
        m.submodules.detector = detector = HubDetector(config)
        m.submodules.generator = generator = TaskGenerator(config)
        m.submodules.dispatcher = dispatcher = Dispatcher(config)
        m.submodules.resolver = resolver = Resolver(config)
        engines = [Engine(config) for _ in range(config.engines)]
        for n, engine in enumerate(engines):
            m.submodules[f"engine{n}"] = BlackBox(engine, ENGINE_MODULE) if self.once else engine
        collectors = [Collector(config, len(engines[n :: config.outputs])) for n in range(config.outputs)]
        for n, collector in enumerate(collectors):
            m.submodules[f"collector{n}"] = collector
        return _Blocks(loader, lists, states, adjacency, detector, generator, dispatcher, resolver, engines, collectors)

    def _load(self, m: Module, blocks: _Blocks, settings: data.View) -> None:
        """Bring rows into lists by degree and into the state, and edges where engines read them."""
        config, loader, adjacency = self.config, blocks.loader, blocks.adjacency
        m.d.comb += self.reading.eq(loader.reading)
        for n in range(config.loaders):
            wiring.connect(m, loader.requests[n], wiring.flipped(self.requests[n]))
            wiring.connect(m, wiring.flipped(self.beats[n]), loader.beats[n])
        wiring.connect(m, loader.rows, blocks.lists.i)
        wiring.connect(m, blocks.lists.o, blocks.states.rows)
        if isinstance(adjacency, AdjacencyPort):
            # The edges are read once to be checked.
            m.d.comb += adjacency.settings.eq(settings)
            wiring.connect(m, adjacency.request, wiring.flipped(self.requests[config.loaders]))
            wiring.connect(m, wiring.flipped(self.beats[config.loaders]), adjacency.beat)
        else:
            wiring.connect(m, loader.write, adjacency.write)

    def _find(self, m: Module, blocks: _Blocks, settings: data.View) -> None:
        """Let the detector look at lists and states; its hubs become tasks of searches, and are reported."""
        detector, lists, states = blocks.detector, blocks.lists, blocks.states
        wiring.connect(m, detector.o, blocks.generator.i)
        wiring.connect(m, blocks.generator.o, blocks.dispatcher.i)
        m.d.comb += [block.settings.eq(settings) for block in (states, detector)]
        m.d.comb += [lists.level.eq(detector.level), detector.heads.eq(lists.heads), detector.most.eq(lists.most)]
        for look, shown, bank in zip(detector.looks, detector.shown, range(self.config.banks), strict=True):
            wiring.connect(m, look, states.looks[bank])
            m.d.comb += shown.eq(states.shown[bank])
        m.d.sync += [
            self.hubs.valid.eq(blocks.new_hub | detector.announced),
            self.hubs.payload.vid.eq(detector.o.payload.vertex + settings.first),
            self.hubs.payload.degree.eq(detector.o.payload.row.degree),
            self.hubs.payload.ahead.eq(detector.announced),
        ]

    def _search(self, m: Module, blocks: _Blocks, settings: data.View) -> None:
        """Give tasks to the searches of all engines, which read states and adjacency; conflicts go to the resolver."""
        config, states, dispatcher, resolver = self.config, blocks.states, blocks.dispatcher, blocks.resolver
        m.d.comb += [dispatcher.active.eq(self.active), resolver.settings.eq(settings)]
        for n, engine in enumerate(blocks.engines):
            m.d.comb += [engine.number.eq(n), engine.settings.eq(settings), states.owners[n].eq(engine.access.owner)]
            for lane in range(config.lanes):
                port = n * config.lanes + lane
                wiring.connect(m, engine.access.request[lane], states.requests[port])
                m.d.comb += engine.access.answer[lane].eq(states.answers[port])
            wiring.connect(m, engine.access.line_request, blocks.adjacency.requests[n])
            wiring.connect(m, blocks.adjacency.lines[n], engine.access.line)
        searches = [blocks.engines[n % config.engines].searches[n // config.engines] for n in range(config.workers)]
        for worker, search in enumerate(searches):
            wiring.connect(m, dispatcher.o[worker], search.task)
            wiring.connect(m, search.conflict, resolver.conflicts[worker])
            m.d.comb += [
                search.decided.eq(resolver.decided[worker]),
                search.claim.eq(resolver.claims[worker]),
                resolver.statuses[worker].eq(search.status),
            ]

    def _emit(self, m: Module, blocks: _Blocks, settings: data.View) -> None:
        """Collect the records of engine *n* for stream *n* modulo the number of streams."""
        for n, collector in enumerate(blocks.collectors):
            m.d.comb += collector.settings.eq(settings)
            for source, engine in zip(collector.engines, blocks.engines[n :: self.config.outputs], strict=True):
                wiring.connect(m, engine.records, source)
            wiring.connect(m, collector.o, wiring.flipped(self.records[n]))

    def _count(self, m: Module, blocks: _Blocks) -> None:
        """Count what engines report, by engine, then summed."""
        config, counters = self.config, self.counters
        events = (("edges_read", "read"), ("searches", "began"), ("given_up", "gave_up"), ("retreats", "retreated"))
        sums = [Signal(Counts(config.lanes, config.searches), name=f"sum{n}") for n in range(config.engines)]
        for counter, event in events:
            for total, engine in zip(sums, blocks.engines, strict=True):
                m.d.sync += total[event].eq(engine.counts[event])
            m.d.sync += counters[counter].eq(counters[counter] + sum(total[event] for total in sums))

    def _page(self, m: Module, blocks: _Blocks, base: Value, clear: Value, loading: Value, failed: Value) -> None:
        """Let the state exchange pages with memory, from the line `base` on."""
        states, pages = blocks.states, blocks.states.pages
        wiring.connect(m, pages.request, wiring.flipped(self.requests[-1]))
        wiring.connect(m, wiring.flipped(self.beats[-1]), pages.beat)
        wiring.connect(m, pages.write, wiring.flipped(self.write))
        m.d.comb += [
            pages.base.eq(base * (LINE_BYTES * 8 // self.config.data_width)),
            pages.unwritten.eq(self.unwritten),
            states.clear.eq(clear),
            states.loading.eq(loading),
            states.failed.eq(failed),
        ]

    def _step(self, m: Module, blocks: _Blocks, settings: data.View) -> None:
        """Load the graph, start a round after another until no vertex is left, and complete the command."""
        config, counters = self.config, self.counters
        loader, lists, detector = blocks.loader, blocks.lists, blocks.detector
        command = Signal.like(self.command.payload)
        threshold, error = Signal(32), Signal(ErrorReport)
        if isinstance(blocks.adjacency, AdjacencyPort):
            m.d.comb += blocks.adjacency.base.eq(command.edges * (LINE_BYTES * 8 // config.data_width))
        clear, loading, paging, failures = Signal(), Signal(), Signal(), [(self.failure, Error.MEMORY_READ)]
        if config.paged:
            self._page(m, blocks, command.state, clear, loading, error.code != Error.NONE)
            m.d.comb += paging.eq(blocks.states.paging)
            failures.append((self.write_failure, Error.MEMORY_WRITE))
        top = (1 << config.node_bits + 1) - 1  # above any degree
        m.d.comb += [
            loader.command.eq(command),
            detector.edges.eq(command.edge_count),
            self.completion.payload.eq(error),
        ]

        def fail(code: Error, info: object) -> None:
            """Keep the first error."""
            with m.If(error.code == Error.NONE):
                m.d.sync += [error.code.eq(code), error.info.eq(info)]

        def loads(*, rows: bool = False) -> None:
            """Count a cycle of loading, and keep errors."""
            m.d.comb += loading.eq(rows)
            m.d.sync += counters.load_cycles.eq(counters.load_cycles + 1)
            with m.If(loader.error.valid):
                fail(loader.error.payload.code, loader.error.payload.info)
            for failure, code in failures:
                with m.If(failure.valid):
                    fail(code, failure.payload)

        lower = Signal(32)

        def begin(limit: Value) -> list[object]:
            """Set the threshold of a round."""
            cut = Mux(limit > top, top, limit)
            return [threshold.eq(limit), settings.threshold.eq(cut)]

        fall = Mux(threshold > command.step, threshold - command.step, 0)
        m.d.comb += lower.eq(Mux(command.halving, threshold >> 1, fall))
        started = Signal()  # `busy` of a round's blocks follows `start` by a cycle
        # Vertices that are neither hubs nor in a community.
        pending = Signal(config.node_bits + 1)
        m.d.sync += pending.eq(pending - blocks.states.identified - blocks.new_hub)
        engines_busy, emitting = Signal(), Signal()
        m.d.comb += [
            engines_busy.eq(Cat(engine.busy for engine in blocks.engines).any()),
            emitting.eq(Cat(collector.busy for collector in blocks.collectors).any()),
        ]
        idle = ~started & ~detector.busy & ~blocks.generator.busy & ~engines_busy
        calm = Signal(2)  # the last identified vertices are counted a cycle later, and compared in the next one
        m.d.sync += [started.eq(0), calm.eq(Cat(idle, idle & calm[0]))]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.command.ready.eq(1)
                m.d.sync += [command.eq(self.command.payload), error.eq(0)]
                with m.If(self.command.valid):
                    m.d.sync += counters.eq(0)
                    m.next = "CHECK"
            with m.State("CHECK"):
                end = Signal(34)
                m.d.comb += end.eq(command.first_vertex + command.vertices)
                m.d.sync += [
                    *begin(command.threshold),
                    settings.previous.eq(top),
                    settings.round.eq(0),
                    settings.c_max.eq(command.c_max),
                    settings.h_max.eq(command.h_max),
                    settings.first.eq(command.first_vertex),
                    settings.vertices.eq(command.vertices),
                ]
                m.next = "START"
                for bad, operand in (
                    (end > config.nodes, end),
                    (command.edge_count >= config.edges, command.edge_count),
                    ((command.c_max == 0) | (command.c_max > config.c_max), command.c_max),
                    ((command.h_max == 0) | (command.h_max[: HUB_WORD.bit_length() - 1] != 0), command.h_max),
                    ((command.rounds == 0) | (command.rounds > ROUNDS_MAX), command.rounds),
                ):
                    with m.If(bad):
                        m.d.sync += [error.code.eq(Error.BAD_OPERAND), error.info.eq(operand)]
                        m.next = "FINISH"
            with m.State("START"):
                m.d.comb += [loader.start.eq(1), clear.eq(1)]
                m.d.sync += [started.eq(1), pending.eq(command.vertices)]
                m.next = "ROWS"
            with m.State("ROWS"):
                loads(rows=True)
                with m.If(~started & ~loader.rows_busy & ~lists.busy):
                    m.d.comb += detector.find.eq(1)
                    m.d.sync += started.eq(1)
                    m.next = "FIND"
                    with m.If((error.code != Error.NONE) | (command.vertices == 0)):
                        m.d.comb += detector.find.eq(0)
                        m.next = "EDGES"
            with m.State("FIND"):
                loads()
                with m.If(~started & ~detector.busy):
                    with m.If(command.by_degrees):
                        m.d.sync += begin(detector.threshold)
                    m.next = "ANNOUNCE"
            with m.State("ANNOUNCE"):
                loads()
                m.d.comb += detector.announce.eq(1)
                m.d.sync += started.eq(1)
                m.next = "EDGES"
            with m.State("EDGES"):
                loads()
                with m.If(~started & ~loader.busy & ~detector.busy):
                    m.next = "ROUND"
                    with m.If((error.code != Error.NONE) | (command.vertices == 0)):
                        m.next = "FINISH"
            with m.State("ROUND"):
                m.d.comb += detector.start.eq(1)
                m.d.sync += [started.eq(1), counters.locate_cycles.eq(counters.locate_cycles + 1)]
                m.next = "RUN"
            with m.State("RUN"):
                m.d.sync += counters.locate_cycles.eq(counters.locate_cycles + 1)
                for failure, code in failures:
                    with m.If(failure.valid):
                        fail(code, failure.payload)
                with m.If(idle & calm.all()):
                    m.d.sync += [
                        counters.rounds.eq(settings.round + 1),
                        settings.round.eq(settings.round + 1),
                        settings.previous.eq(settings.threshold),
                        *begin(lower),
                    ]
                    m.next = "ROUND"
                    with m.If(threshold == 0):
                        m.next = "FINISH"
                    with m.If(settings.round + 1 == command.rounds):
                        m.next = "FINISH"
                        with m.If(pending != 0):
                            fail(Error.ROUNDS, pending)
                    with m.If((pending == 0) | (error.code != Error.NONE)):
                        m.next = "FINISH"
            with m.State("FINISH"):
                with m.If(~emitting & ~engines_busy & ~paging):
                    m.d.comb += [collector.finish.eq(1) for collector in blocks.collectors]
                    m.d.sync += started.eq(1)
                    m.next = "END"
            with m.State("END"):
                with m.If(~started & ~emitting):
                    m.d.comb += lists.clear.eq(1)
                    m.next = "COMPLETE"
            with m.State("COMPLETE"):
                m.d.comb += self.completion.valid.eq(1)
                with m.If(self.completion.ready):
                    m.next = "IDLE"
