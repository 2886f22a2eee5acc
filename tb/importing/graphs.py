"""Graphs that the fixtures were trained on."""

import zlib
from dataclasses import replace

import numpy as np

from golden.canonical import canonical_rows
from golden.datasets import load
from golden.graph import Graph

__all__ = ["checksum", "graph_of"]

#: Every so many edges of the directed graph is left out.
_DROPPED = 3


def graph_of(name: str) -> Graph:
    """Return a bundled graph, or ``karate-directed``: without every third edge, so that most have no reverse.

    Parameters
    ----------
    name
        Of the graph.
    """
    if name != "karate-directed":
        return load(name)
    graph = load("karate")
    kept = np.arange(graph.edge_count) % _DROPPED != 0
    rows = canonical_rows(graph.nodes, graph.edges[kept], graph.destinations[kept])
    return replace(graph, name=name, offsets=rows.offsets, edges=rows.edges)


def checksum(graph: Graph) -> int:
    """Return CRC-32 of a graph's offsets and edges."""
    return zlib.crc32(graph.edges.tobytes(), zlib.crc32(graph.offsets.tobytes()))
