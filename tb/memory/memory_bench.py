"""What the benches of the memory side share: its streams, the contents of its memory, what is expected of them."""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cocotb

from hw.memory.formats import BURST_BEATS
from sim.harness import Result, parameters
from sim.harness.bench import Bench, start
from sim.memory.memory_side import CONFIGURATIONS, MemorySide, configured
from sim.models.memory import Memory
from sim.models.simulate import simulate_with_memory
from sim.models.wrap import MemoryModel

#: Size of the memory, in bytes.
SIZE = 1 << 16
#: Modules whose tests run on every configuration.
BENCHES = tuple(
    f"tb.memory.test_{name}"
    for name in ("fetcher", "range_reader", "word_serialiser", "read_arbiter", "write_port", "memory_side")
)


class MemoryBench:
    """The streams of a `MemorySide`, the contents of its memory and what is expected of them."""

    def __init__(self, bench: Bench, memory: Memory, image: bytes) -> None:
        self.bench, self.memory, self.image = bench, memory, bytearray(image)
        self.beat_bytes = memory.beat_bytes
        self.beat_words = memory.beat_bytes // 4
        self.taken: dict[str, list[Any]] = {}
        self.expected: dict[str, list[Any]] = {}
        self.forget()

    def forget(self) -> None:
        """Expect nothing, as after a reset."""
        for port in self.bench.monitors:
            self.taken[port], self.expected[port] = [], []
            self.bench.take(port, self.taken[port].append)

    def word(self, address: int) -> int:
        """Word at a word address."""
        return int.from_bytes(self.image[4 * address : 4 * address + 4], "little")

    def beat(self, address: int) -> int:
        """Beat at a beat address."""
        return int.from_bytes(self.image[self.beat_bytes * address : self.beat_bytes * (address + 1)], "little")

    def fetch(self, bursts: Iterable[tuple[int, int]], error: int = 0) -> None:
        """Read bursts of so many beats from beat addresses."""
        for address, beats in bursts:
            self.bench.drive("fetch_i", [{"address": address, "length": beats - 1}])
            self.expected["fetch_o"] += [
                {"data": self.beat(address + i), "error": error, "last": int(i == beats - 1)} for i in range(beats)
            ]

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Read ranges of so many words from word addresses, as beats."""
        for address, words in ranges:
            self.bench.drive("range_i", [{"address": address, "words": words}])
            if not words:
                self.expected["range_o"].append({"data": 0, "mask": 0, "last": 1, "error": 0})
            first, end = address // self.beat_words, -(-(address + words) // self.beat_words)
            for at in range(first, end if words else first):
                inside = [address <= at * self.beat_words + i < address + words for i in range(self.beat_words)]
                self.expected["range_o"].append(
                    {
                        "data": self.beat(at),
                        "mask": sum(bit << i for i, bit in enumerate(inside)),
                        "last": int(at == end - 1),
                        "error": 0,
                    }
                )

    def read_words(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Read ranges of so many words from word addresses, as words."""
        for address, words in ranges:
            self.bench.drive("word_i", [{"address": address, "words": words}])
            if not words:
                self.expected["word_o"].append({"data": 0, "last": 1, "error": 0, "empty": 1})
            self.expected["word_o"] += [
                {"data": self.word(address + i), "last": int(i == words - 1), "error": 0, "empty": 0}
                for i in range(words)
            ]

    def read_pairs(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Read ranges of so many words from word addresses, an even number from even ones, as pairs of words."""
        for address, words in ranges:
            self.bench.drive("word_i", [{"address": address, "words": words}])
            if not words:
                self.expected["word_o"].append({"last": 1, "error": 0, "empty": 1})
            for i in range(0, words, 2):
                pair = {"data": self.word(address + i), "second": self.word(address + i + 1)}
                self.expected["word_o"].append({**pair, "last": int(i == words - 2), "error": 0, "empty": 0})

    def write(self, beats: Iterable[tuple[int, int, int]]) -> None:
        """Write data under strobes to beat addresses."""
        for address, data, strobe in beats:
            self.bench.drive("write_i", [{"address": address, "data": data, "strobe": strobe}])
            for i in range(self.beat_bytes):
                if strobe >> i & 1:
                    self.image[address * self.beat_bytes + i] = data >> (8 * i) & 0xFF

    async def finish(self, timeout: int = 50_000) -> int:
        """Wait until all has come, compare, and return the cycle of the last word."""
        bench = self.bench
        await bench.until(
            lambda: (
                all(len(self.taken[port]) >= len(words) for port, words in self.expected.items())
                and not any(driver.busy_words for driver in bench.drivers.values())
            ),
            timeout,
        )
        cycle = bench.cycle
        await bench.cycles(8)
        while int(bench.dut.busy.value):
            await bench.cycles(8)
        for port, words in self.expected.items():
            assert len(self.taken[port]) == len(words), f"{port}: {len(self.taken[port])} words, expected {len(words)}"
            for i, (got, wanted) in enumerate(zip(self.taken[port], words, strict=True)):
                judged = got if isinstance(got, int) else {key: got[key] for key in wanted}
                assert judged == wanted, f"{port}: word {i} is {judged}, expected {wanted}"
            self.taken[port].clear()
            words.clear()
        return cycle

    async def check_contents(self) -> None:
        """Compare the whole memory with what it should hold."""
        assert await self.memory.dump(0, SIZE) == bytes(self.image)


def design() -> MemorySide:
    """Return, inside the simulator, the design under test."""
    return CONFIGURATIONS[parameters()["configuration"]]()


async def begin(dut: Any, **pace: Any) -> MemoryBench:
    """Start with a random image and no latency to speak of.

    Parameters
    ----------
    dut
        cocotb's handle of the top.
    pace
        As for `sim.harness.bench.start`.
    """
    component = design()
    memory = Memory(dut, component.beat_bytes, Path(parameters()["directory"]))
    memory.seed(cocotb.RANDOM_SEED)
    dut.paired.value = dut.mark.value = 0
    bench = await start(dut, component, **pace)
    image = bench.random.randbytes(SIZE)
    await memory.load(image)
    return MemoryBench(bench, memory, image)


def simulate_memory_side(configuration: str, bench: str, directory: Path) -> Result:
    """Run a bench on one of the configurations.

    Parameters
    ----------
    configuration
        Name in `CONFIGURATIONS`.
    bench
        Dotted name of the module with the tests.
    directory
        Where images are.
    """
    component = configured(configuration)
    return simulate_with_memory(
        component,
        bench,
        directory,
        name=f"memory_side_{configuration}",
        memories={"m_axi": MemoryModel(depth=SIZE // component.beat_bytes)},
        parameters={"configuration": configuration},
    )


def launch(component: MemorySide, parameters: Mapping[str, Any]) -> None:
    """Run all benches of the area on `component` at once, for coverage and mutation.

    Raises
    ------
    AssertionError
        If a test fails.
    """
    with TemporaryDirectory() as directory:
        simulate_with_memory(
            component,
            ",".join(BENCHES),
            Path(directory),
            name="memory_side",
            memories={"m_axi": MemoryModel(depth=SIZE // component.beat_bytes)},
            parameters=parameters,
        )


def random_ranges(source: random.Random, count: int, longest: int = 40) -> list[tuple[int, int]]:
    """Ranges, a quarter of them empty or of one word."""
    ranges = []
    for _ in range(count):
        words = source.choice((0, 1, source.randrange(1, 4), source.randrange(1, longest)))
        ranges.append((source.randrange(SIZE // 4 - words), words))
    return ranges


def ranges_anywhere(source: random.Random, count: int, address_width: int) -> list[tuple[int, int]]:
    """Ranges, none of them empty, anywhere in the address space."""
    return [(source.randrange((1 << (address_width - 2)) - 40), source.randrange(1, 40)) for _ in range(count)]


def random_bursts(source: random.Random, count: int, beat_bytes: int) -> list[tuple[int, int]]:
    """Bursts that do not cross 4 KiB, some of them up to it."""
    page = 4096 // beat_bytes
    bursts = []
    for _ in range(count):
        beats = source.randrange(1, BURST_BEATS + 1)
        start = source.choice((page - beats, source.randrange(page - beats + 1), 0))
        bursts.append((source.randrange(SIZE // 4096) * page + start, beats))
    return bursts
