"""Runs every command that a Markdown file shows in its ``sh`` blocks, in the order in which a reader meets them.

A line that names an environment variable that is not set is left out, and said so.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["commands", "main"]

_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(r"\$\{?([A-Z_]+)")
#: What the text calls with its name lies in the environment that `make` has made.
_BIN = Path(".venv/bin").resolve()


def commands(text: str) -> list[str]:
    """Commands of all ``sh`` blocks, one a line; comments and continued lines are put together."""
    lines: list[str] = []
    for block in _BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            command = line.split(" #")[0].strip()
            if command and not command.startswith("#"):
                lines.append(command)
    return lines


def main(files: list[str]) -> int:
    """Run the commands of `files`; returns 1 at the first that fails."""
    environment = {**os.environ, "PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}"}
    passed = 0
    for file in files:
        for command in commands(Path(file).read_text()):
            missing = [name for name in _VARIABLE.findall(command) if name not in environment]
            if missing:
                print(f"skipped, {missing[0]} is not set: {command}", flush=True)
                continue
            print(f"$ {command}", flush=True)
            began = time.monotonic()
            done = subprocess.run(command, shell=True, env=environment, stdin=subprocess.DEVNULL)
            if done.returncode:
                print(f"{file}: exit status {done.returncode}: {command}", file=sys.stderr)
                return 1
            print(f"({time.monotonic() - began:.0f} s)", flush=True)
            passed += 1
    print(f"examples: {passed} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
