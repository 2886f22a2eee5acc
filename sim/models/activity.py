"""When the parts of a simulated machine worked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from sim.models.recorders import recording

__all__ = ["WINDOW", "activity", "cycles_so_far"]

#: Cycles that one count stands for.
WINDOW = 64
#: Bytes of a file's head in which its first line ends.
_HEAD = 1024


def activity(directory: Path, number: int = 0) -> npt.NDArray[np.uint8]:
    """Return when the parts of a chiplet worked.

    Parameters
    ----------
    directory, number
        As for `sim.models.recorders.recording`.

    Returns
    -------
    array
        uint8 [windows, parts]: of each `WINDOW` cycles since the start of the simulation those in which a part (by
        the configuration's ``parts``) worked.
    """
    # A last line without its end has found no room on the disk.
    lines = recording("activity", directory, number).read_text().split("\n")[:-1]
    return np.array([list(bytes.fromhex(line)) for line in lines], dtype=np.uint8)


def cycles_so_far(directory: Path) -> int | None:
    """Return how many cycles a simulation that writes into `directory` has done, as far as they are on disk.

    It costs the simulation nothing: every line of a recorder stands for `WINDOW` cycles, and all are equally long.

    Parameters
    ----------
    directory
        Folder of the recordings; that of chiplet 0 is read.

    Returns
    -------
    int | None
        Cycles since the start of the simulation; None if it has not begun.
    """
    path = recording("activity", directory)
    if not path.exists():
        return None
    with path.open("rb") as file:
        length = file.read(_HEAD).find(b"\n") + 1
        return file.seek(0, 2) // length * WINDOW if length else 0
