"""Attention in exact integers: the coefficient of every row of a neighbourhood, and the reciprocal of their sum.

A row u counts exp(LeakyReLU(s(u) + t(v))) for the vertex v, divided by the sum of this over the neighbourhood and v
itself. Scores are logarithms to the base 2. The exponent is taken relative to that of the vertex's own row, whose
coefficient is 2^-margin: so each vertex has a scale of its own, and no sum of coefficients is 0.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from contracts.attention import (
    COEFFICIENT_FRACTION,
    COEFFICIENT_MAX,
    EXPONENTIALS,
    MARGIN_MAX,
    RECIPROCAL_BITS,
    RECIPROCALS,
    SCORE_FRACTION,
    SCORES,
    STEP_FRACTION,
    Heads,
)
from contracts.errors import InputError
from contracts.scale import Scales
from contracts.weights import GRANULE
from golden.graph import Graph

__all__ = ["Attention", "Coefficients", "attention_sums", "coefficients", "exponentials", "logarithms", "reciprocals"]

IntArray = npt.NDArray[np.int64]
_STEP = SCORE_FRACTION - STEP_FRACTION
#: Shift by which the smallest number with this fraction becomes 0.
_FAR = COEFFICIENT_FRACTION + 2
#: Bits of a sum of coefficients, and of it normalised.
_SUM_BITS, _DIVISOR_BITS = 31, 17


@dataclass(frozen=True)
class Attention:
    """How a layer attends; the factors of scores are its `self_weight`, from 0 on, and `neighbour_weight`, below.

    Attributes
    ----------
    heads
        Where scores and channels lie in a row.
    margins
        Of each head: a node's own row counts 2^-margin, 1..15; coefficients from 1 on saturate.

    Raises
    ------
    InputError
        If there is not one for each head, or one is out of its range.
    """

    heads: Heads
    margins: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.margins) != self.heads.heads:
            raise InputError("attention", f"has {len(self.margins)} margins", f"{self.heads.heads}, one a head")
        for margin in self.margins:
            if not 1 <= margin <= MARGIN_MAX:
                raise InputError("attention's margin", f"is {margin}", f"1..{MARGIN_MAX}")

    def block(self, columns: range) -> "Attention":
        """Return what concerns some granules of one head."""
        channels = len(columns) - SCORES * -(-len(columns) // GRANULE)
        return Attention(Heads(1, channels), (self.margins[columns.start // self.heads.distance],))

    @property
    def margin(self) -> int:
        """Margin of the only head."""
        (margin,) = self.margins
        return margin


class Coefficients(NamedTuple):
    """Coefficients of a head: int64 [nodes] of the vertices' own rows, int64 [edges] of their neighbours' rows."""

    own: IntArray
    neighbours: IntArray


def logarithms(scores: npt.ArrayLike, positive: int, negative: int) -> IntArray:
    """LeakyReLU of sums of two scores: times `positive`, or times `negative` if below 0; 22 fraction bits.

    Parameters
    ----------
    scores
        Sums of two int16.
    positive, negative
        int16, at the fraction that makes up 22 with that of the scores.
    """
    values = np.asarray(scores, np.int64)
    return values * np.where(values < 0, negative, positive)


def exponentials(differences: npt.ArrayLike, margin: int) -> IntArray:
    """2^(difference - margin) as int16 with 15 fraction bits, saturated.

    Parameters
    ----------
    differences
        Of two `logarithms`.
    margin
        1..15.
    """
    steps = (np.asarray(differences, np.int64) + (1 << _STEP - 1)) >> _STEP
    shift = np.clip(margin - (steps >> STEP_FRACTION), 0, _FAR)
    power = np.array(EXPONENTIALS)[steps & (1 << STEP_FRACTION) - 1]
    # Rounded to nearest, ties up; the largest one below 1 rounds to less than 1.
    value = (2 * power >> shift) + 1 >> 1
    return np.where(shift == 0, COEFFICIENT_MAX, value)


def coefficients(graph: Graph, combined: npt.NDArray[np.int16], slopes: tuple[int, int], margin: int) -> Coefficients:
    """Coefficients of all rows of a head.

    Parameters
    ----------
    graph
        Whose in-edges are summed.
    combined
        int16 [nodes, 2 or more]: a vertex's score as a source, and as a destination, then its channels.
    slopes
        Factors of sums of scores: those from 0 on, those below.
    margin
        1..15.
    """
    source, target = combined[:, 0].astype(np.int64), combined[:, 1].astype(np.int64)
    destinations = np.repeat(np.arange(graph.nodes), graph.degrees)
    own = logarithms(source + target, *slopes)
    others = logarithms(source[graph.edges] + target[destinations], *slopes)
    return Coefficients(exponentials(0 * own, margin), exponentials(others - own[destinations], margin))


def attention_sums(
    graph: Graph, combined: npt.NDArray[np.int16], slopes: tuple[int, int], margin: int
) -> tuple[IntArray, IntArray]:
    """Exact sums of a head: int64 [nodes, columns] of coefficients times rows, in 47 bits, int64 [nodes] of them."""
    own, others = coefficients(graph, combined, slopes, margin)
    matrix = sparse.csr_array((others, graph.edges, graph.offsets), shape=(graph.nodes, graph.nodes))
    rows = combined.astype(np.int64)
    return own[:, None] * rows + matrix @ rows, own + matrix @ np.ones(graph.nodes, np.int64)


def reciprocals(sums: npt.ArrayLike) -> Scales:
    """1 / sum as a scale, by table and one Newton step: within 2^-15 of it.

    Parameters
    ----------
    sums
        1..2^31 - 1.

    Raises
    ------
    InputError
        If a sum is out of its range.
    """
    values = np.asarray(sums, np.int64)
    if values.size and (values.min() < 1 or values.max() >> _SUM_BITS):
        raise InputError("sum of coefficients", f"spans {values.min()}..{values.max()}", f"1..{(1 << _SUM_BITS) - 1}")
    top = np.frexp(values.astype(np.float64))[1].astype(np.int64) - 1
    divisor = values << _SUM_BITS - 1 - top >> _SUM_BITS - _DIVISOR_BITS
    # With f = divisor / 2^16 in 1..2, a mantissa is 2^16 / f: first from the middle of the divisor's part.
    first = np.array(RECIPROCALS)[(divisor >> _DIVISOR_BITS - 1 - RECIPROCAL_BITS) & (1 << RECIPROCAL_BITS) - 1]
    error = ((1 << 32) - divisor * first) >> 8
    mantissa = first + (first * error + (1 << 23) >> 24)
    whole = mantissa >> 16
    return Scales((mantissa >> whole).astype(np.uint16), (top + 1 - whole).astype(np.uint8))
