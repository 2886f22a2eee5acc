"""Rows of other chiplets' vertices that a chiplet has copies of, chosen by how often samples will want them (R1)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from golden.attributes.divided import Share
from golden.attributes.sampler import Plan
from golden.graph import BoolArray, Graph, IntArray

__all__ = ["Replicas", "replicas_of", "wanted"]


class Replicas(NamedTuple):
    """Contents of a table of replicas.

    Attributes
    ----------
    cells
        int64 [cells], the ID whose row is copied; in an empty cell one that belongs into another.
    used
        bool [cells], False for empty cells.
    """

    cells: IntArray
    used: BoolArray


def wanted(graph: Graph, plan: Plan, roots: IntArray) -> npt.NDArray[np.float64]:
    """Return how many positions of each vertex are to be expected if each root is sampled once.

    Parameters
    ----------
    graph
        In-edges.
    plan
        Fan-out of each hop.
    roots
        int64, VIDs.

    Returns
    -------
    numpy.ndarray
        float64 [nodes].
    """
    degrees = np.diff(graph.offsets)
    level = _sums(roots, np.ones(roots.size), graph.nodes)
    total = level.copy()
    for fan_out in plan.fan_out:
        # Each in-neighbour is as likely to be among the samples.
        each = level * np.minimum(fan_out, degrees) / np.maximum(degrees, 1)
        level = _sums(graph.edges, np.repeat(each, degrees), graph.nodes)
        total += level
    return total


def _sums(vertices: IntArray, values: npt.NDArray[np.float64], nodes: int) -> npt.NDArray[np.float64]:
    """Return float64 [nodes], the sum of each vertex's values."""
    return np.bincount(vertices, values, nodes).astype(np.float64)


def replicas_of(graph: Graph, plan: Plan, share: Share, cells: int) -> Replicas:
    """Give each cell the vertex that the chiplet's samples will want most, of those of others that belong there.

    Parameters
    ----------
    graph
        In-edges.
    plan
        What is sampled.
    share
        The chiplet's.
    cells
        Of its table, a power of two. The lowest bits of an ID are its cell.
    """
    first, end = share.boundaries[share.chiplet : share.chiplet + 2].tolist()
    counts = wanted(graph, plan, np.arange(first, end))
    counts[first:end] = 0
    counts = np.append(counts, np.zeros(-graph.nodes % cells)).reshape(-1, cells)
    best = counts.argmax(axis=0)
    number = np.arange(cells)
    used = counts[best, number] > 0
    return Replicas(np.where(used, best * cells + number, number ^ 1), used)
