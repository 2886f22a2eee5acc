"""The drawing of a small graph: nodes by the class that the machine predicts."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from golden.graph import Graph, IntArray

__all__ = ["DRAWN_NODES", "drawing"]

#: Larger graphs are a ball of wool.
DRAWN_NODES = 300
#: Larger ones have no numbers in their nodes.
_NUMBERED_NODES = 80
_COLOURS = [*mpl.color_sequences["tab10"], *mpl.color_sequences["tab20"][1::2]]


def drawing(graph: Graph, predicted: IntArray) -> Figure:
    """Draw nodes and edges; a node has the colour of its predicted class, and a black ring if its label is another.

    Parameters
    ----------
    graph
        Of `DRAWN_NODES` nodes at most.
    predicted
        int64 [nodes], classes.
    """
    shape = nx.Graph()
    shape.add_nodes_from(range(graph.nodes))
    shape.add_edges_from(zip(graph.edges.tolist(), graph.destinations.tolist(), strict=True))
    places = nx.spring_layout(shape, seed=0, iterations=200, k=2.2 / max(1, graph.nodes) ** 0.5)
    at = np.array([places[node] for node in range(graph.nodes)])
    figure = Figure(figsize=(12, 8), layout="constrained")
    axes = figure.subplots()
    for source, destination in shape.edges:
        axes.plot(*at[[source, destination]].T, color="0.75", linewidth=0.7, zorder=1)
    wrong = (graph.labels >= 0) & (graph.labels != predicted)
    numbered = graph.nodes <= _NUMBERED_NODES
    colours = [_COLOURS[number % len(_COLOURS)] for number in predicted.tolist()]
    size = 260 if numbered else 70
    edges = ["black" if one else "white" for one in wrong.tolist()]
    widths = np.where(wrong, 2.5, 0.8).tolist()
    axes.scatter(at[:, 0], at[:, 1], s=size, c=colours, edgecolors=edges, linewidths=widths, zorder=2)
    if numbered:
        for node, (x, y) in enumerate(at.tolist()):
            axes.text(x, y, str(node), ha="center", va="center", color="white", fontsize=8, zorder=3)
    axes.set_axis_off()
    axes.margins(0.03)
    # The layout measures the numbers of nodes where they are: with stale limits, one far off leaves no room for axes.
    axes.autoscale_view()
    look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 9}
    key = [
        Line2D([], [], color=_COLOURS[number % len(_COLOURS)], label=f"class {number}", **look)
        for number in sorted(set(predicted.tolist()))
    ]
    if wrong.any():
        look["markeredgewidth"] = 2.5
        key.append(Line2D([], [], color="white", markeredgecolor="black", label="label is another class", **look))
    figure.legend(handles=key, loc="outside lower center", ncols=min(8, len(key)), frameon=False)
    return figure
