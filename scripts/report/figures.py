"""Figures of reports and of `atoll islands`, as matplotlib figures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from sklearn.metrics import ConfusionMatrixDisplay

from golden.graph import Graph, IntArray
from golden.islands.order import reorder
from golden.islands.record import Record

__all__ = ["FLOWS", "Timeline", "adjacency", "cache", "confusion", "links", "svg", "timeline"]

#: Colours of commands, the same in every figure.
_COLOURS = mpl.colormaps["tab10"]
#: Columns of a picture of what worked when.
_COLUMNS = 1000
#: How an attribute is found, in words.
FLOWS = {
    "in_place": "in its slot",
    "moved": "in another slot",
    "cached": "in the victim cache",
    "missed": "fetched from memory",
}


@dataclass(frozen=True, eq=False)
class Timeline:
    """What was under way when.

    Attributes
    ----------
    phases
        For each chiplet (layer, opcode, cycles, cycle in which it began) of every command, in order.
    parts
        Names of a chiplet's parts.
    working
        For each chiplet uint8 [windows, parts]: cycles in which a part worked.
    window
        Cycles of a window, counted like those in which commands began.
    """

    phases: Sequence[Sequence[tuple[int, str, int, int]]]
    parts: Sequence[str]
    working: Sequence[npt.NDArray[np.uint8]]
    window: int


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


def _shares(working: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], int]:
    """Join windows so that there are no more than the picture has columns, one at least.

    Parameters
    ----------
    working
        float64 [windows, parts], shares of time.

    Returns
    -------
    tuple
        The means, float64 [columns, parts], and how many windows each joins.
    """
    windows, parts = working.shape
    joined = -(-windows // _COLUMNS) or 1
    whole = np.pad(working, ((0, -windows % joined if windows else joined), (0, 0)))
    return whole.reshape(-1, joined, parts).mean(axis=1), joined


def timeline(times: Timeline, cycles: int) -> Figure:
    """Draw for every chiplet the commands when they were under way, and below how much its parts worked.

    Parameters
    ----------
    times
        What was under way when.
    cycles
        Of the run.
    """
    names = list(dict.fromkeys(name for chiplet in times.phases for _, name, _, _ in chiplet))
    start = min((began for chiplet in times.phases for *_, began in chiplet), default=0)
    # Inches of a row for commands, and of one for a part.
    bar, strip = 0.34, 0.17
    height = len(times.phases) * (1.4 * bar + strip * len(times.parts))
    figure = Figure(figsize=(12, 1.2 + height), layout="constrained")
    axes = figure.subplots()
    ticks: dict[float, str] = {}
    top = 0.0
    for number, (chiplet, working) in enumerate(zip(times.phases, times.working, strict=True)):
        for layer, name, length, began in chiplet:
            at = began - start
            colour = _COLOURS(names.index(name) % 10)
            axes.barh(top + bar / 2, length, bar, left=at, color=colour, edgecolor="white", linewidth=0.5)
            if length > cycles / 40:
                axes.text(at + length / 2, top + bar / 2, str(layer), ha="center", va="center", color="white", size=8)
        ticks[top + bar / 2] = f"chiplet {number}"
        top += bar
        first, last = start // times.window, -(-(start + cycles) // times.window)
        shares, joined = _shares(working[first:last] / times.window)
        left, bottom = first * times.window - start, top + strip * len(times.parts)
        axes.imshow(
            shares.T,
            extent=(left, left + len(shares) * joined * times.window, bottom, top),
            aspect="auto",
            interpolation="nearest",
            cmap="Greys",
            vmin=0,
            vmax=1,
        )
        for place, part in enumerate(times.parts):
            ticks[top + strip * (place + 0.5)] = part
        top += strip * len(times.parts) + 0.4 * bar
    for place, name in enumerate(names):
        axes.barh(0, 0, color=_COLOURS(place % 10), label=name)
    axes.set_yticks(list(ticks), list(ticks.values()), fontsize=7)
    axes.set(xlim=(0, cycles), ylim=(top, 0), xlabel="cycles")
    figure.legend(loc="outside upper center", ncols=8, frameon=False)
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
    # scikit-learn's own count warns where there is only one class.
    names, codes = np.unique(np.concatenate([labels, predicted]), return_inverse=True)
    counts = np.zeros((names.size, names.size), dtype=np.int64)
    np.add.at(counts, (codes[: labels.size], codes[labels.size :]), 1)
    shown = ConfusionMatrixDisplay(counts, display_labels=names)
    shown.plot(ax=axes, cmap="Blues", colorbar=False)
    axes.set(xlabel="machine's class", ylabel="true class")
    return figure
