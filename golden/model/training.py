"""Training in floating point on the CPU: full batch, Adam, dropout, weight decay, seconds for Cora."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from contracts import Model
from contracts.errors import InputError
from golden.graph import BoolArray, Graph
from golden.model.activation import RELU, function_of
from golden.model.float_model import FloatArray, FloatLayer, FloatModel, Reach, reached, spread

__all__ = ["LAYERS_MAX", "Training", "learnable", "train", "untrained"]

#: Most layers of the training; a weight file may have more.
LAYERS_MAX = 32


@dataclass(frozen=True)
class Training:
    """Settings of the training.

    Attributes
    ----------
    layers
        1..32; of a batch of small graphs without the readout behind them.
    hidden
        Width of hidden layers.
    seed
        Seed of initial weights and dropout.
    epochs
        Steps over the whole graph.
    rate
        Learning rate of Adam.
    dropout
        Fraction of every layer's input that is dropped, 0 to below 1.
    decay
        Weight decay of the first layer's weights.
    activation
        Between layers: a name of `golden.model.activation.FUNCTIONS`.

    Raises
    ------
    InputError
        If one is out of range.
    """

    layers: int = 2
    hidden: int = 16
    seed: int = 0
    epochs: int = 200
    rate: float = 0.01
    dropout: float = 0.5
    decay: float = 5e-4
    activation: str = RELU

    def __post_init__(self) -> None:
        function_of(self.activation)
        for name, low, high in (
            ("layers", 1, LAYERS_MAX),
            ("hidden", 1, 1 << 12),
            ("seed", 0, (1 << 32) - 1),
            ("epochs", 1, 1 << 20),
            ("rate", 1e-9, 10),
            ("dropout", 0, 1 - 1e-9),
            ("decay", 0, 1),
        ):
            if not low <= getattr(self, name) <= high:
                raise InputError(name, f"is {getattr(self, name)}", f"{low}..{high}")


def learnable(graph: Graph) -> BoolArray:
    """Return the training nodes of known class: bool [nodes].

    Raises
    ------
    InputError
        If there are none.
    """
    learnt: BoolArray = graph.train & (graph.labels >= 0)
    if not learnt.any():
        raise InputError(
            f"graph {graph.name}, train",
            "has no node of known class",
            "at least one to train on, or weights (--model-file)",
        )
    return learnt


def untrained(graph: Graph, model: Model, how: Training) -> FloatModel:
    """Return the network that `train` trains, with zeros for its parameters.

    For nodes, the last of its layers gives the classes. For small graphs, one more layer does: the mean over the nodes
    of each graph times a matrix.
    """
    batch = graph.graph_of is not None
    widths = [graph.feature_count, *[how.hidden] * (how.layers - 1 + batch), graph.classes]
    layers = [
        FloatLayer(np.zeros(shape), np.zeros(shape[1]), model, activation=how.activation) for shape in pairwise(widths)
    ]
    if graph.edge_attributes is not None:
        if model != Model.SAGE:
            what = f"have attributes, which {model.name} does not take"
            raise InputError(f"graph {graph.name}, edges", what, "SAGE, or --no-edge-attributes to leave them out")
        layers[0] = replace(layers[0], edge_weight=np.zeros((graph.edge_feature_count, layers[0].f_out)))
    reach = Reach.MEMBERS if batch else Reach.GRAPH
    last = replace(layers[-1], model=Model.SAGE if batch else model, reach=reach, activation=None)
    return FloatModel((*layers[:-1], last))


def train(graph: Graph, model: Model, how: Training | None = None) -> FloatModel:
    """Train a network to classify nodes, or small graphs; the parameters of the best validation epoch are kept.

    Parameters
    ----------
    graph
        The training nodes are learnt; the validation nodes select the epoch. Of a batch of small graphs, its graph
        vertices are the nodes of known class.
    model
        Which network; eps of GIN stays 0.
    how
        Settings.

    Raises
    ------
    InputError
        If the graph has no training node of known class.
    """
    how = how or Training()
    learnt = learnable(graph)
    run = _Run(graph, model, how)
    checked = np.flatnonzero(graph.validation & (graph.labels >= 0))
    best, kept = (-1.0, -np.inf), run.snapshot()
    for _ in range(how.epochs):
        run.step(np.flatnonzero(learnt))
        if checked.size:
            score = run.score(checked)
            if score > best:
                best, kept = score, run.snapshot()
        else:
            kept = run.snapshot()
    weights = [weight * factor for weight, factor in zip(kept[0::2], run.factors, strict=True)]
    trained = run.network.changed(
        bias=kept[1::2], weight=[each[: layer.f_in] for each, layer in zip(weights, run.network.layers, strict=True)]
    )
    if not trained.edge_features:
        return trained
    first = replace(trained.layers[0], edge_weight=weights[0][trained.f_in :])
    return FloatModel((first, *trained.layers[1:]))


class _Run:
    """Parameters (weight, bias, weight, bias, ...), their moments and the passes over the graph."""

    def __init__(self, graph: Graph, model: Model, how: Training) -> None:
        self.how, self.function = how, function_of(how.activation)
        self.network = untrained(graph, model, how)
        self.labels = graph.labels
        self.rng = np.random.default_rng(how.seed)
        self.spreads: list[Any] = []
        self.gathers: list[Any] = []
        self.factors: list[float] = []
        for number, layer in enumerate(self.network.layers):
            if number and layer.reach == self.network.layers[number - 1].reach:
                self._reuse()
            else:
                self._reach(spread(layer, graph))
        self.inputs: Any = graph.features.astype(np.float64)
        if self.network.edge_features:
            self._take_edges(graph)
        self.parameters: list[FloatArray] = []
        for number, layer in enumerate(self.network.layers):
            rows = layer.f_in + (0 if number else self.network.edge_features)
            limit = np.sqrt(6 / (rows + layer.f_out))
            self.parameters += [self.rng.uniform(-limit, limit, (rows, layer.f_out)), np.zeros(layer.f_out)]
        self.moments = [(np.zeros_like(p), np.zeros_like(p)) for p in self.parameters]
        self.time = 0

    def _reach(self, matrix: Any) -> None:
        """Add whom a layer sums.

        Sums over neighbourhoods multiply every step by the degree; means drop it. Learn between the two and move the
        factor into the weights at the end. For GCN, SAGE and a mean over small graphs it is near 1.
        """
        sums = abs(matrix).sum(axis=1)
        self.factors.append(max(float(sums[sums > 0].mean()) if sums.any() else 0.0, 1e-9) ** -0.5)
        self.spreads.append(matrix * self.factors[-1])
        self.gathers.append(sparse.csr_array(self.spreads[-1].T))

    def _take_edges(self, graph: Graph) -> None:
        """Let the first layer take attributes of edges: one more vertex for each, whose only feature it is.

        A vertex sums it as many times as its edges have of it, divided like the rest.
        """
        count, first = self.network.edge_features, self.network.layers[0]
        means = sparse.csr_array(graph.edge_sums * reached(first, graph).destination[:, None] * self.factors[0])
        self.spreads[0] = sparse.hstack([self.spreads[0], means], format="csr")
        self.gathers[0] = sparse.csr_array(self.spreads[0].T)
        if sparse.issparse(self.inputs):
            self.inputs = sparse.block_diag([self.inputs, sparse.eye_array(count)], format="csr")
        else:
            whole = np.zeros((graph.nodes + count, graph.feature_count + count))
            whole[: graph.nodes, : graph.feature_count] = self.inputs
            whole[graph.nodes :, graph.feature_count :] = np.eye(count)
            self.inputs = whole

    def _reuse(self) -> None:
        """Add whom the layer before sums."""
        for each in (self.factors, self.spreads, self.gathers):
            each.append(each[-1])

    def snapshot(self) -> list[FloatArray]:
        return [parameter.copy() for parameter in self.parameters]

    def forward(self, drop: bool) -> tuple[list[Any], list[FloatArray], FloatArray]:
        """Input rows of every layer, their slopes by the sums before them (none for the first), the last results."""
        rows, inputs, slopes = self.inputs, [], []
        for number, spread_of in enumerate(self.spreads):
            slope = np.zeros(0)
            if number:
                rows = self.function.value(rows)
                slope = self.function.slope(rows)
            if drop:
                rows, slope = self._dropped(rows, slope)
            inputs.append(rows)
            slopes.append(slope)
            rows = spread_of @ (rows @ self.parameters[2 * number]) + self.parameters[2 * number + 1]
        return inputs, slopes, rows

    def _dropped(self, rows: Any, slope: FloatArray) -> tuple[Any, FloatArray]:
        """Drop some of the rows' values, with their slopes if there are any; scale the others up."""
        keep = 1 - self.how.dropout
        values = rows.data if sparse.issparse(rows) else rows
        kept = self.rng.random(values.shape) < keep
        values = values * kept / keep
        if slope.size:
            slope = slope * kept / keep
        if sparse.issparse(rows):
            values = sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
        return values, slope

    def score(self, chosen: Any) -> tuple[float, float]:
        """Accuracy, then mean log-likelihood."""
        logits = self.forward(drop=False)[2][chosen]
        labels = self.labels[chosen]
        likely = np.log(_softmax(logits)[np.arange(labels.size), labels] + 1e-30)
        return float(np.mean(logits.argmax(axis=1) == labels)), float(likely.mean())

    def step(self, chosen: Any) -> None:
        """One step of Adam on the mean cross-entropy of some nodes."""
        inputs, slopes, results = self.forward(drop=True)
        slope = np.zeros_like(results)
        share = _softmax(results[chosen])
        share[np.arange(chosen.size), self.labels[chosen]] -= 1
        slope[chosen] = share / chosen.size
        gradients: list[FloatArray] = []
        for number in reversed(range(len(inputs))):
            gathered = self.gathers[number] @ slope
            gradients = [np.asarray(inputs[number].T @ gathered), slope.sum(axis=0), *gradients]
            if number:
                slope = (gathered @ self.parameters[2 * number].T) * slopes[number]
        gradients[0] += self.how.decay * self.parameters[0]
        self._adam(gradients)

    def _adam(self, gradients: list[FloatArray]) -> None:
        self.time += 1
        for parameter, gradient, (mean, square) in zip(self.parameters, gradients, self.moments, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient * gradient - square)
            unbiased = mean / (1 - 0.9**self.time), square / (1 - 0.999**self.time)
            parameter -= self.how.rate * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)


def _softmax(logits: FloatArray) -> FloatArray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
