"""Golden caches against a model written another way, Belady against exhaustive search, orders against the graph."""

from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import Flow, Policy
from golden.attributes.belady import belady_misses
from golden.attributes.cache import AttributeRam, hashed_slot, replay
from golden.attributes.clairvoyant import ClairvoyantRam, replay_clairvoyant
from golden.attributes.orders import ORDERS, hub_communities, small_world
from golden.attributes.planner import SlotPlanner

SLOTS, WAYS, NODES = 4, 3, 12


class Plain:
    """The rules of A7 and A8 word for word: two dictionaries, and what happened to each ID since it was fetched."""

    def __init__(self, policy: Policy, degrees: list[int]) -> None:
        self.policy, self.degrees = policy, degrees
        self.buffer: dict[int, int] = {}  # slot: ID
        self.cache: dict[int, int] = {}  # way: ID
        self.uses: dict[int, list[int]] = {}
        self.entered: dict[int, int] = {}
        self.again = set[int]()  # requested again since they were fetched or passed over
        self.order, self.hand = list[int](), 0  # what is in the cache, oldest first, and where a search begins
        self.time = 0

    def _sieved(self) -> int:
        """Search on, one entry after another; return the way that leaves."""
        while True:
            self.hand %= len(self.order)
            node = self.order[self.hand]
            if node not in self.again:
                return next(way for way, other in self.cache.items() if other == node)
            self.again.remove(node)
            self.hand += 1

    def _leave(self, node: int) -> None:
        place = self.order.index(node)
        self.order.pop(place)
        self.hand -= place < self.hand

    def _enter(self, way: int, node: int) -> None:
        self.cache[way] = node
        self.entered[node] = self.time
        self.order.append(node)

    def _value(self, way: int) -> Any:
        node = self.cache[way]
        value = {
            Policy.DEGREE: self.degrees[node],
            Policy.LRU: self.uses[node][-1],
            Policy.MRU: -self.uses[node][-1],
            Policy.LFU: len(self.uses[node]),
            Policy.FIFO: self.entered[node],
            Policy.LIFO: -self.entered[node],
        }[self.policy]
        return value, way

    def _victim(self) -> int:
        return self._sieved() if self.policy == Policy.SIEVE else min(self.cache, key=self._value)

    def request(self, node: int, slot: int) -> tuple[Flow, int | None, int | None]:
        """Return what was met, what had to move, and what left."""
        self.time += 1
        resident, evicted = self.buffer.get(slot), None
        if resident == node:
            self.uses[node].append(self.time)
            self.again.add(node)
            return Flow.IN_PLACE, None, None
        if node in self.cache.values():
            flow, way = Flow.CACHED, next(w for w, other in self.cache.items() if other == node)
            del self.cache[way]
            self._leave(node)
            if resident is not None:
                self._enter(way, resident)
        elif node in self.buffer.values():
            flow, other = Flow.MOVED, next(s for s, there in self.buffer.items() if there == node)
            del self.buffer[other]
            if resident is not None:
                self.buffer[other] = resident
        else:
            flow = Flow.MISSED
            if resident is not None:
                free = [way for way in range(WAYS) if way not in self.cache]
                way = free[0] if free else self._victim()
                evicted = self.cache.get(way)
                if evicted is not None:
                    self._leave(evicted)
                self._enter(way, resident)
            self.uses[node] = []
        self.uses[node].append(self.time)
        (self.again.discard if flow == Flow.MISSED else self.again.add)(node)
        self.buffer[slot] = node
        return flow, resident, evicted


REQUESTS = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, SLOTS - 1)), max_size=120)


@pytest.mark.parametrize("policy", list(Policy), ids=lambda policy: policy.name.lower())
@settings(deadline=None, max_examples=60)
@given(requests=REQUESTS)
def test_steps_follow_the_rules(policy: Policy, requests: list[tuple[int, int]]) -> None:
    degrees = [7 * node % 5 for node in range(NODES)]
    ram, plain = AttributeRam(SLOTS, WAYS, policy, degree=degrees.__getitem__), Plain(policy, degrees)
    for node, slot in requests:
        step = ram.request(node, slot)
        assert (step.flow, step.displaced, step.evicted) == plain.request(node, slot)
        present = [held for held in (*ram.buffer, *ram.cache) if held is not None]
        assert len(set(present)) == len(present)
    assert ram.counts.requests == len(requests)


@settings(deadline=None, max_examples=60)
@given(requests=REQUESTS, failing=st.sets(st.integers(0, NODES - 1), max_size=4))
def test_what_fails_is_never_there(requests: list[tuple[int, int]], failing: set[int]) -> None:
    ram = AttributeRam(SLOTS, WAYS)
    for node, slot in requests:
        step = ram.request(node, slot, node in failing)
        assert node not in failing or step.flow == Flow.MISSED
        assert not failing & {held for held in (*ram.buffer, *ram.cache) if held is not None}


def test_ids_outside_the_graph_change_nothing() -> None:
    ram = AttributeRam(SLOTS, WAYS, nodes=5)
    ram.request(3, 1)
    assert ram.request(5, 1).flow == Flow.REFUSED
    assert ram.buffer[1] == 3


def fewest(trace: tuple[int, ...], entries: int) -> int:
    """Fewest misses of any choices, by trying all of them."""

    @cache
    def best(at: int, held: frozenset[int]) -> int:
        if at == len(trace):
            return 0
        node = trace[at]
        if node in held:
            return best(at + 1, held)
        if len(held) < entries:
            return 1 + best(at + 1, held | {node})
        return 1 + min(best(at + 1, held - {victim} | {node}) for victim in held)

    return best(0, frozenset())


@settings(deadline=None, max_examples=80)
@given(trace=st.lists(st.integers(0, 6), max_size=16), entries=st.integers(1, 4))
def test_belady_is_the_optimum(trace: list[int], entries: int) -> None:
    assert belady_misses(trace, entries) == fewest(tuple(trace), entries)


def test_belady_refuses_no_entries() -> None:
    with pytest.raises(ValueError, match="entries"):
        belady_misses([1], 0)


def test_policies_lie_between_belady_and_no_cache() -> None:
    rng = np.random.default_rng(0)
    trace = (rng.geometric(0.05, 3000) - 1).tolist()
    requests = [(node, hashed_slot(node, 20)) for node in trace]
    least = belady_misses(trace, 26)
    clairvoyant = ClairvoyantRam(20, 6)
    replay_clairvoyant(clairvoyant, requests)
    assert least <= clairvoyant.counts.misses
    for policy in Policy:
        ram = AttributeRam(20, 6, policy, degree=lambda node: 1000 - node)
        replay(ram, requests)
        assert clairvoyant.counts.misses <= ram.counts.misses < len(trace)


def test_plans_lie_between_belady_and_a_hash() -> None:
    """The more requests are known, the fewer rows are fetched."""
    rng = np.random.default_rng(0)
    trace = (rng.geometric(0.02, 6000) - 1).tolist()
    hashed = AttributeRam(40, 4, Policy.LRU)
    replay(hashed, [(node, hashed_slot(node, 40)) for node in trace])
    least, before = belady_misses(trace, 44), hashed.counts.misses
    for depth in (128, 512, 2048):
        planned = AttributeRam(40, 4, Policy.LRU)
        replay(planned, list(zip(trace, SlotPlanner(40, depth).plan(trace), strict=True)))
        assert least <= planned.counts.misses < before
        before = planned.counts.misses
    assert before < 1.2 * least


def test_hashed_slots_spread() -> None:
    slots = [hashed_slot(node, 200) for node in range(20_000)]
    assert min(slots) == 0
    assert max(slots) == 199
    assert np.bincount(slots).max() < 2 * 100


@pytest.mark.parametrize("name", list(ORDERS))
def test_orders_are_permutations(name: str) -> None:
    graph, planted = hub_communities()
    order = ORDERS[name](graph)
    assert sorted(order.tolist()) == list(range(graph.nodes)) == sorted(planted.tolist())


def test_graphs_of_the_benchmark() -> None:
    graph, planted = hub_communities()
    assert graph.nodes == 2050
    made = nx.from_scipy_sparse_array(graph.adjacency)
    hubs = set(planted[40::41].tolist())
    made.remove_nodes_from(hubs)
    # Without the hubs, communities are not joined.
    assert max(map(len, nx.connected_components(made))) <= 40
    assert small_world().edge_count == 2050 * 10
