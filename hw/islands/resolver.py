"""Conflict resolver: when two searches meet, decides which one goes on (I3)."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.islands.config import LocatorConfig
from hw.islands.formats import Claim, Owner, Settings, Status, Verdict
from hw.stream.arbiter import Arbiter

__all__ = ["Judge", "Resolver"]


class Judge(wiring.Component):
    """Decides one conflict a cycle; who has lost is kept here until that search has ended.

    Only a search that has not lost can win, and it wins against one other. So among the searches of one component
    of the graph a conflict takes away one of two that have not lost, and one always remains.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round: ``c_max`` counts.
    statuses
        Of every worker's search.
    valid, worker, other
        Search of ``worker`` has met the vertex of ``other``.
    verdict
        For it, in the same cycle.
    claims
        Which searches have lost; registers.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(Settings(config)),
                "statuses": In(Status(config)).array(config.workers),
                "valid": In(1),
                "worker": In(config.worker_bits),
                "other": In(Owner(config)),
                "verdict": Out(Verdict),
                "claims": Out(Claim()).array(config.workers),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Compare the two searches: the larger goes on, or the one with the lower task."""
        m = Module()
        config = self.config
        statuses = Array(status.as_value() for status in self.statuses)
        lost = Array(claim.lost for claim in self.claims)
        me, foe = Signal(Status(config)), Signal(Status(config))
        dead, live = Signal(), Signal()
        larger, together = Signal(), Signal(config.list_bits + 2)
        m.d.comb += [
            me.eq(statuses[self.worker]),
            foe.eq(statuses[self.other.worker]),
            dead.eq(lost[self.worker]),
            # A conflict may be about a search that has ended since.
            live.eq(foe.searching & (foe.epoch == self.other.epoch) & ~lost[self.other.worker]),
            together.eq(me.count + foe.count),
            larger.eq((me.count > foe.count) | ((me.count == foe.count) & (me.number < foe.number))),
        ]
        mine, theirs, mark = Signal(), Signal(), Signal()
        with m.If(self.valid & ~dead & live & (self.worker != self.other.worker)):
            m.d.comb += [
                mark.eq(together > self.settings.c_max),
                mine.eq(mark | ~larger),
                theirs.eq(mark | larger),
            ]
        with m.If(dead | (mine & ~mark)):
            m.d.comb += self.verdict.eq(Verdict.RETREAT)
        with m.Elif(mark):
            m.d.comb += self.verdict.eq(Verdict.MARK)
        for n, (claim, status) in enumerate(zip(self.claims, self.statuses, strict=True)):
            loses = (mine & (self.worker == n)) | (theirs & (self.other.worker == n))
            m.d.sync += [
                claim.lost.eq((claim.lost | loses) & status.searching),
                claim.mark.eq(Mux(loses, mark, claim.mark)),
            ]
        return m


class Resolver(wiring.Component):
    """Takes conflicts of all workers in turn to the `Judge` and says the verdict to the worker that asked.

    Parameters
    ----------
    config
        Sizes.

    Attributes
    ----------
    settings
        Of the round.
    statuses, claims
        Of and to every worker.
    conflicts
        From every worker: the owner it has met.
    verdicts
        To every worker, one for each conflict.
    """

    def __init__(self, config: LocatorConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(Settings(config)),
                "statuses": In(Status(config)).array(config.workers),
                "claims": Out(Claim()).array(config.workers),
                "conflicts": In(stream.Signature(Owner(config))).array(config.workers),
                "verdicts": Out(stream.Signature(Verdict, always_ready=True)).array(config.workers),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """One arbiter, one judge."""
        m = Module()
        config = self.config
        if config.workers == 1:
            # One search meets no other.
            m.d.comb += self.conflicts[0].ready.eq(1)
            return m
        m.submodules.arbiter = arbiter = Arbiter(Owner(config), config.workers)
        m.submodules.judge = judge = Judge(config)
        conflict = arbiter.o
        m.d.comb += [
            judge.settings.eq(self.settings),
            judge.valid.eq(conflict.valid),
            judge.worker.eq(conflict.payload.source),
            judge.other.eq(conflict.payload.payload),
            conflict.ready.eq(1),
        ]
        for n in range(config.workers):
            wiring.connect(m, wiring.flipped(self.conflicts[n]), arbiter.i[n])
            m.d.comb += [
                judge.statuses[n].eq(self.statuses[n]),
                self.claims[n].eq(judge.claims[n]),
            ]
            m.d.sync += [
                self.verdicts[n].valid.eq(conflict.valid & (conflict.payload.source == n)),
                self.verdicts[n].payload.eq(judge.verdict),
            ]
        return m
