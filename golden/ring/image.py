"""One image for every chiplet of a ring, and results put together again."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from golden.contracts import SPARSE_ENTRY, Opcode, RegionKind
from golden.graph import IntArray
from golden.image import Builder, Command, Image, Region, assemble, build_image, place_sparse
from golden.model.layer import Int16Array
from golden.model.network import Problem
from golden.model.scale import Scales
from golden.ring.placement import Placement
from golden.ring.traffic import Edges, Plan, plan

__all__ = ["build_images", "joined", "tiled_offsets"]

#: Bits of a hub's word where the start of its partial sum stands.
_START = 8


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


class _Chiplet:
    """What one chiplet's image is made of."""

    def __init__(self, problem: Problem, placement: Placement, wanted: Plan, chiplet: int, in_order: bool) -> None:
        self.problem, self.placement, self.wanted = problem, placement, wanted
        self.chiplet, self.in_order = chiplet, in_order
        self.first, self.end = placement.range(chiplet)
        self.owned = self.end - self.first
        # Vertices with a partial sum, in the order of the hub table.
        self.summed = np.flatnonzero(wanted.contributors.any(axis=1))

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

    def scales(self, scales: Scales) -> Scales:
        own = slice(self.first, self.end)
        return Scales(scales.mantissa[own], scales.exponent[own])

    def build(self) -> Image:
        problem, graph, model = self.problem, self.problem.graph, self.problem.model
        layers, chiplets, owned = len(model.layers), self.placement.chiplets, self.owned
        hubs = self.summed.size
        b = Builder(regions=17 + 4 * layers, commands=layers * (5 + 2 * bool(hubs)))
        boundaries = b.words(RegionKind.BOUNDARIES, self.placement.boundaries)
        offsets, sources = self.in_edges()
        in_offsets = b.words(RegionKind.OFFSETS, offsets)
        in_edges = b.words(RegionKind.EDGES, sources)
        elsewhere = int((sources < graph.nodes).sum())
        out_offsets = b.words(RegionKind.OUT_OFFSETS, self.out_offsets())
        b.words(RegionKind.DEGREES, graph.degrees[self.first : self.end])
        scale_source = b.scales(RegionKind.SCALE_SOURCE, self.scales(problem.scale_source))
        scale_destination = b.scales(RegionKind.SCALE_DESTINATION, self.scales(problem.scale_destination))
        own_features = problem.features[self.first : self.end]
        feature_offsets: Region | None = None
        if problem.sparse:
            features, entries, feature_offsets = place_sparse(b, own_features)
        else:
            features = b.rows(RegionKind.FEATURES, own_features)
            entries = features.bytes // SPARSE_ENTRY.bytes
        needed = b.reserve(RegionKind.NEEDED, 0, 4 * elsewhere, elsewhere, 1, 4)
        b.words(RegionKind.HUBS, self.summed)
        hub_homes = b.words(RegionKind.HUB_HOMES, self.hub_words())
        shared_rows, shared_sources = self.shared()
        shared_offsets = b.words(RegionKind.SHARED_OFFSETS, shared_rows)
        shared_edges = b.words(RegionKind.SHARED_EDGES, shared_sources)
        rows = graph.nodes + 2 * hubs
        combined = b.reserve_rows(RegionKind.COMBINED, rows, max(layer.f_out for layer in model.layers))
        commands: list[Command] = []

        def command(opcode: Opcode, layer: int, **fields: int) -> None:
            commands.append(Command(opcode, {"layer": layer, "tag": len(commands), **fields}))

        for number, layer in enumerate(model.layers):
            weights = b.rows(RegionKind.WEIGHTS, layer.weights, number)
            biases = b.words(RegionKind.BIASES, layer.biases, number, dtype="<i4")
            kind = RegionKind.RESULTS if number == layers - 1 else RegionKind.HIDDEN
            results = b.reserve_rows(kind, owned, layer.f_out, number)
            command(
                Opcode.LOAD_WEIGHTS,
                number,
                f_in=layer.f_in,
                f_out=layer.f_out,
                weights=weights.line,
                biases=biases.line,
            )
            command(
                Opcode.COMBINE,
                number,
                f_in=layer.f_in,
                f_out=layer.f_out,
                shift=layer.shift_source,
                sparse=int(feature_offsets is not None),
                vertices=owned,
                entries=entries,
                features=features.line,
                feature_offsets=feature_offsets.line if feature_offsets else 0,
                scales=scale_source.line,
                combined=combined.line,
                first_row=self.first,
            )
            # Nobody may send rows of this layer while another still gathers those of the last.
            command(Opcode.BARRIER, number)
            command(
                Opcode.SCATTER,
                number,
                first_vertex=self.first,
                vertices=owned,
                boundaries=boundaries.line,
                offsets=out_offsets.line,
                edges=in_edges.line,
                edge_count=sources.size,
                partials=2 * hubs,
                needed=needed.line,
                combined=combined.line,
                f_out=layer.f_out,
                tiles=chiplets,
                build=int(number == 0),
                in_order=int(self.in_order),
            )
            if hubs:
                command(Opcode.BARRIER, number)
                command(
                    Opcode.REDUCE,
                    number,
                    hub_count=hubs,
                    hub_homes=hub_homes.line,
                    offsets=shared_offsets.line,
                    edges=shared_edges.line,
                    edge_count=shared_sources.size,
                    combined=combined.line,
                    first_source=self.first,
                    sources=owned,
                    first_partial=graph.nodes,
                    f_out=layer.f_out,
                )
            command(
                Opcode.AGGREGATE,
                number,
                first_vertex=self.first,
                vertices=owned,
                offsets=in_offsets.line,
                edges=in_edges.line,
                edge_count=sources.size,
                tiles=chiplets,
                shift=layer.shift_destination,
                activation=layer.activation,
                f_out=layer.f_out,
                self_weight=layer.self_weight,
                neighbour_weight=layer.neighbour_weight,
                scales=scale_destination.line,
                combined=combined.line,
                results=results.line,
                first_source=0,
                sources=rows,
                partials=2 * hubs,
            )
            # The results are the next layer's dense features.
            features, entries, feature_offsets = results, results.bytes // SPARSE_ENTRY.bytes, None
        return assemble(
            b,
            commands,
            problem,
            chiplet=self.chiplet,
            chiplets=chiplets,
            first_vertex=self.first,
            owned=owned,
            edges=sources.size,
        )


def build_images(
    problem: Problem, placement: Placement, *, by_source: bool = False, in_order: bool = False
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

    Raises
    ------
    InputError
        If the placement is not that of the graph, or an image would be too large.
    """
    placement.check(problem.graph)
    if placement.chiplets == 1:
        return [build_image(problem)]
    wanted = plan(problem.graph, placement, by_source=by_source)
    return [_Chiplet(problem, placement, wanted, chiplet, in_order).build() for chiplet in range(placement.chiplets)]


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
