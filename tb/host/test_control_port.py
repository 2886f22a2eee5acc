"""Control port: every access against the model, back-pressure, starts and ends in any order, counters, resets."""

from collections.abc import Iterator
from itertools import cycle
from random import Random
from typing import Any

import cocotb
import pytest
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from contracts import COMPLETION
from contracts.registers import COUNTERS, REGISTERS, Access, register
from golden.host.control_port import ControlPort as Model
from hw.host.control_port import ADDRESS_WIDTH, ControlPort
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.formal import prove_all
from tb.host.formal_control_port import PROOFS

CONTROL = register("CONTROL")
LINE_BITS = 14
WIDEST = 64
UNITS = 5
#: A start, an acknowledgement, a clear.
START, ACKNOWLEDGE, CLEAR = 1, 2, 4


def pauses(random: Random, chance: float) -> Iterator[bool]:
    """Stall in some cycles."""
    return (random.random() < chance for _ in cycle([0]))


class Port:
    """The control port, its model, a host and what runs the images."""

    def __init__(self, bench: Bench, stall: float = 0.0) -> None:
        self.bench, self.dut = bench, bench.dut
        self.model = Model(LINE_BITS, UNITS)
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(self.dut, "s_axil"), self.dut.clk, self.dut.rst)
        if stall:
            write, read = self.host.write_if, self.host.read_if
            for channel in (write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel):
                channel.set_pause_generator(pauses(Random(bench.random.getrandbits(32)), stall))
        for name in ("opcode", "layer", "read_beat", "write_beat", "unit_cycles"):
            getattr(self.dut, name).value = 0
        self.taken: list[int] = []
        bench.take("start", self.taken.append)

    async def write(self, address: int, value: int, strobe: int = 0xF) -> None:
        """Write bytes of a register that stand together, and compare how it is answered."""
        first = (strobe & -strobe).bit_length() - 1
        length = strobe.bit_count()
        assert strobe == ((1 << length) - 1) << first, "bytes that stand together"
        wanted = self.model.write(address, value, strobe)
        part = (value >> (8 * first)) & ((1 << (8 * length)) - 1)
        answer = await self.host.write(address + first, part.to_bytes(length, "little"))
        assert answer.resp == (AxiResp.OKAY if wanted else AxiResp.SLVERR), f"write {address:#x}"

    async def read(self, address: int) -> int:
        """Read a register; its value and answer are compared."""
        value, answered = self.model.read(address)
        got = await self.host.read(address, 4)
        assert got.resp == (AxiResp.OKAY if answered else AxiResp.SLVERR), f"read {address:#x}"
        if answered:
            assert int.from_bytes(got.data, "little") == value, f"read {address:#x}"
        return value

    async def complete(self, completion: dict[str, int]) -> None:
        """Let the run end."""
        self.bench.drive("done", [completion])
        while self.bench.drivers["done"].busy_words:
            await self.bench.edge
        self.model.complete(completion)
        await self.bench.cycles(2)


def completion(random: Random, error: int | None = None) -> dict[str, int]:
    """Any completion."""
    values = {field.name: random.getrandbits(field.bits) for field in COMPLETION.fields}
    return values if error is None else values | {"error": error}


async def make(dut: Any, stall: float = 0.0) -> Port:
    return Port(await start(dut, ControlPort(LINE_BITS + 6, counter_bits(), UNITS)), stall)


def counter_bits() -> int:
    """Return the width of counters: all of it, or few bits, so that they can be counted through."""
    return int(parameters().get("counter_bits", WIDEST))


@cocotb.test()
async def every_register_reads_as_it_is_after_reset(dut: Any) -> None:
    port = await make(dut)
    for entry in REGISTERS:
        assert await port.read(entry.address) == (UNITS if entry.name == "UNITS" else entry.reset)


@cocotb.test()
async def an_address_without_a_register_is_refused(dut: Any) -> None:
    port = await make(dut)
    known = {entry.address for entry in REGISTERS}
    for address in range(0, 1 << ADDRESS_WIDTH, 4):
        await port.read(address)
        if address not in known:
            await port.write(address, 0xFFFFFFFF)
    for entry in REGISTERS:
        if entry.access is Access.READ:
            await port.write(entry.address, 0xFFFFFFFF)
        await port.read(entry.address)


@cocotb.test()
async def every_bit_of_the_image_s_address_counts(dut: Any) -> None:
    port = await make(dut)
    image = register("IMAGE").address
    for bit in range(32):
        for strobe in (0xF, 1 << bit // 8):
            await port.write(image, 1 << bit, strobe)
            await port.read(image)
    for value, strobe in ((1, 0xF), (0x100, 0xE), (0, 0xE), (0, 1)):
        await port.write(register("INTERRUPT").address, value, strobe)
        await port.read(register("INTERRUPT").address)
    assert not port.taken


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def runs_start_and_end_as_the_registers_say(dut: Any, stall: float) -> None:
    port = await make(dut, stall)
    random = port.bench.random
    for number in range(24):
        line = random.getrandbits(LINE_BITS)
        port.bench.pace(stall={"start": random.choice((0.0, 0.8))})
        await port.write(register("INTERRUPT").address, number & 1)
        await port.write(register("IMAGE").address, line)
        await port.write(CONTROL.address, START)
        # A second start is refused, and what it would also have done is not done.
        await port.write(CONTROL.address, START | ACKNOWLEDGE | CLEAR)
        await port.write(register("IMAGE").address, random.getrandbits(LINE_BITS))
        await port.read(register("STATUS").address)
        while len(port.taken) <= number:
            await port.bench.edge
        assert port.taken[-1] == line
        await port.complete(completion(random, random.choice((0, random.randrange(1, 256)))))
        for name in ("STATUS", "COMPLETION", "INFO", "ERROR"):
            await port.read(register(name).address)
        assert bool(dut.irq.value) == port.model.interrupt == bool(number & 1)
        await port.write(CONTROL.address, random.choice((0, ACKNOWLEDGE, CLEAR, ACKNOWLEDGE | CLEAR)))
        for name in ("STATUS", "ERROR"):
            await port.read(register(name).address)
        assert bool(dut.irq.value) == port.model.interrupt
    assert port.taken == port.model.started


@cocotb.test()
async def nothing_that_ends_is_lost_whatever_is_written(dut: Any) -> None:
    """Completions in every cycle of an acknowledging, clearing write."""
    port = await make(dut)
    random = port.bench.random
    status, error = register("STATUS"), register("ERROR")
    for delay in range(8):
        for before in (0, 7):
            await port.write(CONTROL.address, START)
            await port.complete(completion(random, before))
            await port.write(CONTROL.address, START)
            ended = completion(random, 9)
            write = cocotb.start_soon(port.host.write(CONTROL.address, (ACKNOWLEDGE | CLEAR).to_bytes(4, "little")))
            await port.bench.cycles(delay + 1)
            port.bench.drive("done", [ended])
            await write
            await port.bench.cycles(8)
            got = status.layout.unpack(int.from_bytes((await port.host.read(status.address, 4)).data, "little"))
            sticky = error.layout.unpack(int.from_bytes((await port.host.read(error.address, 4)).data, "little"))
            assert not got["busy"]
            # Ended before the write: acknowledged and cleared. With it or after it: still there.
            assert (got["done"], sticky["error"]) in ((0, 0), (1, 9))
            if delay > 5:
                assert got["done"]
            port.model.complete(ended)
            port.model.write(CONTROL.address, ACKNOWLEDGE | CLEAR)
            await port.write(CONTROL.address, ACKNOWLEDGE | CLEAR)


@cocotb.test()
async def any_state_reads_as_it_is(dut: Any) -> None:
    """Whatever is written to any register, however runs end, and whatever is shown beside it."""
    port = await make(dut)
    random = port.bench.random
    strobes = [((1 << length) - 1) << first for length in range(1, 5) for first in range(5 - length)]
    selected = register("UNIT").address
    for _ in range(60):
        for _ in range(random.randrange(4)):
            value = random.getrandbits(random.choice((1, 2, 3, LINE_BITS, 32)))
            await port.write(random.choice(REGISTERS).address, value, random.choice(strobes))
        if port.model.busy and random.random() < 0.5:
            await port.complete(completion(random, random.choice((0, random.randrange(256)))))
        port.model.command = command = {name: random.getrandbits(8) for name in ("opcode", "layer")}
        dut.opcode.value, dut.layer.value = command["opcode"], command["layer"]
        cycles = random.getrandbits(32)
        dut.unit_cycles.value = port.model.work[port.model.read(selected)[0]] = cycles
        for entry in random.sample(REGISTERS, 8):
            if not entry.name.endswith(("_LOW", "_HIGH")):
                await port.read(entry.address)
        assert bool(dut.irq.value) == port.model.interrupt
    assert port.taken == port.model.started


@cocotb.test()
async def units_are_selected_by_their_number(dut: Any) -> None:
    port = await make(dut)
    unit, cycles = register("UNIT").address, register("UNIT_CYCLES").address
    for number in (*range(UNITS), *(1 << bit for bit in range(32)), UNITS):
        await port.write(unit, number)
        selected = await port.read(unit)
        assert int(dut.unit.value) == selected == min(selected, UNITS - 1)
        dut.unit_cycles.value = port.model.work[selected] = port.bench.random.getrandbits(32)
        await port.read(cycles)
    # Bytes without a strobe keep their value, and count.
    for number, strobe in ((3, 1), (0x100, 2), (1, 0xE), (0, 1), (2, 0xF)):
        await port.write(unit, number, strobe)
        await port.read(unit)


@cocotb.test()
async def the_counters_of_units_are_cleared_with_the_others(dut: Any) -> None:
    """In one cycle of a write that clears, and in no other."""
    port = await make(dut)
    cleared = 0

    async def watch() -> None:
        nonlocal cleared
        while True:
            await port.bench.edge
            cleared += int(dut.clear.value)

    cocotb.start_soon(watch())
    for address, value, clears in (
        (CONTROL.address, CLEAR, 1),
        (CONTROL.address, START, 0),
        (CONTROL.address, START | CLEAR, 0),  # refused: a run is under way
        (CONTROL.address, ACKNOWLEDGE | CLEAR, 1),
        (CONTROL.address, ACKNOWLEDGE, 0),
        (register("IMAGE").address, CLEAR, 0),
        (register("UNIT").address, CLEAR, 0),
        (register("STATUS").address, CLEAR, 0),
    ):
        cleared = 0
        await port.write(address, value)
        await port.bench.cycles(4)
        assert cleared == clears, (address, value)


async def counted(port: Port) -> dict[str, int]:
    values = {}
    for name in COUNTERS:
        low = await port.host.read(register(f"{name.upper()}_LOW").address, 4)
        high = await port.host.read(register(f"{name.upper()}_HIGH").address, 4)
        values[name] = int.from_bytes(low.data + high.data, "little")
    return values


@cocotb.test()
async def counters_count_runs_and_beats(dut: Any) -> None:
    port = await make(dut)
    random = port.bench.random
    total = dict.fromkeys(COUNTERS, 0)
    for _ in range(5):
        await port.write(CONTROL.address, START)
        while not port.taken:
            await port.bench.edge
        port.taken.clear()
        for _ in range(random.randrange(50)):
            read, write = random.getrandbits(1), random.getrandbits(1)
            dut.read_beat.value, dut.write_beat.value = read, write
            total["read_beats"] += read
            total["write_beats"] += write
            await port.bench.edge
        dut.read_beat.value = dut.write_beat.value = 0
        await port.complete(completion(random, 0))
        before = await counted(port)
        assert {name: before[name] for name in ("read_beats", "write_beats")} == {
            name: total[name] for name in ("read_beats", "write_beats")
        }
        # No run, no cycles.
        await port.bench.cycles(20)
        assert await counted(port) == before
    await port.write(CONTROL.address, START)
    began = (await counted(port))["cycles"]
    await port.bench.cycles(100)
    assert 100 < (await counted(port))["cycles"] - began < 200
    await port.complete(completion(random, 0))
    await port.write(CONTROL.address, CLEAR)
    assert set((await counted(port)).values()) == {0}


@cocotb.test()
async def the_cycles_of_a_run_are_exact(dut: Any) -> None:
    port = await make(dut)
    for length in (0, 1, 17, 300, 700):
        await port.write(CONTROL.address, START | CLEAR)
        while not port.taken:
            await port.bench.edge
        port.taken.clear()
        await port.bench.cycles(length)
        port.bench.drive("done", [completion(port.bench.random, 0)])
        await port.bench.cycles(4)
        port.model.complete({"error": 0})
        cycles = (await counted(port))["cycles"]
        if not length:
            least = cycles
        assert cycles == least + length


@cocotb.test()
async def every_bit_of_the_counters_counts(dut: Any) -> None:
    """No simulation counts to 2^63: wide registers are set one short of each power of two."""
    port = await make(dut)
    bits = counter_bits()
    for bit in range(bits + 1) if bits < WIDEST else ():
        await port.write(CONTROL.address, CLEAR)
        dut.read_beat.value = dut.write_beat.value = 1
        await port.bench.cycles(1 << bit)
        dut.read_beat.value = dut.write_beat.value = 0
        beats = (1 << bit) % (1 << bits)
        assert await counted(port) == {"cycles": 0, "read_beats": beats, "write_beats": beats}
    for bit in range(WIDEST) if bits == WIDEST else ():
        for name, signal in (("read_beats", "read_beat"), ("write_beats", "write_beat")):
            getattr(dut, name).value = (1 << bit) - 1
            getattr(dut, signal).value = 1
        await port.bench.edge
        dut.read_beat.value = dut.write_beat.value = 0
        assert await counted(port) == {"cycles": 0, "read_beats": 1 << bit, "write_beats": 1 << bit}


@cocotb.test()
async def a_high_half_belongs_to_the_low_half_read_before(dut: Any) -> None:
    """Not even a carry between the two reads mixes them."""
    port = await make(dut)
    if counter_bits() < WIDEST:
        return  # there is no high half
    await port.write(CONTROL.address, START)
    low, high = (register(f"CYCLES_{half}").address for half in ("LOW", "HIGH"))
    seen = set()
    for short in range(10):
        dut.cycles.value = (5 << 32) - short
        first = int.from_bytes((await port.host.read(low, 4)).data, "little")
        await port.bench.cycles(20)
        assert int(dut.cycles.value) >> 32 == 5
        # Other reads in between hold nothing.
        await port.host.read(register("STATUS").address, 4)
        second = int.from_bytes((await port.host.read(high, 4)).data, "little")
        assert second == (4 if first >> 31 else 5)
        seen.add(second)
    assert seen == {4, 5}


@cocotb.test()
async def a_reset_in_the_middle_leaves_nothing(dut: Any) -> None:
    port = await make(dut)
    for _ in range(4):
        await port.write(register("IMAGE").address, 5)
        await port.write(register("INTERRUPT").address, 1)
        await port.write(register("UNIT").address, UNITS - 1)
        await port.write(CONTROL.address, START)
        await port.bench.cycles(port.bench.random.randrange(1, 9))
        await port.bench.reset()
        port.model = Model(LINE_BITS, UNITS)
        await port.bench.cycles(4)
        for entry in REGISTERS:
            assert await port.read(entry.address) == (UNITS if entry.name == "UNITS" else entry.reset)
    port.taken.clear()
    port.model.started.clear()
    await port.write(register("IMAGE").address, 9)
    await port.write(CONTROL.address, START)
    await port.bench.cycles(8)
    assert port.taken == port.model.started == [9]


def test_control_port() -> None:
    simulate(ControlPort(LINE_BITS + 6, units=UNITS), __name__)


def test_control_port_refuses() -> None:
    with pytest.raises(ValueError, match=r"counter_bits must be in 1\.\.64, not 0"):
        ControlPort(counter_bits=0)
    with pytest.raises(ValueError, match=r"units must be in 1\.\.4096, not 0"):
        ControlPort(units=0)


def test_control_port_proofs() -> None:
    prove_all("control_port", PROOFS)


def test_registers_do_not_overlap() -> None:
    addresses = [entry.address for entry in REGISTERS]
    assert len(set(addresses)) == len(addresses)
    assert all(address % 4 == 0 for address in addresses)
    with pytest.raises(KeyError, match="no register 'NOTHING'"):
        register("NOTHING")
