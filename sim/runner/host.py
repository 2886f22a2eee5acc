"""The host of a simulated chiplet: starts runs, takes completions and notes where cycles went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import First, RisingEdge, Timer, ValueChange

from contracts import COMPLETION, LINE_BYTES, Opcode
from sim.driver import Driver
from sim.host.bus import SimulatedBus
from sim.models.memory import Memory
from sim.runner.clocks import PERIOD, NodeClock
from sim.runner.phases import Phase

__all__ = ["Host", "Run"]

#: Cycles of a run that the control port counts besides: it hands the start over, and takes the completion.
_HANDED_OVER = 2


@dataclass(frozen=True)
class Run:
    """One run of an image on one chiplet.

    Attributes
    ----------
    completion
        Fields of the completion.
    began, ended
        Cycles of the simulation in which the chiplet was started and in which it completed.
    phases
        Time of every command, in order.
    memory
        Counts of its memory over the run, by the names of `sim.models.wrap.COUNTERS`.
    counters
        Counts of the chiplet itself by name, of community PEs only.
    period
        Of the chiplet's clock, in ps. All cycles of a run are the chiplet's own.
    working
        Cycles in which each of the chiplet's parts worked, from the registers of its control port; empty without it.
    """

    completion: dict[str, int]
    began: int
    ended: int
    phases: list[Phase]
    memory: dict[str, int]
    counters: dict[str, int]
    period: int = PERIOD
    working: Sequence[int] = ()

    @property
    def cycles(self) -> int:
        """Cycles from the start to the completion."""
        return self.ended - self.began


class Host:
    """Drives one chiplet and its memory: through the registers if the chiplet is hosted, else by streams.

    Parameters
    ----------
    dut
        The top (`sim.runner.top.machine_top`).
    position
        Position of the chiplet on the ring; 0 if it is alone.
    beat_bytes
        Bytes of a memory beat.
    directory
        Folder of the memory's files.
    clock
        Of the chiplet.
    counters
        Names of the ports on which the chiplet counts.
    """

    def __init__(
        self, dut: Any, position: int, beat_bytes: int, directory: Path, clock: NodeClock, counters: Sequence[str] = ()
    ) -> None:
        self.dut, self.position, self.clock, self._counters = dut, position, clock, counters
        self._prefix, self._edge = f"c{position}_", clock.edge
        self.memory = Memory(dut, beat_bytes, directory, f"mem{position}", common="mem", clock=clock.signal)
        self.driver: Driver | None = None
        if hasattr(dut, f"{self._prefix}s_axil_awvalid"):
            self.driver = Driver(SimulatedBus(dut, self.memory, self._prefix))
        self._streams(start__valid=0, start__payload=0, done__ready=0)
        #: Signal that rises at the end of a run.
        self.ended = self.port("done__valid" if self.driver is None else "irq")
        self._watchers: list[Any] = []

    def port(self, name: str) -> Any:
        """Return a port of the chiplet."""
        return getattr(self.dut, f"{self._prefix}{name}")

    def _streams(self, **values: int) -> None:
        """Set ports of the control streams, if the chiplet has them."""
        for name, value in values.items() if self.driver is None else ():
            self.port(name).value = value

    def quiet(self) -> None:
        """Offer no start, take no completion, and forget the run under way."""
        self._streams(start__valid=0, done__ready=0)
        for watcher in self._watchers:
            watcher.cancel()
        self._watchers = []

    async def run(self, base: int = 0, *, limit: int) -> Run:
        """Run the image at byte address `base`, a multiple of a line.

        Raises
        ------
        AssertionError
            If there is no completion after `limit` cycles of the chiplet.
        """
        self.watch()
        await self.begin(base)
        if not await self.end(self.clock.timer(limit)):
            raise AssertionError(f"no completion after {limit} cycles; commands so far {self._phases[-3:]}")
        return await self.finish()

    def watch(self) -> None:
        """Begin to note commands, completions and the memory's traffic; `finish` returns them."""
        self._phases: list[Phase] = []
        self._began = self._ended = 0
        self._before = self.memory.counters()
        self._watchers = [cocotb.start_soon(self._note_phases()), cocotb.start_soon(self._note_end())]

    async def _note_phases(self) -> None:
        """Note every command; costs Python only when the opcode changes."""
        opcode, layer = self.port("opcode"), self.port("layer")
        while True:
            while int(opcode.value) == Opcode.NOP:
                await ValueChange(opcode)
            began, code, number = self.clock.now(), int(opcode.value), int(layer.value)
            await ValueChange(opcode)
            name = Opcode(code).name.lower() if code in set(Opcode) else f"opcode {code}"
            self._phases.append(Phase(number, name, self.clock.now() - began, began))

    async def _note_end(self) -> None:
        """Note the cycle of the last completion."""
        while True:
            await RisingEdge(self.ended)
            # The control port takes the completion and interrupts a cycle later.
            self._ended = self.clock.now() - (self.driver is not None)

    async def begin(self, base: int = 0, *, after: int = 0) -> None:
        """Start the image at byte address `base` when `after` cycles of the chiplet have passed."""
        if after:
            await self.clock.wait(after)
        if self.driver is not None:
            await self.driver.start(base)
            return
        self._streams(start__valid=1, start__payload=base // LINE_BYTES, done__ready=0)
        await self._edge
        while not self.port("start__ready").value:
            await self._edge
        self._streams(start__valid=0)
        self._began = self.clock.now()

    async def end(self, limit: Timer) -> bool:
        """Wait until the run completes; return whether it did so before `limit` fired."""
        return bool(self.ended.value) or await First(RisingEdge(self.ended), limit) is not limit

    async def finish(self) -> Run:
        """Take the completion of a run that has ended, and return what was noted since `watch`."""
        working: Sequence[int] = ()
        if self.driver is not None:
            done, working = await self.driver.finish(), await self.driver.working()
            completion = {"error": done.error, "layer": done.layer, "tag": done.tag, "info": done.info}
            self._began = self._ended - (done.counters["cycles"] - _HANDED_OVER)
        else:
            completion = COMPLETION.unpack(int(self.port("done__payload").value))
            self._streams(done__ready=1)
            await self._edge
            await self._edge
        # Only now: a command that fails ends in the cycle of the completion.
        self.quiet()
        after = self.memory.counters()
        return Run(
            completion=completion,
            began=self._began,
            ended=self._ended,
            phases=self._phases,
            memory={name: after[name] - self._before[name] for name in after if name != "idle"},
            counters={name: int(self.port(name).value) for name in self._counters},
            period=self.clock.period,
            working=working,
        )
