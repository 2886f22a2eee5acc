"""Weights in a NumPy archive: read the user's own, or keep what was trained.

Keys: ``model`` (``gcn``, ``sage`` or ``gin``), for i = 0, 1, ...: ``layer{i}.weight`` [f_in, f_out] and
``layer{i}.bias`` [f_out] (absent: zeros), for GIN ``eps``, a number or one a layer (absent: 0), ``activation`` between
layers (absent: ``relu``).
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from contracts import Model
from contracts.errors import InputError, nearest, unknown
from golden.datasets.archive import read_archive
from golden.graph import Graph
from golden.model.activation import FUNCTIONS, RELU
from golden.model.float_model import FloatModel
from golden.model.orientation import check_orientation

__all__ = ["LAYERS_MAX", "model_of", "read_weights", "write_weights"]

#: Most layers an image can hold.
LAYERS_MAX = 255
_KEYS = ("model", "activation", "eps", "layer{i}.weight", "layer{i}.bias")
_HOW = "docs/models.md shows how to write one from PyTorch"


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
    arrays = read_archive(path, f"model, layer0.weight, layer0.bias, ...; {_HOW}")
    stored = _stored_model(path, arrays.pop("model", None))
    activation = _text(path, "activation", arrays.pop("activation", np.array(RELU)), ", ".join(FUNCTIONS))
    if activation not in FUNCTIONS:
        raise InputError(f"{path}, activation", f"is {activation!r}", f"one of {', '.join(FUNCTIONS)}")
    if stored is None and model is None:
        raise InputError(f"{path}, model", "is absent", "gcn, sage or gin, here or on the command line")
    if stored is not None and model is not None and stored != model:
        raise InputError(f"{path}, model", f"is {stored.name.lower()}", f"{model.name.lower()}, as asked for")
    found = stored if stored is not None else model
    assert found is not None
    eps = _numbers(path, "eps", arrays.pop("eps", np.zeros(())))
    if found != Model.GIN and eps.any():
        raise InputError(f"{path}, eps", f"is {eps.tolist()}", f"none for {found.name.lower()}")
    layers: dict[int, dict[str, Any]] = {}
    for key, array in arrays.items():
        match = re.fullmatch(r"layer(0|[1-9]\d{0,2})\.(weight|bias)", key)
        if match is None:
            meant = nearest(re.sub(r"\d+", "{i}", key), _KEYS)
            raise InputError(path, f"has an array {key}{meant}", f"{', '.join(_KEYS)}; {_HOW}")
        layers.setdefault(int(match[1]), {})[match[2]] = _numbers(path, key, array)
    if not 1 <= len(layers) <= LAYERS_MAX:
        raise InputError(path, f"has {len(layers)} layers", f"1..{LAYERS_MAX}")
    for number in range(len(layers)):
        if "weight" not in layers.get(number, {}):
            raise InputError(path, f"has no layer{number}.weight", "layers numbered from 0 without a gap")
    weights = tuple(layers[number]["weight"] for number in range(len(layers)))
    given = tuple(layers[number].get("bias") for number in range(len(layers)))
    check_orientation(path, weights, given, graph)
    biases = (
        np.zeros(weight.shape[-1] if weight.ndim else 0) if bias is None else bias
        for weight, bias in zip(weights, given, strict=True)
    )
    if eps.ndim > 1 or (eps.ndim == 1 and eps.size != len(layers)):
        raise InputError(f"{path}, eps", f"has shape {list(eps.shape)}", f"a number, or {len(layers)}, one a layer")
    try:
        return FloatModel.uniform(
            found, weights, tuple(biases), tuple(np.broadcast_to(eps, len(layers)).tolist()), activation
        )
    except InputError as error:
        raise InputError(f"{path}, {error.where}", error.what, error.expected) from None


def write_weights(path: Path, network: FloatModel) -> None:
    """Write a network so that `read_weights` returns the same."""
    arrays: dict[str, Any] = {"model": np.array(network.model.name.lower())}
    for number, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        arrays |= {f"layer{number}.weight": weight, f"layer{number}.bias": bias}
    if network.activation != RELU:
        arrays["activation"] = np.array(network.activation)
    if network.model == Model.GIN:
        arrays["eps"] = np.array(network.eps)
    np.savez(path, **arrays)


def _stored_model(path: str, array: Any) -> Model | None:
    return None if array is None else model_of(_text(path, "model", array, "gcn, sage or gin"))


def _text(path: str, key: str, array: Any, expected: str) -> str:
    if array.shape != () or array.dtype.kind not in "US":
        raise InputError(f"{path}, {key}", f"is {array.dtype} {list(array.shape)}", f"a string: {expected}")
    text = array.item()
    return text.decode("latin1") if isinstance(text, bytes) else str(text)


def _numbers(path: str, key: str, array: Any) -> Any:
    if array.dtype.kind not in "iuf":
        raise InputError(f"{path}, {key}", f"is {array.dtype}", "numbers")
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused as such
        return array.astype(np.float64)
