"""Calibration of attention: the scale of scores, their factors and the margin, on the graph at hand."""

from typing import Any

import numpy as np
import numpy.typing as npt

from contracts.attention import MARGIN_MAX, SCORE_FRACTION, SCORES
from contracts.errors import InputError
from contracts.weights import GRANULE
from golden.graph import Graph
from golden.model.attention import Attention, attention_sums, exponentials, logarithms, reciprocals
from golden.model.calibration import fraction_of
from golden.model.float_model import FloatArray, FloatAttention, FloatLayer

__all__ = ["attention_of", "averages", "raised"]

#: Fraction bits of scores: a factor of them has 16 bits, and at least 10 for its own precision.
_FEWEST, _MOST = SCORE_FRACTION - 14, SCORE_FRACTION - 10


def raised(layer: FloatLayer, rows: Any, fraction: int, limit: int) -> npt.NDArray[np.int64]:
    """Return the bits by which a layer's columns are raised: int64 [f_out], those of scores with attention, else 0.

    They are as many as leave the largest weight and the largest combined value of the layer those of channels, unless
    the scores' factors need them.

    Parameters
    ----------
    layer
        In floating point.
    rows
        What enters it, int16, dense or sparse.
    fraction
        Its fraction bits.
    limit
        Largest magnitude of a combined row.
    """
    bits = np.zeros(layer.f_out, np.int64)
    if layer.attention is None:
        return bits
    scores = np.arange(layer.f_out) % GRANULE < SCORES
    combined = np.ldexp(np.asarray(rows @ layer.weight), -fraction)
    free = [_MOST - fraction_of(float(np.abs(combined).max(initial=0)), limit)]
    for values in (layer.weight, combined):
        peaks = [float(np.abs(values[:, chosen]).max(initial=0)) for chosen in (~scores, scores)]
        free += [int(np.floor(np.log2(peaks[0] / peaks[1])))] if all(peaks) else []
    bits[scores] = min(free)
    return bits


def attention_of(
    number: int, given: FloatAttention, graph: Graph, combined: npt.NDArray[np.int16], fraction: int
) -> tuple[Attention, int, int]:
    """Return how a quantised layer attends, and the factors of scores from 0 on and below.

    Parameters
    ----------
    number, given
        The layer.
    graph
        Whose in-edges are summed.
    combined
        int16 [nodes, f_out].
    fraction
        Fraction bits of the scores in it.

    Raises
    ------
    InputError
        If scores are too large, or the slope.
    """
    where = f"layer {number}, attention"
    if fraction < _FEWEST:
        reach = 1 << 15 - _FEWEST
        raise InputError(
            where, f"has scores with {fraction} fraction bits", f"at least {_FEWEST}: scores below {reach}"
        )
    positive = 1 << SCORE_FRACTION - fraction
    negative = round(given.slope * positive)
    if not -(1 << 15) <= negative < 1 << 15:
        raise InputError(where, f"has a slope of {given.slope}", "a slope between -2 and 2")
    factors = positive, negative
    margins = (
        _margin(graph, combined[:, given.heads.block(head).start :], factors) for head in range(given.heads.heads)
    )
    return Attention(given.heads, tuple(margins)), positive, negative


def _margin(graph: Graph, combined: npt.NDArray[np.int16], factors: tuple[int, int]) -> int:
    """Return the margin with which shares of rows, as they are computed, are closest to the exact ones.

    A small one saturates neighbours that count far more than a node itself; a large one leaves the others few bits.
    """
    destinations = np.repeat(np.arange(graph.nodes), graph.degrees)
    rows = combined[:, :SCORES].astype(np.int64)
    own = logarithms(rows.sum(axis=1), *factors)
    above = logarithms(rows[graph.edges, 0] + rows[destinations, 1], *factors) - own[destinations]
    nodes = np.concatenate([np.arange(graph.nodes), destinations])
    above = np.concatenate([0 * own, above])

    def shares(values: FloatArray) -> FloatArray:
        return values / np.bincount(nodes, values, graph.nodes)[nodes]

    highest = np.zeros(graph.nodes, np.int64)
    np.maximum.at(highest, nodes, above)
    exact = shares(np.exp2(np.ldexp((above - highest[nodes]).astype(np.float64), -SCORE_FRACTION)))

    def error(margin: int) -> float:
        found = shares(exponentials(above, margin).astype(np.float64))
        return float((np.bincount(nodes, np.abs(found - exact), graph.nodes) ** 2).sum())

    return min(range(1, MARGIN_MAX + 1), key=error)


def averages(
    graph: Graph, combined: npt.NDArray[np.int16], attention: Attention, slopes: tuple[int, int]
) -> FloatArray:
    """Return the exact sums times the reciprocals of a quantised layer: float64 [nodes, f_out]."""
    results = np.zeros(combined.shape)
    for head in range(attention.heads.heads):
        columns = slice(attention.heads.block(head).start, attention.heads.block(head).stop)
        sums, counts = attention_sums(graph, combined[:, columns], slopes, attention.margins[head])
        results[:, columns] = sums * reciprocals(counts).real()[:, None]
    return results
