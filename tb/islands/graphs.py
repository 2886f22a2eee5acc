"""Graphs that the benches of the locator share."""

import numpy as np

from golden.graph import Graph

__all__ = ["GRAPHS", "many_hubs"]

#: Graphs of every kind the locator has to manage, by what a data set is named; none has more than 256 nodes.
GRAPHS = (
    "karate",
    "synthetic:star,nodes=40",
    "synthetic:clique,nodes=12",
    "synthetic:path,nodes=50",
    "synthetic:grid,nodes=100",
    "synthetic:empty,nodes=9",
    "synthetic:power-law,nodes=200,degree=4",
    "synthetic:community,nodes=240,degree=5,classes=30,mixing=0.05",
    "synthetic:erdos,nodes=120,degree=2",
)


def many_hubs(nodes: int = 14, hubs_each: int = 5) -> Graph:
    """Return a path of `nodes`, each joined to `hubs_each` hubs of its own, which form a ring of neighbourhoods.

    Nodes of the path have a degree of at most ``hubs_each + 2``, hubs of 9: with a threshold of 7 and 14 nodes the
    path is a community that touches 70 hubs.
    """
    hubs = nodes * hubs_each
    edges = [(hub, (hub + step) % hubs) for hub in range(hubs) for step in range(1, 5)]
    edges += [(hub, hubs + hub // hubs_each) for hub in range(hubs)]
    edges += [(hubs + node, hubs + node + 1) for node in range(nodes - 1)]
    ends = np.array(edges, dtype=np.int64)
    return Graph.from_edges("many hubs", hubs + nodes, ends[:, 0], ends[:, 1], symmetrise=True)
