"""Read arbiter: turns, beats to their clients in any order, the limit of outstanding bursts, lines of failures."""

from pathlib import Path
from typing import Any

import cocotb
import pytest
from amaranth.hdl import Module

from hw.memory.axi import AXI4Signature
from hw.memory.formats import LINE_BYTES
from hw.memory.read_arbiter import ReadArbiter
from hw.memory.unit_port import attach_unit
from hw.ring.formats import RingConfig
from hw.ring.ring_unit import RingUnit
from sim.harness.formal import prove_all
from sim.memory.memory_side import CLIENTS, CONFIGURATIONS
from tb.memory.formal_read_arbiter import PROOFS
from tb.memory.memory_bench import (
    SIZE,
    begin,
    design,
    random_bursts,
    random_ranges,
    ranges_anywhere,
    simulate_memory_side,
)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5], out_of_order=[False, True])
async def beats_return_to_their_client(dut: Any, stall: float, out_of_order: bool) -> None:
    bench = await begin(dut)
    source = bench.bench.random
    bench.memory.out_of_order(out_of_order)
    bench.memory.stall(stall)
    bench.memory.latency(12)
    bench.fetch(random_bursts(source, 60, bench.beat_bytes))
    bench.read_ranges(random_ranges(source, 80))
    bench.read_words(random_ranges(source, 80))
    await bench.finish()


@cocotb.test()
async def clients_share_the_port_evenly(dut: Any) -> None:
    """Single beats of all clients at once take as long as the port needs for their sum."""
    bench = await begin(dut)
    bench.memory.latency(1)
    count = 100
    words = bench.beat_words
    began = bench.bench.cycle
    bench.fetch((i, 1) for i in range(count))
    bench.read_ranges((words * i, 1) for i in range(count))
    bench.read_words((words * i, 1) for i in range(count))
    progress = {"fetch_o": 0, "range_o": 0, "word_o": 0}
    await bench.bench.cycles(count)
    for port in progress:
        progress[port] = len(bench.taken[port])
    assert max(progress.values()) - min(progress.values()) <= 2, progress
    took = await bench.finish() - began
    assert took <= 3 * count + 12


@cocotb.test()
async def a_client_has_so_many_bursts_outstanding(dut: Any) -> None:
    """Hold a client to `outstanding` bursts in a round trip where its fetcher has room for more."""
    bench = await begin(dut)
    latency = 60
    bench.memory.latency(latency)
    outstanding, depth = design().outstanding, design().depth
    if outstanding >= depth:
        return
    bursts = 5 * outstanding
    began = bench.bench.cycle
    bench.fetch((i, 1) for i in range(bursts))
    took = await bench.finish() - began
    # Five round trips, each of the memory's latency and a cycle in the arbiter, then the rest of the last ones.
    assert took == 5 * (latency + 1) + outstanding + 3


@cocotb.test()
@cocotb.parametrize(out_of_order=[False, True])
async def every_failing_line_is_reported(dut: Any, out_of_order: bool) -> None:
    """Read anywhere in the address space; the memory has an error wherever there is memory."""
    bench = await begin(dut)
    bench.memory.out_of_order(out_of_order)
    bench.memory.stall(0.3)
    bench.memory.latency(4)
    source = bench.bench.random
    bench.memory.read_errors(range(SIZE))
    beats_of_a_line = LINE_BYTES // bench.beat_bytes
    width = design().address_width
    ports = dict.fromkeys(("fetch_o", "range_o", "word_o"), 0)
    lines = []
    for start, length in random_bursts(source, 30, bench.beat_bytes):
        address = source.randrange(1 << (width - 12)) * 4096 // bench.beat_bytes + start % (4096 // bench.beat_bytes)
        bench.bench.drive("fetch_i", [{"address": address, "length": length - 1}])
        lines += [(address + i) // beats_of_a_line for i in range(length)]
        ports["fetch_o"] += length
    for port in ("range", "word"):
        for address, words in ranges_anywhere(source, 30, width):
            bench.bench.drive(f"{port}_i", [{"address": address, "words": words}])
            first, end = address // bench.beat_words, -(-(address + words) // bench.beat_words)
            lines += [at // beats_of_a_line for at in range(first, end)]
            ports[f"{port}_o"] += end - first if port == "range" else words
    taken = bench.taken
    await bench.bench.until(lambda: all(len(taken[port]) == count for port, count in ports.items()))
    await bench.bench.cycles(16)
    assert all(word["error"] for port in ports for word in taken[port])
    assert sorted(taken["read_failure"]) == sorted(lines)


@cocotb.test()
async def good_reads_report_nothing(dut: Any) -> None:
    bench = await begin(dut)
    bench.memory.read_errors(range(4096, 4100))
    bench.fetch([(0, 16), (4096 // bench.beat_bytes + 1, 8)])
    await bench.finish()
    assert not bench.taken["read_failure"]


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_read_arbiter(configuration: str, tmp_path: Path) -> None:
    assert len(CLIENTS) == 3
    simulate_memory_side(configuration, __name__, tmp_path)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"clients": 1}, "clients must be in 2..16, not 1"),
        ({"clients": 17}, "clients must be in 2..16, not 17"),
        ({"outstanding": 1}, "outstanding must be a power of two from 2, not 1"),
        ({"outstanding": 48}, "outstanding must be a power of two from 2, not 48"),
        ({"data_width": 512}, "data_width must be 64, 128 or 256, not 512"),
    ],
)
def test_read_arbiter_refuses(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReadArbiter(**parameters)


def test_a_unit_needs_an_id_for_each_client() -> None:
    unit = RingUnit(RingConfig())
    unit.id_width = 2
    with pytest.raises(ValueError, match="ring has 7 read clients, not at most 4"):
        attach_unit(Module(), unit, "ring", AXI4Signature(*unit.port, 3).create())


def test_read_arbiter_proofs() -> None:
    prove_all("memory_read_arbiter", PROOFS)
