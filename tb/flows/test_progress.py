"""The steps that a command shows: names, cycles so far, about how long it will still take."""

import io
import re
import time
from pathlib import Path

import pytest
from rich.console import Console

from scripts.flows import progress
from scripts.flows.progress import Former, Steps, building, duration, former, remember, simulating
from sim.models.activity import WINDOW, cycles_so_far
from sim.models.recorders import recording

NAMES = ["training", building(), simulating(), building("the head"), simulating("the head"), "report"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_FORMER", tmp_path / "runs")
    monkeypatch.setattr(progress, "_LOOK", 0.001)


def lines_of(out: io.StringIO, count: int) -> list[str]:
    """Return what has been printed, `count` lines at least."""
    while len(lines := out.getvalue().splitlines()) < count:
        time.sleep(0.001)
    return lines


def test_steps_go_from_one_to_all_and_may_be_left_out() -> None:
    out = io.StringIO()
    with Steps(NAMES, console=Console(file=out)) as steps:
        steps.step("training")
        steps.step(building())
        with steps.simulating(simulating(), lambda: None):
            pass
        steps.step("report")
    assert out.getvalue().splitlines() == ["1/6 training", f"2/6 {building()}", f"3/6 {simulating()}", "6/6 report"]
    with pytest.raises(ValueError, match="training"):
        steps.step("training")


def test_cycles_are_shown_now_and_then() -> None:
    out, done = io.StringIO(), 0
    with Steps(NAMES, console=Console(file=out), line=0.0) as steps:
        with steps.simulating(simulating(), lambda: done, 1000):
            lines_of(out, 3)
            done = 12_345
            seen = len(lines_of(out, 1))
            lines_of(out, seen + 2)
        steps.step("report")
    lines = out.getvalue().splitlines()
    assert lines[0] == "3/6 simulating: 0 of at least 1,000 cycles"
    assert any(re.fullmatch(r"3/6 simulating: 12,345 of at least 1,000 cycles, \d+ s", line) for line in lines)


def test_a_former_run_says_how_long_it_takes() -> None:
    remember("kind", {simulating(): Former(170.0, 20_000), "training": Former(170.0), building(): Former(90.0)})
    out, done = io.StringIO(), 0
    with Steps(NAMES, "kind", Console(file=out)) as steps:
        steps.step("training")
        steps.step(building())
        with steps.simulating(simulating(), lambda: done) as ended:
            ended(30_000)
    lines = out.getvalue().splitlines()
    assert lines[0] == "1/6 training: about 3 min left"
    assert f"2/6 {building()}: at most about 90 s in all" in lines
    assert lines[2] == "3/6 simulating: 0 of about 20,000 cycles, about 3 min left"
    # Kept for the next time; of building the longest.
    kept = former("kind")
    assert (kept[simulating()].cycles, kept[building()].seconds) == (30_000, 90.0)
    assert former("another kind") == {}


def test_a_run_that_fails_is_not_remembered() -> None:
    with pytest.raises(RuntimeError), Steps(NAMES, "kind", Console(file=io.StringIO())):
        raise RuntimeError
    assert former("kind") == {}


def test_a_terminal_has_a_bar_that_begins_at_zero() -> None:
    out = io.StringIO()
    with Steps(NAMES, console=Console(file=out, force_terminal=True, width=120)) as steps:
        steps.step("training")
        steps.step("report")
    assert "0/6" in out.getvalue()
    assert "-1/6" not in out.getvalue()


def test_a_damaged_file_of_former_runs_is_no_error(tmp_path: Path) -> None:
    remember("kind", {"training": Former(1.0)})
    for path in (tmp_path / "runs").iterdir():
        path.write_text("{")
    assert former("kind") == {}


def test_cycles_so_far_are_the_recorders_lines(tmp_path: Path) -> None:
    assert cycles_so_far(tmp_path) is None
    path = recording("activity", tmp_path)
    path.write_text("")
    assert cycles_so_far(tmp_path) == 0
    path.write_text("00ff\n" * 7 + "00")
    assert cycles_so_far(tmp_path) == 7 * WINDOW


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (42.4, "42 s"), (170, "3 min"), (7300, "2 h")])
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
