"""cocotb's runner of Verilator, as the harness uses it.

A module of its own, so that simulators, which import the harness as well, do not load cocotb's runner.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from cocotb_tools.runner import Verilator

from sim.harness.build import (
    BYTECODE,
    ENDED_WITH_US,
    RUNTIME_OBJECTS,
    TOGETHER_MOST,
    BuildError,
    verilator_path,
)
from sim.harness.compiler import has_fst, make_variables

__all__ = ["FastVerilator"]

#: Program that puts all files into one.
_INCLUDER = "VERILATOR_INCLUDER=" + shlex.join([sys.executable, "-IS", str(Path(__file__).with_name("together.py"))])


class FastVerilator(Verilator):
    """cocotb's Verilator runner with only the top level's ports public (three times the speed)."""

    def __init__(self, runtime: Path | None = None, *, hierarchical: bool = False, lock: TextIO | None = None) -> None:
        super().__init__()
        self.runtime = runtime
        self.hierarchical = hierarchical
        self.lock = lock
        self.timeout: float | None = None
        self.log.setLevel(logging.CRITICAL)

    def _set_env_common(self) -> None:
        super()._set_env_common()
        self.env["PATH"] = os.pathsep.join([verilator_path(), self.env["PATH"]])
        # Each run loads its bench anew. What Python compiles for it is kept, even where the caller wants none kept.
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)
        self.env["PYTHONPYCACHEPREFIX"] = str(BYTECODE)

    def _simulator_in_path_build_only(self) -> None:
        found = shutil.which("verilator", path=verilator_path())
        if found is None:
            raise BuildError("verilator: program not found; `make setup` installs it")
        self.executable = found

    def _build_command(self) -> list[list[str]]:
        commands = super()._build_command()
        at = commands[0].index("--public-flat-rw")
        commands[0][at : at + 1] = ["--public-depth", "1"]
        if "--trace" in commands[0]:
            commands[0][commands[0].index("--trace")] = "--trace-fst" if has_fst() else "--trace-vcd"
        commands[1].append(_INCLUDER)
        if self.hierarchical:
            commands[0].insert(1, "--hierarchical")
            commands[1][commands[1].index("Vtop.mk")] = "Vtop_hier.mk"
        return commands

    def _execute_cmds(self, cmds: Sequence[list[str]], cwd: Any, stdout: TextIO | None = None) -> None:
        # Children keep the lock of the build: what is left of a build that was killed still writes into its folder.
        kept = () if self.lock is None else (self.lock.fileno(),)
        building = self.lock is not None
        for cmd in cmds:
            generated = sum(path.stat().st_size for path in self.build_dir.rglob("*.cpp"))
            if makes := cmd[0] == "make":
                cmd = [*cmd, *make_variables(together=generated <= TOGETHER_MOST)]
            if makes and self.runtime is not None:
                for name in RUNTIME_OBJECTS:
                    if (self.runtime / name).exists():
                        shutil.copyfile(self.runtime / name, self.build_dir / name)
            whole = [*ENDED_WITH_US, *cmd] if building else cmd
            with subprocess.Popen(
                whole, cwd=cwd, env=self.env, stdout=stdout, stderr=subprocess.STDOUT, pass_fds=kept
            ) as process:
                status = self._status(process)
            if status:
                raise subprocess.CalledProcessError(status, whole)

    def _status(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for a process, which is killed at the time limit; `subprocess` itself would look only every 50 ms."""
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self.timeout or threading.TIMEOUT_MAX, end)
        timer.daemon = True
        timer.start()
        try:
            status = process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            timer.cancel()
        if late.is_set():
            raise subprocess.TimeoutExpired(process.args, self.timeout or 0)
        return status
