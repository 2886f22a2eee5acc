"""Header writer: a line goes out beat by beat, each once, and the last one says so."""

from typing import Any

import cocotb
import pytest

from contracts import LINE_BYTES
from hw.attributes.header_writer import HeaderWriter
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

ADDRESS_WIDTH = 20
LINES = (1 << ADDRESS_WIDTH) // LINE_BYTES


def header_writer(width: int) -> HeaderWriter:
    return HeaderWriter(ADDRESS_WIDTH, width)


async def begin(dut: Any, **pace: Any) -> Bench:
    for name in ("line", "header", "write"):
        getattr(dut, name).value = 0
    bench = await start(dut, header_writer(**parameters()), **pace)
    await bench.cycles(1)
    return bench


def prepare(bench: Bench) -> int:
    """Show a header and its line, and expect its beats; return their number."""
    width, dut = parameters()["width"], bench.dut
    beats = 8 * LINE_BYTES // width
    line, header = bench.random.randrange(LINES), bench.random.getrandbits(8 * LINE_BYTES)
    dut.line.value, dut.header.value = line, header
    strobe, mask = (1 << width // 8) - 1, (1 << width) - 1
    bench.expect(
        "o",
        ({"address": line * beats + n, "data": header >> n * width & mask, "strobe": strobe} for n in range(beats)),
    )
    return beats


async def write(bench: Bench, limit: int = 400) -> int:
    """Write until the last beat goes out; return the cycles that took."""
    bench.dut.write.value = 1
    for cycle in range(1, limit):
        await bench.cycles(1)
        if int(bench.dut.done.value):
            bench.dut.write.value = 0
            return cycle
    raise AssertionError("the header is not done")


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5, 0.9])
async def a_header_is_written_beat_by_beat(dut: Any, stall: float) -> None:
    bench = await begin(dut, stall=stall)
    for number in range(20):
        beats = prepare(bench)
        took = await write(bench)
        assert stall or took == beats
        # The beat of this cycle may be looked at later.
        assert len(bench.expected["o"]) <= 1, "done before the last beat"
        # Another one follows at once, or nothing comes.
        await bench.cycles((0, 1, 12)[number % 3])
        assert int(dut.done.value) == 0 or number % 3 == 0
    await bench.drain()


@cocotb.test()
async def a_reset_in_the_middle_begins_anew(dut: Any) -> None:
    bench = await begin(dut)
    for cut in range(1, 8 * LINE_BYTES // parameters()["width"]):
        prepare(bench)
        dut.write.value = 1
        await bench.cycles(cut)
        dut.write.value = 0
        await bench.reset()
        await bench.cycles(1)
        beats = prepare(bench)
        assert await write(bench) == beats
        await bench.drain()


@pytest.mark.parametrize("width", [64, 256])
def test_header_writer(width: int) -> None:
    simulate(header_writer(width), __name__, parameters={"width": width})
