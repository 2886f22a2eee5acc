"""Double cover: a directed graph as a symmetric one, in which communities can be found.

A symmetric graph needs none. Of another, each vertex v has a *destination copy*, whose row is to be summed, and if it
has out-edges a *source copy*, whose row is added to others. A directed edge u -> v joins the source copy of u with the
destination copy of v. So a destination copy has the in-degree of its vertex and a source copy the out-degree: hubs are
by either.
"""

from dataclasses import dataclass

import numpy as np

from golden.graph import BoolArray, Graph, IntArray

__all__ = ["Cover", "cover_of", "joined_rows"]


@dataclass(frozen=True, eq=False)
class Cover:
    """A graph as it is located.

    Attributes
    ----------
    graph
        Symmetric: the destination copies of all vertices, then the source copies, ascending; without features. A
        symmetric graph as it is.
    vertices
        int64 [copies], the vertex of each copy.
    destinations
        Number of destination copies, which come first.
    """

    graph: Graph
    vertices: IntArray
    destinations: int

    @property
    def summed(self) -> BoolArray:
        """Whose sums are results, bool [copies]: those of the destination copies."""
        return np.arange(self.vertices.size) < self.destinations

    def copies(self, vertices: IntArray) -> IntArray:
        """int64, the source copies of vertices that have one."""
        return self.destinations + np.searchsorted(self.vertices[self.destinations :], vertices)


def joined_rows(offsets: IntArray, sources: IntArray, copies: int) -> tuple[IntArray, IntArray]:
    """Rows of all copies of a double cover.

    Parameters
    ----------
    offsets
        int64 [destinations + 1], first in-edge of each destination copy.
    sources
        int64 [edges], source copy of each, ascending in a row; copies from `copies` on get no row of their own.
    copies
        Destination and source copies.

    Returns
    -------
    offsets, edges
        int64 [copies + 1] and [edges], the rows of destination copies unchanged, then those of source copies,
        ascending.
    """
    destinations = np.repeat(np.arange(offsets.size - 1, dtype=np.int64), np.diff(offsets))
    back = sources < copies
    order = np.lexsort((destinations[back], sources[back]))
    lengths = np.bincount(sources[back], minlength=copies)[offsets.size - 1 :]
    return (
        np.concatenate([offsets, offsets[-1] + np.cumsum(lengths, dtype=np.int64)]),
        np.concatenate([sources, destinations[back][order]]),
    )


def cover_of(graph: Graph) -> Cover:
    """Return a graph as it is located: itself if it is symmetric, else its double cover."""
    if graph.symmetric:
        return Cover(graph, np.arange(graph.nodes), graph.nodes)
    given = np.unique(graph.edges)
    copies = graph.nodes + given.size
    offsets, edges = joined_rows(graph.offsets, graph.nodes + np.searchsorted(given, graph.edges), copies)
    none = np.zeros(copies, dtype=np.bool_)
    plain = Graph(
        graph.name, offsets, edges, np.ones((copies, 1), dtype=np.float32), np.full(copies, -1, dtype=np.int64), 0,
        none, none, none,
    )  # fmt: skip
    return Cover(plain, np.concatenate([np.arange(graph.nodes), given]), graph.nodes)
