"""The records that the locator of a simulated machine has handed out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from contracts import RECORD_HEADER
from golden.locator.record import BEAT_BITS, Record, records_of
from sim.models.recorders import recording

__all__ = ["located"]


def located(directory: Path, number: int = 0) -> list[list[Record]]:
    """Return the records that a chiplet has located since the start of the simulation.

    Parameters
    ----------
    directory, number
        As for `sim.models.recorders.recording`.

    Returns
    -------
    list
        For each location that has come to its end its records, streams one after another, with VIDs as they are in the
        machine's memory.
    """
    streams: dict[int, list[int]] = {}
    for line in recording("records", directory, number).read_text().splitlines():
        stream, beat = line.split()
        streams.setdefault(int(stream), []).append(int(beat, 16))
    # Each stream of a location ends, also without a record.
    ended = zip(*(_ended(beats) for _, beats in sorted(streams.items())), strict=False)
    return [[record for beats in location for record in records_of(beats)] for location in ended]


def _ended(beats: Iterable[int]) -> Iterator[list[int]]:
    """Cut a stream behind the beats that end it; those with which it breaks off are dropped."""
    held: list[int] = []
    inside = False
    for beat in beats:
        held.append(beat & ((1 << BEAT_BITS) - 1))
        if not inside and RECORD_HEADER.unpack(held[-1])["end"]:
            yield held
            held = []
            continue
        inside = not beat >> BEAT_BITS
