"""Running benches as they are on designs built differently: with coverage, or full of mutants."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Override:
    """What every build and run within :func:`overriding` does differently.

    Attributes
    ----------
    verilog
        Makes the Verilog of a component from it and its name instead of the plain one.
    coverage
        Build with coverage.
    arguments
        More arguments for Verilator.
    environment
        More of it for the simulator.
    directory
        Where the runs' files go instead of the usual place.
    limit
        Wall time in seconds after which a run has failed.
    mutants
        Numbers of mutants: every run is then one for each of them, and does not fail but leaves its results in a folder
        of `directory` for each.
    workers
        How many mutants are simulated at once.
    """

    verilog: Callable[[Any, str], str] | None = None
    coverage: bool = False
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: Path | None = None
    limit: float | None = None
    mutants: tuple[int, ...] = ()
    workers: int = 1


NONE = Override()
_active: ContextVar[Override] = ContextVar("override", default=NONE)


def active() -> Override:
    """Return the override in force."""
    return _active.get()


@contextlib.contextmanager
def overriding(override: Override) -> Iterator[None]:
    """Put `override` in force."""
    token = _active.set(override)
    try:
        yield
    finally:
        _active.reset(token)
