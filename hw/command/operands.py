"""Operands: which bits of a command a unit keeps, and which of them are addresses of lines."""

from typing import Any

from amaranth.hdl import Cat, Const, Value
from amaranth.lib import data

from contracts import COMMAND_BYTES, COMMANDS, Opcode
from hw.contracts import struct

__all__ = ["Operands"]

_BITS = 8 * COMMAND_BYTES


class Operands:
    """Packs the bits of a command that some opcode of a unit uses, and unpacks them as the operands of each.

    Parameters
    ----------
    opcodes
        Commands of the unit, at least one.

    Attributes
    ----------
    kept
        Positions of the bits that are kept, ascending: opcode, layer and every operand of one of the `opcodes`.
    lines
        For each opcode the names of the operands that are addresses of lines, in the order of the contract.

    Raises
    ------
    ValueError
        If there are no opcodes, or an opcode has no contract.
    """

    def __init__(self, opcodes: tuple[Opcode, ...]) -> None:
        if not opcodes:
            raise ValueError(f"opcodes must name at least one command, not {opcodes!r}")
        unknown = [opcode for opcode in opcodes if opcode not in COMMANDS]
        if unknown:
            raise ValueError(f"opcodes must be commands of the contracts, not {unknown!r}")
        self.opcodes = opcodes
        kept: set[int] = set()
        self.lines: dict[Opcode, tuple[str, ...]] = {}
        for opcode in opcodes:
            layout = COMMANDS[opcode]
            for field in layout.fields:
                if not field.name.startswith("reserved") and field.name != "tag":
                    kept |= set(range(layout.offsets[field.name], layout.offsets[field.name] + field.bits))
            self.lines[opcode] = tuple(field.name for field in layout.fields if field.line)
        self.kept = sorted(kept)

    @property
    def width(self) -> int:
        """Number of bits that are kept."""
        return len(self.kept)

    def _runs(self) -> list[tuple[int, int]]:
        """Return first bit and length of every run of bits that are kept."""
        runs: list[tuple[int, int]] = []
        for bit in self.kept:
            if runs and bit == sum(runs[-1]):
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((bit, 1))
        return runs

    def pack(self, command: Any) -> Value:
        """Return the bits of a command of 512 bits that are kept."""
        return Cat(command[first : first + length] for first, length in self._runs())

    def view(self, bits: Any, opcode: Opcode) -> Any:
        """Return the kept `bits` as the operands of `opcode`; bits that no opcode of the unit uses are 0."""
        parts: list[Value] = []
        at = end = 0
        for first, length in self._runs():
            parts += [Const(0, first - end), bits[at : at + length]]
            at, end = at + length, first + length
        return data.View(struct(COMMANDS[opcode]), Cat(*parts, Const(0, _BITS - end)))
