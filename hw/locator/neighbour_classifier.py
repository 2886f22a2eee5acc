"""Neighbour classifier: adds neighbours to the records by their states, in order (I3)."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Cover, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.locator.column_table import ColumnTable
from hw.locator.config import LocatorConfig
from hw.locator.formats import Answer, Outcome, Owner, Settings, Work, keep
from hw.locator.record_buffer import WriterSignature
from hw.locator.state_lookup import LookupResult
from hw.locator.turns import number_of

__all__ = ["Aside", "NeighbourClassifier"]


class Aside(data.StructLayout):
    """A neighbour that belongs to another search: the ``index``-th node's neighbour ``vertex``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"index": config.list_bits, "vertex": config.node_bits})


class _Counts(data.StructLayout):
    """Counts of a record: ``nodes``, ``listed``, ``hubs``, and rows ``opened``; whether the limits are reached."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "nodes": config.list_bits + 1,
                "listed": config.list_bits + 1,
                "hubs": config.hub_bits + 1,
                "opened": config.list_bits + 1,
                "full_nodes": 1,
                "full_hubs": 1,
            }
        )


class NeighbourClassifier(wiring.Component):
    """Classifies neighbours in order: any number in a cycle, up to and including one that is written somewhere.

    The block owns the counts of all searches' records: nodes, hubs, and vertices claimed.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round.
    i, ahead_context, ahead
        Neighbours with their states; ``ready`` depends on the bundle in hand. What may come in the next cycle.
    hub
        Vertex of the task of the search at ``i``.
    ended, halves
        One bit for each search: it was given up, so claims made since have to be released; its half of the record
        buffer.
    clears, renews
        One bit for each search: its counts become 0; and a record with a tag of its own begins.
    buffer
        To the record buffer.
    nodes, listed, hubs
        Numbers of each search's nodes, of these and those claimed after its end, and of hubs.
    context, here
        The search of the neighbours in hand, and the same one-hot, or 0; what follows is about that search.
    reads, group, free, vertices
        The neighbours are a hub's, from this bundle of the task's line; those that are free; all of them.
    step
        The last neighbour of a part of a row was classified.
    first
        The seed was free: the search has begun.
    stops
        The search cannot go on: there are too many nodes or hubs, or a mark.
    aside, owner, repeated
        A neighbour that belongs to another search, and that search; it had been put aside before.
    read
        Neighbours classified in this cycle: edges read.
    clear
        A cell of the column table to clear; the next tag is the first one.
    tag
        Number of the last record; the table is cleared before it wraps.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        searches, groups = config.searches, config.line_words // config.lanes
        self.table = ColumnTable(config)
        super().__init__(
            {
                "settings": In(Settings(config)),
                "i": In(stream.Signature(LookupResult(config))),
                "ahead_context": In(config.context_bits),
                "ahead": In(config.node_bits).array(config.lanes),
                "hub": In(config.node_bits),
                "ended": In(searches),
                "halves": In(searches),
                "clears": In(searches),
                "renews": In(searches),
                "buffer": Out(WriterSignature(config)),
                "nodes": Out(config.list_bits + 1).array(searches),
                "listed": Out(config.list_bits + 1).array(searches),
                "hubs": Out(config.hub_bits + 1).array(searches),
                "context": Out(config.context_bits),
                "here": Out(searches),
                "reads": Out(1),
                "group": Out(range(max(2, groups))),
                "free": Out(config.lanes),
                "vertices": Out(config.node_bits).array(config.lanes),
                "step": Out(1),
                "first": Out(1),
                "stops": Out(1),
                "aside": Out(stream.Signature(Aside(config), always_ready=True)),
                "owner": Out(Owner(config)),
                "repeated": Out(1),
                "read": Out(range(config.lanes + 1)),
                "clear": In(stream.Signature(self.table.place_bits, always_ready=True)),
                "tag": Out(config.tag_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Classify every lane, then take lanes from the first that is left."""
        m = Module()
        config, lanes = self.config, range(self.config.lanes)
        m.submodules.table = table = self.table
        counts = Signal(_Counts(config))  # of the search in hand
        wiring.connect(m, wiring.flipped(self.clear), table.clear)
        held, todo, passed = Signal(LookupResult(config), reset_less=True), Signal(config.lanes), Signal(config.lanes)
        full, done, ended = Signal(), Signal(), Signal()  # a bundle is in hand; it can be exchanged
        reads, seeds, searches, drains = (Signal(name=n) for n in ("is_read", "seeds", "searches", "drains"))
        edge, answers, incoming = held.bundle, held.answers, self.i.payload.bundle
        # Lower than the hub: an edge between hubs of one round belongs to the later one.
        below, hub_vertex = Signal(config.lanes), Signal(config.node_bits, reset_less=True)
        m.d.comb += [
            full.eq(self.here.any()),
            ended.eq((self.ended & self.here).any()),
            reads.eq(edge.work == Work.READ),
            seeds.eq(edge.work == Work.SEED),
            searches.eq(((edge.work == Work.SEARCH) | (edge.work == Work.AGAIN)) & ~ended),
            drains.eq(ended),
            self.context.eq(edge.context),
            self.i.ready.eq(done),
            self.step.eq(full & done & edge.last),
            table.context.eq(incoming.context),
            table.tag.eq(self._tag(m, incoming.context)),
            table.load.eq(self.i.valid & done),
            table.wanted.eq(todo),
            table.ahead_context.eq(self.ahead_context),
        ]
        for lane in lanes:
            m.d.comb += [
                table.ahead[lane].eq(self.ahead[lane]),
                table.vertices[lane].eq(incoming.vertices[lane]),
                self.vertices[lane].eq(edge.vertices[lane]),
            ]
        m.d.sync += todo.eq(todo & ~passed)
        with m.If(done):
            m.d.sync += self.here.eq(0)
        with m.If(table.load):
            m.d.sync += [
                held.eq(self.i.payload),
                todo.eq(incoming.mask),
                hub_vertex.eq(self.hub),
                below.eq(Cat(vertex < self.hub for vertex in incoming.vertices)),
                self.here.eq(1 << incoming.context),
            ]

        hub, known, new_hub, new_node, other, stop, mine = (
            Signal(config.lanes, name=n) for n in ("hub", "known", "new_hub", "new_node", "other", "stop", "mine")
        )
        for lane in lanes:
            outcome = answers[lane].outcome
            is_hub = (outcome == Outcome.OLD_HUB) | ((outcome == Outcome.NEW_HUB) & (searches | below[lane]))
            m.d.comb += [
                hub[lane].eq(is_hub & (reads | searches)),
                known[lane].eq(searches & table.known[lane]),
                new_hub[lane].eq(hub[lane] & ~known[lane]),
                new_node[lane].eq((outcome == Outcome.FREE) & ~reads),
                mine[lane].eq((outcome == Outcome.MINE) & searches),
                other[lane].eq((outcome == Outcome.OTHER) & searches),
                stop[lane].eq(
                    searches
                    & (
                        (outcome == Outcome.MARKED)
                        | (new_hub[lane] & counts.full_hubs)
                        | (new_node[lane] & counts.full_nodes)
                    )
                ),
            ]
        # Lanes pass in order: none after one that stops, at most one that is written.
        written, stopping = todo & (new_hub | new_node | other), todo & stop
        chosen, ready = Signal(config.lanes), Signal()
        m.d.comb += ready.eq(~(searches | seeds) | ((table.settled | ~todo) == (1 << config.lanes) - 1))
        several, waits = Const(0, 1), Const(0, 1)
        for lane in lanes:
            spent, stopped = written[:lane].any(), stopping[:lane].any()
            several = several | (written[lane] & spent)
            waits = waits | (todo[lane] & stopped)
            m.d.comb += [
                passed[lane].eq(todo[lane] & ready & ~stopped & ~several),
                chosen[lane].eq(written[lane] & ready & ~stopped & ~spent),
            ]
        m.d.comb += done.eq((todo == 0) | (ready & ~several & ~waits))

        vertex, answer = Signal(config.node_bits), Signal(Answer(config))
        for lane in lanes:
            with m.If(chosen[lane]):
                row = answers[lane].of.row
                m.d.comb += [vertex.eq(edge.vertices[lane]), answer.eq(answers[lane])]
                m.d.comb += keep(self.buffer.node.payload.row, row.start, row.degree, config.line_words)
        keep_node, keep_hub, keep_late, opens_task = Signal(), Signal(), Signal(), Signal()
        column = Signal.like(table.new_column)
        m.d.comb += [
            # A hub is the only node of its record.
            opens_task.eq(full & reads & (self.group == 0)),
            self.stops.eq((passed & stop).any()),
            # The excess vertex passes as well: the search ends with it.
            keep_hub.eq((chosen & new_hub).any()),
            keep_node.eq((chosen & new_node & ~stop).any() & ~drains),
            keep_late.eq((chosen & new_node).any() & ~keep_node),
            column.eq(Mux(keep_hub, counts.hubs, counts.nodes)),
            self.first.eq(keep_node & seeds),
            # The excess vertex is never looked up again.
            table.insert.eq(Mux(searches, chosen & (new_hub | new_node), Mux(seeds, chosen & new_node, 0))),
            table.new_column.eq(column),
            self.aside.valid.eq((chosen & other).any()),
            self.aside.payload.index.eq(edge.index),
            self.aside.payload.vertex.eq(vertex),
            self.owner.eq(answer.of.owner),
            self.repeated.eq(edge.work == Work.AGAIN),
            self.reads.eq(full & reads),
            self.free.eq(Mux(reads, passed & Cat(answers[lane].outcome == Outcome.FREE for lane in lanes), 0)),
            self.read.eq(Mux(reads | searches, sum((passed & ~other)[lane] for lane in lanes), 0)),
        ]
        with m.If(self.reads & done):
            m.d.sync += self.group.eq(Mux(edge.last, 0, self.group + 1))

        buffer, half = self.buffer, Signal()
        m.d.comb += [
            half.eq((self.halves & self.here).any()),
            buffer.context.eq(edge.context),
            buffer.half.eq(half),
            buffer.node.valid.eq(keep_node | keep_late | opens_task),
            buffer.node.payload.vertex.eq(Mux(reads, hub_vertex, vertex)),
            buffer.node_index.eq(Mux(reads, 0, counts.listed)),
            buffer.hub.valid.eq(keep_hub),
            buffer.hub.payload.eq(vertex),
            buffer.hub_index.eq(counts.hubs),
        ]
        bits, opens = buffer.bits, Signal()
        m.d.comb += opens.eq((passed & ~stop).any() & ~drains & (edge.index == counts.opened))
        m.d.sync += [
            bits.valid.eq((passed & ~stop).any() & ~drains),
            bits.payload.context.eq(edge.context),
            bits.payload.row.eq(edge.index),
            bits.payload.half.eq(half),
            bits.payload.fresh.eq(opens),
            bits.payload.mask.eq(passed & ~stop & (hub | new_node | mine)),
            bits.payload.hub.eq(hub),
            *(bits.payload.columns[lane].eq(Mux(known[lane], table.column[lane], column)) for lane in lanes),
        ]
        self._count(m, counts, keep_node, keep_late, keep_hub, opens)
        m.d.sync += [
            Cover(keep_late & self.stops, "too many nodes"),
            Cover(self.stops & (passed & stop & new_hub).any(), "too many hubs"),
            Cover(keep_node & (chosen != passed), "one is written, others are known"),
        ]
        return m

    def _count(self, m: Module, now: Any, node: Value, late: Value, hub: Value, opens: Value) -> None:
        """Keep the counts of all searches; those of the search in hand are `now`."""
        config, task = self.config, self.reads & (self.group == 0)
        kept = [Signal(_Counts(config), name=f"counts{n}") for n in range(config.searches)]
        after, c_max = Signal(_Counts(config)), self.settings.c_max
        m.d.comb += [
            now.eq(Array(kept)[self.context]),
            after.nodes.eq(Mux(task, 1, now.nodes + node)),
            after.listed.eq(Mux(task, 1, now.listed + (node | late))),
            after.hubs.eq(now.hubs + hub),
            after.opened.eq(now.opened + opens),
            # Whether a node is kept settles late in the cycle, so both outcomes are prepared.
            after.full_nodes.eq(Mux(node, _are(now.nodes + 1, c_max), _are(now.nodes, c_max))),
            after.full_hubs.eq(Mux(hub, _are(now.hubs + 1, config.hubs), _are(now.hubs, config.hubs))),
        ]
        for n, counts in enumerate(kept):
            m.d.comb += [self.nodes[n].eq(counts.nodes), self.listed[n].eq(counts.listed), self.hubs[n].eq(counts.hubs)]
            with m.If(self.clears[n]):
                m.d.sync += counts.eq(0)
            with m.Elif(self.here[n]):
                m.d.sync += counts.eq(after)

    def _tag(self, m: Module, context: Value) -> Value:
        """Keep the tags of all searches; return that of the `context`."""
        config = self.config
        m.submodules.tags = tags = memory.Memory(shape=config.tag_bits, depth=max(2, config.searches), init=[])
        write, read = tags.write_port(), tags.read_port(domain="comb")
        following = Signal(config.tag_bits)
        m.d.comb += [
            following.eq(self.tag + 1),
            write.en.eq(self.renews.any()),
            write.addr.eq(number_of(self.renews)),
            write.data.eq(following),
            read.addr.eq(context),
        ]
        with m.If(self.renews.any()):
            m.d.sync += self.tag.eq(following)
        with m.If(self.clear.valid):
            m.d.sync += self.tag.eq(0)
        return read.data


def _are(count: Value, most: ValueLike) -> Value:
    """Return whether a number is another one; of two comparisons synthesis would make one behind a late choice."""
    return ~(count ^ most).any()
