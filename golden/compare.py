"""Differences between results of the hardware and exact ones, as text."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from golden.model.layer import Int16Array
from golden.model.network import LayerResult

__all__ = ["layer_differences", "value_differences"]


def value_differences(what: str, want: Any, got: Any, axes: Sequence[str] = ()) -> list[str]:
    """Compare arrays of the same shape.

    Parameters
    ----------
    what
        Name of the contents.
    want, got
        Exact integers and those of the hardware.
    axes
        Names of the indices along each dimension; default: numbers.

    Returns
    -------
    list
        A line with the number of different values and the first of them; empty if bit-exact.
    """
    where = np.argwhere(want != got)
    if not len(where):
        return []
    at = tuple(where[0].tolist())
    named = [f"{axis} " for axis in axes] or [""] * len(at)
    place = ", ".join(f"{axis}{n}" for axis, n in zip(named, at, strict=True))
    values = f"{int(got[at])}, expected {int(want[at])}"
    return [f"{what}: {len(where)} of {want.size} values differ, first at {place}: {values}"]


def layer_differences(exact: Sequence[LayerResult], results: Mapping[int, Int16Array]) -> list[str]:
    """Compare results of layers.

    Parameters
    ----------
    exact
        Result of `golden.model.network.infer`.
    results
        int16 [nodes, f_out] by layer; hidden layers may be missing.

    Returns
    -------
    list
        A line for each layer that differs.
    """
    lines = [] if len(exact) - 1 in results else [f"layer {len(exact) - 1}: there are no results"]
    for layer, rows in results.items():
        lines += value_differences(f"layer {layer}", exact[layer].results, rows, ("vertex", "feature"))
    return lines
