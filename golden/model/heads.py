"""Layers of attention as the machine has them: scores beside the channels, and what comes behind."""

from dataclasses import replace

import numpy as np

from contracts import Model
from contracts.attention import CHANNELS, Heads
from contracts.errors import InputError
from contracts.weights import GRANULE
from golden.model.float_model import FloatArray, FloatAttention, FloatLayer, Reach

__all__ = ["attention_layer", "behind", "merged"]


def attention_layer(
    weight: FloatArray,
    source: FloatArray,
    destination: FloatArray,
    bias: FloatArray,
    slope: float,
    activation: str | None = None,
) -> FloatLayer:
    """Return a layer whose heads stand side by side, with scores in front of each granule's channels.

    Parameters
    ----------
    weight
        float64 [f_in, heads * channels].
    source, destination
        float64 [heads, channels], attention to the source and to the destination of an edge.
    bias
        float64 [heads * channels].
    slope
        Of the LeakyReLU on scores.
    activation
        Behind it: a name of `golden.model.activation.FUNCTIONS`, or None.

    Raises
    ------
    InputError
        If a shape does not fit.
    """
    heads = Heads(*source.shape)
    expected = f"[f_in, {heads.heads} heads times {heads.channels} channels]"
    if weight.ndim != 2 or weight.shape[1] != source.size or destination.shape != source.shape:
        raise InputError("weight", f"is {list(weight.shape)}", expected)
    whole, biases = np.zeros((weight.shape[0], heads.columns)), np.zeros(heads.columns)
    whole[:, heads.places()], biases[heads.places()] = weight, bias
    for head, columns in enumerate(np.split(np.arange(source.size), heads.heads)):
        for part in range(0, heads.channels, CHANNELS):
            first = head * heads.distance + part // CHANNELS * GRANULE
            for place, vector in enumerate((source[head], destination[head])):
                # Exponents to the base 2 are what the machine computes.
                whole[:, first + place] = weight[:, columns] @ vector * np.log2(np.e)
    attention = FloatAttention(heads, slope)
    return FloatLayer(whole, biases, Model.GIN, activation=activation, attention=attention)


def behind(heads: Heads, layer: FloatLayer) -> FloatLayer:
    """Return a layer that takes channels as one that takes the rows of these heads."""

    def spread(matrix: FloatArray) -> FloatArray:
        rows = np.zeros((heads.columns, layer.f_out))
        rows[heads.places()] = matrix
        return rows

    return replace(layer, weight=spread(layer.weight), root=None if layer.root is None else spread(layer.root))


def merged(heads: Heads, bias: FloatArray, activation: str | None = None, *, mean: bool) -> FloatLayer:
    """Return a dense layer that takes the channels of these heads out of their rows, side by side or their mean.

    Parameters
    ----------
    heads
        Of the layer before.
    bias
        float64 [f_out].
    activation
        Behind it.
    mean
        Whether the mean of the heads is taken.
    """
    chosen = np.tile(np.eye(heads.channels) / heads.heads, (heads.heads, 1))
    if not mean:
        chosen = np.eye(heads.heads * heads.channels)
    return behind(heads, FloatLayer(chosen, bias, reach=Reach.NODE, activation=activation))
