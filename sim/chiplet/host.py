"""The host of a simulated chiplet: loads images, starts runs, reads results back and notes where cycles went."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import cocotb
from cocotb.triggers import First, RisingEdge, Timer, ValueChange
from cocotb.utils import get_sim_time

from contracts import COMPLETION, LINE_BYTES, Opcode
from sim.driver import Driver
from sim.harness import CLOCK_NS
from sim.host.bus import SimulatedBus
from sim.models.memory import Memory

__all__ = ["Host", "Phase", "Run", "watch"]

#: Cycles of a run that the control port counts besides: it hands the start over, and takes the completion.
_HANDED_OVER = 2


class Phase(NamedTuple):
    """A command's time, or that of a gap between commands (`sim.chiplet.phases`).

    Attributes
    ----------
    layer, opcode
        Of the command; the opcode's name. A gap has a name of its own, and may belong to no layer.
    cycles
        That it was under way.
    began
        Cycle of the simulation in which it began.
    """

    layer: int | None
    opcode: str
    cycles: int
    began: int


@dataclass
class Run:
    """What one run of an image did.

    Attributes
    ----------
    completion
        Fields of the completion.
    cycles
        From the start to the completion.
    ended
        Cycle of the simulation in which it completed.
    phases
        Of every command, in order.
    counters
        The memory's counters over the run.
    """

    completion: dict[str, int]
    cycles: int
    ended: int
    phases: list[Phase] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, said: dict[str, Any]) -> Run:
        """Return a run that came as JSON."""
        return cls(**{**said, "phases": [Phase(*phase) for phase in said["phases"]]})


def _now() -> int:
    return int(get_sim_time("ns")) // CLOCK_NS


class Host:
    """Drives a chiplet with a memory model behind its port: through the registers if it is hosted, else by streams.

    Parameters
    ----------
    dut
        The wrapper of chiplet and memory.
    beat_bytes
        Bytes of a memory beat.
    directory
        Where the memory's files are.
    position
        Of the chiplet on a ring (`sim.ring.machine.ring_top`); None: it is alone.
    """

    def __init__(self, dut: Any, beat_bytes: int, directory: Path, position: int | None = None) -> None:
        self.dut, self.position = dut, position
        self._prefix = "" if position is None else f"c{position}_"
        if position is None:
            self.memory = Memory(dut, beat_bytes, directory)
        else:
            self.memory = Memory(dut, beat_bytes, directory, f"mem{position}", common="mem")
        self.driver: Driver | None = None
        if hasattr(dut, f"{self._prefix}s_axil_awvalid"):
            self.driver = Driver(SimulatedBus(dut, self.memory, self._prefix))
        self._streams(start__valid=0, start__payload=0, done__ready=0)

    def _streams(self, **values: int) -> None:
        """Set ports of the control streams, if the chiplet has them."""
        for name, value in values.items() if self.driver is None else ():
            self.port(name).value = value

    def port(self, name: str) -> Any:
        """Return a port of the chiplet."""
        return getattr(self.dut, f"{self._prefix}{name}")

    def quiet(self) -> None:
        """Offer nothing, take nothing."""
        self._streams(start__valid=0, done__ready=0)

    async def reset(self, cycles: int = 2) -> None:
        """Hold reset."""
        self.dut.rst.value = 1
        self.quiet()
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0

    async def run(self, base: int = 0, *, limit: int = 100_000_000, cut_off: int = 0) -> Run | None:
        """Run the image at byte address `base`.

        Parameters
        ----------
        base
            Byte address, a multiple of a line.
        limit
            Cycles after which a missing completion is an error.
        cut_off
            Return after that many cycles if the run has not completed; 0 waits for the completion.

        Returns
        -------
        Run
            What happened; None if it was cut off.

        Raises
        ------
        AssertionError
            If there is no completion within the limit.
        """
        before = self.memory.counters()
        await self.begin(base)
        phases: list[Phase] = []
        watcher = cocotb.start_soon(watch(self.port("opcode"), self.port("layer"), phases))
        if not self.ended.value:
            timeout = Timer((cut_off or limit) * CLOCK_NS, "ns")
            if await First(RisingEdge(self.ended), timeout) is timeout:
                watcher.cancel()
                if cut_off:
                    return None
                raise AssertionError(f"no completion after {limit} cycles; commands so far {phases[-3:]}")
        ended = self.completed()
        completion, cycles = await self.finish()
        # Only now: a command that fails ends in the cycle of the completion.
        watcher.cancel()
        after = self.memory.counters()
        return Run(
            completion, cycles, ended, phases, {name: after[name] - before[name] for name in after if name != "idle"}
        )

    async def begin(self, base: int = 0) -> None:
        """Start the image at byte address `base`."""
        if self.driver is not None:
            await self.driver.start(base)
            return
        edge = RisingEdge(self.dut.clk)
        self._streams(start__valid=1, start__payload=base // LINE_BYTES, done__ready=0)
        await edge
        while not self.port("start__ready").value:
            await edge
        self._streams(start__valid=0)
        self._began = _now()

    @property
    def ended(self) -> Any:
        """What rises at the end of a run."""
        return self.port("done__valid" if self.driver is None else "irq")

    def completed(self) -> int:
        """Return the cycle of the simulation in which the run completed, in that in which `ended` has risen."""
        # The control port takes the completion and interrupts a cycle later.
        return _now() - (self.driver is not None)

    async def finish(self) -> tuple[dict[str, int], int]:
        """Take the completion of a run that has ended; return its fields, and cycles from the start on."""
        if self.driver is not None:
            done = await self.driver.finish()
            completion = {"error": done.error, "layer": done.layer, "tag": done.tag, "info": done.info}
            return completion, done.counters["cycles"] - _HANDED_OVER
        edge, cycles = RisingEdge(self.dut.clk), _now() - self._began
        completion = COMPLETION.unpack(int(self.port("done__payload").value))
        self._streams(done__ready=1)
        await edge
        await edge
        self._streams(done__ready=0)
        return completion, cycles


async def watch(opcode: Any, layer: Any, phases: list[Phase]) -> None:
    """Note every command in `phases`; costs Python only when `opcode` changes."""
    while True:
        while int(opcode.value) == Opcode.NOP:
            await ValueChange(opcode)
        began, code, number = _now(), int(opcode.value), int(layer.value)
        await ValueChange(opcode)
        name = Opcode(code).name.lower() if code in set(Opcode) else f"opcode {code}"
        phases.append(Phase(number, name, _now() - began, began))
