"""A program: sections and commands with references to them, laid out once and written once.

A *section* is a region without an address; an operand of a command is a number, a section, or a reference to a line
within a section. `Program.layout` assigns lines to all of them at the end, so nothing has to be counted in
advance. Every image is written here: header, region table, command list, data, checksum.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from contracts import (
    COMMANDS,
    HEADER,
    LINE_BYTES,
    MAGIC,
    PAGE_BYTES,
    REGION,
    VALUE_BITS,
    VERSION,
    Layout,
    Opcode,
    RegionKind,
)
from contracts.errors import InputError
from contracts.scale import Scales
from contracts.weights import WeightRoom
from golden.graph import IntArray
from golden.image_format import Command, Image, Region, Section, row_bytes, scale_words
from golden.model.layer import Int16Array
from golden.model.network import Problem

__all__ = ["Operand", "Placed", "Program", "Reference", "Section", "packed"]

#: Line addresses have 32 bits, ports at most 38 address bits.
_LINES_MAX = 1 << 32
#: An edge with a weight, `contracts.EDGE_WEIGHTED`.
_WEIGHTED = np.dtype([("vid", "<u4"), ("weight", "<i2"), ("reserved", "<u2")])
#: Numbers of commands wrap here.
_TAGS = 1 << 16


class Reference(NamedTuple):
    """A line of a section, counted from its start."""

    section: Section
    line: int

    @classmethod
    def row(cls, section: Section, number: int) -> Self:
        """Return a reference to the line on which a row begins.

        Raises
        ------
        ValueError
            If the row begins within a line.
        """
        line, rest = divmod(number * section.row_bytes, LINE_BYTES)
        if rest:
            raise ValueError(f"row {number} of {section.kind.name} begins at byte {rest} of a line")
        return cls(section, line)

    def on(self, distance: int) -> Self:
        """Return a reference to the line so many bytes on.

        Raises
        ------
        ValueError
            If that is within a line.
        """
        lines, rest = divmod(distance, LINE_BYTES)
        if rest:
            raise ValueError(f"{distance} bytes are no whole number of lines")
        return self._replace(line=self.line + lines)


#: Types of a command's operand.
Operand: TypeAlias = int | Section | Reference


@dataclass(frozen=True, eq=False)
class Placed:
    """Result of the layout: regions by section, the command list and its line, and the total size in lines.

    ``scratch``: first line of those that a scratchpad keeps, which come last; 0: there are none.
    """

    regions: Mapping[Section, Region]
    commands: tuple[Command, ...]
    command_line: int
    lines: int
    scratch: int

    def header(self, problem: Problem) -> dict[str, int]:
        """Fields of the header of a chiplet that works alone."""
        graph, model = problem.graph, problem.model
        return {
            "magic": MAGIC, "version": VERSION, "model": model.model, "layers": len(model.layers), "chiplet": 0,
            "chiplets": 1, "command_list": self.command_line, "commands": len(self.commands), "lines": self.lines,
            "vertices": graph.nodes, "first_vertex": 0, "owned": graph.nodes, "edges": graph.edge_count,
            "scratch": self.scratch,
        }  # fmt: skip


class Program:
    """Collects sections and commands in the order of memory.

    Parameters
    ----------
    room
        Lines of the header and the command list together, for memories whose command list changes while regions stay;
        such a memory has no region table. Default: as many as there are commands, behind a region table.
    scratch_lines
        Size of the chiplet's scratchpad.

    Attributes
    ----------
    spare
        Unused entries of the region table, so that an image's lines do not depend on regions that it omits.
    """

    def __init__(self, room: int | None = None, scratch_lines: int = 0) -> None:
        self.room, self.spare = room, 0
        # The scratchpad ends with a page of the memory, wherever the image begins.
        self._scratch_room = max(0, scratch_lines - (PAGE_BYTES // LINE_BYTES - 1))
        self._scratch: list[Section] = []
        self._sections: list[Section] = []
        self._contents: dict[Section, bytes] = {}
        self._steps: list[tuple[Opcode, dict[str, Operand]]] = []

    def again(self) -> Self:
        """Return a program with the same sections, all of them empty, and no commands yet."""
        other = type(self)(self.room)
        other.spare, other._sections, other._scratch = self.spare, self._sections.copy(), self._scratch.copy()
        other._scratch_room = self._scratch_room
        return other

    def keep_weights(self, room: WeightRoom) -> None:
        """Give each matrix a place of its own in the weight memories, if there is room for all of them.

        Else weights of own rows that are made beside combined ones lie beside the weights of these alone.
        """
        loads = [fields for opcode, fields in self._steps if opcode == Opcode.LOAD_WEIGHTS]
        sizes = [(cast("int", fields["f_in"]), cast("int", fields["f_out"])) for fields in loads]
        pages = room.pages(sizes)
        for number, fields in enumerate(loads):
            if "own_page" in fields:
                if pages[number - 1] == pages[number]:
                    pages[number - 1 : number + 1] = room.pages(sizes[number - 1 : number + 1])
                fields["own_page"] = pages[number - 1]
        for fields, page in zip(loads, pages, strict=True):
            fields["page"] = page

    def reserve(self, kind: RegionKind, layer: int, size: int, rows: int, elements: int, distance: int) -> Section:
        """Add a section of `size` bytes that are 0."""
        section = Section(kind, layer, size, rows, elements, distance)
        self._sections.append(section)
        return section

    def reserve_rows(self, kind: RegionKind, count: int, elements: int, layer: int = 0) -> Section:
        """Add a section of padded rows of int16 that are 0."""
        distance = row_bytes(elements)
        return self.reserve(kind, layer, count * distance, count, elements, distance)

    def on_chip(self, section: Section) -> bool:
        """Have a section without contents kept in the scratchpad if there is room; return whether it is."""
        fits = section.lines <= self._scratch_room
        if fits:
            self._scratch_room -= section.lines
            self._scratch.append(section)
        return fits

    def fill(self, section: Section, data: bytes) -> None:
        """Set the bytes of a section, from its start on.

        Raises
        ------
        ValueError
            If it is smaller.
        """
        if len(data) > section.bytes:
            raise ValueError(f"{section.kind.name} has {section.bytes} bytes, not {len(data)}")
        self._contents[section] = data

    def words(self, kind: RegionKind, values: npt.ArrayLike, layer: int = 0, dtype: str = "<u4") -> Section:
        """Add a section of 32-bit words, one a row."""
        data = np.asarray(values).astype(dtype)
        section = self.reserve(kind, layer, data.nbytes, data.size, 1, data.itemsize)
        self.fill(section, data.tobytes())
        return section

    def edges(self, sources: IntArray, weights: Int16Array | None) -> Section:
        """Add a section of edges, one a row, with weights if there are some."""
        if weights is None:
            return self.words(RegionKind.EDGES, sources)
        data = np.zeros(sources.size, dtype=_WEIGHTED)
        data["vid"], data["weight"] = sources, weights
        section = self.reserve(RegionKind.EDGES, 0, data.nbytes, data.size, 1, data.itemsize)
        self.fill(section, data.tobytes())
        return section

    def arrays(self, kind: RegionKind, arrays: Sequence[npt.NDArray[np.integer]]) -> list[Reference]:
        """Add a section of arrays of 32-bit words, each aligned to a line; return their starts."""
        words = LINE_BYTES // 4
        parts = [np.pad(array.astype(np.uint32), (0, -array.size % words if array.size else words)) for array in arrays]
        section = self.words(kind, np.concatenate(parts) if parts else [])
        ends = np.cumsum([part.size // words for part in parts], dtype=np.int64)
        return [Reference(section, int(end) - part.size // words) for end, part in zip(ends, parts, strict=True)]

    def scales(self, kind: RegionKind, scales: Scales) -> Section:
        """Add a section of factors, one a row."""
        return self.words(kind, scale_words(scales))

    def rows(self, kind: RegionKind, values: Int16Array, layer: int = 0) -> Section:
        """Add a section of padded rows of int16."""
        count, elements = values.shape
        section = self.reserve_rows(kind, count, elements, layer)
        padded = np.zeros((count, section.row_bytes // (VALUE_BITS // 8)), dtype="<i2")
        padded[:, :elements] = values
        self.fill(section, padded.tobytes())
        return section

    def command(self, opcode: Opcode, layer: int, *given: object, **operands: Operand) -> None:
        """Add a command.

        Operands come from keywords, else from attributes of the parts `given`, the last part first, else they are 0.

        Raises
        ------
        KeyError
            If the opcode has no such operand.
        """
        names = COMMANDS[opcode].offsets
        if unknown := set(operands) - set(names):
            raise KeyError(f"{opcode.name} has no operand {sorted(unknown)}")
        found = {name: getattr(each, name) for each in given for name in names if hasattr(each, name)}
        self._steps.append((opcode, {**found, **operands, "layer": layer}))

    def count(self, opcode: Opcode) -> int:
        """Return how many commands of an opcode there are so far."""
        return sum(each == opcode for each, _ in self._steps)

    def layout(self) -> Placed:
        """Assign lines to sections and commands.

        Raises
        ------
        InputError
            If there would be more than 2^32 lines or more commands than room.
        ValueError
            If a reference leaves the program, past the end of its section, or from an operand that is no line.
        """
        first = 1 if self.room else 1 - (-(len(self._sections) + self.spare) * REGION.bytes // LINE_BYTES)
        line = self.room or first + len(self._steps)
        if first + len(self._steps) > line:
            raise InputError("image", f"has {len(self._steps)} commands", f"at most {line - first}")
        regions, scratch = dict[Section, Region](), 0
        # The sort is stable, so what the scratchpad keeps comes last.
        for section in sorted(self._sections, key=lambda section: section in self._scratch):
            if section in self._scratch:
                scratch = scratch or line
            regions[section] = section.at(line)
            line += section.lines
        if line >= _LINES_MAX:
            raise InputError("image", f"would have {line} lines", f"fewer than {_LINES_MAX}")
        commands = tuple(_resolved(number, *step, regions) for number, step in enumerate(self._steps))
        return Placed({section: regions[section] for section in self._sections}, commands, first, line, scratch)

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
            As for `layout`, or if a number exceeds its field.
        """
        placed = self.layout()
        data, regions = self._written(placed, placed.lines), tuple(placed.regions.values())
        table = b"".join(packed(REGION, region.values(), f"region {n}") for n, region in enumerate(regions))
        data[LINE_BYTES : LINE_BYTES + len(table)] = table
        header = {**placed.header(problem), "regions": len(regions), "region_table": 1, **fields}
        header["checksum"] = zlib.crc32(data[LINE_BYTES:])
        data[:LINE_BYTES] = packed(HEADER, header, "header")
        written = tuple(number for number, section in enumerate(placed.regions) if section in self._contents)
        return Image(bytes(data), header, regions, placed.commands, written)

    def memory(self) -> bytes:
        """Lay out and write all but the header."""
        placed = self.layout()
        return bytes(self._written(placed, placed.lines))

    def front(self, problem: Problem, last: Section) -> bytes:
        """Lay out; write header, commands and sections as far as the end of `last`."""
        placed = self.layout()
        data = self._written(placed, placed.regions[last].line + last.lines)
        data[:LINE_BYTES] = packed(HEADER, placed.header(problem), "header")
        return bytes(data)

    def _written(self, placed: Placed, lines: int) -> bytearray:
        """Write commands and contents of the first `lines` lines."""
        data = bytearray(lines * LINE_BYTES)
        for number, command in enumerate(placed.commands):
            at = (placed.command_line + number) * LINE_BYTES
            data[at : at + LINE_BYTES] = packed(COMMANDS[command.opcode], command.values(), f"command {number}")
        for section, content in self._contents.items():
            at = placed.regions[section].address
            data[at : at + len(content)] = content
        assert len(data) == lines * LINE_BYTES, "sections behind the end have contents"
        return data


def _resolved(
    number: int, opcode: Opcode, operands: Mapping[str, Operand], regions: Mapping[Section, Region]
) -> Command:
    """Return a command with lines in place of references."""
    fields, references = {"tag": number % _TAGS}, {}
    lines = {field.name for field in COMMANDS[opcode].fields if field.line}
    for name, operand in operands.items():
        if not isinstance(operand, Section | Reference):
            fields[name] = int(operand)
            continue
        section, line = operand if isinstance(operand, Reference) else (operand, 0)
        where = f"command {number}, {opcode.name}, {name}: is line {line} of {section.kind.name}"
        if name not in lines:
            raise ValueError(f"{where}, but the operand is no line")
        if section not in regions or not 0 <= line < section.lines:
            raise ValueError(f"{where}, which is not in the program")
        fields[name] = regions[section].line + line
        references[name] = (regions[section], line)
    return Command(opcode, fields, references)


def packed(layout: Layout, values: Mapping[str, int], where: str) -> bytes:
    """Pack fields; one that exceeds its width is an `InputError`."""
    try:
        return layout.to_bytes(values)
    except ValueError as error:
        raise InputError(f"image, {where}", str(error), "a number that fits its field") from None
