"""Community records of the locator, as arrays and as beats of the record stream (I4)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from contracts import RECORD_HEADER
from golden.graph import BoolArray, IntArray

__all__ = ["BEAT_BITS", "Record", "beats_of", "records_of"]

#: Width of a beat of the record stream.
BEAT_BITS = 64
_VID_BITS = 32


@dataclass(frozen=True, eq=False)
class Record:
    """A community, or one hub with the hubs that it is joined to.

    Attributes
    ----------
    nodes
        int64 [n], VIDs of the community in the order of the search; one hub if `hub_edges`.
    hubs
        int64 [h], VIDs of the hubs of this part, in the order of discovery.
    bitmap
        bool [n, n + h], local adjacency: columns nodes then hubs. The diagonal is set in part 0.
    round_number
        Round of detection, from 0.
    part
        0 for the first part; the others have no node columns set.
    last_part
        No part of the same community follows. Parts of a hub stand alone: all are last.
    hub_edges
        The node is a hub and its columns are hub-hub edges.
    """

    nodes: IntArray
    hubs: IntArray
    bitmap: BoolArray
    round_number: int
    part: int = 0
    last_part: bool = True
    hub_edges: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Key without the order of nodes and hubs: records with equal keys are equal as sets."""
        rows, columns = np.argsort(self.nodes), np.argsort(self.hubs)
        order = np.concatenate([rows, self.nodes.size + columns]).astype(np.int64)
        return (
            tuple(self.nodes[rows].tolist()),
            tuple(self.hubs[columns].tolist()),
            self.bitmap[rows][:, order].tobytes(),
            self.round_number,
            self.hub_edges,
        )


def beats_of(record: Record, piece: int | None = None) -> list[int]:
    """Return the 64-bit beats of a record.

    Parameters
    ----------
    record
        The record.
    piece
        The share of the record of which only this piece of node rows is summed (I5); default: the whole record.
    """
    header = {
        "nodes": record.nodes.size,
        "hubs": record.hubs.size,
        "round": record.round_number,
        "part": record.part,
        "last_part": int(record.last_part),
        "hub_edges": int(record.hub_edges),
        "shared": int(piece is not None),
        "piece": piece or 0,
    }
    beats = [RECORD_HEADER.pack(header)]
    for vids in (record.nodes, record.hubs):
        numbers = [int(vid) for vid in vids]
        beats += [
            sum(vid << (_VID_BITS * lane) for lane, vid in enumerate(numbers[i : i + 2]))
            for i in range(0, len(numbers), 2)
        ]
    for row in record.bitmap:
        word = sum(1 << int(column) for column in np.flatnonzero(row))
        beats += [word >> at & ((1 << BEAT_BITS) - 1) for at in range(0, row.size, BEAT_BITS)]
    return beats


def records_of(beats: Iterable[int]) -> Iterator[Record]:
    """Read records from beats, up to the beat with ``end``.

    Raises
    ------
    ValueError
        If the beats end before the stream, or continue after it.
    """
    source = iter(beats)
    try:
        while not (header := RECORD_HEADER.unpack(next(source)))["end"]:
            nodes = _vids(source, header["nodes"])
            hubs = _vids(source, header["hubs"])
            bitmap = np.zeros((nodes.size, nodes.size + hubs.size), dtype=np.bool_)
            words = -(-bitmap.shape[1] // BEAT_BITS)
            for row in bitmap:
                held = np.array([next(source) for _ in range(words)], dtype="<u8")
                bits = np.unpackbits(held.view(np.uint8), bitorder="little")
                if bits[row.size :].any():
                    raise ValueError(f"bits are set behind the {row.size} of a row")
                row[:] = bits[: row.size]
            yield Record(
                nodes=nodes,
                hubs=hubs,
                bitmap=bitmap,
                round_number=header["round"],
                part=header["part"],
                last_part=bool(header["last_part"]),
                hub_edges=bool(header["hub_edges"]),
            )
    except (StopIteration, RuntimeError):
        raise ValueError("the beats end within a record or without the end of the stream") from None
    if next(source, None) is not None:
        raise ValueError("beats follow the end of the stream")


def _vids(source: Iterator[int], count: int) -> IntArray:
    vids: list[int] = []
    while len(vids) < count:
        beat = next(source)
        vids += [beat & 0xFFFFFFFF, beat >> _VID_BITS]
    return np.array(vids[:count], dtype=np.int64)
