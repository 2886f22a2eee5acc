"""Write port: strobes, exact cycles, the limit of outstanding writes, answers, lines of failures."""

from pathlib import Path
from typing import Any

import cocotb
import pytest

from hw.memory.formats import LINE_BYTES
from hw.memory.write_port import WritePort
from sim.memory.memory_side import CONFIGURATIONS
from tb.memory.memory_bench import SIZE, MemoryBench, begin, design, simulate_memory_side


def random_writes(bench: MemoryBench, count: int) -> list[tuple[int, int, int]]:
    """Return writes with random strobes, a quarter of them whole."""
    source = bench.bench.random
    whole = (1 << bench.beat_bytes) - 1
    return [
        (
            source.randrange(SIZE // bench.beat_bytes),
            source.getrandbits(8 * bench.beat_bytes),
            source.choice((whole, 0, source.randint(0, whole), source.randint(0, whole))),
        )
        for _ in range(count)
    ]


@cocotb.test()
@cocotb.parametrize(
    idle=[0.0, 0.5],
    stall=[{}, {"aw": 0.7}, {"w": 0.7}, {"b": 0.7}, {"aw": 0.4, "w": 0.4, "b": 0.4}],
)
async def bytes_with_a_strobe_are_written(dut: Any, idle: float, stall: dict[str, float]) -> None:
    bench = await begin(dut, idle=idle)
    bench.memory.latency(bench.bench.random.choice((1, 5, 20)))
    bench.memory.stall(stall)
    bench.write(random_writes(bench, 200))
    await bench.finish()
    assert not bench.taken["write_failure"]
    await bench.check_contents()


async def answered(bench: MemoryBench) -> int:
    """Wait until the port has been busy and is no more; return the cycle."""
    for level in (1, 0):
        while int(bench.bench.dut.busy.value) != level:
            await bench.bench.cycles(1)
    return bench.bench.cycle


@cocotb.test()
@cocotb.parametrize(latency=[1, 2, 100])
async def a_write_takes_a_cycle(dut: Any, latency: int) -> None:
    bench = await begin(dut)
    bench.memory.latency(latency)
    outstanding = design().outstanding
    count = 200 if latency + 2 < outstanding else outstanding
    writes = random_writes(bench, count)
    began = bench.bench.cycle
    bench.write(writes)
    # Slice to W, latency to B, and `busy` falls in the cycle after.
    assert await answered(bench) - began == count + 1 + latency + 1
    await bench.finish()
    assert bench.memory.counters()["beats_written"] == count


@cocotb.test()
async def writes_wait_for_answers_beyond_the_limit(dut: Any) -> None:
    bench = await begin(dut)
    outstanding = design().outstanding
    latency = 2 * outstanding
    bench.memory.latency(latency)
    writes = random_writes(bench, 3 * outstanding)
    began = bench.bench.cycle
    bench.write(writes)
    await bench.bench.cycles(latency)
    assert bench.memory.counters()["beats_written"] == outstanding
    # Three turns of the window, each a round trip of slice, latency and counter.
    assert await answered(bench) - began == 3 * (latency + 2) + outstanding
    await bench.finish()


@cocotb.test()
async def busy_until_the_memory_holds_the_data(dut: Any) -> None:
    bench = await begin(dut)
    bench.memory.latency(30)
    assert not int(dut.busy.value)
    bench.write(random_writes(bench, 3))
    await answered(bench)
    await bench.check_contents()


@cocotb.test()
@cocotb.parametrize(latency=[1, 7, 40], stall=[0.0, 0.5])
async def a_mark_is_answered_with_what_came_before(dut: Any, latency: int, stall: float) -> None:
    """While writes go on, and however many come in between: not before the last one in front of it, and soon then."""
    bench = await begin(dut, idle=0.2)
    bench.memory.latency(latency)
    bench.memory.stall(stall)
    source, outstanding = bench.bench.random, design().outstanding
    bench.write(random_writes(bench, 600))
    taken = waited = marks = 0
    marked: int | None = None
    while taken < 600:
        marks_now = marked is None and source.random() < 0.1
        dut.mark.value = int(marks_now)
        await bench.bench.cycles(1)
        taken += int(dut.write_i__valid.value) & int(dut.write_i__ready.value)
        if marks_now:
            marked, waited, marks = taken, 0, marks + 1
            assert not int(dut.answered.value)
        elif marked is not None:
            waited += 1
            if int(dut.answered.value):
                assert bench.memory.counters()["beats_written"] >= marked
                marked = None
            # A round trip, or one for each write with stalls.
            assert waited < (latency + 20) * (1 if stall == 0.0 else outstanding + 2)
    assert marks > 5
    await bench.finish()


@cocotb.test()
async def failing_writes_are_reported_by_line(dut: Any) -> None:
    bench = await begin(dut, stall=0.3)
    bench.memory.stall(0.3)
    bench.memory.latency(6)
    low, high = 40 * LINE_BYTES, 60 * LINE_BYTES
    bench.memory.write_errors(range(low, high))
    await bench.bench.cycles(2)
    before = bytes(bench.image)
    writes = random_writes(bench, 150) + [(40 * LINE_BYTES // bench.beat_bytes + i, i, 1) for i in range(20)]
    bench.bench.random.shuffle(writes)
    bench.write(writes)
    bench.image[low:high] = before[low:high]
    failing = [at * bench.beat_bytes // LINE_BYTES for at, _, _ in writes if low <= at * bench.beat_bytes < high]
    await answered(bench)
    taken = list(bench.taken["write_failure"])
    await bench.bench.until(lambda: len(bench.taken["write_failure"]) == len(failing), 500)
    assert bench.taken["write_failure"] == failing, taken
    await bench.check_contents()


@cocotb.test()
async def addresses_past_the_memory_fail(dut: Any) -> None:
    bench = await begin(dut)
    bench.memory.latency(3)
    width = design().address_width
    beats = range(SIZE // bench.beat_bytes, (1 << width) // bench.beat_bytes)
    past = [beats[-1], beats[0], *bench.bench.random.choices(beats, k=60)]
    whole = (1 << bench.beat_bytes) - 1
    bench.bench.drive("write_i", [{"address": at, "data": at, "strobe": whole} for at in past])
    await bench.bench.until(lambda: len(bench.taken["write_failure"]) == len(past), 500)
    assert bench.taken["write_failure"] == [at * bench.beat_bytes // LINE_BYTES for at in past]
    await bench.check_contents()


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_write_port(configuration: str, tmp_path: Path) -> None:
    simulate_memory_side(configuration, __name__, tmp_path)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"id_width": 0}, "id_width must be at least 1, not 0"),
        ({"outstanding": 1}, "outstanding must be a power of two from 2, not 1"),
        ({"outstanding": 12}, "outstanding must be a power of two from 2, not 12"),
        ({"data_width": 8}, "data_width must be 64, 128 or 256, not 8"),
    ],
)
def test_write_port_refuses(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WritePort(**parameters)
