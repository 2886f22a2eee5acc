"""Engine: several searches that share all but their control (I3)."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.locator.config import LocatorConfig
from hw.locator.formats import (
    AccessSignature,
    Counts,
    Descriptor,
    KeptRow,
    SearchSignature,
    Settings,
    keep,
)
from hw.locator.neighbour_classifier import NeighbourClassifier
from hw.locator.record_buffer import RecordBuffer, RecordsSignature
from hw.locator.row_reader import RowReader
from hw.locator.searcher import Searcher
from hw.locator.single_reader import SingleReader
from hw.locator.state_lookup import StateLookup
from hw.locator.sweeper import Sweeper
from hw.locator.turns import in_turn, number_of
from hw.lowest import only_lowest
from hw.stream.queue import Queue

__all__ = ["ENGINE_MODULE", "Engine"]

#: Module of an engine where engines are black boxes.
ENGINE_MODULE = "locator_engine"


class Engine(wiring.Component):
    """One pipeline for the neighbours of all searches, so one search proceeds while another waits.

    A searcher controls each search. Rows and single vertices of searches in turn are read and looked up; the classifier
    adds them to the records, in order. Data of a search have their place in memories that all share.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    number
        Number of the engine; its searches are every ``config.engines``-th of the locator from there.
    settings
        Of the round.
    searches
        Ports of each search to the rest of the locator.
    access
        To and from the graph.
    records
        Complete records, to be read from the engine's buffer.
    counts
        Events to count.
    busy
        A search is not idle.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "number": In(range(max(2, config.engines))),
                "settings": In(Settings(config)),
                "searches": Out(SearchSignature(config)).array(config.searches),
                "access": Out(AccessSignature(config)),
                "records": Out(RecordsSignature(config)),
                "counts": Out(Counts(config.lanes, config.searches)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect the pipeline, and the searchers to it."""
        m = Module()
        config = self.config
        searchers = [Searcher(config) for _ in range(config.searches)]
        for n, searcher in enumerate(searchers):
            m.submodules[f"searcher{n}"] = searcher
            wiring.connect(m, searcher.search, wiring.flipped(self.searches[n]))
        m.submodules.reader = reader = RowReader(config)
        m.submodules.singles = singles = SingleReader(config)
        m.submodules.lookup = lookup = StateLookup(config)
        m.submodules.classifier = classifier = NeighbourClassifier(config)
        m.submodules.buffer = buffer = RecordBuffer(config)
        m.submodules.sweeper = sweeper = Sweeper(config)
        wiring.connect(m, reader.request, wiring.flipped(self.access.line_request))
        wiring.connect(m, wiring.flipped(self.access.line), reader.line)
        wiring.connect(m, lookup.o, classifier.i)
        wiring.connect(m, classifier.buffer, buffer.writer)
        m.d.comb += [
            classifier.settings.eq(self.settings),
            lookup.number.eq(self.number),
            *(epoch.eq(searcher.epoch) for epoch, searcher in zip(lookup.epochs, searchers, strict=True)),
            classifier.ahead_context.eq(lookup.ahead_context),
            *(mine.eq(theirs) for mine, theirs in zip(classifier.ahead, lookup.ahead, strict=True)),
        ]
        self._tasks(m, searchers, reader, lookup, classifier, sweeper, buffer)
        self._bundles(m, reader, singles, lookup)
        self._singles(m, searchers, singles, classifier)
        self._classified(m, searchers, classifier)
        self._sweeps(m, searchers, sweeper, lookup, classifier, buffer)
        self._records(m, searchers, classifier, sweeper, buffer)
        m.d.comb += [
            self.counts.read.eq(classifier.read),
            self.counts.began.eq(classifier.first),
            self.counts.gave_up.eq(sum(searcher.given_up for searcher in searchers)),
            self.counts.retreated.eq(sum(searcher.retreats for searcher in searchers)),
        ]
        return m

    def _tasks(
        self,
        m: Module,
        searchers: list[Searcher],
        reader: RowReader,
        lookup: StateLookup,
        classifier: NeighbourClassifier,
        sweeper: Sweeper,
        buffer: RecordBuffer,
    ) -> None:
        """Keep the tasks' hubs and rows; read rows of searches in turn; clear tags before they wrap."""
        config, searches = self.config, self.config.searches
        takes = Cat(search.task.valid & search.task.ready for search in self.searches)
        task = self.searches[0].task.payload  # the same for all
        depth = max(2, searches)
        m.submodules.hubs = hubs = Memory(shape=config.node_bits, depth=depth, init=[])
        m.submodules.rows = rows = Memory(shape=KeptRow(config), depth=depth, init=[])
        put_hub, hub, put_row, row = (
            hubs.write_port(),
            hubs.read_port(domain="comb"),
            rows.write_port(),
            rows.read_port(domain="comb"),
        )
        m.d.comb += [port.en.eq(takes.any()) for port in (put_hub, put_row)]
        m.d.comb += [port.addr.eq(number_of(takes)) for port in (put_hub, put_row)]
        m.d.comb += [
            put_hub.data.eq(task.vertex),
            *keep(put_row.data, task.start, task.count, config.line_words),
            hub.addr.eq(lookup.o.payload.bundle.context),
            classifier.hub.eq(hub.data),
        ]

        wants = Cat(searcher.wants_row for searcher in searchers)
        moves, here = Signal(), Signal(searches)
        chosen, numbered = in_turn(m, "row_turn", wants, moves), reader.i.payload
        number = number_of(chosen)
        nodes = buffer.nodes
        m.d.comb += [
            moves.eq(~reader.i.valid | reader.i.ready),
            nodes.fetch_context.eq(number),
            nodes.fetch.eq(Array(searcher.fetch for searcher in searchers)[number]),
            nodes.fetches.eq(moves),
            row.addr.eq(numbered.context),
            numbered.kept.eq(Mux(numbered.reads, row.data, nodes.fetched)),
            numbered.void.eq((reader.dead & here).any() | numbered.kept.empty),
            reader.may_ask.eq((Cat(searcher.may_ask for searcher in searchers) & here).any()),
            reader.dead.eq(Cat(searcher.dead for searcher in searchers)),
            reader.waits.eq(Cat(searcher.waits for searcher in searchers)),
        ]
        with m.If(moves):
            m.d.sync += [
                reader.i.valid.eq(wants.any()),
                here.eq(chosen),
                numbered.context.eq(number),
                numbered.index.eq(nodes.fetch),
                numbered.reads.eq(Cat(searcher.reads for searcher in searchers).bit_select(number, 1)),
            ]

        # Tags continue from run to run; the table is cleared before they wrap, and after a reset, which does not clear
        # its memory.
        clearing, cell = Signal(init=1), Signal.like(classifier.clear.payload)
        tags_left, enough, swept = Signal(), Signal(init=1), Signal()
        idle = Cat(searcher.idle for searcher in searchers).all()
        m.d.comb += [
            tags_left.eq(enough & ~clearing),
            classifier.clear.valid.eq(clearing),
            classifier.clear.payload.eq(cell),
            # The last states are written in the cycle after the sweep.
            self.busy.eq(~idle | clearing | sweeper.sweeps.any() | swept),
        ]
        m.d.sync += [
            swept.eq(sweeper.sweeps.any()),
            # One more may be taken before this says no.
            enough.eq(classifier.tag < (1 << config.tag_bits) - config.tags_ahead - 1),
        ]
        last = (config.searches << config.table_bits) - 1
        with m.If(clearing):
            m.d.sync += [cell.eq(Mux(cell == last, 0, cell + 1)), clearing.eq(cell != last)]
        with m.Elif(idle & ~enough):
            m.d.sync += clearing.eq(1)
        for n, searcher in enumerate(searchers):
            m.d.comb += [
                searcher.tags_left.eq(tags_left),
                searcher.row_taken.eq(moves & chosen[n]),
                searcher.row_held.eq(reader.i.valid & here[n]),
                searcher.line_taken.eq(reader.further & here[n]),
            ]

    def _bundles(self, m: Module, reader: RowReader, singles: SingleReader, lookup: StateLookup) -> None:
        """Rows and single vertices are looked up in turn."""
        single, before = Signal(), Signal()
        bundle, alone, several = lookup.i.payload, singles.o.payload, reader.o.payload
        m.d.comb += [
            single.eq(singles.o.valid & (~before | ~reader.o.valid)),
            lookup.i.valid.eq(singles.o.valid | reader.o.valid),
            bundle.eq(several),
            singles.o.ready.eq(lookup.i.ready & single),
            reader.o.ready.eq(lookup.i.ready & ~single),
        ]
        # A single vertex is in the first lane; the others are masked.
        with m.If(single):
            m.d.comb += [bundle[name].eq(alone[name]) for name in alone.shape().members if name != "vertices"]
            m.d.comb += bundle.vertices[0].eq(alone.vertices[0])
        m.d.sync += before.eq(single)

    def _singles(
        self, m: Module, searchers: list[Searcher], singles: SingleReader, classifier: NeighbourClassifier
    ) -> None:
        """Keep what the classifier says is free or put aside; look it up when the searches ask."""
        m.d.comb += [
            singles.wants.eq(Cat(searcher.wants_single for searcher in searchers)),
            singles.again.eq(Cat(searcher.again for searcher in searchers)),
            *(mine.eq(searcher.seed) for mine, searcher in zip(singles.seeds, searchers, strict=True)),
            *(mine.eq(searcher.aside) for mine, searcher in zip(singles.asides, searchers, strict=True)),
            *(searcher.single_taken.eq(taken) for searcher, taken in zip(searchers, singles.taken, strict=True)),
            singles.context.eq(classifier.context),
            singles.group.eq(classifier.group),
            *(mine.eq(vertex) for mine, vertex in zip(singles.vertices, classifier.vertices, strict=True)),
            singles.put_group.eq(classifier.reads),
            singles.aside.valid.eq(classifier.aside.valid),
            singles.aside.payload.eq(classifier.aside.payload),
            singles.aside_end.eq(Array(searcher.aside_end for searcher in searchers)[classifier.context]),
        ]

    def _classified(self, m: Module, searchers: list[Searcher], classifier: NeighbourClassifier) -> None:
        """Tell each search what the classifier says about it."""
        lanes = self.config.lanes
        m.d.comb += [
            classifier.ended.eq(Cat(searcher.ended for searcher in searchers)),
            classifier.halves.eq(Cat(searcher.half for searcher in searchers)),
            classifier.clears.eq(Cat(searcher.clears for searcher in searchers)),
            classifier.renews.eq(Cat(searcher.single_taken & ~searcher.again for searcher in searchers)),
        ]
        for n, searcher in enumerate(searchers):
            here = classifier.here[n]
            m.d.comb += [
                searcher.nodes.eq(classifier.nodes[n]),
                searcher.listed.eq(classifier.listed[n]),
                searcher.hubs.eq(classifier.hubs[n]),
                searcher.step.eq(classifier.step & here),
                searcher.first.eq(classifier.first & here),
                searcher.stops.eq(classifier.stops & here),
                searcher.found.eq(classifier.aside.valid & here),
                searcher.foe.eq(classifier.owner),
                searcher.repeated.eq(classifier.repeated),
                *(
                    searcher.free[place].eq(
                        classifier.free[place % lanes] & (classifier.group == place // lanes) & here
                    )
                    for place in range(self.config.line_words)
                ),
            ]

    def _sweeps(
        self,
        m: Module,
        searchers: list[Searcher],
        sweeper: Sweeper,
        lookup: StateLookup,
        classifier: NeighbourClassifier,
        buffer: RecordBuffer,
    ) -> None:
        """States of ended searches are written where no other is looked up, or before others after a while."""
        m.d.comb += [
            sweeper.wants.eq(Cat(searcher.sweeps for searcher in searchers)),
            sweeper.halves.eq(Cat(searcher.half for searcher in searchers)),
            buffer.nodes.sweep_context.eq(sweeper.context),
            buffer.nodes.sweep_half.eq(sweeper.half),
            buffer.nodes.sweep.eq(sweeper.group),
            *(mine.eq(vertex) for mine, vertex in zip(sweeper.swept, buffer.nodes.swept, strict=True)),
            self.access.owner.eq(lookup.owner),
        ]
        for n, searcher in enumerate(searchers):
            m.d.comb += [
                sweeper.ends[n].eq(searcher.end),
                sweeper.nodes[n].eq(classifier.nodes[n]),
                sweeper.listed[n].eq(classifier.listed[n]),
                searcher.sweep_taken.eq(sweeper.taken[n]),
                searcher.sweeping.eq(sweeper.sweeps[n]),
            ]
        for lane, request in enumerate(self.access.request):
            sweep, look = sweeper.request[lane], lookup.request[lane]
            sweeps = Signal(name=f"sweeps{lane}")
            m.d.comb += [
                sweeps.eq(sweep.valid & (sweeper.urgent | ~look.valid)),
                request.valid.eq(sweep.valid | look.valid),
                request.payload.eq(look.payload),
                sweep.ready.eq(request.ready & sweeps),
                look.ready.eq(request.ready & ~sweeps),
                lookup.answer[lane].eq(self.access.answer[lane]),
            ]
            with m.If(sweeps):
                m.d.comb += request.payload.eq(sweep.payload)

    def _records(
        self,
        m: Module,
        searchers: list[Searcher],
        classifier: NeighbourClassifier,
        sweeper: Sweeper,
        buffer: RecordBuffer,
    ) -> None:
        """Complete records wait for the collector, at most one of each search; its next is written meanwhile.

        A hub's record stays while the search before it is swept, so that no half is written of which nodes are read.
        """
        config = self.config
        m.submodules.complete = complete = Queue(Descriptor(config), config.searches, storage="distributed")
        wiring.connect(m, complete.o, wiring.flipped(self.records.complete))
        wiring.connect(m, wiring.flipped(self.records.reader), buffer.reader)
        kept, hands, chosen = (Signal(config.searches, name=name) for name in ("kept", "hands", "handed"))
        options = []
        for n, searcher in enumerate(searchers):
            option = Signal(Descriptor(config), name=f"complete{n}")
            m.d.comb += [
                option.context.eq(n),
                option.half.eq(searcher.half),
                option.nodes.eq(classifier.nodes[n]),
                option.hubs.eq(classifier.hubs[n]),
                option.round.eq(self.settings.round),
                option.head.eq(searcher.head),
                option.blank.eq(searcher.blank),
                option.hub_edges.eq(searcher.hub_edges),
                hands[n].eq(searcher.hands & ~kept[n] & ~sweeper.sweeps[n]),
                searcher.handed.eq(chosen[n]),
            ]
            options.append(Mux(chosen[n], option.as_value(), 0))
        m.d.comb += [
            chosen.eq(only_lowest(hands)),
            complete.i.valid.eq(hands.any()),
            complete.i.payload.eq(reduce(or_, options)),
        ]
        freed = Mux(self.records.done, 1 << buffer.reader.context, 0)
        m.d.sync += kept.eq((kept | chosen) & ~freed)
