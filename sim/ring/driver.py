"""What drives a ring of chiplets inside the simulator: loads images, starts, waits, and looks at what is left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import First, RisingEdge, Timer
from cocotb.utils import get_sim_time

from contracts import COMPLETION
from sim.chiplet.host import Host, Phase, watch
from sim.harness import CLOCK_NS, parameters
from sim.harness.expected import expect_cycles
from sim.ring.machine import LINK_COUNTERS
from sim.ring.settings import RingSettings

__all__ = ["Machine", "runs_every_job"]

_MEMORY_COUNTERS = ("bytes_read", "bytes_written")


class Machine:
    """Drives the ring's top inside the simulator."""

    def __init__(self, dut: Any, directory: Path, chiplets: int, beat_bytes: int, counters: Sequence[str] = ()) -> None:
        self.counters = counters
        self.dut, self.directory, self.chiplets, self.beat_bytes = dut, directory, chiplets, beat_bytes
        self.edge = RisingEdge(dut.clk)
        self.hosts = [Host(dut, beat_bytes, directory, n) for n in range(chiplets)]
        self.base = 0
        self._set("reset", 0)

    def _set(self, port: str, value: int) -> None:
        getattr(self.dut, port).value = value

    def _get(self, port: str) -> int:
        return int(getattr(self.dut, port).value)

    async def configure(self, settings: RingSettings, chiplets: int) -> None:
        """Set the memories up and reset; `chiplets` of the simulated ones are used."""
        self._set("chiplets", chiplets)
        self._set("mem_origin", settings.origin)
        self.base = settings.origin
        # These are the same for all memories.
        self.hosts[0].memory.configure(settings)
        for n, host in enumerate(self.hosts):
            for fails, where in (
                (host.memory.read_errors, settings.read_errors),
                (host.memory.write_errors, settings.write_errors),
            ):
                fails(range(where[1], where[2] + 1) if where and where[0] == n else None)
        await self.reset()

    async def reset(self) -> None:
        """Reset everything for two cycles."""
        for host in self.hosts[1:]:
            host.quiet()
        await self.hosts[0].reset()

    async def load(self, number: int, chiplets: int, settle: int = 0) -> None:
        """Fill the memories with the images of a job, while the chiplets settle."""
        for n in range(chiplets):
            data = (self.directory / f"job{number}.{n}.image").read_bytes()
            (self.directory / f"mem{n}_image.bin").write_bytes(data + bytes(-len(data) % self.beat_bytes))
            self._set(f"mem{n}_load", 1)
        await self.edge
        for n in range(chiplets):
            self._set(f"mem{n}_load", 0)
        if settle:
            await Timer(settle * CLOCK_NS, "ns")
        await self.edge

    async def start(self, n: int, after: int) -> None:
        """Start chiplet `n` after so many cycles."""
        if after:
            await Timer(after * CLOCK_NS, "ns")
            await self.edge
        await self.hosts[n].begin(self.base)

    async def note_end(self, n: int, ends: list[int]) -> None:
        """Note in `ends` when chiplet `n` completes."""
        while True:
            await RisingEdge(self.hosts[n].ended)
            ends[n] = self.hosts[n].completed()

    async def reset_one(self, n: int, after: int, again: int) -> None:
        """Reset chiplet `n` alone, and begin it again if `again` is not 0."""
        await Timer(after * CLOCK_NS, "ns")
        await self.edge
        self._set("reset", 1 << n)
        await self.edge
        self._set("reset", 0)
        if again:
            await self.start(n, again)

    async def run(self, settings: RingSettings, chiplets: int) -> dict[str, Any] | None:
        """Start all, wait for all; None if the run was cut off."""
        began = int(get_sim_time("ns"))
        phases: list[list[Phase]] = [[] for _ in range(chiplets)]
        watchers = [
            cocotb.start_soon(watch(getattr(self.dut, f"c{n}_opcode"), getattr(self.dut, f"c{n}_layer"), phases[n]))
            for n in range(chiplets)
        ]
        ends = [0] * chiplets
        watchers += [cocotb.start_soon(self.note_end(n, ends)) for n in range(chiplets)]
        for n in range(chiplets):
            cocotb.start_soon(self.start(n, settings.late.get(n, 0)))
        upset = cocotb.start_soon(self.reset_one(*settings.reset_one)) if settings.reset_one else None
        limit = Timer((settings.reset_after or settings.limit) * CLOCK_NS, "ns")
        for n in range(chiplets):
            if settings.reset_one and settings.reset_one[0] == n:
                continue  # looked at last
            ended = self.hosts[n].ended
            if not ended.value and await First(RisingEdge(ended), limit) is limit:
                if settings.reset_after:
                    for watcher in watchers:
                        watcher.cancel()
                    return None
                raise AssertionError(
                    f"chiplet {n}: no completion after {settings.limit} cycles; opcodes under way "
                    f"{[self._get(f'c{k}_opcode') for k in range(chiplets)]}"
                )
        cycles = (int(get_sim_time("ns")) - began) // CLOCK_NS
        if settings.reset_one and settings.reset_one[2]:
            ended = self.hosts[settings.reset_one[0]].ended
            if not ended.value and await First(RisingEdge(ended), limit) is limit:
                raise AssertionError(f"chiplet {settings.reset_one[0]} does not end after its reset")
        if upset is not None:
            assert upset.done(), "the run was over before the reset"
        links = [{name: self._get(f"link{n}_{name}") for name in LINK_COUNTERS} for n in range(chiplets)]
        memories = [{name: self._get(f"mem{n}_{name}") for name in _MEMORY_COUNTERS} for n in range(chiplets)]
        counters = [{name: self._get(f"c{n}_{name}") for name in self.counters} for n in range(chiplets)]
        if self.hosts[0].driver is None:
            completions = [COMPLETION.unpack(self._get(f"c{n}_done__payload")) for n in range(chiplets)]
            spans = [(began // CLOCK_NS, end) for end in ends]
        else:
            # Behind control ports, their counters say how long it took: registers are written one after another.
            finished = [await host.finish() for host in self.hosts[:chiplets]]
            completions, cycles = [said for said, _ in finished], 1 + max(took for _, took in finished)
            spans = [(end - 1 - took, end) for end, (_, took) in zip(ends, finished, strict=True)]
        # Only now: a command that fails ends in the cycle of the completion.
        await self.edge
        for watcher in watchers:
            watcher.cancel()
        return {
            "completions": completions, "cycles": cycles, "phases": phases, "spans": spans, "links": links,
            "memories": memories, "counters": counters,
        }  # fmt: skip

    async def dump(self, number: int, regions: list[list[tuple[int, int]]]) -> None:
        """Write address ranges of every chiplet's memory, a file for each."""
        for n, layers in enumerate(regions):
            for layer, (address, size) in enumerate(layers):
                data = await self.hosts[n].memory.dump(address, size)
                (self.directory / f"job{number}.{n}.{layer}").write_bytes(data)


@cocotb.test()
async def runs_every_job(dut: Any) -> None:
    """Load, run and dump each job; its outcome is judged outside, unless what is expected is given."""
    given = parameters()
    directory = Path(given["directory"])
    dut.rst.value = 1
    Clock(dut.clk, CLOCK_NS, unit="ns").start()
    machine = Machine(dut, directory, given["chiplets"], given["beat_bytes"], given["counters"])
    for number, description in enumerate(json.loads((directory / "jobs.json").read_text())):
        settings = RingSettings(**description["settings"])
        settings.late.update({int(n): cycles for n, cycles in settings.late.items()})
        chiplets = len(description["dump"])
        await machine.configure(settings, chiplets)
        await machine.load(number, chiplets, settings.settle)
        outcome = await machine.run(settings, chiplets)
        if outcome is None:
            await machine.reset()
            await machine.load(number, chiplets)
            outcome = await machine.run(RingSettings(limit=settings.limit), chiplets)
        assert outcome is not None
        await machine.dump(number, description["dump"])
        (directory / f"job{number}.json").write_text(json.dumps(outcome))
        if description["expected"] is not None:
            judge(directory, number, description["expected"], outcome)


def judge(directory: Path, number: int, expected: dict[str, Any], outcome: dict[str, Any]) -> None:
    """Compare a run with what is expected of it.

    Parameters
    ----------
    directory, number
        Where the run's files are.
    expected
        ``errors`` and ``infos`` of all completions (one error or several possible ones; an info of None may be
        anything, or possible ones by error), ``links``: counters by name for every link or None, ``phases``: layer and
        name of every chiplet's commands or None, ``regions``: for each chiplet and layer
        elements and bytes of a row or None, ``cycles``: name in ``tb/expected.toml`` or None.
    outcome
        What the machine says.

    Raises
    ------
    AssertionError
        If something differs.
    """
    said = outcome["completions"]
    for one, errors in zip(said, expected["errors"], strict=True):
        assert one["error"] in (errors if isinstance(errors, list) else [errors]), (number, said)
    for one, info in zip(said, expected["infos"], strict=True):
        # Numbers are text in JSON.
        infos = info[str(one["error"])] if isinstance(info, dict) else info if info is None else [info]
        assert infos is None or one["info"] in infos, (number, one, infos)
    if expected["phases"]:
        assert [[[phase.layer, phase.opcode] for phase in phases] for phases in outcome["phases"]] == expected["phases"]
    for name, values in (expected["links"] or {}).items():
        assert [link[name] for link in outcome["links"]] == values, (number, name, outcome["links"])
    for chiplet, layers in enumerate(expected["regions"] or ()):
        for layer, (elements, distance) in enumerate(layers):
            want = np.load(directory / f"want{number}.{chiplet}.{layer}.npy")
            data = (directory / f"job{number}.{chiplet}.{layer}").read_bytes()
            got = np.frombuffer(data, dtype="<i2").reshape(len(want), distance // 2)[:, :elements]
            assert np.array_equal(got, want), (number, chiplet, layer)
    if expected["cycles"]:
        expect_cycles(expected["cycles"], outcome["cycles"])
