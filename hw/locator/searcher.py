"""Searcher: controls one breadth-first search from the neighbours of a hub, through vertices other than hubs (I3)."""

from amaranth.hdl import Cat, Cover, Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.locator.config import LINES, LocatorConfig
from hw.locator.formats import Owner, SearchSignature
from hw.locator.turns import number_of
from hw.lowest import only_lowest

__all__ = ["End", "Searcher"]


class End(enum.Enum, shape=2):  # type: ignore[call-arg]
    """How a search ends."""

    COMPLETE = 0
    MARK = 1
    RELEASE = 2


class Searcher(wiring.Component):
    """Takes a task, has its hub's neighbours read, then searches from each that is free.

    This is only the control of a search: the engine reads rows, looks up states and keeps records for all its searches.
    Rows of nodes are read in the order in which the nodes were visited. The search is complete when all neighbours of
    every visited node have been read. Neighbours that belong to a search of the same alliance (see
    `hw.locator.resolver`) are put aside until all other neighbours are done.

    A search that is ``dead``, suspended or given up, reads no further: what was requested for it is dropped. No search
    that was suspended goes on.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    search
        To and from the rest of the locator.
    tags_left
        There are tags for a further task.
    epoch, half
        Of the search; of its record in the buffer.
    nodes, listed, hubs
        Numbers of the record's nodes, of all vertices claimed, of hubs.
    clears
        A record begins: its counts become 0.
    wants_row, reads, fetch
        A row is to be read: that of the ``fetch``-th node, or, if the search ``reads``, the task's.
    row_taken, line_taken
        The row is being read. A line was requested that is not the row's last.
    may_ask
        A line may be requested.
    dead, ended, waits
        Nothing further is wanted; the search was given up; nothing may be looked up until a conflict is decided.
    wants_single, again, seed, aside
        A single vertex is to be looked up: the ``aside``-th put aside, for the second time, or the seed at this place.
    single_taken, aside_end
        It is on its way. Where the next one is put aside.
    row_held
        The row taken last has not been requested to its end.
    step, first, stops, found
        What the classifier says: the last neighbour of a part of a row, or a single one, is done; the seed was free;
        the search cannot go on; a neighbour was put aside.
    foe, repeated
        The search that it belongs to, and whether it had been put aside before.
    free
        Places of free neighbours in the task's line.
    sweeps, end, sweep_taken, sweeping
        States of all claimed vertices are to be written, according to the end; pulse: they are next; they are being
        written. A search that is complete does not wait for the end of that: until then its vertices belong to a search
        that has ended, and nobody but a seed meets them.
    hands, head, blank, hub_edges, handed
        A record is complete; its properties; pulse: it was handed over.
    idle
        There is no task, and nothing is under way.
    given_up, retreats
        The search ends without a record, and its vertices are marked or released.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        events = (
            "row_taken",
            "row_held",
            "line_taken",
            "single_taken",
            "step",
            "first",
            "stops",
            "found",
            "sweep_taken",
            "sweeping",
            "handed",
        )
        states = ("half", "clears", "wants_row", "reads", "may_ask", "dead", "ended", "waits", "wants_single", "again")
        more = ("sweeps", "hands", "head", "blank", "hub_edges", "idle", "given_up", "retreats")
        super().__init__(
            {
                "search": Out(SearchSignature(config)),
                "tags_left": In(1),
                "epoch": Out(config.epoch_bits),
                "nodes": In(config.list_bits + 1),
                "listed": In(config.list_bits + 1),
                "hubs": In(config.hub_bits + 1),
                "fetch": Out(config.list_bits + 1),
                "seed": Out(max(1, exact_log2(config.line_words))),
                "aside": Out(config.aside_bits),
                "aside_end": Out(config.aside_bits),
                "foe": In(Owner(config)),
                "repeated": In(1),
                "free": In(config.line_words),
                "end": Out(End),
                **{name: In(1) for name in events},
                **{name: Out(1) for name in (*states, *more)},
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Keep what is under way and what is put aside, then control it."""
        m = Module()
        search, task, claim = self.search, self.search.task, self.search.claim
        searching, sent = Signal(), Signal()
        asking, asked = self._ask(m)
        pending, idle_pending = self._pending(m)
        level = self._asides(m)
        waiting, first = Signal(self.config.line_words), Signal(self.config.line_words)
        crowded = level[exact_log2(LINES * self.config.line_words) :].any()
        rows_taken, exhausted, nothing_asked, still = (
            Signal(name=name) for name in ("rows_taken", "exhausted", "nothing_asked", "still")
        )
        m.d.comb += [
            search.status.searching.eq(searching),
            search.status.epoch.eq(self.epoch),
            search.status.count.eq(self.nodes),
            self.dead.eq(self.ended | claim.suspended),
            self.may_ask.eq((pending <= LINES) & (self.dead | ~crowded)),
            self.waits.eq(asking | asked),
            nothing_asked.eq(~asking & ~asked),
            rows_taken.eq(self.fetch == self.nodes),
            # A row may have been taken before so much was put aside that no line of it is requested.
            still.eq(idle_pending | (self.row_held & crowded & (pending == 1))),
            exhausted.eq(rows_taken & idle_pending),
            first.eq(only_lowest(waiting)),
            self.seed.eq(number_of(first)),
            self.again.eq(searching),
        ]
        m.d.sync += waiting.eq((waiting | self.free) & ~Mux(self.single_taken & ~searching, first, 0))
        with m.If(self.row_taken):
            m.d.sync += self.fetch.eq(self.fetch + 1)
        with m.If(self.clears):
            m.d.sync += self.fetch.eq(0)

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.idle.eq(1), task.ready.eq(self.tags_left)]
                m.d.sync += [sent.eq(0), self.end.eq(End.COMPLETE)]
                m.d.sync += [self.head.eq(task.payload.head), self.blank.eq(task.payload.isolated)]
                with m.If(task.valid & self.tags_left):
                    m.d.comb += self.clears.eq(1)
                    m.next = "READ"
            with m.State("READ"):
                # The hub's neighbours: hubs become columns of its record, free vertices are searched from.
                m.d.comb += [self.reads.eq(1), self.wants_row.eq(~sent)]
                with m.If(self.row_taken):
                    m.d.sync += sent.eq(1)
                with m.If(sent & idle_pending):
                    m.d.sync += self.hands.eq(self.head | self.blank | (self.hubs != 0))
                    m.next = "HAND"
                    with m.If(self.blank):
                        m.d.sync += [self.head.eq(1), self.sweeps.eq(1)]
                        m.next = "SWEEP"
                    with m.Elif(~self.head & (self.hubs == 0)):
                        m.next = "SEED"
            with m.State("HAND"):
                m.d.comb += self.hub_edges.eq(1)
                with m.If(self.handed):
                    m.d.sync += self.half.eq(~self.half)
                    m.next = "SEED"
            with m.State("SEED"):
                m.d.comb += self.wants_single.eq(waiting.any() & idle_pending)
                m.d.sync += self.end.eq(End.COMPLETE)
                with m.If(self.single_taken):
                    m.d.comb += self.clears.eq(1)
                with m.If(self.first):
                    m.d.sync += searching.eq(1)
                    m.next = "SEARCH"
                with m.Elif(~waiting.any() & idle_pending):
                    m.next = "IDLE"
            with m.State("SEARCH"):
                # A suspended search does not ask again. It may have dropped neighbours, so it never is complete.
                goes_on = nothing_asked & ~claim.suspended
                m.d.comb += [
                    self.wants_row.eq(~rows_taken & ~self.dead & ~crowded & (pending < LINES)),
                    self.wants_single.eq((level != 0) & still & (rows_taken | crowded) & goes_on),
                ]
                with m.If(self.stops | claim.lost):
                    marks = self.stops | claim.mark
                    m.d.sync += [searching.eq(0), self.ended.eq(1), self.end.eq(Mux(marks, End.MARK, End.RELEASE))]
                    m.d.comb += [self.given_up.eq(marks), self.retreats.eq(~marks)]
                    m.next = "DRAIN"
                with m.Elif(exhausted & (level == 0) & goes_on):
                    m.d.sync += [searching.eq(0), self.hands.eq(1), self.head.eq(1), self.sweeps.eq(1)]
                    m.next = "SWEEP"
            with m.State("DRAIN"):
                with m.If(idle_pending & nothing_asked):
                    m.d.sync += [self.ended.eq(0), self.sweeps.eq(1)]
                    m.next = "SWEEP"
            with m.State("SWEEP"):
                with m.If(~self.sweeps & ~self.hands & ((self.end == End.COMPLETE) | ~self.sweeping)):
                    m.d.sync += [self.epoch.eq(self.epoch + 1), self.half.eq(self.half ^ (self.end == End.COMPLETE))]
                    m.next = "SEED"
        with m.If(self.sweep_taken):
            m.d.sync += self.sweeps.eq(0)
        with m.If(self.handed):
            m.d.sync += self.hands.eq(0)
        m.d.sync += [
            Cover(crowded, "much is put aside"),
            Cover(self.row_held & crowded & self.single_taken, "a row waits until less is put aside"),
            Cover(self.single_taken & searching, "a neighbour is looked at again"),
            Cover(claim.lost & ~claim.mark & searching, "what is held is needed by another"),
        ]
        return m

    def _ask(self, m: Module) -> tuple[Signal, Signal]:
        """Ask the resolver about another search that was met; until it has decided, nothing is looked up."""
        asking, asked, conflict = Signal(), Signal(), self.search.conflict
        m.d.comb += conflict.valid.eq(asking)
        with m.If(asking & conflict.ready):
            m.d.sync += [asking.eq(0), asked.eq(1)]
        with m.If(self.search.decided):
            m.d.sync += asked.eq(0)
        with m.If(self.found & ~asking & ~asked):
            m.d.sync += [
                asking.eq(1),
                conflict.payload.owner.eq(self.foe),
                # It is needed if nothing else is left.
                conflict.payload.need.eq(self.repeated),
            ]
        return asking, asked

    def _pending(self, m: Module) -> tuple[Signal, Signal]:
        """Count what is under way: lines, single vertices, and a row whose last line has not been requested.

        Return the count, and whether it is 0.
        """
        pending, none = Signal(range(LINES + 3)), Signal()
        more = self.row_taken | self.line_taken | self.single_taken
        m.d.sync += pending.eq(pending + more - self.step)
        m.d.comb += none.eq(pending == 0)
        return pending, none

    def _asides(self, m: Module) -> Signal:
        """Return how many vertices are put aside.

        Up to `LINES` lines are under way when half the list is full, and all their words may be put aside.
        """
        config = self.config
        level, again = Signal(config.aside_bits + 1), Signal()
        m.d.comb += [again.eq(self.single_taken & self.again), self.aside.eq(self.aside_end - level)]
        m.d.sync += [
            # In one adder.
            level.eq(level + Cat(self.found ^ again, (again & ~self.found).replicate(len(level) - 1))),
            self.aside_end.eq(self.aside_end + self.found),
        ]
        with m.If(self.ended):
            m.d.sync += level.eq(0)
        return level
