"""The container of a chiplet's memory image: header, region table, command list and data (`docs/contracts.md`)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from contracts import HEADER, LINE_BYTES, MAGIC, REGION, ROW_BYTES, SCALE, VALUE_BITS, VERSION, Opcode, RegionKind
from contracts.errors import InputError
from contracts.scale import Scales

if TYPE_CHECKING:
    from golden.model.layer import Int16Array

__all__ = ["PART_ROWS", "Command", "Image", "Region", "Section", "row_bytes", "scale_words"]

_VALUE_BYTES = VALUE_BITS // 8
#: Parts of a chiplet's vertices begin at multiples of this, so that their words and rows are aligned to lines.
PART_ROWS = LINE_BYTES // 4


def row_bytes(elements: int) -> int:
    """Distance of dense rows, in bytes: int16 elements padded to a multiple of 32 bytes."""
    return max(1, -(-elements * _VALUE_BYTES // ROW_BYTES)) * ROW_BYTES


def scale_words(scales: Scales) -> npt.NDArray[np.uint32]:
    """Return uint32 [nodes], factors in their memory format."""
    exponent = scales.exponent.astype(np.uint32) << np.uint32(SCALE.offsets["exponent"])
    return scales.mantissa.astype(np.uint32) | exponent


@dataclass(frozen=True, eq=False)
class Section:
    """A region without an address.

    Attributes
    ----------
    kind, layer
        Kind of contents, and layer.
    bytes
        Size without padding.
    rows, row_elements, row_bytes
        Shape: number of rows, elements of a row, distance of rows in bytes.
    """

    kind: RegionKind
    layer: int
    bytes: int
    rows: int
    row_elements: int
    row_bytes: int

    @property
    def lines(self) -> int:
        """Size in lines, at least 1."""
        return max(1, -(-self.bytes // LINE_BYTES))

    def at(self, line: int) -> Region:
        """Return the entry of the region table if it starts at a line."""
        return Region(**vars(self), line=line)


@dataclass(frozen=True)
class Region(Section):
    """An entry of the region table: where a section starts, in lines from the start of the image."""

    line: int

    @property
    def address(self) -> int:
        """Byte address of its start."""
        return self.line * LINE_BYTES

    def values(self) -> dict[str, int]:
        """Fields of its entry in the region table."""
        return {name: int(value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class Command:
    """An entry of the command list.

    Attributes
    ----------
    opcode, fields
        Opcode and operands; operands not given are 0.
    references
        By operand, the region and the line in it that the operand refers to.
    """

    opcode: Opcode
    fields: Mapping[str, int]
    references: Mapping[str, tuple[Region, int]] = field(default_factory=dict)

    def values(self) -> dict[str, int]:
        """All fields, with the opcode."""
        return {"opcode": self.opcode, **self.fields}


@dataclass(frozen=True, eq=False)
class Image:
    """An image and its contents.

    Attributes
    ----------
    data
        Its bytes, a whole number of lines.
    header
        Fields of the header.
    regions
        Region table.
    commands
        Command list; empty if the image was read from bytes.
    written
        Places in the region table of what the host writes; the others are working space. Empty if it was read.
    """

    data: bytes
    header: Mapping[str, int]
    regions: tuple[Region, ...]
    commands: tuple[Command, ...] = ()
    written: tuple[int, ...] = ()

    def region(self, kind: RegionKind, layer: int = 0) -> Region:
        """Region of a kind.

        Raises
        ------
        KeyError
            If there is none.
        """
        for region in self.regions:
            if region.kind == kind and region.layer == layer:
                return region
        raise KeyError(f"the image has no region {kind.name} of layer {layer}")

    @property
    def scratch(self) -> list[Region]:
        """Working space that a scratchpad keeps."""
        first = self.header["scratch"]
        return [region for region in self.regions if first and region.line >= first]

    def rows(self, region: Region, data: bytes) -> Int16Array:
        """Int16 [rows, row_elements] of the bytes of a region of dense rows, as read back from memory."""
        whole = data[: region.rows * region.row_bytes]
        padded = np.frombuffer(whole, dtype="<i2").reshape(region.rows, region.row_bytes // _VALUE_BYTES)
        return padded[:, : region.row_elements].astype(np.int16)

    def results_region(self, layer: int) -> Region:
        """Region of the results of a layer."""
        last = layer == self.header["layers"] - 1
        return self.region(RegionKind.RESULTS if last else RegionKind.HIDDEN, layer)

    @classmethod
    def from_bytes(cls, data: bytes) -> Image:
        """Read an image.

        Raises
        ------
        InputError
            If it is not an image of this version, or is damaged.
        """
        if len(data) < LINE_BYTES:
            raise InputError("image", f"has {len(data)} bytes", f"a header of {LINE_BYTES}")
        header = HEADER.from_bytes(data)
        if header["magic"] != MAGIC:
            raise InputError("image, magic", f"is 0x{header['magic']:08x}", f"0x{MAGIC:08x}")
        if header["version"] != VERSION:
            raise InputError("image, version", f"is {header['version']}", str(VERSION))
        if header["lines"] * LINE_BYTES != len(data):
            raise InputError(
                "image, size", f"is {len(data)} bytes", f"{header['lines'] * LINE_BYTES} as its header says"
            )
        checksum = zlib.crc32(data[LINE_BYTES:])
        if checksum != header["checksum"]:
            raise InputError("image, checksum", f"is 0x{checksum:08x}", f"0x{header['checksum']:08x}")
        _check_tables(header, len(data))
        regions = []
        for number in range(header["regions"]):
            at = header["region_table"] * LINE_BYTES + number * REGION.bytes
            entry = REGION.from_bytes(data[at : at + REGION.bytes])
            entry.pop("reserved", None)
            if entry["line"] * LINE_BYTES + entry["bytes"] > len(data):
                raise InputError(f"image, region {number}", "ends past the image", f"{len(data)} bytes at most")
            try:
                kind = RegionKind(entry.pop("kind"))
            except ValueError as error:
                raise InputError(f"image, region {number}", str(error), "a kind of region") from None
            if entry["rows"] * entry["row_bytes"] > entry["bytes"]:
                what = f"has {entry['rows']} rows of {entry['row_bytes']} bytes"
                raise InputError(f"image, region {number}", what, f"at most its {entry['bytes']} bytes")
            regions.append(Region(kind, **entry))
        return cls(data, header, tuple(regions))


def _check_tables(header: Mapping[str, int], size: int) -> None:
    """Refuse tables that do not lie inside the image."""
    for name, line, count, each in (
        ("region table", header["region_table"], header["regions"], REGION.bytes),
        ("command list", header["command_list"], header["commands"], LINE_BYTES),
    ):
        if line < 1 or line * LINE_BYTES + count * each > size:
            raise InputError(f"image, {name}", f"has {count} entries from line {line}", f"lines inside {size} bytes")
