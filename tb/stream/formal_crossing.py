# mypy: disable-error-code="attr-defined"
"""Proofs of the crossing: any two clocks, one symbolic word followed through it.

Both clocks are made of one: in each of its cycles neither, either or both sides have an edge, as the solver likes. So
every order of edges is among what is tried, however fast or slow either side is. A pointer that changes at the edge at
which the other side takes it in is seen old or new: new if the edges come one after the other, old if they fall
together. Of a Gray pointer one bit changes at most, so there is nothing between old and new.
"""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import (
    Assert,
    Assume,
    Const,
    Cover,
    DomainRenamer,
    Elaboratable,
    EnableInserter,
    Module,
    ResetInserter,
    ResetSignal,
    Signal,
    Value,
)

from hw.stream.crossing import STAGES, Crossing
from sim.harness.formal import Proof

WIDTH, DEPTH = 2, 4
#: Clocks of each side that both resets last after both have taken effect.
OVERLAP = STAGES


def number(code: Value) -> Value:
    """Return the number that a Gray code stands for."""
    result = code
    for distance in range(1, len(code)):
        result = result ^ code.shift_right(distance)
    return result


class CrossingSpec(Elaboratable):
    """Every word that is written is read once, in order, unchanged.

    Parameters
    ----------
    reset
        Both sides run, are reset at any time, and run again; what follows the reset is looked at.
    """

    def __init__(self, *, reset: bool = False) -> None:
        self.reset = reset

    def elaborate(self, platform: Any) -> Module:
        """Tick both sides freely; follow one word."""
        m = Module()
        m.d.comb += Assume(~ResetSignal())  # the sides' resets are this proof's own
        dut = Crossing(WIDTH, DEPTH)
        tick = {name: Signal(name=f"tick_{name}") for name in Crossing.domains}
        m.d.comb += [signal.eq(AnySeq(1)) for signal in tick.values()]
        resets, runs = self._resets(m, tick) if self.reset else ({}, dict.fromkeys(tick, Const(1)))
        clocked = EnableInserter(tick)(ResetInserter(resets)(dut))
        m.submodules.dut = DomainRenamer(dict.fromkeys(tick, "sync"))(clocked)
        m.d.comb += [dut.i.valid.eq(AnySeq(1)), dut.i.payload.eq(AnySeq(WIDTH)), dut.o.ready.eq(AnySeq(1))]
        self._rules(m, dut, tick, runs)
        self._follow(m, dut, tick, runs)
        return m

    def _resets(self, m: Module, tick: dict[str, Signal]) -> tuple[dict[str, Signal], dict[str, Value]]:
        """Reset each side once; release it `OVERLAP` clocks of each side after both resets have taken effect."""
        resets = {name: Signal(name=f"reset_{name}") for name in tick}
        after = {name: Signal(name=f"after_{name}") for name in tick}
        enough = Signal()
        effective = {name: Signal(name=f"effective_{name}") for name in tick}
        shared = {name: Signal(range(OVERLAP + 1), name=f"shared_{name}") for name in tick}
        m.d.comb += enough.eq(Value.cast((shared["write"] == OVERLAP) & (shared["read"] == OVERLAP)))
        for name in tick:
            with m.If(resets[name] & tick[name]):
                m.d.sync += effective[name].eq(1)
            with m.If(effective["write"] & effective["read"] & tick[name] & (shared[name] != OVERLAP)):
                m.d.sync += shared[name].eq(shared[name] + 1)
            with m.If(~resets[name] & ~after[name]):
                m.d.sync += resets[name].eq(AnySeq(1))
            with m.Elif(resets[name] & enough & AnySeq(1)):
                m.d.sync += [resets[name].eq(0), after[name].eq(1)]
        return resets, dict(after)

    def _rules(self, m: Module, dut: Crossing, tick: dict[str, Signal], runs: dict[str, Value]) -> None:
        """Keep the rules of streams at the input and demand them at the output, each in its own clocks."""
        for side, port in (("write", dut.i), ("read", dut.o)):
            waiting, held = Signal(name=f"waiting_{side}"), Signal(WIDTH, name=f"held_{side}")
            m.d.sync += [held.eq(port.payload), waiting.eq(port.valid & ~(port.ready & tick[side]) & runs[side])]
            with m.If(waiting):
                kept = port.valid & (port.payload == held)
                # What is offered between two clocks of the writing side may change.
                m.d.comb += Assume(kept) if side == "write" else Assert(kept)

    def _follow(self, m: Module, dut: Crossing, tick: dict[str, Signal], runs: dict[str, Value]) -> None:
        """Count what is inside, and follow the word that the solver chooses."""
        put, take = Signal(), Signal()
        m.d.comb += [
            put.eq(dut.i.valid & dut.i.ready & tick["write"] & runs["write"]),
            take.eq(dut.o.valid & dut.o.ready & tick["read"] & runs["read"]),
        ]
        inside = Signal(range(DEPTH + 2))
        chosen, ahead, word = Signal(), Signal(range(DEPTH + 2)), Signal(WIDTH)
        m.d.sync += inside.eq(inside + put - take)
        with m.If(~chosen & AnySeq(1) & put):
            m.d.sync += [chosen.eq(1), ahead.eq(inside - take), word.eq(dut.i.payload)]
        with m.Elif(chosen & take):
            m.d.sync += [ahead.eq(ahead - 1), chosen.eq(ahead != 0)]
        with m.If(chosen & (ahead == 0) & dut.o.valid & runs["read"]):
            m.d.comb += Assert(dut.o.payload == word)
        m.d.comb += [Assert(~take | (inside != 0)), Assert(inside <= DEPTH + 1), Assert(~chosen | (ahead < inside))]
        if not self.reset:
            self._invariant(m, dut, inside, chosen, ahead, word)
        full = Signal()
        m.d.sync += full.eq(full | (inside == DEPTH + 1))
        m.d.comb += [
            Cover(full & (inside == 0)),
            Cover(full & chosen & (ahead == 0) & dut.o.valid),
            Cover(chosen & (ahead == DEPTH)),
        ]

    def _invariant(self, m: Module, dut: Crossing, inside: Signal, chosen: Signal, ahead: Signal, word: Signal) -> None:
        """Say where the counts and the chosen word are, from which the rest follows by induction."""
        bits = len(dut.stored)
        chain = [Signal(bits, name=f"count_{index}") for index in range(2 + 2 * STAGES)]
        codes = [dut.stored, *dut.stored_seen, dut.sent, *dut.sent_seen]
        m.d.comb += [count.eq(number(code)) for count, code in zip(chain, codes, strict=True)]
        # Each count is behind the one it comes from; the last is no more than the memory's depth behind the first.
        steps = [Signal(bits, name=f"step_{index}") for index in range(len(chain) - 1)]
        m.d.comb += [step.eq(chain[index] - chain[index + 1]) for index, step in enumerate(steps)]
        m.d.comb += Assert(sum(steps, Const(0)) <= DEPTH)
        sent = chain[1 + STAGES]
        stored = Signal(bits)
        m.d.comb += [stored.eq(chain[0] - sent), Assert(inside == stored + dut.o.valid)]
        m.d.comb += [Assert(dut.writes == chain[0]), Assert(dut.reads == sent)]
        look = dut.words.read_port(domain="comb")
        m.d.comb += look.addr.eq(sent + ahead - dut.o.valid)
        with m.If(chosen & ((ahead != 0) | ~dut.o.valid)):
            m.d.comb += Assert(look.data == word)


PROOFS = [
    Proof("words_pass_once_in_order_unchanged", CrossingSpec, "prove", 3),
    Proof("reaches_its_states", CrossingSpec, "cover", 30),
    Proof("both_sides_reset_in_any_order", lambda: CrossingSpec(reset=True), "bmc", 17),
    Proof("words_follow_a_reset", lambda: CrossingSpec(reset=True), "cover", 40),
]
