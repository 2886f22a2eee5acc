"""Placement of vertices on chiplets, the hubs, and who adds up an edge (R1, R8)."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from contracts import Split
from contracts.errors import InputError
from golden.graph import Graph, IntArray

__all__ = ["CHIPLETS_MAX", "Placement"]

#: Most chiplets of a ring.
CHIPLETS_MAX = 16


@dataclass(frozen=True, eq=False)
class Placement:
    """Contiguous VID ranges, one a chiplet, and the hubs whose sums travel instead of their neighbours.

    Attributes
    ----------
    boundaries
        int64 [chiplets + 1]: first VID of every chiplet, then the number of vertices. A chiplet may own none.
    hubs
        int64 [hubs], ascending VIDs of the hub table. An edge into a hub from another vertex than a hub is executed
        by the owner of that vertex, as a partial sum (R11, R19).
    split
        Who executes edges between chiplets (R8). By their sources: each is part of a partial sum, whatever the hub
        table says.

    Raises
    ------
    InputError
        If boundaries fall, do not begin with 0, or there are fewer than 1 or more than 16 chiplets; if hubs are not
        ascending VIDs.
    """

    boundaries: IntArray
    hubs: IntArray
    split: Split = Split.DESTINATION

    def __post_init__(self) -> None:
        table = self.boundaries
        if table.ndim != 1 or not 2 <= table.size <= CHIPLETS_MAX + 1:
            raise InputError("boundary table", f"has {table.size} entries", f"2..{CHIPLETS_MAX + 1}")
        if table[0] != 0:
            raise InputError("boundary table, row 0", f"is {table[0]}", "0")
        falls = np.flatnonzero(np.diff(table) < 0)
        if falls.size:
            row = int(falls[0]) + 1
            raise InputError(f"boundary table, row {row}", f"is {table[row]}", f"at least {table[row - 1]}")
        if self.hubs.size and (
            (np.diff(self.hubs) <= 0).any() or self.hubs[0] < 0 or int(self.hubs[-1]) >= self.vertices
        ):
            raise InputError(
                "hub table", "is not ascending or leaves the graph", f"ascending VIDs below {self.vertices}"
            )

    @classmethod
    def ranges(cls, vertices: int, chiplets: int, hubs: npt.ArrayLike = ()) -> Self:
        """Equal ranges: chiplet c begins at ceil(c * vertices / chiplets)."""
        table = -(-np.arange(chiplets + 1, dtype=np.int64) * vertices // chiplets)
        return cls(table, np.asarray(hubs, dtype=np.int64))

    @classmethod
    def at(cls, boundaries: npt.ArrayLike, hubs: npt.ArrayLike = ()) -> Self:
        """Placement with a given boundary table."""
        return cls(np.asarray(boundaries, dtype=np.int64), np.asarray(hubs, dtype=np.int64))

    @property
    def chiplets(self) -> int:
        """Chiplets of the ring."""
        return self.boundaries.size - 1

    @property
    def vertices(self) -> int:
        """Vertices of the graph."""
        return int(self.boundaries[-1])

    @property
    def without_sums(self) -> "Placement":
        """The same owners, and no partial sums: rows travel for every edge."""
        return Placement.at(self.boundaries)

    @property
    def has_sums(self) -> bool:
        """Whether edges can be part of partial sums."""
        return self.hubs.size > 0 or self.split == Split.SOURCE

    def by(self, split: Split) -> "Placement":
        """Return the same owners and hubs with another split."""
        return replace(self, split=split)

    def owners(self, vids: npt.ArrayLike) -> IntArray:
        """int64, chiplet that owns each VID."""
        return np.searchsorted(self.boundaries, np.asarray(vids), side="right").astype(np.int64) - 1

    def range(self, chiplet: int) -> tuple[int, int]:
        """First VID of a chiplet and the one behind its last."""
        return int(self.boundaries[chiplet]), int(self.boundaries[chiplet + 1])

    def hops(self, source: npt.ArrayLike, destination: npt.ArrayLike) -> IntArray:
        """int64, links from one chiplet forward to another (R2)."""
        return np.mod(np.asarray(destination, dtype=np.int64) - np.asarray(source, dtype=np.int64), self.chiplets)

    def check(self, graph: Graph) -> None:
        """Refuse a graph of another size.

        Raises
        ------
        InputError
            Naming the last row of the boundary table.
        """
        if graph.nodes != self.vertices:
            raise InputError(
                f"boundary table, row {self.chiplets}", f"is {self.vertices}", f"{graph.nodes}, the graph's vertices"
            )
