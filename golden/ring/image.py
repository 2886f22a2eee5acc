"""One image for each chiplet of a ring, and the joining of results."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from contracts import Matching
from contracts.weights import WeightRoom
from golden.graph import Graph, IntArray
from golden.image import build_image
from golden.image_format import PART_ROWS, Image
from golden.model.layer import Int16Array
from golden.model.network import Problem
from golden.model.topology import Topology
from golden.program.chiplet import Owned, Travel, by_topology, chiplet_image
from golden.ring.placement import Placement
from golden.ring.traffic import Plan, plan

__all__ = [
    "PART",
    "build_images",
    "joined",
    "owned_of",
    "parts_of",
    "shared_out",
    "tiled_offsets",
    "travelling_first",
]

#: Most parts of a chiplet's rows that are combined and sent in turn, and the fewest rows of one, below which a
#: command costs more than it saves.
_PARTS, PART = 4, 64
#: Bits of a hub's word where the start of its partial sum stands.
_START = 8


def parts_of(owned: int, least: int = PART) -> list[range]:
    """Cut the own vertices into parts; each is sent while the next is combined.

    Parameters
    ----------
    owned
        Number of own vertices.
    least
        Fewest vertices of a part, if there are as many.

    Returns
    -------
    One to four parts of equal size, except the last, which begin at multiples of `PART_ROWS`.
    """
    count = max(1, min(_PARTS, owned // least))
    step = -(-owned // count // PART_ROWS) * PART_ROWS
    return [range(first, min(first + step, owned)) for first in range(0, owned, step)] if owned else [range(0)]


def tiled_offsets(rows: IntArray, tiles: IntArray, count: int, chiplets: int) -> IntArray:
    """Tiled offset array of entries that are sorted by row and tile (R9).

    Parameters
    ----------
    rows, tiles
        int64 [entries], row and tile of every entry.
    count, chiplets
        Number of rows and of tiles.

    Returns
    -------
    int64 [count * chiplets + 1].
    """
    offsets = np.zeros(count * chiplets + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows * chiplets + tiles, minlength=count * chiplets), out=offsets[1:])
    return offsets


def travelling_first(graph: Graph, placement: Placement) -> tuple[IntArray, Placement]:
    """Give the vertices of each chiplet new numbers: first those whose rows others, or partial sums, need.

    These are combined before any sums are made, the others beside them.

    Returns
    -------
    position
        int64 [nodes], new VID of each vertex; for `Graph.relabelled`.
    placement
        The same one, of the new VIDs.
    """
    wanted = plan(graph, placement)
    leaves = np.zeros(graph.nodes, dtype=np.bool_)
    leaves[_leaving(wanted)] = True
    position = np.argsort(np.lexsort((~leaves, placement.owners(np.arange(graph.nodes)))))
    return position, replace(placement, hubs=np.sort(position[placement.hubs]))


def _leaving(wanted: Plan) -> IntArray:
    """Return the vertices whose rows others gather, or partial sums of other chiplets' hubs."""
    return np.union1d(np.flatnonzero(wanted.consumers.any(axis=1)), wanted.shared.source)


def owned_of(
    graph: Graph, placement: Placement, wanted: Plan, matching: Matching = Matching.UNORDERED
) -> Iterator[Owned]:
    """Yield each chiplet's part of a graph, and its traffic on the ring.

    Parameters
    ----------
    graph, placement, wanted
        The graph, the owners, and the plan of one layer's traffic.
    matching
        How the filters match (R7).
    """
    # Vertices with a partial sum, in the order of the hub table.
    summed = np.flatnonzero(wanted.contributors.any(axis=1))
    homes = placement.owners(summed) | wanted.start[summed] << _START
    leaving, bits = _leaving(wanted), 1 << np.arange(placement.chiplets)
    for chiplet in range(placement.chiplets):
        first, end = placement.range(chiplet)
        offsets, sources = _in_edges(placement, wanted, summed, first, end)
        out_tiles = wanted.consumers[first:end] @ bits
        ahead = int(leaving[(leaving >= first) & (leaving < end)].max(initial=first - 1)) + 1 - first
        travel = Travel(out_tiles, summed, homes, *_shared(wanted, summed, first, end), matching, ahead)
        yield Owned(first, end, offsets, sources, placement.boundaries, chiplet, travel)


def _in_edges(placement: Placement, wanted: Plan, summed: IntArray, first: int, end: int) -> tuple[IntArray, IntArray]:
    """Tiled offsets and sources of own vertices; a partial sum's halves stand behind all vertices."""
    edges = wanted.gathered
    mine = (edges.destination >= first) & (edges.destination < end)
    source, destination = edges.source[mine], edges.destination[mine]
    tiles = placement.owners(source)
    homes = (summed >= first) & (summed < end)
    places = np.flatnonzero(homes)
    halves = (placement.vertices + 2 * places[:, None] + np.arange(2)).reshape(-1)
    source = np.concatenate([source, halves])
    destination = np.concatenate([destination, np.repeat(summed[homes], 2)])
    # They belong to the last tile.
    tiles = np.concatenate([tiles, np.full(halves.size, placement.chiplets - 1)])
    order = np.lexsort((source, tiles, destination))
    rows = destination[order] - first
    return tiled_offsets(rows, tiles[order], end - first, placement.chiplets), source[order]


def _shared(wanted: Plan, summed: IntArray, first: int, end: int) -> tuple[IntArray, IntArray]:
    """Offsets and sources of the edges into hubs that the owner of their sources executes."""
    edges = wanted.shared
    mine = (edges.source >= first) & (edges.source < end)
    places = np.searchsorted(summed, edges.destination[mine])
    order = np.lexsort((edges.source[mine], places))
    return tiled_offsets(places[order], np.zeros_like(places), summed.size, 1), edges.source[mine][order]


def build_images(
    problem: Problem,
    placement: Placement,
    *,
    matching: Matching = Matching.UNORDERED,
    part: int = PART,
    weight_room: WeightRoom | None = None,
    scratch_lines: int = 0,
) -> list[Image]:
    """Images of all chiplets; a ring of one has the image of a chiplet that works alone.

    Parameters
    ----------
    problem
        Network and graph, with VIDs as in `placement`.
    placement
        Owners of vertices, the hubs, and who executes edges (R8).
    matching
        How the filters match (R7).
    part
        As for :func:`parts_of`.
    weight_room, scratch_lines
        As for `golden.program.chiplet.chiplet_image`.

    Raises
    ------
    InputError
        If the placement is not that of the graph, or an image would be too large.
    """
    placement.check(problem.graph)
    if placement.chiplets == 1:
        return [build_image(problem, weight_room, scratch_lines)]
    shares = shared_out(problem, placement, matching)
    room: dict[str, Any] = {"weight_room": weight_room, "scratch_lines": scratch_lines}
    return [chiplet_image(problem, own, lambda count: parts_of(count, part), **room) for own in shares]


def shared_out(problem: Problem, placement: Placement, matching: Matching = Matching.UNORDERED) -> list[list[Owned]]:
    """Return each chiplet's part of every layer's topology; layers that sum the same share one object.

    Along weighted edges there are no partial sums: the owner of the destination has the weights.
    """

    def parts(topology: Topology) -> list[Owned]:
        graph, shared = topology.graph, placement.without_sums if topology.apart else placement
        return list(owned_of(graph, shared, plan(graph, shared), matching))

    by_layer = by_topology(problem, parts)
    return [[each[chiplet] for each in by_layer] for chiplet in range(placement.chiplets)]


def joined(parts: Sequence[Int16Array], position: npt.ArrayLike | None = None) -> Int16Array:
    """Rows of all chiplets as one array.

    Parameters
    ----------
    parts
        int16 [owned, f] of every chiplet, in the order of the ring.
    position
        int [vertices], the permutation that relabelled the graph; the result is in the original order.
    """
    rows = np.concatenate(list(parts))
    return rows if position is None else rows[np.asarray(position)]
