"""The host of a simulated chiplet: loads images, starts runs, reads results back and notes where cycles went."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import First, RisingEdge, Timer, ValueChange
from cocotb.utils import get_sim_time

from golden.contracts import COMPLETION, LINE_BYTES, Opcode
from tb.harness import CLOCK_NS
from tb.models.memory import Memory

__all__ = ["Host", "Run", "watch"]


@dataclass
class Run:
    """What one run of an image did.

    Attributes
    ----------
    completion
        Fields of the completion.
    cycles
        From the start to the completion.
    phases
        (layer, opcode, cycles) of every command, in order.
    counters
        The memory's counters over the run.
    """

    completion: dict[str, int]
    cycles: int
    phases: list[tuple[int, str, int]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)


def _now() -> int:
    return int(get_sim_time("ns")) // CLOCK_NS


class Host:
    """Drives the control streams of a chiplet with a memory model behind its port.

    Parameters
    ----------
    dut
        The wrapper of chiplet and memory.
    beat_bytes
        Bytes of a memory beat.
    directory
        Where the memory's files are.
    position
        Of the chiplet on a ring (`tb.ring.machine.ring_top`); None: it is alone.
    """

    def __init__(self, dut: Any, beat_bytes: int, directory: Path, position: int | None = None) -> None:
        self.dut, self.position = dut, position
        if position is None:
            self.memory = Memory(dut, beat_bytes, directory)
        else:
            self.memory = Memory(dut, beat_bytes, directory, f"mem{position}", common="mem")
        self.port("start__valid").value = 0
        self.port("start__payload").value = 0
        self.port("done__ready").value = 0

    def port(self, name: str) -> Any:
        """Return a port of the chiplet."""
        return getattr(self.dut, name if self.position is None else f"c{self.position}_{name}")

    async def reset(self, cycles: int = 2) -> None:
        """Hold reset."""
        self.dut.rst.value = 1
        self.port("start__valid").value = 0
        self.port("done__ready").value = 0
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
        edge, done = RisingEdge(self.dut.clk), self.port("done__valid")
        before = self.memory.counters()
        self.port("start__payload").value = base // LINE_BYTES
        self.port("start__valid").value = 1
        self.port("done__ready").value = 0
        await edge
        while not self.port("start__ready").value:
            await edge
        self.port("start__valid").value = 0
        began = _now()
        phases: list[tuple[int, str, int]] = []
        watcher = cocotb.start_soon(watch(self.port("opcode"), self.port("layer"), phases))
        if not done.value:
            timeout = Timer((cut_off or limit) * CLOCK_NS, "ns")
            if await First(RisingEdge(done), timeout) is timeout:
                watcher.cancel()
                if cut_off:
                    return None
                raise AssertionError(f"no completion after {limit} cycles; commands so far {phases[-3:]}")
        cycles = _now() - began
        completion = COMPLETION.unpack(int(self.port("done__payload").value))
        self.port("done__ready").value = 1
        await edge
        await edge
        self.port("done__ready").value = 0
        # Only now: a command that fails ends in the cycle of the completion.
        watcher.cancel()
        after = self.memory.counters()
        return Run(completion, cycles, phases, {name: after[name] - before[name] for name in after if name != "idle"})


async def watch(opcode: Any, layer: Any, phases: list[tuple[int, str, int]]) -> None:
    """Note layer, name and cycles of every command in `phases`; costs Python only when `opcode` changes."""
    while True:
        while int(opcode.value) == Opcode.NOP:
            await ValueChange(opcode)
        began, code, number = _now(), int(opcode.value), int(layer.value)
        await ValueChange(opcode)
        name = Opcode(code).name.lower() if code in set(Opcode) else f"opcode {code}"
        phases.append((number, name, _now() - began))
