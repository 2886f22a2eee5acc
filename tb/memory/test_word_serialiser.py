"""Word serialiser: every word of the mask once, in order, a word a cycle."""

from pathlib import Path
from typing import Any

import cocotb
import pytest

from hw.memory.formats import LINE_BYTES
from hw.memory.word_serialiser import WordSerialiser
from sim.memory.memory_side import CONFIGURATIONS
from tb.memory.memory_bench import begin, random_ranges, simulate_memory_side
from tb.memory.test_fetcher import fifo_latency

#: Cycles of a range from ``word_i`` to ``word_o`` beyond the memory's latency and the FIFO's.
OVERHEAD = 6


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.5])
async def every_alignment_and_length(dut: Any, pace: float) -> None:
    bench = await begin(dut, idle=pace, stall=pace)
    bench.memory.latency(3)
    words = bench.beat_words
    bench.read_words((64 + start, length) for start in range(words) for length in range(2 * words + 2))
    await bench.finish()


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.5], stall=[0.0, 0.4])
async def random_ranges_come_in_order(dut: Any, pace: float, stall: float) -> None:
    bench = await begin(dut, idle=pace, stall=pace)
    bench.memory.latency(bench.bench.random.choice((1, 4, 30)))
    bench.memory.stall(stall)
    bench.read_words(random_ranges(bench.bench.random, 120))
    await bench.finish()


@cocotb.test()
async def a_word_comes_every_cycle_whatever_the_ranges(dut: Any) -> None:
    """Words that do not belong to a range cost nothing; an empty range costs the cycle of its mark."""
    bench = await begin(dut)
    latency = 1
    bench.memory.latency(latency)
    words = bench.beat_words
    lists = [
        [(0, 16 * words)],
        [(words * i + words - 1, 1) for i in range(100)],
        [(words * i + i % words, words) for i in range(40)],
        [(words * i, 3 * (i % 3 > 0)) for i in range(60)],
    ]
    for number, ranges in enumerate(lists):
        began = bench.bench.cycle
        bench.read_words(ranges)
        total = sum(max(1, length) for _, length in ranges)
        took = await bench.finish() - began
        # The arbiter stands on this client from the second list on.
        assert took == total + latency + OVERHEAD + fifo_latency() - (number > 0)


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.5])
async def pairs_come_one_a_cycle(dut: Any, pace: float) -> None:
    """Every alignment and length, and words again afterwards."""
    bench = await begin(dut, idle=pace, stall=pace)
    latency = 1
    bench.memory.latency(latency)
    words = bench.beat_words
    dut.paired.value = 1
    bench.read_pairs((64 + start, length) for start in range(0, words, 2) for length in range(0, 2 * words + 2, 2))
    await bench.finish()
    began = bench.bench.cycle
    bench.read_pairs([(0, 16 * words), (16 * words + words - 2, 2), (40 * words, 2 * words)])
    took = await bench.finish() - began
    assert pace or took == 9 * words + 1 + latency + OVERHEAD + fifo_latency() - 1
    dut.paired.value = 0
    bench.read_words(random_ranges(bench.bench.random, 20))
    await bench.finish()


@cocotb.test()
async def words_of_failing_beats_are_marked(dut: Any) -> None:
    bench = await begin(dut, stall=0.3)
    bench.memory.read_errors(range(LINE_BYTES, LINE_BYTES + 1))
    await bench.bench.cycles(2)
    taken = bench.taken["word_o"]
    words = LINE_BYTES // 2
    bench.bench.drive("word_i", [{"address": 0, "words": words}, {"address": 0, "words": 0}])
    await bench.bench.until(lambda: len(taken) == words + 1)
    first = LINE_BYTES // 4
    assert [word["error"] for word in taken] == [int(first <= i < first + bench.beat_words) for i in range(words + 1)]
    assert [word["empty"] for word in taken] == [0] * words + [1]


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_word_serialiser(configuration: str, tmp_path: Path) -> None:
    simulate_memory_side(configuration, __name__, tmp_path)


def test_word_serialiser_refuses() -> None:
    with pytest.raises(ValueError, match="data_width must be 64, 128 or 256, not 96"):
        WordSerialiser(96)
