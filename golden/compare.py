"""Where results of the hardware differ from exact ones, in words."""

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
        What they hold.
    want, got
        Exact integers and those of the hardware.
    axes
        What the places along each dimension are; default: nothing but their numbers.

    Returns
    -------
    list
        A line that says how many values differ, and the first of them; none if they are bit-exact.
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
        What `golden.model.network.infer` says.
    results
        int16 [nodes, f_out] by layer; of layers but the last they may be missing.

    Returns
    -------
    list
        A line for each layer that differs.
    """
    lines = [] if len(exact) - 1 in results else [f"layer {len(exact) - 1}: there are no results"]
    for layer, rows in results.items():
        lines += value_differences(f"layer {layer}", exact[layer].results, rows, ("vertex", "feature"))
    return lines
