"""A memory of random words with a graph somewhere in it, and what SAMPLE, FETCH and COPY commands must make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from contracts import BATCH, LINE_BYTES, Flow, Opcode, Targets
from contracts.scale import scales_of
from golden.attributes.cache import AttributeRam, hashed_slot
from golden.attributes.planner import SlotPlanner
from golden.attributes.sampler import Batch, Plan, sample
from golden.graph import Graph, IntArray

__all__ = ["Copies", "Job", "Mirror", "PlainGraph"]

_LINE_WORDS = LINE_BYTES // 4
#: Flows that a core counts apart.
_COUNTED = (Flow.IN_PLACE, Flow.CACHED, Flow.MOVED, Flow.MISSED)


@dataclass(frozen=True)
class PlainGraph:
    """What the golden sampler reads of a graph."""

    offsets: IntArray
    edges: IntArray

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.offsets.size - 1


@dataclass(frozen=True)
class Job:
    """A SAMPLE or FETCH command and what it must write.

    Attributes
    ----------
    fields
        Of the command.
    batch
        What the golden model samples.
    roots, tree, rows
        Lines of the roots, and of what is written.
    """

    fields: dict[str, int]
    batch: Batch
    roots: int
    tree: int
    rows: int


@dataclass(frozen=True)
class Copies:
    """A table of replicas in the memory.

    Attributes
    ----------
    line
        Where it lies, the rows behind it.
    rows
        Number of the copy of each ID that has one.
    cells
        Of the table.
    """

    line: int
    rows: dict[int, int]
    cells: int


class Mirror:
    """The memory's contents, which the bench keeps up with what commands should do.

    Everything lies at random places, one behind the other, and may wrap at the end of the memory. Offsets of the graph
    begin at any number, so that edges are found at sums that wrap too.

    Parameters
    ----------
    random
        Draws everything.
    size
        Bytes of the memory, all that can be addressed.
    nodes
        Of the graph. Node 0 is joined to all others, node 1 to none.
    tiles
        Offsets of a node.
    row_bytes
        Of the attributes of a node.
    keyed
        Edges have keys, so their numbers are small.

    Attributes
    ----------
    words
        uint32, all of the memory.
    base
        Line that addresses in commands count from.
    graph
        In the memory.
    """

    def __init__(
        self, random: Random, size: int, *, nodes: int = 256, tiles: int = 1, row_bytes: int = 64, keyed: int = 0
    ) -> None:
        self.random, self.lines = random, size // LINE_BYTES
        rng = self._rng = np.random.default_rng(random.getrandbits(32))
        self.words = rng.integers(0, 1 << 32, size // 4, dtype=np.uint32)
        self.base, self._next = (random.randrange(self.lines) for _ in range(2))
        self._left = self.lines
        self.tiles, self.row_bytes = tiles, row_bytes
        rows: list[npt.NDArray[Any]] = [np.arange(1, nodes), np.zeros(0, dtype=np.int64)]
        for node in range(2, nodes):
            others = rng.choice(nodes - 1, random.randrange(1, 9), replace=False)
            rows.append(np.sort(others + (others >= node)))
        sizes = [row.size for row in rows]
        self.graph = PlainGraph(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), np.concatenate(rows))
        edges = self.graph.edges
        #: Number of the first edge.
        self.first = random.randrange(8 if keyed else (1 << 32) - edges.size)
        self.offsets_at = self.place(4 * (nodes * tiles + 1))
        self.put(self.offsets_at, np.repeat(self.graph.offsets + self.first, tiles)[tiles - 1 :])
        at = self.place(4 * edges.size + 2 * LINE_BYTES)
        self.edges_at = (at * _LINE_WORDS + _LINE_WORDS - 1 - self.first) // _LINE_WORDS
        self.put(self.edges_at, edges, self.first)
        self.attributes_at = self.place(nodes * row_bytes)

    def place(self, size: int) -> int:
        """Return the line of the next room for `size` bytes."""
        line, count = self._next, -(-size // LINE_BYTES)
        self._next, self._left = line + count, self._left - count
        assert self._left >= 0, "the memory is full"
        return line

    def _at(self, line: int, count: int, word: int = 0) -> npt.NDArray[np.int64]:
        return (line * _LINE_WORDS + word + np.arange(count, dtype=np.int64)) % self.words.size

    def put(self, line: int, values: npt.ArrayLike, word: int = 0) -> None:
        """Write words from `word` behind a line on."""
        data = np.asarray(values).astype(np.uint32)
        self.words[self._at(line, data.size, word)] = data

    def get(self, line: int, count: int) -> npt.NDArray[np.uint32]:
        """Read words from a line on."""
        return self.words[self._at(line, count)]

    def line(self, line: int) -> int:
        """Return what a command says for a line; bits above the address are any."""
        return (line - self.base) % self.lines + self.lines * self.random.randrange((1 << 32) // self.lines)

    def job(
        self,
        roots: Sequence[int],
        plan: Plan,
        *,
        targets: int = 1,
        flush: int = 0,
        wild: bool = False,
        paired: int = 0,
    ) -> Job:
        """Make room for a SAMPLE command and put its roots there.

        Parameters
        ----------
        roots, plan
            What to sample.
        targets, flush
            As in the command.
        wild
            Its arrays are anywhere in what is left of the memory, and nothing can be placed behind them.
        paired
            As in the command, and then attributes are left to FETCH.
        """
        number = self.random.getrandbits(32)
        batch = sample(cast(Graph, self.graph), roots, plan, number)
        # The hardware counts on every sample there could be.
        most, level = len(roots) * (1 + plan.negatives), len(roots)
        for fan_out in plan.fan_out:
            level *= fan_out
            most += level
        span = least = most // _LINE_WORDS + 1
        rows = self.place(batch.nodes.size * self.row_bytes)
        roots_at, tree = self.place(4 * len(roots)), self.place((1 + (4 + paired) * span) * LINE_BYTES)
        while wild:
            # A word behind the list of what is left is the first array; the others must not meet anything.
            span = self.random.randrange(least, 1 << 18)
            ends = sorted((n * span + least) % self.lines for n in range(4))
            if ends[-1] <= self._left and all(b - a >= least for a, b in pairwise(ends)):
                self._left = 0
                break
        self.put(roots_at, roots)
        fields = {
            "opcode": Opcode.SAMPLE, "tag": self.random.getrandbits(16), "layer": self.random.getrandbits(8),
            "vertices": self.graph.nodes, "offsets": self.line(self.offsets_at), "edges": self.line(self.edges_at),
            "edge_count": self.first + self.graph.edges.size, "tiles": self.tiles, "targets": targets,
            "hops": len(plan.fan_out), "flush": flush, "span": span, "roots": self.line(roots_at),
            "root_count": len(roots), "negatives": plan.negatives,
            "fan_out": sum(f << 8 * n for n, f in enumerate(plan.fan_out)), "seed": plan.seed, "batch": number,
            "attributes": self.line(self.attributes_at), "row_bytes": self.row_bytes, "tree": self.line(tree),
            "rows": self.line(rows), "paired": paired, "later": paired,
        }  # fmt: skip
        return Job(fields, batch, roots_at, tree, rows)

    def requests(self, job: Job, slots: int, planner: SlotPlanner | None) -> list[tuple[int, int]]:
        """Return ID and slot of every position."""
        nodes, targets = job.batch.nodes.tolist(), job.fields["targets"]
        if targets == Targets.AHEAD:
            assert planner is not None
            return list(zip(nodes, planner.plan(nodes), strict=True))
        if targets == Targets.POSITION:
            return [(node, position % slots) for position, node in enumerate(nodes)]
        return [(node, hashed_slot(node, slots)) for node in nodes]

    def copies(self, cells: int) -> Copies:
        """Place a table of replicas, and copies that differ from the rows they stand for."""
        number = np.arange(cells)
        # An ID with other lowest bits than those of its cell has no copy.
        misplaced = self._rng.random(cells) < 0.25
        table = self._rng.integers(0, self.graph.nodes // cells, cells) * cells + np.where(
            misplaced, number ^ 1, number
        )
        line = self.place(cells * (4 + self.row_bytes))
        self.put(line, table)
        self.put(line, self._rng.integers(0, 1 << 32, cells * self.row_bytes // 4), cells)
        return Copies(line, {int(table[cell]): int(cell) for cell in number[~misplaced]}, cells)

    def fetch(
        self, job: Job, report: int, *, targets: int, flush: int = 0, streamed: int = 0, copies: Copies | None = None
    ) -> Job:
        """Return the FETCH of what a job has sampled, which leaves its counts in line `report`."""
        known = ("vertices", "offsets", "edges", "edge_count", "tiles", "attributes", "row_bytes", "rows")
        fields = {
            "opcode": Opcode.FETCH, "tag": self.random.getrandbits(16), "layer": self.random.getrandbits(8),
            **{name: job.fields[name] for name in known}, "targets": targets, "flush": flush,
            "nodes": self.line(job.tree + 1 + 3 * job.fields["span"]), "count": job.batch.nodes.size,
            "report": self.line(report), "streamed": streamed,
            "replicas": (copies.line - self.base) % self.lines + self.lines if copies else 0,
        }  # fmt: skip
        return replace(job, fields=fields, tree=report)

    def fetched(self, job: Job, flows: dict[Flow, int], copies: Copies | None = None) -> None:
        """Write what a FETCH command does that uses these copies."""
        count = job.batch.nodes.size
        if not job.fields["streamed"]:
            self._rows(job, copies)
        names = {flow.name.lower(): flows[flow] for flow in _COUNTED}
        self._header(job, {"positions": count, "requests": count, **names})

    def _rows(self, job: Job, copies: Copies | None = None) -> None:
        row_words = self.row_bytes // 4
        for position, node in enumerate(job.batch.nodes.tolist()):
            at = self._at(self.attributes_at, row_words, node * row_words)
            if copies and node in copies.rows:
                at = self._at(copies.line, row_words, copies.cells + copies.rows[node] * row_words)
            self.put(job.rows, self.words[at], position * row_words)

    def _header(self, job: Job, said: dict[str, int]) -> None:
        self.put(job.tree, np.frombuffer(BATCH.pack(said).to_bytes(LINE_BYTES, "little"), "<u4"))

    def sampled(self, job: Job, flows: dict[Flow, int] | None) -> None:
        """Write what a SAMPLE command does; without `flows`, keep them as they are."""
        batch, span = job.batch, job.fields["span"]
        inner = sum(batch.hops[:-1])
        factors = scales_of(1 / (batch.children[:inner] + 1.0))
        packed = factors.mantissa.astype(np.int64) | factors.exponent.astype(np.int64) << 16
        nodes = batch.nodes
        if job.fields["paired"]:
            numbers = np.where(batch.along < 0, job.fields["edge_count"], batch.along + self.first)
            nodes = np.stack([nodes, self.graph.nodes + numbers], axis=1).ravel()
        arrays = (batch.offsets[: inner + 1], batch.edges, packed, nodes)
        for number, array in enumerate(arrays):
            self.put(job.tree + 1 + number * span, array)
        count = batch.nodes.size
        later = job.fields.get("later", 0)
        if not later:
            self._rows(job)
        old = BATCH.from_bytes(self.get(job.tree, _LINE_WORDS).tobytes())
        said = {
            "positions": count,
            "requests": 0 if later else count,
            "negatives": batch.negatives,
            **{f"hop{n}": of_hop for n, of_hop in enumerate(batch.hops)},
        }
        for flow in () if later else _COUNTED:
            name = flow.name.lower()
            said[name] = old[name] if flows is None else flows[flow]
        assert said["requests"] == sum(said.get(name, 0) for name in ("in_place", "cached", "moved", "missed"))
        self._header(job, said)

    def flows(self, job: Job, ram: AttributeRam, planner: SlotPlanner | None = None) -> dict[Flow, int]:
        """Carry out a job's requests in the golden RAM; return how many met what."""
        if job.fields["flush"]:
            ram.clear()
            # A SAMPLE leaves plans alone.
            if planner is not None and job.fields["opcode"] == Opcode.FETCH:
                planner.forget()
        counts = dict.fromkeys(Flow, 0)
        for node, slot in self.requests(job, ram.slots, planner):
            counts[ram.request(node, slot).flow] += 1
        return counts

    def copied(self, source: int, target: int, lines: int) -> None:
        """Write what a COPY command does, front to back."""
        for n in range(lines):
            self.put(target + n, self.get(source + n, _LINE_WORDS))
