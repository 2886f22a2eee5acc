"""All blocks at one port: everything at once, under stalls, in any order, and again after a reset."""

from pathlib import Path
from typing import Any

import cocotb
import pytest

from sim.memory.memory_side import CONFIGURATIONS
from tb.memory.memory_bench import SIZE, MemoryBench, begin, random_bursts, random_ranges, simulate_memory_side


def start_everything(bench: MemoryBench, count: int) -> None:
    """Start random work on all streams; writes go to the upper half, reads to the lower."""
    source = bench.bench.random
    half = SIZE // 2
    bench.fetch(
        (at % (half // bench.beat_bytes), beats) for at, beats in random_bursts(source, count, bench.beat_bytes)
    )
    bench.read_ranges((at // 2, words) for at, words in random_ranges(source, count))
    bench.read_words((at // 2, words) for at, words in random_ranges(source, count))
    upper = half // bench.beat_bytes
    width = 8 * bench.beat_bytes
    bench.write(
        (upper + source.randrange(upper), source.getrandbits(width), source.getrandbits(bench.beat_bytes))
        for _ in range(3 * count)
    )


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.5], stall=[0.0, 0.4], out_of_order=[False, True])
async def everything_at_once(dut: Any, pace: float, stall: float, out_of_order: bool) -> None:
    bench = await begin(dut, idle=pace, stall=pace)
    bench.memory.latency(bench.bench.random.choice((1, 2, 20)))
    bench.memory.stall(stall)
    bench.memory.out_of_order(out_of_order)
    start_everything(bench, 50)
    await bench.finish()
    await bench.check_contents()


@cocotb.test()
async def after_a_reset_the_same_work_takes_the_same_cycles(dut: Any) -> None:
    bench = await begin(dut)
    bench.memory.latency(15)
    bench.memory.stall(0.2)
    state = bench.bench.random.getstate()
    cycles = []
    for cut in (None, 1, 7, 20, 33, 90, 150, None):
        await bench.bench.reset()
        bench.forget()
        bench.bench.random.setstate(state)
        began = bench.bench.cycle
        start_everything(bench, 30)
        if cut is None:
            cycles.append(await bench.finish() - began)
        else:
            await bench.bench.cycles(cut)
        await bench.bench.reset()
        assert not int(dut.busy.value)
        for port in ("fetch_o", "range_o", "word_o", "read_failure", "write_failure"):
            assert not int(getattr(dut, f"{port}__valid").value), port
    assert cycles[0] == cycles[1]


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_memory_side(configuration: str, tmp_path: Path) -> None:
    simulate_memory_side(configuration, __name__, tmp_path)
