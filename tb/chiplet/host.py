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
    """

    def __init__(self, dut: Any, beat_bytes: int, directory: Path) -> None:
        self.dut = dut
        self.memory = Memory(dut, beat_bytes, directory)
        dut.start__valid.value = 0
        dut.start__payload.value = 0
        dut.done__ready.value = 0

    async def reset(self, cycles: int = 2) -> None:
        """Hold reset."""
        self.dut.rst.value = 1
        self.dut.start__valid.value = 0
        self.dut.done__ready.value = 0
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
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        before = self.memory.counters()
        dut.start__payload.value = base // LINE_BYTES
        dut.start__valid.value = 1
        dut.done__ready.value = 0
        await edge
        while not dut.start__ready.value:
            await edge
        dut.start__valid.value = 0
        began = _now()
        phases: list[tuple[int, str, int]] = []
        watcher = cocotb.start_soon(watch(dut.opcode, dut.layer, phases))
        if not dut.done__valid.value:
            timeout = Timer((cut_off or limit) * CLOCK_NS, "ns")
            if await First(RisingEdge(dut.done__valid), timeout) is timeout:
                watcher.cancel()
                if cut_off:
                    return None
                raise AssertionError(f"no completion after {limit} cycles; commands so far {phases[-3:]}")
        cycles = _now() - began
        completion = COMPLETION.unpack(int(dut.done__payload.value))
        dut.done__ready.value = 1
        await edge
        await edge
        dut.done__ready.value = 0
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
