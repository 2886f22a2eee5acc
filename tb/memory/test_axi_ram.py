"""The memory side against an independent AXI4 subordinate: cocotbext-axi's RAM."""

import itertools
import random
import warnings
from collections.abc import Iterator
from typing import Any

import cocotb
from cocotbext.axi import AxiBus, AxiRam

from sim.harness import simulate
from sim.harness.bench import start
from sim.memory.memory_side import MemorySide
from tb.memory.memory_bench import SIZE, MemoryBench, random_bursts, random_ranges
from tb.memory.test_write_port import random_writes


def design() -> MemorySide:
    """Return the design; narrow, because every beat costs Python."""
    return MemorySide(data_width=64, depth=16, outstanding=8)


class RamMemory:
    """What `MemoryBench` needs of a memory."""

    def __init__(self, dut: Any, beat_bytes: int) -> None:
        self.beat_bytes = beat_bytes
        self._dut = dut
        with warnings.catch_warnings():
            # The library still uses names that cocotb 2 has renamed.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=SIZE)

    def pause(self, source: random.Random, chance: float) -> None:
        """Stall every channel with this chance."""

        def pauses() -> Iterator[bool]:
            return (source.random() < chance for _ in itertools.count())

        read, write = self.ram.read_if, self.ram.write_if
        for channel in (read.ar_channel, read.r_channel, write.aw_channel, write.w_channel, write.b_channel):
            channel.set_pause_generator(pauses())

    async def dump(self, address: int, size: int) -> bytes:
        """Contents of `size` bytes from byte `address`."""
        return bytes(self.ram.read(address, size))


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.5])
async def reads_and_writes(dut: Any, pace: float) -> None:
    component = design()
    memory: Any = RamMemory(dut, component.beat_bytes)
    dut.paired.value = 0
    bench = await start(dut, component, idle=pace, stall=pace)
    image = bench.random.randbytes(SIZE)
    memory.ram.write(0, image)
    memory.pause(bench.random, pace)
    both = MemoryBench(bench, memory, image)
    both.fetch(random_bursts(bench.random, 30, component.beat_bytes))
    both.read_ranges(random_ranges(bench.random, 40))
    both.read_words(random_ranges(bench.random, 40))
    await both.finish()
    both.write(random_writes(both, 150))
    await both.finish()
    await both.check_contents()
    both.read_ranges(random_ranges(bench.random, 40))
    await both.finish()


def test_axi_ram() -> None:
    simulate(design(), __name__, name="memory_side_ram")
