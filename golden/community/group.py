"""Groups of communities of one node, which share hubs and can share sums then (I7, I8)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from golden.locator.record import Record

__all__ = ["grouped"]

#: Most VIDs of a group's window, twice its rows; groups that are open at a time; rows of each hub in the mean.
_WINDOW, _OPEN, _SHARED = 32, 16, 4


@dataclass
class _Group:
    """Communities of one node that are collected, all with hubs in the window that begins with a step."""

    step: int
    rows: list[Record] = field(default_factory=list)

    def records(self, rows: int) -> list[Record]:
        """Return one record if there are so many rows, or those that were collected, as they are emitted."""
        hubs = np.unique(np.concatenate([row.hubs for row in self.rows]))
        entries = sum(row.hubs.size for row in self.rows)
        if len(self.rows) < rows or entries < _SHARED * hubs.size or hubs[-1] - hubs[0] >= hubs.size:
            return [replace(row, hubs=np.sort(row.hubs), round_number=0) for row in self.rows]
        diagonal = np.eye(len(self.rows), dtype=np.bool_)
        links = np.array([np.isin(hubs, row.hubs) for row in self.rows])
        nodes = np.concatenate([row.nodes for row in self.rows])
        return [Record(nodes, hubs, np.hstack([diagonal, links]), 0)]


def grouped(records: Iterable[Record], width: int) -> Iterator[Record]:
    """Yield the rows of a stream of records, with those of one node in groups, in the order of the hardware.

    Parameters
    ----------
    records
        Those of one stream, in its order.
    width
        Most nodes and hubs of a record together, at least 4.

    Yields
    ------
    Record
        Records that were collected have round 0.
    """
    window = min(_WINDOW, 1 << (width.bit_length() - 2))
    size = window // 2
    rows = max(2, size)
    groups: dict[int, _Group] = {}
    for record in records:
        if not _is_collected(record, window):
            yield record
            continue
        step = int(record.hubs[0]) // size
        place = step % _OPEN
        if place in groups and groups[place].step != step:
            yield from groups.pop(place).records(rows)
        group = groups.setdefault(place, _Group(step))
        group.rows.append(record)
        if len(group.rows) == rows:
            yield from groups.pop(place).records(rows)
    for place in sorted(groups):
        yield from groups[place].records(rows)


def _is_collected(record: Record, window: int) -> bool:
    """Return whether a record is a whole community of one node with its hubs in the window of the first one."""
    if record.hub_edges or record.part or not record.last_part:
        return False
    if record.nodes.size != 1 or not 1 <= record.hubs.size <= window:
        return False
    steps = record.hubs // (window // 2)
    return bool(((steps == steps[0]) | (steps == steps[0] + 1)).all())
