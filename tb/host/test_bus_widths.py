"""Whole inferences on buses of every width, with an AXI4 memory and an AXI4-Lite host that were not written here.

cocotbext-axi's memory refuses bursts that cross 4 KiB or are wider than the bus, a WLAST in the wrong place, and IDs of
different widths; the checker of `sim/models` is bound beside it.
"""

import itertools
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
import pytest
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam, AxiResp

from contracts import LINE_BYTES, Error, Model, RegionKind
from golden.community.image import build_community_image
from golden.image import Image, build_image
from golden.locator.locator import Limits
from golden.locator.schedule import Schedule
from golden.model.network import Problem, infer
from hw.chiplet.config import GatherChipletConfig
from hw.host.hosted import Hosted
from hw.machine import machine_of
from hw.memory.axi import ATTRIBUTES
from hw.memory.axi_narrower import AXINarrower
from hw.pe.formats import PEConfig
from sim.driver import Driver, DriverError
from sim.harness import CLOCK_NS, parameters, simulate
from sim.host.bus import SimulatedBus
from sim.models.memory import Memory
from sim.models.simulate import simulate_with_memory
from sim.models.wrap import MemoryModel
from sim.problems import random_graph, random_problem
from tb.community.configurations import chiplet_config
from tb.harness.marks import full

MEMORY_BYTES = 1 << 16
#: Beats of 256 bits: what a narrower bus cuts into most parts.
WIDE = GatherChipletConfig(
    groups=1, pes=2, depth=32, pe=PEConfig(lanes=2, data_width=256, weight_rows=128, max_out=12, queue=2)
)
#: Two clusters, each with a memory port.
CLUSTERS = chiplet_config(
    community={"width": 128, "columns": 256, "partners": 2, "max_out": 12, "weight_rows": 128},
    locator={"engines": 2, "searches": 1, "nodes": 128, "edges": 1024, "banks": 4, "lanes": 1, "outputs": 2},
    clusters=2, combiners=2, pes=2, units=2, finishers=2, hubs=32, kept=32,
)  # fmt: skip
STALLS = [0.0, 0.3]
EXACT = "inferences_are_exact_on_this_bus"


class LibraryBus:
    """Registers and memory behind other people's AXI."""

    def __init__(self, dut: Any) -> None:
        with warnings.catch_warnings():
            # The library still uses names that cocotb 2 has renamed.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=MEMORY_BYTES)
            self.host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self._dut = dut

    def pause(self, source: random.Random, chance: float) -> None:
        """Stall every channel of the memory with this chance."""
        read, write = self.ram.read_if, self.ram.write_if
        for channel in (read.ar_channel, read.r_channel, write.aw_channel, write.w_channel, write.b_channel):
            pauses: Iterator[bool] = (source.random() < chance for _ in itertools.count())
            channel.set_pause_generator(pauses)

    async def read(self, address: int) -> int:
        """Read a register."""
        got = await self.host.read(address, 4)
        if got.resp != AxiResp.OKAY:
            raise DriverError(f"read of {address:#x}: {got.resp.name}")
        return int.from_bytes(got.data, "little")

    async def write(self, address: int, value: int) -> None:
        """Write a register."""
        answer = await self.host.write(address, value.to_bytes(4, "little"))
        if answer.resp != AxiResp.OKAY:
            raise DriverError(f"write of {value:#x} to {address:#x}: {answer.resp.name}")

    async def load(self, address: int, contents: bytes) -> None:
        """Write memory."""
        self.ram.write(address, contents)

    async def dump(self, address: int, size: int) -> bytes:
        """Read memory."""
        return bytes(self.ram.read(address, size))

    async def wait(self) -> None:
        """Wait for the interrupt."""
        await RisingEdge(self._dut.irq)


async def expect_results(bus: Any, image: Image, problem: Problem, base: int = 0) -> None:
    """Compare the results of every layer of an image that lies at `base` with the golden model."""
    for number, layer in enumerate(infer(problem)):
        region = image.results_region(number)
        got = image.rows(region, await bus.dump(base + region.address, region.bytes))
        np.testing.assert_array_equal(got, layer.results)


@cocotb.test()
@cocotb.parametrize(stall=STALLS)
async def inferences_are_exact_on_this_bus(dut: Any, stall: float) -> None:
    dut.rst.value = 1
    bus = LibraryBus(dut)
    bus.pause(random.Random(random.getrandbits(64)), stall)
    Clock(dut.clk, CLOCK_NS, unit="ns").start()
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    driver = Driver(bus, patience=10)
    for channel in ("ar", "aw"):
        for name, (_, value) in ATTRIBUTES.items():
            assert int(getattr(dut, f"m_axi_{channel}{name}").value) == value
        assert int(getattr(dut, f"m_axi_{channel}prot").value) == 0
    for seed, model in enumerate((Model.GCN, Model.GIN)):
        problem = random_problem(random_graph(seed, 14, 40, features=5, density=0.6), model, [6, 3], seed)
        image, base = build_image(problem), seed * 7 * LINE_BYTES
        finished = await driver.run(bytes(image.data), base)
        assert finished.error == Error.NONE
        await expect_results(bus, image, problem, base)


async def begin(dut: Any) -> tuple[SimulatedBus, Memory]:
    """Return the bus and the memory, which stalls, of a machine after its reset."""
    dut.rst.value = 1
    given = parameters()
    memory = Memory(dut, int(given["bus_width"]) // 8, Path(given["directory"]))
    bus = SimulatedBus(dut, memory)
    Clock(dut.clk, CLOCK_NS, unit="ns").start()
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)
    memory.stall(0.3)
    return bus, memory


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def answers_out_of_order_and_an_error_of_one_part(dut: Any) -> None:
    bus, memory = await begin(dut)
    memory.out_of_order(True)
    driver = Driver(bus, patience=100)
    problem = random_problem(random_graph(3, 14, 40, features=5, density=0.6), Model.SAGE, [6, 3], 3)
    image = build_image(problem)
    weights = image.region(RegionKind.WEIGHTS)
    part = memory.beat_bytes
    for place in (0, WIDE.pe.data_width // 8 // 2, WIDE.pe.data_width // 8 - part):
        memory.read_errors(range(weights.address + place, weights.address + place + part))
        finished = await driver.run(bytes(image.data))
        assert (finished.error, finished.info) == (Error.MEMORY_READ, weights.line)
    memory.read_errors(None)
    assert (await driver.run(bytes(image.data))).error == Error.NONE
    await expect_results(bus, image, problem)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def ports_of_clusters_are_narrowed_and_counted(dut: Any) -> None:
    """Every port has a narrower of its own, and the control port counts the beats of all, as wide as the machine's."""
    bus, memory = await begin(dut)
    driver = Driver(bus, patience=100)
    problem = random_problem(random_graph(3, 40, 90, features=5, density=0.6), Model.GIN, [6, 3], 3)
    image = build_community_image(problem, Schedule(4), Limits(64, 64, 64, 8))
    assert (await driver.run(bytes(image.data))).error == Error.NONE
    await expect_results(bus, image, problem)
    counted, moved = await driver.counters(), memory.counters()
    parts = CLUSTERS.port[1] // 8 // memory.beat_bytes
    assert counted["read_beats"] * parts == moved["beats_read"]
    assert counted["write_beats"] * parts == moved["beats_written"]


def test_ports_of_clusters_on_a_narrower_bus(tmp_path: Path) -> None:
    component = Hosted(machine_of(CLUSTERS, once=False), 128)
    for name, (width, _) in ATTRIBUTES.items():
        assert len(getattr(component, f"m_axi_1_ar{name}")) == width
    simulate_with_memory(
        component,
        __name__,
        tmp_path,
        name="hosted_clusters",
        memories={"m_axi": MemoryModel(depth=MEMORY_BYTES // 16, beats=32)},
        parameters={"bus_width": 128},
        testcase="ports_of_clusters_are_narrowed_and_counted",
    )


def test_answers_of_a_narrower_bus(tmp_path: Path) -> None:
    simulate_with_memory(
        Hosted(machine_of(WIDE), 32),
        __name__,
        tmp_path,
        name="hosted_narrowed",
        memories={"m_axi": MemoryModel(depth=MEMORY_BYTES // 4, beats=128)},
        parameters={"bus_width": 32},
        testcase="answers_out_of_order_and_an_error_of_one_part",
    )


@pytest.mark.parametrize("width", [32, pytest.param(64, marks=full), 128, pytest.param(256, marks=full)])
def test_every_width(width: int) -> None:
    component = Hosted(machine_of(WIDE), width)
    assert len(component.m_axi_rdata) == width
    simulate(component, __name__, name=f"hosted_on_{width}", testcase=[f"{EXACT}/stall={stall}" for stall in STALLS])


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"narrow": 16}, "narrow must be a power of two from 32 on, not 16"),
        ({"narrow": 96}, "narrow must be a power of two from 32 on, not 96"),
        ({"wide": 32}, "wide must be 2, 4, 8 or 16 times 32, not 32"),
        ({"wide": 1024}, "wide must be 2, 4, 8 or 16 times 32, not 1024"),
        ({"wide": 96}, "wide must be 2, 4, 8 or 16 times 32, not 96"),
    ],
)
def test_widths_that_do_not_fit(sizes: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        AXINarrower(**sizes)
