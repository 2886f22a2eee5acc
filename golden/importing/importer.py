"""A network of the user's own: from a state dict of PyTorch Geometric, or from an archive of this project."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from contracts import Model
from contracts.errors import InputError, unknown
from golden.graph import Graph
from golden.importing.convert import Converted, RefusalsError, convert
from golden.importing.layers import (
    AGGREGATIONS,
    HEADS,
    POOLS,
    GATConv,
    GCNConv,
    GINConv,
    GraphConv,
    Layer,
    Norm,
    Options,
    Pool,
    SAGEConv,
)
from golden.importing.order import layers_of
from golden.importing.pooling import pooled
from golden.importing.recognise import recognise
from golden.importing.state_dict import is_state_dict, read_state_dict
from golden.model.activation import FUNCTIONS
from golden.model.float_model import FloatModel, Reach
from golden.model.weights import read_weights

__all__ = ["Imported", "UserNetwork", "import_model", "read_network"]


@dataclass(frozen=True)
class Imported:
    """A recognised network.

    Attributes
    ----------
    path
        File that it was read from.
    layers
        In the order in which they compute.
    options
        What the file does not hold.
    """

    path: str
    layers: tuple[Layer, ...]
    options: Options

    def converted(self) -> Converted:
        """Return it as one that the machine computes.

        Raises
        ------
        RefusalsError
            If it has layers that the machine does not compute.
        """
        return convert(self.path, self.layers, self.options)

    def assumptions(self) -> str:
        """Return a line with what the file does not hold and was taken for granted."""
        operations = [layer.operation for layer in self.layers]
        settings = []
        if activations := {layer.activation for layer in self.layers if layer.activation}:
            settings.append(f"{', '.join(activations)} between layers")
        if any(isinstance(operation, GCNConv) for operation in operations):
            settings.append("GCNConv with normalisation and self loops")
        kinds = {type(operation): operation.aggregation for operation in operations if isinstance(operation, SAGEConv)}
        settings += [f"{kind.__name__} with aggr={aggregation!r}" for kind, aggregation in kinds.items()]
        if any(isinstance(operation, SAGEConv | GINConv) for operation in operations):
            settings.append(f"edges with{'' if self.options.self_loops else 'out'} self loops")
        if any(isinstance(operation, GATConv) for operation in operations):
            settings.append(f"GATConv with negative_slope={self.options.negative_slope:g}")
        if self.options.pool is not None:
            settings.append(f"{'no ' if self.options.plain_pool else ''}activation before the pooling")
        return ", ".join(settings)


class UserNetwork(NamedTuple):
    """A network of the user's own.

    Attributes
    ----------
    network
        As the machine computes it.
    notes
        A line for each thing that the file does not hold and was taken for granted.
    """

    network: FloatModel
    notes: list[str]


def import_model(path: str, options: Options | None = None) -> Imported:
    """Read and recognise a state dict.

    Parameters
    ----------
    path
        ``.safetensors``, ``.pt`` or ``.pth``.
    options
        What it does not hold; default: PyTorch Geometric's defaults.

    Raises
    ------
    InputError
        If the file cannot be read, or an option is wrong or does nothing.
    RefusalsError
        If a module is not one that is read.
    """
    options = options or Options()
    for option, value, known in (
        ("activation", options.activation, tuple(FUNCTIONS)),
        ("aggr", options.aggregation, AGGREGATIONS),
        ("heads", options.heads, HEADS),
        ("pool", options.pool, POOLS),
    ):
        if value is not None and value not in known:
            raise unknown(f"--{option}", value, known)
    state = read_state_dict(path)
    found, refused = recognise(path, state.arrays, options)
    if refused:
        raise RefusalsError(refused)
    layers = pooled(path, layers_of(path, found, state.in_order, options), options)
    _check_options(options, _parts(layers))
    return Imported(path, layers, options)


def read_network(path: str, model: Model | None, graph: Graph) -> UserNetwork:
    """Read a network for a graph, from a state dict or an archive.

    Parameters
    ----------
    path
        See `import_model`; any other suffix is an archive for `golden.model.weights.read_weights`.
    model
        What the user asked for, or None.
    graph
        What it will run on.

    Raises
    ------
    InputError
        If the network cannot be read or converted, or is another model than the user asked for.
    """
    notes = []
    if is_state_dict(path):
        imported = import_model(path)
        network = imported.converted().network
        if model is not None and network.model != model:
            raise InputError(path, f"is {network.model.name.lower()}", f"{model.name.lower()}, as asked for")
        _check_edges(imported, graph)
        notes.append(f"{path}: taken for granted: {imported.assumptions()}")
    else:
        network = read_weights(path, model, graph)
    if graph.graph_of is not None and all(layer.reach != Reach.MEMBERS for layer in network.layers):
        what = f"gives a result for each node, and {graph.name} is a batch of small graphs"
        raise InputError(path, what, "a network that reads out graphs: atoll import --pool mean or sum")
    return UserNetwork(network, notes)


#: What a user calls a part that has another name here.
_SHOWN: Mapping[type, str] = {Norm: "BatchNorm", Pool: "pooling (--pool)"}


def _check_edges(imported: Imported, graph: Graph) -> None:
    """Refuse weights of edges for a sum of PyTorch Geometric that takes none: here every sum would."""
    for layer in imported.layers:
        plain = isinstance(layer.operation, SAGEConv | GINConv) and not isinstance(layer.operation, GraphConv)
        if plain and graph.edge_weight is not None:
            what = f"is a {type(layer.operation).__name__}, which takes no weights of edges, as {graph.name} has"
            raise InputError(f"{imported.path}, {layer.name}", what, "GCNConv or GraphConv, or --no-edge-weights")


#: Options that do something only beside a layer of some kind.
_NEEDS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "aggregation": ("--aggr", (SAGEConv,)),
    "heads": ("--heads", (GATConv,)),
    "negative_slope": ("--negative-slope", (GATConv,)),
    "plain_last": ("--no-plain-last", (GINConv,)),
    "plain_pool": ("--plain-pool", (Pool,)),
    "self_loops": ("--self-loops", (SAGEConv, GINConv)),
    "act_first": ("--act-first", (Norm,)),
    "norm_eps": ("--norm-eps", (Norm,)),
}


def _check_options(options: Options, parts: Sequence[object]) -> None:
    """Refuse an option that changes nothing in a network."""
    changed = {field.name for field in fields(Options) if getattr(options, field.name) != field.default}
    for name, (option, kinds) in _NEEDS.items():
        if name in changed and not any(isinstance(part, kinds) for part in parts):
            needed = " or ".join(_SHOWN.get(kind, kind.__name__) for kind in kinds)
            raise InputError(option, f"does nothing without a {needed}", "a network that has one, or no such option")


def _parts(layers: Sequence[Layer]) -> list[object]:
    """Return what layers consist of, inside perceptrons too."""
    parts: list[object] = []
    for layer in layers:
        parts += [layer.operation, layer.norm]
        if isinstance(layer.operation, GINConv):
            parts += [stage.norm for stage in layer.operation.stages]
    return parts
