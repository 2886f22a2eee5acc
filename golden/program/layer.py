"""The commands of a layer: a plan that describes the layer, and one function for each opcode.

A layer with gather PEs is LOAD_WEIGHTS, COMBINE of every part and AGGREGATE; with community PEs it begins with LOCATE
and ends with PROCESS, of every tile if there are several. If PEs have no room for the weights of all features, there
are LOAD_WEIGHTS and COMBINE into digits for every block of rows, then COMBINE of the digits. On a ring, barriers,
SCATTER and REDUCE bring other chiplets' rows; a layer that ends on the neural chip has NEURAL at the end.

Operands are named as in `contracts.COMMANDS`: a field of a part of the plan is the operand of that name in every
command made from it. The function of the opcode sets operands with another name, or that depend on more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from contracts import (
    DIGIT_BITS,
    LINE_BYTES,
    ROW_BYTES,
    SPARSE_ENTRY,
    Combination,
    Matching,
    Opcode,
    RegionKind,
    Targets,
)
from contracts.communities import UNORDERED
from contracts.weights import GRANULE, Blocks, Traffic, WeightRoom
from golden.community.plan import PAIRS, Scheme
from golden.locator.locator import Limits
from golden.locator.schedule import Schedule
from golden.model.layer import QuantisedLayer
from golden.program.program import Operand, Program, Reference, Section

__all__ = [
    "Block",
    "End",
    "Exchange",
    "Fetch",
    "LayerPlan",
    "Part",
    "Rest",
    "Search",
    "Shared",
    "Sums",
    "blocks_of",
    "digits_of",
    "fetch",
    "layer",
    "neural",
]


@dataclass(frozen=True)
class Part:
    """Vertices that one COMBINE combines: operands.

    Attributes
    ----------
    pieces
        For a layer in blocks of rows, the features of each block, with the rows of digits from `digit_row` on as
        results; none if an earlier part has them.
    digit_row
        Row of digits of the first vertex, a multiple of `PART_ROWS`.
    own
        Combined with the root weights of the layer, into combined rows; the last part.
    """

    vertices: int
    features: Operand
    entries: int
    scales: Operand
    first_row: int = 0
    feature_offsets: Operand = 0
    distance: int = 0
    pieces: "Sequence[Part]" = ()
    digit_row: int = 0
    own: bool = False

    @property
    def sparse(self) -> bool:
        """Whether features are sparse."""
        return not isinstance(self.feature_offsets, int)


@dataclass(frozen=True)
class Sums:
    """Vertices whose neighbourhoods one AGGREGATE or PROCESS sums: operands, s_dst as `scales`.

    `halves` of partial sums lie from `first_partial` on; `places` has the granules of combined rows, for `positions`
    rows. `located`: vertices that are searched for communities, if they are more than those that are summed.
    `weighted`: edges are weighted. `arrival`: rows of others come in the order of their positions, as for LOCATE.
    """

    first_vertex: int
    vertices: int
    offsets: Operand
    edges: Operand
    edge_count: int
    scales: Operand
    first_partial: int
    tiles: int = 1
    halves: int = 0
    places: Operand = 0
    positions: int = 0
    first_row: int = 0
    located: int = 0
    weighted: bool = False
    arrival: int = UNORDERED


@dataclass(frozen=True)
class Search:
    """Parameters of locating communities and of sharing sums."""

    schedule: Schedule
    limits: Limits
    scheme: Scheme = PAIRS


@dataclass(frozen=True)
class Shared:
    """Partial sums of hubs that REDUCE sends home: operands."""

    hub_count: int
    hub_homes: Operand
    offsets: Operand
    edges: Operand
    edge_count: int
    first_source: int
    sources: int
    first_partial: int


@dataclass(frozen=True)
class Exchange:
    """Operands of the ring unit: those of LIST, SCATTER and REDUCE.

    `count` of `others` are sources that other chiplets own. `out_tiles` are the tiles into which each vertex has edges
    that others gather.
    """

    boundaries: Operand
    others: Operand
    count: int
    needed: Operand
    tiles: int
    in_order: Matching
    out_tiles: Section
    shared: Shared


@dataclass(frozen=True)
class End:
    """Rows that one NEURAL ends, from `first` on, and the words of its program."""

    program: Section
    words: int
    first: int
    vertices: int


@dataclass(frozen=True)
class Root:
    """Own rows of a rooted layer: working space, factors, and the vertex of the first of both.

    Without working space PROCESS makes them beside the combined rows, which are not in memory either.
    """

    rows: Section | None
    scales: Section
    first_vertex: int


@dataclass(frozen=True)
class Fetch:
    """Attributes of a batch that are the features of a layer: operands, but those that depend on the part.

    `reports` is where each FETCH leaves its counts, a line each; `forget`: the first one forgets earlier attributes;
    `ids`: IDs whose rows make up the row of a position; `replicas`: copies of rows, or 0.
    """

    vertices: int
    offsets: Operand
    edges: Operand
    edge_count: int
    targets: Targets
    nodes: Operand
    attributes: Operand
    row_bytes: int
    reports: Section
    rows: Operand
    forget: bool
    tiles: int = 1
    ids: int = 1
    replicas: Operand = 0


@dataclass(frozen=True)
class Rest:
    """Vertices that PROCESS combines, behind the first `ahead` ones: operands, those of all vertices' factors.

    Their features are found by offsets, if these are sparse and combined rows have no places; else by their numbers.
    """

    ahead: int
    features: Operand
    feature_offsets: Operand
    sparse: bool
    scales_source: Operand


@dataclass(frozen=True)
class Columns:
    """Position of a block of columns in a row of results: operands."""

    row_granules: int
    first_granule: int


@dataclass(frozen=True)
class Block:
    """A layer, or a block of its columns: its arithmetic, its tensors in memory, and the parts to sum.

    `rows` are the blocks of rows that are combined one after another.
    """

    layer: QuantisedLayer
    weights: Section
    biases: Section
    columns: Columns
    sums: Sequence[Sums]
    rows: Sequence[range]
    root_weights: Section | None = None

    @property
    def cut(self) -> bool:
        """Whether there are several blocks of rows, so that digits of sums are kept between them."""
        return len(self.rows) > 1

    @property
    def granules(self) -> int:
        """Granules of a combined row."""
        return -(-self.layer.f_out // GRANULE)

    @property
    def distance(self) -> int:
        """Granules of all rows of digits of a vertex."""
        return len(DIGIT_BITS) * len(self.rows) * self.granules

    @classmethod
    def place(
        cls,
        p: Program,
        number: int,
        layer: QuantisedLayer,
        columns: range,
        rows: Sequence[range],
        sums: Callable[[int], Sequence[Sums]] = lambda f_out: (),
    ) -> Self:
        """Place the tensors of some columns of layer `number`; `sums` depend on the width of the combined rows."""
        part = layer.block(columns)
        weights = p.rows(RegionKind.WEIGHTS, part.weights, number)
        biases = p.words(RegionKind.BIASES, part.biases, number, dtype="<i4")
        where = Columns(-(-layer.f_out // GRANULE), columns.start // GRANULE)
        root = None if part.root is None else p.rows(RegionKind.WEIGHTS, part.root.weights, number)
        return cls(part, weights, biases, where, sums(part.f_out), rows, root)


@dataclass(frozen=True)
class LayerPlan:
    """Description of a layer.

    Attributes
    ----------
    number, blocks
        Position in the network, and the blocks of columns that are computed one after another.
    parts
        Parts to combine, one after another; a single part if PROCESS combines all.
    combined
        Combined rows in memory; None: PROCESS combines all.
    rest
        Vertices that no part has and PROCESS combines, beside combined rows.
    digits
        Rows of digits in memory, if there are blocks of rows.
    results
        Rows in memory.
    search, exchange, ends
        With community PEs; on a ring; with layer ends on the neural chip.
    lists
        Whether rows of others are needed that no earlier layer has listed.
    root
        Own rows, of a rooted layer.
    fetch
        Attributes that PEs read as they are fetched, for every part anew; None: features are in memory.
    """

    number: int
    blocks: Sequence[Block]
    parts: Sequence[Part]
    combined: Section | None
    results: Section
    digits: Section | None = None
    rest: Rest | None = None
    search: Search | None = None
    exchange: Exchange | None = None
    lists: bool = False
    ends: Sequence[End] = ()
    root: Root | None = None
    fetch: Fetch | None = None

    @property
    def unbarred(self) -> bool:
        """Whether chiplets with community PEs exchange rows, but no sums; of all of a ring or of none."""
        return self.search is not None and self.exchange is not None and not self.exchange.shared.hub_count

    @property
    def beside(self) -> bool:
        """Whether PROCESS begins while rows of others still come.

        These must be hubs to the locator: not where vertices are located that are not summed, as in a double cover.
        """
        covers = any(sums.located > sums.vertices for block in self.blocks for sums in block.sums)
        return self.unbarred and not covers


def blocks_of(
    layers: Sequence[QuantisedLayer], weight_room: WeightRoom | None, traffic: Sequence[Traffic]
) -> list[Blocks]:
    """Return the blocks of each layer, which has some `traffic`; one if room for weights is unlimited."""
    return [_blocks(each, weight_room, moved) for each, moved in zip(layers, traffic, strict=True)]


def _blocks(layer: QuantisedLayer, weight_room: WeightRoom | None, traffic: Traffic) -> Blocks:
    """Return the blocks of a layer; heads of attention are apart from each other."""
    attention = layer.attention
    heads = (
        [attention.heads.block(head) for head in range(attention.heads.heads)] if attention else [range(layer.f_out)]
    )
    width = len(heads[0])
    found = Blocks([range(width)], [range(layer.f_in)])
    if weight_room:
        found = weight_room.blocks(layer.f_in, width, traffic)
    return found._replace(columns=[head[block.start : block.stop] for head in heads for block in found.columns])


def digits_of(p: Program, blocks: Sequence[Blocks], vertices: int) -> Section | None:
    """Reserve room for the rows of digits of so many vertices, if a layer needs it."""
    granules = [len(each.rows) * -(-len(each.columns[0]) // GRANULE) for each in blocks if len(each.rows) > 1]
    if not granules:
        return None
    distance = len(DIGIT_BITS) * max(granules)
    size = vertices * distance * ROW_BYTES
    return p.reserve(RegionKind.DIGITS, 0, size, vertices, distance * GRANULE, distance * ROW_BYTES)


def layer(p: Program, plan: LayerPlan) -> None:
    """Add the commands of a layer."""
    for block in plan.blocks:
        _block(p, plan, block)
    for end in plan.ends:
        rows, width = Reference.row(plan.results, end.first), plan.results.row_elements
        neural(p, plan.number, end, rows, rows, (width, width))


def _block(p: Program, plan: LayerPlan, block: Block) -> None:
    """Add the commands of a block of columns."""
    search, ring = plan.search, plan.exchange
    if search and block.sums:
        # It runs in parallel with the combination.
        locate(p, plan, search, block.sums[0], joins=False)
    if ring and plan.lists and block is plan.blocks[0]:
        list_needed(p, plan, ring)
    if plan.root and block.root_weights:
        # Into memory that no other chiplet reads, and before others wait for rows.
        products(p, plan, block, block.root_weights, plan.parts)
        for part in plan.parts if plan.root.rows else ():
            combine(p, plan, block, part, plan.root)
    products(p, plan, block, block.weights, [part for part in plan.parts if not part.own])
    for part in plan.parts if plan.combined else ():
        if part.own and block.root_weights:
            products(p, plan, block, block.root_weights, [part])
        if ring and search:
            # Each row leaves as soon as it is there.
            send(p, plan, block, ring, part)
        if plan.fetch:
            fetch(p, plan.number, plan.fetch, part.vertices, streamed=True)
        combine(p, plan, block, part)
        if ring and not search:
            send(p, plan, block, ring, part)
    if ring and search and not plan.beside:
        # This command waits for the end of the pass, so it stands behind all that makes rows, and has none itself.
        scatter(p, plan, block, ring, replace(plan.parts[-1], vertices=0))
    if ring and ring.shared.hub_count:
        p.command(Opcode.BARRIER, plan.number)
        reduce(p, plan, block, ring)
    for number, sums in enumerate(block.sums):
        if search and number + 1 < len(block.sums):
            # The next tile is searched while the records of this one are used.
            locate(p, plan, search, block.sums[number + 1], joins=True)
        if search:
            process(p, plan, block, search, sums)
        else:
            aggregate(p, plan, block, sums)


def products(p: Program, plan: LayerPlan, block: Block, weights: Section, parts: Sequence[Part]) -> None:
    """Add LOAD_WEIGHTS of a matrix; if it is cut, COMBINE of the digits of parts, block of rows by block of rows."""
    for number, rows in enumerate(block.rows):
        load_weights(p, plan, block, weights, rows)
        for part in parts if block.cut else ():
            if part.pieces:
                digits(p, plan, block, number, part.pieces[number])


def load_weights(p: Program, plan: LayerPlan, block: Block, weights: Section, rows: range) -> None:
    """Add LOAD_WEIGHTS of a block of rows."""
    own: dict[str, Operand] = {"f_in": len(rows), "weights": Reference.row(weights, rows.start), "biases": block.biases}
    if plan.root and not plan.root.rows and block.layer.root and weights is block.weights:
        # The page is known when all matrices are.
        own |= {"own_page": 0, "own_shift": block.layer.root.shift}
    p.command(Opcode.LOAD_WEIGHTS, plan.number, block.layer, **own)


def combine(p: Program, plan: LayerPlan, block: Block, part: Part, root: Root | None = None) -> None:
    """Add COMBINE of a part, or of the sums of its digits; of its own rows if there is a `root`."""
    own: dict[str, Operand] = {"shift": block.layer.shift_source, "combined": plan.combined or 0}
    if root and root.rows and block.layer.root:
        first = part.first_row - root.first_vertex
        own = {"shift": block.layer.root.shift, "combined": root.rows, "first_row": first}
        own |= {"scales": Reference.row(root.scales, first)}
    if part.own and block.layer.root:
        own["shift"] = block.layer.root.shift
    own["in_turn"] = plan.fetch is not None
    if plan.rest and len(plan.parts) == len(block.sums) == 1:
        # PROCESS finds the factors of all there.
        own |= {"table": block.sums[0].vertices, "scales_destination": block.sums[0].scales}
    if block.cut:
        assert plan.digits
        size = block.distance * ROW_BYTES
        own |= {
            "kind": Combination.SUM,
            "features": Reference(plan.digits, part.digit_row * size // LINE_BYTES),
            "entries": part.vertices * size // SPARSE_ENTRY.bytes,
            "feature_offsets": 0,
            "sparse": 0,
            "distance": block.distance,
        }
    p.command(Opcode.COMBINE, plan.number, part, block.layer, **own)


def fetch(p: Program, number: int, given: Fetch, count: int, *, streamed: bool) -> None:
    """Add FETCH of the attributes of the first `count` positions, and of their edges if these have some."""
    line = p.count(Opcode.FETCH)
    own: dict[str, Operand] = {"count": count * given.ids, "flush": given.forget and not line, "streamed": streamed}
    p.command(Opcode.FETCH, number, given, report=Reference(given.reports, line), **own)


def digits(p: Program, plan: LayerPlan, block: Block, number: int, piece: Part) -> None:
    """Add COMBINE of the block of rows `number` of a part."""
    own: dict[str, Operand] = {
        "kind": Combination.DIGITS,
        "f_in": len(block.rows[number]),
        "combined": plan.digits or 0,
        "row_granules": block.distance,
        "first_granule": len(DIGIT_BITS) * number * block.granules,
    }
    p.command(Opcode.COMBINE, plan.number, piece, block.layer, **own)


def aggregate(p: Program, plan: LayerPlan, block: Block, sums: Sums) -> None:
    """Add AGGREGATE."""
    shift, sources = block.layer.shift_destination, sums.first_partial + sums.halves
    own = {"shift": shift, "combined": plan.combined or 0, "sources": sources, "partials": sums.halves}
    own["attention"] = block.layer.attention.margin if block.layer.attention else 0
    given = sums, block.layer, block.columns
    if plan.root:
        own |= {"rooted": 1, "own": plan.root.rows or 0}
    p.command(Opcode.AGGREGATE, plan.number, *given, results=plan.results, **own)


def locate(p: Program, plan: LayerPlan, search: Search, sums: Sums, *, joins: bool) -> None:
    """Add LOCATE."""
    schedule, vertices = search.schedule, sums.located or sums.vertices
    own: dict[str, Operand] = {"joins": joins, "vertices": vertices}
    # Parts of a graph have other degrees than the whole, on which hubs of the plan depend.
    by_degrees = schedule.by_degrees and plan.exchange is None and not sums.positions
    own |= {"by_degrees": by_degrees, "threshold": 0 if by_degrees else schedule.threshold}
    p.command(Opcode.LOCATE, plan.number, sums, schedule, search.limits, **own)


def process(p: Program, plan: LayerPlan, block: Block, search: Search, sums: Sums) -> None:
    """Add PROCESS, of combined rows or of features that it combines first."""
    own: dict[str, Operand] = {
        "scales_destination": sums.scales,
        **search.scheme.operands,
        "results": plan.results,
    }
    if plan.root:
        own["rooted"] = 1
        if plan.root.rows:
            own["features"] = plan.root.rows
    given: list[object] = [sums, block.layer, block.columns]
    if plan.combined:
        own |= {"rows": plan.combined, "combined": 1, "ahead": sums.vertices, "feature_offsets": sums.places}
        # Of the weights that were loaded last.
        own |= {"f_in": len(block.rows[-1]), "shift_source": 0}
        if plan.rest:
            rest = plan.rest
            own |= {name: getattr(rest, name) for name in ("ahead", "features", "sparse", "scales_source")}
            own |= {"shift_source": block.layer.shift_source}
            if not sums.positions:
                own |= {"feature_offsets": rest.feature_offsets}
    else:
        (part,) = plan.parts
        given.insert(0, part)
        own["scales_source"] = plan.root.scales if plan.root else part.scales
    p.command(Opcode.PROCESS, plan.number, *given, **own)


def list_needed(p: Program, plan: LayerPlan, ring: Exchange) -> None:
    """Add LIST."""
    p.command(Opcode.LIST, plan.number, ring)


def send(p: Program, plan: LayerPlan, block: Block, ring: Exchange, part: Part) -> None:
    """Add SCATTER of a part, in front of its COMBINE if there are community PEs, else behind it."""
    if ring.shared.hub_count and part is plan.parts[0]:
        # A row would stop at a chiplet that still adds up sums, in front of a sum that it waits for.
        p.command(Opcode.BARRIER, plan.number)
    follows, last = plan.search is not None, part is plan.parts[-1]
    more = not last or (follows and not plan.beside)
    scatter(p, plan, block, ring, part, more=more, follows=follows, beside=last and plan.beside)


def scatter(p: Program, plan: LayerPlan, block: Block, ring: Exchange, part: Part, **how: bool) -> None:
    """Add SCATTER of a part; `how` are operands that are 1."""
    tiles = Reference.row(ring.out_tiles, part.first_row - ring.shared.first_source)
    own: dict[str, Operand] = {"first_vertex": part.first_row, "combined": plan.combined or 0, **how}
    p.command(Opcode.SCATTER, plan.number, ring, part, block.layer, out_tiles=tiles, **own)


def reduce(p: Program, plan: LayerPlan, block: Block, ring: Exchange) -> None:
    """Add REDUCE."""
    p.command(Opcode.REDUCE, plan.number, ring.shared, block.layer, combined=plan.combined or 0)


def neural(p: Program, number: int, end: End, rows: Reference, results: Reference, width: tuple[int, int]) -> None:
    """Add NEURAL, for rows and results of different widths."""
    p.command(Opcode.NEURAL, number, end, rows=rows, results=results, f_in=width[0], f_out=width[1])
