"""Placement of a batch of small graphs: each lies on one chiplet, with the vertex that stands for it."""

import numpy as np

from golden.graph import Graph, IntArray
from golden.ring.placement import Placement

__all__ = ["graphs_apart"]


def graphs_apart(graph: Graph, chiplets: int) -> tuple[IntArray, Placement]:
    """Place whole small graphs, in their order, so that no row has to travel.

    Every chiplet gets as many vertices and edges as the others, as far as graphs allow; none if there are fewer graphs
    than chiplets.

    Parameters
    ----------
    graph
        A batch of small graphs.
    chiplets
        1 to 16.

    Returns
    -------
    position
        int64 [nodes], new VID of each vertex, for `Graph.relabelled`: a small graph's vertex stands behind its nodes.
    placement
        Placement of the new VIDs, without hubs.
    """
    heads = graph.graph_vertices
    number = np.full(graph.nodes, -1, dtype=np.int64)
    number[heads] = np.arange(heads.size)
    assert graph.graph_of is not None
    member = graph.graph_of >= 0
    group = np.where(member, number[graph.graph_of], number)
    order = np.lexsort((np.arange(graph.nodes), ~member, group))
    position = np.argsort(order)

    # A vertex costs its row and its edges; a small graph belongs where its middle falls.
    costs = np.bincount(group, graph.degrees + 1, heads.size)
    middle = np.cumsum(costs) - costs / 2
    owner = np.minimum((middle * chiplets / max(costs.sum(), 1)).astype(np.int64), chiplets - 1)
    sizes = np.bincount(group, minlength=heads.size)
    owned = np.bincount(owner, sizes, chiplets).astype(np.int64)
    return position, Placement.at(np.concatenate([[0], np.cumsum(owned)]))
