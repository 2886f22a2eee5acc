"""Attribute cache, level 2: the IDs that it holds, and the one that leaves next (A6, A8)."""

from itertools import pairwise

from amaranth import Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.hdl import Array, Cat, Cover
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from contracts import Policy
from contracts.cache import LARGEST_LEAVES
from hw.attributes.formats import AttributeConfig

__all__ = ["AttributeCache", "VictimFinder", "hand_bits", "sieve_order"]

#: Ways that are compared in a cycle, a power of two.
GROUP = 8
#: Cycles from choosing a group until its winner counts: one to choose, one a level of comparisons, one for the best.
STAGES = exact_log2(GROUP) + 2


def hand_bits(config: AttributeConfig) -> int:
    """Return the bits of an entry's number for SIEVE, else 0."""
    return config.key_bits - 1 if config.policy == Policy.SIEVE else 0


def sieve_order(key: Value, hand: Value) -> Value:
    """Return what is smallest for the way that leaves: not requested again, and next from the hand on."""
    return Cat((key[1:] - hand)[: len(hand)], key[0])


class VictimFinder(wiring.Component):
    """Searches the keys of all ways for the way that is evicted next, again after every change.

    A search takes a cycle for every `GROUP` ways and `STAGES` more.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    keys : In
        Key of every way.
    hand : In
        For SIEVE: number of the entry from which the search begins.
    restart : In(1)
        The keys, or the hand, change in this cycle.
    valid, way : Out
        The search has ended, and its result: the smallest key, the largest for MRU and LIFO, the smallest by
        `sieve_order` for SIEVE; of equal ones the lowest way.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        super().__init__(
            {
                "keys": In(unsigned(config.key_bits)).array(config.ways),
                "hand": In(hand_bits(config)),
                "restart": In(1),
                "valid": Out(1),
                "way": Out(range(max(2, config.ways))),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Compare a group in one cycle, its winner with the best so far in the next."""
        m = Module()
        config = self.config
        groups = -(-config.ways // GROUP)
        candidate = data.StructLayout({"valid": 1, "key": config.key_bits, "way": range(max(2, config.ways))})

        def better(left: data.View, right: data.View) -> Mux:
            """Whether `right` leaves before `left`, which is the lower way."""
            wins = right.key > left.key if config.policy in LARGEST_LEAVES else right.key < left.key
            return right.valid & (~left.valid | wins)

        # Group chosen, levels of comparisons down to its winner, best so far: a register after each.
        at, best = Signal(range(groups + 1)), Signal(candidate)
        levels = [
            [Signal(candidate, name=f"of_{1 << level}_{n}") for n in range(GROUP >> level)]
            for level in range(exact_log2(GROUP) + 1)
        ]
        (winner,) = levels[-1]
        under_way = Signal(STAGES)
        for n, lane in enumerate(levels[0]):
            key = Signal(config.key_bits, name=f"chosen_{n}")
            m.d.sync += [
                lane.valid.eq(0),
                lane.key.eq(sieve_order(key, self.hand) if config.policy == Policy.SIEVE else key),
            ]
            with m.Switch(at):
                for group in range(groups):
                    way = group * GROUP + n
                    if way < config.ways:
                        with m.Case(group):
                            m.d.comb += key.eq(self.keys[way])
                            m.d.sync += [lane.valid.eq(1), lane.way.eq(way)]
        for before, after in pairwise(levels):
            for left, right, wins in zip(before[::2], before[1::2], after, strict=True):
                m.d.sync += wins.eq(Mux(better(left, right), right, left))
        with m.If(better(best, winner)):
            m.d.sync += best.eq(winner)
        with m.If(at != groups):
            m.d.sync += at.eq(at + 1)
        m.d.sync += under_way.eq((under_way << 1) | (at != groups))
        m.d.comb += [self.valid.eq((at == groups) & (under_way == 0)), self.way.eq(best.way)]
        with m.If(self.restart):
            m.d.sync += [at.eq(0), under_way.eq(0), best.valid.eq(0)]
            m.d.sync += [part.valid.eq(0) for level in levels for part in level]
        return m


class AttributeCache(wiring.Component):
    """IDs and replacement keys of all ways, compared at once.

    Parameters
    ----------
    config : AttributeConfig

    Attributes
    ----------
    run : In(1)
        Look-ups advance.
    id : In
        What to look up.
    hit, way, key : Out
        Two cycles later: it is there, in which way, and that way's key.
    room : Out(1)
        `place` is known.
    place : Out
        Where the next entry goes: the first free way, or that of the entry that leaves.
    leaves, leaver : Out
        An entry leaves for it, and its ID.
    write, write_way, write_valid, write_id, write_key : In
        Change a way.
    evicts : In(1)
        For SIEVE, with `write`: what is there leaves by the policy.
    flush : In(1)
        Forget everything.
    """

    def __init__(self, config: AttributeConfig) -> None:
        self.config = config
        way = range(max(2, config.ways))
        super().__init__(
            {
                "run": In(1),
                "id": In(config.id_bits),
                "hit": Out(1),
                "way": Out(way),
                "key": Out(config.key_bits),
                "room": Out(1),
                "place": Out(way),
                "leaves": Out(1),
                "leaver": Out(config.id_bits),
                "write": In(1),
                "write_way": In(way),
                "write_valid": In(1),
                "write_id": In(config.id_bits),
                "write_key": In(config.key_bits),
                **({"evicts": In(1)} if config.policy == Policy.SIEVE else {}),
                "flush": In(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the comparators, the ways and the choice of the next place."""
        m = Module()
        config = self.config
        m.submodules.finder = finder = VictimFinder(config)
        valid = Signal(config.ways)
        identities = Array(Signal(config.id_bits, name=f"id_{n}") for n in range(config.ways))
        keys = Array(Signal(config.key_bits, name=f"key_{n}") for n in range(config.ways))
        m.d.comb += [finder.keys[n].eq(keys[n]) for n in range(config.ways)]
        m.d.comb += finder.restart.eq(self.write)

        match = Signal(config.ways)
        way, way_key = Signal.like(self.way), Signal.like(self.key)
        for n in range(config.ways):
            with m.If(match[n]):
                m.d.comb += way_key.eq(keys[n])
        with m.If(self.run):
            m.d.sync += match.eq(Cat(valid[n] & (identities[n] == self.id) for n in range(config.ways)))
            m.d.sync += [self.hit.eq(match.any()), self.way.eq(way), self.key.eq(way_key)]
        # One bit of `match` is set at most.
        m.d.comb += way.eq(
            Cat(
                Cat(match[n] for n in range(config.ways) if n >> bit & 1).any() if config.ways > 1 << bit else 0
                for bit in range(max(1, ceil_log2(config.ways)))
            )
        )

        # The next place, from registers.
        full, first = Signal(), Signal.like(self.way)
        settled = Signal()
        m.d.sync += [full.eq(valid.all()), settled.eq(~self.write), first.eq(0)]
        for n in reversed(range(config.ways)):
            with m.If(~valid[n]):
                m.d.sync += first.eq(n)
        m.d.comb += [
            self.room.eq(settled & (~full | finder.valid)),
            self.place.eq(Mux(full, finder.way, first)),
            self.leaves.eq(full),
            self.leaver.eq(identities[self.place]),
        ]
        if config.policy == Policy.SIEVE:
            self._pass(m, keys, finder.hand)
        with m.If(self.write):
            m.d.sync += [
                valid.bit_select(self.write_way, 1).eq(self.write_valid),
                identities[self.write_way].eq(self.write_id),
                keys[self.write_way].eq(self.write_key),
            ]
        with m.If(self.flush):
            m.d.sync += [valid.eq(0), settled.eq(0)]
        m.d.sync += Cover(full & ~finder.valid, "the next to leave is not known yet")
        return m

    def _pass(self, m: Module, keys: Array[Signal], hand: Value) -> None:
        """When an entry leaves, count those that the hand has passed as not requested again, and move it behind."""
        at = Signal(hand.shape(), name="hand_at")
        leaver, ways = keys[self.write_way], [keys[n] for n in range(self.config.ways)]
        distances = [sieve_order(key, at)[: len(at)] for key in ways]
        behind = Signal.like(at)
        m.d.comb += [hand.eq(at), behind.eq((leaver[1:] - at)[: len(at)])]
        with m.If(self.write & self.evicts):
            m.d.sync += at.eq(leaver[1:] + 1)
            for key, distance in zip(ways, distances, strict=True):
                # If it has been requested again itself, the hand has been at all of them.
                with m.If(leaver[0] | (distance < behind)):
                    m.d.sync += key[0].eq(0)
        with m.If(self.flush):
            m.d.sync += at.eq(0)
