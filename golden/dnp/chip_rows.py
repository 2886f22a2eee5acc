"""Rows that stream through a chip: which processor takes which, through which ports, and how programs get there (D7).

Row r goes to processor r mod 4. It takes words at its outer side port and sends results at its outer port above or
below; its two inner ports lead to its neighbours in the chip.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from contracts.dnp.gbus import Space, write
from contracts.dnp.topology import CHIP, Edge, edge_ports
from golden.dnp.arithmetic import Ints
from golden.dnp.array import ArrayModel, EdgePort

__all__ = ["collect", "feed", "packed", "programs"]


def programs(images: Sequence[Sequence[int]]) -> list[int]:
    """Frames that load a program into each processor."""
    return [word for n, image in enumerate(images) for word in write((0, n), Space.PROGRAM, 0, image)]


def packed(frames: Sequence[int]) -> Ints:
    """Frames as a neural unit takes them: uint32, two words of the G-bus in each, lower half first."""
    # A header of zeros does nothing.
    return np.array([*frames, *[0] * (len(frames) % 2)], dtype="<u2").view("<u4")


def feed(machine: ArrayModel, rows: Ints) -> None:
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
