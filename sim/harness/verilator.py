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
    digest,
    locked,
    verilator_headers,
    verilator_path,
)
from sim.harness.compiler import has_fst, make_variables

__all__ = ["FastVerilator"]

#: Program that puts all files into one.
_INCLUDER = (sys.executable, "-IS", str(Path(__file__).with_name("together.py")))


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
        if self.hierarchical:
            commands[0].insert(1, "--hierarchical")
            commands[1][commands[1].index("Vtop.mk")] = "Vtop_hier.mk"
        return commands

    def _execute_cmds(self, cmds: Sequence[list[str]], cwd: Any, stdout: TextIO | None = None) -> None:
        for cmd in cmds:
            generated = sum(path.stat().st_size for path in self.build_dir.rglob("*.cpp"))
            if cmd[0] == "make":
                together = generated <= TOGETHER_MOST
                # Blocks of a hierarchy have options of their own, and those compiled file by file headers of theirs.
                shared = self.runtime is not None and together and not self.hierarchical
                headers = self._precompiled_headers(stdout) if shared else None
                includer = [*_INCLUDER]
                cmd = [*cmd, *make_variables(together=together, headers=headers)]
                if shared:
                    # cocotb's main program is compiled with the design, whose headers are most of it.
                    includer += (argument for argument in cmds[0] if argument.endswith("/verilator.cpp"))
                    cmd.append("VM_USER_CLASSES=")
                cmd.append(f"VERILATOR_INCLUDER={shlex.join(includer)}")
                for name in RUNTIME_OBJECTS:
                    if self.runtime is not None and (self.runtime / name).exists():
                        shutil.copyfile(self.runtime / name, self.build_dir / name)
            self._run(cmd, cwd, stdout)

    def _precompiled_headers(self, stdout: TextIO | None) -> Path:
        """Return the headers of Verilator's runtime, compiled with the options of this design.

        They are half of what there is to compile of a small design, so they are kept for all with the same options.
        """
        assert self.runtime is not None
        include = verilator_headers()
        # Clang refuses headers that have changed since.
        changed = str((include / "verilated.h").stat().st_mtime_ns)
        folder = self.runtime.parent / "headers" / digest(self.runtime.name, str(include), changed)
        made, source, rule = (folder / f"runtime.{kind}" for kind in ("pch", "h", "mk"))
        with locked(folder.with_suffix(".lock")):
            if not made.exists():
                folder.mkdir(exist_ok=True)
                source.write_text("".join(f'#include "{name}.h"\n' for name in ("verilated", "verilated_vpi")))
                fresh = folder / "fresh"
                rule.write_text(f"{fresh}: {source}\n\t$(CXX) $(CXXFLAGS) $(CPPFLAGS) -x c++-header $< -o $@\n")
                command = ["make", "-f", "Vtop.mk", "-f", str(rule), str(fresh), *make_variables()]
                self._run(command, self.build_dir, stdout)
                fresh.rename(made)
        return made

    def _run(self, cmd: Sequence[str], cwd: Any, stdout: TextIO | None) -> None:
        """Run a command to its end.

        Children keep the lock of the build: those of a build that was killed still write into its folder.
        """
        kept = () if self.lock is None else (self.lock.fileno(),)
        whole = list(cmd) if self.lock is None else [*ENDED_WITH_US, *cmd]
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
