"""Set-up of every pytest run, and the table of blocks at its end."""

from __future__ import annotations

import gc
import json
import warnings
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import UnusedElaboratable

from sim.harness.build import ROOT
from sim.harness.run import completed, waveform

#: Name under which a test's simulations travel in its report, from worker to controller.
PROPERTY = "atoll simulations"


@dataclass
class Row:
    """What the tests of one block did."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    benches: int = 0
    cycles: int = 0
    seconds: float = 0.0


def pytest_configure(config: pytest.Config) -> None:
    """Let benches make components only to ask for their shapes or to see them refused."""
    config.addinivalue_line("filterwarnings", "ignore::amaranth.hdl.UnusedElaboratable")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect what tests only made, while warnings about it are let pass: pytest's own filters end before that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what was simulated into the test's report."""
    report = yield
    if completed:
        simulations = [
            {
                "tests": result.tests,
                "cycles": result.cycles,
                "seconds": result.seconds,
                "waves": str(waveform(result.directory) or ""),
            }
            for result in completed
        ]
        report.user_properties.append((PROPERTY, simulations))
        completed.clear()
    return report


def _block(node: str) -> str:
    """Return ``area.block`` for the node of a test."""
    path = Path(node.split("::")[0])
    return f"{path.parent.name}.{path.stem.removeprefix('test_')}"


def _coverage(block: str) -> str:
    """Return line and branch coverage of the last ``make cover``, if there was one."""
    path = ROOT / "build" / "cover" / f"{block.replace('.', '_')}.json"
    if not path.exists():
        return "-"
    counts = json.loads(path.read_text())["counts"]
    return " ".join(f"{100 * hit // total if total else 100}" for hit, total in (counts["line"], counts["branch"]))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print one line for each block: tests, simulated cycles, coverage; then where waveforms are."""
    rows: dict[str, Row] = defaultdict(Row)
    waves = []
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            row = rows[_block(report.nodeid)]
            name = "failed" if outcome == "error" else outcome
            setattr(row, name, getattr(row, name) + 1)
            for key, value in getattr(report, "user_properties", ()):
                if key == PROPERTY:
                    row.benches += sum(entry["tests"] for entry in value)
                    row.cycles += sum(entry["cycles"] for entry in value)
                    row.seconds += sum(entry["seconds"] for entry in value)
                    waves += [entry["waves"] for entry in value if entry["waves"]]
    if not rows:
        return
    width = max(len(name) for name in rows)
    terminalreporter.section("blocks")
    terminalreporter.line(
        f"{'block':{width}} {'passed':>7} {'failed':>7} {'skipped':>7} {'sim tests':>9} {'cycles':>12} {'sim s':>7} "
        f"{'line/branch %':>14}"
    )
    for name, row in sorted(rows.items()):
        terminalreporter.line(
            f"{name:{width}} {row.passed:7} {row.failed:7} {row.skipped:7} {row.benches:9} {row.cycles:12,} "
            f"{row.seconds:7.1f} {_coverage(name):>14}",
            red=row.failed > 0,
        )
    terminalreporter.line(
        f"{'all':{width}} {sum(r.passed for r in rows.values()):7} {sum(r.failed for r in rows.values()):7} "
        f"{sum(r.skipped for r in rows.values()):7} {sum(r.benches for r in rows.values()):9} "
        f"{sum(r.cycles for r in rows.values()):12,} {sum(r.seconds for r in rows.values()):7.1f}"
    )
    for path in waves:
        terminalreporter.line(f"waveform: {path}")
