"""Sampled networks on mini-batches: the exact results, and the images that make the hardware compute them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from golden.attributes.sampler import Batch, Plan, sample
from golden.contracts import COMMAND_BYTES, HEADER, LINE_BYTES, MAGIC, VERSION, Model, Opcode, RegionKind
from golden.errors import InputError
from golden.graph import Graph, IntArray
from golden.image import Builder, Command, Region, row_bytes
from golden.model.layer import Int16Array
from golden.model.network import Problem, infer, problem_of
from golden.model.scale import scales_of

__all__ = ["BatchImage", "batch_results", "batches_of", "sampled_graph"]

#: Lines in front that are written anew for every run: header and commands.
FRONT_LINES = 16


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
        As many hops as the network has layers.
    number
        Of the batch.

    Returns
    -------
    tuple
        What was sampled, and int16 [roots, f_out].
    """
    batch = sample(problem.graph, roots, plan, number)
    graph, rows = sampled_graph(batch, dense(problem))
    results = infer(problem_of(graph, rows, problem.model))[-1].results
    return batch, results[: roots.size]


def dense(problem: Problem) -> Int16Array:
    """int16 [nodes, f_in], input features."""
    rows = problem.features
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.int16)


@dataclass(frozen=True, eq=False)
class _Regions:
    """Where things lie."""

    offsets: Region
    edges: Region
    attributes: Region
    ones: Region
    tree: Region
    span: int
    rows: Region
    combined: Region
    weights: list[Region]
    biases: list[Region]
    results: list[Region]


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
    slotted
        Target addresses by position, not by hash (A4).

    Attributes
    ----------
    data
        The whole memory, front empty.
    row_bytes
        Distance of attribute rows.

    Raises
    ------
    InputError
        If the network is not GraphSAGE or the plan does not fit it.
    """

    def __init__(self, problem: Problem, plan: Plan, size: int, slotted: bool = True) -> None:
        model = problem.model
        if model.model != Model.SAGE:
            raise InputError("model", f"is {model.model.name.lower()}", "sage for mini-batches")
        if len(plan.fan_out) != len(model.layers):
            raise InputError(
                "fan-out", f"of {len(plan.fan_out)} hops", f"{len(model.layers)}, the layers of the network"
            )
        self.problem, self.plan, self.size, self.slotted = problem, plan, size, slotted
        graph, layers = problem.graph, model.layers
        most = plan.most(size)
        self._root_lines = -(-size * 4 // LINE_BYTES)
        b = Builder(regions=0, commands=0)
        b.next_line = FRONT_LINES + self._root_lines
        features = dense(problem)
        self.row_bytes = row_bytes(features.shape[1])
        span = most * 4 // LINE_BYTES + 1
        widest = max(layer.f_out for layer in layers)
        at = _Regions(
            offsets=b.words(RegionKind.OFFSETS, graph.offsets),
            edges=b.words(RegionKind.EDGES, graph.edges),
            attributes=b.rows(RegionKind.FEATURES, features),
            ones=b.scales(RegionKind.SCALE_SOURCE, scales_of(np.ones(most))),
            tree=b.reserve(RegionKind.RECORDS, 0, (1 + 4 * span) * LINE_BYTES, 1, 1, LINE_BYTES),
            span=span,
            rows=b.reserve(RegionKind.FEATURES, 1, most * self.row_bytes, most, features.shape[1], self.row_bytes),
            combined=b.reserve_rows(RegionKind.COMBINED, most, widest),
            weights=[b.rows(RegionKind.WEIGHTS, layer.weights, n) for n, layer in enumerate(layers)],
            biases=[b.words(RegionKind.BIASES, layer.biases, n, dtype="<i4") for n, layer in enumerate(layers)],
            results=[b.reserve_rows(RegionKind.HIDDEN, most, layer.f_out, n) for n, layer in enumerate(layers)],
        )
        self.at, self.lines = at, b.next_line
        image = bytearray(self.lines * LINE_BYTES)
        for address, part in b.parts:
            image[address : address + len(part)] = part
        self.data = bytes(image)

    def _front(self, roots: IntArray, commands: Sequence[Command]) -> bytes:
        assert len(commands) < FRONT_LINES
        graph = self.problem.graph
        header = {
            "magic": MAGIC,
            "version": VERSION,
            "model": self.problem.model.model,
            "layers": len(self.problem.model.layers),
            "chiplets": 1,
            "command_list": 1,
            "commands": len(commands),
            "vertices": graph.nodes,
            "owned": graph.nodes,
            "edges": graph.edge_count,
            "lines": self.lines,
        }
        front = bytearray((FRONT_LINES + self._root_lines) * LINE_BYTES)
        front[:LINE_BYTES] = HEADER.to_bytes(header)
        for number, command in enumerate(commands, start=1):
            front[number * COMMAND_BYTES : (number + 1) * COMMAND_BYTES] = command.to_bytes()
        listed = roots.astype("<u4").tobytes()
        front[FRONT_LINES * LINE_BYTES : FRONT_LINES * LINE_BYTES + len(listed)] = listed
        return bytes(front)

    def sample_front(self, roots: IntArray, number: int, flush: bool = False) -> bytes:
        """Front whose run samples batch `number`."""
        at, graph, plan = self.at, self.problem.graph, self.plan
        fields = {
            "vertices": graph.nodes,
            "offsets": at.offsets.line,
            "edges": at.edges.line,
            "edge_count": graph.edge_count,
            "tiles": 1,
            "slotted": int(self.slotted),
            "hops": len(plan.fan_out),
            "flush": int(flush),
            "span": at.span,
            "roots": FRONT_LINES,
            "root_count": int(roots.size),
            "negatives": plan.negatives,
            "fan_out": sum(fan_out << (8 * n) for n, fan_out in enumerate(plan.fan_out)),
            "seed": plan.seed,
            "batch": number,
            "attributes": at.attributes.line,
            "row_bytes": self.row_bytes,
            "tree": at.tree.line,
            "rows": at.rows.line,
        }
        return self._front(roots, [Command(Opcode.SAMPLE, fields)])

    def infer_front(self, roots: IntArray, batch: Mapping[str, int]) -> bytes:
        """Front whose run computes the layers on what was sampled, whose `Batch` says how much that was."""
        at, layers = self.at, self.problem.model.layers
        hops = [batch[f"hop{n}"] for n in range(len(layers) + 1)]
        tree = [at.tree.line + 1 + n * at.span for n in range(4)]
        commands: list[Command] = []

        def command(opcode: Opcode, layer: int, **fields: int) -> None:
            commands.append(Command(opcode, {"layer": layer, "tag": len(commands), **fields}))

        features = at.rows
        for number, layer in enumerate(layers):
            # Every layer needs one hop less.
            sources = sum(hops[: len(hops) - number])
            vertices = sources - hops[len(hops) - 1 - number]
            command(
                Opcode.LOAD_WEIGHTS,
                number,
                f_in=layer.f_in,
                f_out=layer.f_out,
                weights=at.weights[number].line,
                biases=at.biases[number].line,
            )
            command(
                Opcode.COMBINE,
                number,
                f_in=layer.f_in,
                f_out=layer.f_out,
                shift=layer.shift_source,
                vertices=sources,
                entries=sources * features.row_bytes // 4,
                features=features.line,
                scales=at.ones.line,
                combined=at.combined.line,
            )
            command(
                Opcode.AGGREGATE,
                number,
                vertices=vertices,
                offsets=tree[0],
                edges=tree[1],
                edge_count=sources - hops[0],
                tiles=1,
                shift=layer.shift_destination,
                activation=layer.activation,
                f_out=layer.f_out,
                self_weight=layer.self_weight,
                neighbour_weight=layer.neighbour_weight,
                scales=tree[2],
                combined=at.combined.line,
                results=at.results[number].line,
                sources=sources,
            )
            features = at.results[number]
        return self._front(roots, commands)

    @property
    def results(self) -> Region:
        """Where the roots' results are: the first rows."""
        return self.at.results[-1]
