"""Orders in which the roots of a graph can be taken, and graphs with communities to take them from."""

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from golden.graph import Graph, IntArray
from golden.locator.locator import Limits, locate
from golden.locator.schedule import SLOW

__all__ = ["ORDERS", "breadth_first", "community_order", "graph_of", "hub_communities", "small_world"]

#: Nodes of a community of `hub_communities`, and edges that each begins.
COMMUNITY_NODES, COMMUNITY_DEGREE = 40, 4
#: Communities of `hub_communities`, and as many hubs.
COMMUNITIES = 50


def graph_of(name: str, pairs: IntArray, nodes: int) -> Graph:
    """Symmetric graph of an array int64 [n, 2] of ends, without features."""
    ones = np.ones(len(pairs), dtype=np.int64)
    matrix = sparse.csr_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(nodes, nodes))
    matrix = sparse.csr_array(matrix + matrix.T)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    nothing = np.zeros(nodes, dtype=np.bool_)
    return Graph(
        name,
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        np.zeros((nodes, 1), dtype=np.float32),
        np.full(nodes, -1, dtype=np.int64),
        1,
        nothing,
        nothing,
        nothing,
    )


def hub_communities(seed: int = 0) -> tuple[Graph, IntArray]:
    """2,050 nodes: 50 communities of 40 joined only by 50 hubs, numbered at random.

    Half of the nodes are joined to a hub, two thirds of these to one of two that belong to their community.

    Returns
    -------
    tuple
        The graph, and its communities one after another, each with a hub.
    """
    rng = np.random.default_rng(seed)
    nodes = COMMUNITIES * (COMMUNITY_NODES + 1)
    shuffled = rng.permutation(nodes)
    hubs = shuffled[:COMMUNITIES]
    members = shuffled[COMMUNITIES:].reshape(COMMUNITIES, COMMUNITY_NODES)
    pairs = []
    for number, mine in enumerate(members):
        for node in mine:
            pairs += [(node, other) for other in rng.choice(mine, COMMUNITY_DEGREE, replace=False)]
            if rng.random() < 1 / 2:
                pairs.append(
                    (
                        node,
                        hubs[
                            int(
                                rng.choice(
                                    np.array([number, (number + 1) % COMMUNITIES, int(rng.integers(COMMUNITIES))])
                                )
                            )
                        ],
                    )
                )
    planted = np.concatenate([np.append(mine, hub) for mine, hub in zip(members, hubs, strict=True)])
    return graph_of("islands", np.asarray(pairs, dtype=np.int64), nodes), planted.astype(np.int64)


def small_world(nodes: int = 2050, seed: int = 0) -> Graph:
    """Ring in which every node has ten neighbours and one edge in ten has a random end, numbered at random."""
    made = nx.watts_strogatz_graph(nodes, 10, 0.1, seed=seed)
    shuffled = np.random.default_rng(seed).permutation(nodes)
    return graph_of("small-world", shuffled[np.asarray(made.edges(), dtype=np.int64)], nodes)


def breadth_first(graph: Graph) -> IntArray:
    """Nodes in the order of a breadth-first search from the largest degree, the other components by lowest ID."""
    seen = np.zeros(graph.nodes, dtype=np.bool_)
    parts = []
    for first in [int(np.argmax(graph.degrees)), *range(graph.nodes)]:
        if not seen[first]:
            found = csgraph.breadth_first_order(graph.adjacency, first, directed=False, return_predecessors=False)
            found = found[~seen[found]]
            seen[found] = True
            parts.append(found.astype(np.int64))
    return np.concatenate(parts)


def community_order(graph: Graph) -> IntArray:
    """Nodes community by community, as the locator finds them (threshold 16 falling by 1, at most 64 nodes).

    The direction of edges does not matter.

    A community is followed by its hubs, unless they are placed already, and then by the community that is joined to it
    most strongly: a hub of n communities counts 1/n. Without a common hub, the next in the locator's order follows.
    """
    records = [record for record in locate(graph.symmetrised, SLOW, Limits(64)).records if not record.part]
    communities = [record for record in records if not record.hub_edges]
    touching: dict[int, list[int]] = {}
    for number, record in enumerate(communities):
        for hub in record.hubs.tolist():
            touching.setdefault(hub, []).append(number)
    order: dict[int, None] = {}  # nodes, in the order of their first mention
    visited = [False] * len(communities)
    for first in range(len(communities)):
        current: int | None = first
        while current is not None and not visited[current]:
            visited[current] = True
            hubs = communities[current].hubs.tolist()
            order.update(dict.fromkeys(communities[current].nodes.tolist() + hubs))
            shares: dict[int, float] = {}
            for hub in hubs:
                for other in touching[hub]:
                    if not visited[other]:
                        shares[other] = shares.get(other, 0.0) + 1 / len(touching[hub])
            current = max(shares, key=lambda other: (shares[other], -other)) if shares else None
    order.update(dict.fromkeys(range(graph.nodes)))
    return np.fromiter(order, dtype=np.int64, count=graph.nodes)


#: Orders by name.
ORDERS = {
    "ID": lambda graph: np.arange(graph.nodes, dtype=np.int64),
    "random": lambda graph: np.random.default_rng(2050).permutation(graph.nodes).astype(np.int64),
    "BFS": breadth_first,
    "community": community_order,
}
