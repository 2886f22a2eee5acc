"""The same networks in floating point, for training and as the reference of quantised results."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from contracts import Model
from contracts.errors import InputError
from golden.graph import BoolArray, Graph
from golden.model.activation import RELU, function_of
from golden.model.scale import factors

__all__ = ["FloatArray", "FloatModel", "accuracy", "propagation"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FloatModel:
    """A network: act(s_dst * sum of s_src * (H W) + b), the activation between layers only.

    Attributes
    ----------
    model
        Which network.
    weights
        float64 [f_in, f_out] of every layer.
    biases
        float64 [f_out] of every layer.
    eps
        GIN: weight of the node itself is 1 + eps, one a layer; 0 for the others.
    activation
        Between layers: a name of `golden.model.activation.FUNCTIONS`.

    Raises
    ------
    InputError
        If widths of successive layers differ, numbers of arrays differ, a number is not finite or there is no such
        activation.
    """

    model: Model
    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    eps: tuple[float, ...]
    activation: str = RELU

    def __post_init__(self) -> None:
        function_of(self.activation)
        if not self.weights or not len(self.weights) == len(self.biases) == len(self.eps):
            found = f"{len(self.weights)} weights, {len(self.biases)} biases, {len(self.eps)} eps"
            raise InputError("model", found, "as many of each, at least one")
        width = None
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if weight.ndim != 2 or 0 in weight.shape or (width is not None and weight.shape[0] != width):
                expected = "[f_in, f_out]" if width is None else f"[{width}, f_out] after the layer before it"
                raise InputError(f"layer{number}.weight", f"is {list(weight.shape)}", expected)
            width = weight.shape[1]
            if bias.shape != (width,):
                raise InputError(f"layer{number}.bias", f"is {list(bias.shape)}", f"[{width}]")
            if not (np.isfinite(weight).all() and np.isfinite(bias).all() and np.isfinite(self.eps[number])):
                raise InputError(f"layer{number}", "has a number that is not finite", "finite weights, biases and eps")

    def forward(self, graph: Graph) -> list[tuple[FloatArray, FloatArray]]:
        """Rows s_src * (H W) and results of every layer: float64 [nodes, f_out] each.

        Raises
        ------
        InputError
            If the graph has another number of features than the first layer takes, or a result overflows.
        """
        if graph.feature_count != self.weights[0].shape[0]:
            raise InputError(
                f"graph {graph.name}, features",
                f"there are {graph.feature_count}",
                f"{self.weights[0].shape[0]}, as layer 0",
            )
        rows: Any = graph.features.astype(np.float64)
        source, destination = factors(self.model, graph.degrees)
        layers = []
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            with np.errstate(over="ignore", invalid="ignore"):
                combined = np.asarray(rows @ weight) * source[:, None]
                sums = graph.adjacency @ combined + (1 + self.eps[number]) * combined
                rows = sums * destination[:, None] + bias
            if not np.isfinite(rows).all():
                expected = "smaller weights or features: rescale them"
                raise InputError(f"layer {number}", "has results that overflow", expected)
            if number + 1 < len(self.weights):
                rows = function_of(self.activation).value(rows)
            layers.append((combined, rows))
        return layers

    def predictions(self, graph: Graph) -> npt.NDArray[np.int64]:
        """int64 [nodes], class of every node."""
        return np.argmax(self.forward(graph)[-1][1], axis=1).astype(np.int64)


def propagation(model: Model, graph: Graph, eps: float = 0.0) -> Any:
    """``csr_array`` float64 [nodes, nodes], the matrix of a layer's aggregation."""
    source, destination = factors(model, graph.degrees)
    whole = graph.adjacency.astype(np.float64) + sparse.eye_array(graph.nodes) * (1 + eps)
    return sparse.csr_array(sparse.diags_array(destination) @ whole @ sparse.diags_array(source))


def accuracy(predictions: npt.NDArray[np.int64], graph: Graph, mask: BoolArray) -> float | None:
    """Accuracy on the masked nodes with known class; None if there are none."""
    chosen = mask & (graph.labels >= 0)
    return float(np.mean(predictions[chosen] == graph.labels[chosen])) if chosen.any() else None
