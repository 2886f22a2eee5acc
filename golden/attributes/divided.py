"""A graph with its attributes that is divided among the memories of a ring: who has which lines (R1, A3)."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from contracts import LINE_BYTES
from golden.graph import Graph, IntArray

__all__ = ["ARRAYS", "DividedGraph", "Share", "shares_of"]

#: Arrays of a divided graph, in the order of their lines.
ARRAYS = ("offsets", "edges", "attributes")


class Share(NamedTuple):
    """A chiplet's share of a divided graph.

    Attributes
    ----------
    boundaries
        int64 [chiplets + 1], first VID of each chiplet, then the number of vertices.
    chiplet
        Position of this one.
    """

    boundaries: IntArray
    chiplet: int


def shares_of(boundaries: IntArray) -> list[Share | None]:
    """Return the share of each chiplet of a ring; None for one that is alone, which has the whole graph."""
    chiplets = boundaries.size - 1
    return [Share(boundaries, chiplet) for chiplet in range(chiplets)] if chiplets > 1 else [None]


@dataclass(frozen=True, eq=False)
class DividedGraph:
    """Lines of three arrays, one behind another, of which each chiplet has those of its own vertices.

    A line in which vertices of several chiplets lie belongs to the last of them, so each line is in one memory only.

    Attributes
    ----------
    data
        Offsets, edges and attribute rows, each from a line on.
    firsts
        int64 [arrays, chiplets], first line of each chiplet; equal to the next one if it has none.
    starts
        int64 [arrays + 1], first line of each array, and the number of lines.
    """

    data: bytes
    firsts: IntArray
    starts: IntArray

    @classmethod
    def divide(cls, graph: Graph, rows: bytes, row_bytes: int, boundaries: IntArray) -> Self:
        """Give each chiplet the lines in which its vertices begin.

        Parameters
        ----------
        graph
            In-edges.
        rows
            Padded attribute rows, one for each node.
        row_bytes
            Distance of rows, in bytes.
        boundaries
            int64 [chiplets + 1], first VID of each chiplet, then the number of vertices.
        """
        arrays = [graph.offsets.astype("<u4").tobytes(), graph.edges.astype("<u4").tobytes(), rows]
        begins = boundaries[:-1]
        distances = (4 * begins, 4 * graph.offsets[begins], row_bytes * begins)
        sizes = [-(-len(array) // LINE_BYTES) for array in arrays]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        # Chiplets behind the last vertex have nothing, not even the end of the offsets.
        behind = (begins == boundaries[-1]) & (np.arange(begins.size) > 0)
        firsts = [
            np.where(behind, end, start + at // LINE_BYTES)
            for at, start, end in zip(distances, starts[:-1], starts[1:], strict=True)
        ]
        data = b"".join(array + bytes(-len(array) % LINE_BYTES) for array in arrays)
        return cls(data, np.asarray(firsts, dtype=np.int64), starts)

    @property
    def lines(self) -> int:
        """Lines of all arrays."""
        return int(self.starts[-1])

    @property
    def table(self) -> IntArray:
        """int64 [3 * chiplets + 1], contents of region `RegionKind.SHARES`."""
        return np.append(self.firsts.ravel(), self.lines)

    def part(self, array: str, chiplet: int) -> bytes:
        """Return the lines of an array that a chiplet has."""
        number = ARRAYS.index(array)
        ends = np.append(self.firsts[number], self.starts[number + 1])
        first, end = (int(line) * LINE_BYTES for line in ends[chiplet : chiplet + 2])
        return self.data[first:end]

    def start(self, array: str) -> int:
        """Return the first line of an array."""
        return int(self.starts[ARRAYS.index(array)])
