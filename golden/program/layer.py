"""The commands of a layer: a plan that says what the layer is, and one function for each opcode.

A layer with gather PEs is LOAD_WEIGHTS, COMBINE of every part and AGGREGATE; with community PEs it begins with LOCATE
and ends with PROCESS, of every tile if there are several. On a ring, barriers, SCATTER and REDUCE bring other chiplets'
rows; a layer that ends on the neural chip has NEURAL behind all that. What needs another command, or another operand of
one, has it here and nowhere else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from golden.community.plan import Kind
from golden.contracts import Opcode
from golden.islands.locator import Limits
from golden.islands.schedule import Schedule
from golden.model.layer import QuantisedLayer
from golden.program.program import Operand, Program, Reference, Section

__all__ = ["End", "Exchange", "LayerPlan", "Part", "Search", "Sums", "layer", "neural"]


@dataclass(frozen=True)
class Part:
    """Vertices that one COMBINE combines.

    Attributes
    ----------
    vertices
        How many.
    features, offsets
        Dense rows, or sparse ones and where each begins.
    entries
        Length of the features, in sparse entries.
    scales
        s_src.
    first_row
        Combined row of the first one.
    """

    vertices: int
    features: Operand
    entries: int
    scales: Operand
    first_row: int = 0
    offsets: Section | None = None


@dataclass(frozen=True)
class Sums:
    """Vertices whose neighbourhoods one AGGREGATE or PROCESS sums up.

    Attributes
    ----------
    first_vertex, vertices
        Which ones.
    offsets, edges, edge_count, chiplets
        Their in-edges, tiled by chiplets.
    scales
        s_dst.
    first_partial, halves
        VID behind those of all vertices, and how many halves of partial sums lie from there on.
    degrees
        Neighbours that LOCATE counts; None: differences of the offsets.
    places, positions
        Where so many combined rows lie; none: at their VIDs.
    first_row
        Row of the first vertex's result.
    """

    first_vertex: int
    vertices: int
    offsets: Operand
    edges: Operand
    edge_count: int
    scales: Operand
    first_partial: int
    chiplets: int = 1
    halves: int = 0
    degrees: Section | None = None
    places: Operand = 0
    positions: int = 0
    first_row: int = 0

    @property
    def own(self) -> dict[str, Operand]:
        """Operands that say which vertices."""
        return {"first_vertex": self.first_vertex, "vertices": self.vertices}

    @property
    def graph(self) -> dict[str, Operand]:
        """Operands that say where the in-edges are."""
        return {
            "offsets": self.offsets,
            "edges": self.edges,
            "edge_count": self.edge_count,
            "tiles": self.chiplets,
        }


@dataclass(frozen=True)
class Search:
    """How communities are found, and how their sums are shared."""

    schedule: Schedule
    limits: Limits
    kind: Kind = Kind.PAIRS


@dataclass(frozen=True)
class Exchange:
    """What the ring unit of a chiplet is given.

    Attributes
    ----------
    first, owned, chiplets
        First own VID, number of own vertices, chiplets of the ring.
    boundaries, edges, edge_count, needed
        What LIST reads, and where it writes.
    departures
        Tiled offsets of out-edges that others gather.
    hubs, first_partial
        How many have partial sums, two halves each, and the combined row of the first half.
    homes, offsets, sources, shares
        Homes of partial sums, and the edges into them that are executed here, with their number.
    in_order
        The filters match in order (R7).
    """

    first: int
    owned: int
    chiplets: int
    boundaries: Section
    edges: Section
    edge_count: int
    needed: Section
    departures: Section
    hubs: int
    first_partial: int
    homes: Section
    offsets: Section
    sources: Section
    shares: int
    in_order: bool


@dataclass(frozen=True)
class End:
    """Rows of a layer's results that one NEURAL ends: from `first` on so many, by a program of so many words."""

    program: Section
    words: int
    first: int
    rows: int


@dataclass(frozen=True)
class LayerPlan:
    """What a layer is.

    Attributes
    ----------
    number, layer
        Position in the network, and its arithmetic.
    weights, biases
        Of all of it.
    parts
        Combined one after another; what is combined while it is summed up has one.
    sums
        Summed up one after another.
    combined
        Combined rows in memory; None: PROCESS combines as it goes.
    results
        Rows in memory, or the first of their lines in the row memory.
    inside
        First line of the features in the row memory; None: they are in memory.
    search
        With community PEs.
    exchange
        On a ring.
    ends
        What ends on the neural chip, row by row.
    """

    number: int
    layer: QuantisedLayer
    weights: Section
    biases: Section
    parts: Sequence[Part]
    sums: Sequence[Sums]
    combined: Section | None
    results: Section | int
    inside: int | None = None
    search: Search | None = None
    exchange: Exchange | None = None
    ends: Sequence[End] = ()

    @property
    def width(self) -> dict[str, Operand]:
        """Operands with the layer's numbers of features."""
        return {"f_in": self.layer.f_in, "f_out": self.layer.f_out}

    @property
    def ending(self) -> dict[str, Operand]:
        """Operands of what happens to a sum."""
        return {
            "activation": self.layer.activation,
            "self_weight": self.layer.self_weight,
            "neighbour_weight": self.layer.neighbour_weight,
            "results": self.results,
        }


def layer(p: Program, plan: LayerPlan) -> None:
    """Add the commands of a layer."""
    if plan.search and plan.sums:
        # It goes on beside the combination.
        locate(p, plan, plan.search, plan.sums[0])
    if plan.exchange and not plan.number:
        list_needed(p, plan, plan.exchange)
    load_weights(p, plan)
    if plan.combined is not None:
        for part in plan.parts:
            combine(p, plan, part)
            if plan.exchange:
                exchange(p, plan, plan.exchange, part)
    for number, sums in enumerate(plan.sums):
        if not plan.search:
            aggregate(p, plan, sums)
            continue
        if number:
            locate(p, plan, plan.search, sums)
        process(p, plan, plan.search, sums)
    for end in plan.ends:
        assert isinstance(plan.results, Section)
        rows, width = plan.results.row(end.first), plan.results.row_elements
        neural(p, plan.number, end.program, end.words, rows, rows, end.rows, (width, width))


def exchange(p: Program, plan: LayerPlan, ring: Exchange, part: Part) -> None:
    """Add what brings other chiplets' rows when a part is combined."""
    if part is plan.parts[0]:
        # Nobody may send rows of this layer while another still gathers those of the last.
        p.command(Opcode.BARRIER, plan.number)
    scatter(p, plan, ring, part)
    if ring.hubs and part is plan.parts[-1]:
        p.command(Opcode.BARRIER, plan.number)
        reduce(p, plan, ring)


def load_weights(p: Program, plan: LayerPlan) -> None:
    """Add LOAD_WEIGHTS."""
    p.command(Opcode.LOAD_WEIGHTS, plan.number, **plan.width, weights=plan.weights, biases=plan.biases)


def combine(p: Program, plan: LayerPlan, part: Part) -> None:
    """Add COMBINE of a part."""
    p.command(
        Opcode.COMBINE,
        plan.number,
        **plan.width,
        **_features(part),
        shift=plan.layer.shift_source,
        vertices=part.vertices,
        entries=part.entries,
        scales=part.scales,
        combined=plan.combined or 0,
        first_row=part.first_row,
    )


def aggregate(p: Program, plan: LayerPlan, sums: Sums) -> None:
    """Add AGGREGATE."""
    p.command(
        Opcode.AGGREGATE,
        plan.number,
        **sums.own,
        **sums.graph,
        **plan.ending,
        shift=plan.layer.shift_destination,
        f_out=plan.layer.f_out,
        scales=sums.scales,
        combined=plan.combined or 0,
        first_source=0,
        sources=sums.first_partial + sums.halves,
        partials=sums.halves,
    )


def locate(p: Program, plan: LayerPlan, search: Search, sums: Sums) -> None:
    """Add LOCATE."""
    schedule, limits = search.schedule, search.limits
    p.command(
        Opcode.LOCATE,
        plan.number,
        **sums.own,
        **sums.graph,
        halving=schedule.halving,
        differences=sums.degrees is None,
        degrees=sums.degrees or 0,
        threshold=schedule.threshold,
        step=schedule.step,
        rounds=schedule.rounds,
        c_max=limits.c_max,
        h_max=limits.h_max,
    )


def process(p: Program, plan: LayerPlan, search: Search, sums: Sums) -> None:
    """Add PROCESS, of combined rows or of features that it combines first."""
    if plan.combined is not None:
        source: Mapping[str, Operand] = {
            "features": plan.combined,
            "combined": 1,
            "feature_offsets": sums.places,
            "positions": sums.positions,
        }
    else:
        (part,) = plan.parts
        source = {
            **_features(part),
            "read_inside": plan.inside is not None,
            "shift_source": plan.layer.shift_source,
            "scales_source": part.scales,
        }
    p.command(
        Opcode.PROCESS,
        plan.number,
        **sums.own,
        **plan.width,
        **plan.ending,
        **source,
        shift_destination=plan.layer.shift_destination,
        window=search.kind is Kind.PAIRS,
        scales_destination=sums.scales,
        write_inside=isinstance(plan.results, int),
        first_partial=sums.first_partial,
        first_row=sums.first_row,
    )


def _features(part: Part) -> dict[str, Operand]:
    """Return the operands of features."""
    offsets = part.offsets
    return {"features": part.features, "sparse": offsets is not None, "feature_offsets": offsets or 0}


def list_needed(p: Program, plan: LayerPlan, ring: Exchange) -> None:
    """Add LIST."""
    p.command(
        Opcode.LIST,
        plan.number,
        boundaries=ring.boundaries,
        edges=ring.edges,
        edge_count=ring.edge_count,
        partials=2 * ring.hubs,
        needed=ring.needed,
        tiles=ring.chiplets,
    )


def scatter(p: Program, plan: LayerPlan, ring: Exchange, part: Part) -> None:
    """Add SCATTER of a part."""
    p.command(
        Opcode.SCATTER,
        plan.number,
        first_vertex=part.first_row,
        vertices=part.vertices,
        offsets=ring.departures.row((part.first_row - ring.first) * ring.chiplets),
        more=part is not plan.parts[-1],
        needed=ring.needed,
        combined=plan.combined or 0,
        f_out=plan.layer.f_out,
        tiles=ring.chiplets,
        in_order=ring.in_order,
    )


def reduce(p: Program, plan: LayerPlan, ring: Exchange) -> None:
    """Add REDUCE."""
    p.command(
        Opcode.REDUCE,
        plan.number,
        hub_count=ring.hubs,
        hub_homes=ring.homes,
        offsets=ring.offsets,
        edges=ring.sources,
        edge_count=ring.shares,
        combined=plan.combined or 0,
        first_source=ring.first,
        sources=ring.owned,
        first_partial=ring.first_partial,
        f_out=plan.layer.f_out,
    )


def neural(
    p: Program,
    number: int,
    program: Section,
    words: int,
    rows: Reference,
    results: Reference,
    vertices: int,
    width: tuple[int, int],
) -> None:
    """Add NEURAL: a program over so many rows of a width, whose results have another."""
    p.command(
        Opcode.NEURAL,
        number,
        program=program,
        words=words,
        rows=rows,
        results=results,
        vertices=vertices,
        f_in=width[0],
        f_out=width[1],
    )
