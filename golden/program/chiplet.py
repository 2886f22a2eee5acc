"""The image of one chiplet: all that it owns of a graph, and the plan of every layer of a network on it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from contracts import NEEDED_ROW, ROW_BYTES, SPARSE_ENTRY, VALUE_BITS, Matching, Opcode, RegionKind
from contracts.communities import ARRIVALS, UNORDERED
from contracts.errors import InputError
from contracts.scale import EXPONENT_MAX, MANTISSA_FRACTION, Scales
from contracts.weights import Blocks, Traffic, WeightRoom
from golden.community.tiles import Tile
from golden.dnp.layer_end import ROWS
from golden.graph import Graph, IntArray
from golden.image_format import Image, row_bytes, scale_words
from golden.model.layer import Int16Array, QuantisedLayer
from golden.model.network import Problem, QuantisedModel
from golden.model.topology import Topology
from golden.program.features import offsets_of, place_sparse
from golden.program.layer import (
    Block,
    End,
    Exchange,
    LayerPlan,
    Part,
    Rest,
    Root,
    Search,
    Shared,
    Sums,
    blocks_of,
    digits_of,
    layer,
)
from golden.program.program import Program, Reference, Section
from golden.ring.matching import needed_list, over_banks

__all__ = ["Owned", "Travel", "by_topology", "chiplet_image"]

#: Bytes that places, 32 bits of granules, reach.
_PLACES = ROW_BYTES << 32
_WORD_BYTES = 4


@dataclass(frozen=True, eq=False)
class Travel:
    """What a chiplet sends round the ring.

    Attributes
    ----------
    out_tiles
        int64 [own vertices], bit t: chiplet t, another one, gathers out-edges of the vertex.
    hubs, homes, offsets, sources
        VIDs with a partial sum, words that say where it starts and ends, edges into them that the chiplet executes.
    matching
        How the filters match (R7).
    ahead
        So many of the own vertices, the first ones, hold all those whose rows others or partial sums need.
    """

    out_tiles: IntArray
    hubs: IntArray
    homes: IntArray
    offsets: IntArray
    sources: IntArray
    matching: Matching
    ahead: int


@dataclass(frozen=True, eq=False)
class Owned:
    """The part of a graph that a chiplet owns.

    Attributes
    ----------
    first, end
        VIDs, from `first` up to before `end`.
    offsets, sources
        In-edges of the own vertices, tiled by chiplets (R9); halves of partial sums are behind all vertices.
    boundaries
        First VID of every chiplet, then the number of vertices.
    chiplet
        Position on the ring.
    travel
        Traffic on a ring; None: the chiplet works alone.
    """

    first: int
    end: int
    offsets: IntArray
    sources: IntArray
    boundaries: IntArray
    chiplet: int = 0
    travel: Travel | None = None

    @classmethod
    def whole(cls, graph: Graph) -> Self:
        """Return the whole graph, for a chiplet that works alone."""
        return cls(0, graph.nodes, graph.offsets, graph.edges, np.array([0, graph.nodes]))

    @property
    def count(self) -> int:
        """Own vertices."""
        return self.end - self.first

    @property
    def chiplets(self) -> int:
        """Chiplets of the ring."""
        return self.boundaries.size - 1

    @property
    def halves(self) -> int:
        """Rows behind those of the vertices: halves of partial sums."""
        return 2 * self.travel.hubs.size if self.travel else 0

    @property
    def untiled(self) -> IntArray:
        """int64 [count + 1], first in-edge of every own vertex."""
        return self.offsets[:: self.chiplets]

    def scales(self, scales: Scales) -> Scales:
        """Return the scales of the own vertices."""
        own = slice(self.first, self.end)
        return Scales(scales.mantissa[own], scales.exponent[own])


_T = TypeVar("_T")


def by_topology(problem: Problem, make: Callable[[Topology], _T]) -> list[_T]:
    """Return what `make` makes of each layer's topology; layers that sum the same share one object."""
    made = {each: make(each) for each in dict.fromkeys(problem.topologies)}
    return [made[each] for each in problem.topologies]


@dataclass(frozen=True, eq=False)
class _Placed:
    """A topology in memory: factors, what AGGREGATE or PROCESS sum, the ring's data.

    The sums depend on the outputs of a layer and on what PROCESS combines. `ahead`: own vertices
    that must be combined before, if PROCESS can combine the others.
    """

    owned: Owned
    source: Section
    own: Section | None
    sums: Callable[[int, Rest | None], Sequence[Sums]]
    ahead: int
    out_tiles: Section | None
    exchange: Exchange | None = None


def chiplet_image(
    problem: Problem,
    owned: Sequence[Owned],
    parts: Callable[[int], Sequence[range]],
    *,
    search: Search | None = None,
    in_stages: bool = True,
    tiles: Mapping[Owned, Sequence[Tile]] | None = None,
    weight_room: WeightRoom | None = None,
    scratch_lines: int = 0,
) -> Image:
    """Place a chiplet's data and add the commands of every layer.

    Parameters
    ----------
    problem, owned
        Network and graph, and the chiplet's part of every layer's topology, the same vertices of each.
    parts
        Cuts so many own vertices, counted from 0, into those that are combined with one command each; they begin at
        multiples of `PART_ROWS`.
    search
        With community PEs; None: with gather PEs.
    in_stages
        Rows are combined before any are summed: all, or with community PEs on a ring, where a chiplet's vertices fit at
        once, those that others need.
    tiles
        Tiles of each part of a topology that are summed one after another; None: all vertices at once.
    weight_room
        Room for weights in every PE: a layer that exceeds it is computed in blocks of columns or of rows. Default: all
        layers fit.
    scratch_lines
        Lines of the scratchpad: working space that is read most is there, as far as it fits.

    Raises
    ------
    InputError
        If the image would be larger than 2^32 lines, or combined rows are too many for places in tiles.
    """
    graph, model, layers, first = problem.graph, problem.model, problem.model.layers, owned[0]
    p = Program(scratch_lines=scratch_lines)
    # Lines are laid out as if every layer had one more region, and every image sparse features and two scales.
    p.spare = len(layers) + 2 * (first.travel is not None) - (tiles is not None)
    boundaries = p.words(RegionKind.BOUNDARIES, first.boundaries)
    blocks = blocks_of(layers, weight_room, _traffic(problem))
    distances = sorted({row_bytes(len(block)) for each in blocks for block in each.columns})

    roots = {topology for topology, each in zip(problem.topologies, layers, strict=True) if each.root}

    def place(own: Owned, topology: Topology) -> _Placed:
        cut, located, rooted = None if tiles is None else tiles[own], search is not None, topology in roots
        begins = None
        if problem.sparse and own is first:
            # Features of all own vertices lie in one array, those that COMBINE reads first.
            begins = offsets_of(_own_features(problem, own), apart=located)[own.travel.ahead if own.travel else 0 :]
        return _topology(
            p, topology, own, in_stages=in_stages, located=located, rooted=rooted, tiles=cut, distances=distances,
            begins=begins,
        )  # fmt: skip

    placed = {first: place(first, problem.topologies[0])}

    # Rooted layers whose own rows PROCESS makes.
    beside = [
        not in_stages and tiles is None and _makes_own_rows(each, cut, topology, weight_room)
        for each, cut, topology in zip(layers, blocks, problem.topologies, strict=True)
    ]

    def ahead(number: int) -> int:
        """Return how many of the own vertices are combined before a layer's sums."""
        whole = len(blocks[number].rows) > 1 or (layers[number].root is not None and not beside[number])
        return first.count if whole else placed[owned[number]].ahead

    given, rest = _features(
        p, problem, first, parts, ahead(0), placed[first].source, blocks[0].rows, apart=search is not None
    )
    placed[first] = _travelling(p, placed[first], problem.topologies[0], boundaries)
    for own, topology in zip(owned, problem.topologies, strict=True):
        if own not in placed:
            placed[own] = _travelling(p, place(own, topology), topology, boundaries)
    # Layers in which rows are combined before any are summed.
    stages = [
        in_stages or len(cut.rows) > 1 or (each.root is not None and not makes)
        for cut, each, makes in zip(blocks, layers, beside, strict=True)
    ]
    combined, digits, own_rows = None, digits_of(p, blocks, first.count), None
    widest = max((len(each.columns[0]) for each, needs in zip(blocks, stages, strict=True) if needs), default=0)
    if widest:
        combined = p.reserve_rows(RegionKind.COMBINED, graph.nodes + max(own.halves for own in owned), widest)
        p.on_chip(combined)
    if any(each.root and not makes for each, makes in zip(layers, beside, strict=True)):
        own_rows = p.reserve_rows(RegionKind.OWN, first.count, widest)
        p.on_chip(own_rows)

    listed: Exchange | None = None
    for number, each in enumerate(layers):
        at, own = placed[owned[number]], owned[number]
        rows = blocks[number].rows

        def sums(f_out: int, at: _Placed = at, rest: Rest | None = rest) -> Sequence[Sums]:
            return at.sums(f_out, rest)

        columns = [Block.place(p, number, each, block, rows, sums) for block in blocks[number].columns]
        last, distance = number == len(layers) - 1, row_bytes(each.f_out)
        results = p.reserve_rows(RegionKind.RESULTS if last else RegionKind.HIDDEN, own.count, each.f_out, number)
        if not last:
            p.on_chip(results)
        plan = LayerPlan(
            number, columns, given, combined if stages[number] else None, results, digits,
            rest=rest, search=search,
            exchange=at.exchange, lists=at.exchange is not listed, ends=_ends(p, model, number, own.count),
            root=Root(None if beside[number] else own_rows, at.own, own.first) if each.root and at.own else None,
        )  # fmt: skip
        layer(p, plan)
        listed = at.exchange or listed
        if not last:
            # The results are the next layer's dense features.
            source = placed[owned[number + 1]].source
            rows = blocks[number + 1].rows
            before = ahead(number + 1)
            given = [_dense(results, part, own, source, distance, rows) for part in parts(before)]
            rest = Rest(before, results, 0, False, source) if before < own.count else None
    if digits:
        p.on_chip(digits)
    if plan.unbarred:
        # Says whether the rows of the last layer came, of chiplets that did not wait for them.
        p.command(Opcode.BARRIER, plan.number)
    if search and weight_room:
        p.keep_weights(weight_room)
    header = {"chiplet": first.chiplet, "chiplets": first.chiplets, "first_vertex": first.first, "owned": first.count}
    return p.image(problem, **header, edges=first.sources.size)


def _topology(
    p: Program,
    topology: Topology,
    owned: Owned,
    *,
    in_stages: bool,
    located: bool,
    rooted: bool,
    tiles: Sequence[Tile] | None,
    distances: Sequence[int],
    begins: IntArray | None,
) -> _Placed:
    """Place a chiplet's part of a topology, without what the ring unit needs.

    Parameters
    ----------
    located
        Communities are searched for.
    rooted
        A layer that sums it has own rows.
    distances
        Distances of combined rows, in bytes.
    begins
        Where sparse features begin that PROCESS combines.
    """
    travel, graph = owned.travel, topology.graph
    ahead = owned.count
    if located and travel and (tiles is None or (len(tiles) == 1 and tiles[0].located == tiles[0].vertices)):
        ahead = travel.ahead
    # The locator takes whole rows.
    offsets = p.words(RegionKind.OFFSETS, owned.untiled if located else owned.offsets)
    edges = p.edges(owned.sources, _weights(topology, owned))
    out_tiles = p.words(RegionKind.OUT_TILES, travel.out_tiles) if travel else None
    ours, theirs = owned.scales(topology.source), owned.scales(topology.destination)
    cut = None if tiles is None else _tiles(p, graph.nodes, owned, tiles, theirs, distances, ahead, begins)
    if in_stages and not located:
        p.words(RegionKind.DEGREES, graph.degrees[owned.first : owned.end])
    source = destination = p.scales(RegionKind.SCALE_SOURCE, ours)
    if in_stages or not np.array_equal(scale_words(ours), scale_words(theirs)):
        destination = p.scales(RegionKind.SCALE_DESTINATION, theirs)
    else:
        # GCN uses one array for both; the hardware reads it once.
        p.spare += 1
    own = p.scales(RegionKind.SCALE_OWN, owned.scales(topology.own)) if rooted else None
    whole = Sums(
        owned.first, owned.count, offsets, edges, owned.sources.size, destination, graph.nodes,
        tiles=1 if located else owned.chiplets, halves=owned.halves, weighted=topology.weighted,
    )  # fmt: skip

    def summed(f_out: int, rest: Rest | None) -> Sequence[Sums]:
        return [whole] if cut is None else cut[row_bytes(f_out), None if rest is None else rest.sparse]

    return _Placed(owned, source, own, summed, ahead, out_tiles)


def _makes_own_rows(layer: QuantisedLayer, blocks: Blocks, topology: Topology, room: WeightRoom | None) -> bool:
    """Return whether PROCESS can make the own rows of a layer beside its combined rows.

    So it is if both matrices fit at once, combined rows have the factor 1, and exponents hold what one of the first
    rounding points is further right than the other.
    """
    if layer.root is None or room is None or len(blocks.rows) > 1:
        return False
    matrix = layer.f_in, len(blocks.columns[0])
    first, second = room.pages([matrix, matrix])
    further = abs(layer.root.shift - layer.shift_source)
    ones = (topology.source.mantissa == 1 << MANTISSA_FRACTION) & (topology.source.exponent == 0)
    return first != second and bool(ones.all()) and further + int(topology.own.exponent.max(initial=0)) <= EXPONENT_MAX


def _weights(topology: Topology, owned: Owned) -> Int16Array | None:
    """Return the weights of a chiplet's in-edges.

    Tiles are ranges of VIDs, so without partial sums its edges are in the order of the graph's.
    """
    if topology.weights is None:
        return None
    graph = topology.graph
    mine = slice(graph.offsets[owned.first], graph.offsets[owned.end])
    assert np.array_equal(owned.sources, graph.edges[mine]), "weighted edges beside partial sums"
    return topology.weights[mine]


def _traffic(problem: Problem) -> list[Traffic]:
    """Return what each layer moves, of the whole graph: all chiplets of a ring choose the same blocks."""
    traffic, nodes = [], problem.graph.nodes
    for number, (each, topology) in enumerate(zip(problem.model.layers, problem.topologies, strict=True)):
        features = nodes * row_bytes(each.f_in)
        if problem.sparse and not number:
            features = problem.features.nnz * SPARSE_ENTRY.bytes + nodes * _WORD_BYTES
        # Offsets and two factors of a vertex, and the edges.
        traffic.append(Traffic(features + (3 * nodes + topology.graph.edge_count) * _WORD_BYTES, nodes))
    return traffic


def _dense(rows: Section, part: range, owned: Owned, source: Section, distance: int, blocks: Sequence[range]) -> Part:
    """Return a part whose features are dense rows."""
    first = Reference.row(rows, part.start)
    entries = len(part) * distance // SPARSE_ENTRY.bytes
    scales = Reference.row(source, part.start)
    pieces = []
    if len(blocks) > 1 and part:
        pieces = [
            Part(
                len(part), first.on(block.start * VALUE_BITS // 8), entries, scales, part.start,
                distance=distance // ROW_BYTES,
            )
            for block in blocks
        ]  # fmt: skip
    return Part(len(part), first, entries, scales, owned.first + part.start, pieces=pieces, digit_row=part.start)


def _own_features(problem: Problem, owned: Owned) -> Any:
    """Return the input features of the own vertices."""
    return problem.features[owned.first : owned.end]


def _features(
    p: Program,
    problem: Problem,
    owned: Owned,
    parts: Callable[[int], Sequence[range]],
    ahead: int,
    source: Section,
    blocks: Sequence[range],
    *,
    apart: bool,
) -> tuple[list[Part], Rest | None]:
    """Place the input features of the own vertices; in blocks of columns, if there are several.

    Returns
    -------
    The parts that are combined before sums are made, of the first `ahead` vertices, and the rest, if there is one.
    """
    features = _own_features(problem, owned)
    cut = parts(ahead)
    if not problem.sparse:
        p.spare += 2 * len(cut) - 1
        rows = p.rows(RegionKind.FEATURES, features)
        rest = Rest(ahead, rows, 0, False, source) if ahead < owned.count else None
        return [_dense(rows, part, owned, source, rows.row_bytes, blocks) for part in cut], rest
    if ahead < owned.count:
        # PROCESS goes on in the arrays in which COMBINE began.
        entries, count, begins = place_sparse(p, features, apart=apart)
        p.spare += max(0, 2 * len(cut) - 2)
        return [
            Part(
                len(part), entries, count, Reference.row(source, part.start), owned.first + part.start,
                Reference.row(begins, part.start),
            )
            for part in cut
        ], Rest(ahead, entries, begins, True, source)  # fmt: skip
    given = []
    for part in cut:
        scales, pieces = Reference.row(source, part.start), []
        for block in blocks:
            chosen = features[part.start : part.stop, block.start : block.stop]
            entries, count, begins = place_sparse(p, chosen, apart=apart)
            pieces.append(Part(len(part), entries, count, scales, part.start, begins))
        given.append(replace(pieces[0], first_row=owned.first + part.start, pieces=pieces, digit_row=part.start))
    return given, None


def _ends(p: Program, model: QuantisedModel, number: int, rows: int) -> list[End]:
    """Place the programs that end a layer on the neural chip, if it does."""
    ends = []
    for first in range(0, rows if number in model.ends else 0, ROWS):
        count = min(ROWS, rows - first)
        program = p.words(RegionKind.PROGRAM, model.ends[number].words(count), number)
        ends.append(End(program, program.rows, first, count))
    return ends


def _travelling(p: Program, placed: _Placed, topology: Topology, boundaries: Section) -> _Placed:
    """Place the data of the ring unit, if rows travel; all chiplets find the same."""
    owned, out_tiles = placed.owned, placed.out_tiles
    travel = owned.travel
    if travel is None or out_tiles is None or topology.alone:
        return placed
    nodes = topology.graph.nodes
    words = -(-nodes // NEEDED_ROW) * (NEEDED_ROW // (8 * _WORD_BYTES))
    needed = p.reserve(RegionKind.NEEDED, 0, _WORD_BYTES * words, words, 1, _WORD_BYTES)
    p.words(RegionKind.HUBS, travel.hubs)
    homes = p.words(RegionKind.HUB_HOMES, travel.homes)
    offsets = p.words(RegionKind.SHARED_OFFSETS, travel.offsets)
    sources = p.words(RegionKind.SHARED_EDGES, travel.sources)
    hubs, shares = travel.hubs.size, travel.sources.size
    shared = Shared(hubs, homes, offsets, sources, shares, owned.first, owned.count, nodes)
    listed = needed_list(owned.sources, owned.first, owned.end, nodes)
    others = p.words(RegionKind.OTHERS, over_banks(listed))
    exchange = Exchange(
        boundaries, others, listed.size, needed, owned.chiplets, travel.matching, out_tiles, shared
    )  # fmt: skip
    return replace(placed, exchange=exchange)


def _tiles(
    p: Program,
    vertices: int,
    owned: Owned,
    tiles: Sequence[Tile],
    scales: Scales,
    distances: Sequence[int],
    ahead: int,
    begins: IntArray | None,
) -> dict[tuple[int, bool | None], list[Sums]]:
    """Place the tiles of a graph with so many vertices.

    Returns
    -------
    The tiles by the distance of combined rows, in bytes, and by whether PROCESS combines sparse features or dense ones;
    None if it combines nothing.
    """
    size = (vertices + owned.halves) * distances[-1]
    if size > _PLACES:
        raise InputError("combined rows", f"have {size} bytes", f"at most {_PLACES} if they lie in tiles")
    words, arrays = scale_words(scales), list[npt.NDArray[np.integer]]()
    kinds: list[bool | None] = [None]
    if ahead < owned.count:
        kinds += [False] if begins is None else [False, True]
    for tile in tiles:
        for distance in distances:
            places = tile.rows * (distance // ROW_BYTES)
            arrays += [
                places if kind is None else _table(places, tile, ahead, begins if kind else None) for kind in kinds
            ]
        arrays += [tile.offsets, tile.edges, words[tile.first : tile.first + tile.vertices]]
    at = iter(p.arrays(RegionKind.TILES, arrays))
    cut: dict[tuple[int, bool | None], list[Sums]] = {(each, kind): [] for each in distances for kind in kinds}
    for tile in tiles:
        tables = {key: next(at) for key in cut}
        offsets, edges, ends = next(at), next(at), next(at)
        for key, table in tables.items():
            cut[key].append(
                Sums(
                    0, tile.vertices, offsets, edges, tile.edges.size, ends, tile.first_partial,
                    places=table, positions=tile.rows.size, first_row=tile.first, located=tile.located,
                    arrival=_arrival(owned, tile),
                )
            )  # fmt: skip
    return cut


def _arrival(owned: Owned, tile: Tile) -> int:
    """Return the operand `arrival` of LOCATE, with groups as small as they can be."""
    if owned.travel is None or (tile.vertices, tile.located) != (owned.count, owned.count):
        return UNORDERED
    last = max(0, tile.first_partial - tile.vertices - 1)
    return next(shift for shift in range(UNORDERED) if last >> shift < ARRIVALS)


def _table(places: IntArray, tile: Tile, ahead: int, begins: IntArray | None) -> IntArray:
    """Return what the node table has: places, but of vertices that PROCESS combines where sparse features begin."""
    own = np.zeros(tile.vertices - ahead + 1, dtype=np.int64) if begins is None else begins
    return np.concatenate([places[:ahead], own, places[tile.vertices :]])
