"""Figures of reports and of `atoll islands`, as matplotlib figures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix

from golden.graph import Graph, IntArray
from golden.islands.order import reorder
from golden.islands.record import Record

__all__ = ["FLOWS", "adjacency", "cache", "confusion", "links", "phases", "svg"]

#: Colours of commands, the same in every figure.
_COLOURS = mpl.colormaps["tab10"]
#: How an attribute is found, in words.
FLOWS = {
    "in_place": "in its slot",
    "moved": "in another slot",
    "cached": "in the victim cache",
    "missed": "fetched from memory",
}
Phase = tuple[int, str, int]


def svg(figure: Figure) -> str:
    """Return a figure as an SVG element; text stays text."""
    text = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "atoll"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, dpi=120)
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]


def adjacency(graph: Graph, records: Sequence[Record]) -> Figure:
    """Draw the adjacency before and after reordering, lower left to upper right (I11).

    Parameters
    ----------
    graph
        The graph.
    records
        Of all its communities and hubs.
    """
    position, group = reorder(graph.nodes, records)
    # Also the diagonal, which every bitmap has.
    rows = np.concatenate([graph.destinations, np.arange(graph.nodes)])
    columns = np.concatenate([graph.edges, np.arange(graph.nodes)])
    inside = (group[rows] >= 0) & (group[rows] == group[columns])
    size = float(np.clip(20_000 / max(1, rows.size), 0.2, 12))
    figure = Figure(figsize=(14, 7.6), layout="constrained")
    before, after = figure.subplots(1, 2)
    look = {"s": size, "marker": "s", "linewidths": 0, "rasterized": True}
    before.scatter(columns, rows, c="black", **look)
    before.set_title(f"{graph.name}: as given")
    after.scatter(position[columns], position[rows], c=np.where(inside, "tab:blue", "tab:orange"), **look)
    hubs, communities = int((group < 0).sum()), len(set(group[group >= 0].tolist()))
    after.set_title(f"{hubs} hubs (orange), {communities} communities (blue)")
    # Seen from the lower left, rows grow upwards, so the diagonal runs to the upper right.
    for axes in (before, after):
        axes.set(xlim=(-0.5, graph.nodes - 0.5), ylim=(-0.5, graph.nodes - 0.5), aspect="equal")
    return figure


def phases(chiplets: Sequence[Sequence[Phase]], cycles: int) -> Figure:
    """Draw the commands of every chiplet one after another; what is left to `cycles` lies between them.

    Parameters
    ----------
    chiplets
        (layer, opcode, cycles) of every command, in order.
    cycles
        Of the run.
    """
    names = list(dict.fromkeys(name for chiplet in chiplets for _, name, _ in chiplet))
    figure = Figure(figsize=(12, 1.2 + 0.45 * len(chiplets)), layout="constrained")
    axes = figure.subplots()
    for row, chiplet in enumerate(chiplets):
        at = 0
        for layer, name, length in chiplet:
            axes.barh(row, length, left=at, color=_COLOURS(names.index(name) % 10), edgecolor="white", linewidth=0.5)
            if length > cycles / 40:
                axes.text(at + length / 2, row, str(layer), ha="center", va="center", color="white", fontsize=8)
            at += length
        axes.barh(row, max(0, cycles - at), left=at, color="lightgrey")
    for number, name in enumerate(names):
        axes.barh(0, 0, color=_COLOURS(number % 10), label=name)
    axes.barh(0, 0, color="lightgrey", label="between commands")
    axes.set_yticks(range(len(chiplets)), [f"chiplet {n}" for n in range(len(chiplets))])
    axes.invert_yaxis()
    axes.set_xlabel("cycles")
    figure.legend(loc="outside upper center", ncols=6, frameon=False)
    return figure


def links(ring: dict[str, Any]) -> Figure:
    """Draw the words on every link beside the minimum, and in all beside other ways to bring them.

    Parameters
    ----------
    ring
        ``ring`` of `result.json`.
    """
    figure = Figure(figsize=(12, 3.2), layout="constrained")
    by_link, ways = figure.subplots(1, 2, width_ratios=(2, 1))
    at = np.arange(len(ring["words_by_link"]))
    by_link.bar(at - 0.2, ring["words_by_link"], 0.4, label="measured")
    by_link.bar(at + 0.2, ring["minimum"], 0.4, label="minimum")
    by_link.set_xticks(at, [str(n) for n in at])
    by_link.set(xlabel="link behind chiplet", ylabel="words of 16 bits")
    by_link.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    totals = {"measured": sum(ring["words_by_link"]), "minimum": sum(ring["minimum"])}
    totals |= {"broadcast": ring["broadcast"], "unicast": ring["unicast"]}
    ways.barh(list(totals), list(totals.values()))
    ways.invert_yaxis()
    ways.xaxis.set_major_locator(MaxNLocator(4))
    ways.set_xlabel("words over all links")
    return figure


def cache(found: dict[str, Any]) -> Figure:
    """Draw how attributes were found.

    Parameters
    ----------
    found
        ``attribute_cache`` of `result.json`.
    """
    figure = Figure(figsize=(12, 1.6), layout="constrained")
    axes = figure.subplots()
    at = 0
    for number, (flow, said) in enumerate(FLOWS.items()):
        axes.barh(0, found[flow], left=at, color=_COLOURS(number), label=f"{said}: {found[flow]:,}")
        at += found[flow]
    axes.set_yticks([])
    axes.set_xlabel("requests")
    figure.legend(loc="outside upper center", ncols=len(FLOWS), frameon=False)
    return figure


def confusion(labels: IntArray, predicted: IntArray) -> Figure:
    """Draw how classes are taken for one another.

    Parameters
    ----------
    labels, predicted
        int64 [nodes], all known.
    """
    figure = Figure(figsize=(6, 5), layout="constrained")
    axes = figure.subplots()
    shown = ConfusionMatrixDisplay(confusion_matrix(labels, predicted))
    shown.plot(ax=axes, cmap="Blues", colorbar=False)
    axes.set(xlabel="machine's class", ylabel="true class")
    return figure
