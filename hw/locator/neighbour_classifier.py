"""Neighbour classifier: adds neighbours to the record by their states, in order (I3)."""

from amaranth.hdl import Cat, Const, Cover, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.locator.column_table import ColumnTable
from hw.locator.config import LocatorConfig
from hw.locator.formats import Outcome, Owner, Settings
from hw.locator.record_buffer import WriterSignature
from hw.locator.state_lookup import LookupResult

__all__ = ["Aside", "Mode", "NeighbourClassifier"]


class Mode(enum.Enum, shape=2):  # type: ignore[call-arg]
    """Owner of the neighbours, and the treatment of free ones."""

    #: Neighbours of a hub: nothing is claimed.
    READ = 0
    #: Neighbours of a hub, as seeds: a free one is the first node of a record.
    SEED = 1
    #: Neighbours of the record's nodes.
    SEARCH = 2
    #: The search has ended: claims made since have to be released.
    DRAIN = 3


class Aside(data.StructLayout):
    """A neighbour that belongs to another search: the ``index``-th node's neighbour ``vertex``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"index": config.list_bits, "vertex": config.node_bits})


class NeighbourClassifier(wiring.Component):
    """Classifies neighbours in order: any number in a cycle, up to and including one that is written somewhere.

    The block owns the record's counts: nodes, hubs, and vertices claimed after the end of the search.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round.
    mode
        Kind of neighbours; it changes only while ``idle``, except to `Mode.DRAIN`.
    new_record
        Start a record; with ``given`` its node is the ``hub``.
    half, hub
        Of the record buffer; of the task.
    i, ahead
        Neighbours with their states; ``ready`` depends on the bundle in hand. Vertices that may come in the next cycle.
    buffer
        To the record buffer.
    nodes, hubs, late
        Numbers of nodes, hubs and late claims.
    free, vertices
        One bit for each lane: the neighbour is free, and was classified in this cycle. All neighbours.
    step
        The last neighbour of a bundle was classified.
    keeps
        A node joins in this cycle; ``nodes`` counts it in the next.
    first
        The seed was free: the search has begun.
    stops
        The search cannot go on: there are too many nodes or hubs, or a mark.
    aside, owner
        A neighbour that belongs to another search, and that search.
    read
        Neighbours classified in this cycle: edges read.
    idle
        No neighbour is held.
    clear
        A cell of the column table to clear.
    tag
        Number of the record; the table is cleared before it wraps.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(Settings(config)),
                "mode": In(Mode),
                "new_record": In(1),
                "given": In(1),
                "half": In(1),
                "hub": In(config.node_bits),
                "i": In(stream.Signature(LookupResult(config))),
                "ahead": In(config.node_bits).array(config.lanes),
                "buffer": Out(WriterSignature(config)),
                "nodes": Out(config.list_bits + 1),
                "hubs": Out(config.hub_bits + 1),
                "late": Out(config.list_bits),
                "free": Out(config.lanes),
                "vertices": Out(config.node_bits).array(config.lanes),
                "step": Out(1),
                "keeps": Out(1),
                "first": Out(1),
                "stops": Out(1),
                "aside": Out(stream.Signature(Aside(config), always_ready=True)),
                "owner": Out(Owner(config)),
                "read": Out(range(config.lanes + 1)),
                "idle": Out(1),
                "clear": In(stream.Signature(config.table_bits, always_ready=True)),
                "tag": Out(config.tag_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Classify every lane, then take lanes from the first that is left."""
        m = Module()
        config, lanes = self.config, range(self.config.lanes)
        m.submodules.table = table = ColumnTable(config)
        wiring.connect(m, wiring.flipped(self.clear), table.clear)
        held, todo, passed = Signal(LookupResult(config), reset_less=True), Signal(config.lanes), Signal(config.lanes)
        done, reads, seeds, searches, drains = (
            Signal(name=n) for n in ("done", "reads", "seeds", "searches", "drains")
        )
        edge, answers = held.bundle, held.answers
        # Lower than the hub: an edge between hubs of one round belongs to the later one.
        below = Signal(config.lanes)
        m.d.comb += [
            reads.eq(self.mode == Mode.READ),
            seeds.eq(self.mode == Mode.SEED),
            searches.eq(self.mode == Mode.SEARCH),
            drains.eq(self.mode == Mode.DRAIN),
            self.i.ready.eq(done),
            self.idle.eq(todo == 0),
            self.step.eq((todo != 0) & done),
            table.tag.eq(self.tag),
            table.load.eq(self.i.valid & done),
            table.wanted.eq(todo),
        ]
        for lane in lanes:
            m.d.comb += [
                table.ahead[lane].eq(self.ahead[lane]),
                table.vertices[lane].eq(self.i.payload.bundle.vertices[lane]),
                self.vertices[lane].eq(edge.vertices[lane]),
            ]
        m.d.sync += todo.eq(todo & ~passed)
        with m.If(table.load):
            m.d.sync += [
                held.eq(self.i.payload),
                todo.eq(self.i.payload.bundle.mask),
                below.eq(Cat(vertex < self.hub for vertex in self.i.payload.bundle.vertices)),
            ]

        hub, known, new_hub, new_node, other, stop, mine = (
            Signal(config.lanes, name=n) for n in ("hub", "known", "new_hub", "new_node", "other", "stop", "mine")
        )
        full_nodes, full_hubs = Signal(), Signal()  # the limit is reached
        for lane in lanes:
            outcome = answers[lane].outcome
            counts = (outcome == Outcome.OLD_HUB) | ((outcome == Outcome.NEW_HUB) & (searches | below[lane]))
            m.d.comb += [
                hub[lane].eq(counts & (reads | searches)),
                known[lane].eq(searches & table.known[lane]),
                new_hub[lane].eq(hub[lane] & ~known[lane]),
                new_node[lane].eq((outcome == Outcome.FREE) & ~reads),
                mine[lane].eq((outcome == Outcome.MINE) & searches),
                other[lane].eq((outcome == Outcome.OTHER) & searches),
                stop[lane].eq(
                    searches
                    & ((outcome == Outcome.MARKED) | (new_hub[lane] & full_hubs) | (new_node[lane] & full_nodes))
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

        vertex, row = Signal(config.node_bits), Signal.like(answers[0].row)
        for lane in lanes:
            with m.If(chosen[lane]):
                m.d.comb += [
                    vertex.eq(edge.vertices[lane]),
                    row.eq(answers[lane].row),
                    self.owner.eq(answers[lane].owner),
                ]
        keep_node, keep_hub, keep_late = Signal(), Signal(), Signal()
        column = Signal.like(table.new_column)
        m.d.comb += [
            self.stops.eq((passed & stop).any()),
            # The excess vertex passes as well: the search ends with it.
            keep_hub.eq((chosen & new_hub).any()),
            keep_node.eq((chosen & new_node & ~stop).any() & ~drains),
            keep_late.eq((chosen & new_node).any() & ~keep_node),
            column.eq(Mux(keep_hub, self.hubs, self.nodes)),
            self.keeps.eq(keep_node),
            self.first.eq(keep_node & seeds),
            # The excess vertex is never looked up again.
            table.insert.eq(Mux(searches, chosen & (new_hub | new_node), Mux(seeds, chosen & new_node, 0))),
            table.new_column.eq(column),
            self.aside.valid.eq((chosen & other).any()),
            self.aside.payload.index.eq(edge.index),
            self.aside.payload.vertex.eq(vertex),
            self.free.eq(Mux(reads, passed & Cat(answers[lane].outcome == Outcome.FREE for lane in lanes), 0)),
            self.read.eq(Mux(reads | searches, sum((passed & ~other)[lane] for lane in lanes), 0)),
        ]

        buffer = self.buffer
        at = Signal(config.list_bits)
        m.d.comb += [
            buffer.node.valid.eq(keep_node | keep_late | (self.new_record & self.given)),
            buffer.node.payload.vertex.eq(Mux(self.new_record, self.hub, vertex)),
            buffer.node.payload.row.eq(row),
            at.eq(self.nodes + self.late),
            buffer.node_index.eq(Cat(Mux(self.new_record, 0, at), self.half)),
            buffer.hub.valid.eq(keep_hub),
            buffer.hub.payload.eq(vertex),
            buffer.hub_index.eq(Cat(self.hubs[: config.hub_bits], self.half)),
        ]
        opened, bits, opens = Signal(config.list_bits + 1), buffer.bits, Signal()
        m.d.comb += opens.eq((passed & ~stop).any() & ~drains & (edge.index == opened))
        m.d.sync += [
            bits.valid.eq((passed & ~stop).any() & ~drains),
            bits.payload.row.eq(edge.index),
            bits.payload.half.eq(self.half),
            bits.payload.fresh.eq(opens),
            bits.payload.mask.eq(passed & ~stop & (hub | new_node | mine)),
            bits.payload.hub.eq(hub),
            *(bits.payload.columns[lane].eq(Mux(known[lane], table.column[lane], column)) for lane in lanes),
            # Whether a node is kept settles late in the cycle, so both outcomes are prepared.
            opened.eq(Mux(opens, opened + 1, opened)),
            self.nodes.eq(Mux(keep_node, self.nodes + 1, self.nodes)),
            self.hubs.eq(Mux(keep_hub, self.hubs + 1, self.hubs)),
            self.late.eq(Mux(keep_late, self.late + 1, self.late)),
            full_nodes.eq(Mux(keep_node, self.nodes + 1 == self.settings.c_max, self.nodes == self.settings.c_max)),
            full_hubs.eq(Mux(keep_hub, self.hubs + 1 == config.hubs, self.hubs == config.hubs)),
        ]
        with m.If(self.new_record):
            m.d.sync += [self.nodes.eq(self.given), self.hubs.eq(0), self.late.eq(0), opened.eq(0)]
            m.d.sync += [full_nodes.eq(self.given & (self.settings.c_max == 1)), full_hubs.eq(0)]
            m.d.sync += self.tag.eq(self.tag + 1)
        with m.If(self.clear.valid):
            m.d.sync += self.tag.eq(0)
        m.d.sync += [
            Cover(keep_late & self.stops, "too many nodes"),
            Cover(self.stops & (passed & stop & new_hub).any(), "too many hubs"),
            Cover(keep_node & (chosen != passed), "one is written, others are known"),
        ]
        return m
