"""Where the rows of small graphs become one: `global_mean_pool` and `global_add_pool` leave nothing in a state dict."""

from collections.abc import Sequence
from dataclasses import replace

from contracts.errors import InputError
from golden.importing.layers import Convolution, Layer, Linear, Options, Pool

__all__ = ["PLACE", "pooled"]

#: Name of a pooling in an order.
PLACE = "pool"


def pooled(path: str, layers: Sequence[Layer], options: Options) -> tuple[Layer, ...]:
    """Put the pooling into a network: behind the last convolution, or where the order has it.

    Parameters
    ----------
    path
        File, for messages.
    layers
        Network.
    options
        Kind and place of the pooling, if there is one.

    Raises
    ------
    InputError
        If there is no convolution, or a layer behind the pooling is one.
    """
    if options.pool is None:
        return tuple(layers)
    convolutions = [number for number, layer in enumerate(layers) if isinstance(layer.operation, Convolution)]
    if not convolutions:
        raise InputError("--pool", "does nothing without a convolution", "a network that has one, or no such option")
    place = convolutions[-1] + 1
    if PLACE in options.order:
        before = set(options.order[: options.order.index(PLACE)])
        place = sum(layer.name in before for layer in layers)
    head, tail = list(layers[:place]), list(layers[place:])
    late = [layer.name for layer in tail if not isinstance(layer.operation, Linear)]
    if late or not head:
        what = f"{late[0]} stands behind the pooling" if late else "begins with the pooling"
        raise InputError(path, what, "convolutions, then the pooling, then Linears; --order says where it stands")
    if options.plain_pool:
        head[-1] = replace(head[-1], activation=None)
    return (*head, Layer(PLACE, Pool(options.pool, head[-1].operation.f_out)), *tail)
