"""Rows that stream through a chip: which processor takes which, through which ports, and how programs get there (D7).

Row r goes to processor r mod 4. It takes words at its outer side port and sends results at its outer port above or
below; its two inner ports lead to its neighbours in the chip.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from golden.dnp.arithmetic import Ints
from golden.dnp.gbus import Space, write
from golden.dnp.isa import PORTS
from golden.dnp.machine import EdgePort, Machine
from golden.dnp.topology import Grid

__all__ = ["CHIP", "OUTER", "PROGRAM_WORDS", "Edge", "collect", "edge_ports", "feed", "packed", "programs"]

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


def programs(images: Sequence[Sequence[int]]) -> list[int]:
    """Frames that load a program into each processor."""
    return [word for n, image in enumerate(images) for word in write((0, n), Space.PROGRAM, 0, image)]


def packed(frames: Sequence[int]) -> Ints:
    """Frames as a neural unit takes them: uint32, two words of the G-bus in each, lower half first."""
    # A header of zeros does nothing.
    return np.array([*frames, *[0] * (len(frames) % 2)], dtype="<u2").view("<u4")


def feed(machine: Machine, rows: Ints) -> None:
    """Put rows, int [rows, width], as words at the edge ports of a golden chip."""
    for processor in range(CHIP.processors):
        arrive, _ = edge_ports(processor)
        machine.edges[arrive] = EdgePort(rows[processor :: CHIP.processors].reshape(-1).tolist())


def collect(ends: Mapping[Edge, EdgePort], rows: int, width: int) -> Ints:
    """Put together what left at the edge ports: int64 [rows, width]."""
    found = np.zeros((rows, width), dtype=np.int64)
    for processor in range(CHIP.processors):
        _, leave = edge_ports(processor)
        words = np.array(ends[leave].received, dtype=np.int64)
        found[processor :: CHIP.processors] = words.reshape(-1, width)
    return found
