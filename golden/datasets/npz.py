"""A graph of the user's own in a NumPy archive."""

from pathlib import Path
from typing import Any

import numpy as np

from contracts.errors import InputError, nearest
from golden.datasets.archive import read_archive
from golden.datasets.common import CLASSES_MAX, check_counts, compact, stratified_split
from golden.datasets.small_graphs import batch_of
from golden.graph import BoolArray, Graph, IntArray

__all__ = ["load"]

_MASKS = ("train_mask", "val_mask", "test_mask")
_REQUIRED = ("edge_index", "x")
_KNOWN = (*_REQUIRED, "y", *_MASKS, "edge_weight", "edge_attr", "batch")


def load(path: str) -> Graph:
    """Load ``edge_index`` [2, edges] (sources, destinations), ``x`` [nodes, f] and optional arrays.

    ``y`` [nodes] and the masks belong to nodes, with ``batch`` [nodes] to the small graphs whose numbers it holds.
    Without ``y`` all classes are unknown and their number is 0, which suffices for a network trained elsewhere.
    Without any of ``train_mask``, ``val_mask`` and ``test_mask`` the split is 60/20/20 by class; a mask that is absent
    beside another is empty. The direction of edges is kept; self loops and duplicates are dropped, and weights
    (``edge_weight`` [edges]) and attributes (``edge_attr`` [edges, d], or [edges]: one each) of duplicates added.
    Features of which fewer than half are not zero are kept sparse.

    Raises
    ------
    InputError
        If the file is missing or not such an archive, or an array has the wrong shape, type or range.
    """
    arrays = read_archive(path, "edge_index, x, y; docs/datasets.md shows how to write one")
    _check_names(path, arrays)
    index, features = (arrays[name] for name in _REQUIRED)
    _expect(path, "x", features, features.ndim == 2 and features.dtype.kind in "biuf", "numbers [nodes, f]")
    nodes = features.shape[0]
    whole = index.dtype.kind in "iu"
    _expect(path, "edge_index", index, whole and index.ndim == 2 and index.shape[0] == 2, "integers [2, edges]")
    weights = _weights(path, arrays.get("edge_weight"), index.shape[1])
    attributes = _attributes(path, arrays.get("edge_attr"), index.shape[1])
    graph_of = _graph_of(path, arrays.get("batch"), nodes)
    count, masks = nodes if graph_of is None else int(graph_of.max(initial=-1)) + 1, []
    labels = arrays.get("y", np.full(count, -1))
    fits = labels.shape == (count,) and labels.dtype.kind in "iu"
    _expect(path, "y", labels, fits, f"integers [{count}]{_EACH if graph_of is not None else ''}")
    for name in _MASKS:
        masks.append(mask := arrays.get(name))
        if mask is not None:
            _expect(path, name, mask, mask.shape == (count,) and mask.dtype == np.bool_, f"bool [{count}]")
    check_counts(path, nodes, features.shape[1])
    if not np.isfinite(features).all():
        raise InputError(f"{path}, x", "has a value that is not finite", "finite numbers")
    if labels.size and labels.max() >= CLASSES_MAX:
        raise InputError(f"{path}, y", f"has the class {labels.max()}", f"classes below {CLASSES_MAX:,}")
    labels = labels.astype(np.int64)
    if all(mask is None for mask in masks):
        masks = list(stratified_split(labels))
    classes = None if "y" in arrays else 0
    return _graph(Path(path).stem, index, compact(features), labels, masks, classes, weights, attributes, graph_of)


#: Added to what is expected of a batch's classes.
_EACH = ", one a graph of the batch"


def _graph(
    name: str,
    index: Any,
    features: Any,
    labels: IntArray,
    masks: list[BoolArray | None],
    classes: int | None,
    weights: Any,
    attributes: Any,
    graph_of: IntArray | None,
) -> Graph:
    """Return the graph of checked arrays."""
    if graph_of is not None:
        nodes = graph_of.size
        if index.size and (index.min() < 0 or index.max() >= nodes):
            worst = index.min() if index.min() < 0 else index.max()
            raise InputError(f"graph {name}, edges", f"has the node {worst}", f"nodes in 0..{nodes - 1}")
        return batch_of(
            name, graph_of, index[0], index[1], features, labels, masks, classes=classes, edge_weight=weights,
            edge_attributes=attributes,
        )  # fmt: skip
    return Graph.from_edges(
        name,
        features.shape[0],
        index[0],
        index[1],
        features=features,
        labels=labels,
        classes=classes,
        train=masks[0],
        validation=masks[1],
        test=masks[2],
        edge_weight=weights,
        edge_attributes=attributes,
    )


def _check_names(path: str, arrays: dict[str, Any]) -> None:
    """Refuse an archive that lacks an array or has another one."""
    for name in _REQUIRED:
        if name not in arrays:
            raise InputError(path, f"has no {name}", f"arrays {', '.join(_REQUIRED)}")
    for name in arrays:
        if name not in _KNOWN:
            raise InputError(path, f"has an array {name}{nearest(name, _KNOWN)}", f"only {', '.join(_KNOWN)}")


def _weights(path: str, weights: Any, edges: int) -> Any:
    """Check the edge weights, if there are any."""
    if weights is not None:
        fits = weights.shape == (edges,) and weights.dtype.kind in "biuf"
        _expect(path, "edge_weight", weights, fits, f"numbers [{edges}]")
        if not np.isfinite(weights).all():
            raise InputError(f"{path}, edge_weight", "has a value that is not finite", "finite numbers")
    return weights


def _attributes(path: str, attributes: Any, edges: int) -> Any:
    """Check the attributes of edges, if there are any; one number an edge is a column."""
    if attributes is None:
        return None
    columns = attributes[:, None] if attributes.ndim == 1 else attributes
    fits = columns.ndim == 2 and columns.shape[0] == edges and columns.shape[1] > 0 and columns.dtype.kind in "biuf"
    _expect(path, "edge_attr", attributes, fits, f"numbers [{edges}, d]")
    if not np.isfinite(columns).all():
        raise InputError(f"{path}, edge_attr", "has a value that is not finite", "finite numbers")
    return columns


def _graph_of(path: str, batch: Any, nodes: int) -> IntArray | None:
    """Check the numbers of the nodes' small graphs, if there are any."""
    if batch is None:
        return None
    _expect(path, "batch", batch, batch.shape == (nodes,) and batch.dtype.kind in "iu", f"integers [{nodes}]")
    if nodes and (batch.min() < 0 or batch.max() >= nodes):
        worst = batch.min() if batch.min() < 0 else batch.max()
        raise InputError(f"{path}, batch", f"has the graph {worst}", f"graphs in 0..{nodes - 1}")
    graph_of: IntArray = batch.astype(np.int64)
    empty = np.bincount(graph_of, minlength=1) == 0
    if nodes and empty.any():
        what = f"has no node of graph {np.argmax(empty)}"
        raise InputError(f"{path}, batch", what, "at least one node of every graph from 0 on")
    return graph_of


def _expect(path: str, name: str, array: Any, fits: bool, expected: str) -> None:
    if not fits:
        raise InputError(f"{path}, {name}", f"is {array.dtype} {list(array.shape)}", expected)
