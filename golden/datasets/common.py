"""Common parts of loaders: split, labels by communities, compact features."""

from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy import sparse

from contracts.errors import InputError
from golden.graph import BoolArray, IntArray
from golden.model.layer import FEATURES_MAX

__all__ = ["CLASSES_MAX", "SPARSE_BELOW", "check_counts", "community_labels", "compact", "stratified_split"]

#: Most classes: a layer's results are counted in 16 bits.
CLASSES_MAX = (1 << 16) - 1
#: Features with a smaller fraction of non-zeros are kept sparse: an entry takes twice the bytes of a dense value.
SPARSE_BELOW = 0.5


def check_counts(where: object, nodes: int, features: int) -> None:
    """Refuse a graph without nodes or features, or with more features than a layer can take.

    Raises
    ------
    InputError
        Naming the number.
    """
    if nodes < 1:
        raise InputError(where, "has no nodes", "at least one")
    if not 1 <= features <= FEATURES_MAX:
        raise InputError(where, f"has {features:,} features", f"1..{FEATURES_MAX:,}")


def stratified_split(labels: IntArray, seed: int = 0) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Training, validation and test masks: 60, 20 and 20 % of every class, drawn by a seed.

    Fractions are rounded within a class: of two nodes, one is for training and one for test; a single one is for
    training. Nodes of unknown class (-1) are in no part.

    Parameters
    ----------
    labels
        int64 [nodes].
    seed
        Of ``numpy.random.default_rng``.
    """
    rng = np.random.default_rng(seed)
    part = np.full(labels.size, -1)
    for label in np.unique(labels[labels >= 0]):
        members = rng.permutation(np.flatnonzero(labels == label))
        # In fifths: exact, where 0.6 * n is not.
        first, second = (members.size * 3 + 2) // 5, (members.size * 4 + 1) // 5
        part[members[:first]], part[members[first:second]], part[members[second:]] = 0, 1, 2
    return part == 0, part == 1, part == 2


def community_labels(graph: Any) -> IntArray:
    """int64 [nodes], communities of greatest modularity (greedy), numbered by their lowest node.

    Parameters
    ----------
    graph
        networkx graph with nodes 0..n-1; weights are ignored.
    """
    if graph.number_of_edges() == 0:
        return np.zeros(graph.number_of_nodes(), dtype=np.int64)
    labels = np.zeros(graph.number_of_nodes(), dtype=np.int64)
    groups = nx.community.greedy_modularity_communities(graph, weight=None)
    for number, group in enumerate(sorted(groups, key=min)):
        labels[list(group)] = number
    return labels


def compact(features: npt.NDArray[Any]) -> Any:
    """Features as float32, dense, or a ``csr_array`` if fewer than half of them are not zero.

    Parameters
    ----------
    features
        Numbers of any type [nodes, f]; those that overflow become infinite.
    """
    with np.errstate(over="ignore"):
        values = features.astype(np.float32)
    if values.size and np.count_nonzero(values) < SPARSE_BELOW * values.size:
        return sparse.csr_array(values)
    return values
