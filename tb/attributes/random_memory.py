"""A memory of random words in the place of a graph, so that every bit of IDs, offsets, lengths and addresses counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from golden.attributes.sampler import Batch

__all__ = ["RandomMemory"]


class Row:
    """Neighbours of a node, which may be billions: their addresses wrap at the end of the memory."""

    def __init__(self, memory: RandomMemory, start: int, size: int) -> None:
        self.memory, self.start, self.size = memory, start, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise IndexError(index)
        return self.memory.word(self.memory.edges_at + self.start + index)

    def __iter__(self) -> Iterator[int]:
        return (self[index] for index in range(self.size))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(list(self), dtype=dtype or np.int64)


class RandomMemory:
    """What the golden sampler takes for a graph: rows are where random offsets point to.

    Parameters
    ----------
    random
        Draws everything.
    words
        Size of the memory and of the address space, in words of 32 bits; a power of two.
    tiles
        Offsets of a row.
    bits
        Of all words, 10..32: IDs, offsets, lengths.

    Attributes
    ----------
    nodes, edge_count
        IDs and ends of rows from here on are wrong; so are rows that end before they start. Such have no neighbours.
    offsets_at, edges_at, roots_at
        Word addresses.
    roots
        IDs of the roots.
    """

    def __init__(self, random: Random, words: int, tiles: int, bits: int = 32) -> None:
        self.random, self.tiles = random, tiles
        most = 1 << bits
        self.words = np.random.default_rng(random.getrandbits(32)).integers(0, most, words, dtype=np.uint32)
        self.nodes, self.edge_count = (random.randrange(most // 8 * 5, most) for _ in range(2))
        self.offsets_at, self.edges_at, self.roots_at = (random.randrange(words) for _ in range(3))
        self.roots: list[int] = []

    def word(self, address: int) -> int:
        """Return a word."""
        return int(self.words[address % self.words.size])

    def put(self, address: int, value: int) -> None:
        """Write a word."""
        self.words[address % self.words.size] = value

    def add_root(self, length: int | None = None, root: int | None = None) -> None:
        """Add `root`, or draw one; with a `length`, give it an ascending row of so many neighbours."""
        if root is None:
            root = self.random.randrange(self.nodes)
        self.put(self.roots_at + len(self.roots), root)
        self.roots.append(root)
        if length is not None:
            start = self.random.randrange(self.edge_count - length)
            self.put_offsets(root, start, start + length)
            row: set[int] = set()
            while len(row) < length:
                row.add(self.random.randrange(self.nodes))
                row.discard(root)
            for n, node in enumerate(sorted(row)):
                self.put(self.edges_at + start + n, node)

    def put_offsets(self, node: int, start: int, end: int) -> None:
        """Say where a node's row begins and ends."""
        at = self.offsets_at + node * self.tiles
        self.put(at, start)
        self.put(at + self.tiles, end)

    def error(self, node: int) -> str:
        """Return what is wrong with the offsets of a node that is in the graph; nothing if all is well."""
        start, end = (self.word(self.offsets_at + node * self.tiles + n) for n in (0, self.tiles))
        return "OFFSET_ORDER" if end < start else "EDGE_RANGE" if end > self.edge_count else ""

    def along(self, batch: Batch) -> Batch:
        """Return a batch that was sampled here with the numbers of its edges, counted from where rows are."""
        along, sampled = batch.along.copy(), batch.along >= 0
        for position in np.flatnonzero(sampled):
            node = int(batch.nodes[batch.parents[position]])
            along[position] += self.word(self.offsets_at + node * self.tiles) - node
        return replace(batch, along=along % (1 << 32) * sampled)

    @property
    def offsets(self) -> range:
        """Its items are the nodes themselves."""
        return range(1 << 33)

    @property
    def edges(self) -> RandomMemory:
        """Its slices are rows."""
        return self

    def __getitem__(self, nodes: slice) -> Row:
        node = nodes.start
        if node >= self.nodes or self.error(node):
            return Row(self, 0, 0)
        start, end = (self.word(self.offsets_at + node * self.tiles + n) for n in (0, self.tiles))
        return Row(self, start, end - start)
