"""A layer in exact integers: combination and aggregation with their two rounding points.

H' = act(s_dst(v) * sum over u in N(v) and v of s_src(u) * (H W)(u) + b). Nothing rounds or saturates between the
two points, so any order of addition gives the same bits. Bounds, checked by name:

==================  =================================  ==============================================
f_in                at most 65,536                     a sparse index has 16 bits; 48-bit sums hold
degree + 1          at most 65,536                     32-bit sums hold (GIN: with 1 + eps, 40 bits)
edge weights        magnitudes of at most 2^32 a node  48-bit sums hold; the self weight counts
nodes, edges        fewer than 2^32                    VIDs and offsets have 32 bits
==================  =================================  ==============================================
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from contracts import ACCUMULATOR_BITS, PARTIAL_BITS, VALUE_BITS, Activation
from contracts.attention import COEFFICIENT_MAX
from contracts.errors import InputError
from contracts.scale import GIN_FRACTION, Scales
from golden.graph import Graph
from golden.model.attention import Attention, attention_sums, reciprocals
from golden.model.rounding import SHIFT_MAX, requantise

__all__ = [
    "FEATURES_MAX",
    "GIN_PARTIAL_BITS",
    "Int16Array",
    "Int32Array",
    "OwnRows",
    "QuantisedLayer",
    "RootWeights",
    "aggregate",
    "aggregation_sums",
    "attend",
    "check_degrees",
    "check_root",
    "combination_sums",
    "combine",
    "own_weights",
    "requantise",
]

Int16Array = npt.NDArray[np.int16]
Int32Array = npt.NDArray[np.int32]

#: Largest number of input features: a sparse index has 16 bits.
FEATURES_MAX = 1 << 16
#: Width of an aggregation sum of GIN.
GIN_PARTIAL_BITS = PARTIAL_BITS + GIN_FRACTION
_EXTREME = 1 << (VALUE_BITS - 1)
# The widest combination sum, FEATURES_MAX * 2^15 * 2^15 = 2^46, is inside 48 bits, and exact in float64 too.
assert FEATURES_MAX * _EXTREME * _EXTREME < 1 << (ACCUMULATOR_BITS - 1)


@dataclass(frozen=True, eq=False)
class RootWeights:
    """The matrix of a layer for the node itself.

    Attributes
    ----------
    weights
        int16 [f_in, f_out].
    shift
        Right shift of own rows at the first rounding point before the exponent is added, 0..63.
    """

    weights: Int16Array
    shift: int


@dataclass(frozen=True, eq=False)
class QuantisedLayer:
    """Parameters of a layer.

    Attributes
    ----------
    weights
        int16 [f_in, f_out].
    biases
        int32 [f_out], at the scale of sum * mantissa: fraction of the sum + 15.
    shift_source, shift_destination
        Right shift of the first and second rounding point before the exponent is added, 0..63.
    activation
        What happens to a result.
    self_weight, neighbour_weight
        1 and 1, or for GIN round(256 * (1 + eps)) and 256; int16. With attention the factors of scores.
    attention
        Rows count by their scores, not by these factors and s_dst; None: they do not.
    root
        Where own rows come from, which then stand for the node instead of its combined row; None: there are none.

    Raises
    ------
    InputError
        If an array has the wrong shape or type or a number is out of range.
    """

    weights: Int16Array
    biases: Int32Array
    shift_source: int
    shift_destination: int
    activation: Activation = Activation.RELU
    self_weight: int = 1
    neighbour_weight: int = 1
    attention: Attention | None = None
    root: RootWeights | None = None

    def __post_init__(self) -> None:
        if self.weights.dtype != np.int16 or self.weights.ndim != 2:
            raise InputError("weights", f"are {self.weights.dtype} {self.weights.shape}", "int16 [f_in, f_out]")
        if self.biases.dtype != np.int32 or self.biases.shape != (self.f_out,):
            raise InputError("biases", f"are {self.biases.dtype} {self.biases.shape}", f"int32 [{self.f_out}]")
        if not 1 <= self.f_in <= FEATURES_MAX:
            raise InputError("features", f"there are {self.f_in}", f"1..{FEATURES_MAX}")
        if not 1 <= self.f_out < 1 << VALUE_BITS:
            raise InputError("combined features", f"there are {self.f_out}", f"1..{(1 << VALUE_BITS) - 1}")
        for name in ("shift_source", "shift_destination"):
            if not 0 <= getattr(self, name) <= SHIFT_MAX:
                raise InputError(name, f"is {getattr(self, name)}", f"0..{SHIFT_MAX}")
        for name in ("self_weight", "neighbour_weight"):
            if not -_EXTREME <= getattr(self, name) < _EXTREME:
                raise InputError(name, f"is {getattr(self, name)}", f"{-_EXTREME}..{_EXTREME - 1}")
        if self.attention and self.attention.heads.columns != self.f_out:
            expected = f"the {self.attention.heads.columns} of its heads"
            raise InputError("combined features", f"there are {self.f_out}", expected)
        if self.root is not None:
            own = self.root.weights
            if own.dtype != np.int16 or own.shape != self.weights.shape:
                raise InputError("root weights", f"are {own.dtype} {own.shape}", f"int16 {self.weights.shape}")
            if not 0 <= self.root.shift <= SHIFT_MAX:
                raise InputError("root shift", f"is {self.root.shift}", f"0..{SHIFT_MAX}")

    @property
    def f_in(self) -> int:
        """Features of an input row."""
        return int(self.weights.shape[0])

    @property
    def f_out(self) -> int:
        """Features of a combined row and of a result."""
        return int(self.weights.shape[1])

    def block(self, columns: range) -> "QuantisedLayer":
        """Return the layer that computes these columns of the results."""
        chosen = slice(columns.start, columns.stop)
        attention = self.attention and self.attention.block(columns)
        root = self.root and replace(self.root, weights=self.root.weights[:, chosen])
        return replace(
            self, weights=self.weights[:, chosen], biases=self.biases[chosen], attention=attention, root=root
        )

    @property
    def neural_biases(self) -> Int16Array:
        """int16 [f_out], biases at the fraction of the results, for a neural chip that adds them."""
        return requantise(0, 0, 0, self.shift_destination, self.biases)

    @property
    def partial_bits(self) -> int:
        """Width of an aggregation sum, in bits."""
        if self.attention:
            return ACCUMULATOR_BITS - 1
        return PARTIAL_BITS if abs(self.neighbour_weight) == 1 == abs(self.self_weight) else GIN_PARTIAL_BITS


@dataclass(frozen=True, eq=False)
class OwnRows:
    """Own rows of a rooted layer: what each node itself contributes, in place of its combined row.

    Attributes
    ----------
    rows
        int16 [nodes, f_out]: features times the root weights and the own scales, after the first rounding point.
    exponents
        uint8 [nodes], those of s_dst.
    """

    rows: Int16Array
    exponents: npt.NDArray[np.uint8]


def own_weights(self_weight: int, root: OwnRows | None) -> npt.NDArray[np.int64]:
    """Return the factor of each node's own row, ``self_weight * 2^exponent`` if rooted: int64 [nodes, 1] or [1, 1]."""
    if root is None:
        return np.array([[self_weight]], dtype=np.int64)
    return (self_weight << root.exponents.astype(np.int64))[:, None]


def check_root(graph: Graph, layer: QuantisedLayer, destination: Scales) -> None:
    """Refuse a rooted layer with a node whose own row would count more than 2^14 times, the most that 16 bits hold.

    Raises
    ------
    InputError
        Naming the node and its degree.
    """
    beyond = abs(layer.self_weight) << destination.exponent.astype(np.int64) > _EXTREME >> 1
    if beyond.any():
        worst = int(np.argmax(beyond))
        raise InputError(
            f"graph {graph.name}, node {worst}",
            f"has {graph.degrees[worst]} neighbours, and the mean of them stands beside a root weight",
            f"at most {_EXTREME >> 1}, or a sum, or no root weight",
        )


def check_degrees(graph: Graph, layer: QuantisedLayer, weights: Int16Array | None = None) -> None:
    """Refuse a graph with a node whose aggregation sum could overflow.

    Parameters
    ----------
    graph, layer
        The graph, and what is summed along its edges.
    weights
        int16 [edge_count], weights of the edges; None: `layer.neighbour_weight`.

    Raises
    ------
    InputError
        Naming the node and its degree.
    """
    # The extreme row is -2^15, so the limit itself is reached on the negative side only, where it fits.
    limit = (1 << (layer.partial_bits - 1)) // _EXTREME
    if graph.nodes == 0:
        return
    if weights is not None:
        _check_weights(graph, layer, weights)
        return
    worst = int(np.argmax(graph.degrees))
    degree = int(graph.degrees[worst])
    own, neighbour = abs(layer.self_weight), abs(layer.neighbour_weight)
    if layer.attention:
        own = neighbour = COEFFICIENT_MAX + 1
    if own + degree * neighbour > limit:
        most = max(limit - own, 0) // max(neighbour, 1)
        raise InputError(
            f"graph {graph.name}, node {worst}",
            f"has {degree} neighbours",
            f"at most {most} for {layer.partial_bits}-bit sums",
        )


def _check_weights(graph: Graph, layer: QuantisedLayer, weights: Int16Array) -> None:
    limit = (1 << (ACCUMULATOR_BITS - 1)) // _EXTREME
    sizes = np.abs(weights.astype(np.int64))
    totals = abs(layer.self_weight) + np.bincount(graph.destinations, sizes, graph.nodes).astype(np.int64)
    worst = int(np.argmax(totals))
    if totals[worst] > limit:
        what = f"has edges whose weights add up to {totals[worst]} with its own, without signs"
        raise InputError(f"graph {graph.name}, node {worst}", what, f"at most {limit} for {ACCUMULATOR_BITS}-bit sums")


def combine(features: Any, weights: Int16Array, scales: Scales, shift: int) -> Int16Array:
    """Features times weights, times s_src, first rounding point.

    Parameters
    ----------
    features
        int16 [nodes, f_in], dense or ``scipy.sparse.csr_array``.
    weights
        int16 [f_in, f_out].
    scales
        s_src of the nodes.
    shift
        0..63.

    Returns
    -------
    int16 [nodes, f_out].

    Raises
    ------
    InputError
        If a type or shape does not fit or there are more than 65,536 features.
    """
    if features.dtype != np.int16 or weights.dtype != np.int16:
        raise InputError("combination", f"of {features.dtype} and {weights.dtype}", "int16 features and weights")
    if features.shape[1] != weights.shape[0] or features.shape[0] != scales.nodes:
        raise InputError(
            "combination",
            f"features {features.shape}, weights {weights.shape}, {scales.nodes} scales",
            "features [nodes, f_in], weights [f_in, f_out], nodes scales",
        )
    if features.shape[1] > FEATURES_MAX:
        raise InputError("features", f"there are {features.shape[1]}", f"at most {FEATURES_MAX}")
    return requantise(combination_sums(features, weights), scales.mantissa[:, None], scales.exponent[:, None], shift)


def combination_sums(features: Any, weights: Int16Array) -> npt.NDArray[np.int64]:
    """Exact features times weights: int64 [nodes, f_out], within 48 bits."""
    if sparse.issparse(features):
        return np.asarray(features.astype(np.int64) @ weights.astype(np.int64))
    # float64 is exact here, and multiplies matrices much faster than int64.
    return (features.astype(np.float64) @ weights.astype(np.float64)).astype(np.int64)


def aggregate(
    graph: Graph,
    combined: Int16Array,
    scales: Scales,
    shift: int,
    biases: Int32Array,
    activation: Activation = Activation.RELU,
    self_weight: int = 1,
    neighbour_weight: int = 1,
    root: OwnRows | None = None,
    weights: Int16Array | None = None,
) -> Int16Array:
    """Sum of combined rows over the neighbourhood, times s_dst, plus bias, second rounding point, activation.

    Parameters
    ----------
    graph
        Whose in-edges are summed.
    combined
        int16 [nodes, f_out].
    scales
        s_dst of the nodes.
    shift
        0..63.
    biases
        int32 [f_out]; not added with ``Activation.DNP``.
    activation
        What happens to a result.
    self_weight, neighbour_weight
        Factors of the node's own row and of its neighbours' rows.
    root
        Own rows, where they are not the combined ones.
    weights
        int16 [edge_count], factors of the neighbours' rows if each has its own.

    Returns
    -------
    int16 [nodes, f_out].

    Raises
    ------
    InputError
        If a type or shape does not fit or a sum could overflow.
    """
    sums = aggregation_sums(graph, combined, self_weight, neighbour_weight, root, weights)
    bias = np.zeros_like(biases) if activation == Activation.DNP else biases
    result = requantise(sums, scales.mantissa[:, None], scales.exponent[:, None], shift, bias)
    return np.maximum(result, np.int16(0)) if activation == Activation.RELU else result


def aggregation_sums(
    graph: Graph,
    combined: Int16Array,
    self_weight: int = 1,
    neighbour_weight: int = 1,
    root: OwnRows | None = None,
    weights: Int16Array | None = None,
) -> npt.NDArray[np.int64]:
    """Exact sums over the neighbourhood and the node itself: int64 [nodes, f_out].

    They are within 32 bits, of GIN within 40, with weights within 48.
    """
    if combined.dtype != np.int16 or combined.ndim != 2 or combined.shape[0] != graph.nodes:
        raise InputError("combined rows", f"are {combined.dtype} {combined.shape}", f"int16 [{graph.nodes}, f_out]")
    own = combined if root is None else root.rows
    if own.dtype != np.int16 or own.shape != combined.shape:
        raise InputError("own rows", f"are {own.dtype} {own.shape}", f"int16 {combined.shape}")
    factors = neighbour_weight * graph.adjacency
    if weights is not None:
        factors = sparse.csr_array((weights.astype(np.int64), graph.edges, graph.offsets), shape=(graph.nodes,) * 2)
    neighbours = factors @ combined.astype(np.int64)
    return np.asarray(own_weights(self_weight, root) * own.astype(np.int64) + neighbours)


def attend(graph: Graph, combined: Int16Array, layer: QuantisedLayer) -> Int16Array:
    """Quotient of sums of attention, plus bias, second rounding point, activation; padding between heads is 0.

    Parameters
    ----------
    graph
        Whose in-edges are summed.
    combined
        int16 [nodes, f_out].
    layer
        With attention.

    Returns
    -------
    int16 [nodes, f_out].
    """
    assert layer.attention
    heads, slopes = layer.attention.heads, (layer.self_weight, layer.neighbour_weight)
    results = np.zeros_like(combined)
    for head in range(heads.heads):
        columns = slice(heads.block(head).start, heads.block(head).stop)
        sums, counts = attention_sums(graph, combined[:, columns], slopes, layer.attention.margins[head])
        scales, bias = reciprocals(counts), layer.biases[columns]
        bias = np.zeros_like(bias) if layer.activation == Activation.DNP else bias
        results[:, columns] = requantise(
            sums, scales.mantissa[:, None], scales.exponent[:, None], layer.shift_destination, bias
        )
    return np.maximum(results, np.int16(0)) if layer.activation == Activation.RELU else results
