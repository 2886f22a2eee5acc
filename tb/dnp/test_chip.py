# mypy: disable-error-code="attr-defined,index"
"""A chip of four processors: its links and edge ports, and its control block frame by frame (D7)."""

import random
from collections.abc import Sequence
from typing import Any

import cocotb
import numpy as np
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from contracts.dnp import gbus
from contracts.dnp.config import HIGHEST, LOWEST, ProcessorConfig
from contracts.dnp.gbus import HEADER, Operation, Space
from contracts.dnp.isa import StopCode
from contracts.dnp.topology import Grid
from golden.dnp.array import ArrayModel, EdgePort
from golden.dnp.assembler import assemble
from golden.dnp.layer_end import LayerEnd
from hw.dnp.ccb import ChipControl
from hw.dnp.chip import NeuralChip
from hw.dnp.core import Status
from sim.dnp.array import ArrayDriver, Bus, exchange, hosts, simulate_chip
from sim.harness.run import CLOCK_NS

CONFIG = ProcessorConfig(wm_depth=24, xm_depth=12, p_depth=64, table_bits=3)
GRID = Grid(2, 2)
DEPTHS = {Space.PROGRAM: CONFIG.p_depth, Space.WM: CONFIG.wm_depth, Space.XM: CONFIG.xm_depth}
#: A program that ends by each error.
ERRORS = {
    StopCode.OPCODE: ".word 0xffff",
    StopCode.WM_RANGE: f"LDI #{CONFIG.wm_depth} WA1\nMOV WM[1] A",
    StopCode.XM_RANGE: f"LDI #{CONFIG.xm_depth} XR1\nMOV A XM[1]",
    StopCode.PC_RANGE: f".word 2 {CONFIG.p_depth}",
}
#: Numbers of the chip on the G-bus.
IDENTITIES = (0, 0x5A, 0xA5, 0xFF)
LIMIT = 2000
#: Rounds in which every port sends and receives two words.
ROUNDS = 3
#: Clocks that a word read takes: a look at the memory, a wait, keeping the word, sending it.
READ_CLOCKS = 4
#: A chip that answers no more is given up, in ns.
TIMEOUT = 200_000 * CLOCK_NS
ENDLESS = assemble("LDI #1 RF0\nagain: ADD RF0 A\nJMP again").program


def chip(*, once: bool = False) -> NeuralChip:
    """Make the chip as it is tried."""
    return NeuralChip(CONFIG, once=once)


class ChipDriver(ArrayDriver):
    """Drives one chip as :class:`ArrayDriver` drives an array."""

    def __init__(self, dut: Any, identity: int = 0) -> None:
        self.dut, self.config, self.grid = dut, CONFIG, GRID
        self.identity = identity
        self.edge = RisingEdge(dut.clk)
        self.closed, self.buses, self.clocks = [], [Bus(dut)], ()

    def bus_of(self, processor: int) -> Bus:
        """G-bus that a processor is loaded over."""
        del processor
        return self.buses[0]

    def place(self, processor: int) -> tuple[int, int]:
        """Chip and core of a processor on the G-bus."""
        return self.identity, processor

    async def reset_again(self) -> None:
        """Reset, whatever the chip is doing."""
        dut = self.dut
        dut.rst.value = 1
        dut.identity.value = self.identity
        dut.g_i__valid.value = 0
        dut.g_o__ready.value = 0
        for index in range(len(GRID.edges())):
            getattr(dut, f"i__{index}__valid").value = 0
            getattr(dut, f"i__{index}__payload").value = 0
            getattr(dut, f"o__{index}__ready").value = 0
        await self.edge
        await self.edge
        dut.rst.value = 0

    async def idle(self, words: Sequence[int], pace: float) -> None:
        """Send words with pauses between them."""
        for word in words:
            while random.random() > pace:
                await self.edge
            await self.send([word])

    async def receive(self, count: int, pace: float) -> list[int]:
        """Take words with pauses; what is offered has to stay until it is taken."""
        dut, offered = self.dut, None
        words: list[int] = []
        while len(words) < count:
            ready = random.random() < pace
            dut.g_o__ready.value = ready
            await self.edge
            valid, word = bool(dut.g_o__valid.value), int(dut.g_o__payload.value)
            assert offered is None or (valid and word == offered), "a word on offer changed"
            offered = word if valid and not ready else None
            if valid and ready:
                words.append(word)
        dut.g_o__ready.value = 0
        return words

    async def quiet(self, clocks: int = 12) -> None:
        """Nothing comes back, and the chip stays off-line."""
        self.dut.g_o__ready.value = 1
        for _ in range(clocks):
            await self.edge
            assert not self.dut.g_o__valid.value, "a word that nobody asked for"
            assert not self.dut.online.value
        self.dut.g_o__ready.value = 0


async def started(dut: Any, identity: int = 0) -> ChipDriver:
    driver = ChipDriver(dut, identity)
    await driver.reset()
    return driver


async def fill(driver: ChipDriver) -> list[dict[Space, list[int]]]:
    """Write random words into all memories; returns them by processor and space."""
    memories = []
    for processor in range(GRID.processors):
        memories.append({space: [random.getrandbits(16) for _ in range(depth)] for space, depth in DEPTHS.items()})
        for space, words in memories[-1].items():
            await driver.write(processor, space, 0, words)
    return memories


async def check(driver: ChipDriver, memories: list[dict[Space, list[int]]]) -> None:
    for processor, spaces in enumerate(memories):
        for space, words in spaces.items():
            assert await driver.read(processor, space, 0, len(words)) == words, f"processor {processor}, {space.name}"


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
@cocotb.parametrize(pace=[1.0, 0.5])
async def frames_write_and_read_what_they_name(dut: Any, pace: float) -> None:
    driver = await started(dut, random.choice(IDENTITIES))
    memories = await fill(driver)
    for _ in range(60):
        processor = random.choice([None, *range(GRID.processors)])
        space = random.choice(list(DEPTHS))
        address = random.randrange(DEPTHS[space])
        count = random.randrange(DEPTHS[space] - address + 1)
        words = [random.getrandbits(16) for _ in range(count)]
        target = None if processor is None else (driver.identity, processor)
        await driver.idle(gbus.write(target, space, address, words), pace)
        for index, spaces in enumerate(memories):
            if processor in (None, index):
                spaces[space][address : address + count] = words
        reader = random.randrange(GRID.processors)
        await driver.idle(gbus.read((driver.identity, reader), space, address, count), pace)
        assert await driver.receive(count, pace) == memories[reader][space][address : address + count]
    await check(driver, memories)


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def frames_for_other_chips_and_empty_ones_do_nothing(dut: Any) -> None:
    for identity in IDENTITIES:
        driver = await started(dut, identity)
        memories = await fill(driver)
        for bit in range(8):
            other = (identity ^ 1 << bit, bit % GRID.processors)
            await driver.send(gbus.write(other, Space.WM, 0, [bit]))
            await driver.send(gbus.read(other, Space.WM, 0, 2))
            await driver.send([*gbus.on(other), *gbus.off(other)])
            await driver.quiet()
        for operation in (Operation.NOP, *range(len(Operation), 8)):
            await driver.send([HEADER.pack({"operation": operation, "all": 1, "space": 1, "core": 0, "chip": 0})])
        await driver.send([*gbus.write(None, Space.WM, 0, []), *gbus.read((identity, 0), Space.WM, 0, 0)])
        await driver.quiet()
        await check(driver, memories)


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_word_is_written_every_clock_and_read_every_fourth(dut: Any) -> None:
    driver = await started(dut)
    memories = await fill(driver)
    words = [random.getrandbits(16) for _ in range(CONFIG.wm_depth)]
    memories[2][Space.WM] = words
    dut.g_i__valid.value = 1
    for word in gbus.write((0, 2), Space.WM, 0, words) + gbus.read((0, 2), Space.WM, 0, len(words)):
        dut.g_i__payload.value = word
        await driver.edge
        assert dut.g_i__ready.value, "the G-bus was stalled"
    dut.g_o__ready.value = 1
    # What follows waits until the last word has been read.
    dut.g_i__payload.value = 0
    for clock in range(READ_CLOCKS * len(words)):
        await driver.edge
        assert not dut.g_i__ready.value
        assert bool(dut.g_o__valid.value) == (clock % READ_CLOCKS == READ_CLOCKS - 1)
        if dut.g_o__valid.value:
            assert int(dut.g_o__payload.value) == words[clock // READ_CLOCKS]
    await driver.edge
    assert dut.g_i__ready.value
    dut.g_i__valid.value = 0
    await check(driver, memories)


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def frames_of_any_length_from_any_address(dut: Any) -> None:
    """All bits of count and address: words past the end are dropped, and addresses wrap."""
    driver = await started(dut)
    memories = await fill(driver)
    lengths = [(CONFIG.wm_depth, 1 << bit) for bit in range(16)]
    # A word that was taken for a header would be answered.
    (word, *_) = gbus.read((0, 1), Space.WM, 0, 1)
    for first, count in ((0xAAAA, 0x5556 + 5), *lengths):
        await driver.send([*gbus.write((0, 1), Space.WM, first, [])[:2], count])
        dut.g_i__valid.value = 1
        dut.g_i__payload.value = word
        await ClockCycles(dut.clk, count)
        dut.g_i__valid.value = 0
        await driver.quiet()
        written = max(first + count - 0x10000, 0)
        memories[1][Space.WM][:written] = [word] * written
    await check(driver, memories)
    for bit in range(16):
        await driver.send([*gbus.write((0, 3), Space.XM, 1 << bit, [bit])])
        if 1 << bit < CONFIG.xm_depth:
            memories[3][Space.XM][1 << bit] = bit
    await check(driver, memories)


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def programs_run_on_line_and_memories_are_closed_meanwhile(dut: Any) -> None:
    identity = random.choice(IDENTITIES)
    driver = await started(dut, identity)
    memories = await fill(driver)
    await driver.write(None, Space.PROGRAM, 0, ENDLESS)
    for spaces in memories:
        spaces[Space.PROGRAM][: len(ENDLESS)] = ENDLESS
    for target in (None, (identity, 3)):
        machine = ArrayModel(CONFIG, GRID)
        for processor in range(GRID.processors):
            machine.load(processor, ENDLESS)
        machine.start()
        assert not dut.online.value
        await driver.send(gbus.on(target))
        assert not dut.online.value
        online = cocotb.start_soon(counted(dut))
        await driver.edge
        await driver.edge
        assert dut.online.value
        for space in DEPTHS:
            await driver.write(None, space, 0, [0, 0, 0])
        # A second ON does not start again.
        await driver.send(gbus.on(target))
        # The state can be read meanwhile.
        assert [(await driver.read(p, Space.STATUS, 0, 1))[0] for p in range(GRID.processors)] == [1] * GRID.processors
        await driver.send(gbus.off(target))
        clocks = await online
        for _ in range(clocks):
            machine.step()
        for processor in range(GRID.processors):
            assert await driver.read(processor, Space.STATUS, Status.CLOCKS.value, 2) == [clocks, 0]
            state = await driver.read(processor, Space.STATUS, Status.STATE.value, 3)
            assert state == [0, 0, int(machine.state.a[processor])]
        await check(driver, memories)


async def counted(dut: Any) -> int:
    """Clocks from now until on-line has been and gone."""
    clocks, edge = 0, RisingEdge(dut.clk)
    while not (clocks and not dut.online.value):
        await edge
        clocks += int(dut.online.value)
    return clocks


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_chip_switched_off_at_once_does_not_start(dut: Any) -> None:
    driver = await started(dut)
    await driver.write(None, Space.PROGRAM, 0, ENDLESS)
    await driver.send([*gbus.on(), *gbus.off()])
    await driver.edge
    await driver.quiet()


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
@cocotb.parametrize(pace=[1.0, 0.4])
async def links_and_edge_ports_carry_words_both_ways(dut: Any, pace: float) -> None:
    driver = await started(dut)
    rng = random.Random(random.getrandbits(32))
    machine = ArrayModel(CONFIG, GRID)
    memories = await fill(driver)
    for processor, spaces in enumerate(memories):
        program = assemble(exchange(rng, ROUNDS), config=CONFIG).program
        machine.load(processor, program, *(dict(enumerate(spaces[space])) for space in (Space.WM, Space.XM)))
        await driver.write(processor, Space.PROGRAM, 0, program)
    machine.start()
    ends = hosts(machine, rng, 2 * ROUNDS, pace)
    clocks = machine.run(LIMIT)
    machine.step()
    assert await driver.run(ends, LIMIT) == clocks
    await driver.stop()
    await driver.compare(machine)
    for edge, end in machine.edges.items():
        assert ends[edge].received == end.received, f"edge {edge}"


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
@cocotb.parametrize(features=[1, 5, 16], pace=[0.0, 0.6])
async def layers_end_on_the_chip(dut: Any, features: int, pace: float) -> None:
    """Stream rows through; results, and every register and clock, are those of the model."""
    driver = await started(dut)
    source = np.random.default_rng(random.getrandbits(32))
    biases, table = (source.integers(LOWEST, HIGHEST + 1, size) for size in (features, CONFIG.table_size))
    end, rows = LayerEnd(biases, table, CONFIG), source.integers(LOWEST, HIGHEST + 1, (10, features))
    machine = end.machine(rows)
    for processor, spaces in enumerate(await fill(driver)):
        unused = {at: word for at, word in enumerate(spaces[Space.WM]) if at not in end.memory}
        machine.load(processor, (), unused, dict(enumerate(spaces[Space.XM])))
        await driver.write(processor, Space.PROGRAM, 0, end.image(processor, len(rows)).program)
        await driver.write(processor, Space.WM, 0, list(end.memory.values()))
    ends = {}
    for edge, port in machine.edges.items():
        offers, accepts = ([*(source.random(29) >= pace).tolist(), True] for _ in range(2))
        machine.edges[edge], ends[edge] = (EdgePort(port.words, offers, accepts) for _ in range(2))
    clocks = machine.run(LIMIT)
    machine.step()
    assert await driver.run(ends, LIMIT) == clocks
    await driver.stop()
    await driver.compare(machine)
    np.testing.assert_array_equal(end.results(ends, len(rows)), end(rows))


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_start_empties_the_links(dut: Any) -> None:
    """Leave two words in every link; the programs that are started next receive others."""
    driver = await started(dut)
    machine = ArrayModel(CONFIG, GRID)
    memories = await fill(driver)
    for processor, spaces in enumerate(memories):
        machine.load(processor, (), *(dict(enumerate(spaces[space])) for space in (Space.WM, Space.XM)))
    for text in ("LDI #{1} A\nSET #2 RC\nREP OUTA {0}", "LDI #{2} A\nOUTA {0}\nINA {0}\nMOV A RF{3}"):
        for processor in range(GRID.processors):
            inner = ["ES", "SW", "NE", "NW"][processor]
            lines = [text.format(port, 5 + processor, 9 + processor, at) for at, port in enumerate(inner)]
            program = assemble("\n".join([*lines, "HALT"])).program
            machine.load(processor, program)
            await driver.write(processor, Space.PROGRAM, 0, program)
        machine.start()
        assert await driver.run({}, LIMIT) == machine.run(LIMIT)
        await driver.stop()
        await driver.compare(machine)


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_chip_has_halted_when_the_last_processor_has(dut: Any) -> None:
    driver = await started(dut)
    for last in range(GRID.processors):
        machine = ArrayModel(CONFIG, GRID)
        for processor in range(GRID.processors):
            program = assemble("SET #9 RC\nREP ADD RF0 A\nHALT" if processor == last else "HALT").program
            machine.load(processor, program)
            await driver.write(processor, Space.PROGRAM, 0, program)
        machine.start()
        assert await driver.run({}, LIMIT) == machine.run(LIMIT)
        await driver.stop()


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def every_processor_says_which_error_ended_it(dut: Any) -> None:
    """Each processor stops by each error in turn, and the next start clears it."""
    driver = await started(dut)
    codes = list(ERRORS)
    for turn in range(len(codes)):
        wanted = [codes[(processor + turn) % len(codes)] for processor in range(GRID.processors)]
        for processor, code in enumerate(wanted):
            await driver.write(processor, Space.PROGRAM, 0, assemble(ERRORS[code]).program)
        await driver.send(gbus.on())
        await ClockCycles(dut.clk, 40)
        assert [getattr(dut, f"stops__{processor}").value for processor in range(GRID.processors)] == wanted
        assert dut.halted.value
        await driver.send(gbus.off())
    await driver.write(None, Space.PROGRAM, 0, assemble("HALT").program)
    await driver.send(gbus.on())
    await ClockCycles(dut.clk, 40)
    assert not any(getattr(dut, f"stops__{processor}").value for processor in range(GRID.processors))
    await driver.send(gbus.off())


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_reset_in_any_state_of_a_frame_leaves_nothing_behind(dut: Any) -> None:
    driver = await started(dut)
    for words in range(1, 6):
        await driver.send(gbus.write((0, 0), Space.WM, 3, [1, 2, 3])[:words])
        await driver.reset_again()
        await driver.send(gbus.read((0, 0), Space.STATUS, 0, 2))
        for _ in range(words):
            await driver.edge
        await driver.reset_again()
        await driver.send(gbus.on())
        for _ in range(words):
            await driver.edge
        await driver.reset_again()
        await driver.quiet()
        await check(driver, await fill(driver))


def test_chip() -> None:
    # One processor is compiled, not four.
    simulate_chip(chip(once=True), __name__)


@pytest.mark.parametrize("cores", [0, 5])
def test_a_control_block_has_one_to_four_cores(cores: int) -> None:
    with pytest.raises(ValueError, match=r"cores must be in 1\.\.4, not"):
        ChipControl(cores)
