"""Modules of a network, found by the names and shapes of their arrays in a state dict."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from contracts.errors import InputError
from golden.importing.layers import (
    GATConv,
    GCNConv,
    GINConv,
    GraphConv,
    Linear,
    Norm,
    Operation,
    Options,
    SAGEConv,
)
from golden.importing.others import kind_name, name_of_other
from golden.importing.perceptron import stages_of
from golden.model.float_model import FloatArray

__all__ = ["READ", "Found", "linear_of", "norm_of", "recognise"]

#: Modules that are recognised.
READ = "GCNConv, SAGEConv, GraphConv, GINConv, GATConv, Linear and BatchNorm (docs/models.md)"
_Arrays = Mapping[str, npt.NDArray[Any]]
#: Prefix of the arrays of PyTorch Geometric's own BatchNorm.
_INNER = "module."
#: Arrays that layers have beside modules inside them; any other is one that the user's own module has.
_OWN = {
    "weight", "bias", "eps", "att", "att_src", "att_dst", "running_mean", "mean_scale", "root", "weight1",
    "init_weight", "in_proj_weight", "weight_ih_l0",
}  # fmt: skip
#: Most modules in each other.
_DEPTH_MAX = 32
#: Members of a `SAGEConv`, and of a `GraphConv`.
_SAGE, _GRAPH = ("lin_l", "lin_r", "lin", "aggr_module"), ("lin_rel", "lin_root")


class Found(NamedTuple):
    """A module.

    Attributes
    ----------
    name
        Path in the network; empty for the network itself.
    part
        What it computes.
    """

    name: str
    part: Operation | Norm


def recognise(path: str, arrays: _Arrays, options: Options) -> tuple[list[Found], list[InputError]]:
    """Find the modules of a network.

    Parameters
    ----------
    path
        File, for messages.
    arrays
        State dict.
    options
        What it does not hold.

    Returns
    -------
    list of Found, list of InputError
        Modules in the order of the file, and an error for each one that is not read.
    """
    found: list[Found] = []
    refused: list[InputError] = []
    deep = [key for key in arrays if key.count(".") > _DEPTH_MAX]
    if deep:
        return [], [InputError(f"{path}, {deep[0]}", "is too deep", f"at most {_DEPTH_MAX} modules in each other")]
    kept = {key: array for key, array in arrays.items() if not key.endswith("num_batches_tracked")}
    for name, own in _modules(path, kept):
        try:
            found.append(Found(name, _part(f"{path}, {name}" if name else path, name, own, options)))
        except InputError as error:
            refused.append(error)
    return found, refused


def linear_of(where: str, arrays: _Arrays, weight: str = "weight", bias: str = "bias") -> Linear:
    """Return the linear map of some arrays, with a bias of zeros if they have none.

    Raises
    ------
    InputError
        If the arrays are no matrix and vector of finite numbers that fit each other.
    """
    matrix = _numbers(where, weight, arrays[weight], 2).T
    if bias not in arrays:
        return Linear(matrix, np.zeros(matrix.shape[1]))
    vector = _numbers(where, bias, arrays[bias], 1)
    if vector.size != matrix.shape[1]:
        turned = vector.size == matrix.shape[0] and ", as PyTorch Geometric kept it before 2.0: load and save it anew"
        expected = f"[{matrix.shape[1]}] beside {weight} {list(arrays[weight].shape)}{turned or ''}"
        raise InputError(f"{where}.{bias}", f"is [{vector.size}]", expected)
    return Linear(matrix, vector)


def norm_of(where: str, arrays: _Arrays, eps: float) -> Norm:
    """Return batch normalisation with the statistics that training left.

    Raises
    ------
    InputError
        If it is another normalisation, which depends on the rows at hand, or arrays do not fit.
    """
    own = {key.removeprefix(_INNER): array for key, array in arrays.items()}
    if not {"running_mean", "running_var"} <= set(own):
        name = "GraphNorm" if "mean_scale" in own else "LayerNorm or another norm without running statistics"
        raise InputError(where, f"is {name}: it depends on the rows at hand", "BatchNorm, which folds into its layer")
    mean, variance = (_numbers(where, key, own[key], 1) for key in ("running_mean", "running_var"))
    scale, shift = (
        _numbers(where, key, own[key], 1) if key in own else np.full(mean.size, value)
        for key, value in (("weight", 1.0), ("bias", 0.0))
    )
    if set(own) - {"running_mean", "running_var", "weight", "bias"}:
        raise InputError(where, f"has {', '.join(own)}", "BatchNorm")
    if len({mean.size, variance.size, scale.size, shift.size}) != 1 or (variance + eps <= 0).any():
        raise InputError(
            where, "has arrays that do not fit each other", "BatchNorm with variances that are not negative"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        scale = scale / np.sqrt(variance + eps)
        return Norm(scale, shift - mean * scale)


def _modules(path: str, arrays: _Arrays, name: str = "") -> Iterator[tuple[str, _Arrays]]:
    """Yield the innermost modules that are layers, and their arrays, without the name of the module."""
    if _is_layer(name, arrays):
        yield name, arrays
        return
    children: dict[str, dict[str, npt.NDArray[Any]]] = {}
    for key, array in arrays.items():
        child, _, rest = key.partition(".")
        children.setdefault(child, {})[rest] = array
    for child, own in children.items():
        # An array that is in no module stands for itself, and is refused as such.
        yield from _modules(path, own, f"{name}.{child}" if name else child)


def _is_layer(name: str, arrays: _Arrays) -> bool:
    """Return whether arrays are those of one module, known or not, and not those of several."""
    keys = set(arrays)
    if any(key.removeprefix(_INNER) in _OWN for key in keys) or keys <= {"", "lin.weight"}:
        return True
    for first, members in (("lin_l", _SAGE), ("lin_rel", _GRAPH)):
        if f"{first}.weight" in keys and all(key.partition(".")[0] in members for key in keys):
            return True
    if not name:
        return False
    flat = all(key.count(".") == 1 and not key[0].isdigit() for key in keys)
    return (flat and "conv" in kind_name(name)) or name_of_other(name, keys) is not None


def _part(where: str, name: str, arrays: _Arrays, options: Options) -> Operation | Norm:
    keys = set(arrays)
    if {"att_src", "att_dst"} <= keys:
        return _gat(where, arrays, options)
    other = name_of_other(name, keys)
    if other:
        raise InputError(where, f"is {other}", READ)
    if "lin_l.weight" in keys:
        return _sage(where, arrays, options)
    if {"lin_rel.weight", "lin_root.weight"} <= keys:
        _only(where, keys, "GraphConv", "lin_rel.weight", "lin_rel.bias", "lin_root.weight")
        linear, root = _with_root(where, arrays, "lin_rel", "lin_root")
        return GraphConv(linear, root, options.aggregation or "sum")
    if "eps" in keys and any(key.startswith("nn.") for key in keys):
        return _gin(where, arrays, options)
    if "lin.weight" in keys:
        _only(where, keys, "GCNConv", "lin.weight", "bias")
        return GCNConv(linear_of(where, arrays, "lin.weight"))
    own = {key.removeprefix(_INNER) for key in keys}
    if "running_mean" in own or "mean_scale" in own:
        return norm_of(where, arrays, options.norm_eps)
    if "weight" in own and own <= {"weight", "bias"}:
        weight = arrays.get("weight", arrays.get(f"{_INNER}weight"))
        if weight is not None and weight.ndim == 1 and (weight.size > 1 or "bias" in own):
            return norm_of(where, arrays, options.norm_eps)
        if weight is not None and weight.ndim == 1:
            raise InputError(
                where, "is PReLU, an activation with a weight", "relu, sigmoid, tanh or elu (--activation)"
            )
        return linear_of(where, arrays)
    _unknown(where, keys)


def _sage(where: str, arrays: _Arrays, options: Options) -> SAGEConv:
    if "lin.weight" in arrays:
        raise InputError(where, "is a SAGEConv with project=True", "project=False")
    if any(key.startswith("aggr_module.") for key in arrays):
        raise InputError(where, "is a SAGEConv whose aggregation has weights", "aggr='mean' or 'sum'")
    _only(where, set(arrays), "SAGEConv", "lin_l.weight", "lin_l.bias", "lin_r.weight")
    linear, root = _with_root(where, arrays, "lin_l", "lin_r")
    return SAGEConv(linear, root, options.aggregation or "mean")


def _with_root(where: str, arrays: _Arrays, name: str, own: str) -> tuple[Linear, FloatArray | None]:
    """Return the linear map of the neighbours' rows, and the matrix of the node's own if there is one."""
    linear = linear_of(where, arrays, f"{name}.weight", f"{name}.bias")
    if f"{own}.weight" not in arrays:
        return linear, None
    root = linear_of(where, arrays, f"{own}.weight", "").weight
    if root.shape != linear.weight.shape:
        raise InputError(f"{where}.{own}.weight", f"is {list(root.T.shape)}", f"{list(linear.weight.T.shape)}")
    return linear, root


def _gin(where: str, arrays: _Arrays, options: Options) -> GINConv:
    if any(key.startswith("lin.") for key in arrays):
        raise InputError(where, "is a GINEConv, which adds features of edges", "GINConv")
    eps = _numbers(where, "eps", arrays["eps"], None)
    if eps.size != 1:
        raise InputError(f"{where}.eps", f"has shape {list(eps.shape)}", "one number")
    inner = {key.removeprefix("nn."): array for key, array in arrays.items() if key.startswith("nn.")}
    _only(where, set(arrays), "GINConv", "eps", *(f"nn.{key}" for key in inner))
    return GINConv(stages_of(f"{where}.nn", inner, options, linear_of, norm_of), float(eps.reshape(())))


def _gat(where: str, arrays: _Arrays, options: Options) -> GATConv:
    keys = set(arrays)
    if "att_edge" in keys or "lin_edge.weight" in keys:
        raise InputError(where, "is a GATConv with edge_dim, features of edges", "GATConv without edge_dim")
    name = "lin.weight" if "lin.weight" in keys else "lin_src.weight"
    if name not in keys:
        raise InputError(where, "is a GATConv without lin.weight", READ)
    if "lin_dst.weight" in keys and not np.array_equal(arrays[name], arrays["lin_dst.weight"]):
        raise InputError(where, "is a GATConv with a matrix each for sources and destinations", "GATConv(f_in, f_out)")
    _only(where, keys, "GATConv", "att_src", "att_dst", name, "lin_dst.weight", "bias", "res.weight")
    weight = linear_of(where, arrays, name, "").weight
    source, destination = (_numbers(where, key, arrays[key], 3) for key in ("att_src", "att_dst"))
    if source.shape != destination.shape or source.shape[0] != 1 or source.size != weight.shape[1]:
        what = f"has att_src {list(source.shape)}, att_dst {list(destination.shape)}, {name} {list(arrays[name].shape)}"
        raise InputError(where, what, "[1, heads, channels] twice, [heads * channels, f_in]")
    bias = _numbers(where, "bias", arrays["bias"], 1) if "bias" in keys else None
    residual = linear_of(where, arrays, "res.weight", "").weight if "res.weight" in keys else None
    shown = bias.size if bias is not None else residual.shape[1] if residual is not None else None
    if shown not in (None, source.size, source.shape[2]) or (
        residual is not None and residual.shape != (weight.shape[0], shown)
    ):
        what = f"gives {shown} features with {source.shape[1]} heads of {source.shape[2]}"
        raise InputError(where, what, f"{source.size} side by side, or {source.shape[2]}, their mean")
    concat = shown == source.size if shown is not None else options.heads == "concat"
    return GATConv(weight, source[0], destination[0], bias, residual, concat, options.negative_slope)


def _only(where: str, keys: set[str], kind: str, *known: str) -> None:
    if keys - set(known):
        raise InputError(where, f"is like {kind}, but has {', '.join(sorted(keys - set(known)))}", READ)


def _unknown(where: str, keys: set[str]) -> NoReturn:
    held = ", ".join(sorted(keys - {""})[:6])
    raise InputError(where, f"is no layer that is read: it has {held}" if held else "is an array by itself", READ)


def _numbers(where: str, key: str, array: npt.NDArray[Any], axes: int | None) -> FloatArray:
    where = f"{where}.{key}" if re.search(r"\w", key) else where
    if array.dtype.kind not in "iuf" or not array.size or (axes is not None and array.ndim != axes):
        expected = f"numbers with {axes} axes, none of them empty" if axes else "a number"
        raise InputError(where, f"is {array.dtype} {list(array.shape)}", expected)
    values = array.astype(np.float64)
    if not np.isfinite(values).all():
        raise InputError(where, "has a number that is not finite", "finite numbers")
    return values
