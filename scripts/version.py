"""Which version of the project this is."""

import subprocess
from importlib.metadata import version

from sim.harness import ROOT

__all__ = ["commit", "described"]


def commit() -> str | None:
    """Return the commit that is checked out; None where the project does not lie in a checkout of its own."""
    if not (ROOT / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def described() -> str:
    """Return what `atoll --version` prints."""
    found = commit()
    return f"atoll {version('atoll')}" + (f" ({found[:12]})" if found else "")
