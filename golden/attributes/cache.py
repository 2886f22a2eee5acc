"""Attribute RAM step by step: buffer, ID table and cache, every hit, miss, swap and eviction (A3-A8).

A request names an ID and the target address at which the compute units want its attribute. Requests take effect one
after another, in order; the arrival time of data has no influence on hits, misses, swaps and evictions.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from contracts import Flow, Policy
from contracts.cache import HASH_FACTOR, KEY_BITS, LARGEST_LEAVES

__all__ = ["AttributeRam", "Counts", "Step", "by_processor", "hashed_slot", "replay"]


def hashed_slot(node: int, slots: int) -> int:
    """Target address of an ID in hashed mode: 16 hash bits scaled to the size of the buffer (A4)."""
    folded = (node ^ (node >> 16)) & 0xFFFF
    return (((folded * HASH_FACTOR) & 0xFFFF) * slots) >> 16


@dataclass(frozen=True)
class Step:
    """Effects of one request.

    Attributes
    ----------
    node, slot
        ID and target address.
    flow
        Kind of hit or miss.
    displaced
        ID displaced from the target address, or None.
    evicted
        ID evicted from the cache, or None.
    """

    node: int
    slot: int
    flow: Flow
    displaced: int | None = None
    evicted: int | None = None


@dataclass
class Counts:
    """Requests by flow."""

    flows: dict[Flow, int] = field(default_factory=lambda: dict.fromkeys(Flow, 0))

    @property
    def requests(self) -> int:
        """All requests."""
        return sum(self.flows.values())

    @property
    def misses(self) -> int:
        """Rows read from external memory."""
        return self.flows[Flow.MISSED]


class AttributeRam:
    """Buffer of `slots` entries, ID table, and cache of `ways` entries.

    Parameters
    ----------
    slots, ways
        Entries of the two levels; without ways, displaced rows are dropped.
    policy
        Replacement policy of the cache.
    nodes
        IDs from here on are refused.
    degree
        Degree of an ID, for `Policy.DEGREE`.

    Attributes
    ----------
    buffer, cache
        ID of every entry, None where there is none.
    counts : Counts
    """

    def __init__(
        self,
        slots: int,
        ways: int,
        policy: Policy = Policy.LRU,
        nodes: int = 1 << 32,
        degree: Callable[[int], int] = lambda node: 0,
    ) -> None:
        self.slots, self.ways, self.policy, self.nodes, self._degree = slots, ways, policy, nodes, degree
        self._limit = (1 << KEY_BITS[policy]) - 1
        self.clear()

    def clear(self) -> None:
        """Invalidate all entries."""
        self.buffer: list[int | None] = [None] * self.slots
        self.cache: list[int | None] = [None] * self.ways
        self.counts = Counts()
        self._slot_keys = [0] * self.slots
        self._way_keys = [0] * self.ways
        self._slot_of: dict[int, int] = {}
        self._way_of: dict[int, int] = {}
        self._requests = self._entries = 0
        self._hand = 0  # entry from which `Policy.SIEVE` looks

    def request(self, node: int, slot: int, fails: bool = False) -> Step:
        """Carry out a request.

        Parameters
        ----------
        node, slot
            ID and target address.
        fails
            Whether the memory answers a read of this attribute with an error: then the slot stays empty.
        """
        step = self._carry_out(node, slot, fails)
        self.counts.flows[step.flow] += 1
        return step

    def _carry_out(self, node: int, slot: int, fails: bool) -> Step:
        if node >= self.nodes:
            return Step(node, slot, Flow.REFUSED)
        stamp = self._requests & self._limit
        self._requests += 1
        resident = self.buffer[slot]
        if resident == node:
            self._slot_keys[slot] = self._touched(self._slot_keys[slot], stamp)
            return Step(node, slot, Flow.IN_PLACE)

        resident_key = self._slot_keys[slot]
        way = self._way_of.pop(node, None)
        if way is not None:
            key = self._touched(self._way_keys[way], stamp)
            self._put(slot, node, key)
            self._enter(way, resident, resident_key)
            return Step(node, slot, Flow.CACHED, resident)

        other = self._slot_of.get(node)
        if other is not None:
            key = self._touched(self._slot_keys[other], stamp)
            self._put(slot, node, key)
            self._put(other, resident, resident_key)
            return Step(node, slot, Flow.MOVED, resident)

        evicted = self._make_room(resident, resident_key) if resident is not None else None
        self._put(slot, node, self._first_key(node, stamp))
        if fails:
            self._slot_of.pop(node)
            self.buffer[slot] = None
        return Step(node, slot, Flow.MISSED, resident, evicted)

    def _put(self, slot: int, node: int | None, key: int) -> None:
        old = self.buffer[slot]
        if old is not None and self._slot_of.get(old) == slot:
            del self._slot_of[old]
        self.buffer[slot], self._slot_keys[slot] = node, key
        if node is not None:
            self._slot_of[node] = slot

    def _enter(self, way: int, node: int | None, key: int) -> None:
        self.cache[way] = node
        if node is not None:
            self._way_of[node] = way
            if self.policy in (Policy.FIFO, Policy.LIFO):
                key = self._entries & self._limit
            elif self.policy == Policy.SIEVE:
                key = (key & 1) | self._entries << 1 & self._limit
            self._entries += 1
            self._way_keys[way] = key

    def _make_room(self, node: int, key: int) -> int | None:
        """Put a displaced row into the cache; return the row that is evicted, which may be the same."""
        if not self.ways:
            return node
        evicted = None
        if None in self.cache:
            way = self.cache.index(None)
        else:
            way = self._victim()
            evicted = self.cache[way]
            assert evicted is not None
            del self._way_of[evicted]
        self._enter(way, node, key)
        return evicted

    def _victim(self) -> int:
        if self.policy == Policy.SIEVE:
            return self._sieved()
        worst = max if self.policy in LARGEST_LEAVES else min
        return self._way_keys.index(worst(self._way_keys))

    def _sieved(self) -> int:
        """Return the next way that was not requested again; from now on those before it count as such, too."""
        keys, numbers = self._way_keys, self._limit >> 1
        behind = [((key >> 1) - self._hand) & numbers for key in keys]
        # If all were, the search comes back to the first one.
        way = min(range(self.ways), key=lambda n: (keys[n] & 1, behind[n]))
        passed = [n for n in range(self.ways) if keys[way] & 1 or behind[n] < behind[way]]
        self._hand = (keys[way] >> 1) + 1 & numbers
        for n in passed:
            keys[n] &= ~1
        return way

    def _touched(self, key: int, stamp: int) -> int:
        if self.policy in (Policy.LRU, Policy.MRU):
            return stamp
        if self.policy == Policy.SIEVE:
            return key | 1
        return min(key + 1, self._limit) if self.policy == Policy.LFU else key

    def _first_key(self, node: int, stamp: int) -> int:
        if self.policy in (Policy.LRU, Policy.MRU):
            return stamp
        if self.policy == Policy.LFU:
            return 1
        return min(self._degree(node), self._limit) if self.policy == Policy.DEGREE else 0


def replay(ram: AttributeRam, requests: Iterable[tuple[int, int]], failing: Sequence[int] | range = ()) -> list[Step]:
    """Return the steps of (ID, target address) pairs; reads of the IDs in `failing` end in an error."""
    return [ram.request(node, slot, node in failing) for node, slot in requests]


def by_processor(requests: Iterable[tuple[int, int]], count: int) -> list[list[tuple[int, int]]]:
    """Return the (ID, target address) pairs of each of `count` attribute processors, in their order."""
    shares: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for node, slot in requests:
        # The lowest bits of an ID say whose it is.
        shares[node % count].append((node, slot))
    return shares
