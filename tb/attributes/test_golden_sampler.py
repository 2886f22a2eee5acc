"""Golden sampler against networkx neighbourhoods and the statistics of uniform choice."""

from collections import Counter
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from contracts.errors import InputError
from contracts.sampling import TAPS, leap_masks
from golden.attributes.lfsr import Generator, mix
from golden.attributes.sampler import Plan, sample
from golden.datasets import load


@pytest.fixture(scope="module")
def karate() -> tuple[object, nx.Graph]:
    graph = load("karate")
    other = nx.Graph()
    other.add_nodes_from(range(graph.nodes))
    other.add_edges_from((int(u), int(v)) for v in range(graph.nodes)
                         for u in graph.edges[graph.offsets[v] : graph.offsets[v + 1]])  # fmt: skip
    return graph, other


def test_samples_are_different_neighbours(karate) -> None:  # type: ignore[no-untyped-def]
    graph, other = karate
    plan = Plan((4, 3, 2), seed=9)
    batch = sample(graph, range(graph.nodes), plan, batch=2)
    for position in range(sum(batch.hops[:-1])):
        mine = [int(batch.nodes[p]) for p in range(batch.positives) if batch.parents[p] == position]
        node = int(batch.nodes[position])
        hop = int(np.searchsorted(np.cumsum(batch.hops), position, side="right"))
        assert len(set(mine)) == len(mine) == min(plan.fan_out[hop], other.degree(node))
        assert set(mine) <= set(other.neighbors(node))
    reach = nx.single_source_shortest_path_length(other, 0, cutoff=3)
    assert set(sample(graph, [0], plan).nodes.tolist()) <= set(reach)


def test_a_large_fan_out_takes_the_whole_neighbourhood(karate) -> None:  # type: ignore[no-untyped-def]
    graph, other = karate
    batch = sample(graph, [33], Plan((100,)))
    assert sorted(batch.nodes[1:].tolist()) == sorted(other.neighbors(33))
    assert batch.draws == 0


def test_negatives_are_not_joined_to_their_root(karate) -> None:  # type: ignore[no-untyped-def]
    graph, other = karate
    for root in range(graph.nodes):
        batch = sample(graph, [root], Plan((), negatives=12, seed=root))
        rest = set(other) - set(other.neighbors(root)) - {root}
        drawn = batch.nodes[1:].tolist()
        assert set(drawn) <= rest
        assert len(set(drawn)) == len(drawn) == min(12, len(rest))
    counts = Counter(int(n) for seed in range(3000) for n in sample(graph, [5], Plan((), 3, seed)).nodes[1:])
    rest = set(other) - set(other.neighbors(5)) - {5}
    assert set(counts) == rest
    assert _chi_square(list(counts.values())) < 3


def _chi_square(counts: list[int]) -> float:
    """Chi-square by its degrees of freedom."""
    mean = sum(counts) / len(counts)
    return sum((count - mean) ** 2 / mean for count in counts) / (len(counts) - 1)


def test_every_subset_is_equally_likely_for_neighbouring_states() -> None:
    subsets = Counter(
        tuple(sorted(Generator((seed, batch, root, hop, node)).choose(6, 3)))
        for seed in (0, 1) for batch in range(8) for root in range(50) for hop in (1, 2) for node in range(25)
    )  # fmt: skip
    assert set(subsets) == set(combinations(range(6), 3))
    assert _chi_square(list(subsets.values())) < 2


def test_neighbouring_requests_are_not_alike() -> None:
    pairs = Counter(
        (Generator((1, 0, root, 1, root)).below(8), Generator((1, 0, root + 1, 1, root + 1)).below(8))
        for root in range(40_000)
    )
    assert len(pairs) == 64
    assert _chi_square(list(pairs.values())) < 2
    flips = [(mix((3, 1, 7, 1, 9)) ^ mix((3, 1, 7, 1, 9 ^ 1 << bit))).bit_count() for bit in range(32)]
    assert min(flips) > 4
    assert 13 < np.mean(flips) < 19


def test_the_register_has_the_full_period() -> None:
    """Raise x to 2^32 - 1 and its divisors in GF(2)[x]/polynomial, by squaring the step's matrix."""
    step = np.zeros((32, 32), dtype=np.uint8)
    for bit in range(32):
        after = ((1 << bit) >> 1) ^ (TAPS if bit == 0 else 0)
        step[:, bit] = [after >> row & 1 for row in range(32)]

    def power(exponent: int) -> np.ndarray:
        result, square = np.eye(32, dtype=np.uint8), step
        while exponent:
            if exponent & 1:
                result = result @ square % 2
            square, exponent = square @ square % 2, exponent >> 1
        return result

    order = (1 << 32) - 1
    assert np.array_equal(power(order), np.eye(32, dtype=np.uint8))
    for prime in (3, 5, 17, 257, 65537):
        assert not np.array_equal(power(order // prime), np.eye(32, dtype=np.uint8))
    leap = power(32)
    assert leap_masks() == [sum(int(leap[row, bit]) << bit for bit in range(32)) for row in range(32)]


def test_plans_out_of_range_are_refused(karate) -> None:  # type: ignore[no-untyped-def]
    for fan_out in ((0,), (256,), (1,) * 5):
        with pytest.raises(InputError, match="fan-out"):
            Plan(fan_out)
    with pytest.raises(InputError, match="negatives"):
        Plan((1,), negatives=256)
    with pytest.raises(InputError, match="root"):
        sample(karate[0], [34], Plan((1,)))
