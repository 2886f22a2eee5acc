"""A whole chiplet through its registers: the driver runs images, reads results, and survives errors and resets."""

import os
import re
import struct
import tty
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
import pytest
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from contracts import HEADER, LINE_BYTES, MAGIC, VERSION, Error, Model
from contracts.registers import REGISTERS, register
from golden.community.image import build_community_image
from golden.image import Image, build_image
from golden.model.network import Problem, infer
from hw.host.factories import NARROW, hosted_chiplet
from hw.host.hosted import Hosted
from hw.machine import machine_of
from hw.ring.formats import RingConfig
from scripts.config import load_machine
from sim.driver import Bus, Driver, DriverError, Finished, MappedBus, now, physical_base
from sim.harness import CLOCK_NS, parameters
from sim.harness.build import to_rtlil
from sim.host.bus import SimulatedBus
from sim.models.activity import activity
from sim.models.memory import Memory
from sim.models.simulate import simulate_with_memory
from sim.models.wrap import MemoryModel
from sim.problems import random_graph, random_problem
from sim.runner.jobs import Job, Settings, mismatches
from sim.runner.run import run_jobs
from tb.flows.configurations import small_community

BEAT_BYTES = NARROW.pe.data_width // 8
MEMORY_BYTES = 1 << 16


class CheckedBus(SimulatedBus):
    """The same with accesses by somebody else's AXI4-Lite host."""

    def __init__(self, dut: Any, directory: Path) -> None:
        super().__init__(dut, Memory(dut, BEAT_BYTES, directory))
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)

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


def problems() -> list[Problem]:
    return [
        random_problem(random_graph(seed, 14, 40, features=5, density=0.6), model, [6, 3], seed)
        for seed, model in enumerate((Model.GCN, Model.SAGE, Model.GIN))
    ]


async def begin(dut: Any) -> tuple[CheckedBus, Driver]:
    dut.rst.value = 1
    bus = CheckedBus(dut, Path(parameters()["directory"]))
    Clock(dut.clk, CLOCK_NS, unit="ns").start()
    await reset(dut)
    return bus, Driver(bus, patience=100)


async def reset(dut: Any) -> None:
    dut.rst.value = 1
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)


async def exact(bus: SimulatedBus, problem: Problem, image: Image, base: int = 0) -> None:
    """Compare every layer's results in memory with the golden model's."""
    for number, layer in enumerate(infer(problem)):
        region = image.results_region(number)
        got = image.rows(region, await bus.dump(base + region.address, region.bytes))
        np.testing.assert_array_equal(got, layer.results)


@cocotb.test()
async def images_run_wherever_they_lie(dut: Any) -> None:
    bus, driver = await begin(dut)
    for number, problem in enumerate(problems()):
        image = build_image(problem)
        base = number * 5 * LINE_BYTES
        before = bus.memory.counters()
        finished = await driver.run(bytes(image.data), base)
        assert finished.error == Error.NONE
        await exact(bus, problem, image, base)
        after = bus.memory.counters()
        for name, counter in (("read_beats", "beats_read"), ("write_beats", "beats_written")):
            assert finished.counters[name] == after[counter] - before[counter] > 0
        assert finished.counters["cycles"] > sum(finished.counters.values()) - finished.counters["cycles"]
        assert str(finished) == f"done in {finished.counters['cycles']} cycles"


@cocotb.test()
async def an_error_is_reported_and_the_next_run_is_right(dut: Any) -> None:
    bus, driver = await begin(dut)
    problem = problems()[0]
    image = build_image(problem)
    broken = bytearray(image.data)
    struct.pack_into("<I", broken, HEADER.offsets["magic"] // 8, MAGIC ^ 1)
    finished = await driver.run(bytes(broken))
    assert (finished.error, finished.info) == (Error.BAD_MAGIC, MAGIC ^ 1)
    assert str(finished) == f"BAD_MAGIC in layer 0, command 0, info {MAGIC ^ 1:#x}"
    assert (await driver.read("STATUS"))["failed"]
    assert (await driver.read("ERROR"))["error"] == Error.BAD_MAGIC
    bus.memory.read_errors(range(LINE_BYTES))
    assert (await driver.run(bytes(image.data))).error == Error.MEMORY_READ
    bus.memory.read_errors(None)
    assert (await driver.run(bytes(image.data))).error == Error.NONE
    assert not (await driver.read("STATUS"))["failed"]
    await exact(bus, problem, image)


@cocotb.test()
async def a_reset_in_the_middle_of_a_run_is_followed_by_a_right_one(dut: Any) -> None:
    bus, driver = await begin(dut)
    problem = problems()[1]
    image = build_image(problem)
    await bus.load(0, bytes(image.data))
    for cycles in (1, 40, 400):
        await driver.start()
        for _ in range(cycles):
            await RisingEdge(dut.clk)
        await reset(dut)
        assert not (await driver.read("STATUS"))["busy"]
    assert (await driver.run(bytes(image.data))).error == Error.NONE
    await exact(bus, problem, image)


@cocotb.test()
async def what_the_driver_cannot_do_it_says(dut: Any) -> None:
    bus, driver = await begin(dut)
    image = bytes(build_image(problems()[0]).data)
    await bus.load(0, image)
    for work, said in (
        (driver.start(1), "image at 0x1, expected a multiple of 64"),
        (bus.write(register("ID").address, 1), f"write of 0x1 to {register('ID').address:#x}: SLVERR"),
        (bus.read(0x3C), "read of 0x3c: SLVERR"),
    ):
        with pytest.raises(DriverError, match=said):
            await work
    await driver.start()
    with pytest.raises(DriverError, match="register STATUS: busy, expected no run under way"):
        await driver.start()
    with pytest.raises(DriverError, match=r"write of 0x2 to 0x2c: SLVERR"):
        await driver.write("UNIT", number=len(await driver.working()))
    with pytest.raises(DriverError, match="register STATUS: not done after 0 waits"):
        await Driver(bus, patience=0).finish()
    assert (await driver.finish()).error == Error.NONE


def test_hosted(tmp_path: Path) -> None:
    simulate_with_memory(
        hosted_chiplet(NARROW),
        __name__,
        tmp_path,
        name="hosted",
        memories={"m_axi": MemoryModel(depth=MEMORY_BYTES // BEAT_BYTES)},
    )


@pytest.mark.parametrize("kind", ["gather", "community"])
def test_registers_count_the_cycles_in_which_units_work(kind: str, tmp_path: Path) -> None:
    """As a recorder in the simulation counts them, from 0 in each run."""
    sizes: Any = NARROW
    build: Any = build_image
    if kind == "community":
        (tmp_path / "small.toml").write_text(small_community(512))
        sizes, build = load_machine(str(tmp_path / "small.toml"), 1).chiplet, build_community_image
    problem = problems()[0]
    image = build(problem)
    seen = []
    for name, resets in (("once", [True]), ("twice", [True, False])):
        (folder := tmp_path / name).mkdir()
        jobs = [Job([image], Settings(settle=sizes.settling, reset=reset)) for reset in resets]
        outcomes, _ = run_jobs(sizes, jobs, folder, hosted=True)
        assert not any(mismatches(problem, outcome) for outcome in outcomes)
        counts = [outcome.run.working for outcome in outcomes]
        np.testing.assert_array_equal(np.sum(counts, axis=0), activity(folder).sum(axis=0, dtype=np.int64))
        seen += counts
    assert all(len(counts) == len(sizes.parts) and min(counts) > 0 for counts in seen)
    # The second run has begun at 0 without a reset.
    assert sum(seen[2]) < 1.5 * sum(seen[0])


class _Fifo(wiring.Component):
    """No machine: it cannot be started."""

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(8))})


def test_only_machines_are_hosted() -> None:
    with pytest.raises(ValueError, match="machine must have a port start, which _Fifo has not"):
        Hosted(_Fifo())


def test_chiplets_of_a_ring_are_hosted_too() -> None:
    hosted = Hosted(machine_of(NARROW, ring=RingConfig(chiplets=2, max_out=NARROW.pe.max_out)))
    text = to_rtlil(hosted, "hosted_ring_chiplet")
    for port in ("s_axil_awaddr", "irq", "m_axi_araddr", "position", "m_axis_tdata", "s_axis_tdata"):
        assert re.search(rf"^  wire .*(input|output) \d+ +\\{port}$", text, re.M), port


# The driver without a simulation ---------------------------------------------------------------------------------


def mapped(folder: Path, values: dict[str, int]) -> MappedBus:
    registers, memory = bytearray(4096), folder / "memory"
    for name, value in values.items():
        struct.pack_into("<I", registers, register(name).address, value)
    (folder / "registers").write_bytes(registers)
    memory.write_bytes(bytes(8192))
    return MappedBus(folder / "registers", memory, 8192, pause=0)


def test_a_mapped_bus_reaches_registers_and_memory(tmp_path: Path) -> None:
    done = register("STATUS").layout.pack({"done": 1})
    values = {"ID": MAGIC, "VERSION": VERSION, "STATUS": done, "CYCLES_LOW": 7, "CYCLES_HIGH": 1, "INFO": 3}
    with mapped(tmp_path, values) as bus:
        finished = now(Driver(bus).run(b"image", 2 * LINE_BYTES))
        assert now(bus.dump(2 * LINE_BYTES, 5)) == b"image"
    assert finished == Finished(0, 0, 0, 3, {"cycles": (1 << 32) + 7, "read_beats": 0, "write_beats": 0})
    written = (tmp_path / "registers").read_bytes()
    assert struct.unpack_from("<I", written, register("IMAGE").address) == (2,)
    assert len(written) > REGISTERS[-1].address


def test_the_physical_base_is_apart_from_the_offset_in_the_mapping(tmp_path: Path) -> None:
    done = register("STATUS").layout.pack({"done": 1})
    (tmp_path / "udmabuf0").mkdir()
    (tmp_path / "udmabuf0" / "phys_addr").write_text("0x70000000\n")
    base = physical_base("/dev/udmabuf0", tmp_path)
    with mapped(tmp_path, {"ID": MAGIC, "VERSION": VERSION, "STATUS": done}) as bus:
        now(Driver(bus, base=base).run(b"image", 2 * LINE_BYTES))
        assert now(bus.dump(2 * LINE_BYTES, 5)) == b"image"
        with pytest.raises(DriverError, match="image at physical 0x4000000040, expected below 2\\^32 lines"):
            now(Driver(bus, base=LINE_BYTES << 32).start(LINE_BYTES))
    (line,) = struct.unpack_from("<I", (tmp_path / "registers").read_bytes(), register("IMAGE").address)
    assert line * LINE_BYTES == 0x70000000 + 2 * LINE_BYTES
    with pytest.raises(DriverError, match="memory at 0x20, expected a multiple of 64"):
        Driver(bus, base=32)
    with pytest.raises(DriverError, match="nothing/phys_addr: cannot read a physical address"):
        physical_base("/dev/nothing", tmp_path)


def test_waiting_sleeps_until_the_interrupt(tmp_path: Path) -> None:
    kernel, device = os.openpty()  # a device on which both ends can write
    tty.setraw(device)
    (tmp_path / "registers").write_bytes(bytes(4096))
    (tmp_path / "memory").write_bytes(bytes(8192))
    with MappedBus(tmp_path / "registers", tmp_path / "memory", 8192, pause=60, interrupt=os.ttyname(device)) as bus:
        os.write(kernel, struct.pack("=I", 7))
        now(bus.wait())
        assert os.read(kernel, 4) == struct.pack("=I", 1)
    with MappedBus(tmp_path / "registers", tmp_path / "memory", 8192, pause=0, interrupt=os.ttyname(device)) as bus:
        now(bus.wait())  # nothing comes, and it returns
    with pytest.raises(DriverError, match="nothing: cannot open"):
        MappedBus(tmp_path / "registers", tmp_path / "memory", 8192, interrupt=tmp_path / "nothing")
    os.close(kernel)
    os.close(device)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"ID": 5}, "register ID: 0x00000005, expected 0x4c4f5441: this is no Atoll"),
        ({"ID": MAGIC, "VERSION": VERSION + 1}, f"register VERSION: {VERSION + 1}, expected {VERSION}"),
    ],
)
def test_another_device_is_refused(tmp_path: Path, values: dict[str, int], said: str) -> None:
    with mapped(tmp_path, values) as bus, pytest.raises(DriverError, match=said):
        now(Driver(bus).identify())


def test_what_cannot_be_mapped_is_named(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="nothing: cannot map 4096 bytes"):
        MappedBus(tmp_path / "nothing", tmp_path / "nothing", 4096)


def test_an_image_larger_than_the_memory_is_refused(tmp_path: Path) -> None:
    with (
        mapped(tmp_path, {}) as bus,
        pytest.raises(DriverError, match="image at 0x40: 8192 bytes, expected at most 8128"),
    ):
        now(bus.load(0x40, bytes(8192)))


def test_a_bus_that_waits_needs_its_loop() -> None:
    class Waiting(Bus):
        async def read(self, address: int) -> int:
            await _Forever()
            return 0

    class _Forever:
        def __await__(self) -> Any:
            yield

    with pytest.raises(RuntimeError, match="the bus waits"):
        now(Driver(Waiting()).identify())  # type: ignore[abstract]
