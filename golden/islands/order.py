"""The order of nodes that a locator finds, and what the adjacency looks like in it (I11)."""

from collections.abc import Iterable, Sequence

import numpy as np

from golden.graph import BoolArray, Graph, IntArray
from golden.islands.record import Record

__all__ = ["bands", "check_order", "outside", "reorder"]


def reorder(nodes: int, records: Iterable[Record]) -> tuple[IntArray, IntArray]:
    """Positions that show hubs as L shapes and communities along the diagonal, round by round.

    Every round first has its hubs, then its communities in the order they were found; the next round follows. A round's
    hubs then make an L around all that comes after them.

    Parameters
    ----------
    nodes
        Number of nodes.
    records
        Of a run, streams one after another.

    Returns
    -------
    tuple
        int64 [nodes]: position of every node; int64 [nodes]: the group it stands in, -1 for hubs.
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
    """Sizes of the L shapes that `reorder` makes: every round's number, its hubs, and the nodes of its communities."""
    sizes: dict[int, list[int]] = {}
    for record in records:
        if not record.part:
            sizes.setdefault(record.round_number, [0, 0])[not record.hub_edges] += record.nodes.size
    return [(number, hubs, others) for number, (hubs, others) in sorted(sizes.items())]


def outside(graph: Graph, group: IntArray) -> BoolArray:
    """Edges that are neither in the row or column of a hub nor within a community.

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


def check_order(graph: Graph, position: IntArray, group: IntArray) -> None:
    """Demand that the order is a permutation, communities are neighbours in it, and no edge is `outside`.

    Raises
    ------
    AssertionError
        Naming the first that differs.
    """
    assert np.array_equal(np.sort(position), np.arange(graph.nodes)), "the order is no permutation"
    wrong = np.flatnonzero(outside(graph, group))
    assert not wrong.size, f"edge {graph.edges[wrong[0]]} -> {graph.destinations[wrong[0]]} is in no L and no community"
    in_order = group[np.argsort(position)]
    starts = np.flatnonzero(np.diff(in_order, prepend=-2) != 0)
    named = in_order[starts][in_order[starts] >= 0]
    assert np.unique(named).size == named.size, "a community is torn"
