"""The records that the locator of a simulated machine has handed out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from contracts import RECORD_HEADER
from golden.locator.record import BEAT_BITS, Record, records_of
from hw.community.engine import CommunityEngine
from sim.models.recorders import recording

__all__ = ["Source", "located", "record_source"]

#: Attributes that name the part of a machine that the engine is in; instances in Verilog have the same names.
_AROUND = ("machine", "engine")


class Source(NamedTuple):
    """Where records are handed out in a design.

    Attributes
    ----------
    path
        Of the instance, from the design on.
    streams
        Streams of records that it has.
    """

    path: str
    streams: int

    def signals(self, design: str, name: str) -> str:
        """Return the signal `name` of all streams, that of stream 0 lowest, in a design of this instance name."""
        wires = [f"{design}.{self.path}.records__{n}__{name}" for n in reversed(range(self.streams))]
        return f"{{{', '.join(wires)}}}"


def record_source(component: Any) -> Source | None:
    """Find the locator of a community engine in the chiplet or machine around it.

    Parameters
    ----------
    component
        A machine, or anything else.

    Returns
    -------
    Source or None
        None if there is no such engine.
    """
    path: list[str] = []
    while not isinstance(component, CommunityEngine):
        name = next((name for name in _AROUND if hasattr(component, name)), None)
        if name is None:
            return None
        component = getattr(component, name)
        path.append(name)
    return Source(".".join([*path, "locator"]), component.config.locator.outputs)


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
