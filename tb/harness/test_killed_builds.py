"""A build that is killed in the middle is made again, and never takes place twice at a time."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from sim.harness.build import ROOT

#: Builds a small design in the folder given, and runs it.
PROGRAM = """
import sys
from importlib import import_module
from pathlib import Path
import_module("sim.harness.build").SIM_DIR = Path(sys.argv[1])
from scripts.blocks import find
(block,) = find("stream.queue")
block.run_bench(block.bench_parameters)
"""


def started(folder: Path) -> subprocess.Popen[bytes]:
    """Start a build as a shell would, in a process group of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)],
        cwd=ROOT,
        env={**kept, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def appears(folder: Path, pattern: str, process: subprocess.Popen[bytes]) -> None:
    """Wait for a file to appear while a process runs."""
    while not any(folder.glob(pattern)):
        assert process.poll() is None, f"there was no {pattern}"
        time.sleep(0.02)


def test_a_killed_build_is_made_again(tmp_path: Path) -> None:
    """While Verilator is at work, and while the compiler is; only the process itself is killed, as by a scheduler."""
    for pattern, number in (("*/build.log", signal.SIGINT), ("*/obj/Vtop.mk", signal.SIGKILL)):
        with started(tmp_path) as process:
            appears(tmp_path, pattern, process)
            process.send_signal(number)
        assert process.returncode != 0
        assert not [*tmp_path.glob("*/built")]
    # Two at once: one builds, after the last compiler of the build before has ended, the other waits.
    with started(tmp_path) as one, started(tmp_path) as other:
        pass
    assert one.returncode == other.returncode == 0
    assert len([*tmp_path.glob("*/built")]) == 1
