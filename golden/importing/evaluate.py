"""A recognised network in floating point, layer by layer as PyTorch Geometric computes it in evaluation mode."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from contracts import Model
from contracts.errors import InputError
from golden.graph import Graph
from golden.importing.layers import GATConv, GCNConv, GINConv, Layer, Linear, Norm, SAGEConv, Stage
from golden.model.activation import function_of
from golden.model.float_model import FloatArray, propagation

__all__ = ["evaluate"]

#: What PyTorch Geometric adds to the sum of exponents.
_SOFTMAX_EPS = 1e-16


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused at the end
def evaluate(layers: Sequence[Layer], graph: Graph, self_loops: bool = False) -> FloatArray:
    """Return the results of the last layer, float64 [nodes, f_out].

    Parameters
    ----------
    layers
        Network.
    graph
        Graph without self loops, as all are.
    self_loops
        Whether every node gets one, as with PyTorch Geometric's ``add_self_loops``.

    Raises
    ------
    InputError
        If the graph has another number of features than the first layer takes, or a result overflows.
    """
    if graph.feature_count != layers[0].operation.f_in:
        expected = f"{layers[0].operation.f_in}, as {layers[0].name} takes"
        raise InputError(f"graph {graph.name}, features", f"there are {graph.feature_count}", expected)
    own = sparse.eye_array(graph.nodes, format="csr")
    adjacency = graph.adjacency.astype(np.float64)
    if self_loops:
        adjacency = sparse.csr_array(adjacency + own)
    rows: Any = graph.features.astype(np.float64)
    for layer in layers:
        match layer.operation:
            case Linear():
                rows = _linear(rows, layer.operation)
            case GCNConv(linear):
                rows = propagation(Model.GCN, graph) @ np.asarray(rows @ linear.weight) + linear.bias
            case SAGEConv(linear, root, aggregation):
                own_rows = 0.0 if root is None else np.asarray(rows @ root)
                rows = _linear(_aggregated(adjacency, rows, aggregation), linear) + own_rows
            case GINConv(stages, eps):
                rows = adjacency @ rows + rows * (1 + eps)
                for stage in stages:
                    rows = _end(_linear(rows, stage.linear), stage)
            case GATConv():
                rows = _attention(sparse.csr_array(graph.adjacency.astype(np.float64) + own), rows, layer.operation)
        rows = _end(rows, layer)
        if not np.isfinite(rows).all():
            raise InputError(layer.name, "has results that overflow", "smaller weights or features: rescale them")
    return np.asarray(rows)


def _linear(rows: Any, linear: Linear) -> FloatArray:
    return np.asarray(rows @ linear.weight) + linear.bias


def _end(rows: Any, layer: Layer | Stage) -> FloatArray:
    """Apply norm and activation."""

    def act(values: Any) -> Any:
        return values if layer.activation is None else function_of(layer.activation).value(values)

    def normalised(values: Any, norm: Norm | None) -> Any:
        return values if norm is None else values * norm.scale + norm.shift

    return normalised(act(rows), layer.norm) if layer.act_first else act(normalised(rows, layer.norm))


def _aggregated(adjacency: Any, rows: Any, aggregation: str) -> Any:
    """Return mean, sum or maximum of the rows of the neighbours; zeros where there are none."""
    if aggregation != "max":
        sums = adjacency @ rows
        degrees = np.maximum(np.diff(adjacency.indptr), 1)
        return sums if aggregation == "sum" else sparse.diags_array(1 / degrees) @ sums
    values = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    some = np.diff(adjacency.indptr) > 0
    result = np.zeros((adjacency.shape[0], values.shape[1]))
    if some.any():
        result[some] = np.maximum.reduceat(values[adjacency.indices], adjacency.indptr[:-1][some], axis=0)
    return result


def _attention(adjacency: Any, rows: Any, layer: GATConv) -> FloatArray:
    """Return the rows of attention over an adjacency that has the nodes themselves."""
    nodes, (heads, channels) = adjacency.shape[0], layer.source.shape
    combined = np.asarray(rows @ layer.weight).reshape(nodes, heads, channels)
    results = np.empty((nodes, heads, channels))
    for head in range(heads):
        values = combined[:, head]
        sources, destinations = adjacency.indices, np.repeat(np.arange(nodes), np.diff(adjacency.indptr))
        scores = (values @ layer.source[head])[sources] + (values @ layer.destination[head])[destinations]
        scores = np.where(scores > 0, scores, scores * layer.negative_slope)
        if nodes:
            scores = np.exp(scores - np.maximum.reduceat(scores, adjacency.indptr[:-1])[destinations])
        weights = sparse.csr_array((scores, sources, adjacency.indptr), shape=adjacency.shape)
        results[:, head] = (weights @ values) / (weights.sum(axis=1) + _SOFTMAX_EPS)[:, None]
    out = results.reshape(nodes, -1) if layer.concat else results.mean(axis=1)
    if layer.residual is not None:
        out = out + np.asarray(rows @ layer.residual)
    return out if layer.bias is None else out + layer.bias
