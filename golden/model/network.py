"""A quantised network on a graph: the contents of an image, and its exact results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from contracts import Activation, Model
from contracts.errors import InputError
from contracts.scale import Scales
from golden.dnp.layer_end import LayerEnd
from golden.graph import Graph
from golden.model.layer import Int16Array, QuantisedLayer, aggregate, check_degrees, combine
from golden.model.scale import scales_of_model

__all__ = ["Fractions", "LayerResult", "Problem", "QuantisedModel", "infer", "predictions", "problem_of"]


class Fractions(NamedTuple):
    """Fraction bits of a layer's tensors: a stored integer x means x * 2^-fraction."""

    weights: int
    combined: int
    results: int


class LayerResult(NamedTuple):
    """Exact rows of a layer: int16 [nodes, f_out] each."""

    combined: Int16Array
    results: Int16Array


@dataclass(frozen=True, eq=False)
class QuantisedModel:
    """A quantised network.

    Attributes
    ----------
    model
        Which network.
    layers
        At least one; the features of a layer's results are those of the next layer's input.
    feature_fraction
        Fraction bits of the input features.
    fractions
        Fraction bits of every layer's tensors.
    ends
        Biases and table of every layer with ``Activation.DNP``, by its number; without, the last layer's results are
        those of its second rounding point.

    Raises
    ------
    InputError
        If there is no layer, widths of successive layers differ, or a layer has no end that needs one, or one that
        does not fit.
    """

    model: Model
    layers: tuple[QuantisedLayer, ...]
    feature_fraction: int
    fractions: tuple[Fractions, ...]
    ends: Mapping[int, LayerEnd] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.layers or len(self.layers) != len(self.fractions):
            raise InputError(
                "model", f"{len(self.layers)} layers, {len(self.fractions)} fractions", "at least one each"
            )
        for number, (left, right) in enumerate(zip(self.layers, self.layers[1:], strict=False)):
            if left.f_out != right.f_in:
                raise InputError(f"layer {number + 1}", f"takes {right.f_in} features", f"the {left.f_out} before it")
        for number, layer in enumerate(self.layers):
            wanted = layer.f_out if layer.activation == Activation.DNP else 0
            found = self.ends[number].biases.size if number in self.ends else 0
            if found != wanted and (number in self.ends or number + 1 < len(self.layers)):
                what = f"ends with {found} biases and {layer.activation.name}"
                raise InputError(f"layer {number}", what, f"{wanted} biases for the neural chip")

    @property
    def output_fraction(self) -> int:
        """Fraction bits of the results."""
        return self.fractions[-1].results


@dataclass(frozen=True, eq=False)
class Problem:
    """A network on a graph.

    Attributes
    ----------
    graph
        Graph with degrees over all chiplets.
    features
        int16 [nodes, f_in], dense or ``scipy.sparse.csr_array`` without explicit zeros, columns ascending.
    scale_source, scale_destination
        s_src and s_dst of every node.
    model
        Quantised network.

    Raises
    ------
    InputError
        If shapes or types do not fit, or a sum could overflow.
    """

    graph: Graph
    features: Any
    scale_source: Scales
    scale_destination: Scales
    model: QuantisedModel

    def __post_init__(self) -> None:
        shape = (self.graph.nodes, self.model.layers[0].f_in)
        if self.features.shape != shape or self.features.dtype != np.int16:
            raise InputError("features", f"are {self.features.dtype} {self.features.shape}", f"int16 {shape}")
        for scales in (self.scale_source, self.scale_destination):
            if scales.nodes != self.graph.nodes:
                raise InputError("scales", f"there are {scales.nodes}", f"{self.graph.nodes}, one a node")
        for layer in self.model.layers:
            check_degrees(self.graph, layer)

    @property
    def sparse(self) -> bool:
        """Whether the input features are sparse."""
        return not isinstance(self.features, np.ndarray)


def problem_of(graph: Graph, features: Any, model: QuantisedModel) -> Problem:
    """Problem with the scales that the model gives to the graph's degrees."""
    source, destination = scales_of_model(model.model, graph.degrees)
    return Problem(graph, features, source, destination, model)


def infer(problem: Problem) -> list[LayerResult]:
    """Exact rows of every layer, behind its end on the neural chip if it has one.

    Parameters
    ----------
    problem
        Network and graph.
    """
    rows, results = problem.features, []
    for number, layer in enumerate(problem.model.layers):
        combined = combine(rows, layer.weights, problem.scale_source, layer.shift_source)
        result = aggregate(
            problem.graph,
            combined,
            problem.scale_destination,
            layer.shift_destination,
            layer.biases,
            layer.activation,
            layer.self_weight,
            layer.neighbour_weight,
        )
        if number in problem.model.ends:
            result = problem.model.ends[number](result).astype(np.int16)
        results.append(LayerResult(combined, result))
        rows = result
    return results


def predictions(results: Int16Array) -> npt.NDArray[np.int64]:
    """Class of every node: position of its largest result, the first of equal ones."""
    return np.argmax(results, axis=1).astype(np.int64)
