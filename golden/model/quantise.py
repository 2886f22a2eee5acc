"""Quantisation: int16 tensors with power-of-two scales, chosen so that nothing saturates on the given graph."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from contracts import Activation, Model
from contracts.dnp.config import ProcessorConfig
from contracts.errors import InputError
from contracts.scale import GIN_FRACTION, MANTISSA_FRACTION, Scales
from golden.dnp.layer_end import LayerEnd
from golden.dnp.network import table_of
from golden.graph import Graph, IntArray
from golden.model.activation import RELU, function_of
from golden.model.attention import Attention
from golden.model.calibration import Calibration, fraction_of, integers, magnitudes
from golden.model.float_model import FloatArray, FloatLayer, FloatModel, Reach, accuracy
from golden.model.layer import (
    Int16Array,
    OwnRows,
    QuantisedLayer,
    RootWeights,
    aggregation_sums,
    combination_sums,
    combine,
)
from golden.model.network import Fractions, Problem, QuantisedModel, infer, predictions, results_of
from golden.model.rounding import SHIFT_MAX
from golden.model.scores import attention_of, averages, raised
from golden.model.topology import Topology, topologies_of

__all__ = ["DNP_FRACTION", "FULL", "Agreement", "compare", "outline", "quantise"]

#: Fraction bits of a result for the neural chip: Q3.12.
DNP_FRACTION = 12
#: All values fit, in 16 bits.
FULL = Calibration()
_BIAS_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class Agreement:
    """Comparison of a quantised network with the float one.

    Attributes
    ----------
    floating, machine
        Accuracy on the test nodes, 0..1; None if there are none of known class.
    agreement
        Share of all nodes, or of all small graphs of a batch, for which both predict the same class.
    """

    floating: float | None
    machine: float | None
    agreement: float


@np.errstate(over="ignore", invalid="ignore")  # an overflow is refused at the choice of its scale
def quantise(
    network: FloatModel,
    graph: Graph,
    *,
    calibration: Calibration = FULL,
    core: ProcessorConfig | None = None,
) -> Problem:
    """Quantise a network for a graph.

    Every tensor gets the power-of-two scale that uses its 16 bits best. Those of features and weights follow from
    their largest magnitude, those of combined rows and results from the exact sums on this graph, with bits to spare; a
    large bias can take fraction bits from the combined rows, because it has 32 bits at their scale.

    Parameters
    ----------
    network
        Float network.
    graph
        Graph to calibrate on and to infer.
    calibration
        Which share of the values must fit, and their bits.
    core
        Sizes of a processor of the neural chip, which ends layers whose activation is not ReLU.

    Raises
    ------
    InputError
        If widths do not fit, a degree is too large, magnitudes of a layer are too far apart for its shifts, or a layer
        is too wide for the neural chip.
    """
    network.check_graph(graph)
    topologies = topologies_of(network.layers, graph)
    entering, edge_rows = _entering(graph, calibration)
    rows = entering
    layers: list[QuantisedLayer] = []
    fractions: list[Fractions] = []
    ends: dict[int, LayerEnd] = {}
    for number, (given, topology) in enumerate(zip(network.layers, topologies, strict=True)):
        layer, found, results = _quantised(number, given, topology, rows, calibration, last=given is network.layers[-1])
        if layer.activation == Activation.DNP and given.activation is not None:
            ends[number] = _end(number, layer, given.activation, core or ProcessorConfig())
            results = ends[number](results).astype(np.int16)
            found = found._replace(results=function_of(given.activation).fraction)
        layers.append(layer)
        fractions.append(found)
        rows = _Rows("inputs", results, found.results)
    model = QuantisedModel(network.model, tuple(layers), entering.fraction, tuple(fractions), ends)
    return Problem(graph, entering.values, topologies, model, edge_rows)


class _Rows(NamedTuple):
    """Rows that enter a layer, what messages call them, and their fraction bits.

    `along`: attributes of the edges and their sources, if they enter too; then sums of them end the rows.
    """

    name: str
    values: Any
    fraction: int
    along: tuple[Int16Array, IntArray] | None = None


def _entering(graph: Graph, calibration: Calibration) -> tuple[_Rows, Int16Array | None]:
    """Return the rows that enter the first layer, and the attributes of the edges: all with the same fraction."""
    most, edges = calibration.given_limit, graph.edge_attributes
    peaks = [calibration.peak(graph.features)]
    if edges is not None:
        peaks += [calibration.peak(edges), calibration.peak(graph.edge_sums)]
    fraction = fraction_of(max(peaks), most)
    features = integers(graph.features, fraction, most)
    if edges is None:
        return _Rows("features", features, fraction), None
    rows = integers(edges, fraction, most)
    # Sums of what the edges have as integers, so that nothing rounds twice.
    sums = np.clip(graph.summed_edges(rows), -most - 1, most).astype(np.int16)
    if sparse.issparse(features):
        whole = sparse.hstack([features, sparse.csr_array(sums)], format="csr", dtype=np.int16)
    else:
        whole = np.concatenate([features, sums], axis=1)
    return _Rows("features", whole, fraction, (rows, graph.edges)), rows


def _quantised(
    number: int, given: FloatLayer, topology: Topology, rows: _Rows, calibration: Calibration, *, last: bool
) -> tuple[QuantisedLayer, Fractions, Int16Array]:
    """Quantise a layer; return its fractions and its results too, those of the second rounding point.

    Parameters
    ----------
    number, given, topology
        The layer, and whom it sums.
    rows
        What enters it.
    calibration, last
        How values are scaled, and whether the layer is the last one.
    """
    bits = raised(given, rows.values, rows.fraction, calibration.combined_limit)
    given = replace(given, weight=np.ldexp(given.weight, bits))
    matrix, own_matrix = _matrices(given)
    weight_fraction = fraction_of(calibration.peak(matrix), calibration.given_limit)
    weights, bias = integers(matrix, weight_fraction, calibration.given_limit), given.bias
    self_weight, neighbour_weight, extra = _members(given, topology)

    combined_fraction = _rows_fraction(rows, weights, weight_fraction, topology.source, calibration)
    root: tuple[Int16Array, int] | None = None
    if own_matrix is not None:
        root_fraction = fraction_of(calibration.peak(own_matrix), calibration.given_limit)
        root = integers(own_matrix, root_fraction, calibration.given_limit), root_fraction
        # Own rows are added to sums of combined ones, so both have the same fraction.
        combined_fraction = min(combined_fraction, _rows_fraction(rows, *root, topology.own, calibration))
        if rows.along:
            combined_fraction = min(combined_fraction, _along_fraction(rows, *root, calibration))
    if bias.any():
        largest = fraction_of(_largest(bias), _BIAS_MAX) - MANTISSA_FRACTION - extra
        combined_fraction = min(combined_fraction, largest)
    entering = float(np.ldexp(_largest(rows.values), -rows.fraction))
    sizes = {rows.name: entering, "weights": _largest(given.weight), "biases": _largest(bias)}
    shift_source = _shift(number, MANTISSA_FRACTION + rows.fraction + weight_fraction - combined_fraction, sizes)
    combined = combine(rows.values, weights, topology.source, shift_source)
    own: OwnRows | None = None
    root_weights: RootWeights | None = None
    if root is not None:
        sizes["root weights"] = _largest(own_matrix)
        shift = _shift(number, MANTISSA_FRACTION + rows.fraction + root[1] - combined_fraction, sizes)
        root_weights = RootWeights(root[0], shift)
        own = OwnRows(combine(rows.values, root[0], topology.own, shift), topology.destination.exponent)

    sum_fraction = combined_fraction + extra
    biases = np.rint(np.ldexp(bias, sum_fraction + MANTISSA_FRACTION)).astype(np.int32)
    activation, attention = _activation(given), None
    if given.attention:
        attention, self_weight, neighbour_weight = attention_of(
            number, given.attention, topology.graph, combined, combined_fraction + int(bits[0])
        )
    result_fraction = DNP_FRACTION
    if activation != Activation.DNP:
        if attention:
            real = averages(topology.graph, combined, attention, (self_weight, neighbour_weight))
        else:
            sums = aggregation_sums(topology.graph, combined, self_weight, neighbour_weight, own, topology.weights)
            real = sums * topology.destination.real()[:, None]
        real = np.ldexp(real, -sum_fraction) + bias
        if activation == Activation.RELU:
            # A negative result becomes 0 whether it saturates or not.
            real = np.maximum(real, 0)
        peak = calibration.peak(real)
        result_fraction = min(fraction_of(peak, calibration.limit(last=last)), sum_fraction + MANTISSA_FRACTION)
    shift_destination = _shift(number, MANTISSA_FRACTION + sum_fraction - result_fraction, sizes)
    layer = QuantisedLayer(
        weights,
        biases,
        shift_source,
        shift_destination,
        activation,
        self_weight,
        neighbour_weight,
        attention,
        root_weights,
    )
    fractions = Fractions(weight_fraction, combined_fraction, result_fraction)
    return layer, fractions, results_of(layer, topology, combined, own)


def _matrices(layer: FloatLayer) -> tuple[FloatArray, FloatArray | None]:
    """Return the matrices of a layer for the neighbours' rows and for own rows; None: own rows are as the neighbours'.

    With attributes of edges the machine sums the rows of neighbours without them, and the sum of a vertex's edges is a
    part of its own row.
    """
    if layer.edge_weight is None:
        return layer.weight, layer.root
    nothing = np.zeros_like(layer.edge_weight)
    return np.concatenate([layer.weight, nothing]), np.concatenate([layer.weight, layer.edge_weight])


def _along_fraction(rows: _Rows, weights: Int16Array, weight_fraction: int, calibration: Calibration) -> int:
    """As `_rows_fraction`, of each edge's attributes beside the row of its source, as mini-batches have them."""
    assert rows.along
    edges, sources = rows.along
    count = edges.shape[1]
    sums = combination_sums(rows.values[:, :-count], weights[:-count])[sources] + combination_sums(
        edges, weights[-count:]
    )
    peak = float(np.ldexp(calibration.peak(sums), -(rows.fraction + weight_fraction)))
    return min(fraction_of(peak, calibration.combined_limit), rows.fraction + weight_fraction + MANTISSA_FRACTION)


def _rows_fraction(
    rows: _Rows, weights: Int16Array, weight_fraction: int, scales: Scales, calibration: Calibration
) -> int:
    """Most fraction bits with which products of rows and weights, times factors, stay within the limit."""
    real = combination_sums(rows.values, weights) * scales.real()[:, None]
    peak = float(np.ldexp(calibration.peak(real), -(rows.fraction + weight_fraction)))
    return min(fraction_of(peak, calibration.combined_limit), rows.fraction + weight_fraction + MANTISSA_FRACTION)


def outline(network: FloatModel, graph: Graph, *, core: ProcessorConfig | None = None) -> Problem:
    """Return a problem of the same sizes with arbitrary numbers.

    Capacity checks and the layout of an image depend only on sizes, so they can precede training and quantisation.

    Parameters
    ----------
    network, graph, core
        As for :func:`quantise`; only the shapes of the network's weights are used.

    Raises
    ------
    InputError
        If widths do not fit, a degree is too large, or a layer is too wide for the neural chip.
    """
    network.check_graph(graph)
    layers: list[QuantisedLayer] = []
    ends: dict[int, LayerEnd] = {}
    topologies = topologies_of(network.layers, graph)
    for number, (given, topology) in enumerate(zip(network.layers, topologies, strict=True)):
        matrix, own_matrix = _matrices(given)
        weights, biases = np.zeros(matrix.shape, np.int16), np.zeros(given.f_out, np.int32)
        self_weight, neighbour_weight, _ = _members(given, topology)
        attention = Attention(given.attention.heads, (1,) * given.attention.heads.heads) if given.attention else None
        root = RootWeights(weights, 0) if own_matrix is not None else None
        layer = QuantisedLayer(
            weights, biases, 0, 0, _activation(given), self_weight, neighbour_weight, attention, root
        )
        if layer.activation == Activation.DNP and given.activation is not None:
            ends[number] = _end(number, layer, given.activation, core or ProcessorConfig())
        layers.append(layer)
    attributes = graph.edge_feature_count
    features: Any = np.zeros((graph.nodes, graph.feature_count + attributes), np.int16)
    edge_rows = np.zeros((graph.edge_count, attributes), np.int16) if attributes else None
    if sparse.issparse(graph.features):
        # As many entries as there will be at most.
        sums = sparse.csr_array(np.repeat(graph.degrees[:, None] > 0, attributes, axis=1))
        features = sparse.hstack([graph.features != 0, sums], format="csr").astype(np.int16)
    model = QuantisedModel(network.model, tuple(layers), 0, (Fractions(0, 0, 0),) * len(layers), ends)
    return Problem(graph, features, topologies, model, edge_rows)


def compare(network: FloatModel, problem: Problem) -> Agreement:
    """Compare predictions of the exact integer results with those in floating point."""
    floating, answers = network.predictions(problem.graph), problem.graph.answers
    machine = predictions(infer(problem)[-1].results)
    return Agreement(
        accuracy(floating, problem.graph, problem.graph.test),
        accuracy(machine, problem.graph, problem.graph.test),
        float(np.mean((floating == machine)[answers])) if answers.size else 1.0,
    )


def _activation(layer: FloatLayer) -> Activation:
    if layer.activation is None:
        return Activation.NONE
    return Activation.RELU if layer.activation == RELU else Activation.DNP


def _end(number: int, layer: QuantisedLayer, activation: str, core: ProcessorConfig) -> LayerEnd:
    """Biases and table of a layer."""
    function = function_of(activation)
    table = table_of(function.value, core.table_bits, function.fraction)
    try:
        return LayerEnd(layer.neural_biases.astype(np.int64), table, core)
    except ValueError as error:
        raise InputError(
            f"layer {number}, neural chip", str(error), "a narrower layer or a larger [neural] wm_depth"
        ) from None


def _members(layer: FloatLayer, topology: Topology) -> tuple[int, int, int]:
    """Weights of the node and of its neighbours, and the fraction bits they add; nothing with attention."""
    if layer.attention:
        return 0, 0, 0
    if topology.weighted:
        one = 1 << topology.fraction
        return one if layer.root is not None else round(1 + layer.eps) * one, one, topology.fraction
    if layer.root is not None:
        return 1, 1, 0
    if layer.model == Model.GIN and layer.reach == Reach.GRAPH:
        return round((1 + layer.eps) * (1 << GIN_FRACTION)), 1 << GIN_FRACTION, GIN_FRACTION
    return round(1 + layer.eps), 1, 0


def _shift(number: int, shift: int, sizes: Mapping[str, float]) -> int:
    """Return a shift if the hardware has it; otherwise magnitudes of the layer are too far apart for 16 bits.

    Parameters
    ----------
    number, shift
        Number of the layer, and its shift.
    sizes
        Largest magnitudes of the layer's input, weights and biases.
    """
    if not 0 <= shift <= SHIFT_MAX:
        found = ", ".join(f"{name} {size:.1e}" for name, size in sizes.items())
        # The error names the size farthest from 1.
        odd = max((name for name in sizes if sizes[name]), key=lambda name: abs(np.log2(sizes[name])), default="inputs")
        what = f"largest magnitudes are too far apart: {found}, which needs a shift by {shift}"
        raise InputError(f"layer {number}", what, f"a shift in 0..{SHIFT_MAX}; rescale the {odd} to about 1")
    return shift


def _largest(values: Any) -> float:
    return float(magnitudes(values).max(initial=0))
