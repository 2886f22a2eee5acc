"""One image for every chiplet of a ring, and results put together again."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from golden.contracts import Opcode, RegionKind
from golden.graph import IntArray
from golden.image import PART_ROWS, Builder, ChipletImage, Image, Region, build_image
from golden.model.layer import Int16Array, QuantisedLayer
from golden.model.network import Problem
from golden.ring.placement import Placement
from golden.ring.traffic import Edges, Plan, plan

__all__ = ["PART", "RingImage", "build_images", "joined", "parts_of", "tiled_offsets"]

#: Parts of a chiplet's rows that are combined and sent one after another, and rows of one at least: what the
#: command costs is saved where links need longer for a part.
PARTS, PART = 4, 64
#: Bits of a hub's word where the start of its partial sum stands.
_START = 8


def parts_of(owned: int, least: int = PART) -> list[range]:
    """Cut the own vertices into parts that are sent while the next is combined.

    Parameters
    ----------
    owned
        How many there are.
    least
        Vertices of a part at least, but where there are fewer.

    Returns
    -------
    At least one part and at most `PARTS`, as large as each other but for the last, from multiples of `PART_ROWS` on.
    """
    count = max(1, min(PARTS, owned // least))
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


class RingImage(ChipletImage):
    """The image of one chiplet of a ring."""

    REGIONS, FIRST_COMMANDS = 17, 1

    def __init__(
        self, problem: Problem, placement: Placement, wanted: Plan, chiplet: int, in_order: bool, part: int = PART
    ) -> None:
        super().__init__(problem)
        self.placement, self.wanted, self.in_order = placement, wanted, in_order
        self.first, self.end = placement.range(chiplet)
        self.owned = self.end - self.first
        self.chiplet, self.chiplets = chiplet, placement.chiplets
        # Vertices with a partial sum, in the order of the hub table.
        self.summed = np.flatnonzero(wanted.contributors.any(axis=1))
        self.halves = 2 * self.summed.size
        self.parts = parts_of(self.owned, part)

    def commands_of_layer(self) -> int:
        """With a barrier, SCATTER of every part, and REDUCE behind a barrier of its own if there are partial sums."""
        return super().commands_of_layer() + 1 + len(self.parts) + 2 * bool(self.summed.size)

    def boundaries(self) -> IntArray:
        """Those of the placement."""
        return self.placement.boundaries

    def in_edges(self) -> tuple[IntArray, IntArray]:
        """Tiled offsets and sources of the own vertices; a partial sum's halves stand behind all vertices."""
        edges, vertices = self.wanted.gathered, self.placement.vertices
        mine = (edges.destination >= self.first) & (edges.destination < self.end)
        source, destination = edges.source[mine], edges.destination[mine]
        tiles = self.placement.owners(source)
        homes = (self.summed >= self.first) & (self.summed < self.end)
        places = np.flatnonzero(homes)
        halves = (vertices + 2 * places[:, None] + np.arange(2)).reshape(-1)
        source = np.concatenate([source, halves])
        destination = np.concatenate([destination, np.repeat(self.summed[homes], 2)])
        # They count to the last tile, which is behind no other.
        tiles = np.concatenate([tiles, np.full(halves.size, self.placement.chiplets - 1)])
        order = np.lexsort((source, tiles, destination))
        rows = destination[order] - self.first
        return tiled_offsets(rows, tiles[order], self.owned, self.placement.chiplets), source[order]

    def out_offsets(self) -> IntArray:
        """Tiled offsets of the own vertices' out-edges that others gather."""
        edges = self.wanted.gathered
        mine = (edges.source >= self.first) & (edges.source < self.end)
        rows, tiles = edges.source[mine] - self.first, self.placement.owners(edges.destination[mine])
        return tiled_offsets(rows, tiles, self.owned, self.placement.chiplets)

    def shared(self) -> tuple[IntArray, IntArray]:
        """Offsets and sources of the edges into hubs that this chiplet executes."""
        edges: Edges = self.wanted.shared
        mine = (edges.source >= self.first) & (edges.source < self.end)
        places = np.searchsorted(self.summed, edges.destination[mine])
        order = np.lexsort((edges.source[mine], places))
        return tiled_offsets(places[order], np.zeros_like(places), self.summed.size, 1), edges.source[mine][order]

    def hub_words(self) -> IntArray:
        """Home and start of every partial sum."""
        homes = self.placement.owners(self.summed)
        return homes | self.wanted.start[self.summed] << _START

    def place_edges(self, b: Builder, sources: IntArray) -> None:
        """Place the out-edges' offsets."""
        self.elsewhere = int((sources < self.problem.graph.nodes).sum())
        self.departures = b.words(RegionKind.OUT_OFFSETS, self.out_offsets())

    def place_ring(self, b: Builder, boundaries: Region) -> None:
        """Place what the ring unit needs."""
        self.boundary_table = boundaries
        self.needed = b.reserve(RegionKind.NEEDED, 0, 4 * self.elsewhere, self.elsewhere, 1, 4)
        b.words(RegionKind.HUBS, self.summed)
        self.hub_homes = b.words(RegionKind.HUB_HOMES, self.hub_words())
        rows, sources = self.shared()
        self.shared_offsets = b.words(RegionKind.SHARED_OFFSETS, rows)
        self.shared_edges, self.shared_count = b.words(RegionKind.SHARED_EDGES, sources), sources.size

    def prepare(self) -> None:
        """Add LIST."""
        self.command(
            Opcode.LIST,
            0,
            boundaries=self.boundary_table.line,
            edges=self.edges.line,
            edge_count=self.edge_count,
            partials=self.halves,
            needed=self.needed.line,
            tiles=self.chiplets,
        )

    def exchange(self, number: int, layer: QuantisedLayer, part: range, combined: Region) -> None:
        """Add SCATTER of a part; in front of the first a barrier, behind the last REDUCE if there are partial sums."""
        more = part is not self.parts[-1]
        if part is self.parts[0]:
            # Nobody may send rows of this layer while another still gathers those of the last.
            self.command(Opcode.BARRIER, number)
        self.command(
            Opcode.SCATTER,
            number,
            first_vertex=self.first + part.start,
            vertices=len(part),
            offsets=self.departures.line + part.start // PART_ROWS * self.chiplets,
            more=int(more),
            needed=self.needed.line,
            combined=combined.line,
            f_out=layer.f_out,
            tiles=self.chiplets,
            in_order=int(self.in_order),
        )
        if self.summed.size and not more:
            self.command(Opcode.BARRIER, number)
            self.command(
                Opcode.REDUCE,
                number,
                hub_count=self.summed.size,
                hub_homes=self.hub_homes.line,
                offsets=self.shared_offsets.line,
                edges=self.shared_edges.line,
                edge_count=self.shared_count,
                combined=combined.line,
                first_source=self.first,
                sources=self.owned,
                first_partial=self.problem.graph.nodes,
                f_out=layer.f_out,
            )


def build_images(
    problem: Problem, placement: Placement, *, by_source: bool = False, in_order: bool = False, part: int = PART
) -> list[Image]:
    """Images of all chiplets; a ring of one has the image of a chiplet that works alone.

    Parameters
    ----------
    problem
        Network and graph, with VIDs as in `placement`.
    placement
        Who owns what, and which vertices are hubs.
    by_source
        Every edge is executed by the owner of its source (R8).
    in_order
        The filters match in order (R7).
    part
        As for :func:`parts_of`.

    Raises
    ------
    InputError
        If the placement is not that of the graph, or an image would be too large.
    """
    placement.check(problem.graph)
    if placement.chiplets == 1:
        return [build_image(problem)]
    wanted = plan(problem.graph, placement, by_source=by_source)
    chiplets = range(placement.chiplets)
    return [RingImage(problem, placement, wanted, chiplet, in_order, part).build() for chiplet in chiplets]


def joined(parts: Sequence[Int16Array], position: npt.ArrayLike | None = None) -> Int16Array:
    """Rows of all chiplets as one array.

    Parameters
    ----------
    parts
        int16 [owned, f] of every chiplet, in the order of the ring.
    position
        int [vertices], the permutation with which the graph was relabelled; the result is in the order before it.
    """
    rows = np.concatenate(list(parts))
    return rows if position is None else rows[np.asarray(position)]
