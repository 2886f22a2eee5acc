"""Proofs of the attribute cache: no ID is held twice, look-ups are right, the policy says who leaves."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from contracts import Policy
from contracts.cache import LARGEST_LEAVES
from hw.attributes.attribute_cache import GROUP, STAGES, AttributeCache, VictimFinder, hand_bits
from hw.attributes.formats import AttributeConfig
from sim.harness.formal import Proof


def config(ways: int, policy: Policy) -> AttributeConfig:
    """Return narrow sizes."""
    return AttributeConfig(slots=2, ways=ways, row_beats=1, id_bits=4, data_width=64, policy=policy)


class CacheSpec(Elaboratable):
    """A user that writes an ID only where it is, or where it is nowhere; one symbolic ID is followed.

    Parameters
    ----------
    ways
        Ways of the cache.
    """

    def __init__(self, ways: int) -> None:
        self.ways = ways

    def elaborate(self, platform: Any) -> Module:
        """Look up anything; compare hits of the watched ID with what has been written."""
        m = Module()
        sizes = config(self.ways, Policy.LFU)
        m.submodules.dut = dut = AttributeCache(sizes)
        watched = Signal(sizes.id_bits)
        held, at = Signal(), Signal.like(dut.way)
        m.d.comb += [
            watched.eq(AnyConst(sizes.id_bits)),
            dut.run.eq(AnySeq(1)),
            dut.id.eq(AnySeq(sizes.id_bits)),
            dut.write.eq(AnySeq(1)),
            dut.write_way.eq(AnySeq(len(dut.way))),
            dut.write_valid.eq(AnySeq(1)),
            dut.write_id.eq(AnySeq(sizes.id_bits)),
            dut.write_key.eq(AnySeq(sizes.key_bits)),
            dut.flush.eq(AnySeq(1)),
            Assume(dut.write_way < self.ways),
            # The attribute processor never writes an ID that is in another way.
            Assume(~(dut.write & dut.write_valid & (dut.write_id == watched) & held & (dut.write_way != at))),
        ]
        with m.If(dut.write):
            with m.If(dut.write_valid & (dut.write_id == watched)):
                m.d.sync += [held.eq(1), at.eq(dut.write_way)]
            with m.Elif(dut.write_way == at):
                m.d.sync += held.eq(0)
        with m.If(dut.flush):
            m.d.sync += held.eq(0)
        # What was true when the look-up met the ways, and a cycle later.
        asked, was_held, was_at = Signal(), Signal(), Signal.like(at)
        answer, answer_held, answer_at = Signal(), Signal(), Signal.like(at)
        with m.If(dut.run):
            m.d.sync += [asked.eq(dut.id == watched), was_held.eq(held), was_at.eq(at)]
            m.d.sync += [answer.eq(asked), answer_held.eq(was_held), answer_at.eq(was_at)]
        with m.If(answer):
            m.d.comb += [Assert(dut.hit == answer_held), Assert(~dut.hit | (dut.way == answer_at))]
        m.d.comb += [
            Cover(answer & dut.hit & (dut.way == self.ways - 1)),
            Cover(dut.room & dut.leaves & (dut.leaver == watched)),
        ]
        return m


class FinderSpec(Elaboratable):
    """Keys that change; when the finder has a result, no way should leave before that one.

    Parameters
    ----------
    ways, policy
        As for the cache.
    """

    def __init__(self, ways: int, policy: Policy) -> None:
        self.ways, self.policy = ways, policy

    def elaborate(self, platform: Any) -> Module:
        """Compare the result with one symbolic way."""
        m = Module()
        sizes = config(self.ways, self.policy)
        m.submodules.dut = dut = VictimFinder(sizes)
        keys = Array(Signal(sizes.key_bits, name=f"key_{n}") for n in range(self.ways))
        other = Signal(range(self.ways))
        m.d.comb += [other.eq(AnyConst(other.shape())), Assume(other < self.ways), dut.restart.eq(AnySeq(1))]
        for n, key in enumerate(keys):
            m.d.comb += dut.keys[n].eq(key)
            with m.If(dut.restart):
                m.d.sync += key.eq(AnySeq(sizes.key_bits))
        chosen, mine = keys[dut.way], keys[other]
        if self.policy == Policy.SIEVE:
            hand = Signal(hand_bits(sizes))
            m.d.comb += dut.hand.eq(hand)
            with m.If(dut.restart):
                m.d.sync += hand.eq(AnySeq(len(hand)))
            # How far the hand has to go: round all numbers once more if the entry was requested again.
            steps = [Signal(sizes.key_bits, name=f"steps_{n}") for n in range(2)]
            for step, key in zip(steps, (chosen, mine), strict=True):
                m.d.comb += step.eq(
                    Mux(key[1:] < hand, key[1:] + (1 << len(hand)), key[1:]) - hand + (key[0] << len(hand))
                )
            chosen, mine = steps
        before = mine > chosen if self.policy in LARGEST_LEAVES else mine < chosen
        started, waited = Signal(), Signal(range(32))
        with m.If(dut.restart):
            m.d.sync += [started.eq(1), waited.eq(0)]
        with m.Elif(waited != 31):
            m.d.sync += waited.eq(waited + 1)
        with m.If(dut.valid & started):
            m.d.comb += [
                Assert(dut.way < self.ways),
                Assert(~before),
                Assert((mine != chosen) | (dut.way <= other)),
            ]
        m.d.comb += [
            Assert(~started | dut.valid | (waited < -(-self.ways // GROUP) + STAGES)),
            Cover(dut.valid & started & (dut.way == self.ways - 1)),
        ]
        return m


def _cache() -> CacheSpec:
    return CacheSpec(3)


def _smallest() -> FinderSpec:
    return FinderSpec(10, Policy.LFU)


def _next_of_few() -> FinderSpec:
    return FinderSpec(3, Policy.SIEVE)


def _next_unvisited() -> FinderSpec:
    return FinderSpec(9, Policy.SIEVE)


def _largest() -> FinderSpec:
    return FinderSpec(9, Policy.MRU)


PROOFS = [
    Proof("no_id_is_held_twice_at_first", _cache, "bmc", 10),
    Proof("no_id_is_held_twice", _cache, "bmc", 14, quick=False),
    Proof("hits_and_evicts", _cache, "cover", 14),
    Proof("the_smallest_key_leaves", _smallest, "bmc", 14),
    Proof("the_largest_key_leaves", _largest, "bmc", 12),
    Proof("the_next_one_from_the_hand_on_leaves_at_first", _next_of_few, "bmc", 10),
    Proof("the_next_one_from_the_hand_on_leaves", _next_unvisited, "bmc", 12, quick=False),
    Proof("finds_the_last_way", _smallest, "cover", 14),
]
