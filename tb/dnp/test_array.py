"""Arrays in all four topologies: random programs, loading and reading back, errors, resets; clock by clock."""

import os
import random
from collections.abc import Mapping
from typing import Any

import cocotb
import numpy as np
import pytest
from cocotb.triggers import ClockCycles

from contracts.dnp import gbus
from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import StopCode
from contracts.dnp.topology import EAST, NORTH, SOUTH, WEST, Grid, Topology
from golden.dnp.array import ArrayModel, EdgePort
from golden.dnp.assembler import assemble
from golden.dnp.hopfield import hebbian, map_hopfield
from hw.dnp.array import BOARD, ProcessorArray
from sim.dnp.array import ArrayDriver, exchange, hosts, lint_array, simulate_array
from sim.harness import parameters
from sim.harness.run import CLOCK_NS
from tb.dnp.programs import random_program

CONFIG = ProcessorConfig(wm_depth=200, xm_depth=72, p_depth=1024, table_bits=5)
#: Processors per side.
SIDE = 4
FULL = bool(os.environ.get("ATOLL_FULL"))
LIMIT = 30_000
#: An array that answers no more is given up, in ns; a board needs that long to load.
TIMEOUT = 300_000 * CLOCK_NS
#: Rounds of exchange in a program; every port sends and receives at most two words a round.
ROUNDS = 4
#: Rounds in which every port sends and receives two words of the memories.
LINK_ROUNDS = 2
#: Instructions that a random run has at least.
THOUSANDS = 2000
GRIDS = {
    **{topology.name.lower(): (topology, frozenset()) for topology in Topology},
    "torus_with_host": (Topology.TORUS, frozenset({EAST, SOUTH})),
    "torus_with_host_behind": (Topology.TORUS, frozenset({NORTH, WEST})),
    "pasf_with_host": (Topology.PASF, frozenset({EAST, SOUTH})),
    "pasf_with_host_behind": (Topology.PASF, frozenset({NORTH, WEST})),
    "linear_with_host": (Topology.LINEAR, frozenset({EAST, WEST})),
}


def random_exchange(seed: int, processor: int) -> str:
    """Random program that cannot deadlock: in each round every port sends, then every port receives, as many words.

    Two words fit into a link's buffers, so sending never waits for what is received later in the same round.
    """
    shared = random.Random(seed)
    rng = random.Random(seed * 1000 + processor)
    lines = ["SET #1 ICR"]
    for number in range(ROUNDS):
        count = shared.randrange(1, 3)
        local = random_program(rng.getrandbits(32), blocks=1, config=CONFIG, ports="")
        lines += [line.replace("l1", f"r{number}") for line in local.splitlines()[1:-1]]
        lines += [f"SET #{count} RC", f"LDI #{rng.randrange(40)} XR1", "LDI #3 XA1"]
        for port in rng.sample("NESW", 4):
            lines += rng.choice(
                [
                    [f"REP OUT XM[1]+ {port}"],
                    [f"REP OUTA {port}"],
                    [f"LDI #{'NESW'.index(port)} IOPR", "REP OUT RF2 IO"],
                    [f"REP OUT A! {port}"],
                ]
            )
        for port in rng.sample("NESW", 4):
            lines.append(
                "REP " + rng.choice([f"INX {port} XM[1]+", f"INS {port}", f"INA {port}", f"INSX {port} XM[1]+ XM[1]+"])
            )
    return "\n".join([*lines, "HALT"])


def prepared(grid: Grid, seed: int) -> ArrayModel:
    """Build a golden machine with random memories and programs."""
    rng = np.random.default_rng(seed)
    machine = ArrayModel(CONFIG, grid)
    for memory in (machine.state.wm, machine.state.xm):
        memory[:] = rng.integers(-32768, 32768, memory.shape)
    for processor in range(grid.processors):
        machine.load(processor, assemble(random_exchange(seed, processor), config=CONFIG).program)
    machine.start()
    return machine


def moved(machine: ArrayModel, grid: Grid) -> ArrayModel:
    """Build a golden machine of another topology whose memories hold what those of `machine` do."""
    other = ArrayModel(CONFIG, grid)
    other.state.p, other.state.wm, other.state.xm = machine.state.p, machine.state.wm, machine.state.xm
    other.start()
    return other


def size() -> int:
    """Processors per side of the array on the bench."""
    return int(parameters().get("side", SIDE))


async def started(dut: Any) -> ArrayDriver:
    """Driver of the array on the bench, after its reset."""
    driver = ArrayDriver(dut, size(), size(), CONFIG, parameters().get("board", BOARD))
    await driver.reset()
    return driver


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def every_link_and_joint_carries_words_both_ways(dut: Any) -> None:
    """In one topology after the other; what arrives stays in the memories, which are compared at the end."""
    side, rng = size(), random.Random(random.getrandbits(32))
    driver = await started(dut)
    machine = filled(Grid(side, side), rng.getrandbits(30))
    await driver.load(machine)
    for number, (name, (topology, host)) in enumerate(GRIDS.items()):
        machine = moved(machine, Grid(side, side, topology, host))
        for processor in range(machine.grid.processors):
            program = assemble(exchange(rng, LINK_ROUNDS, 4 * LINK_ROUNDS * number)).program
            machine.load(processor, program)
            await driver.write(processor, gbus.Space.PROGRAM, 0, program)
        await run_with_hosts(driver, machine, hosts(machine, rng, 2 * LINK_ROUNDS, 0.7), name)
    await driver.compare(machine)


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def random_programs_agree(dut: Any) -> None:
    """Run the same programs in every topology; memories stay as they are, and are compared at the end."""
    side, rng = size(), random.Random(random.getrandbits(32))
    driver = await started(dut)
    machine = prepared(Grid(side, side), rng.getrandbits(30))
    await driver.load(machine)
    for name in GRIDS if FULL else ("linear", "mesh", "torus_with_host", "pasf"):
        topology, host = GRIDS[name]
        machine = moved(machine, Grid(side, side, topology, host))
        await run_with_hosts(driver, machine, hosts(machine, rng, 2 * ROUNDS, 0.4), name)
        instructions, blocked = int(machine.state.instructions.sum()), int(machine.state.blocked.sum())
        assert instructions > THOUSANDS * machine.grid.processors // SIDE**2
        assert blocked > 0
        cocotb.log.info("%s: %d instructions, %d waiting", name, instructions, blocked)
    await driver.compare(machine)


async def run_with_hosts(
    driver: ArrayDriver, machine: ArrayModel, ends: dict[tuple[int, int], EdgePort], name: str
) -> None:
    """Run what is loaded, and compare clocks, registers, and words to and from the host."""
    await driver.reset_again()
    await driver.configure(machine.grid)
    clocks = machine.run(LIMIT)
    machine.step()
    assert await driver.run(ends, LIMIT) == clocks, name
    await driver.stop()
    await driver.compare(machine, memories=False)
    for edge, end in machine.edges.items():
        assert ends[edge].received == end.received, f"{name}: edge {edge}"


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def an_array_has_halted_when_the_last_processor_has(dut: Any) -> None:
    side = size()
    driver = await started(dut)
    short, long = assemble("HALT").program, assemble("SET #40 RC\nREP ADD RF0 A\nHALT").program
    machine = ArrayModel(CONFIG)
    machine.load(0, long)
    machine.start()
    clocks = machine.run(LIMIT)
    await driver.write(None, gbus.Space.PROGRAM, 0, short)
    for row, column in ((row, column) for row in range(0, side, 2) for column in range(0, side, 2)):
        last = row * side + column
        await driver.write(last, gbus.Space.PROGRAM, 0, long)
        assert await driver.run({}, LIMIT) == clocks, f"processor {last}"
        await driver.stop()
        await driver.write(last, gbus.Space.PROGRAM, 0, short)


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_frame_waits_for_the_answer_to_the_one_before(dut: Any) -> None:
    """Read from a processor of each chip, with a frame for all behind it: no chip takes it before the others."""
    side = size()
    driver = await started(dut)
    corners = [row * side + column for row in range(0, side, 2) for column in range(0, side, 2)]
    words = [random.getrandbits(16) for _ in range(4)]
    await driver.write(None, gbus.Space.WM, 0, words)
    for asked in corners:
        await driver.send(gbus.read(driver.place(asked), gbus.Space.WM, 0, len(words)))
        behind = [random.getrandbits(16) for _ in words]
        sending = cocotb.start_soon(driver.send(gbus.write(None, gbus.Space.WM, 0, behind)))
        await ClockCycles(dut.clk, 10)
        dut.g_o__0__ready.value = 1
        answer: list[int] = []
        while len(answer) < len(words):
            await driver.edge
            if dut.g_o__0__valid.value:
                answer.append(int(dut.g_o__0__payload.value))
        assert answer == words
        await sending
        words = behind
        for processor in corners:
            assert await driver.read(processor, gbus.Space.WM, 0, len(words)) == words


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def one_processor_stops_by_an_error_and_the_others_go_on(dut: Any) -> None:
    side = size()
    grid = Grid(side, side)
    bad, last = grid.processors // 3, grid.processors - 1
    driver = await started(dut)
    machine = ArrayModel(CONFIG, grid)
    machine.state.wm[:], machine.state.xm[:] = 21, -3
    for processor in range(grid.processors):
        text = "NOP\n.word 0xffff" if processor == bad else f"LDI #{processor} A\nMOV A RF1\nADD RF1 A\nHALT"
        machine.load(processor, assemble(text).program)
    machine.start()
    await driver.load(machine)
    machine.run(LIMIT)
    await driver.run({}, LIMIT)
    await driver.stop()
    assert (int(dut.stop.value), int(dut.stopped.value)) == (StopCode.OPCODE, bad)
    await driver.compare(machine, [0, bad, bad + 1, last])
    assert machine.state.code[bad] == StopCode.OPCODE


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_reset_in_the_middle_of_loading_and_running_leaves_nothing_behind(dut: Any) -> None:
    grid = Grid(size(), size(), Topology.TORUS)
    driver = await started(dut)
    machine = prepared(grid, 77)
    await driver.load(machine)
    for interrupted in (3, 20, 60):
        await driver.send(
            [*gbus.write(driver.place(0), gbus.Space.PROGRAM, CONFIG.p_depth // 2, [0] * 100)][:interrupted]
        )
        await driver.reset_again()
        await driver.configure(grid)
        await driver.send(gbus.on())
        for _ in range(interrupted):
            await driver.edge
        await driver.reset_again()
    await driver.configure(grid)
    # The programs have written into the memories meanwhile.
    await driver.load(machine)
    clocks = machine.run(LIMIT)
    assert await driver.run({}, LIMIT) == clocks
    await driver.stop()
    await driver.compare(machine, [0, grid.processors - 2])


def filled(grid: Grid, seed: int) -> ArrayModel:
    """Golden machine whose memories hold random words and whose programs end at once."""
    machine, rng = ArrayModel(CONFIG, grid), np.random.default_rng(seed)
    for memory in (machine.state.wm, machine.state.xm):
        memory[:] = rng.integers(-32768, 32768, memory.shape)
    machine.state.p[:, 0] = assemble("HALT").program[0]
    return machine


async def run_both(driver: ArrayDriver, machine: ArrayModel) -> None:
    """Run a loaded machine and the array, without words from the host, and compare every processor."""
    await driver.configure(machine.grid)
    machine.start()
    await driver.load(machine)
    clocks = machine.run(LIMIT)
    machine.step()
    assert await driver.run({}, LIMIT) == clocks
    await driver.stop()
    await driver.compare(machine)


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_hopfield_network_recalls_its_patterns(dut: Any) -> None:
    """On the ring of the first row (D13)."""
    side, sweeps = size(), 3
    neurons = 4 * side
    driver = await started(dut)
    rng = np.random.default_rng(random.getrandbits(32))
    patterns = np.where(rng.random((2, neurons)) < 0.5, -1, 1)
    damaged = patterns[0].copy()
    damaged[rng.choice(neurons, side // 2, replace=False)] *= -1
    weights = hebbian(patterns)
    network = map_hopfield(weights, side, sweeps, CONFIG)
    machine = filled(Grid(side, side, Topology.TORUS), 1)
    for processor, text in enumerate(network.texts):
        machine.load(processor, assemble(text, config=CONFIG).program, *network.memories(processor, damaged))
    await run_both(driver, machine)
    states = damaged
    for _ in range(sweeps):
        states = np.where(weights @ states < 0, -1, 1)
    np.testing.assert_array_equal(network.states(machine), states)


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def feedback_joints_of_pasf_bring_rows_to_columns_and_columns_to_rows(dut: Any) -> None:
    """East end of row i to the north end of column i, south end of column i to the west end of row i (D10)."""
    side = size()
    driver = await started(dut)
    machine = filled(Grid(side, side, Topology.PASF), 2)
    for processor in range(machine.grid.processors):
        row, column = divmod(processor, side)
        lines = [f"LDI #{100 + row} A", "OUTA E"] if column == 0 else ["FWD W E"]
        lines += ["FWD N S"] if row < side - 1 else ["INA N", "OUTA S"]
        lines += ["INA W"] if column == 0 else []
        machine.load(processor, assemble("\n".join([*lines, "HALT"])).program)
    await run_both(driver, machine)
    rounds = machine.state.a.reshape(side, side)
    assert rounds[:, 0].tolist() == [100 + row for row in range(side)]
    assert rounds[-1, 1:].tolist() == [101 + column for column in range(side - 1)]


def array(side: int = SIDE) -> ProcessorArray:
    """Make the array as it is tried."""
    return ProcessorArray(side, side, CONFIG)


def launch(component: ProcessorArray, given: Mapping[str, Any]) -> None:
    """Run the bench on an array of ``given["side"]`` processors per side."""
    simulate_array(component, __name__, parameters=given)


def test_array() -> None:
    launch(array(), {"side": SIDE})


def test_boards_are_loaded_side_by_side() -> None:
    """Four boards of a chip each."""
    names = ["every_link_and_joint_carries_words_both_ways", "random_programs_agree"]
    simulate_array(
        ProcessorArray(SIDE, SIDE, CONFIG, board=2), __name__, parameters={"side": SIDE, "board": 2}, testcase=names
    )


@pytest.mark.skipif(not FULL, reason="a board of 64 processors: ATOLL_FULL=1")
def test_a_board_agrees_in_every_topology() -> None:
    names = ["every_link_and_joint_carries_words_both_ways", "random_programs_agree"]
    simulate_array(ProcessorArray(BOARD, BOARD, CONFIG), __name__, parameters={"side": BOARD}, testcase=names)


def test_links_and_joints_close_no_combinational_loop() -> None:
    assert lint_array(ProcessorArray(2, 2, CONFIG)) == ""


@pytest.mark.parametrize(("rows", "columns"), [(3, 2), (1, 2), (0, 0)])
def test_sizes_out_of_range_are_refused(rows: int, columns: int) -> None:
    with pytest.raises(ValueError, match="rows and columns must be"):
        ProcessorArray(rows, columns)


@pytest.mark.parametrize("board", [0, 3])
def test_boards_hold_whole_chips(board: int) -> None:
    with pytest.raises(ValueError, match=f"board must be an even number from 2, not {board}"):
        ProcessorArray(4, 4, board=board)
