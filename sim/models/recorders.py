"""Files into which a simulated machine records what it does, one of each kind for each chiplet."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

__all__ = ["Kind", "recorder_plusargs", "recording"]

#: Kinds of recorders: `sim.models.activity` and `sim.models.records`.
Kind = Literal["activity", "records"]
_KINDS: tuple[Kind, ...] = ("activity", "records")


def recording(kind: Kind, directory: Path, number: int = 0) -> Path:
    """Return the file in `directory` that a recorder of the chiplet at position `number` writes."""
    return directory / f"{kind}{number}.txt"


def recorder_plusargs(directory: Path, chiplets: int = 1) -> list[str]:
    """Return the plusargs that make all recorders of a machine write into `directory`, which must exist."""
    return [f"+{kind}{n}={recording(kind, directory, n)}" for n in range(chiplets) for kind in _KINDS]
