"""The memory model itself: what it is told to do, it does; a manager that breaks a rule is noticed."""

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import cocotb
import pytest
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from hw.memory.axi import AXI4Signature, flat_members
from sim.memory.memory_side import MemorySide
from sim.models.wrap import CONTROLS, MemoryModel, wrapper
from tb.memory.memory_bench import SIZE, MemoryBench, begin, simulate_memory_side


@cocotb.test()
@cocotb.parametrize(latency=[1, 2, 3, 17, 250])
async def the_first_beat_comes_after_the_latency(dut: Any, latency: int) -> None:
    bench = await begin(dut)
    bench.memory.latency(latency)
    began = bench.bench.cycle
    bench.fetch([(0, 1)])
    first = await bench.finish() - began
    # Slice, arbiter, R register and FIFO.
    assert first == 1 + latency + 4


@cocotb.test()
@cocotb.parametrize(limit=[(1, 2), (1, 7), (2, 3), (3, 4)])
async def the_bandwidth_is_limited_both_ways(dut: Any, limit: tuple[int, int]) -> None:
    bench = await begin(dut)
    beats, cycles = limit
    bench.memory.latency(1)
    bench.memory.bandwidth(beats, cycles)
    count = 120
    began = bench.bench.cycle
    bench.fetch((i, 1) for i in range(count))
    bench.write((SIZE // 16 + i, i, 1) for i in range(count))
    took = await bench.finish() - began
    least = count * cycles // beats
    assert least <= took <= least + 16
    assert bench.bench.cycle - began <= least + 40


@cocotb.test()
@cocotb.parametrize(channel=["ar", "r", "aw", "w", "b"])
async def a_channel_stalls_as_often_as_it_is_told(dut: Any, channel: str) -> None:
    bench = await begin(dut)
    bench.memory.latency(1)
    bench.memory.stall({channel: 0.75})
    count = 300
    began = bench.bench.cycle
    if channel in ("ar", "r"):
        bench.fetch((i, 1) for i in range(count))
    else:
        bench.write((i, i, 1) for i in range(count))
    await bench.finish()
    assert 3.2 * count < bench.bench.cycle - began < 4.8 * count


@cocotb.test()
async def seeds_decide_the_stalls(dut: Any) -> None:
    took = []
    for seed in (1, 1, 2):
        bench = await begin(dut)
        bench.memory.seed(seed)
        await bench.bench.reset()
        bench.memory.stall(0.5)
        bench.fetch((i, 1) for i in range(200))
        took.append(await bench.finish())
    assert took[0] == took[1] != took[2]


@cocotb.test()
async def counters_count(dut: Any) -> None:
    bench = await begin(dut)
    bench.memory.latency(40)
    assert bench.memory.counters() == {
        "beats_read": 0, "beats_written": 0, "bytes_read": 0, "bytes_written": 0, "busy_cycles": 0, "idle": 1,
    }  # fmt: skip
    bench.fetch([(3, 5), (9, 2)])
    bench.write([(1, 0, 0b101), (2, 0, 0xFF), (3, 0, 0)])
    await bench.bench.cycles(10)
    assert bench.memory.counters()["idle"] == 0
    await bench.finish()
    counters = bench.memory.counters()
    busy = counters.pop("busy_cycles")
    assert counters == {
        "beats_read": 7, "beats_written": 3, "bytes_read": 7 * bench.beat_bytes, "bytes_written": 10, "idle": 1,
    }  # fmt: skip
    assert 40 + 3 <= busy <= 40 + 12


@cocotb.test()
async def an_unanswered_write_is_not_seen(dut: Any) -> None:
    bench = await begin(dut)
    bench.memory.latency(20)
    old = bench.beat(7)
    bench.bench.drive("write_i", [{"address": 7, "data": ~old & 0xFF, "strobe": 1}])
    await bench.bench.cycles(12)
    assert int.from_bytes(await bench.memory.dump(7 * bench.beat_bytes, bench.beat_bytes), "little") == old
    await bench.bench.cycles(20)
    assert await bench.memory.dump(7 * bench.beat_bytes, 1) == bytes([~old & 0xFF])


@cocotb.test()
async def an_image_replaces_the_start_of_the_memory(dut: Any) -> None:
    bench = await begin(dut)
    image = bench.bench.random.randbytes(5 * bench.beat_bytes + 3)
    await bench.memory.load(image)
    rest = await bench.memory.dump(0, SIZE)
    assert rest[: len(image)] == image
    assert rest[6 * bench.beat_bytes :] == bytes(bench.image[6 * bench.beat_bytes :])
    assert await bench.memory.dump(3, 21) == rest[3:24]


@cocotb.test()
async def beats_of_different_ids_interleave_only_if_told(dut: Any) -> None:
    changes = {}
    for out_of_order in (False, True):
        bench = await begin(dut)
        bench.memory.out_of_order(out_of_order)
        bench.memory.latency(10)
        bench.fetch([(0, 16)])
        bench.read_ranges([(0, 16 * bench.beat_words)])
        order = await ports_in_order(bench, 32)
        changes[out_of_order] = sum(a != b for a, b in pairwise(order))
    assert changes[False] == 1
    assert changes[True] > 5


async def ports_in_order(bench: MemoryBench, count: int) -> list[str]:
    """Return from which port each of the next `count` beats came."""
    order: list[str] = []

    def note(port: str, _: Any) -> None:
        order.append(port)

    for port in ("fetch_o", "range_o"):
        bench.bench.take(port, partial(note, port))
    await bench.bench.until(lambda: len(order) == count)
    return order


def test_axi_memory(tmp_path: Path) -> None:
    simulate_memory_side("narrow", __name__, tmp_path)


class Port(wiring.Component):
    """A component with nothing but an AXI4 port of some name."""

    def __init__(self, prefix: str) -> None:
        super().__init__(flat_members(prefix, Out(AXI4Signature(32, 64, 1))))


def test_wrapper_names_what_is_missing() -> None:
    with pytest.raises(ValueError, match="memories: the design has no AXI4 port 'm_axi'"):
        wrapper(Port("other"), "port", "top")


def test_wrapper_passes_other_ports_through() -> None:
    text = wrapper(MemorySide(), "side", "top", {"m_axi": MemoryModel(depth=64, name="dram")})
    assert "output busy" in text
    assert "output m_axi" not in text
    for control in CONTROLS:
        assert f"dram_{control}" in text
