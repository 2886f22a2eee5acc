"""The half of the runner inside the simulator: drives all chiplets of a machine and lets each job do its steps."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cocotb

from sim.harness import parameters
from sim.models.memory import load_all
from sim.runner.clocks import NodeClock, start_clocks
from sim.runner.host import Host, Run
from sim.runner.top import LINK_COUNTERS, clock_of

if TYPE_CHECKING:
    from sim.runner.jobs import Settings

__all__ = ["JOBS", "OUTCOMES", "Machine"]

#: Cycles of every clock that a reset lasts where there are several, so that it takes effect on both sides of links.
_RESET = 12
#: Files by which the halves talk: jobs, and what they return.
JOBS, OUTCOMES = "jobs.pickle", "outcomes.pickle"


class Machine:
    """All chiplets of a simulated machine.

    Parameters
    ----------
    dut
        The top (`sim.runner.top.machine_top`).
    directory
        For files.
    chiplets
        Chiplets of the simulated machine.
    ring
        Whether they have ring interfaces.
    beat_bytes
        Bytes of a memory beat.
    counters
        Names of the ports on which chiplets count.
    crossing
        Words of the crossing behind each link; 0: all chiplets have one clock.
    """

    def __init__(
        self,
        dut: Any,
        directory: Path,
        chiplets: int,
        ring: bool,
        beat_bytes: int,
        counters: Sequence[str],
        crossing: int = 0,
    ) -> None:
        self.dut, self.ring, self._crossing = dut, ring, crossing
        #: One, or one for each chiplet.
        self.clocks = [NodeClock(getattr(dut, clock_of(n))) for n in range(chiplets if crossing else 1)]
        self.hosts = [
            Host(dut, n, beat_bytes, directory, self.clocks[n % len(self.clocks)], counters) for n in range(chiplets)
        ]
        #: Whether the last layer's combined rows stay in the working space: a gather chiplet that is alone leaves them.
        self.leaves_combined = not ring and not counters
        self._used, self._origin, self._reset_begun = chiplets, 0, False
        if ring:
            dut.reset.value = 0

    @property
    def slowest(self) -> NodeClock:
        """The slowest clock of the chiplets in use, whose cycles are those of the whole machine."""
        return max(self.clocks[: self._used], key=lambda clock: clock.period)

    async def configure(self, settings: Settings, chiplets: int) -> None:
        """Prepare the memories, and reset unless the settings say otherwise; the first `chiplets` are used."""
        if len(self.clocks) > 1 or settings.periods:
            await start_clocks(self.clocks, settings.periods)
        self._used, self._origin = chiplets, settings.origin
        self.dut.mem_origin.value = settings.origin
        if self.ring:
            self.dut.chiplets.value = chiplets
        # All memories share these settings.
        self.hosts[0].memory.configure(settings)
        for host in self.hosts:
            memory = host.memory
            for fails, where in (
                (memory.read_errors, settings.read_errors),
                (memory.write_errors, settings.write_errors),
            ):
                fails(range(where[0], where[1] + 1) if where and host.position == settings.failing else None)
        if settings.reset:
            await self.reset()

    async def reset(self) -> None:
        """Reset everything, for two cycles of one clock."""
        self.dut.rst.value = 1
        for host in self.hosts:
            host.quiet()
        for clock in self.clocks:
            for _ in range(_RESET if self._crossing else 2):
                await clock.edge
        self.dut.rst.value = 0

    async def load(self, images: Sequence[bytes], settle: int = 0) -> None:
        """Fill the memories, and let the chiplets settle for so many cycles."""
        await load_all([host.memory for host in self.hosts[: len(images)]], images)
        if settle:
            await self.slowest.wait(settle)

    async def _reset_one(self, host: Host, after: int, again: int) -> None:
        """Reset a chiplet alone, and begin it again if `again` is not 0."""
        await self.slowest.wait(after)
        self._reset_begun = True
        self.dut.reset.value = 1 << host.position
        # It lasts until the crossing behind its link is empty.
        for _ in range(_RESET + self._crossing if self._crossing else 1):
            await self.slowest.edge
        self.dut.reset.value = 0
        if again:
            await host.begin(self._origin, after=again)

    async def run(self, settings: Settings, chiplets: int) -> tuple[list[Run], list[dict[str, int]]] | None:
        """Start the images of the first chiplets and wait for all of them.

        Returns
        -------
        tuple or None
            A run and the counts of the link of each chiplet in use; None if ``settings.reset_after`` came first.

        Raises
        ------
        AssertionError
            If a chiplet does not complete within the limit.
        """
        hosts = self.hosts[:chiplets]
        for host in hosts:
            host.watch()
        for host in hosts:
            cocotb.start_soon(host.begin(self._origin, after=settings.late.get(host.position, 0)))
        victim, upset = None, None
        if settings.reset_one:
            victim, self._reset_begun = hosts[settings.reset_one[0]], False
            upset = cocotb.start_soon(self._reset_one(victim, *settings.reset_one[1:]))
        limit = self.slowest.timer(settings.reset_after or settings.limit)
        for host in hosts:
            if host is not victim and not await host.end(limit):
                if settings.reset_after:
                    return None
                opcodes = [int(one.port("opcode").value) for one in hosts]
                raise AssertionError(
                    f"chiplet {host.position}: no completion after {settings.limit} cycles; opcodes under way {opcodes}"
                )
        if settings.reset_one and victim and upset:
            assert self._reset_begun, "the run was over before the reset"
            await upset
            if settings.reset_one[2] and not await victim.end(limit):
                raise AssertionError(f"chiplet {victim.position} does not end after its reset")
        links = [
            {name: int(getattr(self.dut, f"link{n}_{name}").value) for name in LINK_COUNTERS}
            for n in range(chiplets if self.ring else 0)
        ]
        # No completion is taken before all have ended. On a ring time includes the cycle that offers the start.
        runs = [await host.finish() for host in hosts]
        return [replace(run, began=run.began - self.ring) for run in runs], links


@cocotb.test()
async def runs_every_job(dut: Any) -> None:
    """Let each job do its steps, and keep what it returns."""
    given = parameters()
    directory = Path(given.pop("directory"))
    dut.rst.value = 1
    machine = Machine(dut, directory, **given)
    await start_clocks(machine.clocks)
    jobs = pickle.loads((directory / JOBS).read_bytes())
    outcomes = [await job.run(machine) for job in jobs]
    (directory / OUTCOMES).write_bytes(pickle.dumps(outcomes))
