"""Figures of what was measured, as matplotlib figures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from sklearn.metrics import ConfusionMatrixDisplay

from golden.graph import IntArray
from scripts.flows.schema import AttributeCache, RingTraffic
from scripts.report.glossary import phase_title

__all__ = ["FLOWS", "Timeline", "cache", "confusion", "links", "svg", "timeline"]

#: Colours of ways in which an attribute is found.
_COLOURS = mpl.colormaps["tab10"]
#: Colours of commands and gaps, the same in every report. Work that goes on has a lighter tone of its command's.
_PHASES = {
    "combine": "#1f77b4", "aggregate": "#ff7f0e", "load_weights": "#2ca02c", "process": "#d62728",
    "locate": "#9467bd", "list": "#8c564b", "scatter": "#e377c2",
    "scatter_background": "#f7b6d2", "reduce": "#bcbd22", "barrier": "#17becf", "neural": "#1f3d5c",
    "sample": "#98df8a", "fetch": "#dbdb8d", "copy": "#c5b0d5", "share": "#9edae5",
    "start": "#7f7f7f", "between": "#c7c7c7", "end": "#4d4d4d",
}  # fmt: skip
_OTHER, _COMPLETED = "#000000", "#ededed"
#: Share of the run that a command needs for its layer's number.
_NUMBERED = 1 / 40
#: More classes than these are drawn without numbers.
_COUNTED_CLASSES = 20
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
        For each chiplet (layer, opcode, cycles, cycle in which it began) of every command and of the gaps between them,
        in order, from its start to its completion. A gap may have no layer.
    parts
        Names of a chiplet's parts.
    working
        For each chiplet uint8 [windows, parts]: cycles in which a part worked.
    window
        Cycles of a window, counted like those in which commands began.
    """

    phases: Sequence[Sequence[tuple[int | None, str, int, int]]]
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


def timeline(times: Timeline) -> Figure:
    """Draw for every chiplet the commands when they were under way, and below how much its parts worked.

    Parameters
    ----------
    times
        What was under way when.
    """
    found = {name for chiplet in times.phases for _, name, _, _ in chiplet}
    start = min(chiplet[0][3] for chiplet in times.phases if chiplet)
    ends = [chiplet[-1][3] + chiplet[-1][2] - start if chiplet else 0 for chiplet in times.phases]
    cycles = max(ends)
    # Inches of a row for commands, and of one for a part.
    bar, strip = 0.34, 0.17
    height = len(times.phases) * (1.4 * bar + strip * len(times.parts))
    figure = Figure(figsize=(12, 1.3 + height), layout="constrained")
    axes = figure.subplots()
    ticks: dict[float, str] = {}
    top = 0.0
    for number, (chiplet, working) in enumerate(zip(times.phases, times.working, strict=True)):
        _draw_phases(axes, chiplet, (start, cycles), (top, bar))
        if ends[number] < cycles:
            axes.barh(top + bar / 2, cycles - ends[number], bar, left=ends[number], color=_COMPLETED)
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
    key = [Patch(color=colour, label=phase_title(name)) for name, colour in _PHASES.items() if name in found]
    key += [Patch(color=_OTHER, label=phase_title(name)) for name in sorted(found - _PHASES.keys())]
    if min(ends) < cycles:
        key.append(Patch(color=_COMPLETED, label="completed before others"))
    axes.set_yticks(list(ticks), list(ticks.values()), fontsize=7)
    axes.set(xlim=(0, cycles), ylim=(top, 0), xlabel="cycles")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    figure.legend(handles=key, loc="outside upper center", ncols=min(6, len(key)), frameon=False, fontsize=9)
    return figure


def _draw_phases(
    axes: Axes, phases: Sequence[tuple[int | None, str, int, int]], time: tuple[int, int], place: tuple[float, float]
) -> None:
    """Draw a row of commands and gaps.

    Parameters
    ----------
    axes
        To draw on.
    phases
        As in `Timeline`, of one chiplet.
    time
        Cycle of the simulation that is the first of the picture, and the picture's cycles.
    place
        Upper end of the row and its height.
    """
    (start, cycles), (top, bar) = time, place
    for name in dict.fromkeys(name for _, name, _, _ in phases):
        pieces = [(began - start, length) for _, one, length, began in phases if one == name]
        axes.broken_barh(pieces, (top, bar), facecolors=_PHASES.get(name, _OTHER), linewidth=0)
    for layer, _, length, began in phases:
        if length > cycles * _NUMBERED and layer is not None:
            at = began - start + length / 2
            axes.text(at, top + bar / 2, str(layer), ha="center", va="center", color="white", size=8)


def links(ring: RingTraffic) -> Figure:
    """Draw the words on every link beside the minimum, and in all beside other ways to bring them.

    Parameters
    ----------
    ring
        Figures of the ring.
    """
    figure = Figure(figsize=(12, 3.2), layout="constrained")
    by_link, ways = figure.subplots(1, 2, width_ratios=(2, 1))
    at = np.arange(len(ring.words_by_link))
    by_link.bar(at - 0.2, ring.words_by_link, 0.4, label="measured")
    by_link.bar(at + 0.2, ring.minimum, 0.4, label="minimum")
    by_link.set_xticks(at, [str(n) for n in at])
    by_link.set(xlabel="link behind chiplet", ylabel="words of 16 bits")
    by_link.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    totals = {"measured": ring.words, "minimum": ring.least, "broadcast": ring.broadcast, "unicast": ring.unicast}
    ways.barh(list(totals), list(totals.values()))
    ways.invert_yaxis()
    ways.xaxis.set_major_locator(MaxNLocator(4))
    ways.set_xlabel("words over all links")
    return figure


def cache(found: AttributeCache) -> Figure:
    """Draw how attributes were found.

    Parameters
    ----------
    found
        Figures of the attribute RAMs.
    """
    figure = Figure(figsize=(12, 1.6), layout="constrained")
    axes = figure.subplots()
    at = 0
    for number, (flow, said) in enumerate(FLOWS.items()):
        count = getattr(found, flow)
        axes.barh(0, count, left=at, color=_COLOURS(number), label=f"{said}: {count:,}")
        at += count
    axes.set_yticks([])
    axes.set(xlim=(0, max(1, at)), xlabel="requests")
    figure.legend(loc="outside upper center", ncols=len(FLOWS), frameon=False)
    return figure


def confusion(labels: IntArray, predicted: IntArray) -> Figure:
    """Draw how classes are taken for one another.

    Parameters
    ----------
    labels, predicted
        int64 [nodes], all known.
    """
    classes = np.union1d(labels, predicted)
    side = float(np.clip(2 + 0.45 * classes.size, 5, 11))
    figure = Figure(figsize=(side + 1, side), layout="constrained")
    axes = figure.subplots()
    # scikit-learn's own count warns where there is only one class.
    counts = np.zeros((classes.size, classes.size), dtype=np.int64)
    np.add.at(counts, (np.searchsorted(classes, labels), np.searchsorted(classes, predicted)), 1)
    shown = ConfusionMatrixDisplay(counts, display_labels=classes)
    few = classes.size <= _COUNTED_CLASSES
    shown.plot(ax=axes, cmap="Blues", colorbar=not few, include_values=few)
    axes.set(xlabel="predicted class", ylabel="label")
    return figure
