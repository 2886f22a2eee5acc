"""Rows that travel, in the order in which others need them: sums can then begin while rows still come (I9, R14)."""

from collections.abc import Iterator

import numpy as np

from golden.community.tiles import Room, Subgraph, parted
from golden.graph import Graph, IntArray
from golden.locator.locator import Limits, Locator
from golden.locator.schedule import Schedule
from golden.ring.image import travelling_first
from golden.ring.placement import Placement

__all__ = ["by_need"]

#: A new order of the VIDs changes the order in which communities are found, and so the need: as often as this is tried.
_TIMES = 2


def by_need(
    graph: Graph,
    placement: Placement,
    schedule: Schedule,
    limits: Limits,
    room: Room | None = None,
    names: IntArray | None = None,
) -> tuple[IntArray, Placement]:
    """Give the vertices of each chiplet new numbers: those whose rows others need first come first, then the rest.

    A chiplet sends its rows in the order of their VIDs, and sums up its records one after another. So a row goes the
    earlier, the earlier the first record comes that needs it, on any chiplet. The order has no influence on results.

    Parameters
    ----------
    graph, placement
        The graph, and who owns its vertices.
    schedule, limits
        Of the location, which gives the order of records.
    room
        Capacity of a chiplet, whose tiles are located one after another; None: unlimited.
    names
        int64 [nodes], user's number of each VID, for messages; default: the VIDs.

    Returns
    -------
    position
        int64 [nodes], new VID of each vertex; for `Graph.relabelled`.
    placement
        The same one, of the new VIDs.

    Raises
    ------
    InputError
        As for `golden.community.tiles.cut`.
    """
    position, placement = travelling_first(graph, placement)
    if placement.has_sums or not graph.symmetric:
        # Sums begin when all rows have come.
        return position, placement
    vids = np.arange(graph.nodes)
    owners, names = placement.owners(vids), vids if names is None else names
    for _ in range(_TIMES):
        now, called = graph.relabelled(position), names[np.argsort(position)]
        need = np.full(graph.nodes, np.inf)
        for chiplet in range(placement.chiplets):
            first, end = placement.range(chiplet)
            offsets = now.offsets[first : end + 1]
            sources = now.edges[offsets[0] : offsets[-1]]
            part = Subgraph(graph.name, first, offsets - offsets[0], sources, graph.nodes, called)
            for others, when in _needs(part, schedule, limits, room):
                need[others] = np.minimum(need[others], when)
        position = np.argsort(np.lexsort((need, owners)))[position]
    return position, placement


def _needs(part: Subgraph, schedule: Schedule, limits: Limits, room: Room | None) -> Iterator[tuple[IntArray, float]]:
    """Yield the VIDs of others that each record of a chiplet needs, and the share of its work that is done then."""
    tiles = [range(part.owned)]
    if not part.fits(room, schedule, limits):
        tiles = [range(tile.first, tile.first + tile.vertices) for tile in parted(part, room, schedule, limits)]
    needs, work = [], [0]
    for tile in tiles:
        for nodes in _records(part, tile, schedule, limits):
            sources = np.concatenate([part.edges[part.offsets[node] : part.offsets[node + 1]] for node in nodes])
            others = sources[(sources < part.first) | (sources >= part.first + part.owned)]
            if others.size:
                needs.append(others)
                work.append(work[-1] + sources.size)
    yield from ((vids, done / work[-1]) for vids, done in zip(needs, work[1:], strict=True))


def _records(part: Subgraph, tile: range, schedule: Schedule, limits: Limits) -> Iterator[IntArray]:
    """Yield the nodes of each record of a tile, counted from the first own vertex."""
    offsets = part.offsets[tile.start : tile.stop + 1]
    degrees, first = np.diff(offsets), part.first + tile.start
    sources, rows = part.edges[offsets[0] : offsets[-1]] - first, np.repeat(np.arange(len(tile)), degrees)
    inside = (sources >= 0) & (sources < len(tile))
    graph = Graph.from_edges(part.name, len(tile), sources[inside], rows[inside])
    for record in Locator(graph, schedule, limits, degrees).run().records:
        if record.part == 0:
            yield record.nodes + tile.start
