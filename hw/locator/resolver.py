"""Conflict resolver: searches that meet become allies, and one of them goes on (I3)."""

from amaranth.hdl import Array, Cat, Cover, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.locator.config import LocatorConfig
from hw.locator.formats import Claim, Conflict, Settings, Status
from hw.stream.arbiter import Arbiter, tagged

__all__ = ["AllianceTracker", "Resolver"]


class _Side(data.StructLayout):
    """One of two alliances: its ``leader``, whether that is ``live``, the ``total`` of nodes, ``extra`` of allies."""

    def __init__(self, config: LocatorConfig) -> None:
        super().__init__(
            {
                "leader": config.worker_bits,
                "live": 1,
                "total": config.list_bits + 2,
                "extra": config.list_bits + 2,
            }
        )


class AllianceTracker(wiring.Component):
    """Decides one conflict every other cycle and keeps which searches are suspended or lost until they end.

    Searches that have met are in one component of the graph. They form an alliance: the larger proceeds as its leader,
    the others are suspended, but keep the vertices that they have visited. If the alliance exceeds ``c_max`` nodes, the
    component is too large and all members mark their vertices. If the leader needs vertices of another member, that
    member releases them. So only released vertices are read twice.

    Only a leader can admit members, and an alliance has one leader that has not lost, or all of it marks.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Settings of the round; ``c_max`` is used.
    statuses
        Status of each worker's search.
    i
        Conflicts with the ``source`` worker's number; ready every other cycle.
    decided
        Pulse for the worker whose conflict is decided, with the decision in ``claims``.
    claims
        Decision for each search, from registers.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        #: Leader of each suspended search (internal; read by the proof).
        self.leaders = [Signal(config.worker_bits, name=f"leader{n}") for n in range(config.workers)]
        #: Lower bound of the nodes of each leader's allies (internal); late finds are not counted.
        self.extras = [Signal(config.list_bits + 2, name=f"extra{n}") for n in range(config.workers)]
        super().__init__(
            {
                "settings": In(Settings(config)),
                "statuses": In(Status(config)).array(config.workers),
                "i": In(stream.Signature(tagged(Conflict(config), config.workers))),
                "decided": Out(config.workers),
                "claims": Out(Claim()).array(config.workers),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Compare in one cycle, decide in the next."""
        m = Module()
        config, workers = self.config, range(self.config.workers)
        claims, leaders, extras, statuses = self.claims, self.leaders, self.extras, self.statuses
        alive, counts = Signal(config.workers), Array(status.count for status in statuses)
        m.d.comb += alive.eq(Cat(statuses[n].searching & ~claims[n].lost for n in workers))

        conflict, me, foe = self.i.payload, Signal(_Side(config)), Signal(_Side(config))
        weighed, acts = Signal(), Signal()
        met, met_count, need = Signal(config.worker_bits), Signal(config.list_bits + 1), Signal()
        suspended = Array(claim.suspended for claim in claims)
        owner, leader = conflict.payload.owner, Signal(config.worker_bits)
        m.d.comb += [
            self.i.ready.eq(~weighed),
            leader.eq(Mux(suspended[owner.worker], Array(leaders)[owner.worker], owner.worker)),
        ]
        m.d.sync += weighed.eq(self.i.valid & self.i.ready)
        with m.If(~weighed):
            m.d.sync += [
                me.leader.eq(conflict.source),
                me.live.eq(alive.bit_select(conflict.source, 1) & ~suspended[conflict.source]),
                met.eq(owner.worker),
                met_count.eq(counts[owner.worker]),
                need.eq(conflict.payload.need),
                foe.leader.eq(leader),
                # A conflict may be about a search that has ended since.
                foe.live.eq(
                    alive.bit_select(owner.worker, 1)
                    & (Array(status.epoch for status in statuses)[owner.worker] == owner.epoch)
                ),
            ]
            for side, number in ((me, conflict.source), (foe, leader)):
                # Totals include the last decision: an ally's nodes must not count twice.
                extra = Array(extras)[number]
                m.d.sync += [side.total.eq(counts[number] + extra), side.extra.eq(extra)]

        same, too_large, larger = Signal(), Signal(), Signal()
        m.d.comb += [
            acts.eq(
                weighed
                & me.live
                & foe.live
                & alive.bit_select(me.leader, 1)
                & alive.bit_select(met, 1)
                & alive.bit_select(foe.leader, 1)
            ),
            same.eq(me.leader == foe.leader),
            too_large.eq(me.total + foe.total > self.settings.c_max),
            larger.eq((me.total > foe.total) | ((me.total == foe.total) & (me.leader < foe.leader))),
        ]
        # The leader whose allies change, and what they hold then: without the vertices that the leader needs, or with
        # the other alliance.
        stays, changes, extra = Signal(), Signal(), Signal.like(me.extra)
        m.d.comb += [
            stays.eq(same | larger),
            changes.eq(acts & Mux(same, need, ~too_large)),
            extra.eq(Mux(stays, me.extra, foe.extra) + Mux(larger, foe.total, me.total)),
        ]
        with m.If(same):
            m.d.comb += extra.eq(Mux(me.extra > met_count, me.extra - met_count, 0))
        for n in workers:
            claim, mine, theirs = claims[n], Signal(name=f"mine{n}"), Signal(name=f"theirs{n}")
            m.d.comb += [
                mine.eq(Mux(claim.suspended, leaders[n], n) == me.leader),
                theirs.eq(Mux(claim.suspended, leaders[n], n) == foe.leader),
                self.decided[n].eq(weighed & (me.leader == n)),
            ]
            with m.If(acts & same):
                with m.If(need & (met == n) & (me.leader != n)):
                    m.d.sync += [claim.lost.eq(1), claim.mark.eq(0)]
            with m.Elif(acts & too_large):
                with m.If((mine | theirs) & ~claim.lost):
                    m.d.sync += [claim.lost.eq(1), claim.mark.eq(1)]
            with m.Elif(acts):
                with m.If(Mux(larger, theirs, mine)):
                    m.d.sync += [claim.suspended.eq(1), leaders[n].eq(Mux(larger, me.leader, foe.leader))]
            with m.If(changes & (Mux(stays, me.leader, foe.leader) == n)):
                m.d.sync += extras[n].eq(extra)
            # A leader that has ended while it had allies was given up for its size.
            with m.If(claim.suspended & ~claim.lost & ~Array(s.searching for s in statuses)[leaders[n]]):
                m.d.sync += [claim.lost.eq(1), claim.mark.eq(1)]
            with m.If(~statuses[n].searching):
                m.d.sync += [claim.eq(0), extras[n].eq(0)]
        m.d.sync += [
            Cover(acts & same & need, "an ally is asked for what it holds"),
            Cover(acts & ~same & too_large, "together they are too large"),
            Cover(acts & ~same & ~too_large & larger, "the one that asks goes on"),
            Cover(acts & ~same & ~too_large & ~larger, "the one that asks is suspended"),
        ]
        return m


class Resolver(wiring.Component):
    """Arbitrates the conflicts of all workers onto the `AllianceTracker`.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round.
    statuses, claims
        Status of each worker, and the decision for it.
    conflicts
        Conflict of each worker: the owner that it has met.
    decided
        One bit for each worker: its conflict is decided.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(Settings(config)),
                "statuses": In(Status(config)).array(config.workers),
                "claims": Out(Claim()).array(config.workers),
                "conflicts": In(stream.Signature(Conflict(config))).array(config.workers),
                "decided": Out(config.workers),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """One arbiter, one tracker."""
        m = Module()
        config = self.config
        if config.workers == 1:
            # A single search has no conflicts.
            m.d.comb += self.conflicts[0].ready.eq(1)
            return m
        m.submodules.arbiter = arbiter = Arbiter(Conflict(config), config.workers)
        m.submodules.tracker = tracker = AllianceTracker(config)
        wiring.connect(m, arbiter.o, tracker.i)
        m.d.comb += [tracker.settings.eq(self.settings), self.decided.eq(tracker.decided)]
        for n in range(config.workers):
            wiring.connect(m, wiring.flipped(self.conflicts[n]), arbiter.i[n])
            m.d.comb += [tracker.statuses[n].eq(self.statuses[n]), self.claims[n].eq(tracker.claims[n])]
        return m
