"""When the parts of a simulated machine worked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["WINDOW", "activity", "activity_plusarg", "cycles_so_far"]

#: Cycles that one count stands for.
WINDOW = 64


#: Bytes of a file's head in which its first line ends.
_HEAD = 1024


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
    # A last line without its end has found no room on the disk.
    lines = _path(directory, number).read_text().split("\n")[:-1]
    return np.array([list(bytes.fromhex(line)) for line in lines], dtype=np.uint8)


def cycles_so_far(directory: Path) -> int | None:
    """Return how many cycles a simulation that writes into `directory` has done, as far as they are on disk.

    It costs the simulation nothing: every line of a recorder stands for `WINDOW` cycles, and all are equally long.

    Parameters
    ----------
    directory
        As for `activity_plusarg`; the first recorder there is looked at.

    Returns
    -------
    int | None
        Cycles since the start of the simulation; None if it has not begun.
    """
    path = next((path for path in (_path(directory, None), _path(directory, 0)) if path.exists()), None)
    if path is None:
        return None
    with path.open("rb") as file:
        length = file.read(_HEAD).find(b"\n") + 1
        return file.seek(0, 2) // length * WINDOW if length else 0
