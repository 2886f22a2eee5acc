"""Array port: every register, every refusal, starts and ends in any order and in the same clock, counters, resets."""

from collections.abc import Iterator
from itertools import cycle
from random import Random
from typing import Any

import cocotb
import pytest
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from contracts import ArrayError
from contracts.dnp.isa import StopCode
from contracts.dnp.topology import Topology
from contracts.registers import ARRAY_COUNTERS, ARRAY_REGISTERS, Access, array_register
from hw.host.array_port import ADDRESS_WIDTH, ArrayPort
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start

SIZES = {"SIZE": 0x04020604, "MEMORY": 0x00FF020D, "PROGRAM": 0x3FF, "BUFFERS": 0x80000011}
#: An array that is not square has no PASF.
TOPOLOGIES = (Topology.MESH, Topology.TORUS, Topology.LINEAR)
START, STOP, ACKNOWLEDGE, CLEAR, FLUSH = (1 << n for n in range(5))
PULSES = ("start", "stop", "flush")
INPUTS = ("busy", "done", "loading", "answering", "code", "processor", "counts", "refusal")


WIDEST = 32


def port_of_array(counter_bits: int = WIDEST) -> ArrayPort:
    """Make the registers as they are tried."""
    return ArrayPort(SIZES, TOPOLOGIES, counter_bits)


def counter_bits() -> int:
    """Return the width of counters: all of it, or few bits, so that they can be counted through."""
    return int(parameters().get("counter_bits", WIDEST))


def pauses(random: Random, chance: float) -> Iterator[bool]:
    """Stall in some cycles."""
    return (random.random() < chance for _ in cycle([0]))


class Port:
    """The port, a host, and what stands around the registers."""

    def __init__(self, bench: Bench, stall: float) -> None:
        self.bench, self.dut = bench, bench.dut
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(self.dut, "s_axil"), self.dut.clk, self.dut.rst)
        if stall:
            write, read = self.host.write_if, self.host.read_if
            for channel in (write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel):
                channel.set_pause_generator(pauses(Random(bench.random.getrandbits(32)), stall))
        for name in INPUTS:
            getattr(self.dut, name).value = 0
        self.pulses: list[str] = []
        cocotb.start_soon(self._watch())

    @classmethod
    async def make(cls, dut: Any, stall: float = 0.0) -> "Port":
        """Start the clock and reset."""
        return cls(await start(dut, port_of_array(counter_bits())), stall)

    async def _watch(self) -> None:
        """Note every pulse; one that lasts two clocks is noted twice."""
        while True:
            await self.bench.edge
            self.pulses += [name for name in PULSES if getattr(self.dut, name).value]

    async def write(self, name: str | int, value: int, *, refused: bool = False, strobe: int = 0xF) -> None:
        """Write a register, whole bytes that stand together, and compare how it is answered."""
        address = array_register(name).address if isinstance(name, str) else name
        first, length = (strobe & -strobe).bit_length() - 1, strobe.bit_count()
        part = (value >> (8 * first)) & ((1 << (8 * length)) - 1)
        answer = await self.host.write(address + first, part.to_bytes(length, "little"))
        assert answer.resp == (AxiResp.SLVERR if refused else AxiResp.OKAY), f"write {address:#x}"

    async def read(self, name: str | int, *, refused: bool = False) -> int:
        """Read a register, and compare how it is answered."""
        address = array_register(name).address if isinstance(name, str) else name
        answer = await self.host.read(address, 4)
        assert answer.resp == (AxiResp.SLVERR if refused else AxiResp.OKAY), f"read {address:#x}"
        return int.from_bytes(answer.data, "little")

    async def error(self, code: ArrayError, info: int) -> None:
        """Compare the first error, and clear it."""
        assert (await self.read("ERROR"), await self.read("INFO")) == (code, info)
        assert await self.read("STATUS") & 4 == (4 if code else 0)
        await self.write("CONTROL", CLEAR)
        assert (await self.read("ERROR"), await self.read("INFO")) == (0, 0)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def addresses_and_accesses_that_do_not_exist_are_refused(dut: Any, stall: float) -> None:
    port = await Port.make(dut, stall)
    known = {entry.address: entry for entry in ARRAY_REGISTERS}
    for address in range(0, 1 << ADDRESS_WIDTH, 4):
        entry = known.get(address)
        value = await port.read(address, refused=entry is None)
        assert entry is None or value == SIZES.get(entry.name, entry.reset)
        await port.error(ArrayError.NONE if entry else ArrayError.ACCESS, 0 if entry else address)
        if entry is None or entry.access is Access.READ:
            await port.write(address, 0xFFFFFFFF, refused=True)
            await port.error(ArrayError.ACCESS, address)
    # The first counts.
    await port.write(0, 1, refused=True)
    await port.read(0x3C, refused=True)
    await port.error(ArrayError.ACCESS, 0)
    assert not port.pulses


@cocotb.test()
async def registers_keep_every_bit_and_show_it(dut: Any) -> None:
    port = await Port.make(dut)
    for topology in Topology:
        for host in range(16):
            value, known = topology | host << 2, topology in TOPOLOGIES
            before = (int(dut.topology.value), int(dut.host.value))
            await port.write("JOINTS", value, refused=not known)
            assert (int(dut.topology.value), int(dut.host.value)) == ((topology, host) if known else before)
            if known:
                assert await port.read("JOINTS") == value
    await port.error(ArrayError.ACCESS, array_register("JOINTS").address)
    for bit in range(32):
        await port.write("PACKET", 1 << bit)
        assert await port.read("PACKET") == int(dut.packet.value) == (1 << bit) & 0xFFFF
        await port.write("INTERRUPT", 1 << bit)
        assert await port.read("INTERRUPT") == (bit == 0)
    # Bytes without a strobe are 0.
    await port.write("PACKET", 0xA5A5, strobe=2)
    assert await port.read("PACKET") == 0xA500
    for name in ("JOINTS", "INTERRUPT"):
        await port.write(name, 0xFFFFFFFF, strobe=2)
        assert await port.read(name) == 0
    await port.write("CONTROL", 0xFFFFFFFF, strobe=2)
    assert not port.pulses


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def what_is_controlled_is_done_once_unless_it_is_refused(dut: Any, stall: float) -> None:
    port = await Port.make(dut, stall)
    for state in range(4):
        dut.busy.value, dut.answering.value = busy, answering = state & 1, state >> 1
        for value in range(8):
            start, stop, flush = (value >> n & 1 for n in range(3))
            refused = bool(((start or flush) and busy) or (flush and (answering or start)))
            port.pulses.clear()
            await port.write("CONTROL", start * START | stop * STOP | flush * FLUSH, refused=refused)
            await port.bench.cycles(3)
            wanted = [name for name, there in zip(PULSES, (start, stop, flush), strict=True) if there]
            assert port.pulses == ([] if refused else wanted)
            await port.error(
                *(ArrayError.ACCESS, array_register("CONTROL").address) if refused else (ArrayError.NONE, 0)
            )
        await port.write("JOINTS", 1, refused=bool(busy))
        await port.write("CONTROL", CLEAR)


@cocotb.test()
async def the_state_is_shown_bit_by_bit(dut: Any) -> None:
    port = await Port.make(dut)
    for bit, name in ((0, "busy"), (5, "loading"), (6, "answering")):
        for level in (1, 0):
            getattr(dut, name).value = level
            assert await port.read("STATUS") == level << bit
    for code in StopCode:
        for bit in range(16):
            dut.code.value, dut.processor.value = code, 1 << bit
            assert await port.read("STOP") == code | 1 << bit + 8
            assert await port.read("STATUS") == (1 << 4 if code else 0)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def ends_of_runs_are_kept_until_acknowledged(dut: Any, stall: float) -> None:
    port = await Port.make(dut, stall)
    for number in range(8):
        enabled, by = number & 1, (ACKNOWLEDGE, START, CLEAR | ACKNOWLEDGE, STOP)[number >> 1]
        await port.write("INTERRUPT", enabled)
        await port.bench.pulse(dut.done)
        await port.bench.cycles(1)
        assert int(dut.irq.value) == enabled
        assert await port.read("STATUS") == 2 | enabled << 3
        await port.write("CONTROL", by)
        kept = by == STOP
        assert await port.read("STATUS") == (2 | enabled << 3 if kept else 0)
        await port.write("CONTROL", ACKNOWLEDGE)


@cocotb.test()
async def neither_ends_nor_errors_are_lost_in_the_clock_of_a_write(dut: Any) -> None:
    port = await Port.make(dut)
    seen = set()
    for delay in range(10):
        await port.write("CONTROL", ACKNOWLEDGE | CLEAR)
        await port.read(0x3C, refused=True)
        write = cocotb.start_soon(port.write("CONTROL", ACKNOWLEDGE | CLEAR))
        await port.bench.cycles(delay + 1)
        dut.done.value, dut.refusal.value = 1, int(ArrayError.PORT)
        await port.bench.edge
        dut.done.value = dut.refusal.value = 0
        await write
        await port.bench.cycles(8)
        found = ((await port.read("STATUS")) & 2, await port.read("ERROR"))
        # Before the write: cleared; with it or behind it: there.
        assert found in ((0, 0), (2, ArrayError.PORT))
        seen.add(found)
    assert len(seen) == 2


@cocotb.test()
async def the_first_error_is_kept_with_every_bit(dut: Any) -> None:
    port = await Port.make(dut)
    bits = len(dut.refusal) - 32
    for number in range(32):
        code = list(ArrayError)[1 + number % 8]
        dut.refusal.value = int(code) | 1 << bits + number
        await port.bench.edge
        dut.refusal.value = int(ArrayError.KIND) | 0xFFFF << bits
        await port.bench.edge
        dut.refusal.value = 0
        await port.read(0x3C, refused=True)
        await port.error(code, 1 << number)
    # One that comes with a refused access counts first.
    for delay in range(8):
        read = cocotb.start_soon(port.read(0x7C, refused=True))
        await port.bench.cycles(delay + 1)
        dut.refusal.value = int(ArrayError.RANGE) | 9 << bits
        await port.bench.edge
        dut.refusal.value = 0
        await read
        error = await port.read("ERROR")
        await port.error(*(ArrayError.RANGE, 9) if error == ArrayError.RANGE else (ArrayError.ACCESS, 0x7C))


@cocotb.test()
async def counters_count_each_for_itself(dut: Any) -> None:
    port = await Port.make(dut)
    random = port.bench.random
    totals = dict.fromkeys(ARRAY_COUNTERS, 0)
    for _ in range(60):
        counts = random.getrandbits(len(totals))
        dut.counts.value = counts
        for number, name in enumerate(totals):
            totals[name] += counts >> number & 1
        await port.bench.edge
    dut.counts.value = 0
    assert {name: await port.read(name.upper()) for name in totals} == totals
    bits = counter_bits()
    for bit in range(bits + 1):
        if bits == WIDEST:
            # No simulation counts to 2^31: each counter is set one short of each power of two.
            for name in totals:
                getattr(dut, name).value = (1 << bit) - 1
        else:
            await port.write("CONTROL", CLEAR)
        dut.counts.value = (1 << len(totals)) - 1
        await port.bench.cycles(1 if bits == WIDEST else 1 << bit)
        dut.counts.value = 0
        assert [await port.read(name.upper()) for name in totals] == [(1 << bit) % (1 << bits)] * len(totals)
    await port.write("CONTROL", CLEAR)
    assert not any([await port.read(name.upper()) for name in totals])


@cocotb.test()
async def a_reset_in_the_middle_leaves_nothing(dut: Any) -> None:
    port = await Port.make(dut)
    for clocks in range(1, 9):
        await port.write("JOINTS", 0b111101)
        await port.write("PACKET", 77)
        await port.write("INTERRUPT", 1)
        dut.counts.value, dut.done.value = 31, 1
        await port.bench.edge
        dut.counts.value = dut.done.value = 0
        await port.read(0x3C, refused=True)
        await port.bench.cycles(clocks)
        await port.bench.reset()
        await port.bench.cycles(4)
        for entry in ARRAY_REGISTERS:
            assert await port.read(entry.address) == SIZES.get(entry.name, entry.reset), entry.name
        assert not dut.irq.value


def test_array_port() -> None:
    simulate(port_of_array(), __name__)


def test_array_port_refuses() -> None:
    with pytest.raises(ValueError, match=r"counter_bits must be in 1\.\.32, not 33"):
        port_of_array(33)
