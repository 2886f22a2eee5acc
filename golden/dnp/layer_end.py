"""The end of a layer on a neural chip: bias, saturating, and a table of any function, value by value (D5, D7, D8).

What the second rounding point of a layer with ``Activation.DNP`` gives, Q3.12, is streamed through a chip. Each of its
four processors ends every fourth row (`golden.dnp.chip_rows`). Nothing passes between them, so none waits for another.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from contracts.dnp.config import HIGHEST, LOWEST, WORD, ProcessorConfig
from contracts.dnp.gbus import Space, write
from contracts.dnp.topology import CHIP, OUTER, Edge
from golden.dnp.arithmetic import Ints, saturate
from golden.dnp.array import ArrayModel, EdgePort
from golden.dnp.assembler import Image, assemble
from golden.dnp.chip_rows import collect, feed, packed, programs

__all__ = ["ROWS", "LayerEnd"]

#: Most values of a pass of the inner loop, and most passes: what the loop counters and the program memory hold.
_UNROLLED, _PASSES, _ROWS = 8, 255, (1 << WORD) - 1
#: Most rows of a program: what the row counters of all processors hold, as a power of two.
ROWS = 1 << WORD + 1


@dataclass(frozen=True, eq=False)
class LayerEnd:
    """Biases and table of a layer.

    Attributes
    ----------
    biases
        int [features], Q3.12.
    table
        int [2^table_bits].
    config
        Sizes of a processor.

    Raises
    ------
    ValueError
        If there are no biases, more than the weight memory holds beside the table or than a loop counts, the table has
        another size than the processor's, or a word does not fit 16 bits.
    """

    biases: Ints
    table: Ints
    config: ProcessorConfig = field(default_factory=ProcessorConfig)

    def __post_init__(self) -> None:
        most = min(self.config.wm_depth - self.config.table_size, _PASSES)
        if not 1 <= self.biases.size <= most:
            raise ValueError(f"there are {self.biases.size} biases; expected 1 to {most}")
        if self.table.shape != (self.config.table_size,):
            raise ValueError(f"the table has shape {self.table.shape}; expected ({self.config.table_size},)")
        for name, words in (("biases", self.biases), ("table", self.table)):
            if words.min() < LOWEST or words.max() > HIGHEST:
                raise ValueError(f"{name} must be in {LOWEST}..{HIGHEST}, not {words.min()}..{words.max()}")

    def __call__(self, rows: npt.NDArray[np.signedinteger[Any]]) -> Ints:
        """End rows: int [rows, features] in Q3.12 to int64 of the same shape, as the table has them."""
        sums = saturate(rows.astype(np.int64) + self.biases)
        return self.table[(sums - LOWEST) >> (WORD - self.config.table_bits)].astype(np.int64)

    @cached_property
    def memory(self) -> dict[int, int]:
        """Words of WM of every processor by address: biases, then the table."""
        return dict(enumerate(np.concatenate([self.biases, self.table]).tolist()))

    def text(self, processor: int, rows: int) -> str:
        """Program of a processor that ends so many rows and halts.

        Raises
        ------
        ValueError
            If `rows` is not in 0..65,535.
        """
        if not 0 <= rows <= _ROWS:
            raise ValueError(f"rows must be in 0..{_ROWS}, not {rows!r}")
        if not rows:
            return "HALT"
        arrive, leave = OUTER[processor]
        features = self.biases.size
        together = max(n for n in range(1, _UNROLLED + 1) if features % n == 0)
        # The bias first: adding what arrives to it saturates. A sum reaches the table's pointer three clocks after it
        # was made; of two values one is made meanwhile.
        add, out = ["MOV WM[0]+ A", f"INS {arrive}"], f"OUT WM[3] {leave}"
        one, two = [*add, "MOV A WA3", out], [*add, "MOV A RF0", *add, "MOV RF0 WA3", out, "MOV A WA3", out]
        lines = [
            f"LDI #{features} TB",
            "SET #1 ICR",
            f"LDI #{rows} LC1",
            "row: LDI #0 WA0",
            f"SET #{features // together} LC0",
            "values:",
            *two * (together // 2),
            *one * (together % 2),
            "LOOP LC0 values",
            "LOOP LC1 row",
            "HALT",
        ]
        return "\n".join(lines)

    def image(self, processor: int, rows: int) -> Image:
        """Program of a processor for a number of rows of the whole chip, assembled.

        Raises
        ------
        AssemblyError
            If the program memory is too small.
        """
        own = len(range(processor, rows, CHIP.processors))
        return assemble(self.text(processor, own), config=self.config)

    def words(self, rows: int) -> Ints:
        """Frames that load everything for so many rows: uint32, two words of the G-bus in each, lower half first.

        Raises
        ------
        AssemblyError
            If the program memory is too small.
        """
        frames = write(None, Space.WM, 0, list(self.memory.values()))
        frames += programs([self.image(processor, rows).program for processor in range(CHIP.processors)])
        return packed(frames)

    def machine(self, rows: Ints) -> ArrayModel:
        """Golden chip with everything loaded, the rows as words at its edge ports, started."""
        machine = ArrayModel(self.config, CHIP)
        for processor in range(CHIP.processors):
            machine.load(processor, self.image(processor, len(rows)).program, self.memory)
        machine.start()
        feed(machine, rows)
        return machine

    def results(self, ends: dict[Edge, EdgePort], rows: int) -> Ints:
        """Put together what left at the edge ports: int64 [rows, features]."""
        return collect(ends, rows, self.biases.size)
