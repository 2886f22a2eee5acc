"""A memory of pages far apart: each answers at its own address, and nothing answers between them."""

from pathlib import Path
from typing import Any

import cocotb
import pytest

from sim.harness import parameters
from sim.harness.bench import start
from sim.memory.memory_side import MemorySide
from sim.models.simulate import simulate_with_memory
from sim.models.sparse import SparseMemory
from sim.models.wrap import PAGE_BYTES, MemoryModel

#: Pages of the model.
PAGES = 16
BEATS = PAGE_BYTES // 8
#: Pages that are loaded: the first and the last one, two neighbours, and two that differ in the highest bit alone.
EXIST = (0, 0x123, 0x5A5A5A5, 0x5A5A5A6, 0x8000123, (1 << 28) - 1)


def side() -> MemorySide:
    return MemorySide(data_width=64, depth=16, outstanding=4, address_width=40)


async def begin(dut: Any) -> tuple[Any, SparseMemory]:
    memory = SparseMemory(dut, 8, Path(parameters()["directory"]))
    memory.latency(3)
    dut.paired.value = 0
    return await start(dut, side()), memory


@cocotb.test()
async def pages_keep_what_is_written(dut: Any) -> None:
    bench, memory = await begin(dut)
    random, failed = bench.random, list[int]()
    bench.take("write_failure", failed.append)
    for exist in (EXIST, EXIST[1:3]):
        contents = bytearray(random.randbytes(len(exist) * PAGE_BYTES))
        await memory.load_pages(exist, bytes(contents))
        for number, page in enumerate(exist):
            beat, word = random.randrange(BEATS), random.getrandbits(64)
            at = number * PAGE_BYTES + 8 * beat
            contents[at : at + 8] = word.to_bytes(8, "little")
            bench.drive("write_i", [{"address": page * BEATS + beat, "data": word, "strobe": 0xFF}])
        await bench.drain()
        while int(dut.busy.value):
            await bench.cycles(1)
        got: list[int] = []
        bench.take("fetch_o", lambda beat, got=got: got.append(beat["data"]))
        bench.drive(
            "fetch_i", [{"address": page * BEATS + 16 * n, "length": 15} for page in exist for n in range(BEATS // 16)]
        )
        await bench.until(lambda got=got, exist=exist: len(got) == len(exist) * BEATS, 20_000)
        assert b"".join(beat.to_bytes(8, "little") for beat in got) == contents
        for number, page in enumerate(exist):
            assert await memory.dump(page * PAGE_BYTES + 5, 300) == contents[number * PAGE_BYTES + 5 :][:300]
    assert not failed


@cocotb.test()
async def nothing_answers_between_pages(dut: Any) -> None:
    bench, memory = await begin(dut)
    await memory.load_pages(EXIST, bytes(len(EXIST) * PAGE_BYTES))
    # Neighbours of pages that exist, and pages that differ from one of them in a bit.
    near = {page + step for page in EXIST for step in (-1, 1)} | {EXIST[2] ^ 1 << bit for bit in range(28)}
    missing = sorted(page for page in near - set(EXIST) if 0 <= page < 1 << 28)
    errors: dict[str, list[Any]] = {"fetch_o": [], "read_failure": [], "write_failure": []}
    for port, taken in errors.items():
        bench.take(port, taken.append)
    bench.drive("fetch_i", [{"address": page * BEATS + 7, "length": 0} for page in missing])
    bench.drive("write_i", [{"address": page * BEATS + 7, "data": 1, "strobe": 1} for page in missing])
    await bench.until(lambda: all(len(taken) == len(missing) for taken in errors.values()), 20_000)
    assert all(beat["error"] for beat in errors["fetch_o"])
    lines = [page * PAGE_BYTES // 64 for page in missing]
    assert errors["read_failure"] == errors["write_failure"] == lines
    assert not any(await memory.dump(EXIST[2] * PAGE_BYTES, 2 * PAGE_BYTES))


@cocotb.test()
async def errors_are_where_they_are_wanted(dut: Any) -> None:
    bench, memory = await begin(dut)
    await memory.load_pages(EXIST, bytes(len(EXIST) * PAGE_BYTES))
    # Around the border of two pages that follow each other.
    first = EXIST[3] * PAGE_BYTES - 16
    memory.read_errors(range(first, first + 32))
    beats: list[int] = []
    failed: list[int] = []
    bench.take("fetch_o", lambda beat: beats.append(beat["error"]))
    bench.take("read_failure", failed.append)
    bench.drive("fetch_i", [{"address": first // 8 - 2 + n, "length": 0} for n in range(8)])
    bench.drive("fetch_i", [{"address": page * BEATS + n, "length": 0} for page in EXIST[:2] for n in range(2)])
    await bench.until(lambda: len(beats) == 12)
    assert beats == [0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    border = EXIST[3] * PAGE_BYTES // 64
    assert failed == [border - 1] * 2 + [border] * 2
    for address, size in ((EXIST[1] * PAGE_BYTES - 1, 1), (EXIST[1] * PAGE_BYTES, PAGE_BYTES + 1)):
        with pytest.raises(ValueError, match=f"address must lie in pages that were loaded .* not {address:#x}"):
            memory.read_errors(range(address, address + size))


def test_pages_far_apart(tmp_path: Path) -> None:
    simulate_with_memory(
        side(), __name__, tmp_path, name="sparse_side", memories={"m_axi": MemoryModel(PAGES * BEATS, sparse=True)}
    )
