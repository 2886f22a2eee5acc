"""Sampler: neighbourhoods of a mini-batch, position by position, and nodes that are not joined to a root (A1, A2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from contracts.errors import InputError
from contracts.sampling import FAN_OUT_MAX, HOPS_MAX, NEGATIVE_HOP
from golden.attributes.lfsr import Generator
from golden.graph import Graph, IntArray

__all__ = ["Batch", "Plan", "sample"]


@dataclass(frozen=True)
class Plan:
    """Parameters of sampling around each root.

    Attributes
    ----------
    fan_out
        Neighbours of a node in each hop, 1 to 4 hops of 1..255; none for negatives alone.
    negatives
        Nodes not joined to the root, 0..255.
    seed
        32 bits.

    Raises
    ------
    InputError
        If a number is out of range.
    """

    fan_out: tuple[int, ...]
    negatives: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.fan_out) > HOPS_MAX:
            raise InputError("fan-out", f"of {len(self.fan_out)} hops", f"at most {HOPS_MAX}")
        for fan_out in self.fan_out:
            if not 1 <= fan_out <= FAN_OUT_MAX:
                raise InputError("fan-out", f"is {fan_out}", f"1..{FAN_OUT_MAX}")
        if not 0 <= self.negatives <= FAN_OUT_MAX:
            raise InputError("negatives", f"are {self.negatives}", f"0..{FAN_OUT_MAX}")

    def reach(self, roots: int, hops: int) -> int:
        """Most positions of so many roots and of the first `hops` hops around them."""
        level = total = roots
        for fan_out in self.fan_out[:hops]:
            level *= fan_out
            total += level
        return total

    def most(self, roots: int) -> int:
        """Most positions of a batch of so many roots."""
        return self.reach(roots, len(self.fan_out)) + roots * self.negatives

    def inner(self, roots: int) -> int:
        """Most expanded positions of a batch with `roots` roots: all but negatives and those of the last hop."""
        return self.reach(roots, max(0, len(self.fan_out) - 1))


@dataclass(frozen=True, eq=False)
class Batch:
    """Positions of a mini-batch: roots, then hop by hop the samples in the order of their parents.

    Attributes
    ----------
    nodes
        int64 [positions], VIDs; the negatives of all roots come last.
    parents
        int64 [positions], position that this one was sampled for; -1 for roots.
    along
        int64 [positions], number of the edge that it was sampled along; -1 for roots and negatives.
    hops
        Positions of every hop, roots first.
    negatives
        Positions of negatives.
    draws
        Number of random numbers drawn.
    """

    nodes: IntArray
    parents: IntArray
    along: IntArray
    hops: tuple[int, ...]
    negatives: int
    draws: int

    @property
    def positives(self) -> int:
        """Positions that are roots or were sampled along an edge."""
        return sum(self.hops)

    @cached_property
    def children(self) -> IntArray:
        """int64 [positives], samples of every position."""
        return np.bincount(self.parents[self.hops[0] : self.positives], minlength=self.positives).astype(np.int64)

    @property
    def offsets(self) -> IntArray:
        """int64 [positives + 1]: row p of the sampled graph has the positions sampled for p."""
        return np.concatenate([[0], np.cumsum(self.children)]).astype(np.int64)

    @property
    def edges(self) -> IntArray:
        """int64: its edges, all positions except roots."""
        return np.arange(self.hops[0], self.positives, dtype=np.int64)


def sample(graph: Graph, roots: Sequence[int] | npt.ArrayLike, plan: Plan, batch: int = 0) -> Batch:
    """Sample the neighbourhoods of `roots`.

    Parameters
    ----------
    graph
        In-edges are followed.
    roots
        VIDs.
    plan
        Fan-outs, negatives and seed.
    batch
        Number of the batch, 32 bits.

    Raises
    ------
    InputError
        If a root is not in the graph.
    """
    first = [int(root) for root in np.asarray(roots).reshape(-1)]
    for root in first:
        if not 0 <= root < graph.nodes:
            raise InputError("root", f"is {root}", f"below {graph.nodes}")
    nodes, parents, along, hops = list(first), [-1] * len(first), [-1] * len(first), [len(first)]
    draws = 0
    level = [(position, root, root) for position, root in enumerate(first)]
    for hop, fan_out in enumerate(plan.fan_out, start=1):
        following = []
        for position, node, root in level:
            row = graph.edges[graph.offsets[node] : graph.offsets[node + 1]]
            generator = Generator((plan.seed, batch, root, hop, node))
            for index in generator.choose(row.size, fan_out):
                following.append((len(nodes), int(row[index]), root))
                nodes.append(int(row[index]))
                parents.append(position)
                along.append(int(graph.offsets[node]) + index)
            draws += generator.draws
        hops.append(len(following))
        level = following
    positives = len(nodes)
    for position, root in enumerate(first if plan.negatives else []):
        row = graph.edges[graph.offsets[root] : graph.offsets[root + 1]]
        generator = Generator((plan.seed, batch, root, NEGATIVE_HOP, root))
        joined = np.sort(np.append(row, root))
        for rank in generator.choose(graph.nodes - joined.size, plan.negatives):
            node = rank
            for other in joined.tolist():
                node += other <= node
            nodes.append(node)
            parents.append(position)
        draws += generator.draws
    return Batch(
        np.asarray(nodes, dtype=np.int64),
        np.asarray(parents, dtype=np.int64),
        np.asarray(along + [-1] * (len(nodes) - positives), dtype=np.int64),
        tuple(hops),
        len(nodes) - positives,
        draws,
    )
