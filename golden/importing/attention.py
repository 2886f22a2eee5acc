"""Attention layers of PyTorch Geometric as layers of the machine."""

import numpy as np

from contracts.attention import Heads
from golden.importing.layers import GATConv
from golden.model.float_model import FloatLayer
from golden.model.heads import attention_layer, merged

__all__ = ["attention_layers"]


def attention_layers(
    operation: GATConv, activation: str | None, *, last: bool
) -> tuple[list[FloatLayer], Heads | None]:
    """Return the layers that compute a `GATConv`, and the heads whose rows the next layer gets; None: plain rows.

    The heads' mean, and the plain rows of a last layer, are a dense layer behind the attention. The next layer takes
    rows of heads with `golden.model.heads.behind`.

    Parameters
    ----------
    operation
        Without a residual.
    activation
        Behind it: a name of `golden.model.activation.FUNCTIONS`, or None.
    last
        Whether it is the network's last layer.
    """
    assert operation.residual is None
    heads = Heads(*operation.source.shape)
    bias = np.zeros(operation.f_out) if operation.bias is None else operation.bias
    plain = last or not operation.concat
    layer = attention_layer(
        operation.weight,
        operation.source,
        operation.destination,
        np.zeros(operation.source.size) if plain else bias,
        operation.negative_slope,
        None if plain else activation,
    )
    if not plain:
        return [layer], heads
    return [layer, merged(heads, bias, activation, mean=not operation.concat)], None
