"""Pictures of the adjacency: blocks of nodes as given, and in the order that the locator found (I11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from golden.graph import Graph, IntArray
from golden.locator.order import bands, outside, reorder
from golden.locator.record import Record

__all__ = ["BLOCKS", "adjacency", "blocks_of"]

#: Blocks of nodes along each side of a picture, at most: a block is a point of the picture.
BLOCKS = 450
#: Darkness of a block with one edge; one with the most edges has 1.
_FAINTEST = 0.45
_COMMUNITY, _HUB, _NEITHER = "tab:blue", "tab:orange", "tab:gray"
#: Share of the picture that a round needs for its number.
_NUMBERED = 0.04


def blocks_of(rows: IntArray, columns: IntArray, nodes: int) -> npt.NDArray[np.int64]:
    """Count edges by block.

    Parameters
    ----------
    rows, columns
        int64 [edges], positions below `nodes`.
    nodes
        Number of nodes.

    Returns
    -------
    numpy.ndarray
        int64 [blocks, blocks], `BLOCKS` on each side at most, of equal numbers of nodes but for one.
    """
    side = min(nodes, BLOCKS)
    at = rows * side // nodes * side + columns * side // nodes
    return np.bincount(at, minlength=side * side).reshape(side, side)


def _shade(counts: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.float64]:
    """Darkness by the logarithm of the count, and `_FAINTEST` at least where there is an edge."""
    share = np.log1p(counts) / np.log1p(max(1, most))
    return np.where(counts > 0, _FAINTEST + (1 - _FAINTEST) * share, 0.0)


def _picture(kinds: Sequence[tuple[str, npt.NDArray[np.int64]]]) -> npt.NDArray[np.float64]:
    """Colour each block by the kind of most of its edges.

    Parameters
    ----------
    kinds
        Colour, and int64 [blocks, blocks], edges of that kind.

    Returns
    -------
    numpy.ndarray
        float64 [blocks, blocks, 3], red, green and blue.
    """
    counts = np.stack([count for _, count in kinds])
    whole = counts.sum(axis=0)
    colours = np.array([to_rgb(colour) for colour, _ in kinds])[counts.argmax(axis=0)]
    shade = _shade(whole, int(whole.max(initial=0)))[..., None]
    return 1 - shade * (1 - colours)


def _show(axes: Axes, picture: npt.NDArray[np.float64], nodes: int, title: str) -> None:
    # Seen from the lower left, rows grow upwards, so the diagonal runs to the upper right.
    ends = (-0.5, nodes - 0.5)
    axes.imshow(picture, origin="lower", extent=(*ends, *ends), interpolation="nearest", aspect="equal")
    axes.set_title(title)
    axes.set(xlim=ends, ylim=ends)


def _draw_rounds(axes: Axes, records: Sequence[Record], nodes: int) -> None:
    """Outline each round's square, whose lower and left borders are the L of its hubs, and tint the L."""
    at = 0
    look: dict[str, Any] = {"linewidth": 0, "alpha": 0.13, "zorder": 2}
    for number, hubs, others in bands(records):
        first, rest = at - 0.5, nodes - at
        axes.add_patch(Rectangle((first, first), rest, hubs, color=_HUB, **look))
        axes.add_patch(Rectangle((first, first + hubs), hubs, rest - hubs, color=_HUB, **look))
        axes.plot([first, first, nodes], [nodes, first, first], color="tab:green", linewidth=0.8, zorder=3)
        if hubs + others > _NUMBERED * nodes:
            # Below the diagonal, where rows of communities have no edges.
            look_of_number: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": 8, "color": "darkgreen"}
            ground = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1}
            x, y = nodes - 0.5 - 0.01 * nodes, at + (hubs + others) / 2
            axes.text(x, y, f"round {number}", bbox=ground, zorder=4, **look_of_number)
        at += hubs + others


def adjacency(graph: Graph, records: Sequence[Record]) -> Figure:
    """Draw the adjacency before and after reordering, lower left to upper right (I11).

    Each point is a block of nodes by a block of nodes and shows whether it has an edge, however many edges there are.

    Parameters
    ----------
    graph
        The graph.
    records
        All of its communities and hubs. Nodes without a record come last.
    """
    position, group = reorder(graph.nodes, records)
    missing = np.flatnonzero(position < 0)
    position[missing] = graph.nodes - missing.size + np.arange(missing.size)
    # Also the diagonal, which every bitmap has.
    every = np.arange(graph.nodes)
    rows, columns = np.concatenate([graph.destinations, every]), np.concatenate([graph.edges, every])
    inside = (group[rows] >= 0) & (group[rows] == group[columns])
    neither = np.concatenate([outside(graph, group), np.zeros(graph.nodes, np.bool_)])

    def count(which: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        return blocks_of(position[rows[which]], position[columns[which]], graph.nodes)

    figure = Figure(figsize=(14, 7.6), layout="constrained")
    before, after = figure.subplots(1, 2)
    _show(before, _picture([("black", blocks_of(rows, columns, graph.nodes))]), graph.nodes, f"{graph.name}: as given")
    kinds = [(_COMMUNITY, count(inside)), (_HUB, count(~inside & ~neither)), (_NEITHER, count(neither))]
    hubs, communities = int((group < 0).sum()), len(set(group[group >= 0].tolist()))
    _show(after, _picture(kinds), graph.nodes, f"by rounds: {hubs:,} hubs, {communities:,} communities")
    _draw_rounds(after, records, graph.nodes)
    names = ["in a community", "of a hub", "between chiplets or tiles"][: 2 + bool(neither.any())]
    key = [Patch(color=colour, label=name) for (colour, _), name in zip(kinds, names, strict=False)]
    key.append(Patch(fill=False, edgecolor="tab:green", label="border of a round"))
    figure.legend(handles=key, loc="outside lower right", ncols=len(key), frameon=False)
    return figure
