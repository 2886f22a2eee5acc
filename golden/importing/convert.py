"""A recognised network as one that the machine computes; the parts that it does not have are named."""

from collections.abc import Sequence

from contracts import Model
from contracts.errors import InputError
from golden.importing.layers import GATConv, GCNConv, GINConv, Layer, Linear, Options, SAGEConv
from golden.model.activation import RELU
from golden.model.float_model import FloatModel

__all__ = ["RefusalsError", "convert"]


class RefusalsError(InputError):
    """Several parts of a network that cannot be used; as text the first of them.

    Parameters
    ----------
    errors
        At least one.
    """

    def __init__(self, errors: Sequence[InputError]) -> None:
        super().__init__(errors[0].where, errors[0].what, errors[0].expected)
        self.errors = tuple(errors)


def convert(path: str, layers: Sequence[Layer], options: Options) -> FloatModel:
    """Return the network with norms folded into the layers before them.

    Parameters
    ----------
    path
        File, for messages.
    layers
        Network.
    options
        How it was recognised.

    Raises
    ------
    RefusalsError
        If it has layers that the machine does not compute: an error for each, with the way out.
    InputError
        If a number is not finite once norms are folded.
    """
    found = [
        InputError(f"{path}, {layer.name}" if layer.name else path, what, expected)
        for layer in layers
        for what, expected in _faults(layer, options, layer is layers[-1])
    ]
    if found:
        raise RefusalsError(found)
    models = {_model(layer): layer.name for layer in layers}
    if len(models) > 1:
        shown = ", ".join(f"{name} is {model.name.lower()}" for model, name in models.items())
        raise InputError(path, f"has layers of different kinds: {shown}", "one kind of layer")
    linears = [_linear(layer) for layer in layers]
    try:
        return FloatModel.uniform(
            next(iter(models)),
            tuple(linear.weight for linear in linears),
            tuple(linear.bias for linear in linears),
            tuple(_eps(layer, options) for layer in layers),
            layers[0].activation or RELU,
        )
    except InputError as error:
        raise InputError(f"{path}, {error.where}", error.what, error.expected) from None


def _faults(layer: Layer, options: Options, last: bool) -> list[tuple[str, str]]:
    """Return what the machine does not compute, and what it would."""
    faults = []
    match layer.operation:
        case Linear():
            faults.append(
                ("is a Linear, a layer without neighbours", "a network that ends in a convolution with as many outputs")
            )
        case SAGEConv(_, root, aggregation):
            if aggregation == "max":
                faults.append(("takes the maximum of the neighbours", "aggr='mean' or 'sum'"))
            elif root is not None:
                what = "has a weight of its own for the node (root_weight=True)"
                faults.append((what, "SAGEConv(..., root_weight=False) on add_self_loops(edge_index)[0]"))
            elif aggregation == "mean" and not options.self_loops:
                what = "takes the mean of the neighbours without the node"
                faults.append(
                    (what, "training on add_self_loops(edge_index)[0], which `atoll import --self-loops` says")
                )
        case GINConv(stages, _):
            if len(stages) > 1:
                faults.append((f"has a perceptron of {len(stages)} Linears inside", "GINConv(Linear(f_in, f_out))"))
            elif stages[0].activation is not None:
                faults.append(("has an activation inside", "GINConv(Linear(f_in, f_out))"))
        case GATConv(source=source):
            heads = f"{len(source)} head{'s' * (len(source) > 1)}"
            faults.append((f"computes attention with {heads}", "GCNConv, or SAGEConv with a mean"))
    if layer.norm is not None and layer.act_first and layer.activation is not None:
        faults.append(("has its BatchNorm behind the activation", "act_first=False, which folds into the layer"))
    if not last and layer.activation is None:
        faults.append(("has no activation behind it", "an activation between layers"))
    return faults


def _linear(layer: Layer) -> Linear:
    """Return the one linear map of a layer, with its norms folded in."""
    match layer.operation:
        case GCNConv(linear) | SAGEConv(linear):
            pass
        case GINConv(stages):
            linear = stages[0].linear if stages[0].norm is None else stages[0].norm.behind(stages[0].linear)
        case _:
            raise AssertionError(layer.name)
    return linear if layer.norm is None else layer.norm.behind(linear)


def _model(layer: Layer) -> Model:
    match layer.operation:
        case GCNConv():
            return Model.GCN
        case SAGEConv(aggregation="mean"):
            return Model.SAGE
        case _:
            return Model.GIN


def _eps(layer: Layer, options: Options) -> float:
    """Return eps of a sum: -1 leaves the node itself out, and a self loop adds it once more."""
    match layer.operation:
        case GINConv(_, eps):
            return eps + options.self_loops
        case SAGEConv(aggregation="sum"):
            return float(options.self_loops) - 1
        case _:
            return 0.0
