"""Link prediction on mini-batches: pairs of nodes from samples, their scores, and the ranks of joined pairs (A2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from golden.attributes.sampler import Batch
from golden.graph import IntArray

__all__ = ["Pairs", "Ranking", "ranking", "scores"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of nodes: for each root one that an edge joins, beside several that none joins.

    Attributes
    ----------
    positive
        int64 [pairs, 2], VIDs of a root and of the first neighbour that the first hop has sampled for it.
    negative
        int64 [negatives, 2], VIDs of a root and of a node that is not joined to it.
    owner
        int64 [negatives], ascending: row of `positive` with the same root.
    """

    positive: IntArray
    negative: IntArray
    owner: IntArray

    @classmethod
    def of(cls, batches: Sequence[Batch]) -> Self:
        """Return the pairs of all roots of sampled batches.

        A root has pairs only if it has both a neighbour and a negative: nothing could be ranked otherwise.
        """
        positive: list[tuple[int, int]] = []
        negative: list[tuple[int, int]] = []
        owner: list[int] = []
        for batch in batches:
            roots, hop = batch.hops[0], slice(batch.hops[0], sum(batch.hops[:2]))
            neighbours, drawn = batch.nodes[hop], batch.nodes[batch.positives :]
            for position, root in enumerate(batch.nodes[:roots].tolist()):
                joined = neighbours[batch.parents[hop] == position]
                others = drawn[batch.parents[batch.positives :] == position]
                if joined.size and others.size:
                    owner += [len(positive)] * others.size
                    positive.append((root, int(joined[0])))
                    negative += [(root, other) for other in others.tolist()]
        joined_rows, other_rows = (np.array(found, np.int64).reshape(-1, 2) for found in (positive, negative))
        return cls(joined_rows, other_rows, np.array(owner, dtype=np.int64))

    @property
    def nodes(self) -> IntArray:
        """int64, VIDs of all nodes of pairs, ascending, each once."""
        return np.unique(np.concatenate([self.positive.ravel(), self.negative.ravel()]))


class Ranking(NamedTuple):
    """How well scores tell positive pairs from negative ones; all figures are 0 to 1, None without pairs.

    Attributes
    ----------
    auc
        Probability that a positive pair has a larger score than a negative one of any root; equal scores count half.
    mrr
        Mean of 1 / rank of each positive pair among the negatives of its root; rank 1 is the largest score, and equal
        scores share the mean of their ranks.
    hits1, hits3
        Share of positive pairs whose rank is at most 1, and at most 3.
    """

    auc: float | None = None
    mrr: float | None = None
    hits1: float | None = None
    hits3: float | None = None


def scores(pairs: IntArray, embeddings: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return the inner product of the embeddings of each pair.

    Parameters
    ----------
    pairs
        int64 [pairs, 2], VIDs.
    embeddings
        [nodes, width], by VID: float64, or int16, of which products and sums are exact.

    Returns
    -------
    NDArray
        float64 or int64 [pairs].
    """
    wide = np.int64 if np.issubdtype(embeddings.dtype, np.integer) else np.float64
    first, second = (embeddings[side].astype(wide) for side in pairs.T)
    found: npt.NDArray[np.generic] = np.einsum("ij,ij->i", first, second)
    return found


def ranking(pairs: Pairs, embeddings: npt.NDArray[np.generic]) -> Ranking:
    """Rank each positive pair among the negatives of its root by the scores of these embeddings.

    Parameters
    ----------
    pairs, embeddings
        As for `scores`; rows of nodes in no pair do not matter.
    """
    from sklearn.metrics import roc_auc_score  # takes a second to import

    if not len(pairs.positive):
        return Ranking()
    true, false = scores(pairs.positive, embeddings), scores(pairs.negative, embeddings)
    first = np.searchsorted(pairs.owner, np.arange(1, true.size))
    ranks = np.array([
        rankdata(-np.append(own, others), method="average")[0]
        for own, others in zip(true, np.split(false, first), strict=True)
    ])  # fmt: skip
    labels = np.repeat([1, 0], [true.size, false.size])
    return Ranking(
        auc=float(roc_auc_score(labels, np.concatenate([true, false]))),
        mrr=float(np.mean(1 / ranks)),
        hits1=float(np.mean(ranks <= 1)),
        hits3=float(np.mean(ranks <= 3)),
    )
