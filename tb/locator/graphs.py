"""Graphs that the benches of the locator share."""

from collections.abc import Sequence

import numpy as np

from golden.graph import Graph

__all__ = [
    "GRAPHS",
    "bound_stars",
    "bursts",
    "cliques",
    "congruent",
    "full_record",
    "late_hub",
    "many_hubs",
    "scattered",
    "several",
    "shuffled",
    "stars",
    "tangled",
]

#: Graphs of every kind the locator has to manage, by what a data set is named; none has more than 256 nodes.
GRAPHS = (
    "karate",
    "synthetic:star,nodes=40",
    "synthetic:clique,nodes=12",
    "synthetic:path,nodes=256",
    "synthetic:grid,nodes=100",
    "synthetic:empty,nodes=9",
    "synthetic:power-law,nodes=256,degree=4",
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


def cliques(sizes: Sequence[int]) -> Graph:
    """Return cliques that lie one after another: degrees differ from one word of the scan to the next."""
    edges, first = [], 0
    for size in sizes:
        edges += [(first + a, first + b) for a in range(size) for b in range(a)]
        first += size
    ends = np.array(edges, dtype=np.int64)
    return Graph.from_edges("cliques", first, ends[:, 0], ends[:, 1], symmetrise=True)


def full_record(nodes: int, hubs: int) -> Graph:
    """Return a ring of `nodes`, each joined to three of `hubs` in turn, which are joined to eight others.

    Nodes have a degree of at most 7, hubs of at least 9: with a threshold of 8 the nodes are one community.
    """
    last = 11 if hubs <= nodes else nodes + 5
    edges = [(node, (node + step) % nodes) for node in range(nodes) for step in (1, 2)]
    edges += [(node, nodes + (node + turn) % hubs) for node in range(nodes) for turn in (0, 5, last)]
    edges += [(nodes + hub, nodes + (hub + step) % hubs) for hub in range(hubs) for step in range(1, 5)]
    ends = np.array(edges, dtype=np.int64)
    return Graph.from_edges("full record", nodes + hubs, ends[:, 0], ends[:, 1], symmetrise=True)


def late_hub(nodes: int = 100) -> Graph:
    """Return a hub that is joined to all nodes of a ring: it is found when the threshold is below `nodes`."""
    edges = [(0, 1 + node) for node in range(nodes)] + [(1 + node, 1 + (node + 1) % nodes) for node in range(nodes)]
    ends = np.array(edges, dtype=np.int64)
    return Graph.from_edges("late hub", nodes + 1, ends[:, 0], ends[:, 1], symmetrise=True)


def stars(degrees: Sequence[int]) -> Graph:
    """Return a star for each of `degrees`, the leaves of which are joined in pairs."""
    edges, first = [], 0
    for degree in degrees:
        edges += [(first, first + 1 + leaf) for leaf in range(degree)]
        edges += [(first + leaf, first + leaf + 1) for leaf in range(1, degree, 2)]
        first += degree + 1
    ends = np.array(edges, dtype=np.int64)
    return Graph.from_edges("stars", first, ends[:, 0], ends[:, 1], symmetrise=True)


def bursts(degrees: Sequence[int]) -> Graph:
    """Return a star for each of `degrees`, without other edges."""
    hubs = np.cumsum([0, *degrees[:-1]]) + np.arange(len(degrees))
    leaves = np.delete(np.arange(sum(degrees) + len(degrees)), hubs)
    ends = np.repeat(hubs, degrees)
    return Graph.from_edges("bursts", leaves.size + len(degrees), ends, leaves, symmetrise=True)


def congruent(places: int, fours: int = 40) -> Graph:
    """Return `fours`, all joined, whose vertices differ by `places` in pairs, each joined to two of four such hubs.

    Vertices meet at the same place of a table of `places` or fewer, and follow each other in rows. A hub's degree is
    ``2 * fours``, a node's is 5. The first hub knows the second of a pair, so others come before it.
    """
    apart = places // (fours + 1)
    four = np.array([0, places, 1, places + 1])
    nodes = (apart * np.arange(fours)[:, None] + four).ravel()
    others = [(apart * np.arange(fours)[:, None] + np.roll(four, turn)).ravel() for turn in (1, 2)]
    joined = [(apart * fours + four)[(np.arange(nodes.size) + turn) % 4] for turn in (2, 3)]
    ends = np.concatenate([*others, *joined])
    return Graph.from_edges("congruent", 2 * places, np.tile(nodes, 4), ends, symmetrise=True)


def several(graph: Graph, count: int = 2) -> Graph:
    """Return so many of a graph, side by side."""
    steps = graph.nodes * np.arange(count)[:, None]
    ends = [(side + steps).ravel() for side in (graph.edges, graph.destinations)]
    return Graph.from_edges(f"{graph.name}, {count} times", count * graph.nodes, *ends)


def shuffled(graph: Graph, seed: int) -> Graph:
    """Return a graph with its vertices in another order."""
    names = np.random.default_rng(seed).permutation(graph.nodes)
    return Graph.from_edges(f"{graph.name}, shuffled", graph.nodes, names[graph.edges], names[graph.destinations])


def scattered(vertices: int, seed: int) -> Graph:
    """Return a random graph with about half as many edges as vertices, all over their range."""
    ends = np.random.default_rng(seed).integers(0, vertices, (2, 15 * vertices // 32))
    return Graph.from_edges("scattered", vertices, ends[0], ends[1], symmetrise=True)


def bound_stars(vertices: int, edges: int, seed: int) -> Graph:
    """Return as many pairs of stars as there is room for: a node with 63 leaves, joined to a hub with 72.

    A pair has 137 vertices and 272 edges. With a threshold of 70 a node and its leaves are a community of 64.
    """
    pairs = min(vertices // 137, edges // 272)
    node, hub = 137 * np.arange(pairs)[:, None], 137 * np.arange(pairs)[:, None] + 64
    first = [np.repeat(node, 64), np.repeat(hub, 72)]
    second = [(node + np.arange(1, 65)).ravel(), (hub + np.arange(1, 73)).ravel()]
    names = np.random.default_rng(seed).permutation(vertices)
    return Graph.from_edges(
        "bound stars", vertices, names[np.concatenate(first)], names[np.concatenate(second)], symmetrise=True
    )


def tangled(vertices: int, degree: float, seed: int) -> Graph:
    """Return a random graph with so many edges at a vertex, whose ends are mostly near: communities of all sizes."""
    source = np.random.default_rng(seed)
    first = source.integers(0, vertices, int(vertices * degree / 2))
    far = source.random(first.size) < 0.1
    second = np.where(far, source.integers(0, vertices, first.size), first + source.integers(1, 9, first.size))
    names = source.permutation(vertices)
    return Graph.from_edges("tangled", vertices, names[first], names[second % vertices], symmetrise=True)
