"""A layered network in the processors' arithmetic, the same bits as their programs give, but without clocks (D9).

Activations are Q0.15, weights, biases and sums Q3.12. Errors are kept four times their size: δ of the output layer in
Q0.15, δ of hidden layers in Q3.12.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from contracts.dnp.config import FRACTION, HIGHEST, LOWEST, WORD
from golden.dnp.arithmetic import Ints, invert, product, product_rounded, saturate
from golden.dnp.placement import Placement

__all__ = [
    "ERROR_SHIFT",
    "WEIGHT_FRACTION",
    "Learning",
    "Network",
    "NetworkModel",
    "saturating_sum",
    "sigmoid_table",
    "table_of",
]

Floats: TypeAlias = npt.NDArray[np.float64]
#: Fraction bits of weights and sums.
WEIGHT_FRACTION = 12
#: Errors are kept 2² times their size; the largest, 4/27, stays below 1.
ERROR_SHIFT = 2


def table_of(function: Callable[[Floats], Floats], bits: int = 8, fraction: int = FRACTION) -> Ints:
    """Table of a function of real numbers, for sums in Q3.12.

    Parameters
    ----------
    function
        Takes and returns float64 arrays.
    bits
        Logarithm of the table's size.
    fraction
        Fraction bits of a result.

    Returns
    -------
    ndarray
        int64 [2^bits]. Entry i stands for the sums v with (v + 32,768) >> (16 - bits) = i and holds the function of
        their middle, to nearest with halves to even, saturated to 16 bits.
    """
    step = 1 << (WORD - bits)
    middle = np.arange(1 << bits) * step + step / 2 + LOWEST
    return saturate(np.rint(np.ldexp(function(np.ldexp(middle, -WEIGHT_FRACTION)), fraction)).astype(np.int64))


def sigmoid_table(bits: int) -> Ints:
    """Table of the logistic function (eq. 1), Q0.15, shape (2^bits,).

    Entry i stands for the sums v with (v + 32,768) >> (16 - bits) = i and holds the function of their middle.
    """
    return table_of(lambda sums: 1 / (1 + np.exp(-sums)), bits)


def saturating_sum(addends: Ints) -> Ints:
    """Sum along the last axis from left to right, saturated after every addition."""
    running = np.cumsum(addends, axis=-1)
    total = np.asarray(running[..., -1])
    if running.max(initial=0) <= HIGHEST and running.min(initial=0) >= LOWEST:
        return total
    over = ((running > HIGHEST) | (running < LOWEST)).any(axis=-1)
    exact = np.zeros(int(over.sum()), dtype=np.int64)
    for column in np.moveaxis(addends[over], -1, 0):
        exact = saturate(exact + column)
    total = total.copy()
    total[over] = exact
    return total


@dataclass
class Network:
    """A layered network with one activation function.

    Attributes
    ----------
    weights
        Per layer int64, Q3.12, shape (outputs, inputs).
    biases
        Per layer int64, Q3.12, shape (outputs,).
    """

    weights: list[Ints]
    biases: list[Ints]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Neurons of every layer, inputs first."""
        return (self.weights[0].shape[1], *(w.shape[0] for w in self.weights))

    def copy(self) -> "Network":
        """Return a network with arrays of its own."""
        return Network([w.copy() for w in self.weights], [b.copy() for b in self.biases])

    @classmethod
    def from_float(cls, weights: Sequence[npt.ArrayLike], biases: Sequence[npt.ArrayLike]) -> "Network":
        """Round float weights, shape (outputs, inputs), to Q3.12; what is too large saturates."""

        def quantise(values: npt.ArrayLike) -> Ints:
            return saturate(np.round(np.asarray(values) * (1 << WEIGHT_FRACTION)).astype(np.int64))

        return cls([quantise(w) for w in weights], [quantise(b) for b in biases])

    @classmethod
    def from_classifier(cls, classifier: Any) -> "Network":
        """Take the weights of a fitted scikit-learn ``MLPClassifier`` with logistic hidden units.

        Raises
        ------
        ValueError
            If its hidden activation is not ``logistic``.
        """
        if classifier.activation != "logistic":
            raise ValueError(f"activation must be 'logistic', not {classifier.activation!r}")
        return cls.from_float([w.T for w in classifier.coefs_], classifier.intercepts_)

    @classmethod
    def random(cls, sizes: Sequence[int], seed: int, spread: float = 0.3) -> "Network":
        """Make a network with weights uniform in ±spread and no biases."""
        rng = np.random.default_rng(seed)
        weights = [rng.uniform(-spread, spread, (o, i)) for i, o in pairwise(sizes)]
        return cls.from_float(weights, [np.zeros(len(w)) for w in weights])


@dataclass(frozen=True)
class Learning:
    """Constants of eq. 4.

    Attributes
    ----------
    rate
        η, below 4.
    momentum
        α, 0..1; 1 leaves out its product.

    Raises
    ------
    ValueError
        If a constant is out of range.
    """

    rate: float = 0.5
    momentum: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.rate < 4:
            raise ValueError(f"rate must be above 0 and below 4, not {self.rate!r}")
        if not 0 <= self.momentum <= 1:
            raise ValueError(f"momentum must be in 0..1, not {self.momentum!r}")

    def factor(self, *, output: bool) -> int:
        """η as a factor of δ: without δ's scale, and from Q0.15 to Q3.12 in the output layer."""
        bits = FRACTION - ERROR_SHIFT - ((FRACTION - WEIGHT_FRACTION) if output else 0)
        return round(self.rate * (1 << bits))

    @property
    def momentum_factor(self) -> int | None:
        """α in Q0.15, ``None`` for 1."""
        return None if self.momentum == 1 else round(self.momentum * (1 << FRACTION))


class NetworkModel:
    """Forward passes and learning steps with every sum in the order the array adds it.

    Parameters
    ----------
    network
        Weights; learning changes them in place.
    placement
        Decides the order of addition.
    table_bits
        Size of the activation's table.
    """

    def __init__(self, network: Network, placement: Placement, table_bits: int = 8) -> None:
        self.network, self.placement = network, placement
        self.shift = WORD - table_bits
        self.table = sigmoid_table(table_bits)
        self.forward_orders = [placement.sum_orders(layer) for layer in placement.layers]
        hidden = list(placement.layers)[:-1]
        self.backward_orders = [placement.sum_orders(layer, backward=True) for layer in hidden]

    def _sums(self, weights: Ints, values: Ints, orders: npt.NDArray[np.int64]) -> Ints:
        """Saturating Σ W·X for every row of the weights, in the given order of addition."""
        products = np.zeros((weights.shape[0], weights.shape[1] + 1), dtype=np.int64)
        products[:, :-1] = product(weights, values)
        ordered = np.take_along_axis(products, orders.reshape(len(weights), -1), axis=1).reshape(orders.shape)
        return saturating_sum(saturating_sum(ordered))

    def forward(self, inputs: Ints) -> list[Ints]:
        """Activations of all layers, inputs first (eq. 1)."""
        layers = [np.asarray(inputs, dtype=np.int64)]
        for weights, biases, orders in zip(self.network.weights, self.network.biases, self.forward_orders, strict=True):
            total = saturate(self._sums(weights, layers[-1], orders) + biases)
            layers.append(self.table[(total - LOWEST) >> self.shift])
        return layers

    def errors(self, layers: list[Ints], target: Ints) -> list[Ints]:
        """δ of every layer with weights (eq. 2 and 3)."""
        output = layers[-1]
        slope = saturate(product(output, invert(output)))
        deltas = [saturate(product(slope, saturate(target - output))) << ERROR_SHIFT]
        for index in range(len(layers) - 3, -1, -1):
            above = self.network.weights[index + 1]
            total = self._sums(above.T, deltas[0], self.backward_orders[index])
            own = layers[index + 1]
            deltas.insert(0, saturate(product(saturate(product(own, total)), invert(own))))
        return deltas

    def learn(self, inputs: Ints, target: Ints, learning: Learning) -> Ints:
        """One step of eq. 4; returns the outputs before it."""
        layers = self.forward(inputs)
        deltas = self.errors(layers, target)
        last = len(deltas) - 1
        for index, delta in enumerate(deltas):
            weights, biases = self.network.weights[index], self.network.biases[index]
            step = saturate(product_rounded(np.asarray(learning.factor(output=index == last)), delta))
            if learning.momentum_factor is not None:
                weights[:] = saturate(product_rounded(np.asarray(learning.momentum_factor), weights))
            weights[:] = saturate(weights + product_rounded(step[:, None], layers[index][None, :]))
            biases[:] = saturate(biases + step)
        return layers[-1]
