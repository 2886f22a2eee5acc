"""Clocks of a simulated machine: one for all chiplets, or one for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer
from cocotb.utils import get_sim_time

from sim.harness import CLOCK_NS

__all__ = ["PERIOD", "NodeClock", "start_clocks"]

#: Period of a clock if nothing else is said, in ps.
PERIOD = 1000 * CLOCK_NS


class NodeClock:
    """The clock of a chiplet, its memory and its host.

    Parameters
    ----------
    signal
        The top's input.

    Attributes
    ----------
    edge
        Rising edge, to wait for.
    period
        In ps.
    """

    def __init__(self, signal: Any) -> None:
        self.signal, self.edge, self.period = signal, RisingEdge(signal), PERIOD
        self._began = 0
        self._running: Clock | None = None

    async def start(self, period: int = PERIOD, after: int = 0) -> None:
        """Run with a period from now on, the first edge `after` ps later; both are even numbers of ps."""
        if self._running is not None:
            self._running.stop()
        if after:
            await Timer(after, "ps")
        self.period, self._began = period, int(get_sim_time("ps"))
        self._running = Clock(self.signal, period, unit="ps", impl="gpi")
        self._running.start()

    def now(self) -> int:
        """Cycles since this clock was started."""
        return (int(get_sim_time("ps")) - self._began) // self.period

    def timer(self, cycles: int) -> Timer:
        """Fire after some cycles."""
        return Timer(cycles * self.period, "ps")

    async def wait(self, cycles: int) -> None:
        """Wait for some cycles, and for the edge after them."""
        await self.timer(cycles)
        await self.edge


async def start_clocks(clocks: Sequence[NodeClock], periods: Sequence[int] = ()) -> None:
    """Start all clocks, each a part of its period after the one before.

    Parameters
    ----------
    clocks
        One, or those of all chiplets by position.
    periods
        Of the clocks, in ps; those that are not given have `PERIOD`.

    Raises
    ------
    ValueError
        If there are more periods than clocks, or one is odd or not positive.
    """
    if len(periods) > len(clocks):
        raise ValueError(f"periods must be at most {len(clocks)}, one for each clock, not {len(periods)}")
    for period in periods:
        if period < 2 or period % 2:
            raise ValueError(f"periods must be even numbers of ps from 2 on, not {period!r}")
    given = [*periods, *[PERIOD] * (len(clocks) - len(periods))]
    for number, (clock, period) in enumerate(zip(clocks, given, strict=True)):
        # Equal clocks have edges at different times, too.
        await clock.start(period, period // (2 * len(clocks)) * 2 if number else 0)
