"""A graph with IDs of 32 bits whose rows lie far apart: 40 bits of addresses, of which few pages exist."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from contracts import LINE_BYTES, VID_BITS
from golden.attributes.sampler import Plan
from golden.graph import IntArray
from sim.models.sparse import SparseMemory
from sim.models.wrap import PAGE_BYTES, MemoryModel
from tb.attributes.mirror import Job, Mirror

__all__ = ["ADDRESS_BITS", "NODES", "FarGraph", "FarMirror", "FarPages", "ids_apart", "memory_model"]

ADDRESS_BITS = 40
#: The largest number of nodes, which itself has as many bits as an ID.
NODES = (1 << VID_BITS) - 1
#: Pages of a model.
_PAGES = 512
_PAGE_WORDS = PAGE_BYTES // 4
_LINE_WORDS = LINE_BYTES // 4


def memory_model(data_width: int) -> dict[str, MemoryModel]:
    """Return the model behind a port of so many bits."""
    return {"m_axi": MemoryModel(depth=_PAGES * PAGE_BYTES // (data_width // 8), sparse=True)}


def ids_apart(random: Random, count: int, nodes: int) -> list[int]:
    """Return `count` IDs below `nodes`, no two of them neighbours: the ends, powers of two, and any others."""
    ids = [0, nodes - 1, *(1 << bit for bit in range(2, 32) if (1 << bit) + 1 < nodes)][:count]
    while len(ids) < count:
        node = random.choice((random.randrange(nodes), nodes - 1 - random.randrange(4 * count)))
        if all(abs(node - other) > 1 for other in ids):
            ids.append(node)
    return ids


class FarPages:
    """Words of the pages that exist; a page exists, with random words, from the first time that it is touched.

    Attributes
    ----------
    words
        uint32, those of all pages in the order in which they are touched.
    """

    def __init__(self, random: Random) -> None:
        rng = np.random.default_rng(random.getrandbits(32))
        self._place: dict[int, int] = {}
        self.words = rng.integers(0, 1 << 32, _PAGES * _PAGE_WORDS, dtype=np.uint32)

    def at(self, addresses: IntArray) -> IntArray:
        """Return the places in `words` of word addresses, which wrap."""
        addresses = addresses % (1 << ADDRESS_BITS - 2)
        pages, which = np.unique(addresses // _PAGE_WORDS, return_inverse=True)
        places = np.array([self._place.setdefault(page, len(self._place)) for page in pages.tolist()], dtype=np.int64)
        assert len(self._place) <= _PAGES, "the memory is full"
        found: IntArray = places[which.reshape(-1)] * _PAGE_WORDS + addresses % _PAGE_WORDS
        return found

    def put(self, address: int, values: npt.ArrayLike) -> None:
        """Write words from a word address on."""
        data = np.asarray(values).astype(np.uint32)
        self.words[self.at(address + np.arange(data.size, dtype=np.int64))] = data

    @property
    def pages(self) -> list[int]:
        """Numbers of the pages, ascending."""
        return sorted(self._place)

    @property
    def ordered(self) -> npt.NDArray[np.uint32]:
        """Words of all pages, in the order of `pages`."""
        order = [self._place[page] for page in self.pages]
        return self.words.reshape(-1, _PAGE_WORDS)[order].reshape(-1)

    def get(self, address: int, count: int) -> npt.NDArray[np.uint32]:
        """Read words from a word address on."""
        return self.words[self.at(address + np.arange(count, dtype=np.int64))]

    async def load(self, memory: SparseMemory) -> None:
        """Write all pages into a memory."""
        await memory.load_pages(self.pages, self.ordered.astype("<u4").tobytes())


class _Offsets:
    """First edge of each node that exists, and behind it the end of its row."""

    def __init__(self, starts: dict[int, int], sizes: dict[int, int]) -> None:
        self._starts, self._sizes = starts, sizes

    def __getitem__(self, node: int) -> int:
        return self._starts[node] if node in self._starts else self._starts[node - 1] + self._sizes[node - 1]


class _Edges:
    """Rows by the number of their first edge; `size` is one more than the largest number an edge can have."""

    def __init__(self, rows: dict[int, IntArray], size: int) -> None:
        self._rows, self.size = rows, size

    def __getitem__(self, numbers: slice) -> IntArray:
        row = self._rows.get(numbers.start, np.zeros(0, dtype=np.int64))
        assert row.size == numbers.stop - numbers.start
        return row


class FarGraph:
    """Graph for the golden sampler: few nodes exist, and the rows of their edges lie anywhere.

    Parameters
    ----------
    random
        Draws everything.
    ids
        Nodes that exist, no two of them neighbours; the first one is joined to all others, the second to none.
    nodes
        IDs from here on are out of range.
    edge_count
        Numbers of edges from here on are out of range; the last row ends there.

    Attributes
    ----------
    rows
        Number of the first edge and neighbours by node.
    """

    def __init__(self, random: Random, ids: Sequence[int], nodes: int, edge_count: int) -> None:
        self.ids, self.nodes = list(ids), nodes
        neighbours: dict[int, list[int]] = {ids[0]: sorted(ids[1:]), ids[1]: []}
        for node in ids[2:]:
            others = [other for other in ids if other != node]
            neighbours[node] = sorted(random.sample(others, random.randrange(1, 9)))
        self.rows: dict[int, tuple[int, IntArray]] = {}
        taken: dict[int, IntArray] = {}
        for node, row in neighbours.items():
            start = random.randrange(edge_count - len(row))
            if node == ids[-1]:
                start = edge_count - len(row)
            assert start not in taken
            taken[start] = np.asarray(row, dtype=np.int64)
            self.rows[node] = start, taken[start]
        starts = {node: start for node, (start, _) in self.rows.items()}
        self.offsets = _Offsets(starts, {node: row.size for node, (_, row) in self.rows.items()})
        self.edges = _Edges(taken, edge_count)

    @property
    def edge_count(self) -> int:
        """Numbers that an edge can have."""
        return self.edges.size

    def write(self, pages: FarPages, offsets: int, edges: int, tiles: int) -> None:
        """Write offsets and edges; arguments as in `hw.attributes.sampling_formats.SampleSettings`."""
        for node, (start, row) in self.rows.items():
            end = start + row.size
            pages.put(offsets + node * tiles, [start, *[end] * tiles])
            pages.put(edges + start, row)


class FarMirror(Mirror):
    """As `Mirror`, but pages of a sparse memory, in which all arrays lie far apart.

    Parameters
    ----------
    random
        Draws everything.
    nodes, edge_count
        Of the graph, as for `FarGraph`.
    tiles, row_bytes
        As for `Mirror`.
    count
        Nodes that exist.
    """

    def __init__(
        self, random: Random, *, nodes: int, edge_count: int, tiles: int = 1, row_bytes: int = 64, count: int = 40
    ) -> None:
        self.random, self.lines, self.first = random, 1 << ADDRESS_BITS - 6, 0
        self.pages = FarPages(random)
        # The end of the address space lies among what a command reaches, which is 2^32 lines.
        self.base = self.lines - random.randrange(1 << 32)
        self.tiles, self.row_bytes = tiles, row_bytes
        far: Any = FarGraph(random, ids_apart(random, count, nodes), nodes, edge_count)
        self.far: FarGraph = far
        self.graph = far
        self.offsets_at, self.edges_at, self.attributes_at = (self._anywhere() for _ in range(3))
        self.far.write(self.pages, self.offsets_at * _LINE_WORDS, self.edges_at * _LINE_WORDS, tiles)

    def _anywhere(self) -> int:
        return (self.base + self.random.randrange((1 << 32) - (1 << 16))) % self.lines

    def place(self, size: int) -> int:
        """Return the line of room for `size` bytes, far from all other room."""
        line = self._anywhere()
        self._at(line, -(-size // LINE_BYTES) * _LINE_WORDS)
        return line

    def _at(self, line: int, count: int, word: int = 0) -> npt.NDArray[np.int64]:
        return self.pages.at(line * _LINE_WORDS + word + np.arange(count, dtype=np.int64))

    @property
    def words(self) -> npt.NDArray[np.uint32]:  # type: ignore[override]
        """Words of all pages."""
        return self.pages.words

    def put(self, line: int, values: npt.ArrayLike, word: int = 0) -> None:
        """Write words from `word` behind a line on."""
        self.pages.put(line * _LINE_WORDS + word, values)

    def line(self, line: int) -> int:
        """Return what a command says for a line."""
        return (line - self.base) % self.lines

    def row_at(self, key: int) -> int:
        """Return the line in which the row of a node or an edge begins."""
        return (self.attributes_at + key * self.row_bytes // LINE_BYTES) % self.lines

    def touch_rows(self, keys: Sequence[int]) -> None:
        """Let rows of attributes exist."""
        for key in keys:
            self._at(self.attributes_at, self.row_bytes // 4, key * self.row_bytes // 4)

    def job(self, roots: Sequence[int], plan: Plan, **given: Any) -> Job:
        """Make room for a SAMPLE command, put its roots there, and let the attributes that it fetches exist."""
        job = super().job(roots, plan, **given)
        self.touch_rows(job.batch.nodes.tolist())
        return job
