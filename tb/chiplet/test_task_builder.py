"""Task builder: addresses in order, scales with the first beat, both sources, exact cycles."""

from dataclasses import dataclass
from typing import Any

import cocotb
import pytest

from contracts import SCALE
from hw.memory.formats import row_beats_width
from hw.pe.formats import Coefficient
from sim.harness import parameters
from sim.harness.expected import expect_cycles
from tb.chiplet.parts import CONFIGURATIONS, Part, begin, config, simulate_parts


@dataclass
class Tasks:
    """Sends vertices from one of the two sources and expects their tasks."""

    part: Part
    gather: bool
    results: int = 0
    stride: int = 1
    attends: bool = False
    vertex: int = 0
    rooted: int = 0

    async def begin(self) -> None:
        """Set the builder up for the first vertex."""
        settings = {"gather": int(self.gather), "attends": int(self.attends), "rooted": self.rooted}
        self.part.set("settings", {**settings, "results": self.results, "stride": self.stride})
        await self.part.pulse("start")
        self.vertex = 0

    def send(self, beats: int) -> None:
        """Send a vertex of so many beats."""
        random = self.part.random
        scale = random.getrandbits(32)
        address = (self.results + self.vertex * self.stride) % (1 << config().beat_address_width)
        self.vertex += 1
        if not self.attends:
            self.part.drive("scales", [{"data": scale}])
        for number in range(beats):
            data = random.getrandbits(config().data_width)
            ends = {"first": int(number == 0), "last": int(number == beats - 1)}
            mask, coefficient = random.getrandbits(config().data_width // 32), random.choice(list(Coefficient))
            scalar = random.randrange(-(1 << 15), 1 << 15)
            high = int(coefficient == Coefficient.NEIGHBOUR_HIGH)
            if self.gather:
                row = {"data": data, "coefficient": coefficient.value, "scalar": scalar, **ends}
                brought = scale if self.attends and ends["last"] else random.getrandbits(32)
                fields = {"mantissa": brought & 0xFFFF, "exponent": brought >> 16 & 31, "reserved": brought >> 21}
                self.part.drive("rows", [{**row, "scale": fields}])
                if self.rooted and coefficient == Coefficient.SELF:
                    power = SCALE.unpack(scale)["exponent"] % 16
                    scalar = ((scalar << power) + (1 << 15)) % (1 << 16) - (1 << 15)
            else:
                self.part.drive("features", [{"data": data, "mask": mask, "tile": random.getrandbits(8), **ends}])
            self.wanted.append(
                {
                    "data": data,
                    **({"scalar": scalar, "high": high} if self.gather else {}),
                    "mask": (1 << config().elements) - 1 if self.gather else _doubled(mask),
                    **ends,
                    **({"address": address} if ends["first"] else {}),
                    **({"scale": scale} if ends["last" if self.attends else "first"] else {}),
                }
            )

    def __post_init__(self) -> None:
        self.wanted: list[dict[str, int]] = []
        self.taken = self.part.take("o")

    async def finish(self) -> int:
        """Wait for all tasks, compare what each beat defines, and return the cycle of the last beat."""
        bench = self.part.bench
        await bench.until(lambda: len(self.taken) >= len(self.wanted))
        cycle = bench.cycle
        await bench.cycles(8)
        assert len(self.taken) == len(self.wanted)
        for got, wanted in zip(self.taken, self.wanted, strict=True):
            flat = {**got, "data": sum((v & 0xFFFF) << 16 * k for k, v in enumerate(got["data"]))}
            flat["scale"] = SCALE.pack(got["scale"])
            assert {key: flat[key] for key in wanted} == wanted
        assert not any(driver.busy_words for driver in bench.drivers.values())
        self.taken.clear()
        self.wanted.clear()
        return cycle


def _doubled(mask: int) -> int:
    """Every bit twice: a word of a beat is two elements."""
    return sum(3 << 2 * bit for bit in range(mask.bit_length()) if mask >> bit & 1)


async def make(dut: Any, gather: bool, results: int = 5, stride: int = 1, **pace: float) -> Tasks:
    tasks = Tasks(await begin(dut, "builder", **pace), gather, results, stride)
    await tasks.begin()
    return tasks


@cocotb.test()
@cocotb.parametrize(gather=[True, False], idle=[0.0, 0.5], stall=[0.0, 0.5])
async def vertices_get_their_addresses_and_factors(dut: Any, gather: bool, idle: float, stall: float) -> None:
    tasks = await make(dut, gather, idle=idle, stall=stall)
    longest = 1 << row_beats_width(config().data_width)
    for stride in (*range(1, config().max_beats + 1), longest - 1, 0x555 % longest, 0xAAA % longest):
        tasks.stride = stride
        tasks.results = tasks.part.random.getrandbits(config().beat_address_width)
        tasks.rooted = tasks.part.random.getrandbits(1)
        await tasks.begin()
        for _ in range(25):
            tasks.send(tasks.part.random.choice((1, 1, 2, 5)))
        await tasks.finish()


@cocotb.test()
@cocotb.parametrize(gather=[True, False])
async def a_beat_a_cycle_passes(dut: Any, gather: bool) -> None:
    tasks = await make(dut, gather)
    began = tasks.part.bench.cycle
    for _ in range(50):
        tasks.send(1)
        tasks.send(2)
    cycles = await tasks.finish() - began
    expect_cycles(f"chiplet.task_builder.{'gather' if gather else 'combine'}.{parameters()['configuration']}", cycles)


@cocotb.test()
@cocotb.parametrize(gather=[True, False])
async def a_task_waits_for_its_factor_and_the_factor_for_its_task(dut: Any, gather: bool) -> None:
    tasks = await make(dut, gather)
    for late in ("scales", "rows" if gather else "features"):
        tasks.part.pace(idle={"scales": 0.0, "rows": 0.0, "features": 0.0})
        tasks.part.pace(idle={late: 0.9})
        for _ in range(8):
            tasks.send(2)
        await tasks.finish()


@cocotb.test()
async def rows_bring_their_factors_with_attention(dut: Any) -> None:
    """No factor is waited for, and none is taken."""
    tasks = await make(dut, True, idle=0.2, stall=0.2)
    for attends in (True, False, True):
        tasks.attends = attends
        await tasks.begin()
        for _ in range(20):
            tasks.send(tasks.part.random.choice((1, 1, 2, 5)))
        await tasks.finish()


@cocotb.test()
@cocotb.parametrize(gather=[True, False])
async def the_source_not_chosen_is_left_alone(dut: Any, gather: bool) -> None:
    tasks = await make(dut, gather)
    other = "features" if gather else "rows"
    tasks.part.drive(other, [{"first": 1, "last": 1}])
    for _ in range(4):
        tasks.send(2)
    await tasks.part.bench.until(lambda: len(tasks.taken) == 8)
    await tasks.part.bench.cycles(8)
    assert tasks.part.bench.drivers[tasks.part.port(other)].busy_words == 1
    assert len(tasks.taken) == 8


@cocotb.test()
async def reset_in_the_middle_is_followed_by_right_tasks(dut: Any) -> None:
    tasks = await make(dut, gather=True, stall=0.5)
    for _ in range(4):
        for _ in range(10):
            tasks.send(3)
        await tasks.part.bench.cycles(tasks.part.random.randrange(5, 25))
        await tasks.part.bench.reset()
        tasks.taken.clear()
        tasks.wanted.clear()
        await tasks.begin()
        for _ in range(3):
            tasks.send(2)
        await tasks.finish()


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_task_builder(configuration: str) -> None:
    simulate_parts(configuration, __name__)
