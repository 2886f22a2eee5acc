"""The order of nodes that a locator finds, and the form of the adjacency in it (I11)."""

from collections.abc import Iterable, Sequence

import numpy as np

from golden.graph import BoolArray, Graph, IntArray
from golden.locator.record import Record

__all__ = ["bands", "check_order", "outside", "reorder"]


def reorder(nodes: int, records: Iterable[Record]) -> tuple[IntArray, IntArray]:
    """Positions that show hubs as L shapes and communities along the diagonal, round by round.

    Each round has its hubs first, then its communities in the order of detection. A round's hubs form an L around
    everything behind them.

    Parameters
    ----------
    nodes
        Number of nodes.
    records
        Records of a run, stream after stream.

    Returns
    -------
    tuple
        int64 [nodes]: position of every node; int64 [nodes]: its group, -1 for hubs.
    """
    hubs: dict[int, list[int]] = {}
    communities: dict[int, list[list[int]]] = {}
    for record in records:
        if record.part:
            continue
        members = [int(node) for node in record.nodes]
        if record.hub_edges:
            hubs.setdefault(record.round_number, []).extend(members)
        else:
            communities.setdefault(record.round_number, []).append(members)
    position, group = np.full(nodes, -1, dtype=np.int64), np.full(nodes, -1, dtype=np.int64)
    at, number = 0, 0
    for round_number in sorted(hubs.keys() | communities.keys()):
        found: Sequence[list[int]] = communities.get(round_number, [])
        for members, is_hub in [(hubs.get(round_number, []), True), *((members, False) for members in found)]:
            position[members] = np.arange(at, at + len(members))
            at += len(members)
            if not is_hub:
                group[members] = number
                number += 1
    return position, group


def bands(records: Iterable[Record]) -> list[tuple[int, int, int]]:
    """Return the sizes of the L shapes of `reorder`: each round's number, hubs, and nodes in communities."""
    sizes: dict[int, list[int]] = {}
    for record in records:
        if not record.part:
            sizes.setdefault(record.round_number, [0, 0])[not record.hub_edges] += record.nodes.size
    return [(number, hubs, others) for number, (hubs, others) in sorted(sizes.items())]


def outside(graph: Graph, group: IntArray) -> BoolArray:
    """Mark the edges that are neither in the row or column of a hub nor within a community.

    Parameters
    ----------
    graph
        The graph.
    group
        As `reorder` returns it.

    Returns
    -------
    numpy.ndarray
        bool [edges].
    """
    source, destination = group[graph.edges], group[graph.destinations]
    result: BoolArray = (source != -1) & (destination != -1) & (source != destination)
    return result


def check_order(graph: Graph, records: Sequence[Record], position: IntArray | None = None) -> None:
    """Check for every round that the adjacency in an order has the form that the source shows (I11).

    The vertices left before a round form a square. Its first rows and columns, an L, are those of the round's hubs;
    then come the round's communities, each a block on the diagonal, and then the rest. Every non-zero of the square
    lies in the L, in a block, or in the rest.

    Parameters
    ----------
    graph
        Symmetric.
    records
        Records of all hubs and communities.
    position
        int64 [nodes], position of every node; default: that of :func:`reorder`.

    Raises
    ------
    AssertionError
        Naming the round and the first edge outside.
    """
    usual, group = reorder(graph.nodes, records)
    position = usual if position is None else position
    assert np.array_equal(np.sort(position), np.arange(graph.nodes)), "the order is no permutation"
    rounds = _rounds(graph.nodes, records)
    order = np.argsort(position)
    # The same adjacency, in positions.
    row, column = position[graph.destinations], position[graph.edges]
    first = np.minimum(row, column)
    begin = 0
    for number in sorted(set(rounds.tolist())):
        members = np.flatnonzero(rounds[order] == number)
        end = begin + members.size
        assert np.array_equal(members, np.arange(begin, end)), f"round {number} is torn"
        groups = group[order[begin:end]]
        hubs = int((groups < 0).sum())
        assert (groups[:hubs] < 0).all(), f"round {number}: its hubs are no band"
        starts = np.flatnonzero(np.diff(groups[hubs:], prepend=-1))
        assert np.unique(groups[hubs:]).size == starts.size, f"round {number}: a community is torn"
        # Non-zeros of the square in rows or columns of this round, except those of the L.
        here = np.flatnonzero((first >= begin + hubs) & (first < end))
        wrong = here[group[order[row[here]]] != group[order[column[here]]]]
        ends = [f"{graph.edges[at]} -> {graph.destinations[at]}" for at in wrong[:1]]
        assert not ends, f"round {number}: edge {ends[0]} is in no L and no community"
        begin = end


def _rounds(nodes: int, records: Iterable[Record]) -> IntArray:
    """Return the round in which each node was identified, int64 [nodes]."""
    rounds = np.full(nodes, -1, dtype=np.int64)
    for record in records:
        rounds[record.nodes] = record.round_number
    return rounds
