"""How the edges of an array of DNP-IIs are joined (D10).

Processors are numbered row by row. Inside the array every processor talks to its four neighbours; the edge ports are
named by side and place: the north and south sides by column, the east and west sides by row. A joint leads from the
output of one edge port to the input of another one; edge ports without a joint lead to the host.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from contracts.dnp.isa import PORTS

__all__ = [
    "CHIP",
    "EAST",
    "NORTH",
    "OPPOSITE",
    "OUTER",
    "PROGRAM_WORDS",
    "SOUTH",
    "WEST",
    "Edge",
    "Grid",
    "Topology",
    "edge_ports",
]

NORTH, EAST, SOUTH, WEST = range(4)
#: Port at the other end of a link inside the array.
OPPOSITE = (SOUTH, WEST, NORTH, EAST)


class Topology(IntEnum):
    """How the edges are joined."""

    MESH = 0
    TORUS = 1
    PASF = 2
    LINEAR = 3


@dataclass(frozen=True)
class Grid:
    """An array of processors and its joints.

    Attributes
    ----------
    rows, columns
        Size of the array, in processors.
    topology
        How the edges are joined. TORUS joins opposite sides (A-C, B-D); PASF joins the east end of row i to the north
        end of column i and the south end of column i to the west end of row i; LINEAR joins the east end of each row
        to the west end of the next one; MESH joins nothing.
    host
        Sides whose inputs come from the host whatever the topology says; so do the outputs that led there.

    Raises
    ------
    ValueError
        If the size is not positive, or PASF is asked of an array that is not square.
    """

    rows: int
    columns: int
    topology: Topology = Topology.MESH
    host: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.rows < 1 or self.columns < 1:
            raise ValueError(f"rows and columns must be at least 1, not {self.rows} and {self.columns}")
        if self.topology is Topology.PASF and self.rows != self.columns:
            raise ValueError(f"a PASF array must be square, not {self.rows} by {self.columns}")

    @property
    def processors(self) -> int:
        """Number of processors."""
        return self.rows * self.columns

    @property
    def chip_side(self) -> int:
        """Processors along a side of a chip: 2, or 1 where there is a single one."""
        return 1 if self.processors == 1 else 2

    def place(self, processor: int) -> tuple[int, int]:
        """Chip of a processor, and its number there; both row by row."""
        side = self.chip_side
        row, column = divmod(processor, self.columns)
        return row // side * (self.columns // side) + column // side, row % side * side + column % side

    def edge(self, side: int, place: int) -> tuple[int, int]:
        """Processor and port of an edge port."""
        if side in (NORTH, SOUTH):
            return (0 if side == NORTH else self.rows - 1) * self.columns + place, side
        return place * self.columns + (0 if side == WEST else self.columns - 1), side

    def places(self, side: int) -> int:
        """Count the edge ports on a side."""
        return self.columns if side in (NORTH, SOUTH) else self.rows

    def joint(self, side: int, place: int) -> tuple[int, int] | None:
        """Side and place whose output feeds the input of an edge port, or ``None`` for the host."""
        if side in self.host:
            return None
        match self.topology:
            case Topology.TORUS:
                return OPPOSITE[side], place
            case Topology.PASF:
                return {NORTH: EAST, EAST: NORTH, SOUTH: WEST, WEST: SOUTH}[side], place
            case Topology.LINEAR:
                if side == WEST and place > 0:
                    return EAST, place - 1
                if side == EAST and place < self.rows - 1:
                    return WEST, place + 1
        return None

    def edges(self) -> list[tuple[int, int]]:
        """All edge ports as (side, place)."""
        return [(side, place) for side in range(4) for place in range(self.places(side))]

    def sources(self) -> npt.NDArray[np.int64]:
        """Where every input comes from, shape (processors, 4): 4·processor + port of the output, -1 for the host."""
        table = np.full((self.processors, 4), -1, dtype=np.int64)
        for row in range(self.rows):
            for column in range(self.columns):
                at = row * self.columns + column
                for port, (dr, dc) in enumerate(((-1, 0), (0, 1), (1, 0), (0, -1))):
                    r, c = row + dr, column + dc
                    if 0 <= r < self.rows and 0 <= c < self.columns:
                        table[at, port] = 4 * (r * self.columns + c) + OPPOSITE[port]
        for side, place in self.edges():
            joint = self.joint(side, place)
            if joint is not None:
                processor, port = self.edge(side, place)
                source, output = self.edge(*joint)
                table[processor, port] = 4 * source + output
        return table


#: Side and place of an edge port of the host.
Edge = tuple[int, int]
#: The processors of a chip.
CHIP = Grid(2, 2)
#: By processor: the port at which words arrive, and that at which results leave.
OUTER = (("W", "N"), ("E", "N"), ("W", "S"), ("E", "S"))
#: Most words of 32 bits that a neural unit loads: far more than all memories of a chip with their frames.
PROGRAM_WORDS = 1 << 16


def edge_ports(processor: int) -> tuple[Edge, Edge]:
    """Edge ports of a processor: where its words arrive, and where its results leave."""
    row, column = divmod(processor, CHIP.columns)
    arrive, leave = (PORTS.index(port) for port in OUTER[processor])
    return (arrive, row), (leave, column)
