"""Sampled networks on mini-batches: the exact results, and the images that make the hardware compute them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

from contracts import LINE_BYTES, PAGE_BYTES, ROW_BYTES, SPARSE_ENTRY, VALUE_BITS, Model, Opcode, RegionKind, Targets
from contracts.errors import InputError
from contracts.scale import scales_of
from contracts.weights import Traffic, WeightRoom
from golden.attributes.divided import ARRAYS, DividedGraph, Share
from golden.attributes.replicas import replicas_of
from golden.attributes.sampler import Batch, Plan, sample
from golden.dnp.layer_end import ROWS
from golden.graph import Graph, IntArray
from golden.image_format import Region, row_bytes
from golden.locator.locator import Limits
from golden.locator.schedule import Schedule
from golden.model.layer import Int16Array, OwnRows, QuantisedLayer, RootWeights, aggregate, combine
from golden.model.network import Problem, QuantisedModel, infer, problem_of
from golden.model.topology import uniform
from golden.program.layer import Block, End, Fetch, LayerPlan, Part, Search, Sums, blocks_of, digits_of, fetch, layer
from golden.program.program import Operand, Program, Reference, Section

__all__ = ["BatchImage", "batch_results", "batches_of", "sampled_graph"]

#: Most commands of a block of columns of a layer, its end on the neural chip among them.
_BLOCK_COMMANDS = 7
#: Places of samples.
_TREES = 2


def batches_of(roots: IntArray, size: int) -> Iterator[IntArray]:
    """Roots in batches of `size`, the last one smaller if need be."""
    for first in range(0, roots.size, size):
        yield roots[first : first + size]


def sampled_graph(batch: Batch, features: Int16Array) -> tuple[Graph, Int16Array]:
    """Positions of a batch as a graph with an edge from each sample to what it was sampled for, and their features."""
    count = batch.positives
    nothing = np.zeros(count, dtype=np.bool_)
    graph = Graph(
        name="mini-batch",
        offsets=batch.offsets,
        edges=batch.edges,
        features=np.zeros((count, 1), dtype=np.float32),
        labels=np.full(count, -1, dtype=np.int64),
        classes=1,
        train=nothing,
        validation=nothing,
        test=nothing,
    )
    return graph, features[batch.nodes[:count]]


def batch_results(problem: Problem, roots: IntArray, plan: Plan, number: int) -> tuple[Batch, Int16Array]:
    """Sample a batch and compute its roots' results exactly.

    Parameters
    ----------
    problem
        Quantised network on the whole graph, with dense features.
    roots
        VIDs.
    plan
        One hop for each layer of the network.
    number
        Of the batch.

    Returns
    -------
    tuple
        The sample, and results int16 [roots, f_out].
    """
    batch, model = sample(problem.graph, roots, plan, number), problem.model
    graph, rows = sampled_graph(batch, dense(problem))
    if problem.edge_rows is not None:
        rows = _first_results(problem, problem.edge_rows, batch, graph, rows)
        ends = {number - 1: end for number, end in model.ends.items() if number}
        if len(model.layers) == 1:
            return batch, rows[: roots.size]
        model = QuantisedModel(model.model, model.layers[1:], model.fractions[0].results, model.fractions[1:], ends)
    results = infer(problem_of(graph, rows, model))[-1].results
    return batch, results[: roots.size]


def _first_results(problem: Problem, edge_rows: Int16Array, batch: Batch, graph: Graph, rows: Int16Array) -> Int16Array:
    """int16 [positives, f_out], the mean over a position and its samples, each with the attributes of its edge.

    A position has none for itself. On the whole graph the products with attributes are part of own rows, see
    `golden.model.quantise`; here each sample brings its own.
    """
    layer, along = problem.model.layers[0], batch.along[: batch.positives]
    assert layer.root is not None
    topology = uniform(problem.model.model, graph)
    attributes = np.where(along[:, None] < 0, np.int16(0), edge_rows[along] if edge_rows.size else np.int16(0))
    combined = combine(np.hstack([rows, attributes]), layer.root.weights, topology.source, layer.root.shift)
    own = combine(np.hstack([rows, 0 * attributes]), layer.weights, topology.source, layer.shift_source)
    once = OwnRows(own, np.zeros(graph.nodes, np.uint8))
    shift = layer.shift_destination
    result = aggregate(graph, combined, topology.destination, shift, layer.biases, layer.activation, root=once)
    return problem.model.ends[0](result).astype(np.int16) if 0 in problem.model.ends else result


def dense(problem: Problem) -> Int16Array:
    """int16 [nodes, features], those of the nodes alone."""
    rows = problem.features
    whole = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.int16)
    return whole if problem.edge_rows is None else whole[:, : -problem.edge_rows.shape[1]]


def _attribute_rows(problem: Problem) -> Int16Array:
    """int16 [IDs, columns]: rows of the nodes; if edges have attributes, theirs behind these, then that of no edge.

    All have one length, as rows of any kind change places in the attribute RAM.
    """
    nodes, edges = dense(problem), problem.edge_rows
    if edges is None:
        return nodes
    count = problem.graph.nodes
    rows = np.zeros((count + len(edges) + 1, max(nodes.shape[1], edges.shape[1])), np.int16)
    rows[:count, : nodes.shape[1]] = nodes
    rows[count:-1, : edges.shape[1]] = edges
    return rows


def _layers(problem: Problem, width: int) -> tuple[QuantisedLayer, ...]:
    """Return the layers as a batch computes them.

    Where edges have attributes, a row that enters is a node's and an edge's, `width` elements each. Root weights are
    those of a position itself.
    """
    first, *others = problem.model.layers
    if problem.edge_rows is None or first.root is None:
        return problem.model.layers
    features = first.f_in - problem.edge_rows.shape[1]

    def spread(weights: Int16Array) -> Int16Array:
        rows = np.zeros((2 * width, first.f_out), np.int16)
        rows[:features] = weights[:features]
        rows[width : width + len(weights) - features] = weights[features:]
        return rows

    own = RootWeights(spread(first.weights), first.shift_source)
    sampled = replace(first, weights=spread(first.root.weights), shift_source=first.root.shift, root=own)
    return (sampled, *others)


class _Tree(NamedTuple):
    """Place of a sample. ``seen``: what the host reads of it; the sample itself if that lies in memory."""

    sample: Section
    seen: Section


@dataclass(frozen=True, eq=False)
class _Sections:
    """Layout of the memory; roots and programs come first, since they are rewritten for every run.

    ``trees``: places of samples, in turn: one is computed, one is made. ``reports``: counts of each FETCH. ``ones``:
    factors 1, which are ``given_ones`` or copied from there once. ``table``: who has which lines of a divided graph.
    ``replicas``: a table of others' vertices, and copies of their rows.
    """

    roots: Section
    programs: dict[int, Section]
    trees: Sequence[_Tree]
    reports: Section
    offsets: Section
    edges: Section
    attributes: Section
    table: Section | None
    replicas: Section | None
    given_ones: Section
    ones: Section
    rows: Section
    combined: Section
    digits: Section | None
    blocks: list[list[Block]]
    results: list[Section]

    @property
    def last_in_front(self) -> Section:
        """The part that is rewritten for every run."""
        return [self.roots, *self.programs.values()][-1]


class Place(NamedTuple):
    """Location of a sample for the host: its `Batch`, and its VIDs."""

    batch: Region
    nodes: int


class BatchImage:
    """Memory of a batch machine: graph, attributes and weights stay; header, commands and roots change.

    Parameters
    ----------
    problem
        Quantised GraphSAGE network on the whole graph.
    plan
        What to sample; as many hops as there are layers.
    size
        Largest number of roots of a batch.
    targets
        How attributes get their slots of the buffer (A4).
    limits
        Limits of the locator, if community PEs compute the layers; None: gather PEs.
    weight_room, scratch_lines
        As for `golden.program.chiplet.chiplet_image`.
    streamed
        PEs read attributes as they are fetched, unless the first layer has more features than rows of weights.
    shown
        Whether the VIDs of a sample are left for the host, too.
    share
        Of a chiplet on a ring: the memory has the offsets, edges and attributes of its own vertices only. None: all.
    replicas
        Cells of a chiplet's table of others' vertices whose rows its memory has copies of, the ones wanted most;
        0: none. Does nothing without `share`.

    Attributes
    ----------
    data
        The whole memory, front empty.
    reports, results, edges, attributes
        Locations of the counts of each FETCH, of the roots' results, which are the first rows, and of the edges and
        attributes in this memory.
    row_bytes
        Distance of attribute rows.
    ids
        IDs of a position: its VID, and if edges have attributes the key of its edge.
    id_count
        Number of IDs: of nodes, of edges that have attributes, and of none of these.
    graph
        Regions of offsets, edges and attributes.
    divided
        The graph that all chiplets of the ring have together, or None.
    replicas
        Region of the table and the copies, or None.
    graph_line
        First line of the addresses under which all of it is read, behind those of the memory.

    Raises
    ------
    InputError
        If the network is not GraphSAGE or the plan does not fit it, or a graph whose edges have attributes is shared.
    """

    def __init__(
        self,
        problem: Problem,
        plan: Plan,
        size: int,
        targets: Targets = Targets.POSITION,
        limits: Limits | None = None,
        weight_room: WeightRoom | None = None,
        scratch_lines: int = 0,
        streamed: bool = False,
        shown: bool = True,
        share: Share | None = None,
        replicas: int = 0,
    ) -> None:
        model = problem.model
        if model.model != Model.SAGE:
            raise InputError("model", f"is {model.model.name.lower()}", "sage for mini-batches")
        paired = problem.edge_rows is not None
        self.ids = 2 if paired else 1
        if paired and share is not None:
            expected = "one chiplet for mini-batches, or --no-edge-attributes to leave them out"
            raise InputError(f"graph {problem.graph.name}, edges", "have attributes, and a ring divides it", expected)
        for number, each in enumerate(model.layers):
            if (each.root is not None and not (paired and number == 0)) or each.self_weight != 1:
                what = "has a root weight" if each.root is not None else "takes the mean without the node itself"
                raise InputError(f"layer {number}", what, "the mean over a node and its samples for mini-batches")
        if len(plan.fan_out) != len(model.layers):
            raise InputError(
                "fan-out", f"of {len(plan.fan_out)} hops", f"{len(model.layers)}, the layers of the network"
            )
        self.problem, self.plan, self.size, self.targets, self.limits = problem, plan, size, targets, limits
        self.shown = shown
        attributes = _attribute_rows(problem)
        self.id_count, self.row_bytes = len(attributes), row_bytes(attributes.shape[1])
        layers = self._layers = _layers(problem, self.row_bytes * 8 // VALUE_BITS)
        most, inner = plan.most(size), plan.inner(size)
        if limits is not None and max(plan.fan_out) > limits.hubs:
            raise InputError("fan-out", f"is {max(plan.fan_out)}", f"at most {limits.hubs}, hubs of a community")
        if inner > ROWS and model.ends:
            raise InputError("batch", f"of {size} roots ends {inner} rows on the neural chip", f"at most {ROWS}")
        # Offsets, a factor and an edge of a vertex, beside its features.
        traffic = [Traffic(most * (row_bytes(each.f_in) + 12), most) for each in layers]
        blocks = blocks_of(layers, weight_room, traffic)
        self.streamed = streamed and len(blocks[0].rows) == 1
        fetches = len(blocks[0].columns) * (2 if self._apart(0) else 1) if self.streamed else 1
        # SAMPLE, two copies of what the host reads, SHARE or the next copy, and the layers.
        commands = fetches + 4 + sum((_BLOCK_COMMANDS + 4 * len(each.rows)) * len(each.columns) for each in blocks)
        p = Program(1 + commands, scratch_lines)
        roots, programs = p.reserve(RegionKind.ROOTS, 0, size * 4, size, 1, 4), {}
        for number, end in model.ends.items():
            words = end.words(inner).size
            programs[number] = p.reserve(RegionKind.PROGRAM, number, 4 * words, words, 1, 4)
        self.span = span = most * 4 // LINE_BYTES + 1  # lines of each array of a sample
        # Each layer needs one hop less. Where own rows lie apart, they do so behind all that is summed.
        widths = [len(each.columns[0]) for each in blocks]
        reach = [plan.reach(size, len(layers) - n) for n in range(len(layers) + 1)]
        rows = [before + (after if self._apart(n) else 0) for n, (before, after) in enumerate(pairwise(reach))]
        space = max(count * row_bytes(width) for count, width in zip(rows, widths, strict=True))
        widest, distance = max(widths), row_bytes(max(widths))
        given_ones = p.scales(RegionKind.SCALE_SOURCE, scales_of(np.ones(most)))
        # What is read most is first to be in the scratchpad.
        combined = p.reserve(RegionKind.COMBINED, 0, space, space // distance, widest, distance)
        p.on_chip(combined)
        hidden = [p.reserve_rows(RegionKind.HIDDEN, inner, layer.f_out, n) for n, layer in enumerate(layers[:-1])]
        for section in hidden:
            p.on_chip(section)
        trees = [self._tree(p) for _ in range(_TREES)]
        ones = p.reserve(RegionKind.SCALE_SOURCE, 1, given_ones.bytes, most, 1, 4)
        self._copies_ones = p.on_chip(ones)
        self.divided = self._divide(attributes, share)
        arrays, table = self._place_graph(p, attributes, share.chiplet if share else 0)
        row = self.ids * self.row_bytes
        self._sections = at = _Sections(
            roots=roots,
            programs=programs,
            trees=trees,
            reports=p.reserve(RegionKind.RECORDS, 2, fetches * LINE_BYTES, fetches, 1, LINE_BYTES),
            table=table,
            replicas=self._replicate(p, attributes, share, replicas) if share and replicas else None,
            **arrays,
            given_ones=given_ones,
            ones=ones if self._copies_ones else given_ones,
            rows=p.reserve(RegionKind.FEATURES, 1, most * row, most, layers[0].f_in, row),
            combined=combined,
            digits=digits_of(p, blocks, most),
            blocks=[
                [Block.place(p, n, layer, block, blocks[n].rows) for block in blocks[n].columns]
                for n, layer in enumerate(layers)
            ],
            results=[*hidden, p.reserve_rows(RegionKind.RESULTS, size, layers[-1].f_out, len(layers) - 1)],
        )
        placed = p.layout()
        regions = placed.regions
        self.graph_line = self._behind(placed.lines + scratch_lines)
        self._places = [
            Place(seen := regions[tree.seen], seen.address + (1 + 3 * span * (tree.seen is tree.sample)) * LINE_BYTES)
            for tree in trees
        ]
        self.reports, self.results = regions[at.reports], regions[at.results[-1]]
        self.edges, self.attributes = regions[at.edges], regions[at.attributes]
        self.graph = [regions[at.offsets], self.edges, self.attributes]
        self.replicas = regions[at.replicas] if at.replicas else None
        self.data = p.memory()
        self._memory = p.again()

    def _divide(self, features: Int16Array, share: Share | None) -> DividedGraph | None:
        """Return the graph as the chiplets of a ring have it together."""
        if share is None:
            return None
        rows = self._padded(features).tobytes()
        return DividedGraph.divide(self.problem.graph, rows, self.row_bytes, share.boundaries)

    def _padded(self, features: Int16Array) -> Int16Array:
        """Return rows as long as they are in memory."""
        padded = np.zeros((len(features), self.row_bytes // (VALUE_BITS // 8)), dtype="<i2")
        padded[:, : features.shape[1]] = features
        return padded

    def _place_graph(self, p: Program, features: Int16Array, chiplet: int) -> tuple[dict[str, Section], Section | None]:
        """Place offsets, edges and attributes: all, or those of a chiplet, and who has which lines."""
        graph = self.problem.graph
        if self.divided is None:
            return {
                "offsets": p.words(RegionKind.OFFSETS, graph.offsets),
                "edges": p.words(RegionKind.EDGES, graph.edges),
                "attributes": p.rows(RegionKind.FEATURES, features),
            }, None
        arrays = dict[str, Section]()
        for name, kind in zip(ARRAYS, (RegionKind.OFFSETS, RegionKind.EDGES, RegionKind.FEATURES), strict=True):
            part = self.divided.part(name, chiplet)
            arrays[name] = p.reserve(kind, 0, len(part), len(part) // LINE_BYTES, 1, LINE_BYTES)
            p.fill(arrays[name], part)
        return arrays, p.words(RegionKind.SHARES, self.divided.table)

    def _replicate(self, p: Program, attributes: Int16Array, share: Share, cells: int) -> Section:
        """Place the IDs whose rows are copied, then the copies."""
        copies = replicas_of(self.problem.graph, self.plan, share, cells)
        rows = np.zeros((cells, attributes.shape[1]), np.int16)
        rows[copies.used] = attributes[copies.cells[copies.used]]
        data = copies.cells.astype("<u4").tobytes() + self._padded(rows).tobytes()
        section = p.reserve(RegionKind.REPLICAS, 0, len(data), len(data) // LINE_BYTES, 1, LINE_BYTES)
        p.fill(section, data)
        return section

    def _behind(self, lines: int) -> int:
        """Return the first line of a page behind so many lines, from which on the divided graph is read."""
        page = PAGE_BYTES // LINE_BYTES
        first = -(-lines // page) * page
        if self.divided and first + self.divided.lines >= 1 << 32:
            raise InputError("image", f"reads {first + self.divided.lines} lines", "fewer than 2^32")
        return first

    @property
    def last_line(self) -> int:
        """Lines of the addresses that the chiplet uses."""
        return self.graph_line + self.divided.lines if self.divided else len(self.data) // LINE_BYTES

    def _tree(self, p: Program) -> _Tree:
        """Return the place of a sample, in the scratchpad if there is room."""
        span = self.span
        sample = p.reserve(RegionKind.RECORDS, 0, (1 + (3 + self.ids) * span) * LINE_BYTES, 1, 1, LINE_BYTES)
        if not p.on_chip(sample):
            return _Tree(sample, sample)
        return _Tree(sample, p.reserve(RegionKind.RECORDS, 1, (1 + self.ids * span) * LINE_BYTES, 1, 1, LINE_BYTES))

    def _apart(self, number: int) -> bool:
        """Whether own rows of a layer are combined apart from those that are summed.

        To the locator, vertices that are not its own are hubs, and edges into them somebody else's. So what is
        computed has VIDs behind those of all it is computed from, and a row of its own there. With attributes of edges,
        gather PEs have such rows too, since a position as a sample has an edge and by itself has none.
        """
        return self.limits is not None or (self.ids > 1 and number == 0)

    def at(self, number: int) -> Place:
        """Return where the host finds the sample of batch `number`, until that of ``number + 2`` is made."""
        return self._places[number % _TREES]

    def positions_of(self, words: bytes) -> tuple[IntArray, IntArray]:
        """VIDs of positions, and numbers of their edges, -1 for none, from what a SAMPLE wrote: int64 each.

        There are no numbers if edges have no attributes.
        """
        pairs = np.frombuffer(words, "<u4").astype(np.int64).reshape(-1, self.ids)
        numbers = pairs[:, 1:].ravel() - self.problem.graph.nodes
        return pairs[:, 0], np.where(numbers == self.problem.graph.edge_count, -1, numbers)

    def sample_front(self, number: int, roots: IntArray, first: bool = False) -> bytes:
        """Return the front whose run samples batch `number`, the `first` of all or another one, and does no more."""
        at, p = self._sections, self._memory.again()
        if first:
            self._share(p)
        if first and self._copies_ones:
            p.command(Opcode.COPY, 0, source=at.given_ones, target=at.ones, lines=at.ones.lines)
        self._sample(p, number, roots)
        self._show(p, number)
        return p.front(self.problem, at.last_in_front)

    def share_front(self) -> bytes:
        """Return the front whose run lets others read this chiplet's part of the graph, and does no more."""
        p = self._memory.again()
        self._share(p)
        return p.front(self.problem, self._sections.last_in_front)

    def _share(self, p: Program) -> None:
        """Have the chiplet take part in a graph that is divided."""
        at = self._sections
        if self.divided is not None and at.table is not None:
            chiplets = self.divided.firsts.shape[1]
            own: dict[str, Operand] = {name: getattr(at, name) for name in ARRAYS}
            p.command(Opcode.SHARE, 0, table=at.table, graph=self.graph_line, tiles=chiplets, **own)

    def _sample(self, p: Program, number: int, roots: IntArray) -> None:
        """Have batch `number` sampled in the background."""
        at, plan = self._sections, self.plan
        p.fill(at.roots, roots.astype("<u4").tobytes())
        size = {**self._graph, "root_count": roots.size}
        hops = {"hops": len(plan.fan_out), "fan_out": sum(count << (8 * n) for n, count in enumerate(plan.fan_out))}
        how = {"later": 1, "background": 1, "span": self.span, "row_bytes": self.row_bytes, "paired": self.ids > 1}
        tree = at.trees[number % _TREES].sample
        p.command(Opcode.SAMPLE, 0, at, plan, tree=tree, batch=number, **self._read, **size, **hops, **how)

    def _show(self, p: Program, number: int) -> None:
        """Copy what the host reads of the sample of batch `number`, once that is complete, out of the scratchpad."""
        sample, seen = self._sections.trees[number % _TREES]
        if seen is not sample:
            p.command(Opcode.COPY, 0, source=sample, target=seen, lines=1)
            if self.shown:
                lines = self.ids * self.span
                p.command(Opcode.COPY, 0, source=self._arrays(number)[3], target=Reference(seen, 1), lines=lines)

    def _arrays(self, number: int) -> list[Reference]:
        """Offsets, edges, factors and VIDs of the sample of batch `number`."""
        sample = self._sections.trees[number % _TREES].sample
        return [Reference(sample, 1 + n * self.span) for n in range(4)]

    @property
    def _read(self) -> dict[str, Operand]:
        """Where the graph is read."""
        if self.divided is None:
            return {name: getattr(self._sections, name) for name in ARRAYS}
        return {name: self.graph_line + self.divided.start(name) for name in ARRAYS}

    @property
    def _graph(self) -> dict[str, int]:
        graph = self.problem.graph
        return {"vertices": graph.nodes, "edge_count": graph.edge_count, "tiles": 1}

    def infer_front(
        self, number: int, batch: Mapping[str, int], following: IntArray | None = None, first: bool = False
    ) -> bytes:
        """Return the front whose run computes the layers of a batch, and samples the next one beside them.

        Parameters
        ----------
        number, batch
            Number of a batch that was sampled, and its `Batch`.
        following
            Roots of batch ``number + 1``; None: there is none.
        first
            No batch was computed before.
        """
        at, layers, p = self._sections, self._layers, self._memory.again()
        hops = [batch[f"hop{n}"] for n in range(len(layers) + 1)]
        arrays = self._arrays(number)
        read = self._read
        attributes = Fetch(
            **{**self._graph, "vertices": self.id_count}, offsets=read["offsets"], edges=read["edges"],
            targets=self.targets, nodes=arrays[3], ids=self.ids,
            attributes=read["attributes"], row_bytes=self.row_bytes, reports=at.reports, rows=at.rows, forget=first,
            replicas=at.replicas or 0,
        )  # fmt: skip
        if following is not None:
            self._sample(p, number + 1, following)
        if not self.streamed:
            fetch(p, 0, attributes, sum(hops), streamed=False)
        features = at.rows
        for level in range(len(layers)):
            # Each layer needs one hop less than the previous one.
            sources = sum(hops[: len(hops) - level])
            vertices = sources - hops[len(hops) - 1 - level]
            plan = self._plan(p, level, arrays, features, sources, vertices, hops[0])
            layer(p, plan if level or not self.streamed else replace(plan, fetch=attributes))
            features = at.results[level]
        if following is not None:
            self._show(p, number + 1)
        return p.front(self.problem, at.last_in_front)

    def _plan(
        self,
        p: Program,
        number: int,
        arrays: Sequence[Reference],
        features: Section,
        sources: int,
        vertices: int,
        roots: int,
    ) -> LayerPlan:
        """Return the layer that computes so many vertices from so many sources, all that were sampled but roots."""
        at, model = self._sections, self.problem.model
        offsets, edges, means, _ = arrays
        ends, parts, first, search = list[End](), [sources], 0, None
        if self._apart(number):
            parts, first = [sources, vertices], sources
        if self.limits is not None:
            search = Search(Schedule(self.limits.h_max, step=0), self.limits)
        if number in model.ends:
            words = model.ends[number].words(vertices)
            p.fill(at.programs[number], words.astype("<u4").tobytes())
            ends = [End(at.programs[number], words.size, 0, vertices)]
        entries = features.row_bytes // SPARSE_ENTRY.bytes
        rows = zip(parts, (0, sources), strict=False)
        combined = [Part(count, features, count * entries, at.ones, first_row) for count, first_row in rows]
        if self.ids > 1 and number == 0:
            combined[1] = replace(combined[1], own=True)
        blocks = at.blocks[number]
        if len(blocks[0].rows) > 1:
            # Digits of the computed rows are those of the first source rows.
            distance = features.row_bytes // ROW_BYTES
            starts = [Reference(features, 0).on(rows.start * VALUE_BITS // 8) for rows in blocks[0].rows]
            for place, part in enumerate(combined):
                if part is combined[0] or part.own:
                    pieces = [Part(part.vertices, start, 0, at.ones, distance=distance) for start in starts]
                    combined[place] = replace(part, pieces=pieces)
        partial = first + vertices if self._apart(number) else sources
        sums = Sums(first, vertices, offsets, edges, sources - roots, means, partial)
        blocks = [replace(block, sums=[sums]) for block in blocks]
        results = at.results[number]
        return LayerPlan(number, blocks, combined, at.combined, results, at.digits, search=search, ends=ends)
