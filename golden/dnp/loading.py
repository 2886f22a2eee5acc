"""What an array has to be sent so that its memories hold what those of a golden machine do (D7, D10)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from contracts.dnp import gbus
from contracts.dnp.gbus import Space
from contracts.dnp.topology import Grid
from golden.dnp.array import ArrayModel

__all__ = ["Block", "contents"]


@dataclass(frozen=True)
class Block:
    """Words for a memory.

    Attributes
    ----------
    processor
        Its number, ``None`` for all processors.
    space, address
        Where the first word goes.
    words
        The words, signed or not.
    """

    processor: int | None
    space: Space
    address: int
    words: list[int]

    def frame(self, grid: Grid) -> list[int]:
        """Return the frame on the G-bus that writes them."""
        target = None if self.processor is None else grid.place(self.processor)
        return gbus.write(target, self.space, self.address, self.words)


def contents(machine: ArrayModel) -> Iterator[Block]:
    """Yield the words of all memories, up to the last one that was loaded or is not 0.

    What all processors share comes once. A word that was loaded as 0 comes too: memories may hold what an earlier
    program left.

    Parameters
    ----------
    machine
        Golden machine, loaded.
    """
    s = machine.state
    for space, name in ((Space.PROGRAM, "p"), (Space.WM, "wm"), (Space.XM, "xm")):
        memory = getattr(s, name)
        used = np.flatnonzero(memory.any(axis=0))
        length = max(machine.loaded[name], int(used[-1]) + 1 if used.size else 0)
        different = np.flatnonzero((memory != memory[0]).any(axis=0))
        shared = min(length, int(different[0])) if different.size else length
        if shared:
            yield Block(None, space, 0, memory[0, :shared].tolist())
        if shared < length:
            for processor in range(machine.grid.processors):
                yield Block(processor, space, shared, memory[processor, shared:length].tolist())
