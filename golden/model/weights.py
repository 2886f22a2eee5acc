"""Weights in a NumPy archive: read the user's own, or keep what was trained.

Keys, for i = 0, 1, ...: ``layer{i}.weight`` [f_in, f_out], ``layer{i}.bias`` [f_out] (absent: zeros),
``layer{i}.kind`` (a name of `KINDS`), ``layer{i}.root`` [f_in, f_out], of the vertex itself (absent: none),
``layer0.edge_weight`` [d, f_out], of the attributes of edges (absent: none),
``layer{i}.eps`` (absent: 0), ``layer{i}.activation`` (``none`` for none), and of a ``gat`` ``layer{i}.heads`` (heads,
channels) and ``layer{i}.slope``; its columns are those of `golden.model.heads`.
What a layer leaves out, the whole network may say: ``model`` (``gcn``, ``sage`` or ``gin``), ``eps`` of GIN, a number
or one a layer, and ``activation`` between layers (absent: ``relu``).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from contracts import Model
from contracts.attention import Heads
from contracts.errors import InputError, nearest, unknown
from golden.datasets.archive import read_archive
from golden.graph import Graph
from golden.model.activation import FUNCTIONS, RELU
from golden.model.float_model import FloatAttention, FloatLayer, FloatModel, Reach
from golden.model.orientation import check_orientation

__all__ = ["KINDS", "LAYERS_MAX", "kind_of", "model_of", "read_weights", "write_weights"]

#: Most layers an image can hold.
LAYERS_MAX = 255
#: What a layer sums, by name: `mean` and `sum` read out small graphs.
KINDS: Mapping[str, tuple[Model, Reach]] = {
    "gcn": (Model.GCN, Reach.GRAPH),
    "sage": (Model.SAGE, Reach.GRAPH),
    "gin": (Model.GIN, Reach.GRAPH),
    "gat": (Model.GIN, Reach.GRAPH),
    "linear": (Model.GCN, Reach.NODE),
    "mean": (Model.SAGE, Reach.MEMBERS),
    "sum": (Model.GIN, Reach.MEMBERS),
}
#: Names of a layer's arrays: numbers, then words.
_NUMBERS, _WORDS = ("weight", "bias", "root", "edge_weight", "eps", "heads", "slope"), ("kind", "activation")
_KEYS = ("model", "activation", "eps", *(f"layer{{i}}.{name}" for name in (*_NUMBERS, *_WORDS)))
_HOW = "docs/models.md shows how to write one from PyTorch"
#: Most heads of a layer, and most channels of a head.
_HEADS_MAX = 1 << 16
#: The activation of a layer that has none.
_NONE = "none"
_ACTIVATIONS = (*FUNCTIONS, _NONE)


def model_of(name: str) -> Model:
    """Return the network of a name in any case.

    Raises
    ------
    InputError
        If there is no such network.
    """
    try:
        return Model[name.upper()]
    except KeyError:
        names = [model.name.lower() for model in Model]
        raise unknown("model", name, names, ", ".join(names)) from None


def kind_of(layer: FloatLayer) -> str:
    """Return the name of `KINDS` for a layer."""
    if layer.reach == Reach.NODE:
        return "linear"
    if layer.reach == Reach.MEMBERS:
        return "mean" if layer.model == Model.SAGE else "sum"
    if layer.attention:
        return "gat"
    return layer.model.name.lower()


def read_weights(path: str, model: Model | None = None, graph: Graph | None = None) -> FloatModel:
    """Read a network.

    Parameters
    ----------
    path
        ``.npz`` file.
    model
        What the user asked for; it may be absent here or in the file, not in both.
    graph
        Its features and classes say which matrices are transposed, if any; without it, the widths of the layers do.

    Raises
    ------
    InputError
        If the file cannot be read, has an unknown or missing key, or an array has the wrong shape, type or range, or
        does not fit the graph.
    """
    arrays = read_archive(path, f"layer0.weight, layer0.kind, ...; {_HOW}")
    common: dict[str, Any] = {name: arrays.pop(name) for name in ("model", "activation", "eps") if name in arrays}
    between = _one_of(path, "activation", common.get("activation", np.array(RELU)), tuple(FUNCTIONS))
    layers = _arrays_of_layers(path, arrays)
    weights = [layer["weight"] for layer in layers]
    check_orientation(path, weights, [layer.get("bias") for layer in layers], graph)
    kinds = _kinds(path, layers, common, model)
    eps = _eps(path, layers, kinds, common)
    behind = _activations(path, layers, between)
    made = [
        _layer(f"{path}, layer{number}", *each)
        for number, each in enumerate(zip(layers, kinds, eps, behind, strict=True))
    ]
    try:
        return FloatModel(tuple(made))
    except InputError as error:
        raise InputError(f"{path}, {error.where}", error.what, error.expected) from None


def _layer(where: str, arrays: Mapping[str, Any], kind: str, eps: float, activation: str | None) -> FloatLayer:
    weight = arrays["weight"]
    bias = arrays.get("bias", np.zeros(weight.shape[-1] if weight.ndim else 0))
    model, reach = KINDS[kind]
    try:
        attention = _attention(kind, arrays)
        matrices = {name: arrays.get(name) for name in ("root", "edge_weight")}
        return FloatLayer(weight, bias, model, eps, reach, activation, attention, **matrices)
    except InputError as error:
        part = "" if error.where == "layer" else f".{error.where}"
        raise InputError(f"{where}{part}", error.what, error.expected) from None


def _attention(kind: str, arrays: Mapping[str, Any]) -> FloatAttention | None:
    """Return attention of a layer.

    Raises
    ------
    InputError
        If its arrays are absent or malformed, or the layer has none.
    """
    for name, shape, expected in (("heads", (2,), "two whole numbers: heads, channels"), ("slope", (), "a number")):
        if (name in arrays) != (kind == "gat"):
            what = "is absent" if kind == "gat" else f"stands in a {kind}"
            raise InputError(name, what, f"{expected}; of kind gat only")
        if name in arrays and (arrays[name].shape != shape or not np.isfinite(arrays[name]).all()):
            raise InputError(name, f"is {arrays[name].tolist()}", expected)
    if kind != "gat":
        return None
    heads = arrays["heads"]
    if (heads != np.rint(heads)).any() or heads.max() > _HEADS_MAX:
        raise InputError("heads", f"is {heads.tolist()}", f"two whole numbers of at most {_HEADS_MAX}")
    return FloatAttention(Heads(*(int(number) for number in heads)), float(arrays["slope"]))


def _arrays_of_layers(path: str, arrays: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the arrays of every layer, by the name in it."""
    layers: dict[int, dict[str, Any]] = {}
    for key, array in arrays.items():
        match = re.fullmatch(rf"layer(0|[1-9]\d{{0,2}})\.({'|'.join((*_NUMBERS, *_WORDS))})", key)
        if match is None:
            meant = nearest(re.sub(r"\d+", "{i}", key), _KEYS)
            raise InputError(path, f"has an array {key}{meant}", f"{', '.join(_KEYS)}; {_HOW}")
        values = _numbers(path, key, array) if match[2] in _NUMBERS else array
        layers.setdefault(int(match[1]), {})[match[2]] = values
    if not 1 <= len(layers) <= LAYERS_MAX:
        raise InputError(path, f"has {len(layers)} layers", f"1..{LAYERS_MAX}")
    for number in range(len(layers)):
        if "weight" not in layers.get(number, {}):
            raise InputError(path, f"has no layer{number}.weight", "layers numbered from 0 without a gap")
    return [layers[number] for number in range(len(layers))]


def _kinds(path: str, layers: list[dict[str, Any]], common: Mapping[str, Any], model: Model | None) -> list[str]:
    """Return a name of `KINDS` for every layer: its own, or that of the file's or the user's model."""
    stored = model_of(_text(path, "model", common["model"], "gcn, sage or gin")) if "model" in common else None
    asked = model if stored is None else stored
    if asked is None and any("kind" not in layer for layer in layers):
        raise InputError(f"{path}, model", "is absent", "gcn, sage or gin, here or on the command line")
    default = np.array(asked.name.lower() if asked is not None else "")
    names = tuple(KINDS)
    kinds = [
        _one_of(path, f"layer{number}.kind", layer.get("kind", default), names) for number, layer in enumerate(layers)
    ]
    summing = [kind for kind in kinds if KINDS[kind][1] == Reach.GRAPH]
    found = KINDS[summing[0]][0] if summing else Model.GCN
    if model is not None and found != model:
        raise InputError(f"{path}, model", f"is {found.name.lower()}", f"{model.name.lower()}, as asked for")
    return kinds


def _eps(path: str, layers: list[dict[str, Any]], kinds: list[str], common: Mapping[str, Any]) -> list[float]:
    """Return eps of every layer: its own, or if it is a GIN that of the file."""
    given = _numbers(path, "eps", common.get("eps", np.zeros(())))
    if given.any() and "gin" not in kinds:
        raise InputError(f"{path}, eps", f"is {given.tolist()}", f"none for {', '.join(dict.fromkeys(kinds))}")
    if given.ndim > 1 or (given.ndim == 1 and given.size != len(layers)):
        expected = f"a number, or {len(layers)}, one a layer"
        raise InputError(f"{path}, eps", f"has shape {list(given.shape)}", expected)
    found = []
    for number, (layer, kind, whole) in enumerate(zip(layers, kinds, np.broadcast_to(given, len(layers)), strict=True)):
        own = layer.get("eps", whole if kind == "gin" else np.zeros(()))
        if own.shape != ():
            raise InputError(f"{path}, layer{number}.eps", f"has shape {list(own.shape)}", "a number")
        found.append(float(own))
    return found


def _activations(path: str, layers: list[dict[str, Any]], between: str) -> list[str | None]:
    """Return the activation behind every layer: its own, or between layers that of the file."""
    found: list[str | None] = []
    for number, layer in enumerate(layers):
        name = between if number + 1 < len(layers) else _NONE
        if "activation" in layer:
            name = _one_of(path, f"layer{number}.activation", layer["activation"], _ACTIVATIONS)
        found.append(None if name == _NONE else name)
    return found


def write_weights(path: Path, network: FloatModel) -> None:
    """Write a network so that `read_weights` returns the same."""
    arrays: dict[str, Any] = {}
    for number, layer in enumerate(network.layers):
        values = {
            "kind": np.array(kind_of(layer)),
            "weight": layer.weight,
            "bias": layer.bias,
            "activation": np.array(layer.activation or _NONE),
        }
        values |= {"eps": np.array(layer.eps)} if layer.eps else {}
        values |= {"root": layer.root} if layer.root is not None else {}
        values |= {"edge_weight": layer.edge_weight} if layer.edge_weight is not None else {}
        if layer.attention:
            heads = layer.attention.heads
            values |= {"heads": np.array([heads.heads, heads.channels]), "slope": np.array(layer.attention.slope)}
        arrays |= {f"layer{number}.{name}": value for name, value in values.items()}
    np.savez(path, **arrays)


def _text(path: str, key: str, array: Any, expected: str) -> str:
    if array.shape != () or array.dtype.kind not in "US":
        raise InputError(f"{path}, {key}", f"is {array.dtype} {list(array.shape)}", f"a string: {expected}")
    text = array.item()
    return text.decode("latin1") if isinstance(text, bytes) else str(text)


def _one_of(path: str, key: str, array: Any, known: tuple[str, ...]) -> str:
    name = _text(path, key, array, ", ".join(known))
    if name not in known:
        raise InputError(f"{path}, {key}", f"is {name!r}", f"one of {', '.join(known)}")
    return name


def _numbers(path: str, key: str, array: Any) -> Any:
    if array.dtype.kind not in "iuf":
        raise InputError(f"{path}, {key}", f"is {array.dtype}", "numbers")
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused as such
        return array.astype(np.float64)
