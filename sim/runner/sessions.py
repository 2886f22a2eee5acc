"""Sessions as a job of a simulated machine: graph after graph, and between them the host writes what is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from golden.program.session import Session
from sim.runner.jobs import Job, Outcome, Settings

if TYPE_CHECKING:
    from sim.runner.machine import Machine

__all__ = ["SessionJob"]


@dataclass(frozen=True, eq=False)
class SessionJob:
    """A session, without a reset between its graphs.

    Attributes
    ----------
    sessions
        One a chiplet, all with as many graphs.
    settings
        How the memories behave; ``limit`` holds for each graph.
    """

    sessions: Sequence[Session]
    settings: Settings = field(default_factory=Settings)

    @property
    def size(self) -> int:
        """Bytes of a memory that holds every image."""
        return max(len(image.data) for session in self.sessions for image in session.images)

    async def run(self, machine: Machine) -> list[Outcome]:
        """Run the graphs one after another, inside the simulator; return what each of them left.

        Raises
        ------
        AssertionError
            If a graph does not complete within the limit.
        """
        settings, chiplets, outcomes = self.settings, len(self.sessions), []
        await machine.configure(settings, chiplets)
        for number, images in enumerate(zip(*(session.images for session in self.sessions), strict=True)):
            writes = [session.writes(number) for session in self.sessions]
            await machine.load(writes, 0 if number else settings.settle)
            found = await machine.run(settings, chiplets)
            assert found is not None, "a session is not reset in the middle"
            outcomes.append(await Job(images, settings).outcome(machine, *found))
        return outcomes
