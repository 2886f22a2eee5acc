"""Canonical arrays of a graph: rows of sources in ascending order, float32 features and weights."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

__all__ = ["BoolArray", "FloatWeights", "IntArray", "Rows", "canonical_features", "canonical_rows"]

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatWeights = npt.NDArray[np.float32]


class Rows(NamedTuple):
    """Canonical CSR rows, one a destination.

    Attributes
    ----------
    offsets
        int64 [nodes + 1], first edge of every row.
    edges
        int64 [edges], sources: ascending in a row, without duplicates and without the destination itself.
    weights
        float32 [edges] or [edges, columns], or None.
    """

    offsets: IntArray
    edges: IntArray
    weights: FloatWeights | None


def canonical_rows(
    nodes: int, sources: IntArray, destinations: IntArray, weights: npt.NDArray[Any] | None = None
) -> Rows:
    """Sort edges into rows, without self loops and duplicates; weights of duplicates are added.

    Parameters
    ----------
    nodes
        Number of nodes.
    sources, destinations
        int64 [edges] each, VIDs.
    weights
        Numbers [edges] or [edges, columns], or None. A sum that overflows becomes infinite.
    """
    keep = sources != destinations
    keys = destinations[keep] * max(nodes, 1) + sources[keep]
    added = None
    if weights is None:
        keys = np.unique(keys)
    else:
        keys, place = np.unique(keys, return_inverse=True)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.zeros((keys.size, *weights.shape[1:]))
            np.add.at(sums, place, weights[keep].astype(np.float64))
            added = sums.astype(np.float32)
    rows, edges = np.divmod(keys, max(nodes, 1))
    offsets = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=nodes), out=offsets[1:])
    return Rows(offsets, edges.astype(np.int64), added)


def canonical_features(values: Any) -> Any:
    """float32 features, dense or a canonical ``csr_array``; one that overflows becomes infinite."""
    with np.errstate(over="ignore"):
        if not sparse.issparse(values):
            return np.asarray(values).astype(np.float32)
        rows = sparse.csr_array(values).astype(np.float32)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows
