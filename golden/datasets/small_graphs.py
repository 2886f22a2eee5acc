"""Batches of small graphs as one graph: every small graph gets a graph vertex behind all nodes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from golden.graph import BoolArray, Graph, IntArray

__all__ = ["batch_of"]


def batch_of(
    name: str,
    graph_of: IntArray,
    sources: npt.ArrayLike,
    destinations: npt.ArrayLike,
    features: Any,
    labels: IntArray,
    masks: Sequence[BoolArray | None],
    *,
    classes: int | None = None,
    symmetrise: bool = False,
    edge_weight: npt.ArrayLike | None = None,
    edge_attributes: npt.ArrayLike | None = None,
) -> Graph:
    """Return a graph of nodes of small graphs, and behind them a graph vertex for each.

    Parameters
    ----------
    name
        Of the batch.
    graph_of
        int64 [nodes], number of each node's small graph; each number from 0 on occurs.
    sources, destinations, edge_weight, edge_attributes, symmetrise
        As for `Graph.from_edges`.
    features
        [nodes, f], dense or sparse.
    labels, classes
        int64 [graphs], class of every small graph or -1; number of classes.
    masks
        Training, validation and test, bool [graphs] each; None: empty.

    Raises
    ------
    InputError
        As for `Graph`.
    """
    nodes, graphs = graph_of.size, labels.size
    below = np.zeros((graphs, features.shape[1]), dtype=features.dtype)
    behind = [None if mask is None else np.concatenate([np.zeros(nodes, np.bool_), mask]) for mask in masks]
    if sparse.issparse(features):
        rows = sparse.vstack([features, sparse.csr_array(below)], format="csr")
    else:
        rows = np.concatenate([features, below])
    return Graph.from_edges(
        name,
        nodes + graphs,
        sources,
        destinations,
        features=rows,
        labels=np.concatenate([np.full(nodes, -1), labels]),
        classes=classes,
        train=behind[0],
        validation=behind[1],
        test=behind[2],
        symmetrise=symmetrise,
        edge_weight=edge_weight,
        edge_attributes=edge_attributes,
        graph_of=np.concatenate([nodes + graph_of, np.full(graphs, -1)]),
    )
