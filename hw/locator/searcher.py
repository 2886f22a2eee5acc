"""Searcher: breadth-first search from the neighbours of a hub, through vertices other than hubs (I3)."""

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import Out
from amaranth.utils import exact_log2

from hw.locator.config import BUNDLES, LocatorConfig
from hw.locator.formats import AccessSignature, Descriptor, Kind, Operation, Owner, SearchSignature, Task
from hw.locator.neighbour_classifier import Aside, Mode, NeighbourClassifier
from hw.locator.record_buffer import FetchSignature, WriterSignature
from hw.locator.row_reader import RowReader
from hw.locator.state_lookup import StateLookup
from hw.stream.queue import Queue

__all__ = ["Searcher"]


class _End(enum.Enum, shape=2):  # type: ignore[call-arg]
    """How a search ends."""

    COMPLETE = 0
    MARK = 1
    RELEASE = 2


class Searcher(wiring.Component):
    """Takes a task, reads its hub's neighbours, then searches from each that is free.

    Rows of nodes are fetched ahead in the order in which the nodes were visited; their neighbours go through the
    `RowReader`, the `StateLookup` and the `NeighbourClassifier`. The search is complete when all neighbours of every
    visited node have been read. Neighbours that belong to a search of the same alliance (see `hw.locator.resolver`)
    are put aside until all other neighbours are done.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    search
        To and from the rest of the locator.
    access
        To and from the graph.
    found
        Complete records in the buffer; taken when the collector has emitted the previous one.
    buffer, members
        To and from the record buffer.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "search": Out(SearchSignature(config)),
                "access": Out(AccessSignature(config)),
                "found": Out(stream.Signature(Descriptor(config))),
                "buffer": Out(WriterSignature(config)),
                "members": Out(FetchSignature(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Pipeline, then control."""
        m = Module()
        config, search, access, members = self.config, self.search, self.access, self.members
        settings, lanes = search.settings, config.lanes
        m.submodules.reader = reader = RowReader(config)
        m.submodules.lookup = lookup = StateLookup(config)
        m.submodules.classifier = classifier = NeighbourClassifier(config)
        # Room for the bundles in flight when the queue is found to be nearly full.
        m.submodules.asides = asides = Queue(Aside(config), 2 * BUNDLES * lanes, storage="distributed")
        wiring.connect(m, reader.request, wiring.flipped(access.line_request))
        wiring.connect(m, wiring.flipped(access.line), reader.line)
        wiring.connect(m, lookup.o, classifier.i)
        wiring.connect(m, classifier.buffer, wiring.flipped(self.buffer))

        half, task, end = Signal(), Signal(Task(config)), Signal(_End)
        searching, epoch, owner = Signal(), Signal(config.epoch_bits), Signal(Owner(config))
        handing, sent, begun = Signal(), Signal(), Signal()
        found, counts = self.found.payload, search.counts
        m.d.comb += [
            owner.worker.eq(search.number),
            owner.epoch.eq(epoch),
            search.status.searching.eq(searching),
            search.status.epoch.eq(epoch),
            search.status.count.eq(classifier.nodes),
            search.status.number.eq(task.number),
            search.busy.eq(1),
            self.found.valid.eq(handing),
            found.half.eq(half),
            found.nodes.eq(classifier.nodes),
            found.hubs.eq(classifier.hubs),
            found.round.eq(settings.round),
            reader.settings.eq(settings),
            lookup.settings.eq(settings),
            lookup.owner.eq(owner),
            classifier.settings.eq(settings),
            classifier.half.eq(half),
            classifier.hub.eq(task.vertex),
            *(classifier.ahead[lane].eq(lookup.ahead[lane]) for lane in range(lanes)),
            counts.read.eq(classifier.read),
            counts.began.eq(classifier.first),
        ]
        with m.If(handing & self.found.ready):
            m.d.sync += handing.eq(0)
        idle = ~lookup.busy & ~lookup.holding & classifier.idle

        # Seeds: neighbours of the hub that were free, by their place in the task's line.
        seeds = Array(Signal(config.node_bits, name=f"seed{n}") for n in range(config.line_words))
        waiting, first, seed = Signal(config.line_words), Signal(config.line_words), Signal(config.node_bits)
        group = Signal(range(max(2, config.line_words // lanes)))
        m.d.comb += first.eq(waiting & (~waiting + 1))
        for n, vertex in enumerate(seeds):
            # Early enough: a seed is requested two cycles after the answer to the previous one.
            with m.If(first[n]):
                m.d.sync += seed.eq(vertex)
            with m.If(classifier.free[n % lanes] & (group == n // lanes)):
                m.d.sync += [vertex.eq(classifier.vertices[n % lanes]), waiting[n].eq(1)]
        with m.If(classifier.step):
            m.d.sync += group.eq(group + 1)

        # The look-up's input: a bundle of a row, or a single vertex in the first lane.
        alone, vertex, index = Signal(), Signal(config.node_bits), Signal(config.list_bits)
        m.d.comb += lookup.i.payload.eq(reader.o.payload)
        with m.If(alone):
            m.d.comb += [
                lookup.i.payload.index.eq(index),
                lookup.i.payload.mask.eq(1),
                lookup.i.payload.remote.eq(0),
                *(lookup.i.payload.vertices[lane].eq(vertex) for lane in range(lanes)),
            ]
        sweep, sweep_next, set_ = Signal(config.list_bits + 1), Signal(config.list_bits + 1), Signal(lanes)
        sweeps, set_now, exists = Signal(), Signal(lanes), Signal(lanes)
        for lane in range(lanes):
            request, wanted, at = access.request[lane], lookup.request[lane], Signal(config.list_bits + 2)
            m.d.comb += [
                request.valid.eq(wanted.valid),
                request.payload.eq(wanted.payload),
                wanted.ready.eq(request.ready),
                lookup.answer[lane].eq(access.answer[lane]),
                at.eq((sweep << exact_log2(lanes)) + lane),
                exists[lane].eq(at < classifier.nodes + classifier.late),
            ]
            with m.If(sweeps):
                m.d.comb += [
                    request.valid.eq(exists[lane] & ~set_[lane]),
                    request.payload.node.eq(members.swept[lane] - settings.first),
                    request.payload.operation.eq(Operation.SET),
                    request.payload.kind.eq(Kind.FREE),
                    set_now[lane].eq(~exists[lane] | set_[lane] | request.ready),
                ]
                with m.If(end == _End.COMPLETE):
                    m.d.comb += request.payload.kind.eq(Kind.DONE)
                with m.Elif((end == _End.MARK) & (at < classifier.nodes)):
                    m.d.comb += [request.payload.kind.eq(Kind.MARKED), request.payload.value.eq(settings.round)]
        m.d.comb += [sweep_next.eq(sweep), members.sweep.eq(Cat(sweep_next[: len(members.sweep) - 1], half))]
        m.d.sync += sweep.eq(sweep_next)

        fetch, fetch_next = Signal(config.list_bits + 1), Signal(config.list_bits + 1)
        m.d.comb += [fetch_next.eq(fetch), members.fetch.eq(Cat(fetch_next[: config.list_bits], half))]
        # All rows so far are requested: registered beside `fetch`, since long paths start from it.
        all_fetched, at_end, one_left = Signal(), Signal(), Signal()
        m.d.comb += [at_end.eq(fetch == classifier.nodes), one_left.eq(fetch + 1 == classifier.nodes)]
        m.d.sync += [
            fetch.eq(fetch_next),
            all_fetched.eq(Mux(reader.i.ready, Mux(classifier.keeps, at_end, one_left), at_end & ~classifier.keeps)),
        ]

        # A search that has met another waits for the resolver.
        asking, asked, pressing, foe = Signal(), Signal(), Signal(), Signal(Owner(config))
        m.d.comb += [
            search.conflict.valid.eq(asking),
            search.conflict.payload.owner.eq(foe),
            search.conflict.payload.need.eq(pressing),
            asides.i.payload.eq(classifier.aside.payload),
        ]
        with m.If(asking & search.conflict.ready):
            m.d.sync += [asking.eq(0), asked.eq(1)]
        with m.If(search.decided):
            m.d.sync += asked.eq(0)

        # The record of the task's hub and those of the searches from its neighbours need a tag each. Tags continue from
        # run to run; the table is cleared before they wrap, and after a reset, which does not clear its memory.
        tags_left = classifier.tag < (1 << config.tag_bits) - config.line_words - 2
        forget = Signal(config.table_bits)

        with m.FSM(init="FORGET"):
            with m.State("IDLE"):
                m.d.comb += [
                    search.busy.eq(0),
                    search.task.ready.eq(tags_left),
                    classifier.hub.eq(search.task.payload.vertex),
                    classifier.given.eq(1),
                ]
                m.d.sync += [task.eq(search.task.payload), sent.eq(0), group.eq(0), end.eq(_End.COMPLETE)]
                with m.If(~tags_left):
                    m.next = "WAIT_FOR_COLLECTOR"
                with m.Elif(search.task.valid):
                    m.d.comb += classifier.new_record.eq(1)
                    m.d.sync += handing.eq(search.task.payload.isolated)
                    m.next = "READ"
                    with m.If(search.task.payload.isolated):
                        m.next = "TURN"
            with m.State("WAIT_FOR_COLLECTOR"):
                with m.If(self.found.ready):
                    m.next = "FORGET"
            with m.State("FORGET"):
                m.d.comb += [classifier.clear.valid.eq(1), classifier.clear.payload.eq(forget)]
                m.d.sync += forget.eq(forget + 1)
                with m.If(forget == (1 << config.table_bits) - 1):
                    m.next = "IDLE"
            with m.State("READ"):
                # The hub's neighbours: hubs become columns of its record, free vertices are searched from.
                m.d.comb += [
                    reader.i.valid.eq(~sent),
                    reader.i.payload.row.start.eq(task.start),
                    reader.i.payload.row.degree.eq(task.count),
                    lookup.i.valid.eq(reader.o.valid),
                    reader.o.ready.eq(lookup.i.ready),
                    classifier.mode.eq(Mode.READ),
                ]
                with m.If(reader.i.ready):
                    m.d.sync += sent.eq(1)
                with m.If(sent & ~reader.busy & idle):
                    m.d.sync += sent.eq(0)
                    m.next = "SEED"
                    with m.If(task.head | (classifier.hubs != 0)):
                        m.d.sync += handing.eq(1)
                        m.next = "HAND"
            with m.State("HAND"):
                m.d.comb += [found.head.eq(task.head), found.hub_edges.eq(1)]
                with m.If(self.found.ready):
                    m.d.sync += half.eq(~half)
                    m.next = "SEED"
            with m.State("SEED"):
                m.d.comb += [
                    classifier.mode.eq(Mode.SEED),
                    alone.eq(1),
                    vertex.eq(seed),
                    lookup.claim.eq(1),
                    lookup.i.valid.eq(waiting.any() & ~sent),
                    # Once for each seed, before its answer.
                    classifier.new_record.eq(lookup.i.valid & ~begun),
                ]
                m.d.sync += [fetch.eq(0), all_fetched.eq(0), pressing.eq(0)]
                m.d.sync += begun.eq((begun | lookup.i.valid) & ~classifier.step)
                with m.If(lookup.i.ready):
                    m.d.sync += [sent.eq(1), waiting.eq(waiting & ~first)]
                with m.If(classifier.step):
                    m.d.sync += sent.eq(0)
                with m.If(classifier.first):
                    m.d.sync += searching.eq(1)
                    m.next = "SEARCH"
                with m.Elif(~waiting.any() & ~sent):
                    m.next = "IDLE"
            with m.State("SEARCH"):
                exhausted, crowded, again = Signal(), Signal(), Signal()
                # The other search belongs to this search's alliance, or is about to end.
                waits = asking | asked | search.claim.suspended
                m.d.comb += [
                    classifier.mode.eq(Mode.SEARCH),
                    exhausted.eq(all_fetched & ~reader.busy & idle),
                    crowded.eq((asides.level >= BUNDLES * lanes) & ~lookup.holding),
                    again.eq(asides.o.valid & (exhausted | crowded)),
                    reader.i.valid.eq(~all_fetched),
                    reader.i.payload.row.eq(members.fetched),
                    reader.i.payload.index.eq(fetch),
                    fetch_next.eq(fetch + reader.i.ready),
                    # Earlier than `again`, and equal to it where used: nothing is read when all is exhausted.
                    alone.eq(asides.o.valid & (crowded | ~reader.busy)),
                    vertex.eq(asides.o.payload.vertex),
                    index.eq(asides.o.payload.index),
                    lookup.claim.eq(1),
                    lookup.i.valid.eq((again | reader.o.valid) & (~waits | lookup.holding)),
                    asides.o.ready.eq(lookup.i.ready & again),
                    reader.o.ready.eq(lookup.i.ready & ~again),
                    asides.i.valid.eq(classifier.aside.valid),
                ]
                with m.If(lookup.i.ready):
                    m.d.sync += pressing.eq(again)
                with m.If(classifier.aside.valid & ~asking & ~asked):
                    m.d.sync += [asking.eq(1), foe.eq(classifier.owner)]
                with m.If(classifier.stops | search.claim.lost):
                    mark = classifier.stops | search.claim.mark
                    m.d.sync += [searching.eq(0), end.eq(Mux(mark, _End.MARK, _End.RELEASE))]
                    m.d.comb += [counts.gave_up.eq(mark), counts.retreated.eq(~mark)]
                    m.next = "DRAIN"
                with m.Elif(exhausted & (asides.level == 0) & ~asking & ~asked):
                    m.d.sync += [searching.eq(0), handing.eq(1)]
                    m.d.comb += sweep_next.eq(0)
                    m.next = "SWEEP"
            with m.State("DRAIN"):
                m.d.comb += [
                    classifier.mode.eq(Mode.DRAIN),
                    lookup.claim.eq(1),
                    lookup.i.valid.eq(reader.o.valid & lookup.holding),
                    reader.o.ready.eq(lookup.i.ready),
                    reader.flush.eq(~lookup.holding),
                    asides.o.ready.eq(1),
                    sweep_next.eq(0),
                ]
                with m.If(idle & ~reader.busy & (asides.level == 0) & ~asking & ~asked):
                    m.next = "SWEEP"
            with m.State("TURN"):
                # A vertex is written before it is read.
                m.d.comb += [found.head.eq(1), found.blank.eq(1), sweep_next.eq(0)]
                m.next = "SWEEP"
            with m.State("SWEEP"):
                m.d.comb += [found.head.eq(1), found.blank.eq(task.isolated), sweeps.eq(1)]
                m.d.sync += set_.eq(set_ | set_now)
                last = ((sweep + 1) << exact_log2(lanes)) >= classifier.nodes + classifier.late
                with m.If(set_now.all() & ~last):
                    m.d.comb += sweep_next.eq(sweep + 1)
                    m.d.sync += set_.eq(0)
                with m.If(set_now.all() & last & ~handing):
                    m.d.sync += [epoch.eq(epoch + 1), set_.eq(0), end.eq(_End.COMPLETE)]
                    m.d.sync += half.eq(half ^ (end == _End.COMPLETE))
                    m.next = "SEED"
        m.d.sync += [
            Cover(crowded, "much is put aside"),
            Cover(again & lookup.i.ready, "a neighbour is looked at again"),
            Cover(search.claim.lost & ~search.claim.mark & searching, "what is held is needed by another"),
        ]
        return m
