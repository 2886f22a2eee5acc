"""Tiles: parts of a chiplet's subgraph that fit on the chip.

A tile is a contiguous range of the chiplet's own vertices with all their sources. These have *positions*: the
own ones first, then the other sources, on a ring in the order in which their rows come, then halves of partial sums.
To the locator, vertices outside the tile are hubs, like those of other chiplets. Combined rows of all vertices lie in
memory; a table holds the granule of each position's row.

A subgraph whose own part is directed is located as its double cover (`golden.locator.cover`), also where it fits: in
its tiles the own vertices are destination copies. Behind them come source copies, which the locator searches too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from contracts.errors import InputError
from golden.graph import BoolArray, Graph, IntArray
from golden.image_format import PART_ROWS
from golden.locator.cover import joined_rows
from golden.locator.locator import Limits
from golden.locator.partition import partition
from golden.locator.schedule import Schedule

__all__ = ["Room", "Subgraph", "Tile", "cut", "parted"]

#: Sizes of a tile, evenly apart, for which hubs are counted before the search for the largest.
_SIZES = 8


@dataclass(frozen=True)
class Room:
    """Capacity of a chiplet.

    Attributes
    ----------
    nodes
        Vertices of the locator and of the node table, hubs included; at least 16.
    edges
        Bound of the locator's edges, exclusive.
    units, hubs
        Hub units, a power of two, and hubs of each; the low VID bits select the unit.

    Raises
    ------
    ValueError
        If `nodes` is below 16, or another value below 1.
    """

    nodes: int
    edges: int
    units: int
    hubs: int

    def __post_init__(self) -> None:
        for name, least in (("nodes", PART_ROWS), ("edges", 1), ("units", 1), ("hubs", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)!r}")

    @property
    def positions(self) -> int:
        """Positions of a tile that fit whatever they are: each may be a hub, and units take turns at positions."""
        return min(self.nodes, self.units * self.hubs)

    @property
    def block(self) -> int:
        """Vertices that are combined at a time."""
        return self.nodes // PART_ROWS * PART_ROWS


@dataclass(frozen=True, eq=False)
class Subgraph:
    """The part of a graph that a chiplet owns.

    Attributes
    ----------
    name
        Name of the graph.
    first
        First own VID.
    offsets
        int64 [owned + 1], first edge of every own vertex.
    edges
        int64 [edges], sources: VIDs, and behind all vertices halves of partial sums in pairs, low and high.
    vertices
        Of the graph.
    names
        int64 [vertices], user's number of each VID.
    boundaries
        int64 [chiplets + 1], first VID of each chiplet, which sends its rows in their order; default: one has all.
    """

    name: str
    first: int
    offsets: IntArray
    edges: IntArray
    vertices: int
    names: IntArray
    boundaries: IntArray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    @classmethod
    def whole(cls, graph: Graph) -> Self:
        """Return the whole graph, for a chiplet that works alone."""
        return cls(graph.name, 0, graph.offsets, graph.edges, graph.nodes, np.arange(graph.nodes))

    @property
    def owned(self) -> int:
        """Own vertices."""
        return self.offsets.size - 1

    @cached_property
    def directed(self) -> bool:
        """Whether an edge between own vertices has no reverse, so that it is located as its double cover."""
        owners = np.repeat(np.arange(self.owned), np.diff(self.offsets))
        inside = (self.edges >= self.first) & (self.edges < self.first + self.owned)
        source, destination = self.edges[inside] - self.first, owners[inside]
        return not np.array_equal(
            np.sort(source * self.owned + destination), np.sort(destination * self.owned + source)
        )

    @cached_property
    def read(self) -> IntArray:
        """int64 [owned + 1], edges before each own vertex as the locator has them: twice in a double cover."""
        if not self.directed:
            return self.offsets
        back = np.concatenate([[0], np.cumsum(self.edges < self.vertices)])
        return self.offsets + back[self.offsets]

    def fits(self, room: Room | None, schedule: Schedule, limits: Limits) -> bool:
        """Return whether the subgraph fits on a chiplet at once: with its VIDs, or with positions of a double cover.

        Parameters
        ----------
        room
            Capacity of the chiplet; None: unlimited.
        schedule, limits
            Parameters of the location, which determine the hubs.
        """
        if room is None:
            return True
        if self.directed:
            return _fits(_tile(self, 0, self.owned), room, schedule, limits)
        return _located_in(room, self.first, self.offsets, self.edges, schedule, limits)


@dataclass(frozen=True, eq=False)
class Tile:
    """A part of a subgraph, by positions.

    Attributes
    ----------
    first, vertices
        Own vertices of the subgraph, from `first` on, counted from the first one.
    rows
        int64 [positions], the source of each position: the own VIDs, then other VIDs, by their place among those of
        their chiplet, then halves of partial sums, ascending. In a double cover the other VIDs are those of all
        sources, own ones too.
    first_partial
        Position of the first of these.
    offsets, edges
        int64 [located + 1], [edges], rows of the located vertices with positions, ascending in each row.
    """

    first: int
    vertices: int
    rows: IntArray
    first_partial: int
    offsets: IntArray
    edges: IntArray

    @property
    def located(self) -> int:
        """Positions that the locator searches: of the own vertices; in a double cover of the sources too."""
        return self.offsets.size - 1


def _located_in(room: Room, first: int, offsets: IntArray, edges: IntArray, schedule: Schedule, limits: Limits) -> bool:
    """Return whether the locator and the hub units hold a graph of which the vertices from `first` on have rows."""
    end = first + offsets.size - 1
    count = max(end, int(edges.max(initial=-1)) + 1)
    if count > room.nodes or edges.size >= room.edges:
        return False
    own = np.zeros(count, dtype=np.bool_)
    own[first:end] = True
    hub = own.copy()
    hub[edges] = True
    if _crowded(hub, room) and not _crowded(hub & ~own, room):
        # The possible hubs do not fit; the actual hubs may.
        owners = np.repeat(np.arange(first, end), np.diff(offsets))
        graph = Graph.from_edges("located", count, edges, owners)
        hub &= ~own
        hub[list(partition(graph, schedule, limits, elsewhere=~own)[0])] = True
    return not _crowded(hub, room)


def _crowded(hub: BoolArray, room: Room) -> bool:
    """Return whether a hub unit has more hubs than room."""
    return int(np.bincount(np.flatnonzero(hub) % room.units, minlength=1).max()) > room.hubs


def _fits(tile: Tile, room: Room, schedule: Schedule, limits: Limits) -> bool:
    return _located_in(room, 0, tile.offsets, tile.edges, schedule, limits)


def parted(subgraph: Subgraph, room: Room | None, schedule: Schedule, limits: Limits) -> list[Tile]:
    """Return the tiles of a subgraph: one, if all of its positions fit.

    Parameters
    ----------
    subgraph
        Of a chiplet.
    room
        Capacity of the chiplet; None: unlimited.
    schedule, limits
        As for `Subgraph.fits`.

    Raises
    ------
    InputError
        As for :func:`cut`.
    """
    if room is None or (subgraph.directed and subgraph.fits(room, schedule, limits)):
        return [_tile(subgraph, 0, subgraph.owned)] * (subgraph.owned > 0)
    return list(cut(subgraph, room, schedule, limits))


def cut(subgraph: Subgraph, room: Room, schedule: Schedule, limits: Limits) -> Iterator[Tile]:
    """Cut a subgraph into tiles in the order of VIDs, each with about as many vertices as fit.

    With a vertex more a tile may have a hub less, as which it counted where it was a source of others; so of two tiles
    the larger one may fit and the smaller one not. Hubs are counted for a few sizes only, from the largest on.

    Parameters
    ----------
    subgraph, room
        Subgraph to cut, and capacity of the chiplet.
    schedule, limits
        As for `Subgraph.fits`.

    Raises
    ------
    InputError
        If no tile can begin with a vertex, naming it.
    """
    first = 0
    while first < subgraph.owned:
        count = _fitting(subgraph, first, room, schedule, limits)
        if not count:
            most = min(room.positions - 1, (room.edges - 1) // (1 + subgraph.directed))
            sources = int(subgraph.offsets[first + 1] - subgraph.offsets[first])
            raise InputError(
                f"{subgraph.name}, vertex {subgraph.names[subgraph.first + first]}",
                f"has {sources} neighbours",
                f"at most {most} ([locator] nodes and edges, [chiplet] units times hubs, each less 1)",
            )
        yield _tile(subgraph, first, count)
        first += count


def _fitting(subgraph: Subgraph, first: int, room: Room, schedule: Schedule, limits: Limits) -> int:
    """Return how many vertices from the own one `first` on fit together; 0: none do."""
    positions = _positions(subgraph, first, room)
    # Adding a vertex never makes a tile smaller: its positions are its vertices and all their sources.
    sure, possible = (int(np.searchsorted(positions, most, side="right")) for most in (room.positions, room.nodes))
    counts = np.arange(sure + 1, possible + 1)
    if not subgraph.directed:
        # Vertices of others are hubs.
        counts = counts[positions[counts - 1] - counts <= room.units * room.hubs]

    def fits(count: int) -> bool:
        return _fits(_tile(subgraph, first, count), room, schedule, limits)

    # A vertex that does not fit alone may with some of its sources, so every size is tried.
    step = max(1, counts.size // _SIZES) if sure else 1
    least, above = -1, counts.size
    for number in range(counts.size - 1, -1, -step):
        if fits(int(counts[number])):
            least = number
            break
        above = number
    while above - least > 1 and counts.size:
        middle = (least + above) // 2
        if fits(int(counts[middle])):
            least = middle
        else:
            above = middle
    return int(counts[least]) if least >= 0 else sure


def _positions(subgraph: Subgraph, first: int, room: Room) -> IntArray:
    """int64, positions of a tile of one, two, ... vertices from the own one `first` on, as far as edges fit."""
    stop = int(np.searchsorted(subgraph.read, subgraph.read[first] + room.edges - 1, side="right")) - 1
    stop = min(stop, first + room.nodes)
    # The first vertex that needs each position: the vertex itself, or a destination of the source.
    steps = np.arange(max(0, stop - first))
    edges = subgraph.edges[subgraph.offsets[first] : subgraph.offsets[max(first, stop)]]
    if subgraph.directed:
        # Sources have positions of their own.
        edges = edges + subgraph.first + subgraph.owned
    degrees = np.diff(subgraph.offsets[first : first + steps.size + 1])
    vids = np.concatenate([subgraph.first + first + steps, edges])
    step = np.concatenate([steps, np.repeat(steps, degrees)])
    order = np.lexsort((step, vids))
    vids, step = vids[order], step[order]
    new = np.ones(vids.size, dtype=np.bool_)
    new[1:] = vids[1:] != vids[:-1]
    return np.cumsum(np.bincount(step[new], minlength=steps.size))


def _tile(subgraph: Subgraph, first: int, count: int) -> Tile:
    offsets = subgraph.offsets[first : first + count + 1] - subgraph.offsets[first]
    edges = subgraph.edges[subgraph.offsets[first] : subgraph.offsets[first + count]]
    vid = subgraph.first + first
    own = (edges >= vid) & (edges < vid + count) & (not subgraph.directed)
    elsewhere = np.unique(edges[~own])
    # All chiplets send at once, so a row comes the earlier, the fewer its chiplet has before it.
    owners = np.searchsorted(subgraph.boundaries, elsewhere, side="right") - 1
    order = np.lexsort((elsewhere - subgraph.boundaries[owners], elsewhere >= subgraph.vertices))
    rows = np.concatenate([np.arange(vid, vid + count), elsewhere[order]])
    positions = edges - vid
    positions[~own] = count + np.argsort(order)[np.searchsorted(elsewhere, edges[~own])]
    positions = positions[np.lexsort((positions, np.repeat(np.arange(count), np.diff(offsets))))]
    first_partial = int((rows < subgraph.vertices).sum())
    if subgraph.directed:
        offsets, positions = joined_rows(offsets, positions, first_partial)
    return Tile(first, count, rows, first_partial, offsets, positions)
