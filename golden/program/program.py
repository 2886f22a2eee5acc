"""A program: sections and commands with references to them, laid out once and written once.

A *section* is a region that has no line yet; an operand of a command is a number, a section, or a reference to a line
within a section. `Program.layout` gives lines to all of them when everything is there, so nothing has to be counted
before. Every image is written here: header, region table, command list, data, checksum.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from golden.contracts import (
    COMMANDS,
    HEADER,
    LINE_BYTES,
    MAGIC,
    REGION,
    VALUE_BITS,
    VERSION,
    Layout,
    Opcode,
    RegionKind,
)
from golden.errors import InputError
from golden.image_format import Command, Image, Region, row_bytes, scale_words
from golden.model.layer import Int16Array
from golden.model.network import Problem
from golden.model.scale import Scales

__all__ = ["Operand", "Placed", "Program", "Reference", "Section"]

_VALUE_BYTES = VALUE_BITS // 8
#: Lines are counted in 32 bits and lie behind ports of at most 38 address bits.
_LINES_MAX = 1 << 32
#: Numbers of commands begin again after so many.
_TAGS = 1 << 16


def _lines(size: int) -> int:
    return -(-size // LINE_BYTES)


@dataclass(frozen=True, eq=False)
class Section:
    """A region before it has a line.

    Attributes
    ----------
    kind, layer, bytes, rows, row_elements, row_bytes
        As in `Region`.
    """

    kind: RegionKind
    layer: int
    bytes: int
    rows: int
    row_elements: int
    row_bytes: int

    @property
    def lines(self) -> int:
        """Lines that it takes, at least 1."""
        return max(1, _lines(self.bytes))

    def line(self, number: int) -> "Reference":
        """Return a reference to a line of it."""
        return Reference(self, number)

    def row(self, number: int) -> "Reference":
        """Return a reference to the line on which a row begins.

        Raises
        ------
        ValueError
            If the row begins within a line.
        """
        line, rest = divmod(number * self.row_bytes, LINE_BYTES)
        if rest:
            raise ValueError(f"row {number} of {self.kind.name} begins at byte {rest} of a line")
        return Reference(self, line)

    def at(self, line: int) -> Region:
        """Entry of the region table, if it starts at a line."""
        return Region(self.kind, self.layer, line, self.bytes, self.rows, self.row_elements, self.row_bytes)


class Reference(NamedTuple):
    """A line of a section, counted from its start."""

    section: Section
    line: int


#: What an operand of a command may be.
Operand: TypeAlias = int | Section | Reference


class _Step(NamedTuple):
    """A command before references have lines."""

    opcode: Opcode
    operands: Mapping[str, Operand]


@dataclass(frozen=True, eq=False)
class Placed:
    """Where everything lies.

    Attributes
    ----------
    regions
        By section, in the order of lines.
    commands
        The command list.
    table_line, command_line
        Where region table and command list start, in lines; a program without a region table has 0.
    lines
        Size of the whole, in lines.
    """

    regions: Mapping[Section, Region]
    commands: tuple[Command, ...]
    table_line: int
    command_line: int
    lines: int


class Program:
    """Collects sections and commands in the order in which they are to lie in memory.

    Parameters
    ----------
    room
        Lines of the header and the command list together, for memories whose command list changes while regions stay;
        such a memory has no region table. Default: as many as there are commands, behind a region table.

    Attributes
    ----------
    spare
        Entries of the region table without a region, so that lines of an image do not depend on regions it leaves out.
    """

    def __init__(self, room: int | None = None) -> None:
        self.room = room
        self.spare = 0
        self._sections: list[Section] = []
        self._contents: dict[Section, bytes] = {}
        self._steps: list[_Step] = []

    def again(self) -> Self:
        """Return a program with the same sections, all of them empty, and no commands yet."""
        other = type(self)(self.room)
        other.spare, other._sections = self.spare, self._sections.copy()
        return other

    def reserve(self, kind: RegionKind, layer: int, size: int, rows: int, elements: int, distance: int) -> Section:
        """Add a section of `size` bytes that are 0."""
        section = Section(kind, layer, size, rows, elements, distance)
        self._sections.append(section)
        return section

    def reserve_rows(self, kind: RegionKind, count: int, elements: int, layer: int = 0) -> Section:
        """Add a section of padded rows of int16 that are 0."""
        distance = row_bytes(elements)
        return self.reserve(kind, layer, count * distance, count, elements, distance)

    def fill(self, section: Section, data: bytes) -> None:
        """Give a section its bytes, from its start on.

        Raises
        ------
        ValueError
            If it is smaller.
        """
        if len(data) > section.bytes:
            raise ValueError(f"{section.kind.name} has {section.bytes} bytes, not {len(data)}")
        self._contents[section] = data

    def add(self, kind: RegionKind, layer: int, data: bytes, rows: int, elements: int, distance: int) -> Section:
        """Add a section with its bytes."""
        section = self.reserve(kind, layer, len(data), rows, elements, distance)
        self.fill(section, data)
        return section

    def words(self, kind: RegionKind, values: npt.ArrayLike, layer: int = 0, dtype: str = "<u4") -> Section:
        """Add a section of 32-bit words, one a row."""
        data = np.asarray(values).astype(dtype)
        return self.add(kind, layer, data.tobytes(), data.size, 1, data.itemsize)

    def scales(self, kind: RegionKind, scales: Scales) -> Section:
        """Add a section of factors, one a row."""
        return self.words(kind, scale_words(scales))

    def rows(self, kind: RegionKind, values: Int16Array, layer: int = 0) -> Section:
        """Add a section of padded rows of int16."""
        count, elements = values.shape
        section = self.reserve_rows(kind, count, elements, layer)
        padded = np.zeros((section.rows, section.row_bytes // _VALUE_BYTES), dtype="<i2")
        padded[:, : section.row_elements] = values
        self.fill(section, padded.tobytes())
        return section

    def command(self, opcode: Opcode, layer: int, **operands: Operand) -> None:
        """Add a command; operands that are not named are 0.

        Raises
        ------
        KeyError
            If the opcode has no such operand.
        """
        unknown = set(operands) - set(COMMANDS[opcode].offsets)
        if unknown:
            raise KeyError(f"{opcode.name} has no operand {sorted(unknown)}")
        self._steps.append(_Step(opcode, {"layer": layer, **operands}))

    def contents(self, section: Section) -> bytes:
        """Return the bytes of a section, without zeros behind those that it was given."""
        return self._contents.get(section, b"")

    def layout(self) -> Placed:
        """Give lines to sections and commands.

        Raises
        ------
        InputError
            If there would be more than 2^32 lines or more commands than room, or an operand exceeds its field.
        ValueError
            If a reference leads nowhere: to a section of another program, past its end, or from an operand that is
            not a line.
        """
        table = 0 if self.room is not None else _lines((len(self._sections) + self.spare) * REGION.bytes)
        first = 1 + table
        line = first + len(self._steps) if self.room is None else self.room
        if first + len(self._steps) > line:
            raise InputError("image", f"has {len(self._steps)} commands", f"at most {line - first}")
        regions = {}
        for section in self._sections:
            regions[section] = section.at(line)
            line += section.lines
        if line >= _LINES_MAX:
            raise InputError("image", f"would have {line} lines", f"fewer than {_LINES_MAX}")
        commands = tuple(_resolved(number, step, regions) for number, step in enumerate(self._steps))
        return Placed(regions, commands, int(self.room is None), first, line)

    def image(self, problem: Problem, **fields: int) -> Image:
        """Lay out and write the whole image.

        Parameters
        ----------
        problem
            Network and graph, for the header.
        fields
            Of the header, where they differ from those of a chiplet that works alone.

        Raises
        ------
        InputError
            As for `layout`.
        """
        placed = self.layout()
        data = self._written(placed, placed.lines)
        entries = tuple(placed.regions.values())
        for number, region in enumerate(entries):
            at = placed.table_line * LINE_BYTES + number * REGION.bytes
            data[at : at + REGION.bytes] = packed(REGION, region.values(), f"image, region {number}")
        header = {
            **_header(placed, problem),
            "regions": len(entries),
            "region_table": placed.table_line,
            "checksum": zlib.crc32(data[LINE_BYTES:]),
            **fields,
        }
        data[:LINE_BYTES] = packed(HEADER, header, "image")
        return Image(bytes(data), header, entries, placed.commands)

    def memory(self) -> bytes:
        """Lay out and write all that is not in front, where header and commands will be."""
        placed = self.layout()
        return bytes(self._written(placed, placed.lines))

    def front(self, problem: Problem, last: Section) -> bytes:
        """Lay out; write header, commands and sections as far as the end of `last`."""
        placed = self.layout()
        data = self._written(placed, placed.regions[last].line + last.lines)
        data[:LINE_BYTES] = packed(HEADER, _header(placed, problem), "image")
        return bytes(data)

    def _written(self, placed: Placed, lines: int) -> bytearray:
        """Write commands and contents of the first so many lines."""
        data = bytearray(lines * LINE_BYTES)
        at = placed.command_line * LINE_BYTES
        for number, command in enumerate(placed.commands):
            where = f"image, command {number}"
            data[at : at + LINE_BYTES] = packed(COMMANDS[command.opcode], command.values(), where)
            at += LINE_BYTES
        for section, content in self._contents.items():
            at = placed.regions[section].address
            data[at : at + len(content)] = content
        if len(data) != lines * LINE_BYTES:
            raise ValueError(f"sections behind line {lines} have contents")
        return data


def _header(placed: Placed, problem: Problem) -> dict[str, int]:
    graph = problem.graph
    return {
        "magic": MAGIC,
        "version": VERSION,
        "model": problem.model.model,
        "layers": len(problem.model.layers),
        "chiplet": 0,
        "chiplets": 1,
        "command_list": placed.command_line,
        "commands": len(placed.commands),
        "vertices": graph.nodes,
        "first_vertex": 0,
        "owned": graph.nodes,
        "edges": graph.edge_count,
        "lines": placed.lines,
    }


def _resolved(number: int, step: _Step, regions: Mapping[Section, Region]) -> Command:
    """Return a command with lines in place of references."""
    fields, references = {"tag": number % _TAGS}, {}
    lines = {field.name for field in COMMANDS[step.opcode].fields if field.line}
    for name, operand in step.operands.items():
        if isinstance(operand, int | np.integer):
            fields[name] = int(operand)
            continue
        section, line = operand if isinstance(operand, Reference) else (operand, 0)
        where = f"command {number}, {step.opcode.name}, {name}: line {line} of {section.kind.name}"
        if name not in lines:
            raise ValueError(f"{where}, but the operand is no line")
        if section not in regions:
            raise ValueError(f"{where}, which is in another program")
        if not 0 <= line < section.lines:
            raise ValueError(f"{where}, which has {section.lines}")
        fields[name] = regions[section].line + line
        references[name] = (regions[section], line)
    return Command(step.opcode, fields, references)


def packed(layout: Layout, values: Mapping[str, int], where: str) -> bytes:
    """Pack fields into bytes.

    Raises
    ------
    InputError
        If one exceeds its width, naming it.
    """
    for field in layout.fields:
        low, high = field.range
        if not low <= values.get(field.name, 0) <= high:
            raise InputError(f"{where}, {field.name}", f"is {values[field.name]}", f"{low}..{high}")
    return layout.to_bytes(values)
