"""The same networks in floating point, for training and as the reference of quantised results."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from contracts import Model
from contracts.attention import Heads
from contracts.errors import InputError
from golden.graph import BoolArray, Graph, IntArray
from golden.model.activation import RELU, function_of
from golden.model.scale import factors, weighted_factors

__all__ = [
    "FloatArray",
    "FloatAttention",
    "FloatLayer",
    "FloatModel",
    "Reach",
    "Real",
    "accuracy",
    "attended",
    "members_of",
    "propagation",
    "reached",
    "spread",
    "weighted",
]

FloatArray = npt.NDArray[np.float64]


class Reach(Enum):
    """Whose rows a layer sums for a vertex."""

    #: Its neighbours' and its own.
    GRAPH = "graph"
    #: Its own alone: a dense layer.
    NODE = "node"
    #: For the vertex that stands for a small graph, those of the members of that graph: a readout.
    MEMBERS = "members"


@dataclass(frozen=True)
class FloatAttention:
    """Attention of a layer, whose rows have scores in front of their channels; exponents are to the base 2.

    Attributes
    ----------
    heads
        Where scores and channels lie in a row.
    slope
        Of the LeakyReLU on scores.
    """

    heads: Heads
    slope: float


@dataclass(frozen=True, eq=False)
class FloatLayer:
    """A layer: act(s_dst * sum of (s_src * (H W) + E W_edge) + H W_root + b).

    Attributes
    ----------
    weight
        float64 [f_in, f_out].
    bias
        float64 [f_out].
    model
        Its normalisation. A readout: `Model.SAGE` is the mean over the members, every other the sum.
    eps
        The vertex itself counts 1 + eps times; -1 leaves it out, from the count of a mean too. 0 for GCN, and for all
        that do not reach the graph.
    reach
        Whose rows are summed.
    activation
        Behind it: a name of `golden.model.activation.FUNCTIONS`, or None.
    attention
        Rows count by their scores, over the sum of this; None: they do not. `golden.model.heads` makes such layers.
    root
        float64 [f_in, f_out], for the vertex itself; with eps -1 only. None: there is none.
    edge_weight
        float64 [d, f_out], for the d attributes of each edge; the vertex itself has none. Of a mean over the vertex and
        its neighbours only. None: there is none.

    Raises
    ------
    InputError
        If a shape does not fit, a number is not finite, eps does not go with the model or there is no such activation.
    """

    weight: FloatArray
    bias: FloatArray
    model: Model = Model.GCN
    eps: float = 0.0
    reach: Reach = Reach.GRAPH
    activation: str | None = None
    attention: FloatAttention | None = None
    root: FloatArray | None = None
    edge_weight: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.activation is not None:
            function_of(self.activation)
        if self.attention and (self.reach != Reach.GRAPH or self.attention.heads.columns != self.f_out):
            raise InputError("attention", f"is that of {self.attention.heads.columns} columns", f"{self.f_out}")
        if self.weight.ndim != 2 or 0 in self.weight.shape:
            raise InputError("weight", f"is {list(self.weight.shape)}", "[f_in, f_out]")
        if self.bias.shape != (self.f_out,):
            raise InputError("bias", f"is {list(self.bias.shape)}", f"[{self.f_out}]")
        if not (np.isfinite(self.weight).all() and np.isfinite(self.bias).all() and np.isfinite(self.eps)):
            raise InputError("layer", "has a number that is not finite", "finite weights, biases and eps")
        free = self.reach == Reach.GRAPH and self.model == Model.GIN
        if self.eps and not free and (self.model, self.reach, self.eps) != (Model.SAGE, Reach.GRAPH, -1):
            raise InputError("eps", f"is {self.eps}", "0, or -1 for a mean over the neighbours alone")
        if self.root is not None:
            self._check_root(self.root)
        if self.edge_weight is not None:
            self._check_edge_weight(self.edge_weight)

    def _check_root(self, root: FloatArray) -> None:
        if root.shape != self.weight.shape:
            raise InputError("root", f"is {list(root.shape)}", f"{list(self.weight.shape)}, as weight")
        if not np.isfinite(root).all():
            raise InputError("root", "has a number that is not finite", "finite weights")
        if (self.reach, self.eps) != (Reach.GRAPH, -1):
            expected = "a sum or mean of the neighbours alone: no self loops, no (1 + eps)"
            raise InputError("root", "stands beside another weight of the vertex itself", expected)

    def _check_edge_weight(self, weight: FloatArray) -> None:
        if weight.ndim != 2 or weight.shape[0] < 1 or weight.shape[1] != self.f_out:
            raise InputError("edge_weight", f"is {list(weight.shape)}", f"[attributes, {self.f_out}], as weight")
        if not np.isfinite(weight).all():
            raise InputError("edge_weight", "has a number that is not finite", "finite weights")
        if (self.model, self.reach, self.eps, self.root) != (Model.SAGE, Reach.GRAPH, 0, None):
            expected = "sage: the mean over the vertex and its neighbours"
            raise InputError("edge_weight", "stands in a layer that takes no attributes of edges", expected)

    @property
    def f_in(self) -> int:
        """Features of an input row."""
        return int(self.weight.shape[0])

    @property
    def f_out(self) -> int:
        """Features of a result."""
        return int(self.weight.shape[1])


@dataclass(frozen=True, eq=False)
class FloatModel:
    """A network.

    Attributes
    ----------
    layers
        At least one; each takes the results of the one before it.

    Raises
    ------
    InputError
        If there is none or widths of successive layers differ.
    """

    layers: tuple[FloatLayer, ...]

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError("model", "has no layers", "at least one")
        for number, (left, right) in enumerate(zip(self.layers, self.layers[1:], strict=False)):
            if left.f_out != right.f_in:
                expected = f"[{left.f_out}, f_out] after the layer before it"
                raise InputError(f"layer{number + 1}.weight", f"is {list(right.weight.shape)}", expected)
            if right.edge_weight is not None:
                what = "takes attributes of edges"
                raise InputError(f"layer{number + 1}.edge_weight", what, "the first layer alone to take them")

    @classmethod
    def uniform(
        cls,
        model: Model,
        weights: Sequence[FloatArray],
        biases: Sequence[FloatArray],
        eps: Sequence[float],
        activation: str = RELU,
    ) -> Self:
        """Return a network whose layers all reach the graph, with the activation between them only.

        Parameters
        ----------
        model
            Which network.
        weights, biases
            float64 [f_in, f_out] and [f_out] of every layer.
        eps
            One a layer.
        activation
            A name of `golden.model.activation.FUNCTIONS`.

        Raises
        ------
        InputError
            As for the classes, or if numbers of arrays differ.
        """
        function_of(activation)
        if not weights or not len(weights) == len(biases) == len(eps):
            found = f"{len(weights)} weights, {len(biases)} biases, {len(eps)} eps"
            raise InputError("model", found, "as many of each, at least one")
        layers: list[FloatLayer] = []
        for number, (weight, bias, own) in enumerate(zip(weights, biases, eps, strict=True)):
            behind = activation if number + 1 < len(weights) else None
            try:
                layers.append(FloatLayer(weight, bias, model, own, activation=behind))
            except InputError as error:
                part = "" if error.where == "layer" else f".{error.where}"
                raise InputError(f"layer{number}{part}", error.what, error.expected) from None
        return cls(tuple(layers))

    def changed(self, **values: Sequence[Any]) -> Self:
        """Return the network with other values of some fields, one for every layer."""
        named = (dict(zip(values, each, strict=True)) for each in zip(*values.values(), strict=True))
        return type(self)(tuple(replace(layer, **new) for layer, new in zip(self.layers, named, strict=True)))

    @property
    def model(self) -> Model:
        """Model of the first layer that reaches the graph, GCN if none does: the name that the network goes by."""
        return next((layer.model for layer in self.layers if layer.reach == Reach.GRAPH), Model.GCN)

    @property
    def activation(self) -> str:
        """The first activation that is not ReLU, else ReLU."""
        names = [layer.activation for layer in self.layers if layer.activation is not None]
        return next((name for name in names if name != RELU), RELU)

    @property
    def f_in(self) -> int:
        """Features of an input row."""
        return self.layers[0].f_in

    @property
    def weights(self) -> tuple[FloatArray, ...]:
        """Matrix of every layer."""
        return tuple(layer.weight for layer in self.layers)

    @property
    def biases(self) -> tuple[FloatArray, ...]:
        """Biases of every layer."""
        return tuple(layer.bias for layer in self.layers)

    @property
    def eps(self) -> tuple[float, ...]:
        """The eps of every layer."""
        return tuple(layer.eps for layer in self.layers)

    @property
    def edge_features(self) -> int:
        """Attributes of an edge that the first layer takes; 0: none."""
        weight = self.layers[0].edge_weight
        return 0 if weight is None else int(weight.shape[0])

    def check_graph(self, graph: Graph) -> None:
        """Refuse a graph that does not have the features and attributes that the first layer takes.

        Raises
        ------
        InputError
            Naming what there is and what was expected.
        """
        if graph.feature_count != self.f_in:
            where, what = f"graph {graph.name}, features", f"there are {graph.feature_count}"
            raise InputError(where, what, f"{self.f_in}, as layer 0 takes")
        if graph.edge_feature_count != self.edge_features:
            where, what = f"graph {graph.name}, edges", f"have {graph.edge_feature_count} attributes"
            expected = f"{self.edge_features}, as layer 0 takes"
            if not self.edge_features:
                expected = "a sage that takes them, or --no-edge-attributes to leave them out"
            raise InputError(where, what, expected)

    def forward(self, graph: Graph) -> list[tuple[FloatArray, FloatArray]]:
        """Rows s_src * (H W) and results of every layer: float64 [nodes, f_out] each.

        Raises
        ------
        InputError
            If the graph has another number of features than the first layer takes or no small graphs to read out, or a
            result overflows.
        """
        self.check_graph(graph)
        return self.forward_from(0, graph.features.astype(np.float64), graph)

    def forward_from(self, first: int, rows: Any, graph: Graph) -> list[tuple[FloatArray, FloatArray]]:
        """As :meth:`forward`, of the layers from `first` on; `rows` enter it."""
        layers = []
        for number, layer in enumerate(self.layers[first:], first):
            adjacency, source, destination = reached(layer, graph)
            with np.errstate(over="ignore", invalid="ignore"):
                combined = np.asarray(rows @ layer.weight) * source[:, None]
                if layer.attention:
                    rows = attended(adjacency, combined, layer.attention) + layer.bias
                else:
                    sums = adjacency @ combined + (1 + layer.eps) * combined
                    if layer.edge_weight is not None:
                        sums += graph.edge_sums @ layer.edge_weight
                    own = 0.0 if layer.root is None else np.asarray(rows @ layer.root)
                    rows = sums * destination[:, None] + own + layer.bias
            if not np.isfinite(rows).all():
                expected = "smaller weights or features: rescale them"
                raise InputError(f"layer {number}", "has results that overflow", expected)
            if layer.activation is not None:
                rows = function_of(layer.activation).value(rows)
            layers.append((combined, rows))
        return layers

    def predictions(self, graph: Graph) -> npt.NDArray[np.int64]:
        """int64 [nodes], class of every node."""
        return np.argmax(self.forward(graph)[-1][1], axis=1).astype(np.int64)


class Real(NamedTuple):
    """Whom a layer sums, and its factors.

    Attributes
    ----------
    adjacency
        ``csr_array`` [nodes, nodes], without the vertex itself.
    source, destination
        s_src and s_dst of every vertex, float64 [nodes].
    """

    adjacency: Any
    source: FloatArray
    destination: FloatArray


def attended(adjacency: Any, combined: FloatArray, attention: FloatAttention) -> FloatArray:
    """Return the rows of attention over the neighbours and the vertex itself: float64 [nodes, f_out].

    Parameters
    ----------
    adjacency
        ``csr_array`` [nodes, nodes], without the vertex itself.
    combined
        float64 [nodes, f_out], scores in front of channels.
    attention
        Of the layer.
    """
    nodes, results = combined.shape[0], np.zeros_like(combined)
    whole = sparse.csr_array(adjacency + sparse.eye_array(nodes, format="csr"))
    whole.sort_indices()
    destinations = np.repeat(np.arange(nodes), np.diff(whole.indptr))
    for head in range(attention.heads.heads if nodes else 0):
        columns = slice(attention.heads.block(head).start, attention.heads.block(head).stop)
        rows = combined[:, columns]
        scores = rows[whole.indices, 0] + rows[destinations, 1]
        scores = np.where(scores > 0, scores, scores * attention.slope)
        powers = np.exp2(scores - np.maximum.reduceat(scores, whole.indptr[:-1])[destinations])
        shares = powers / np.add.reduceat(powers, whole.indptr[:-1])[destinations]
        results[:, columns] = sparse.csr_array((shares, whole.indices, whole.indptr), shape=whole.shape) @ rows
    return results


def reached(layer: FloatLayer, graph: Graph) -> Real:
    """Return whom a layer sums on a graph.

    Raises
    ------
    InputError
        If it reads out small graphs and the graph has none, or takes no weights and the graph's edges have some.
    """
    one = np.ones(graph.nodes)
    if layer.reach == Reach.NODE:
        return Real(sparse.csr_array((graph.nodes, graph.nodes)), one, one)
    if weighted(layer, graph):
        factor = weighted_factors(graph) if layer.model == Model.GCN else one
        return Real(graph.weighted_adjacency, factor, factor)
    if layer.reach == Reach.GRAPH:
        return Real(graph.adjacency, *factors(layer.model, graph.degrees, layer.eps))
    members, graphs = members_of(graph)
    shape = (graph.nodes, graph.nodes)
    inside = sparse.csr_array((np.ones(members.size), (graphs, members)), shape=shape)
    count = np.bincount(graphs, minlength=graph.nodes)
    source, destination = np.zeros(graph.nodes), np.zeros(graph.nodes)
    source[members] = 1
    # Members get no result of their own, only the bias.
    stands = count > 0
    destination[stands] = 1 / count[stands] if layer.model == Model.SAGE else 1
    return Real(inside, source, destination)


def weighted(layer: FloatLayer, graph: Graph) -> bool:
    """Return whether a layer multiplies the rows of a graph by the weights of the edges.

    That is a GCN, or a sum of the neighbours alone, as GraphConv.

    Raises
    ------
    InputError
        If it sums along the edges, they have weights, and its model takes none.
    """
    if layer.reach != Reach.GRAPH or graph.edge_weight is None:
        return False
    takes = layer.model == Model.GCN or (layer.model == Model.GIN and layer.eps == -1)
    if layer.attention or not takes:
        what = f"have weights, which {'attention' if layer.attention else layer.model.name} does not take"
        raise InputError(f"graph {graph.name}, edges", what, "GCN, or --no-edge-weights to let every edge count once")
    return True


def members_of(graph: Graph) -> tuple[IntArray, IntArray]:
    """Return the VIDs of vertices in small graphs, ascending, and of the vertex that stands for each one's graph.

    Raises
    ------
    InputError
        If the graph is not a batch of small graphs.
    """
    if graph.graph_of is None:
        expected = "a batch of small graphs (docs/datasets.md)"
        raise InputError(f"graph {graph.name}", "is one graph, and the network reads out several", expected)
    members = np.flatnonzero(graph.graph_of >= 0)
    return members, graph.graph_of[members]


def propagation(model: Model, graph: Graph, eps: float = 0.0) -> Any:
    """``csr_array`` float64 [nodes, nodes], the matrix of a layer's aggregation."""
    return _matrix(Real(graph.adjacency, *factors(model, graph.degrees, eps)), eps)


def spread(layer: FloatLayer, graph: Graph) -> Any:
    """``csr_array`` float64 [nodes, nodes], the matrix of a layer's aggregation on whom it reaches."""
    return _matrix(reached(layer, graph), layer.eps)


def _matrix(real: Real, eps: float) -> Any:
    """s_dst * (A + (1 + eps) I) * s_src."""
    whole = real.adjacency.astype(np.float64) + sparse.eye_array(real.source.size) * (1 + eps)
    return sparse.csr_array(sparse.diags_array(real.destination) @ whole @ sparse.diags_array(real.source))


def accuracy(predictions: npt.NDArray[np.int64], graph: Graph, mask: BoolArray) -> float | None:
    """Accuracy on the masked nodes with known class; None if there are none."""
    chosen = mask & (graph.labels >= 0)
    return float(np.mean(predictions[chosen] == graph.labels[chosen])) if chosen.any() else None
