"""When the parts of a simulated machine worked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["WINDOW", "activity", "activity_plusarg"]

#: Cycles that one count stands for.
WINDOW = 64


def _path(directory: Path, number: int | None) -> Path:
    return directory / f"activity{'' if number is None else number}.txt"


def activity_plusarg(directory: Path, number: int | None = None) -> str:
    """Plusarg that lets a machine's `activity_recorder` write into `directory`.

    Parameters
    ----------
    directory
        It must exist.
    number
        Of the machine on a ring; None: it is alone.
    """
    return f"+activity{'' if number is None else number}={_path(directory, number)}"


def activity(directory: Path, number: int | None = None) -> npt.NDArray[np.uint8]:
    """Return when the parts of a machine worked.

    Parameters
    ----------
    directory, number
        As for `activity_plusarg`.

    Returns
    -------
    array
        uint8 [windows, parts]: of each `WINDOW` cycles since the start of the simulation those in which a part (by
        the configuration's ``parts``) worked.
    """
    lines = _path(directory, number).read_text().split()
    return np.array([list(bytes.fromhex(line)) for line in lines], dtype=np.uint8)
