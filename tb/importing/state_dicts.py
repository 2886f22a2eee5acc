"""State dicts made by hand, with the names that PyTorch Geometric gives."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

__all__ = ["batch_norm", "gat", "gcn", "gin", "graph_conv", "linear", "sage", "saved"]

Arrays = dict[str, Any]
_RNG = np.random.default_rng(5)


def _normal(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


def saved(folder: Path, arrays: Arrays, name: str = "net") -> str:
    """Write a safetensors file and return its path."""
    path = folder / f"{name}.safetensors"
    save_file({key: np.ascontiguousarray(array) for key, array in arrays.items()}, path)
    return str(path)


def linear(name: str, f_in: int, f_out: int) -> Arrays:
    """Return a Linear with bias."""
    return {f"{name}.weight": _normal(f_out, f_in), f"{name}.bias": _normal(f_out)}


def gcn(name: str, f_in: int, f_out: int) -> Arrays:
    """Return a GCNConv with bias."""
    return {f"{name}.bias": _normal(f_out), f"{name}.lin.weight": _normal(f_out, f_in)}


def sage(name: str, f_in: int, f_out: int) -> Arrays:
    """Return a SAGEConv with root weight."""
    return linear(f"{name}.lin_l", f_in, f_out) | {f"{name}.lin_r.weight": _normal(f_out, f_in)}


def graph_conv(name: str, f_in: int, f_out: int) -> Arrays:
    """Return a GraphConv."""
    return linear(f"{name}.lin_rel", f_in, f_out) | {f"{name}.lin_root.weight": _normal(f_out, f_in)}


def gin(name: str, *widths: int) -> Arrays:
    """Return a GINConv with a Sequential of Linears with an activation between."""
    arrays: Arrays = {f"{name}.eps": np.zeros(1, np.float32)}
    for number, (f_in, f_out) in enumerate(pairwise(widths)):
        arrays |= linear(f"{name}.nn.{2 * number}", f_in, f_out)
    return arrays


def gat(name: str, f_in: int, channels: int, heads: int, bias: int = 0) -> Arrays:
    """Return a GATConv; without bias if its size is 0."""
    arrays = {f"{name}.{key}": _normal(1, heads, channels) for key in ("att_src", "att_dst")}
    arrays[f"{name}.lin.weight"] = _normal(heads * channels, f_in)
    return arrays | ({f"{name}.bias": _normal(bias)} if bias else {})


def batch_norm(name: str, size: int) -> Arrays:
    """Return a BatchNorm1d with statistics."""
    names = ("weight", "bias", "running_mean", "running_var")
    arrays = {f"{name}.{key}": np.abs(_normal(size)) + 0.5 for key in names}
    return arrays | {f"{name}.num_batches_tracked": np.array(7)}
