"""Link prediction on mini-batches: which pairs a sample gives, and how they rank, by hand and by the definitions."""

from typing import Any

import numpy as np
import pytest

from golden.attributes.links import Pairs, Ranking, ranking, scores
from golden.attributes.sampler import Batch, Plan, sample
from golden.datasets import load


def pairs(positive: Any, negative: Any, owner: Any) -> Pairs:
    return Pairs(*(np.array(rows, dtype=np.int64) for rows in (positive, negative, owner)))


def test_a_root_is_paired_with_its_first_neighbour_and_its_negatives() -> None:
    """By hand: roots 10 to 13, of which 12 has no negative and 13 no neighbour."""
    batch = Batch(
        nodes=np.array([10, 11, 12, 13, 20, 21, 22, 23, 40, 41, 30, 31, 32, 33]),
        parents=np.array([-1, -1, -1, -1, 0, 0, 1, 2, 4, 6, 0, 0, 1, 3]),
        along=np.array([-1] * 4 + [9, 8, 7, 6, 5, 4] + [-1] * 4),
        hops=(4, 4, 2),
        negatives=4,
        draws=0,
    )
    found = Pairs.of([batch])
    assert found.positive.tolist() == [[10, 20], [11, 22]]
    assert found.negative.tolist() == [[10, 30], [10, 31], [11, 32]]
    assert found.owner.tolist() == [0, 0, 1]
    assert found.nodes.tolist() == [10, 11, 20, 22, 30, 31, 32]
    twice = Pairs.of([batch, batch])
    assert twice.owner.tolist() == [0, 0, 1, 2, 2, 3]
    assert np.array_equal(twice.nodes, found.nodes)


def test_positive_pairs_are_edges_and_negative_ones_are_not() -> None:
    graph = load("karate")
    edges = set(zip(graph.edges.tolist(), graph.destinations.tolist(), strict=True))
    roots = np.array([33, 0, 5, 5])
    batch = sample(graph, roots, Plan((3, 2), 20, seed=4))
    found = Pairs.of([batch])
    assert found.positive[:, 0].tolist() == roots.tolist()
    assert {(v, u) for u, v in found.positive.tolist()} <= edges
    assert not {(v, u) for u, v in found.negative.tolist()} & edges
    assert np.array_equal(found.negative[:, 0], roots[found.owner])
    # Fewer than 20 nodes are not joined to the last and the first node.
    assert np.bincount(found.owner).tolist() == [16, 17, 20, 20]


def test_scores_rank_by_hand() -> None:
    """Positive scores 3 and 4 beside negative ones 5, 3, 1 and 1: an equal one shares its rank."""
    rows = np.array([[1, 0], [3, 7], [5, 7], [3, 0], [1, -7], [0, 1], [9, 4], [9, 1]], dtype=np.int16)
    found = pairs([[0, 1], [5, 6]], [[0, 2], [0, 3], [0, 4], [5, 7]], [0, 0, 0, 1])
    assert scores(found.positive, rows).tolist() == [3, 4]
    assert scores(found.negative, rows).tolist() == [5, 3, 1, 1]
    for embeddings in (rows, rows.astype(np.float64) / 8):
        expected = Ranking(auc=5.5 / 8, mrr=(1 / 2.5 + 1) / 2, hits1=0.5, hits3=1.0)
        assert ranking(found, embeddings) == pytest.approx(expected)
    # Where all scores are equal, nothing is told apart.
    assert ranking(found, np.zeros((8, 2))) == pytest.approx(Ranking(0.5, (1 / 2.5 + 1 / 1.5) / 2, 0.0, 1.0))


def test_products_of_the_largest_integers_are_exact() -> None:
    rows = np.full((3, 1000), -(1 << 15), dtype=np.int16)
    rows[2, 0] += 1
    found = scores(np.array([[0, 1], [0, 2]]), rows)
    assert found.dtype == np.int64
    assert found.tolist() == [1000 << 30, (1000 << 30) - (1 << 15)]


def test_without_pairs_nothing_is_ranked() -> None:
    nothing = Pairs.of([])
    assert nothing.nodes.size == 0
    assert ranking(nothing, np.ones((3, 2))) == Ranking(None, None, None, None)


@pytest.mark.parametrize("seed", range(5))
def test_figures_agree_with_their_definitions(seed: int) -> None:
    """Small integers, so that many scores are equal; every pair is compared with every other one."""
    graph, rng = load("karate"), np.random.default_rng(seed)
    found = Pairs.of([sample(graph, rng.integers(0, 34, 9), Plan((2,), 7, seed), number) for number in range(3)])
    rows = rng.integers(-2, 3, (34, 3)).astype(np.int16)

    def score(pair: list[int]) -> int:
        return sum(int(a) * int(b) for a, b in zip(*rows[pair], strict=True))

    true, false = map(score, found.positive.tolist()), list(map(score, found.negative.tolist()))
    wins, ranks = 0.0, []
    for number, own in enumerate(true):
        wins += sum((own > other) + (own == other) / 2 for other in false)
        mine = [other for other, owner in zip(false, found.owner, strict=True) if owner == number]
        places = [1 + sum(other > own for other in mine) + ties for ties in range(mine.count(own) + 1)]
        ranks.append(sum(places) / len(places))
    expected = Ranking(
        wins / len(ranks) / len(false),
        sum(1 / rank for rank in ranks) / len(ranks),
        sum(rank <= 1 for rank in ranks) / len(ranks),
        sum(rank <= 3 for rank in ranks) / len(ranks),
    )
    assert ranking(found, rows) == pytest.approx(expected)
