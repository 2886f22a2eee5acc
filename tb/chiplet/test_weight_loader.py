"""Weight loader: addresses of chunks and of pairs, padding, one write a cycle, the end of each row."""

from typing import Any

import cocotb
import pytest
from amaranth.hdl import Shape

from golden.image import row_bytes
from sim.harness import parameters
from sim.harness.expected import expect_cycles
from tb.chiplet.parts import CONFIGURATIONS, Part, begin, config, simulate_parts


async def load(part: Part, rows: int, f_out: int) -> int:
    """Send rows of random weights and expect their chunks; return the cycle in which the rows began."""
    pe = config()
    chunks = -(-f_out // pe.lanes)
    shift = (chunks - 1).bit_length()
    # Only these three matter.
    junk = {name: part.random.getrandbits(Shape.cast(field.shape).width) for name, field in pe.settings}
    part.set("settings", {**junk, "f_out": f_out, "last_chunk": chunks - 1, "chunk_shift": shift})
    await part.bench.cycles(2)
    began, half = part.bench.cycle, pe.lanes // 2
    before: list[int] = []
    await part.pulse("start")
    beats = row_bytes(f_out) * 8 // pe.data_width
    for row in range(rows):
        weights = [part.random.randrange(-(1 << 15), 1 << 15) for _ in range(beats * pe.elements)]
        for beat in range(beats):
            mine = weights[beat * pe.elements : (beat + 1) * pe.elements]
            data = sum((weight & 0xFFFF) << 16 * k for k, weight in enumerate(mine))
            mask = part.random.getrandbits(pe.data_width // 32)
            part.drive("i", [{"data": data, "mask": mask, "first": int(beat == 0), "last": int(beat == beats - 1)}])
        if f_out <= half:
            # An even row alone, then with the odd one behind it.
            now = weights[:half]
            part.expect("o", [{"address": row // 2, "data": (before if row % 2 else now) + now}])
            before = now
            continue
        for chunk in range(chunks):
            vector = weights[chunk * pe.lanes : (chunk + 1) * pe.lanes]
            part.expect("o", [{"address": (row << shift) + chunk, "data": vector}])
    return began


def sizes() -> list[tuple[int, int]]:
    """Rows and columns: every number of chunks, and as many rows as the memory holds."""
    pe = config()
    found = []
    for f_out in range(1, pe.max_out + 1, 1 if pe.max_out < 20 else 7):
        shift = (-(-f_out // pe.lanes) - 1).bit_length()
        found.append((min(pe.weight_rows >> shift, 5), f_out))
    return [*found, (min(pe.weight_rows, 41), 1)]


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5])
async def rows_are_cut_into_chunks(dut: Any, idle: float) -> None:
    part = await begin(dut, "loader", idle=idle)
    for rows, f_out in sizes():
        await load(part, rows, f_out)
        await part.bench.drain()


@cocotb.test()
async def the_end_of_each_row_is_told_once(dut: Any) -> None:
    part = await begin(dut, "loader", idle=0.4)
    told = ends = 0

    async def watch() -> None:
        nonlocal told, ends
        while True:
            await part.bench.edge
            if part.handle("i__valid").value and part.handle("i__ready").value:
                ends += int(part.handle("i__payload").value) >> _last_bit(part) & 1
            told += part.get("row_loaded")
            assert told == ends

    watcher = cocotb.start_soon(watch())
    total = 0
    for rows, f_out in sizes():
        await load(part, rows, f_out)
        await part.bench.drain()
        total += rows
        assert told == total
    watcher.cancel()


def _last_bit(part: Part) -> int:
    """Bit of ``last`` in the payload."""
    return int(part.component.signature.members["i"].signature.members["payload"].shape["last"].offset)


@cocotb.test()
async def a_chunk_a_cycle_is_written(dut: Any) -> None:
    part = await begin(dut, "loader")
    for f_out in (1, config().max_out):
        began = await load(part, 4, f_out)
        cycles = await part.bench.drain() - began
        expect_cycles(f"chiplet.weight_loader.{f_out}.{parameters()['configuration']}", cycles)


@cocotb.test()
async def the_last_row_of_the_memory_is_reached(dut: Any) -> None:
    part = await begin(dut, "loader")
    rows = min(config().weight_rows, 64)
    await load(part, rows, config().lanes)
    await part.bench.drain()
    # Without a start, rows go on.
    if rows == config().weight_rows:
        await load(part, 1, 1)
        await part.bench.drain()


@cocotb.test()
async def reset_in_the_middle_is_followed_by_right_weights(dut: Any) -> None:
    part = await begin(dut, "loader", idle=0.2)
    for _ in range(5):
        await load(part, 4, config().max_out)
        await part.bench.cycles(part.random.randrange(3, 20))
        await part.bench.reset()
        await load(part, 2, config().max_out)
        await part.bench.drain()


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_weight_loader(configuration: str) -> None:
    simulate_parts(configuration, __name__)
