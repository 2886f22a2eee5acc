"""The container of a chiplet's memory image: header, region table, command list and data (`docs/contracts.md`)."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.contracts import (
    COMMANDS,
    HEADER,
    LINE_BYTES,
    MAGIC,
    REGION,
    ROW_BYTES,
    SCALE,
    SPARSE_ENTRY,
    VALUE_BITS,
    VERSION,
    Opcode,
    RegionKind,
)
from golden.errors import InputError
from golden.graph import IntArray
from golden.model.layer import Int16Array
from golden.model.network import Problem
from golden.model.scale import Scales

__all__ = ["Builder", "Command", "Image", "Region", "assemble", "place_sparse", "row_bytes", "scale_words"]

_VALUE_BYTES = VALUE_BITS // 8
#: Lines are counted in 32 bits and lie behind ports of at most 38 address bits.
_LINES_MAX = 1 << 32


def row_bytes(elements: int) -> int:
    """Distance of dense rows, in bytes: int16 elements padded to a multiple of 32 bytes."""
    return max(1, -(-elements * _VALUE_BYTES // ROW_BYTES)) * ROW_BYTES


def _lines(size: int) -> int:
    return -(-size // LINE_BYTES)


def scale_words(scales: Scales) -> npt.NDArray[np.uint32]:
    """uint32 [nodes], factors as they lie in memory."""
    exponent = scales.exponent.astype(np.uint32) << np.uint32(SCALE.offsets["exponent"])
    return scales.mantissa.astype(np.uint32) | exponent


@dataclass(frozen=True)
class Region:
    """An entry of the region table.

    Attributes
    ----------
    kind, layer
        What it holds.
    line
        Where it starts, in lines from the start of the image.
    bytes
        Size without padding.
    rows, row_elements, row_bytes
        Shape: number of rows, elements of a row, distance of rows in bytes.
    """

    kind: RegionKind
    layer: int
    line: int
    bytes: int
    rows: int
    row_elements: int
    row_bytes: int

    @property
    def address(self) -> int:
        """Byte address of its start."""
        return self.line * LINE_BYTES

    def values(self) -> dict[str, int]:
        """Fields of its entry in the region table."""
        names = ("kind", "layer", "line", "bytes", "rows", "row_elements", "row_bytes")
        return {name: int(getattr(self, name)) for name in names}


@dataclass(frozen=True)
class Command:
    """An entry of the command list; fields that are not named are 0."""

    opcode: Opcode
    fields: Mapping[str, int]

    def to_bytes(self) -> bytes:
        """Its 64 bytes."""
        return COMMANDS[self.opcode].to_bytes({"opcode": self.opcode, **self.fields})


class Builder:
    """Places regions one behind another; the header and the two tables come first."""

    def __init__(self, regions: int, commands: int) -> None:
        self.table_line = 1
        self.command_line = self.table_line + _lines(regions * REGION.bytes)
        self.next_line = self.command_line + commands
        self.regions: list[Region] = []
        self.parts: list[tuple[int, bytes]] = []

    def add(self, kind: RegionKind, layer: int, data: bytes, rows: int, elements: int, distance: int) -> Region:
        """Place `data`; bytes that are reserved without data are left out of `parts` and so are 0."""
        region = self.reserve(kind, layer, len(data), rows, elements, distance)
        self.parts.append((region.address, data))
        return region

    def reserve(self, kind: RegionKind, layer: int, size: int, rows: int, elements: int, distance: int) -> Region:
        """Place a region of `size` bytes that are 0."""
        region = Region(kind, layer, self.next_line, size, rows, elements, distance)
        self.next_line += max(1, _lines(size))
        self.regions.append(region)
        return region

    def words(self, kind: RegionKind, values: npt.ArrayLike, layer: int = 0, dtype: str = "<u4") -> Region:
        """Place 32-bit words, one a row."""
        data = np.asarray(values).astype(dtype)
        return self.add(kind, layer, data.tobytes(), data.size, 1, data.itemsize)

    def scales(self, kind: RegionKind, scales: Scales) -> Region:
        """Place factors, one a row."""
        return self.words(kind, scale_words(scales))

    def rows(self, kind: RegionKind, values: Int16Array, layer: int = 0) -> Region:
        """Place padded rows of int16."""
        count, elements = values.shape
        distance = row_bytes(elements)
        padded = np.zeros((count, distance // _VALUE_BYTES), dtype="<i2")
        padded[:, :elements] = values
        return self.add(kind, layer, padded.tobytes(), count, elements, distance)

    def reserve_rows(self, kind: RegionKind, count: int, elements: int, layer: int = 0) -> Region:
        """Place padded rows of int16 that are 0."""
        distance = row_bytes(elements)
        return self.reserve(kind, layer, count * distance, count, elements, distance)


@dataclass(frozen=True, eq=False)
class Image:
    """An image and what is known of it.

    Attributes
    ----------
    data
        Its bytes, a whole number of lines.
    header
        Fields of the header.
    regions
        Region table.
    commands
        Number of commands.
    """

    data: bytes
    header: Mapping[str, int]
    regions: tuple[Region, ...]

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
    def from_bytes(cls, data: bytes) -> "Image":
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


def place_sparse(b: Builder, features: Any, *, apart: bool = False) -> tuple[Region, int, Region]:
    """Place sparse features; return their region, the number of entries and the region of the rows' offsets.

    With `apart`, for readers that fetch every row by itself, no row touches more granules of 32 bytes than it must:
    entries of zeros at the end of a row, which cost no operation, push the next one into another granule.
    """
    offsets = _begins_apart(features) if apart else np.asarray(features.indptr)
    entries = np.zeros(offsets[-1], dtype=SPARSE_ENTRY.dtype)
    pushed = np.repeat((offsets - features.indptr)[:-1], np.diff(features.indptr))
    at = np.arange(features.nnz) + pushed
    entries["index"][at], entries["value"][at] = features.indices, features.data
    region = b.add(
        RegionKind.FEATURES_SPARSE, 0, entries.tobytes(), entries.size, features.shape[1], SPARSE_ENTRY.bytes
    )
    return region, entries.size, b.words(RegionKind.FEATURE_OFFSETS, offsets)


def _begins_apart(features: Any) -> IntArray:
    """Return where rows begin, and the end of the last: as close as can be without touching a granule too many.

    A row is filled up to as many entries as there are columns at most, and one without entries not at all.
    """
    granule = ROW_BYTES // SPARSE_ENTRY.bytes
    lengths = np.diff(features.indptr)
    filled = np.flatnonzero(lengths)
    begins, begin, end = [], 0, 0
    for length in lengths[filled].tolist():
        next_granule = -(-end // granule) * granule
        touches_more = (end % granule + length - 1) // granule > (length - 1) // granule
        begin = next_granule if touches_more and next_granule - begin <= features.shape[1] else end
        begins.append(begin)
        end = begin + length
    # Rows without entries lie where the next one with some begins.
    return np.asarray([*begins, end])[np.searchsorted(filled, np.arange(lengths.size + 1))]


def assemble(b: Builder, commands: list[Command], problem: Problem, **fields: int) -> Image:
    """Image of regions and commands; `fields` of the header differ from those of a chiplet that works alone.

    Raises
    ------
    InputError
        If it would be larger than 2^32 lines.
    """
    if b.next_line >= _LINES_MAX:
        raise InputError("image", f"would have {b.next_line} lines", f"fewer than {_LINES_MAX}")
    data = bytearray(b.next_line * LINE_BYTES)
    for number, region in enumerate(b.regions):
        at = b.table_line * LINE_BYTES + number * REGION.bytes
        data[at : at + REGION.bytes] = REGION.to_bytes(region.values())
    for number, command in enumerate(commands):
        at = (b.command_line + number) * LINE_BYTES
        data[at : at + LINE_BYTES] = command.to_bytes()
    for at, part in b.parts:
        data[at : at + len(part)] = part
    graph = problem.graph
    header = {
        "magic": MAGIC,
        "version": VERSION,
        "model": problem.model.model,
        "layers": len(problem.model.layers),
        "chiplet": 0,
        "chiplets": 1,
        "regions": len(b.regions),
        "region_table": b.table_line,
        "command_list": b.command_line,
        "commands": len(commands),
        "vertices": graph.nodes,
        "first_vertex": 0,
        "owned": graph.nodes,
        "edges": graph.edge_count,
        "lines": b.next_line,
        "checksum": zlib.crc32(data[LINE_BYTES:]),
        **fields,
    }
    data[:LINE_BYTES] = HEADER.to_bytes(header)
    return Image(bytes(data), header, tuple(b.regions))
