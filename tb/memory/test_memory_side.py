"""All blocks at one port: everything at once, under stalls, in any order, and again after a reset."""

from pathlib import Path
from typing import Any

import cocotb
import pytest

from tb.memory.memory_bench import CONFIGURATIONS, SIZE, begin, random_bursts, random_ranges, simulate_memory_side


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.5], stall=[0.0, 0.4], out_of_order=[False, True])
async def everything_at_once(dut: Any, pace: float, stall: float, out_of_order: bool) -> None:
    """Random work on all streams; writes go where nothing is read."""
    bench = await begin(dut, idle=pace, stall=pace)
    source = bench.bench.random
    bench.memory.latency(source.choice((1, 2, 20)))
    bench.memory.stall(stall)
    bench.memory.out_of_order(out_of_order)
    half = SIZE // 2
    bench.fetch((at % (half // bench.beat_bytes), beats) for at, beats in random_bursts(source, 40, bench.beat_bytes))
    bench.read_ranges((at // 2, words) for at, words in random_ranges(source, 60))
    bench.read_words((at // 2, words) for at, words in random_ranges(source, 60))
    upper = half // bench.beat_bytes
    bench.write(
        (
            upper + source.randrange(upper),
            source.getrandbits(8 * bench.beat_bytes),
            source.getrandbits(bench.beat_bytes),
        )
        for _ in range(150)
    )
    await bench.finish()
    await bench.check_contents()


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_memory_side(configuration: str, tmp_path: Path) -> None:
    simulate_memory_side(configuration, __name__, tmp_path)
