"""Runs that are killed, that share a folder, or that find no room, no tools and no right to write."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from contracts.errors import InputError
from scripts import cli
from scripts.blocks import UserError
from scripts.flows.outputs import checked_file, checked_folder, keep, publishing, replacing, scratch, write
from scripts.flows.run import Request
from scripts.flows.yosys import ToolError
from sim.harness.build import FORBIDDEN, ROOT
from tb.flows.results import run

ATOLL = [sys.executable, "-m", "scripts.cli", "run", "--config", "small"]


#: Files that a run leaves.
FILES = ["predictions.npz", "report.html", "result.json", "result.schema.json"]


def started(*arguments: str) -> subprocess.Popen[str]:
    """Start `atoll run` as a shell would, in a process group of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.Popen(
        [*ATOLL, *arguments],
        cwd=ROOT,
        env={**kept, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def said(process: subprocess.Popen[str], *, until: str = "") -> list[str]:
    """Return the lines of a run as far as one with `until` in it, or all."""
    lines = []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line.rstrip("\n"))
        if until and until in line:
            break
    return lines


@pytest.mark.parametrize(
    ("number", "steps"),
    [(signal.SIGKILL, ("training", "building", "simulating")), (signal.SIGINT, ("building", "simulating"))],
)
def test_a_killed_run_leaves_the_folder_usable(number: signal.Signals, steps: tuple[str], tmp_path: Path) -> None:
    """At several steps; the next run in the same folder is right, and nothing else remains."""
    out = tmp_path / "with space"
    for step in steps:
        with started("karate", "--out", str(out)) as process:
            lines = said(process, until=step)
            assert step in lines[-1], lines
            # A terminal interrupts all processes, a killer only finds one.
            (os.kill if number == signal.SIGKILL else os.killpg)(process.pid, number)
            rest = said(process)
        if number == signal.SIGKILL:
            assert process.wait() == -number
        else:
            assert (process.wait(), rest[-1]) == (130, "atoll: interrupted")
            assert not [line for line in rest if "Traceback" in line]
        assert not (out / "result.json").exists()
    assert run(Request("karate", config="small", out=out))["bit_exact"] is True
    assert sorted(path.name for path in out.iterdir()) == FILES


def test_an_interrupt_in_a_destructor_is_not_lost() -> None:
    """Python drops what a destructor raises: an interrupt that comes there has to come again."""
    program = """
import signal, sys, time
from scripts import cli

class Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

@cli.app.command()
def dies() -> None:
    Dying()
    time.sleep(60)

sys.argv = ["atoll", "dies"]
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (cli.INTERRUPTED, "atoll: interrupted\n")


def test_two_runs_share_a_folder(tmp_path: Path) -> None:
    """Each is right, and the files are those of one of them."""
    names = ["karate", "synthetic:erdos,nodes=40,degree=4"]
    first, second = (started(name, "--out", str(tmp_path)) for name in names)
    with first, second:
        lines = [*said(first), *said(second)]
    assert first.returncode == second.returncode == 0, lines
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


def test_steps_are_named_and_counted(tmp_path: Path) -> None:
    """From 1 to the last, also where there is no terminal; the announcement comes first."""
    with started("karate", "--no-rtl", "--out", str(tmp_path)) as process:
        lines = said(process)
    steps = ["training", "quantisation", "golden model", "report"]
    assert lines[0].startswith("atoll run karate: trains a gcn network, ")
    assert [line for line in lines if "/" in line][-4:] == [f"{n + 1}/4 {name}" for n, name in enumerate(steps)]


def test_a_folder_is_checked_before_anything_else(tmp_path: Path) -> None:
    """That the data set does not exist is found out later."""
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=r"^--out .*: there is a file of that name; expected a folder, or none"):
            run(Request("nothing", out=out))
    for name in ("/proc/atoll", "/proc/1"):
        with pytest.raises(InputError, match=rf"^--out {name}: .*; expected a folder that can be written to$"):
            checked_folder(Path(name))
    assert (tmp_path / "file").read_text() == "mine"
    with pytest.raises(InputError, match=r"^-o .*: there is a folder of that name; expected a file"):
        checked_file(tmp_path, "-o")


@pytest.mark.parametrize(
    "arguments",
    [
        ["islands", "nothing", "--out"],
        ["bench", "ring", "--out"],
        ["generate", "stream.queue", "--out"],
        ["asm", "nothing", "--out"],
        ["contracts", "--out"],
    ],
)
def test_every_command_checks_where_it_writes(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="there is a file of that name"):
        cli.app([*arguments, str(tmp_path / "file" / "below")], standalone_mode=False)


def main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the program; return its exit status."""
    monkeypatch.setattr(sys, "argv", ["atoll", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_full_disk_ends_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the results of the run before stay as they are."""
    (tmp_path / "result.json").write_text("before")

    def full(path: Path, *_: object) -> None:
        path.write_text("hal")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("scripts.flows.run.write_report", full)
    assert main(monkeypatch, "run", "karate", "--no-rtl", "--out", str(tmp_path)) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("atoll: ")
    assert last.endswith("report.html: No space left on device")
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert (tmp_path / "result.json").read_text() == "before"


def test_a_simulation_that_fails_ends_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it has left is kept, in place of what an earlier one left."""

    def fails(sizes: object, problem: object, exact: object, folder: Path, *_: object, **__: object) -> None:
        (folder / "run.log").touch()
        raise AssertionError(f"chiplet: failed, log in {folder.resolve()}/run.log\nmuch more")

    monkeypatch.setattr("scripts.flows.run.simulate", fails)
    for _ in range(2):
        assert main(monkeypatch, "run", "karate", "--config", "small", "--out", str(tmp_path)) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == f"atoll: chiplet: failed, log in {tmp_path}/failed/network/run.log"
    assert (tmp_path / "failed" / "network" / "run.log").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["failed"]


def test_a_disk_that_fills_up_while_simulating_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is kept there."""

    def fails(*_: object, **__: object) -> None:
        raise AssertionError("chiplet: no cocotb test was run")

    monkeypatch.setattr("scripts.flows.run.simulate", fails)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Namespace(free=0))
    with pytest.raises(ToolError, match="no space left on the disk"):
        run(Request("karate", config="small", out=tmp_path))
    assert not list(tmp_path.iterdir())


def test_missing_tools_are_named_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which

    def without(name: str, **how: Any) -> str | None:
        return None if name in ("make", "perl") else found(name, **how)

    monkeypatch.setattr(shutil, "which", without)
    monkeypatch.setattr("scripts.flows.prepare.load", lambda name: pytest.fail("the data set was loaded"))
    with pytest.raises(UserError, match=r"^simulating: make, perl not found; expected all that `atoll doctor` calls"):
        run(Request("karate", out=tmp_path))


@pytest.mark.parametrize("name", ["with space", "tab\there", *(f"with{character}" for character in FORBIDDEN)])
def test_a_checkout_that_make_cannot_use_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is installed, and by a run."""
    (tmp_path / name).mkdir()
    command = ["bash", str(ROOT / "scripts" / "check_system.sh"), sys.executable]
    done = subprocess.run(command, cwd=tmp_path / name, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"atoll: '{tmp_path / name}': make cannot build simulators")
    assert done.stderr.count("\n") == 1
    monkeypatch.setattr(import_module("sim.harness.build"), "ROOT", tmp_path / name)
    with pytest.raises(UserError, match="make cannot work in a folder of this name"):
        run(Request("karate", out=tmp_path))


def test_a_checkout_with_a_usual_name_is_not_refused(tmp_path: Path) -> None:
    folder = tmp_path / "Übung-1_a.b+c,d=e@f^g"
    folder.mkdir()
    command = ["bash", str(ROOT / "scripts" / "check_system.sh"), sys.executable]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert "folder of this name" not in done.stderr


def test_files_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "old")
    with contextlib.suppress(RuntimeError), replacing(tmp_path / "a.txt") as fresh:
        fresh.write_text("half")
        raise RuntimeError
    with contextlib.suppress(RuntimeError), publishing(tmp_path) as files:
        (files / "a.txt").write_text("new")
        (files / "b.txt").write_text("half")
        raise RuntimeError
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "old")]
    with publishing(tmp_path) as files:
        (files / "a.txt").write_text("new")
        (files / "b.txt").write_text("new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.txt": "new", "b.txt": "new"}


def test_scratch_is_removed_unless_it_is_kept_or_in_use(tmp_path: Path) -> None:
    with scratch(tmp_path) as mine, scratch(tmp_path) as other:
        assert mine != other
        assert mine.exists()
        (mine / "log").touch()
        assert keep(mine, tmp_path) == tmp_path / "failed"
    assert [path.name for path in tmp_path.iterdir()] == ["failed"]
    assert (tmp_path / "failed" / "log").exists()


def test_a_folder_that_a_command_made_goes_unless_it_has_results(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    assert checked_folder(out) == out
    assert not (tmp_path / "new").exists()
    with contextlib.suppress(RuntimeError), scratch(out):
        raise RuntimeError
    assert not (tmp_path / "new").exists()
    with scratch(out), publishing(out) as files:
        (files / "a.txt").touch()
    assert [path.name for path in out.iterdir()] == ["a.txt"]
    out.joinpath("a.txt").unlink()
    with scratch(out):
        pass
    assert out.exists()
