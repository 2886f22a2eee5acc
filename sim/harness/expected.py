"""Exact cycle counts and areas that stand in ``tb/expected.toml``.

A change that moves a figure edits the file in the same commit. ``ATOLL_UPDATE=1`` with the test, or
``atoll synth BLOCK --update``, writes what was measured.
"""

from __future__ import annotations

import fcntl
import os
import re
import tomllib
from typing import Any

from sim.harness.build import ROOT

#: The file.
EXPECTED = ROOT / "tb" / "expected.toml"
#: Allowed relative difference of an area.
AREA_TOLERANCE = 0.02


def _table() -> dict[str, Any]:
    return tomllib.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}


def expect_cycles(name: str, cycles: int) -> None:
    """Compare the cycles of a named run with the checked-in number; exact.

    Parameters
    ----------
    name
        Name of the run, as ``<area>.<block>.<case>``, for example ``stream.arbiter.rounds.3``.
    cycles
        What was measured.

    Raises
    ------
    AssertionError
        If the number differs or is missing.
    """
    if os.environ.get("ATOLL_UPDATE"):
        record("cycles", name, cycles)
        return
    wanted = _table().get("cycles", {}).get(name)
    assert wanted is not None, (
        f"{name}: {cycles} cycles, but tb/expected.toml has no such entry (ATOLL_UPDATE=1 adds it)"
    )
    assert cycles == wanted, f"{name}: {cycles} cycles, expected {wanted} (ATOLL_UPDATE=1 changes tb/expected.toml)"


def expected_area(block: str) -> dict[str, int] | None:
    """Return the checked-in figures of `block`: ``luts``, ``ffs``, ``dsps``, ``brams``."""
    found = _table().get("area", {}).get(block)
    return dict(found) if found is not None else None


def record(section: str, name: str, value: int | dict[str, int]) -> None:
    """Write one entry of `section` into the file, in alphabetical order; other sections stay as they are."""
    written = str(value) if isinstance(value, int) else "{ " + ", ".join(f"{k} = {v}" for k, v in value.items()) + " }"
    with EXPECTED.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read()
        head = f"[{section}]\n"
        before, found, after = text.partition(head)
        assert found, f"{EXPECTED} has no section {section}"
        body, mark, rest = after.partition("\n[")
        entries = dict(re.findall(r'^"([^"]+)" = (.*)$', body, re.M))
        entries[name] = written
        body = "".join(f'"{key}" = {entries[key]}\n' for key in sorted(entries))
        file.seek(0)
        file.write(before + head + body + mark + rest)
        file.truncate()
