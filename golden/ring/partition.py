"""Placement by communities: neighbours on one chiplet, as much work on each, and few rows on the links."""

from itertools import combinations

import numpy as np
import pymetis
from scipy import sparse

from contracts import PACKET_HEADER, PARTIAL_BITS, VALUE_BITS
from golden.graph import Graph, IntArray
from golden.ring.placement import Placement
from golden.ring.traffic import traffic

__all__ = ["imbalance", "partition", "placed_apart", "sums_pay"]

#: Cycles of a REDUCE that do not depend on the links: of all, and of each hub.
_REDUCE, _HUB = 300, 6
#: Rows that a sum is as wide as.
_SUM = PARTIAL_BITS // VALUE_BITS
#: Most work of all vertices together, in units of the partitioner's 32-bit integers.
_WORK = 1 << 30
#: The partitioner minimises the rows that parts need from each other (its objective 1), not the edges between them.
_OPTIONS = {"objtype": 1, "ncuts": 8, "niter": 20, "seed": 1}


def partition(graph: Graph, parts: int, work: IntArray | None = None) -> IntArray:
    """Cut a graph into parts of equal work that need few rows of each other (METIS).

    Parameters
    ----------
    graph
        Any; the direction of its edges does not matter.
    parts
        Number of parts, at least 1; some may be empty.
    work
        int64 [nodes], at least 0: what each vertex costs, in any unit; if not given its neighbours, and 1.

    Returns
    -------
    int64 [nodes], part of each vertex.
    """
    if parts == 1 or graph.nodes <= parts:
        return np.arange(graph.nodes, dtype=np.int64) % parts
    joined = sparse.csr_array(graph.symmetrised.adjacency, copy=True).astype(np.int64)
    joined.setdiag(0)
    joined.eliminate_zeros()
    joined.sort_indices()
    work = np.diff(joined.indptr) + 1 if work is None else work + 1
    scale = max(1, int(work.sum()) // _WORK + 1)
    _, found = pymetis.part_graph(
        parts,
        adjacency=pymetis.CSRAdjacency(joined.indptr.astype(np.int32), joined.indices.astype(np.int32)),
        vweights=(-(-work // scale)).astype(np.int32),
        recursive=False,
        options=pymetis.Options(**_OPTIONS),
    )
    return np.asarray(found, dtype=np.int64)


def placed_apart(graph: Graph, chiplets: int, work: IntArray | None = None) -> tuple[IntArray, Placement]:
    """Place the parts of a graph on a ring, each before the one that needs most of its rows.

    A vertex many of whose neighbours are elsewhere, and needed nowhere else there, is a hub: the sum of these goes home
    over the ring instead of their rows (R19). A graph that has changed since is still computed correctly.

    Parameters
    ----------
    graph
        Any.
    chiplets
        Number of chiplets, at most 16.
    work
        As for `partition`.

    Returns
    -------
    position
        int64 [nodes], new VID of each vertex; for `Graph.relabelled`.
    placement
        Placement of the new VIDs.
    """
    owner = partition(graph, chiplets, work)
    owner = _round_the_ring(graph, owner, chiplets)[owner]
    order = np.argsort(owner, kind="stable")
    position = np.argsort(order)
    boundaries = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=chiplets))])
    return position, Placement.at(boundaries, np.sort(position[_hubs(graph, owner, chiplets)]))


def imbalance(placement: Placement, work: IntArray) -> float:
    """Return the work of the chiplet with most of it over the mean.

    Parameters
    ----------
    placement
        Who owns what.
    work
        int64 [nodes], by VID of the placement.
    """
    loads = np.bincount(placement.owners(np.arange(work.size)), work, placement.chiplets)
    return float(loads.max() / loads.mean()) if work.sum() else 1.0


def sums_pay(graph: Graph, placement: Placement, elements: int, link_width: int) -> bool:
    """Return whether partial sums of the hubs take the ring less time than rows of their neighbours.

    Sums are fewer, but wider, and each chiplet handles one hub after another.

    Parameters
    ----------
    graph, placement
        The graph, and who owns its vertices.
    elements
        Of the widest row.
    link_width
        Bits of a flit.
    """

    def flits(bits: int) -> int:
        return -(-(PACKET_HEADER.bits + elements * bits) // link_width)

    summed, sent = traffic(graph, placement), traffic(graph, placement.without_sums)
    rows = flits(VALUE_BITS)
    reduce = _REDUCE + _HUB * placement.hubs.size
    with_sums = int((summed.features * rows + summed.partials * flits(PARTIAL_BITS)).max()) + reduce
    return with_sums < int(sent.features.max()) * rows


def _round_the_ring(graph: Graph, owner: IntArray, parts: int) -> IntArray:
    """Return a chiplet for each part: exchange parts while that makes rows pass fewer links."""
    source, destination = graph.edges, graph.destinations
    crosses = owner[source] != owner[destination]
    needs = np.unique(source[crosses] * parts + owner[destination[crosses]])
    rows = np.zeros((parts, parts), dtype=np.int64)
    np.add.at(rows, (owner[needs // parts], needs % parts), 1)
    at = np.arange(parts)

    def hops() -> int:
        return int((rows * np.mod(at[None, :] - at[:, None], parts)).sum())

    best, before = hops(), -1
    while best != before:
        before = best
        for one, other in combinations(range(parts), 2):
            at[[one, other]] = at[[other, one]]
            if (found := hops()) < best:
                best = found
            else:
                at[[one, other]] = at[[other, one]]
    return at


def _hubs(graph: Graph, owner: IntArray, chiplets: int) -> IntArray:
    """Return the vertices whose sums are fewer words than the rows that come for them alone."""
    crosses = owner[graph.edges] != owner[graph.destinations]
    source, destination = graph.edges[crosses], graph.destinations[crosses]
    hops = np.mod(owner[destination] - owner[source], chiplets)
    need = source * chiplets + owner[destination]
    _, place, readers = np.unique(need, return_inverse=True, return_counts=True)
    alone = readers[place] == 1
    saved = np.bincount(destination[alone], hops[alone], graph.nodes)
    longest = np.zeros(graph.nodes, dtype=np.int64)
    np.maximum.at(longest, destination, hops)
    return np.flatnonzero(saved > _SUM * longest)
