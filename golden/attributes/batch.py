"""Sampled networks on mini-batches: the exact results, and the images that make the hardware compute them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from golden.attributes.sampler import HOPS_MAX, Batch, Plan, sample
from golden.contracts import COMMAND_BYTES, HEADER, LINE_BYTES, MAGIC, SPARSE_ENTRY, VERSION, Model, Opcode, RegionKind
from golden.dnp.arithmetic import Ints
from golden.dnp.layer_end import ROWS
from golden.errors import InputError
from golden.graph import Graph, IntArray
from golden.image import Builder, Command, Region, end_operands, row_bytes
from golden.islands.locator import Limits
from golden.islands.schedule import ROUNDS_MAX
from golden.model.layer import Int16Array
from golden.model.network import Problem, infer, problem_of
from golden.model.scale import scales_of

__all__ = ["BatchImage", "batch_results", "batches_of", "sampled_graph"]

#: Lines for the header and the commands of a run: those of as many layers as there are hops.
FRONT_LINES = 1 + 7 * HOPS_MAX


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
    """Where things lie; programs are in front, as they are written anew for every run."""

    programs: dict[int, Region]
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
    limits
        Of the locator, if the layers are computed by community PEs; None: by gather PEs.

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

    def __init__(
        self, problem: Problem, plan: Plan, size: int, slotted: bool = True, limits: Limits | None = None
    ) -> None:
        model = problem.model
        if model.model != Model.SAGE:
            raise InputError("model", f"is {model.model.name.lower()}", "sage for mini-batches")
        if len(plan.fan_out) != len(model.layers):
            raise InputError(
                "fan-out", f"of {len(plan.fan_out)} hops", f"{len(model.layers)}, the layers of the network"
            )
        self.problem, self.plan, self.size, self.slotted, self.limits = problem, plan, size, slotted, limits
        graph, layers = problem.graph, model.layers
        most, inner = plan.most(size), plan.inner(size)
        if limits is not None and max(plan.fan_out) > limits.hubs:
            raise InputError("fan-out", f"is {max(plan.fan_out)}", f"at most {limits.hubs}, hubs of a community")
        if inner > ROWS and model.ends:
            raise InputError("batch", f"of {size} roots ends {inner} rows on the neural chip", f"at most {ROWS}")
        b = Builder(regions=0, commands=0)
        b.next_line = FRONT_LINES
        b.reserve(RegionKind.ROOTS, 0, size * 4, size, 1, 4)
        programs = {}
        for number, end in model.ends.items():
            words = end.words(inner).size
            programs[number] = b.reserve(RegionKind.PROGRAM, number, 4 * words, words, 1, 4)
        self._front_lines = b.next_line
        features = dense(problem)
        self.row_bytes = row_bytes(features.shape[1])
        span = most * 4 // LINE_BYTES + 1
        widest = max(layer.f_out for layer in layers)
        # Community PEs find what they compute behind all that it is computed from.
        rows = most + (inner if limits is not None else 0)
        at = _Regions(
            programs=programs,
            offsets=b.words(RegionKind.OFFSETS, graph.offsets),
            edges=b.words(RegionKind.EDGES, graph.edges),
            attributes=b.rows(RegionKind.FEATURES, features),
            ones=b.scales(RegionKind.SCALE_SOURCE, scales_of(np.ones(most))),
            tree=b.reserve(RegionKind.RECORDS, 0, (1 + 4 * span) * LINE_BYTES, 1, 1, LINE_BYTES),
            span=span,
            rows=b.reserve(RegionKind.FEATURES, 1, most * self.row_bytes, most, features.shape[1], self.row_bytes),
            combined=b.reserve_rows(RegionKind.COMBINED, rows, widest),
            weights=[b.rows(RegionKind.WEIGHTS, layer.weights, n) for n, layer in enumerate(layers)],
            biases=[b.words(RegionKind.BIASES, layer.biases, n, dtype="<i4") for n, layer in enumerate(layers)],
            results=[b.reserve_rows(RegionKind.HIDDEN, most, layer.f_out, n) for n, layer in enumerate(layers)],
        )
        self.at, self.lines = at, b.next_line
        image = bytearray(self.lines * LINE_BYTES)
        for address, part in b.parts:
            image[address : address + len(part)] = part
        self.data = bytes(image)

    def _front(self, roots: IntArray, commands: Sequence[Command], programs: Mapping[int, Ints] | None = None) -> bytes:
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
        front = bytearray(self._front_lines * LINE_BYTES)

        def put(address: int, part: bytes) -> None:
            front[address : address + len(part)] = part

        put(0, HEADER.to_bytes(header))
        for number, command in enumerate(commands, start=1):
            put(number * COMMAND_BYTES, command.to_bytes())
        put(FRONT_LINES * LINE_BYTES, roots.astype("<u4").tobytes())
        for number, words in (programs or {}).items():
            assert words.size <= self.at.programs[number].rows
            put(self.at.programs[number].address, words.astype("<u4").tobytes())
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
        model = self.problem.model
        hops = [batch[f"hop{n}"] for n in range(len(model.layers) + 1)]
        commands: list[Command] = []
        programs = {}
        features = self.at.rows
        for number in range(len(model.layers)):
            # Every layer needs one hop less.
            sources = sum(hops[: len(hops) - number])
            vertices = sources - hops[len(hops) - 1 - number]
            steps = self._layer(number, features, sources, vertices, hops[0])
            if number in model.ends:
                programs[number] = model.ends[number].words(vertices)
                program, words = self.at.programs[number], programs[number].size
                steps.append((Opcode.NEURAL, end_operands(program, words, self.at.results[number], vertices)))
            for opcode, fields in steps:
                commands.append(Command(opcode, {"layer": number, "tag": len(commands), **fields}))
            features = self.at.results[number]
        return self._front(roots, commands, programs)

    def _layer(
        self, number: int, features: Region, sources: int, vertices: int, roots: int
    ) -> list[tuple[Opcode, dict[str, int]]]:
        """Return the commands that compute so many vertices from so many sources, all that were sampled but roots."""
        at, layer = self.at, self.problem.model.layers[number]
        offsets, edges, means, _ = (at.tree.line + 1 + n * at.span for n in range(4))
        graph = {"offsets": offsets, "edges": edges, "edge_count": sources - roots, "tiles": 1}
        width = {"f_in": layer.f_in, "f_out": layer.f_out}
        load = {**width, "weights": at.weights[number].line, "biases": at.biases[number].line}
        ending = {
            "activation": layer.activation,
            "self_weight": layer.self_weight,
            "neighbour_weight": layer.neighbour_weight,
            "results": at.results[number].line,
        }

        def combine(count: int, first_row: int) -> tuple[Opcode, dict[str, int]]:
            return Opcode.COMBINE, {
                **width,
                "shift": layer.shift_source,
                "vertices": count,
                "entries": count * features.row_bytes // SPARSE_ENTRY.bytes,
                "features": features.line,
                "scales": at.ones.line,
                "combined": at.combined.line,
                "first_row": first_row,
            }

        if self.limits is None:
            aggregate = {
                **graph,
                **ending,
                "vertices": vertices,
                "shift": layer.shift_destination,
                "f_out": layer.f_out,
                "scales": means,
                "combined": at.combined.line,
                "sources": sources,
            }
            return [(Opcode.LOAD_WEIGHTS, load), combine(sources, 0), (Opcode.AGGREGATE, aggregate)]
        # To the locator, vertices that are not its own are hubs, and edges into them somebody else's. So what is
        # computed has VIDs behind those of all it is computed from, and a row of its own there.
        own = {"first_vertex": sources, "vertices": vertices}
        locate = {
            **own,
            **graph,
            "differences": 1,
            "halving": 1,
            "threshold": self.limits.h_max,
            "rounds": ROUNDS_MAX,
            "c_max": self.limits.c_max,
            "h_max": self.limits.h_max,
        }
        process = {
            **own,
            **width,
            **ending,
            "shift_destination": layer.shift_destination,
            "window": 1,
            "features": at.combined.line,
            "combined": 1,
            "first_partial": sources + vertices,
            "scales_destination": means,
        }
        return [
            (Opcode.LOCATE, locate),
            (Opcode.LOAD_WEIGHTS, load),
            combine(sources, 0),
            combine(vertices, sources),
            (Opcode.PROCESS, process),
        ]

    @property
    def results(self) -> Region:
        """Where the roots' results are: the first rows."""
        return self.at.results[-1]
