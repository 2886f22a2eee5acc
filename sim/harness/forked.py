"""Inside the simulator: the same bench on many mutants, without starting anew for each.

cocotb imports this module as the last of its test modules, when the bench and all it needs are loaded and before the
simulation's first step. From here the process forks once for each mutant. A child goes to a folder of its own, with
the mutant's number in a file that the design reads in its first step, and returns, so that its simulation begins; the
parent only waits. Loading takes several times as long as a small block's bench, so this is several times as fast.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from cocotb import _shutdown

#: Environment variable with numbers, folder, processes at once, and seconds for each.
VARIABLE = "ATOLL_MUTANTS"
#: File with the number of the mutant.
SELECTION = "mutsel"
#: Pause between looks at the children, in seconds.
PAUSE = 0.01


def _become(folder: Path, number: int) -> None:
    """Make this process the simulation of one mutant."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    Path(SELECTION).write_text(str(number))
    log = os.open("run.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    os.environ["COCOTB_RESULTS_FILE"] = str(folder / "results.xml")
    # Callbacks run in order, so this one puts the last one behind cocotb's own.
    _shutdown.register(lambda: _shutdown.register(_leave))


def _leave() -> None:
    """End without the simulator's own end, which would wait for threads that only the parent has."""
    sys.stdout.flush()
    os._exit(0)


def fork_all(numbers: list[int], folder: Path, workers: int, limit: float) -> None:
    """Return in a child for each of `numbers`; end the parent when all are done."""
    running: dict[int, float] = {}
    waiting = list(reversed(numbers))
    while waiting or running:
        if waiting and len(running) < workers:
            number = waiting.pop()
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                _become(folder / str(number), number)
                return
            running[child] = time.monotonic()
            continue
        time.sleep(PAUSE)
        for child, began in list(running.items()):
            if os.waitpid(child, os.WNOHANG)[0]:
                del running[child]
            elif time.monotonic() - began > limit:
                os.kill(child, signal.SIGKILL)
    os._exit(0)


if VARIABLE in os.environ:
    _task = json.loads(os.environ[VARIABLE])
    fork_all(_task["numbers"], Path(_task["folder"]), _task["workers"], _task["limit"])
