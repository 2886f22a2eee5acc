"""A quantised network on a graph: the contents of an image, and its exact results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from contracts import Activation, Model
from contracts.errors import InputError
from golden.dnp.layer_end import LayerEnd
from golden.graph import Graph, IntArray
from golden.model.layer import (
    Int16Array,
    OwnRows,
    QuantisedLayer,
    aggregate,
    attend,
    check_degrees,
    check_root,
    combine,
)
from golden.model.topology import Topology, uniform

__all__ = [
    "Fractions",
    "LayerResult",
    "Problem",
    "QuantisedModel",
    "infer",
    "own_rows",
    "predictions",
    "problem_of",
    "results_of",
]


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
        int16 [nodes, f_in], dense or ``scipy.sparse.csr_array`` without explicit zeros, columns ascending. If edges
        have attributes, the last columns are the sums over the in-edges of each node.
    topologies
        Whom each layer sums, with which factors; layers that sum the same share one object.
    model
        Quantised network.
    edge_rows
        int16 [edge_count, d], attributes of the edges; None: they have none.

    Raises
    ------
    InputError
        If shapes or types do not fit, or a sum could overflow.
    """

    graph: Graph
    features: Any
    topologies: tuple[Topology, ...]
    model: QuantisedModel
    edge_rows: Int16Array | None = None

    def __post_init__(self) -> None:
        shape = (self.graph.nodes, self.model.layers[0].f_in)
        if self.features.shape != shape or self.features.dtype != np.int16:
            raise InputError("features", f"are {self.features.dtype} {self.features.shape}", f"int16 {shape}")
        edges = self.edge_rows
        count = self.graph.edge_count
        if edges is not None and (edges.dtype != np.int16 or edges.ndim != 2 or len(edges) != count):
            raise InputError("edge rows", f"are {edges.dtype} {list(edges.shape)}", f"int16 [{count}, attributes]")
        if len(self.topologies) != len(self.model.layers):
            raise InputError(
                "topologies", f"there are {len(self.topologies)}", f"{len(self.model.layers)}, one a layer"
            )
        for layer, topology in zip(self.model.layers, self.topologies, strict=True):
            if topology.graph.nodes != self.graph.nodes:
                raise InputError("topology", f"has {topology.graph.nodes} nodes", f"the graph's {self.graph.nodes}")
            check_degrees(topology.graph, layer, topology.weights)
            if layer.root is not None:
                check_root(topology.graph, layer, topology.destination)

    @property
    def sparse(self) -> bool:
        """Whether the input features are sparse."""
        return not isinstance(self.features, np.ndarray)

    def relabelled(self, position: npt.ArrayLike) -> "Problem":
        """Return the problem with vertex v as vertex ``position[v]``."""
        moved = {each: each.relabelled(position) for each in dict.fromkeys(self.topologies)}
        edges = self.graph.relabelled_edges(position)
        return self._on(moved, lambda: self.graph.relabelled(position), self.features[np.argsort(position)], edges)

    def part(self, vertices: npt.ArrayLike) -> "Problem":
        """Return the problem of some vertices which no others are joined to: with the same results, bit by bit."""
        parts = {each: each.part(vertices) for each in dict.fromkeys(self.topologies)}
        edges = self.graph.inner_edges(vertices)
        return self._on(parts, lambda: self.graph.part(vertices), self.features[np.asarray(vertices)], edges)

    def _on(
        self, topologies: Mapping[Topology, Topology], graph: Callable[[], Graph], features: Any, edges: IntArray
    ) -> "Problem":
        """Return the network on other vertices and some of the edges, with a topology for each of its own."""
        same = (new.graph for old, new in topologies.items() if old.graph is self.graph)
        found = next(same, None) or graph()
        rows = None if self.edge_rows is None else self.edge_rows[edges]
        return Problem(found, features, tuple(topologies[each] for each in self.topologies), self.model, rows)


def problem_of(graph: Graph, features: Any, model: QuantisedModel) -> Problem:
    """Problem whose layers all sum the graph, with the scales that the model gives to its degrees."""
    return Problem(graph, features, (uniform(model.model, graph),) * len(model.layers), model)


def infer(problem: Problem) -> list[LayerResult]:
    """Exact rows of every layer, behind its end on the neural chip if it has one.

    Parameters
    ----------
    problem
        Network and graph.
    """
    rows, results = problem.features, []
    for number, (layer, topology) in enumerate(zip(problem.model.layers, problem.topologies, strict=True)):
        combined = combine(rows, layer.weights, topology.source, layer.shift_source)
        result = results_of(layer, topology, combined, own_rows(layer, topology, rows))
        if number in problem.model.ends:
            result = problem.model.ends[number](result).astype(np.int16)
        results.append(LayerResult(combined, result))
        rows = result
    return results


def own_rows(layer: QuantisedLayer, topology: Topology, rows: Any) -> OwnRows | None:
    """Own rows of a rooted layer that takes these rows; None if it is not rooted."""
    if layer.root is None:
        return None
    own = combine(rows, layer.root.weights, topology.own, layer.root.shift)
    return OwnRows(own, topology.destination.exponent)


def results_of(
    layer: QuantisedLayer, topology: Topology, combined: Int16Array, own: OwnRows | None = None
) -> Int16Array:
    """int16 [nodes, f_out], results of a layer's combined and own rows, behind the second rounding point."""
    if layer.attention:
        return attend(topology.graph, combined, layer)
    return aggregate(
        topology.graph,
        combined,
        topology.destination,
        layer.shift_destination,
        layer.biases,
        layer.activation,
        layer.self_weight,
        layer.neighbour_weight,
        own,
        topology.weights,
    )


def predictions(results: Int16Array) -> npt.NDArray[np.int64]:
    """Class of every node: position of its largest result, the first of equal ones."""
    return np.argmax(results, axis=1).astype(np.int64)
