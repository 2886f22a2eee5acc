"""Training in floating point on the CPU: full batch, Adam, dropout, weight decay, seconds for Cora."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from contracts import Model
from contracts.errors import InputError
from golden.graph import BoolArray, Graph
from golden.model.activation import RELU, function_of
from golden.model.float_model import FloatArray, FloatModel, propagation

__all__ = ["LAYERS_MAX", "Training", "learnable", "train"]

#: Most layers of the training; a weight file may have more.
LAYERS_MAX = 32


@dataclass(frozen=True)
class Training:
    """Settings of the training.

    Attributes
    ----------
    layers
        1..3.
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


def train(graph: Graph, model: Model, how: Training | None = None) -> FloatModel:
    """Train a network for node classification; the parameters of the best validation epoch are kept.

    Parameters
    ----------
    graph
        The training nodes are learnt; the validation nodes select the epoch.
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
    weights, biases = [weight * run.factor for weight in kept[0::2]], kept[1::2]
    return FloatModel.uniform(model, tuple(weights), tuple(biases), (0.0,) * how.layers, how.activation)


class _Run:
    """Parameters (weight, bias, weight, bias, ...), their moments and the passes over the graph."""

    def __init__(self, graph: Graph, model: Model, how: Training) -> None:
        self.how, self.function = how, function_of(how.activation)
        self.labels = graph.labels
        self.rng = np.random.default_rng(how.seed)
        self.spread = propagation(model, graph)
        # Sums over neighbourhoods multiply every step by the degree; means drop it. Learn between the two and move
        # the factor into the weights at the end. For GCN and SAGE it is near 1.
        self.factor = max(float(self.spread.sum(axis=1).mean()), 1e-9) ** -0.5
        self.spread = self.spread * self.factor
        self.gather = sparse.csr_array(self.spread.T)
        self.inputs: Any = graph.features.astype(np.float64)
        widths = [graph.feature_count, *[how.hidden] * (how.layers - 1), graph.classes]
        self.parameters: list[FloatArray] = []
        for f_in, f_out in pairwise(widths):
            limit = np.sqrt(6 / (f_in + f_out))
            self.parameters += [self.rng.uniform(-limit, limit, (f_in, f_out)), np.zeros(f_out)]
        self.moments = [(np.zeros_like(p), np.zeros_like(p)) for p in self.parameters]
        self.time = 0

    def snapshot(self) -> list[FloatArray]:
        return [parameter.copy() for parameter in self.parameters]

    def forward(self, drop: bool) -> tuple[list[Any], list[FloatArray], FloatArray]:
        """Input rows of every layer, their slopes by the sums before them (none for the first), the last results."""
        rows, inputs, slopes = self.inputs, [], []
        for number in range(self.how.layers):
            slope = np.zeros(0)
            if number:
                rows = self.function.value(rows)
                slope = self.function.slope(rows)
            if drop:
                rows, slope = self._dropped(rows, slope)
            inputs.append(rows)
            slopes.append(slope)
            rows = self.spread @ (rows @ self.parameters[2 * number]) + self.parameters[2 * number + 1]
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
        for number in reversed(range(self.how.layers)):
            spread = self.gather @ slope
            gradients = [np.asarray(inputs[number].T @ spread), slope.sum(axis=0), *gradients]
            if number:
                slope = (spread @ self.parameters[2 * number].T) * slopes[number]
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
