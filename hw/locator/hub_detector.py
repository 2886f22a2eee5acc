"""Hub detector: finds pending vertices whose degree is above the threshold, and the first threshold (I1)."""

from functools import reduce
from operator import add

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts.communities import BRANCHES, SHARE
from hw.locator.config import LocatorConfig
from hw.locator.degree_lists import Head
from hw.locator.formats import Outcome, Row, Settings
from hw.locator.state_store import Shown
from hw.lowest import next_one

__all__ = ["Hub", "HubDetector"]

#: Cycles for a degree on the way up.
_RISE = 7


class Hub(data.StructLayout):
    """A new hub, or an ``isolated`` vertex: the ``vertex`` and its ``row``."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__({"vertex": config.node_bits, "row": Row(config), "isolated": 1})


class HubDetector(wiring.Component):
    """Looks at the vertices of each degree above the threshold, from high degrees to low ones, in all banks at once.

    New hubs are sent from one bank after the other, so their order depends on nothing else. Searches may run meanwhile:
    vertices that they identify have degrees at or below the threshold.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round.
    find, edges, threshold
        Find the first threshold by the degrees of all vertices, at the ends of so many edges, as
        `golden.locator.schedule.falling`. Valid when ``busy`` is low again.
    start, announce
        Send the hubs of a round, in round 0 isolated vertices behind them; or only name the hubs of round 0.
    busy
        Any of these is going on.
    level, heads, most
        A degree, and two cycles later its list in each bank; no degree is larger than `most`.
    looks, shown
        For each bank: to and from the state store.
    o
        Hubs.
    announced
        A hub is named: it is the payload of `o`.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        level = range(config.top_level + 1)
        super().__init__(
            {
                "settings": In(Settings(config)),
                "find": In(1),
                "edges": In(self.config.edge_bits + 1),
                "threshold": Out(level),
                "start": In(1),
                "announce": In(1),
                "busy": Out(1),
                "level": Out(level),
                "most": In(level),
                "heads": In(data.ArrayLayout(Head(config), config.banks)),
                "looks": Out(stream.Signature(config.place_bits)).array(config.banks),
                "shown": In(Shown(config)).array(config.banks),
                "o": Out(stream.Signature(Hub(config))),
                "announced": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Skip empty lists at one a cycle; walk through the others."""
        m = Module()
        settings, top = self.settings, self.config.top_level
        finds, names, begins, loads, walking = Signal(), Signal(), Signal(), Signal(), Signal()
        # The level that is asked for, and those whose lists come in one and in two cycles.
        more, before, there = Signal(), Signal(), Signal()
        previous, here = Signal.like(self.level), Signal.like(self.level)
        # The highest level of all, the first and the last one to go to, after which level 0 may follow.
        highest, known, first, last = Signal.like(here), Signal(), Signal.like(here), Signal.like(here)
        lowest, above, isolated, follows = Signal.like(here), Signal(), Signal(), Signal()
        m.d.comb += [
            begins.eq(self.start | self.announce | self.find),
            first.eq(Mux(self.find, self.most, Mux(settings.previous < highest, settings.previous, highest))),
            lowest.eq(Mux(self.find, 0, Mux(settings.threshold >= top, top, settings.threshold + 1))),
            above.eq(first >= lowest),
            # Isolated vertices follow in the first round.
            isolated.eq(self.start & (settings.round == 0)),
        ]

        def go_on(level: Signal) -> list[object]:
            """Ask for what follows a level."""
            lower = Mux(level == last, 0, level - 1)
            return [self.level.eq(lower), more.eq((level != 0) & ((level != last) | follows))]

        with m.If(~walking):
            m.d.sync += [before.eq(more), previous.eq(self.level), there.eq(before), here.eq(previous)]
            with m.If(more):
                m.d.sync += go_on(self.level)
        some = Cat(head.count != 0 for head in self.heads).any()
        walks = self._walk(m, loads, here, names)
        total = Signal(self.config.node_bits + 1)
        m.d.sync += total.eq(sum(head.count for head in self.heads))
        counts, most, least = self._count(m, total, there & finds, here, begins)
        rises = Signal()
        risen = self._rise(m, total, rises, most, least)
        with m.If(begins):
            m.d.sync += [
                *(finds.eq(self.find), names.eq(self.announce), last.eq(lowest), follows.eq(isolated)),
                *(self.level.eq(Mux(above, first, 0)), more.eq(above | isolated)),
            ]
        with m.If(self.find):
            m.d.sync += [highest.eq(self.most), known.eq(0)]
        with m.If(there & some & finds & ~known):
            m.d.sync += [highest.eq(here), known.eq(1)]
        m.d.comb += self.busy.eq(1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.busy.eq(0)
                with m.If(begins):
                    m.next = "SKIP"
            with m.State("SKIP"):
                with m.If(there & some & ~finds):
                    m.d.comb += loads.eq(1)
                    m.d.sync += [*go_on(here), before.eq(0), there.eq(0)]
                    m.next = "WALK"
                with m.Elif(~more & ~before & ~counts):
                    m.next = "IDLE"
                    with m.If(finds):
                        m.d.sync += self.level.eq(0)
                        m.next = "RISE"
            with m.State("RISE"):
                m.d.comb += rises.eq(1)
                with m.If(risen):
                    m.next = "IDLE"
            with m.State("WALK"):
                m.d.comb += walking.eq(1)
                with m.If(~walks):
                    m.next = "SKIP"
        return m

    def _count(
        self, m: Module, total: Signal, comes: Value, level: Signal, begins: Signal
    ) -> tuple[Value, Signal, Signal]:
        """Add up the vertices of falling degrees.

        Return whether some are on their way, and the least degrees that one vertex in `SHARE` and one in two exceed at
        most.
        """
        number, valid = Signal.like(total), Signal(2)
        late = [Signal.like(level, name=f"late{n}") for n in range(2)]
        m.d.sync += [valid.eq(Cat(comes, valid[0])), late[0].eq(level), late[1].eq(late[0])]
        with m.If(valid[0]):
            m.d.sync += number.eq(number + total)
        found = []
        for share, name in ((SHARE, "most"), (2, "least")):
            least, enough = Signal.like(level, name=name), Signal(name=f"enough_{name}")
            with m.If(valid[1] & ~enough & (number << exact_log2(share) > self.settings.vertices)):
                m.d.sync += [enough.eq(1), least.eq(late[1])]
            with m.If(begins):
                m.d.sync += enough.eq(0)
            with m.If(self.find):
                m.d.sync += least.eq(0)
            found.append(least)
        with m.If(begins):
            m.d.sync += number.eq(0)
        return comes | valid.any(), *found

    def _rise(self, m: Module, total: Signal, rises: Signal, most: Signal, least: Signal) -> Value:
        """Add up what searches find at vertices of rising degrees, until it is too much; return whether it is done.

        A degree takes a few cycles: edges are read meanwhile.
        """
        # Each degree passes its list, the sum of its banks, a product, a sum and a comparison.
        step, steps = Signal(range(_RISE)), _RISE - 1
        pairs, product = Signal(2 * len(self.level)), Signal(2 * len(self.level) + len(total))
        found, dense = Signal(len(product) + 1), Signal()
        # A multiplication would take a multiplier.
        limit = reduce(add, (self.edges << bit for bit in range(BRANCHES.bit_length()) if BRANCHES >> bit & 1))
        m.d.sync += [
            step.eq(Mux(rises & (step != steps), step + 1, 0)),
            product.eq(pairs * total),
            dense.eq((found << 1) > limit),
        ]
        with m.If(~rises):
            m.d.sync += [pairs.eq(0), found.eq(0)]
        with m.If(step == steps - 2):
            m.d.sync += found.eq(found + product)
        ends = (step == steps) & (dense | (self.level == most))
        with m.If(step == steps):
            # From d(d - 1) to (d + 1)d.
            m.d.sync += [self.level.eq(self.level + 1), pairs.eq(pairs + (self.level << 1))]
            lower = Signal.like(most)
            m.d.comb += lower.eq(self.level - 1)
            m.d.sync += self.threshold.eq(Mux(~dense, most, Mux(lower < least, least, lower)))
        return ends

    def _walk(self, m: Module, loads: Signal, level: Signal, names: Signal) -> Value:
        """Walk through the lists of a level in all banks and send what is found; return whether something is left."""
        config, banks = self.config, range(self.config.banks)
        turn, isolated = Signal(config.bank_bits), Signal()
        open_, full, taken = Signal(config.banks), Signal(config.banks), Signal()
        found = []
        for n in banks:
            left, place = Signal(config.place_bits + 1, name=f"left{n}"), Signal(config.place_bits, name=f"place{n}")
            asked, vertex = Signal(name=f"asked{n}"), Signal(config.place_bits, name=f"found{n}", reset_less=True)
            row, look, shown = Signal(Row(config), name=f"row{n}", reset_less=True), self.looks[n], self.shown[n]
            found.append(Cat(vertex, row))
            m.d.comb += [
                look.valid.eq((left != 0) & ~asked & ~full[n]),
                look.payload.eq(place),
                open_[n].eq((left != 0) | full[n]),
            ]
            m.d.sync += asked.eq(look.valid & look.ready)
            with m.If(taken & (turn == n)):
                m.d.sync += full[n].eq(0)
            with m.If(asked):
                m.d.sync += [left.eq(left - 1), place.eq(shown.next), vertex.eq(place), row.eq(shown.row)]
                free = isolated & (shown.outcome == Outcome.FREE)
                m.d.sync += full[n].eq((shown.outcome == Outcome.NEW_HUB) | free)
            with m.If(loads):
                m.d.sync += [left.eq(self.heads[n].count), place.eq(self.heads[n].first)]
        hub, sends = self.o.payload, Signal()
        m.d.comb += [
            sends.eq(full.bit_select(turn, 1)),
            taken.eq(sends & (names | self.o.ready)),
            self.o.valid.eq(sends & ~names),
            hub.isolated.eq(isolated),
            self.announced.eq(sends & names),
        ]
        place, row = Signal(config.place_bits), hub.row
        m.d.comb += [
            Cat(place, row).eq(Array(found)[turn]),
            hub.vertex.eq(Cat(turn, place)),
        ]
        with m.If(taken | ~open_.bit_select(turn, 1)):
            m.d.sync += turn.eq(next_one(open_, turn))
        with m.If(loads):
            m.d.sync += [turn.eq(0), isolated.eq(level == 0)]
        m.d.sync += [
            Cover(self.o.valid & full.all(), "all banks have a hub"),
            Cover(sends & ~self.o.ready & ~names, "a hub waits"),
        ]
        return open_.any()
