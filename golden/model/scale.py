"""Scales of sources and destinations, by model."""

import numpy as np
import numpy.typing as npt

from contracts import Model
from contracts.scale import Scales, scales_of
from golden.graph import IntArray

__all__ = ["factors", "scales_of_model"]


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


def scales_of_model(model: Model, degrees: IntArray, eps: float = 0.0) -> tuple[Scales, Scales]:
    """Scales of the sources and of the destinations, the nearest to `factors`."""
    source, destination = factors(model, degrees, eps)
    return scales_of(source), scales_of(destination)
