"""Graphs that the fixtures were trained on."""

import zlib
from dataclasses import replace

import numpy as np

from golden.canonical import canonical_rows
from golden.datasets import load
from golden.graph import Graph, IntArray

__all__ = ["checksum", "graph_of", "results_of"]

#: Every so many edges of the directed graph is left out.
_DROPPED = 3
_DIRECTED, _WEIGHTED = "karate-directed", "karate-weighted"


def graph_of(name: str) -> Graph:
    """Return a graph by its name for `golden.datasets.load`, or one of two made from karate.

    ``karate-directed`` is without every third edge, so that most have no reverse; ``karate-weighted`` has a weight for
    each edge, in each direction another.

    Parameters
    ----------
    name
        Of the graph.
    """
    if name not in (_DIRECTED, _WEIGHTED):
        return load(name)
    graph = load("karate")
    if name == _WEIGHTED:
        weights = np.random.default_rng(7).uniform(0.1, 2, graph.edge_count).astype(np.float32)
        return replace(graph, name=name, edge_weight=weights)
    kept = np.arange(graph.edge_count) % _DROPPED != 0
    rows = canonical_rows(graph.nodes, graph.edges[kept], graph.destinations[kept])
    return replace(graph, name=name, offsets=rows.offsets, edges=rows.edges)


def checksum(graph: Graph) -> int:
    """Return CRC-32 of a graph's offsets, edges and their weights."""
    found = zlib.crc32(graph.edges.tobytes(), zlib.crc32(graph.offsets.tobytes()))
    return found if graph.edge_weight is None else zlib.crc32(graph.edge_weight.tobytes(), found)


def results_of(graph: Graph) -> IntArray:
    """Return the vertices whose results count: all, or those that stand for small graphs."""
    return graph.graph_vertices if graph.graph_of is not None else np.arange(graph.nodes)
