"""Communities from sets, without a search, and the check of a locator's records (I1-I4, I8)."""

from collections.abc import Iterable, Iterator

import numpy as np
from scipy import sparse

from golden.graph import BoolArray, Graph, IntArray
from golden.locator.locator import Limits
from golden.locator.record import Record
from golden.locator.schedule import Schedule

__all__ = ["check_records", "partition"]

_NEVER = 1 << 62
Communities = set[tuple[frozenset[int], int]]


def partition(
    graph: Graph,
    schedule: Schedule,
    limits: Limits,
    degrees: IntArray | None = None,
    elsewhere: BoolArray | None = None,
) -> tuple[dict[int, int], Communities]:
    """Return hubs and communities with their rounds, from connected components.

    In every round the hubs are removed; a component that touches one, and has at most ``c_max`` nodes and ``hubs``
    hubs, is a community. Isolated nodes are communities of the first round.

    Parameters
    ----------
    graph, schedule, limits
        As for :func:`golden.locator.locator.locate`.
    degrees
        int64 [nodes], degrees over all chiplets where the graph is one chiplet's part; default: those of the graph.
    elsewhere
        bool [nodes], vertices of other chiplets: unreported hubs; the graph has only their edges to own vertices.
        Default: none.

    Returns
    -------
    tuple
        Round of every hub by VID; communities as (nodes, round).
    """
    degrees = graph.degrees if degrees is None else degrees
    others = np.zeros(graph.nodes, dtype=np.bool_) if elsewhere is None else elsewhere
    pending = ~others & (degrees > 0)
    rounds: dict[int, int] = {}
    found: Communities = {(frozenset([int(node)]), 0) for node in np.flatnonzero(~others & (degrees == 0))}
    threshold, number = schedule.threshold, 0
    while pending.any():
        new = pending & (degrees > threshold)
        pending &= ~new
        rounds |= dict.fromkeys(np.flatnonzero(new).tolist(), number)
        # Components change only with their hubs.
        if new.any():
            is_hub = np.zeros(graph.nodes, dtype=np.bool_)
            is_hub[list(rounds)] = True
            for nodes in _components(graph, limits, pending, is_hub, others):
                found.add((frozenset(nodes.tolist()), number))
                pending[nodes] = False
        threshold, number = schedule.after(threshold), number + 1
    return rounds, found


def _components(
    graph: Graph, limits: Limits, pending: BoolArray, is_hub: BoolArray, others: BoolArray
) -> Iterator[IntArray]:
    """Yield the components of pending nodes that are communities."""
    from scipy.sparse import csgraph  # takes longer to load than the rest of the golden model

    rest = np.flatnonzero(pending)
    count, labels = csgraph.connected_components(graph.adjacency[rest][:, rest], directed=False)
    members = sparse.csr_array((np.ones(rest.size, dtype=np.int64), (labels, np.arange(rest.size))),
                               shape=(count, rest.size))  # fmt: skip
    own, every = (
        np.diff(((members @ graph.adjacency[rest][:, np.flatnonzero(hubs)]).tocsr() > 0).indptr)
        for hubs in (is_hub, is_hub | others)
    )
    sizes = np.bincount(labels, minlength=count)
    for label in np.flatnonzero((sizes <= limits.c_max) & (own > 0) & (every <= limits.hubs)):
        yield rest[labels == label]


def check_records(graph: Graph, schedule: Schedule, limits: Limits, records: Iterable[Record]) -> None:
    """Compare records with :func:`partition` and their bitmaps with the adjacency.

    Every node is in one community or a hub; every edge of the graph is in exactly one bitmap, where a hub column
    stands for both directions (I8).

    Raises
    ------
    AssertionError
        Naming the difference.
    """
    hubs, communities = partition(graph, schedule, limits)
    seen_hubs: dict[int, int] = {}
    seen: Communities = set()
    starts, ends = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for record in records:
        nodes, columns = record.nodes, np.concatenate([record.nodes, record.hubs])
        if record.hub_edges:
            assert nodes.size == 1, f"hub record of {nodes.size} nodes"
            if record.part == 0:
                assert int(nodes[0]) not in seen_hubs, f"hub {nodes[0]} was emitted twice"
                seen_hubs[int(nodes[0])] = record.round_number
        elif record.part == 0:
            community = (frozenset(nodes.tolist()), record.round_number)
            assert community not in seen, f"community {sorted(community[0])} was emitted twice"
            seen.add(community)
        assert len(set(columns.tolist())) == columns.size, f"a column is there twice in {columns}"
        assert record.hubs.size <= limits.h_max, f"{record.hubs.size} hubs in a record"
        row, column = np.nonzero(record.bitmap)
        outside = column >= nodes.size
        strangers = [v for v in record.hubs.tolist() if v not in hubs]
        assert not strangers, f"{strangers} are no hubs"
        # A hub's column stands for both directions.
        u, v = nodes[row], columns[column]
        starts += [u, v[outside]]
        ends += [v, u[outside]]
    assert seen_hubs == hubs, f"hubs differ: {sorted(set(seen_hubs.items()) ^ set(hubs.items()))[:5]}"
    assert seen == communities, f"communities differ: {[sorted(c[0]) for c in seen ^ communities][:3]}"
    wanted = graph.adjacency + sparse.eye_array(graph.nodes, dtype=np.int64, format="csr")
    places = np.concatenate(starts), np.concatenate(ends)
    covered = sparse.coo_array((np.ones(places[0].size, dtype=np.int64), places), shape=(graph.nodes, graph.nodes))
    difference = (covered.tocsr() - wanted).tocoo()
    wrong = np.flatnonzero(difference.data)
    assert not wrong.size, f"edges differ: {[(int(difference.row[i]), int(difference.col[i])) for i in wrong[:5]]}"
