"""What reading a tiled CSR must yield (R9, R10), word by word, written without regard to beats or cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contracts import Error

__all__ = ["Request", "Segment", "pieces", "segments"]


@dataclass(frozen=True)
class Segment:
    """One tile of one row: words ``begin`` to ``end - 1`` of the array."""

    row: int
    tile: int
    begin: int
    end: int


@dataclass(frozen=True)
class Request:
    """Rows to read.

    Attributes
    ----------
    rows, tiles
        Shape of the offsets.
    array
        Words of the array.
    offsets
        ``rows * tiles + 1`` boundaries; None for rows of `stride` words.
    stride
        Words of a uniform row.
    paired
        Offsets count pairs of words.
    """

    rows: int
    tiles: int
    array: Sequence[int]
    offsets: Sequence[int] | None
    stride: int = 0
    paired: bool = False

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[Sequence[int]]]) -> Request:
        """Request for given rows of tiles of words."""
        array: list[int] = []
        offsets = [0]
        for row in rows:
            for tile in row:
                array += tile
                offsets.append(len(array))
        return cls(len(rows), len(rows[0]), array, offsets)


def segments(request: Request) -> tuple[list[Segment], list[tuple[Error, int]]]:
    """Return every segment in order, and every report with its row.

    An offset below the one before it counts as that one, an offset past the array as its end.
    """
    length = len(request.array)
    found: list[Segment] = []
    reports: list[tuple[Error, int]] = []
    if request.offsets is not None and request.offsets[0] != 0 and request.rows:
        reports.append((Error.OFFSET_ORDER, 0))
    begin = 0
    for number in range(request.rows * request.tiles):
        row, tile = divmod(number, request.tiles)
        end = begin + request.stride if request.offsets is None else request.offsets[number + 1] << request.paired
        final = number == request.rows * request.tiles - 1
        if end < begin:
            reports.append((Error.OFFSET_ORDER, row))
            end = begin
        elif end > length or (final and end != length):
            reports.append((Error.EDGE_RANGE, row))
            end = min(end, length)
        found.append(Segment(row, tile, begin, end))
        begin = end
    return found, reports


def pieces(segment: Segment, words: int) -> list[tuple[int, int]]:
    """Beat and mask of each beat of `words` words that a segment needs; an empty one has a beat without words."""
    found = []
    for beat in range(segment.begin // words, max(segment.begin // words, (segment.end - 1) // words) + 1):
        inside = [segment.begin <= beat * words + word < segment.end for word in range(words)]
        found.append((beat, sum(bit << word for word, bit in enumerate(inside))))
    return found
