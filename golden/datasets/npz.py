"""A graph of the user's own in a NumPy archive."""

from pathlib import Path
from typing import Any

import numpy as np

from contracts.errors import InputError, nearest
from golden.datasets.archive import read_archive
from golden.datasets.common import CLASSES_MAX, check_counts, compact, stratified_split
from golden.graph import Graph

__all__ = ["load"]

_MASKS = ("train_mask", "val_mask", "test_mask")
_REQUIRED = ("edge_index", "x")
_KNOWN = (*_REQUIRED, "y", *_MASKS)
_WEIGHTED = ("edge_weight", "edge_attr")


def load(path: str) -> Graph:
    """Load ``edge_index`` [2, edges] (sources, destinations), ``x`` [nodes, f] and optional ``y`` [nodes] and masks.

    Without ``y`` all classes are unknown and their number is 0, which suffices for a network trained elsewhere.
    Without any of ``train_mask``, ``val_mask`` and ``test_mask`` the split is 60/20/20 by class; a mask that is absent
    beside another is empty. The direction of edges is kept; self loops and duplicates are dropped. Features of which
    fewer than half are not zero are kept sparse.

    Raises
    ------
    InputError
        If the file is missing or not such an archive, an array has the wrong shape, type or range, or it has edge
        weights, which these models do not support.
    """
    arrays = read_archive(path, "edge_index, x, y; docs/datasets.md shows how to write one")
    for name in _WEIGHTED:
        if name in arrays:
            raise InputError(f"{path}, {name}", "the graph has edge weights", "edges without weights or attributes")
    for name in _REQUIRED:
        if name not in arrays:
            raise InputError(path, f"has no {name}", f"arrays {', '.join(_REQUIRED)}")
    for name in arrays:
        if name not in _KNOWN:
            raise InputError(path, f"has an array {name}{nearest(name, _KNOWN)}", f"only {', '.join(_KNOWN)}")
    index, features = (arrays[name] for name in _REQUIRED)
    _expect(path, "x", features, features.ndim == 2 and features.dtype.kind in "biuf", "numbers [nodes, f]")
    nodes = features.shape[0]
    whole = index.dtype.kind in "iu"
    _expect(path, "edge_index", index, whole and index.ndim == 2 and index.shape[0] == 2, "integers [2, edges]")
    labels = arrays.get("y", np.full(nodes, -1))
    fits = labels.shape == (nodes,) and labels.dtype.kind in "iu"
    _expect(path, "y", labels, fits, f"integers [{nodes}]")
    for name in _MASKS:
        if name in arrays:
            mask = arrays[name]
            _expect(path, name, mask, mask.shape == (nodes,) and mask.dtype == np.bool_, f"bool [{nodes}]")
    check_counts(path, nodes, features.shape[1])
    if not np.isfinite(features).all():
        raise InputError(f"{path}, x", "has a value that is not finite", "finite numbers")
    if labels.size and labels.max() >= CLASSES_MAX:
        raise InputError(f"{path}, y", f"has the class {labels.max()}", f"classes below {CLASSES_MAX:,}")
    labels = labels.astype(np.int64)
    masks = [arrays.get(name) for name in _MASKS]
    if all(mask is None for mask in masks):
        masks = list(stratified_split(labels))
    return Graph.from_edges(
        Path(path).stem,
        nodes,
        index[0],
        index[1],
        features=compact(features),
        labels=labels,
        classes=None if "y" in arrays else 0,
        train=masks[0],
        validation=masks[1],
        test=masks[2],
    )


def _expect(path: str, name: str, array: Any, fits: bool, expected: str) -> None:
    if not fits:
        raise InputError(f"{path}, {name}", f"is {array.dtype} {list(array.shape)}", expected)
