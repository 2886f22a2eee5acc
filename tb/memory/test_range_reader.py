"""Range reader: masks, unaligned ends, empty ranges, 4 KiB, requests ahead, exact cycles."""

from pathlib import Path
from typing import Any

import cocotb
import pytest

from hw.memory.formats import BURST_BEATS, LINE_BYTES
from hw.memory.range_reader import RangeMasker, RangeReader, RangeSplitter
from sim.memory.memory_side import CONFIGURATIONS
from tb.memory.memory_bench import SIZE, begin, design, random_ranges, simulate_memory_side
from tb.memory.test_fetcher import fifo_latency

#: Cycles of a range from ``range_i`` to ``range_o`` beyond the memory's latency and the FIFO's.
OVERHEAD = 5


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.5])
async def every_alignment_and_length(dut: Any, pace: float) -> None:
    bench = await begin(dut, idle=pace, stall=pace)
    bench.memory.latency(3)
    words = bench.beat_words
    bench.read_ranges((128 + start, length) for start in range(words) for length in range(2 * words + 2))
    await bench.finish()


@cocotb.test()
async def long_ranges_cross_4_kib(dut: Any) -> None:
    """Read ranges over boundaries; the rule checker watches the bursts."""
    bench = await begin(dut)
    bench.memory.latency(10)
    page = 1024
    bench.read_ranges([(page - 1, 2), (page - 17, 40), (3 * page - 3, 1030), (5, 3 * page), (4 * page, page)])
    bench.read_ranges([(SIZE // 4 - 1, 1), (SIZE // 4 - 9, 9)])
    await bench.finish()


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.5], stall=[0.0, 0.4])
async def random_ranges_come_in_order(dut: Any, pace: float, stall: float) -> None:
    bench = await begin(dut, idle=pace, stall=pace)
    bench.memory.latency(bench.bench.random.choice((1, 4, 30)))
    bench.memory.stall(stall)
    bench.read_ranges(random_ranges(bench.bench.random, 150))
    await bench.finish()


def cycles(beats: int, latency: int) -> int:
    """Cycles of so many beats without a gap."""
    return beats + latency + OVERHEAD + fifo_latency()


@cocotb.test()
@cocotb.parametrize(latency=[1, 100])
async def a_long_range_takes_a_cycle_a_beat(dut: Any, latency: int) -> None:
    bench = await begin(dut)
    bench.memory.latency(latency)
    beats = 256 if latency <= design().depth - BURST_BEATS - 4 else BURST_BEATS
    began = bench.bench.cycle
    bench.read_ranges([(0, beats * bench.beat_words)])
    assert await bench.finish() - began == cycles(beats, latency)


@cocotb.test()
async def ranges_follow_each_other_without_a_gap(dut: Any) -> None:
    """Bursts of the next ranges are asked for while the beats of the last ones come."""
    bench = await begin(dut)
    sustained = design().depth - BURST_BEATS - 4
    latency = max(1, min(100, sustained))
    bench.memory.latency(latency)
    words = bench.beat_words
    lists = [
        [(words * i, 1) for i in range(150)],
        [(words * 5 * i + words - 1, words + 2) for i in range(40)],
        [(BURST_BEATS * words * i, BURST_BEATS * words) for i in range(8)],
    ]
    for number, ranges in enumerate(lists if sustained >= latency else lists[:2]):
        beats = sum(-(-(at % words + length) // words) for at, length in ranges)
        began = bench.bench.cycle
        bench.read_ranges(ranges)
        # The arbiter stands on this client from the second list on.
        assert await bench.finish() - began == cycles(beats, latency) - (number > 0)


@cocotb.test()
async def an_empty_range_takes_one_cycle(dut: Any) -> None:
    bench = await begin(dut)
    began = bench.bench.cycle
    bench.read_ranges([(i, 0) for i in range(100)])
    # Splitter, queue of parts, slice.
    assert await bench.finish() - began == 100 + 2 + fifo_latency()
    assert bench.memory.counters()["beats_read"] == 0


@cocotb.test()
async def empty_ranges_do_not_hold_up_others(dut: Any) -> None:
    bench = await begin(dut)
    bench.memory.latency(1)
    words = bench.beat_words
    began = bench.bench.cycle
    bench.read_ranges([(i * words, i % 2 * words) for i in range(40)])
    took = await bench.finish() - began
    assert took <= cycles(40, 1) + 1
    assert bench.memory.counters()["beats_read"] == 20


@cocotb.test()
@cocotb.parametrize(port=["range", "word"])
async def a_very_long_range_does_not_end_early(dut: Any, port: str) -> None:
    """Read lengths with every bit, among them two of all ones; a reset ends them."""
    bench = await begin(dut)
    bench.memory.latency(1)
    enough = 160
    bits = range((enough * bench.beat_words).bit_length(), 32)
    for words in (*(1 << bit for bit in bits), (1 << 32) - 1, (1 << 31) - 1):
        bench.bench.drive(f"{port}_i", [{"address": 1, "words": words}])
        taken = bench.taken[f"{port}_o"]
        await bench.bench.until(lambda taken=taken: len(taken) >= enough, 5_000)  # type: ignore[misc]
        assert not any(got["last"] for got in taken)
        if port == "range":
            full = (1 << bench.beat_words) - 1
            assert [beat["mask"] for beat in taken] == [full & ~1] + [full] * (len(taken) - 1)
        await bench.bench.reset()
        bench.forget()


@cocotb.test()
async def a_long_range_ends_where_it_should(dut: Any) -> None:
    """Read past the end of the memory, so that the count of beats alone decides."""
    bench = await begin(dut)
    bench.memory.latency(1)
    beats = (1 << 16) // bench.beat_words + 5
    words = (1 << 13) + 3
    bench.bench.drive("range_i", [{"address": 0, "words": beats * bench.beat_words - 1}, {"address": 0, "words": 0}])
    bench.bench.drive("word_i", [{"address": 0, "words": words}, {"address": 0, "words": 0}])
    taken = bench.taken
    await bench.bench.until(
        lambda: len(taken["range_o"]) == beats + 1 and len(taken["word_o"]) == words + 1,
        100_000,
    )
    for port, last in (("range_o", beats), ("word_o", words)):
        assert [i for i, got in enumerate(taken[port]) if got["last"]] == [last - 1, last]
    assert taken["range_o"][beats - 1]["mask"] == (1 << (bench.beat_words - 1)) - 1


@cocotb.test()
async def failing_beats_are_marked_and_reported_by_line(dut: Any) -> None:
    bench = await begin(dut, stall=0.3)
    lines = [3, 10]
    taken = bench.taken["range_o"]
    bench.memory.read_errors(range(lines[0] * LINE_BYTES + 9, lines[0] * LINE_BYTES + 10))
    await bench.bench.cycles(2)
    bench.bench.drive("range_i", [{"address": 0, "words": LINE_BYTES}, {"address": 0, "words": 0}])
    beats = LINE_BYTES // bench.beat_words
    await bench.bench.until(lambda: len(taken) == beats + 1)
    await bench.bench.cycles(8)
    failing = (lines[0] * LINE_BYTES + 9) // bench.beat_bytes
    assert [beat["error"] for beat in taken] == [int(i == failing) for i in range(beats + 1)]
    assert bench.taken["read_failure"] == [lines[0]]


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_range_reader(configuration: str, tmp_path: Path) -> None:
    simulate_memory_side(configuration, __name__, tmp_path)


@pytest.mark.parametrize("block", [RangeReader, RangeSplitter])
def test_range_reader_refuses(block: Any) -> None:
    with pytest.raises(ValueError, match="data_width must be 64, 128 or 256, not 512"):
        block(data_width=512)
    with pytest.raises(ValueError, match=r"address_width must be in 13\.\.64, not 65"):
        block(address_width=65)


def test_range_masker_refuses() -> None:
    with pytest.raises(ValueError, match="data_width must be 64, 128 or 256, not 32"):
        RangeMasker(32)
