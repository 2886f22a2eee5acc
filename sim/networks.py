"""Networks with random weights, layer by layer, for benches and benchmarks of whole machines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from contracts import Model
from contracts.attention import Heads
from golden.model.activation import RELU
from golden.model.float_model import FloatLayer, FloatModel, Reach
from golden.model.heads import attention_layer, behind, merged

__all__ = ["Form", "random_network"]


@dataclass(frozen=True)
class Form:
    """What a layer is like.

    Attributes
    ----------
    width
        Its results' features; with attention, the channels of a head.
    model, eps, reach, activation
        As for `golden.model.float_model.FloatLayer`.
    root
        Whether the vertex itself has a matrix of its own; eps is -1 then.
    heads
        Of attention; 0: none.
    mean
        Whether a dense layer behind takes the mean of the heads.
    """

    width: int
    model: Model = Model.GCN
    eps: float = 0.0
    reach: Reach = Reach.GRAPH
    activation: str | None = RELU
    root: bool = False
    heads: int = 0
    mean: bool = False


def random_network(seed: int, features: int, forms: Sequence[Form]) -> FloatModel:
    """Return a network with random weights; its last layer has no activation.

    Parameters
    ----------
    seed
        Of the weights.
    features
        That enter it.
    forms
        Of every layer, at least one.
    """
    random, layers = np.random.default_rng(seed), list[FloatLayer]()
    before: Heads | None = None
    for form in forms:
        shape = (features, max(form.heads, 1) * form.width)
        weight, bias = random.normal(size=shape) / np.sqrt(features), random.normal(size=shape[1]) / 4
        if form.heads:
            source, target = random.normal(size=(2, form.heads, form.width)) / np.sqrt(form.width)
            layer = attention_layer(weight, source, target, bias, 0.2, None if form.mean else form.activation)
        else:
            root = random.normal(size=shape) / np.sqrt(features) if form.root else None
            eps = -1.0 if form.root else form.eps
            layer = FloatLayer(weight, bias, form.model, eps, form.reach, form.activation, root=root)
        layers.append(behind(before, layer) if before else layer)
        before, features = (Heads(form.heads, form.width) if form.heads else None), shape[1]
        if before and form.mean:
            layers.append(merged(before, np.zeros(form.width), form.activation, mean=True))
            before, features = None, form.width
    if before:
        layers.append(merged(before, np.zeros(features), mean=False))
    return FloatModel((*layers[:-1], replace(layers[-1], activation=None)))
