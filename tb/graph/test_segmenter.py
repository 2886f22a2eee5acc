"""Segmenter: ends of tiles and rows of up to 2^32 words, what it says of wrong offsets, exact cycles (R9, R10)."""

from collections.abc import Sequence
from typing import Any

import cocotb

from contracts import Error
from hw.graph.formats import CsrRequest
from hw.graph.segmenter import Segmenter
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.codec import codec
from sim.harness.expected import expect_cycles
from sim.harness.formal import prove_all
from tb.graph.formal_segmenter import PROOFS
from tb.graph.reference import Request, segments

_MOST = (1 << 32) - 1


async def begin(dut: Any, *, idle: float = 0.0, stall: float = 0.0) -> Bench:
    dut.start.value = 0
    return await start(dut, Segmenter(parameters()["address_width"]), idle=idle, stall=stall)


async def send(bench: Bench, request: Request) -> None:
    """Ask for the segments of `request` and expect them."""
    layout = CsrRequest(parameters()["address_width"])
    values = {name: bench.random.getrandbits(layout[name].width) for name in ("offsets", "array", "stride")}
    if request.offsets is None:
        values["stride"] = request.stride
    else:
        bench.drive("offset", request.offsets)
    uniform = int(request.offsets is None)
    shape = {"rows": request.rows, "tiles": request.tiles, "words": len(request.array), "uniform": uniform}
    bench.dut.request.value = codec(layout).pack({**values, **shape})
    found, reports = segments(request)
    bench.expect("error", [{"code": code, "info": row} for code, row in reports])
    bench.expect(
        "o",
        [
            {
                "end": segment.end,
                "tile": segment.tile,
                "first": int(segment.tile == 0),
                "last": int(segment.tile == request.tiles - 1),
                "final": int(number == len(found) - 1),
            }
            for number, segment in enumerate(found)
        ],
    )
    bench.dut.start.value = 1
    await bench.edge
    bench.dut.start.value = 0


async def ask(bench: Bench, request: Request) -> int:
    """Ask and wait; return the cycles from the start to the last segment."""
    await send(bench, request)
    began = bench.cycle
    return await bench.drain(20 * request.rows * request.tiles + 400) - began


def of(words: int, offsets: Sequence[int], tiles: int = 1) -> Request:
    """Request for an array of `words` words, cut at `offsets`."""
    return Request((len(offsets) - 1) // tiles, tiles, range(words), offsets)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def ends_are_exact(dut: Any, idle: float, stall: float) -> None:
    bench = await begin(dut, idle=idle, stall=stall)
    for _ in range(30):
        words = bench.random.getrandbits(bench.random.randrange(1, 33))
        tiles = bench.random.choice((1, 1, 2, 5))
        cuts = sorted(bench.random.randint(0, words) for _ in range(tiles * bench.random.randrange(1, 9) - 1))
        await ask(bench, of(words, [0, *cuts, words], tiles))


@cocotb.test()
async def every_bit_of_an_end_counts(dut: Any) -> None:
    """Powers of two up to the longest array: each as a boundary, one before it and one past it."""
    bench = await begin(dut)
    cuts = sorted({min(_MOST, (1 << bit) + nudge) for bit in range(33) for nudge in (-1, 0, 1)} - {0})
    await ask(bench, of(_MOST, [0, *cuts]))
    for bit in range(32):
        words = 1 << bit
        await ask(bench, of(words, [0, words - 1, words]))
        await ask(bench, of(words, [0, min(_MOST, words + 1), words, words]))  # past the end
        await ask(bench, of(words, [0, words, words - 1, words]))  # out of order
        await ask(bench, of(words, [0, words, words - 1]))


@cocotb.test()
async def one_bit_of_an_offset_is_wrong(dut: Any) -> None:
    bench = await begin(dut, stall=0.2)
    for bit in range(32):
        await ask(bench, of(5, [1 << bit, 2, 4, 5]))  # the first is not 0
        for at in (1, 2, 3):
            for words in (5, 0x5A5A5A5A, 0xA5A5A5A5):
                offsets = [0, words // 3, words // 2, words]
                offsets[at] ^= 1 << bit
                await ask(bench, of(words, offsets))


@cocotb.test()
async def uniform_rows_of_every_length(dut: Any) -> None:
    bench = await begin(dut)
    strides = [0, 1, (1 << 24) - 1, *(1 << bit for bit in range(24))]
    for stride in strides:
        rows = bench.random.randrange(1, 20)
        for words in {rows * stride, max(0, rows * stride - 1), rows * stride + 1, stride // 2}:
            await ask(bench, Request(rows, 1, range(words), None, stride))
    # The ends reach past 2^31, where the array stops.
    await ask(bench, Request(300, 1, range(_MOST), None, (1 << 24) - 1))


@cocotb.test()
async def as_many_tiles_as_can_be_counted(dut: Any) -> None:
    bench = await begin(dut)
    for tiles in (2, 127, 128, 255):
        words = 3 * tiles
        await ask(bench, of(words, [*sorted(bench.random.randint(0, words) for _ in range(3 * tiles)), words], tiles))


@cocotb.test()
async def rows_are_counted(dut: Any) -> None:
    """Find the number of the last of many rows in its report."""
    bench = await begin(dut)
    for rows in (255, 256, 257, 4097):
        await ask(bench, Request(rows, 1, range(1), None, 0))


@cocotb.test()
@cocotb.parametrize(tiles=[1, 3])
async def a_segment_a_cycle(dut: Any, tiles: int) -> None:
    bench = await begin(dut)
    cycles = await ask(bench, of(60, range(61), tiles))
    expect_cycles(f"graph.segmenter.{tiles}", cycles)
    expect_cycles("graph.segmenter.uniform", await ask(bench, Request(60, 1, range(60), None, 1)))


@cocotb.test()
async def it_forgets_a_request_on_reset(dut: Any) -> None:
    bench = await begin(dut, stall=0.3)
    for cycles in range(1, 25, 3):
        await send(bench, of(39, range(40)))
        await bench.cycles(cycles)
        await bench.reset()
        await bench.cycles(3)
        assert not dut.o__valid.value
        await ask(bench, of(9, [0, 4, 4, 9]))


def test_segmenter() -> None:
    # Both kinds of report are tried by every directed case above.
    assert {Error.OFFSET_ORDER, Error.EDGE_RANGE} == {
        code for wrong in (of(4, [0, 3, 2, 4]), of(4, [0, 5, 4, 4])) for code, _ in segments(wrong)[1]
    }
    sizes = {"address_width": 13}
    simulate(Segmenter(**sizes), __name__, parameters=sizes)


def test_segmenter_proofs() -> None:
    prove_all("segmenter", PROOFS)
