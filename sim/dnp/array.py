# mypy: disable-error-code="attr-defined,index"
"""Arrays on the bench: building them from one core, loading over the G-bus, running, reading back."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import First, RisingEdge, Timer
from cocotb.utils import get_sim_time

from contracts.dnp import gbus
from contracts.dnp.config import ProcessorConfig
from contracts.dnp.gbus import Space
from contracts.dnp.isa import GENERAL, Control
from contracts.dnp.topology import Grid
from golden.dnp.array import ArrayModel, EdgePort
from hw.dnp.array import CHIP_MODULE, ProcessorArray
from hw.dnp.chip import CORE_MODULE, NeuralChip
from hw.dnp.core import Core, Status
from sim.harness import simulate
from sim.harness.build import WAIVED, BuildError, BuildOptions, digest, locked, verilator_path
from sim.harness.modules import module_source
from sim.harness.run import CLOCK_NS, Result

__all__ = [
    "ArrayDriver",
    "core_library",
    "exchange",
    "hosts",
    "lint_array",
    "simulate_array",
    "simulate_chip",
]

_WORD = 0xFFFF


#: How the library of the processor is compiled; part of its folder's name.
_LIBRARY = ("--cc", "--build", "-O3", "--x-initial", "unique", "-Wno-fatal", "--lib-create", CORE_MODULE)


def core_library(config: ProcessorConfig) -> tuple[Path, Path]:
    """Compile one processor, once, into a library; return the wrapper for its instances, and the library.

    An array of 1,024 processors is then as quick to compile as its wires.
    """
    source = module_source(Core(config), CORE_MODULE)
    folder = source.with_name(digest(*_LIBRARY))
    wrapper, library = folder / f"{CORE_MODULE}.sv", folder / f"lib{CORE_MODULE}.a"
    with locked(folder.with_suffix(".lock")):
        if not (folder / "built").exists():
            environment = {
                **os.environ,
                "PATH": verilator_path(),
                "MAKEFLAGS": "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O2",
            }
            command = ["verilator", *_LIBRARY, "--Mdir", str(folder), "--top-module", CORE_MODULE, str(source)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BuildError(f"{CORE_MODULE}: verilator failed\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
            (folder / "built").touch()
    return wrapper, library


def lint_array(array: ProcessorArray) -> str:
    """Return what Verilator has to say about an array with chips and processors inside; nothing if all is well.

    Combinational loops through links and joints would show here.
    """
    name = "array"
    sources = [module_source(Core(array.config), CORE_MODULE), module_source(array.chip(), CHIP_MODULE),
               module_source(array, name)]  # fmt: skip
    waived = (f"-Wno-{rule}" for rule in WAIVED)
    command = ["verilator", "--lint-only", "-Wall", *waived, "--top-module", name, *map(str, sources)]
    environment = {**os.environ, "PATH": verilator_path()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return "\n".join(line for line in done.stderr.splitlines() if line.startswith("%"))


def simulate_array(array: ProcessorArray, bench: str, **options: Any) -> Result:
    """Run a bench on an array, as :func:`sim.harness.simulate` does on a component."""
    chip = module_source(array.chip(), CHIP_MODULE)
    name = f"array_{array.grid.rows}x{array.grid.columns}"
    return _simulate(array, bench, array.config, name=name, sources=[chip], **options)


def simulate_chip(chip: NeuralChip, bench: str, **options: Any) -> Result:
    """Run a bench on a chip whose processors are generated apart."""
    return _simulate(chip, bench, chip.cores[0].config, name=CHIP_MODULE, sources=[], **options)


def _simulate(component: Any, bench: str, config: ProcessorConfig, *, sources: list[Path], **options: Any) -> Result:
    wrapper, library = core_library(config)
    sources = [Path(__file__).with_name("array.vlt"), wrapper, *sources]
    linking = BuildOptions(arguments=("-LDFLAGS", str(library)))
    return simulate(component, bench, sources=sources, options=linking, **options)


def exchange(rng: random.Random, rounds: int, base: int = 0) -> str:
    """Program that sends two words of WM at every port, then receives as many, round by round; nothing can deadlock.

    Two words fit into a link. What is received stays, half of it in XM and half in WM, from `base` on in both.
    """
    starts = [f"LDI #{base + 2 * rounds * number} {memory}R{number}" for memory in "WX" for number in range(2)]
    lines = ["SET #2 RC", "SET #1 ICR", f"SET #{rounds} LC0", *starts, "again:"]
    lines += [f"REP OUT WM+ {port}" for port in rng.sample("NESW", 4)]
    for number, port in enumerate(rng.sample("NESW", 4)):
        lines += [f"INX {port} XM[{number % 2}]+", f"INW {port} WM[{number % 2}]+"]
    return "\n".join([*lines, "LOOP LC0 again", "HALT"])


def hosts(machine: ArrayModel, rng: random.Random, words: int, pace: float) -> dict[tuple[int, int], EdgePort]:
    """Give the golden machine so many words and a pace at every end, and return the same for the hardware."""
    ends = {}
    for edge in machine.edges:
        sent = [rng.randrange(-32768, 32768) for _ in range(words)]
        offers, accepts = ([rng.random() < pace for _ in range(37)] + [True] for _ in range(2))
        machine.edges[edge] = EdgePort(sent, offers, accepts)
        ends[edge] = EdgePort(list(sent), offers, accepts)
    return ends


class ArrayDriver:
    """Loads, runs and reads an array; every method returns right after a clock edge.

    Parameters
    ----------
    dut
        cocotb's handle of the array.
    rows, columns, config
        As the array was built.
    """

    def __init__(self, dut: Any, rows: int, columns: int, config: ProcessorConfig) -> None:
        self.dut, self.config = dut, config
        self.array = ProcessorArray(rows, columns, config)
        self.grid = self.array.grid
        self.edge = RisingEdge(dut.clk)
        #: Signals that stay low while the array runs: nothing passes where edges are joined with each other.
        self.closed: list[Any] = []

    @cached_property
    def _g_i(self) -> tuple[Any, Any, Any]:
        return self.dut.g_i__valid, self.dut.g_i__payload, self.dut.g_i__ready

    @cached_property
    def _g_o(self) -> tuple[Any, Any, Any]:
        return self.dut.g_o__valid, self.dut.g_o__payload, self.dut.g_o__ready

    def place(self, processor: int) -> tuple[int, int]:
        """Chip and core of a processor on the G-bus."""
        return self.array.place(processor)

    async def reset(self) -> None:
        """Start the clock and reset."""
        Clock(self.dut.clk, CLOCK_NS, unit="ns", impl="gpi").start()
        await self.reset_again()

    async def reset_again(self) -> None:
        """Reset, whatever the array is doing."""
        dut = self.dut
        dut.rst.value = 1
        dut.topology.value = 0
        dut.host.value = 0
        dut.g_i__valid.value = 0
        dut.g_o__ready.value = 0
        for index in range(len(self.grid.edges())):
            getattr(dut, f"i__{index}__valid").value = 0
            getattr(dut, f"i__{index}__payload").value = 0
            getattr(dut, f"o__{index}__ready").value = 0
        await self.edge
        await self.edge
        dut.rst.value = 0

    async def send(self, words: Sequence[int]) -> None:
        """Send words over the G-bus."""
        valid, payload, ready = self._g_i
        valid.value = 1
        for word in words:
            payload.value = int(word) & _WORD
            await self.edge
            while not ready.value:
                await self.edge
        valid.value = 0

    async def write(self, processor: int | None, space: Space, address: int, words: Sequence[int]) -> None:
        """Write to a processor, or to all."""
        await self.send(gbus.write(None if processor is None else self.place(processor), space, address, words))

    async def read(self, processor: int, space: Space, address: int, count: int) -> list[int]:
        """Read unsigned words of a processor."""
        valid, payload, ready = self._g_o
        await self.send(gbus.read(self.place(processor), space, address, count))
        ready.value = 1
        words: list[int] = []
        # Between two words are clocks without one, and a word is taken at the end of its clock.
        offered = RisingEdge(valid)
        for _ in range(count):
            await offered
            words.append(int(payload.value))
        await self.edge
        ready.value = 0
        return words

    async def load(self, machine: ArrayModel) -> None:
        """Give every processor the memories of the golden machine; what all share is sent once."""
        s = machine.state
        for space, memory in ((Space.PROGRAM, s.p), (Space.WM, s.wm), (Space.XM, s.xm)):
            used = np.flatnonzero(memory.any(axis=0))
            length = int(used[-1]) + 1 if used.size else 0
            different = np.flatnonzero((memory != memory[0]).any(axis=0))
            shared = min(length, int(different[0])) if different.size else length
            if shared:
                await self.write(None, space, 0, memory[0, :shared].tolist())
            for processor in range(self.grid.processors) if shared < length else ():
                await self.write(processor, space, shared, memory[processor, shared:length].tolist())

    async def configure(self, grid: Grid) -> None:
        """Join the edges; the host offers words and room there all the same."""
        dut = self.dut
        dut.topology.value = int(grid.topology)
        dut.host.value = sum(1 << side for side in grid.host)
        joints = {edge: grid.joint(*edge) for edge in grid.edges()}
        fed = set(joints.values())
        self.closed = []
        for index, edge in enumerate(grid.edges()):
            if joints[edge] is not None:
                getattr(dut, f"i__{index}__valid").value = 1
                self.closed.append(getattr(dut, f"i__{index}__ready"))
            if edge in fed:
                getattr(dut, f"o__{index}__ready").value = 1
                self.closed.append(getattr(dut, f"o__{index}__valid"))
        await self.edge

    async def run(self, ends: Mapping[tuple[int, int], EdgePort], limit: int) -> int:
        """Start all programs and serve the edge ports in `ends` until all have halted; returns the clocks."""
        dut = self.dut
        order = {edge: index for index, edge in enumerate(self.grid.edges())}
        served = [(end, *(getattr(dut, f"{way}__{order[edge]}__{name}") for way, name in _SIGNALS))
                  for edge, end in ends.items()]  # fmt: skip
        awaited = [taken not in self.closed for _, _, _, taken, _, _, _ in served]
        await self.send(gbus.on())
        await self.edge
        for clock in range(limit):
            offered, willing = [], []
            for wanted, (end, valid, payload, _, _, _, ready) in zip(awaited, served, strict=True):
                word = end.offer(clock) if wanted else None
                offered.append(word is not None)
                if wanted:
                    valid.value = word is not None
                if word is not None:
                    payload.value = word
                willing.append(bool(end.accepts[clock % len(end.accepts)]))
                ready.value = willing[-1]
            await self.edge
            for offer, wanted, (end, _, _, taken, valid, payload, _) in zip(offered, willing, served, strict=True):
                if offer and taken.value:
                    end.take()
                if wanted and valid.value:
                    end.received.append(payload.value.to_signed())
            assert not any(signal.value for signal in self.closed), "a word between the host and an edge that is joined"
            if dut.halted.value:
                assert dut.online.value
                return clock
        raise AssertionError(f"not all programs halted within {limit} clocks")

    async def run_streams(self, ends: Mapping[tuple[int, int], EdgePort], limit: int) -> int:
        """Start all programs and offer all words as fast as they are taken; returns the clocks.

        Costs no Python in clocks in which no word passes; outputs to the host are taken and dropped.
        """
        dut = self.dut
        order = {edge: index for index, edge in enumerate(self.grid.edges())}
        for index in range(len(order)):
            getattr(dut, f"o__{index}__ready").value = 1
        await self.send(gbus.on())
        await self.edge
        began = get_sim_time("ns")
        feeders = [cocotb.start_soon(self._feed(order[edge], end.words)) for edge, end in ends.items() if end.words]
        late = Timer(limit * CLOCK_NS, unit="ns")
        if await First(RisingEdge(dut.halted), late) is late:
            raise AssertionError(f"not all programs halted within {limit} clocks")
        clocks = round((get_sim_time("ns") - began) / CLOCK_NS)
        for feeder in feeders:
            feeder.cancel()
        await self.edge
        return clocks

    async def _feed(self, index: int, words: Sequence[int]) -> None:
        valid, ready = getattr(self.dut, f"i__{index}__valid"), getattr(self.dut, f"i__{index}__ready")
        payload = getattr(self.dut, f"i__{index}__payload")
        risen = RisingEdge(ready)
        valid.value = 1
        for word in words:
            payload.value = word
            await self.edge
            while not ready.value:
                await risen
                await self.edge
        valid.value = 0

    async def stop(self) -> None:
        """Go off-line."""
        for index in range(len(self.grid.edges())):
            getattr(self.dut, f"o__{index}__ready").value = 0
        await self.send(gbus.off())
        await self.edge
        assert not self.dut.online.value

    async def compare(
        self, machine: ArrayModel, processors: Sequence[int] | None = None, *, memories: bool = True
    ) -> None:
        """Read processors back and compare registers, counters and `memories` with the golden machine."""
        s = machine.state
        for p in processors if processors is not None else range(self.grid.processors):
            found = {
                "general": await self.read(p, Space.STATUS, Status.GENERAL.value, GENERAL),
                "control": await self.read(p, Space.STATUS, Status.CONTROL.value, len(Control)),
            }
            wanted = {"general": s.rf[p], "control": s.control[p]}
            if memories:
                found["wm"] = await self.read(p, Space.WM, 0, self.config.wm_depth)
                found["xm"] = await self.read(p, Space.XM, 0, self.config.xm_depth)
                wanted |= {"wm": s.wm[p], "xm": s.xm[p]}
            head = await self.read(p, Space.STATUS, 0, Status.BLOCKED.value + 2)
            for name, values in wanted.items():
                pairs = enumerate(zip(found[name], (int(v) & _WORD for v in values), strict=True))
                different = [(i, f, w) for i, (f, w) in pairs if f != w]
                assert not different, f"processor {p}, {name}: (index, found, expected) {different[:6]}"
            state = int(s.halted[p]) | int(s.code[p]) << 7
            assert [head[0] >> 1, head[1], head[2]] == [state, int(s.stop_pc[p]), int(s.a[p]) & _WORD], f"processor {p}"
            for status, counts in (
                (Status.CLOCKS, s.clocks),
                (Status.INSTRUCTIONS, s.instructions),
                (Status.BLOCKED, s.blocked),
            ):
                count = head[status.value] + (head[status.value + 1] << 16)
                assert count == counts[p], f"processor {p}: {status.name} {count}, golden {counts[p]}"


#: Signals of an edge port, in the order `run` takes them.
_SIGNALS = (("i", "valid"), ("i", "payload"), ("i", "ready"), ("o", "valid"), ("o", "payload"), ("o", "ready"))
