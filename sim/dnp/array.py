# mypy: disable-error-code="attr-defined,index"
"""Arrays on the bench: building them from one core, loading over the G-bus, running, reading back."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cocotb
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from cocotb.clock import Clock
from cocotb.triggers import First, RisingEdge, Timer
from cocotb.utils import get_sim_time

from contracts.dnp import gbus
from contracts.dnp.config import ProcessorConfig
from contracts.dnp.gbus import Space
from contracts.dnp.isa import GENERAL, Control
from contracts.dnp.topology import Grid
from golden.dnp.array import ArrayModel, EdgePort
from golden.dnp.loading import Block, contents
from hw.dnp.array import BOARD, CHIP_MODULE, ProcessorArray
from hw.dnp.chip import CORE_MODULE, NeuralChip
from hw.dnp.core import Core, Status
from sim.harness import simulate
from sim.harness.build import WAIVED, BuildOptions, verilator_path
from sim.harness.modules import module_source
from sim.harness.run import CLOCK_NS, Result
from sim.harness.stepped import stepped_module

__all__ = [
    "ArrayDriver",
    "Bus",
    "exchange",
    "hosts",
    "lint_array",
    "run_mapped",
    "simulate_around",
    "simulate_array",
    "simulate_chip",
]

_WORD = 0xFFFF
#: Clocks after the end of all programs in which words still reach the host.
_ON_THE_WAY = 200


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
    """Run a bench on an array, as :func:`sim.harness.simulate` does on a component; its chips step in threads."""
    name = f"array_{array.grid.rows}x{array.grid.columns}"
    top = _Enclosed(array) if array.boards > 1 and len(array.domains) == 1 else array
    return simulate_around(array, top, bench, name=name, **options)


def simulate_around(array: ProcessorArray, top: Any, bench: str, **options: Any) -> Result:
    """Run a bench on a component `top` that holds an array, whose chips step in threads."""
    chip = stepped_module(array.chip(), CHIP_MODULE, [module_source(Core(array.config), CORE_MODULE)])
    linking = BuildOptions(arguments=("-LDFLAGS", str(chip.library)))
    return simulate(top, bench, sources=[chip.wrapper], options=linking, **options)


def run_mapped(side: int, config: ProcessorConfig, testcase: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Let `side` × `side` processors carry out a test of `sim.dnp.run_mapping`, and return what that leaves.

    Parameters
    ----------
    side
        Processors along a side, 1 or an even number up to 32.
    config
        Memory sizes.
    testcase
        ``forward_pass`` (parameters ``sizes``, ``seed``, ``topology``) or ``learn_digits`` (``images``, ``rate``,
        ``hidden``, ``topology``).
    parameters
        The test's own.

    Returns
    -------
    dict
        ``total`` clocks; ``clocks``, ``instructions`` and ``blocked`` of each processor; ``loading_clocks``, and the
        seconds of simulation of loading and running.

    Raises
    ------
    AssertionError
        If anything differs from the model.
    """
    sizes = [config.wm_depth, config.xm_depth, config.p_depth, config.table_bits]
    with TemporaryDirectory() as folder:
        result = Path(folder).resolve() / "result.json"
        simulate_array(
            ProcessorArray(side, side, config),
            "sim.dnp.run_mapping",
            testcase=testcase,
            parameters={"side": side, "config": sizes, **parameters, "result": str(result)},
        )
        found: dict[str, Any] = json.loads(result.read_text())
    return found


class _Enclosed(wiring.Component):
    """Holds an array of many boards, whose tens of thousands of inner signals cocotb then does not look at."""

    def __init__(self, array: ProcessorArray) -> None:
        self.array = array
        super().__init__(array.signature)

    def elaborate(self, platform: Any) -> Module:
        """Hand all ports on."""
        m = Module()
        m.submodules.array = self.array
        for name in self.array.signature.members:
            outer, inner = getattr(self, name), getattr(self.array, name)
            for one, other in zip(outer, inner, strict=True) if isinstance(outer, list) else ((outer, inner),):
                if isinstance(one, Signal):
                    given = self.array.signature.members[name].flow == wiring.In
                    m.d.comb += other.eq(one) if given else one.eq(other)
                else:
                    wiring.connect(m, wiring.flipped(one), other)
        return m


def simulate_chip(chip: NeuralChip, bench: str, **options: Any) -> Result:
    """Run a bench on a chip whose processors are generated apart."""
    core = module_source(Core(chip.config), CORE_MODULE)
    return simulate(chip, bench, name=CHIP_MODULE, sources=[core], **options)


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


class Bus:
    """The host's end of a G-bus."""

    def __init__(self, dut: Any, suffix: str = "") -> None:
        self.edge = RisingEdge(dut.clk)
        self._in = [getattr(dut, f"g_i{suffix}__{name}") for name in ("valid", "payload", "ready")]
        self._out = [getattr(dut, f"g_o{suffix}__{name}") for name in ("valid", "payload", "ready")]
        self._offered = RisingEdge(self._out[0])

    def close(self) -> None:
        """Offer nothing and take nothing."""
        self._in[0].value = 0
        self._out[2].value = 0

    async def send(self, words: Sequence[int]) -> None:
        """Send words."""
        valid, payload, ready = self._in
        valid.value = 1
        for word in words:
            payload.value = int(word) & _WORD
            await self.edge
            while not ready.value:
                await self.edge
        valid.value = 0

    async def receive(self, count: int) -> list[int]:
        """Take words that were asked for."""
        valid, payload, ready = self._out
        ready.value = 1
        words: list[int] = []
        for _ in range(count):
            await self.edge
            while not valid.value:
                await self._offered
                await self.edge
            words.append(int(payload.value))
        ready.value = 0
        return words


class ArrayDriver:
    """Loads, runs and reads an array; every method returns right after a clock edge.

    Parameters
    ----------
    dut
        cocotb's handle of the array.
    rows, columns, config, board
        As the array was built.
    clocks
        Periods of the boards' own clocks, in ps; none if all share one.
    """

    def __init__(
        self,
        dut: Any,
        rows: int,
        columns: int,
        config: ProcessorConfig,
        board: int = BOARD,
        *,
        clocks: Sequence[int] = (),
    ) -> None:
        self.dut, self.config, self.clocks = dut, config, clocks
        self.array = ProcessorArray(rows, columns, config, board=board, clocks=bool(clocks))
        self.grid = self.array.grid
        self.edge = RisingEdge(dut.clk)
        #: Signals that stay low while the array runs: nothing passes where edges are joined with each other.
        self.closed: list[Any] = []
        #: The host's end of each board's G-bus.
        self.buses = [Bus(dut, f"__{board}") for board in range(self.array.boards)]

    def bus_of(self, processor: int) -> Bus:
        """G-bus that a processor is loaded over."""
        return self.buses[self.array.board(processor)]

    def place(self, processor: int) -> tuple[int, int]:
        """Chip and core of a processor on the G-bus."""
        return self.array.place(processor)

    async def reset(self) -> None:
        """Start the clock and reset."""
        Clock(self.dut.clk, CLOCK_NS, unit="ns", impl="gpi").start()
        for board, period in enumerate(self.clocks):
            await Timer(random.randrange(1, period), unit="ps")
            Clock(getattr(self.dut, f"board_{board}_clk"), period, unit="ps", impl="gpi").start()
        await self.reset_again()

    async def reset_again(self) -> None:
        """Reset, whatever the array is doing."""
        dut = self.dut
        dut.rst.value = 1
        for board in range(len(self.clocks)):
            getattr(dut, f"board_{board}_rst").value = 1
        dut.topology.value = 0
        dut.host.value = 0
        for bus in self.buses:
            bus.close()
        for index in range(len(self.grid.edges())):
            getattr(dut, f"i__{index}__valid").value = 0
            getattr(dut, f"i__{index}__payload").value = 0
            getattr(dut, f"o__{index}__ready").value = 0
        await self.edge
        await self.edge
        if self.clocks:
            await self.pause()
        dut.rst.value = 0
        for board in range(len(self.clocks)):
            getattr(dut, f"board_{board}_rst").value = 0

    async def pause(self, clocks: int = 8) -> None:
        """Wait for some clocks of every board, in which what one does comes across to the others."""
        for board in range(len(self.clocks)):
            for _ in range(clocks):
                await RisingEdge(getattr(self.dut, f"board_{board}_clk"))
        await self.edge

    async def send(self, words: Sequence[int], buses: Sequence[Bus] | None = None) -> None:
        """Send words over the G-buses of all boards, or of some."""
        first, *others = buses or self.buses
        tasks = [cocotb.start_soon(bus.send(words)) for bus in others]
        await first.send(words)
        for task in tasks:
            await task

    async def write(self, processor: int | None, space: Space, address: int, words: Sequence[int]) -> None:
        """Write to a processor, or to all."""
        if processor is None:
            await self.send(gbus.write(None, space, address, words))
        else:
            await self.send(gbus.write(self.place(processor), space, address, words), [self.bus_of(processor)])

    async def read(self, processor: int, space: Space, address: int, count: int) -> list[int]:
        """Read unsigned words of a processor."""
        bus = self.bus_of(processor)
        await bus.send(gbus.read(self.place(processor), space, address, count))
        return await bus.receive(count)

    async def each(self, processors: Sequence[int], work: Callable[[int], Awaitable[None]]) -> None:
        """Do something for every processor: one after the other on a board, boards side by side."""
        boards: dict[int, list[int]] = {}
        for processor in processors:
            boards.setdefault(id(self.bus_of(processor)), []).append(processor)

        async def one_board(own: Sequence[int]) -> None:
            for processor in own:
                await work(processor)

        tasks = [cocotb.start_soon(one_board(own)) for own in boards.values()]
        for task in tasks:
            await task

    async def load(self, machine: ArrayModel) -> None:
        """Give every processor the memories of the golden machine; what all share is sent once."""
        own: dict[int, list[Block]] = {}
        for block in contents(machine):
            if block.processor is None:
                await self.send(block.frame(self.grid))
            else:
                own.setdefault(block.processor, []).append(block)

        async def one(processor: int) -> None:
            for block in own[processor]:
                await self.send(block.frame(self.grid), [self.bus_of(processor)])

        await self.each(list(own), one)

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
        ended = 0
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
            # Where links cross clocks, words are on their way to the host for a while.
            ended = ended + 1 if dut.halted.value else 0
            if ended > (_ON_THE_WAY if self.clocks else 0):
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
        if self.clocks:
            await self.pause()
        assert not self.dut.online.value

    async def compare(
        self, machine: ArrayModel, processors: Sequence[int] | None = None, *, memories: bool = True
    ) -> None:
        """Read processors back and compare registers, counters and `memories` with the golden machine."""

        async def one(processor: int) -> None:
            await self._compare(machine, processor, memories=memories, counters=not self.clocks)

        await self.each(range(self.grid.processors) if processors is None else processors, one)

    async def _compare(self, machine: ArrayModel, p: int, *, memories: bool, counters: bool) -> None:
        s = machine.state
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
            # With clocks of their own, processors wait for each other for other numbers of clocks.
            if status is not Status.INSTRUCTIONS and not counters:
                continue
            assert count == counts[p], f"processor {p}: {status.name} {count}, golden {counts[p]}"


#: Signals of an edge port, in the order `run` takes them.
_SIGNALS = (("i", "valid"), ("i", "payload"), ("i", "ready"), ("o", "valid"), ("o", "payload"), ("o", "ready"))
