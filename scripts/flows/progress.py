"""The steps of a command while it is at work: names, cycles so far, and about how long it will still take.

On a terminal there is a bar; elsewhere (a file, a pipe) a line for each step, and one now and then during a long step.
Everything goes to standard error.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from scripts.flows.outputs import write
from sim.harness.build import ROOT, digest

__all__ = ["Former", "Steps", "building", "duration", "former", "remember", "simulating"]

#: Begins the names of steps whose time depends on what has been built before.
_BUILDING = "building the simulator"
#: Where the times of former runs are.
_FORMER = ROOT / "build" / "runs"
#: Seconds between looks at a simulation, and between lines where there is no terminal.
_LOOK = 0.5
_LINE = 15.0


def building(what: str = "") -> str:
    """Name of the step in which a simulator is built, of `what` if it is not the network's."""
    return f"{_BUILDING} of {what}" if what else _BUILDING


def simulating(what: str = "") -> str:
    """Name of the step in which `what` is simulated, if it is not the network."""
    return f"simulating {what}" if what else "simulating"


@dataclass(frozen=True)
class Former:
    """A step of a former run of the same kind.

    Attributes
    ----------
    seconds
        It took.
    cycles
        It simulated; 0 if it is no simulation.
    """

    seconds: float
    cycles: int = 0


def former(kind: str) -> dict[str, Former]:
    """Return the steps of the last run of a kind here; none if there was none.

    Parameters
    ----------
    kind
        Whatever decides how long a run takes.
    """
    with contextlib.suppress(OSError, ValueError, TypeError):
        found = json.loads((_FORMER / f"{digest(kind)}.json").read_text())
        return {name: Former(**step) for name, step in found.items()}
    return {}


def remember(kind: str, steps: Mapping[str, Former]) -> None:
    """Keep the steps of a run for `former`; of building the longest time, since often there is nothing to build."""
    kept = former(kind)
    found = {
        name: Former(max(step.seconds, kept.get(name, step).seconds), 0) if name.startswith(_BUILDING) else step
        for name, step in steps.items()
    }
    _FORMER.mkdir(parents=True, exist_ok=True)
    write(_FORMER / f"{digest(kind)}.json", json.dumps({name: vars(step) for name, step in found.items()}))


def duration(seconds: float) -> str:
    """Return a time for people: ``42 s``, ``3 min``, ``2 h``."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 6000 else f"{round(seconds / 3600)} h"


class Steps:
    """Shows the steps of a command, as a context.

    Parameters
    ----------
    names
        Of all steps, in order. A step may be left out on the way.
    kind
        As for `former`; the run is kept under it when all is done.
    console
        Where to; default: standard error.
    line
        Seconds between lines where the console is no terminal.
    """

    def __init__(
        self, names: Sequence[str], kind: str = "", console: Console | None = None, line: float = _LINE
    ) -> None:
        self.names, self.kind = list(names), kind
        self.former = former(kind) if kind else {}
        self.console = console or Console(stderr=True)
        self.done: dict[str, Former] = {}
        self._line = line
        self._at = -1
        self._began = self._said = time.monotonic()
        self._cycles: Callable[[], int | None] | None = None
        self._least = 0
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Steps:
        """Begin; no step is under way yet."""
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=self.console, transient=True)
            self._task = self._bar.add_task("", total=len(self.names), completed=0)
            self._bar.start()
        self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the last step; if nothing went wrong, keep how long all took."""
        self._close()
        self._ended.set()
        self._watcher.join()
        if self._bar is not None:
            self._bar.stop()
        if kind is None and self.kind:
            with contextlib.suppress(OSError):  # a full disk is no reason to call the run a failure
                remember(self.kind, self.done)

    def step(self, name: str) -> None:
        """Begin a step, one of the names; the one before is done."""
        self._close()
        self._at = self.names.index(name, self._at + 1)
        self._began = self._said = time.monotonic()
        self._show(first=True)

    @contextlib.contextmanager
    def simulating(
        self, name: str, cycles: Callable[[], int | None], least: int = 0
    ) -> Iterator[Callable[[int], None]]:
        """Begin a step that is a simulation.

        Parameters
        ----------
        name
            Of the step.
        cycles
            Returns the cycles so far, None before the simulation begins.
        least
            Cycles below which it cannot end.

        Yields
        ------
        Callable
            To be called with the number of cycles at the end.
        """
        total = 0

        def ended(count: int) -> None:
            nonlocal total
            total = count

        self._cycles, self._least = cycles, least
        self.step(name)
        try:
            yield ended
        finally:
            self._cycles = None
            self.done[name] = Former(time.monotonic() - self._began, total)

    def _close(self) -> None:
        """End the step under way."""
        if self._at >= 0:
            name = self.names[self._at]
            self.done.setdefault(name, Former(time.monotonic() - self._began))

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK):
            if self._bar is not None or time.monotonic() - self._said >= self._line:
                self._show()

    def _show(self, *, first: bool = False) -> None:
        at = self._at
        if at < 0:
            return
        text = f"{self.names[at]}{self._detail(first=first)}"
        if self._bar is not None:
            self._bar.update(self._task, description=text, completed=at)
            return
        self._said = time.monotonic()
        line = f"{at + 1}/{len(self.names)} {text}"
        self.console.print(line, highlight=False, soft_wrap=True, markup=False)

    def _detail(self, *, first: bool) -> str:
        """Return cycles, time, and what is left, as far as there is anything to say."""
        name, passed = self.names[self._at], time.monotonic() - self._began
        before, source = self.former.get(name), self._cycles
        parts = []
        done = source() if source is not None else None
        if source is not None and (total := self._total(before)):
            parts.append(total if done is None else f"{done:,} of {total}")
        elif done is not None:
            parts.append(f"{done:,} cycles")
        if not first and self._bar is None:
            parts.append(duration(passed))
        left = self._left(before, done, passed)
        if left:
            parts.append(left)
        return f": {', '.join(parts)}" if parts else ""

    def _total(self, before: Former | None) -> str:
        """Return how many cycles a simulation takes, by its last time or by its bound, as far as one is known."""
        if before and before.cycles:
            return f"about {before.cycles:,} cycles"
        return f"at least {self._least:,} cycles" if self._least else ""

    def _left(self, before: Former | None, done: int | None, passed: float) -> str:
        """Return how long a step will still take, by its last time, or by the cycles if that is known better."""
        if before is None or before.seconds < 2 * _LOOK:
            return ""
        if self.names[self._at].startswith(_BUILDING):
            return f"at most about {duration(before.seconds)} in all"
        seconds = before.seconds - passed
        if done and before.cycles:
            seconds = passed * (before.cycles / done - 1)
        return f"about {duration(seconds)} left" if seconds > 0 else "longer than the last time"
