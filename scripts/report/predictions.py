"""The predictions of a run, node by node or graph by graph, as the page's table reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from golden.graph import Graph, IntArray

__all__ = ["LISTED_NODES", "listed"]

#: Nodes of a page's table at most, so that a browser opens it at once.
LISTED_NODES = 50_000
_SETS = ("training", "validation", "test")


def listed(graph: Graph, predicted: IntArray, floating: IntArray | None) -> dict[str, Any]:
    """Return the first `LISTED_NODES` nodes, or small graphs of a batch, in a compact form.

    Parameters
    ----------
    graph
        The data set.
    predicted
        int64 [nodes], classes by the machine's results.
    floating
        int64 [nodes], classes by the float model, or None.

    Returns
    -------
    dict
        ``what`` is listed, node or graph; the number of all ``nodes``; ``label`` of each one listed, or None if none
        has one; ``predicted``; ``set``, a digit for each, 0 for none, then as in ``sets``; ``differs``, those whose
        class by the float model is another, or None.
    """
    here = graph.answers[:LISTED_NODES]
    sets = graph.train[here] * 1 + graph.validation[here] * 2 + graph.test[here] * 3
    return {
        "what": "node" if graph.graph_of is None else "graph",
        "nodes": graph.answers.size,
        "label": graph.labels[here].tolist() if (graph.labels >= 0).any() else None,
        "predicted": predicted[here].tolist(),
        "set": "".join(map(str, sets.tolist())),
        "sets": ["", *_SETS],
        "differs": None if floating is None else np.flatnonzero(floating[here] != predicted[here]).tolist(),
    }
