# mypy: disable-error-code="attr-defined,arg-type"
"""Proofs of what returns over a link between two clocks: credits and states.

As in `tb.stream.formal_crossing` both clocks are made of one: in each of its cycles either side has an edge, or both,
or neither. At a common edge a count in Gray code is seen old or new; of a state, each bit may be.
"""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import (
    Assert,
    Assume,
    Cat,
    Const,
    Cover,
    Elaboratable,
    EnableInserter,
    Module,
    Mux,
    ResetInserter,
    ResetSignal,
    Signal,
)

from hw.ring.credit_crossing import CreditCount, CreditCrossing
from hw.ring.formats import LinkState
from hw.ring.state_crossing import StateCrossing
from sim.harness.formal import Proof
from tb.stream.formal_crossing import number

#: Bits of a count, for a receiver with two or three slots.
BITS = 3
#: Credits that may be on the way.
MOST = (1 << BITS) - 1
#: Clocks of the observer until it has seen a state that lasts.
LATENCY = 5


class CreditSpec(Elaboratable):
    """Every credit that is given arrives once, whatever the clocks are and whichever side is reset."""

    def elaborate(self, platform: Any) -> Module:
        """Count what is given and what arrives."""
        m = Module()
        m.d.comb += Assume(~ResetSignal())
        given, taken = CreditCount(BITS), CreditCrossing(BITS)
        give, take = Signal(), Signal()
        ticks, resets = ([Signal(name=f"{name}_{n}") for n in range(2)] for name in ("tick", "reset"))
        m.submodules.given = EnableInserter(ticks[0])(ResetInserter(resets[0])(given))
        m.submodules.taken = EnableInserter(ticks[1])(ResetInserter(resets[1])(taken))
        m.d.comb += [signal.eq(AnySeq(1)) for signal in (*ticks, *resets)]
        inside = Signal(range(MOST + 1))
        m.d.comb += [
            given.i.eq(AnySeq(1)),
            taken.i.eq(given.o),
            give.eq(given.i & ticks[0]),
            take.eq(taken.o & ticks[1]),
            Assume(~give | (inside != MOST)),
        ]
        m.d.sync += inside.eq(inside + give - take)
        # Each count is behind the one that it comes from.
        chain = [Signal(BITS, name=f"count_{n}") for n in range(3 + len(taken.seen))]
        codes = [given.o, *taken.seen]
        m.d.comb += [chain[0].eq(given.count), chain[-1].eq(taken.count)]
        m.d.comb += [count.eq(number(code)) for count, code in zip(chain[1:], codes, strict=False)]
        steps = [Signal(BITS, name=f"step_{n}") for n in range(len(chain) - 1)]
        m.d.comb += [step.eq(chain[n] - chain[n + 1]) for n, step in enumerate(steps)]
        m.d.comb += [
            Assert(steps[0] == 0),
            Assert(sum(steps, Const(0)) == inside),
            Assert(number(taken.code) == taken.count),
            Assert(~take | (inside != 0)),
            Cover(inside == MOST),
        ]
        full = Signal()
        m.d.sync += full.eq(full | (inside == MOST))
        m.d.comb += Cover(full & (inside == 0))
        return m


class StateSpec(Elaboratable):
    """A state is seen soon, none is seen that is not there, and a stop is seen behind work."""

    def elaborate(self, platform: Any) -> Module:
        """Let the neighbour go through its states; remember what it has been lately."""
        m = Module()
        m.d.comb += Assume(~ResetSignal())
        dut = StateCrossing()
        tick = Signal()
        m.submodules.dut = EnableInserter(tick)(dut)
        state, then, torn = (Signal(LinkState, name=name) for name in ("state", "then", "torn"))
        mask, stays = Signal(2), Signal(range(LATENCY + 1))
        m.d.comb += [tick.eq(AnySeq(1)), then.eq(AnySeq(2)), mask.eq(AnySeq(2))]
        stopped, in_reset = then == LinkState.STOPPED, state == LinkState.IN_RESET
        m.d.comb += [
            # A reset lasts until it has been seen.
            Assume((then == state) | ~in_reset | (stays == LATENCY)),
            # Work begins after a reset alone.
            Assume((then != LinkState.AT_WORK) | (state != LinkState.STOPPED)),
            Assume((then != LinkState.FRESH) | (state == LinkState.FRESH) | in_reset),
            torn.eq((state.as_value() & ~mask) | (then.as_value() & mask)),
            dut.i.eq(Mux(then == state, state, torn)),
        ]
        m.d.sync += state.eq(then)
        # What it has been in the last clocks here, this one included.
        lately = [[Signal(LATENCY, name=f"been_{one.name}")] for one in LinkState]
        for one, (been,) in zip(LinkState, lately, strict=True):
            there = Signal(name=f"there_{one.name}")
            m.d.comb += there.eq((state == one) | (then == one))
            with m.If(tick):
                m.d.sync += been.eq(Cat(there, been[:-1]))
            with m.Elif(there):
                m.d.sync += been[0].eq(1)
        with m.If(then != state):
            m.d.sync += stays.eq(0)
        with m.Elif(tick & (stays != LATENCY)):
            m.d.sync += stays.eq(stays + 1)
        shown, past, begun = dut.o, Signal(LinkState), Signal()
        m.d.sync += [past.eq(shown), begun.eq(1)]
        m.d.comb += [
            Assert((stays != LATENCY) | (shown == state)),
            Cover((shown == LinkState.STOPPED) & stopped),
        ]
        seen = Signal()
        m.d.sync += seen.eq(seen | (shown == LinkState.STOPPED))
        m.d.comb += Cover(seen & (shown == LinkState.FRESH))
        with m.If(begun & (shown != past)):
            m.d.comb += [
                Assert((shown != LinkState.FRESH) | lately[0][0].any()),
                Assert((shown != LinkState.IN_RESET) | lately[3][0].any()),
                Assert((shown != LinkState.STOPPED) | (lately[2][0].any() & (past == LinkState.AT_WORK))),
            ]
        return m


PROOFS = [
    Proof("each_credit_arrives_once", CreditSpec, "prove", 3),
    Proof("credits_reach_their_states", CreditSpec, "cover", 30),
    Proof("a_state_is_seen_soon_and_only_if_it_is_there", StateSpec, "bmc", 22),
    Proof("states_are_seen", StateSpec, "cover", 30),
]
