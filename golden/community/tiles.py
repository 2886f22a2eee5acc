"""Tiles: parts of a chiplet's subgraph that fit on the chip.

A tile is a contiguous range of the chiplet's own vertices with all their sources. These have *positions*: the
own ones first, then the other sources, then halves of partial sums. To the locator, vertices
outside the tile are hubs, like those of other chiplets. Combined rows of all vertices lie in memory; a table holds the
granule of each position's row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from contracts.errors import InputError
from golden.graph import BoolArray, Graph, IntArray
from golden.image_format import PART_ROWS
from golden.locator.locator import Limits
from golden.locator.partition import partition
from golden.locator.schedule import Schedule

__all__ = ["Room", "Subgraph", "Tile", "cut"]


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
        """Most positions of a tile: each may be a hub, and consecutive positions are spread evenly over units."""
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
    """

    name: str
    first: int
    offsets: IntArray
    edges: IntArray
    vertices: int
    names: IntArray

    @classmethod
    def whole(cls, graph: Graph) -> Self:
        """Return the whole graph, for a chiplet that works alone."""
        return cls(graph.name, 0, graph.offsets, graph.edges, graph.nodes, np.arange(graph.nodes))

    @property
    def owned(self) -> int:
        """Own vertices."""
        return self.offsets.size - 1

    def fits(self, room: Room, schedule: Schedule, limits: Limits) -> bool:
        """Return whether the subgraph fits on a chiplet without tiles, with its VIDs.

        Parameters
        ----------
        room
            Capacity of the chiplet.
        schedule, limits
            Parameters of the location, which determine the hubs.
        """
        count = max(self.first + self.owned, int(self.edges.max(initial=-1)) + 1)
        if count > room.nodes or self.edges.size >= room.edges:
            return False
        own = np.zeros(count, dtype=np.bool_)
        own[self.first : self.first + self.owned] = True
        hub = own.copy()
        hub[self.edges] = True
        if self._crowded(hub, room):
            # The possible hubs do not fit; the actual hubs may.
            owners = np.repeat(np.arange(self.owned) + self.first, np.diff(self.offsets))
            graph = Graph.from_edges(self.name, count, self.edges, owners)
            hub &= ~own
            hub[list(partition(graph, schedule, limits, elsewhere=~own)[0])] = True
        return not self._crowded(hub, room)

    @staticmethod
    def _crowded(hub: BoolArray, room: Room) -> bool:
        """Return whether a hub unit has more hubs than room."""
        return int(np.bincount(np.flatnonzero(hub) % room.units, minlength=1).max()) > room.hubs


@dataclass(frozen=True, eq=False)
class Tile:
    """A part of a subgraph, by positions.

    Attributes
    ----------
    first, vertices
        Own vertices of the subgraph, from `first` on, counted from the first one.
    rows
        int64 [positions], the source of each position: the own VIDs, then other VIDs, ascending, then
        halves of partial sums, ascending.
    first_partial
        Position of the first of these.
    offsets, edges
        int64 [vertices + 1], [edges], rows of the own vertices with positions, ascending in each row.
    """

    first: int
    vertices: int
    rows: IntArray
    first_partial: int
    offsets: IntArray
    edges: IntArray


def cut(subgraph: Subgraph, room: Room) -> Iterator[Tile]:
    """Cut a subgraph into tiles, each with as many vertices as fit; as few as there can be in the order of VIDs.

    Adding a vertex never makes a tile smaller: its positions are its vertices and all their sources.

    Raises
    ------
    InputError
        If a vertex does not fit alone, naming it.
    """
    first = 0
    while first < subgraph.owned:
        count = _fitting(subgraph, first, room)
        if not count:
            most = min(room.positions - 1, room.edges - 1)
            sources = int(subgraph.offsets[first + 1] - subgraph.offsets[first])
            raise InputError(
                f"{subgraph.name}, vertex {subgraph.names[subgraph.first + first]}",
                f"has {sources} neighbours",
                f"at most {most} ([locator] nodes and edges, [chiplet] units times hubs, each less 1)",
            )
        yield _tile(subgraph, first, count)
        first += count


def _fitting(subgraph: Subgraph, first: int, room: Room) -> int:
    """Return how many vertices from the own one `first` on fit together."""
    begin = subgraph.offsets[first]
    stop = int(np.searchsorted(subgraph.offsets, begin + room.edges - 1, side="right")) - 1
    stop = min(stop, first + room.positions)
    # The first vertex that needs each position: the vertex itself, or a destination of the source.
    steps = np.arange(max(0, stop - first))
    edges = subgraph.edges[begin : subgraph.offsets[max(first, stop)]]
    degrees = np.diff(subgraph.offsets[first : first + steps.size + 1])
    vids = np.concatenate([subgraph.first + first + steps, edges])
    step = np.concatenate([steps, np.repeat(steps, degrees)])
    order = np.lexsort((step, vids))
    vids, step = vids[order], step[order]
    new = np.ones(vids.size, dtype=np.bool_)
    new[1:] = vids[1:] != vids[:-1]
    positions = np.cumsum(np.bincount(step[new], minlength=steps.size))
    return int(np.searchsorted(positions, room.positions, side="right"))


def _tile(subgraph: Subgraph, first: int, count: int) -> Tile:
    offsets = subgraph.offsets[first : first + count + 1] - subgraph.offsets[first]
    edges = subgraph.edges[subgraph.offsets[first] : subgraph.offsets[first + count]]
    vid = subgraph.first + first
    elsewhere = np.unique(edges[(edges < vid) | (edges >= vid + count)])
    rows = np.concatenate([np.arange(vid, vid + count), elsewhere])
    own = (edges >= vid) & (edges < vid + count)
    positions = np.where(own, edges - vid, count + np.searchsorted(elsewhere, edges))
    order = np.lexsort((positions, np.repeat(np.arange(count), np.diff(offsets))))
    return Tile(first, count, rows, int((rows < subgraph.vertices).sum()), offsets, positions[order])
