"""The path that bounds a clock, in one line, from nextpnr's report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

__all__ = ["longest_path", "plain_name"]

#: What Yosys appends to the name of a register or of a word of memory when it makes cells of it.
_CELLS = re.compile(r"(?:_(?:TRELLIS|DP16KD|PDPW16KD|MULT18X18D|CCU2C|LUT4)|\$auto\$|\.\d+\.\d+(?:_|$)).*")


def longest_path(report: Path) -> str | None:
    """Return the path between registers that bounds the clock: from where to where, ns, and ns of them in wires.

    Parameters
    ----------
    report
        That of nextpnr, of a block in its shell.

    Returns
    -------
    str or None
        `None` where nextpnr reported none, as for a design that is not routed.
    """
    for path in json.loads(report.read_text())["critical_paths"] if report.exists() else ():
        if path["from"] == path["to"]:
            return _line(path["path"])
    return None


def _line(steps: list[dict[str, Any]]) -> str:
    total = sum(step["delay"] for step in steps)
    wires = sum(step["delay"] for step in steps if step["type"] == "routing")
    start, end = (plain_name(cell) for cell in (steps[0]["from"]["cell"], steps[-1]["to"]["cell"]))
    return f"{start} → {end}: {total:.1f} ns, {wires:.1f} in wires"


def plain_name(cell: str) -> str:
    """Return the name of a register in a shell without what Yosys appends."""
    return _CELLS.sub("", cell.removeprefix("block."))
