"""Scales of sources and destinations, by model."""

import numpy as np
import numpy.typing as npt

from contracts import Model
from contracts.errors import InputError
from contracts.scale import Scales, scales_of
from golden.graph import Graph, IntArray

__all__ = ["factors", "scales_of_model", "weighted_factors"]

#: Smallest positive weighted degree: its factor is 2.
_LEAST = 0.25


def factors(
    model: Model, degrees: IntArray, eps: float = 0.0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """s_src and s_dst of every node as real numbers, float64 [nodes] each.

    Parameters
    ----------
    model
        GCN: (d+1)^-1/2 twice. SAGE: 1 and 1/(d+1). GIN: 1 and 1.
    degrees
        int64 [nodes], distinct neighbours without the node itself, over all chiplets.
    eps
        SAGE: -1 leaves the node out of the mean: 1 and 1/d, 1 where there is no neighbour.
    """
    members, one = degrees.astype(np.float64) + 1, np.ones(degrees.size)
    if model == Model.GCN:
        return 1 / np.sqrt(members), 1 / np.sqrt(members)
    if model == Model.SAGE:
        return one, 1 / (members if eps != -1 else np.maximum(members - 1, 1))
    return one, one


def weighted_factors(graph: Graph) -> npt.NDArray[np.float64]:
    """Factors of a GCN with edge weights: float64 [nodes], d^-1/2 of the weighted degree d, 0 where d is not positive.

    The weighted degree is the sum of the weights of a node's in-edges and of its self loop, which weighs 1.

    Raises
    ------
    InputError
        Naming the node, if a weighted degree is positive and so small that its factor has no scale.
    """
    degrees = graph.weighted_adjacency.sum(axis=1) + 1
    small = (degrees > 0) & (degrees <= _LEAST)
    if small.any():
        node = int(np.argmax(small))
        what = f"has a weighted degree of {degrees[node]:.3g}, with 1 for itself"
        raise InputError(f"graph {graph.name}, node {node}", what, f"0, less, or more than {_LEAST}")
    positive = degrees > 0
    return np.where(positive, 1 / np.sqrt(np.where(positive, degrees, 1)), 0)


def scales_of_model(model: Model, degrees: IntArray, eps: float = 0.0) -> tuple[Scales, Scales]:
    """Scales of the sources and of the destinations, the nearest to `factors`."""
    source, destination = factors(model, degrees, eps)
    return scales_of(source), scales_of(destination)
