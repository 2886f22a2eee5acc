# mypy: disable-error-code="attr-defined"
"""Boards with clocks of their own: the same results in any ratio of clocks, and what crossing costs (D6, D10)."""

import os
import random
from typing import Any

import cocotb
import numpy as np
import pytest

from contracts.dnp import gbus
from contracts.dnp.config import ProcessorConfig
from contracts.dnp.isa import StopCode
from contracts.dnp.topology import EAST, SOUTH, Grid, Topology
from golden.dnp.array import ArrayModel
from golden.dnp.assembler import assemble
from golden.dnp.mapper import map_network
from golden.dnp.network import Network, NetworkModel
from hw.dnp.array import ProcessorArray
from sim.dnp.array import ArrayDriver, exchange, hosts, simulate_array
from sim.dnp.run_mapping import outputs
from sim.harness import parameters
from sim.harness.run import CLOCK_NS

CONFIG = ProcessorConfig(wm_depth=200, xm_depth=72, p_depth=1024, table_bits=5)
#: Processors per side of the array and of a board: four boards of a chip.
SIDE, BOARD = 4, 2
LIMIT = 30_000
TIMEOUT = 300_000 * CLOCK_NS
LINK_ROUNDS = 3
#: Words of the program that measures links, and the neurons of the network that measures an array.
STREAMED, NEURONS = 200, 20
GRIDS = {
    "mesh": (Topology.MESH, frozenset()),
    "torus": (Topology.TORUS, frozenset()),
    "pasf_with_host": (Topology.PASF, frozenset({EAST, SOUTH})),
    "linear": (Topology.LINEAR, frozenset()),
}
#: Periods in ps by name, a board each: equal in frequency at any phase, and others.
RATIOS = {
    "equal": (10_000, 10_000, 10_000, 10_000),
    "near": (10_000, 10_020, 9_980, 10_010),
    "far": (4_000, 10_000, 26_000, 7_300),
}


LONG = pytest.mark.skipif(not os.environ.get("ATOLL_FULL"), reason="other ratios of clocks: ATOLL_FULL=1")


def periods() -> tuple[int, ...]:
    """Periods of the boards' clocks."""
    given = parameters()["ratio"]
    if given in RATIOS:
        return RATIOS[given]
    return tuple(random.randrange(3_000, 30_000, 2) for _ in range((SIDE // BOARD) ** 2))


async def started(dut: Any) -> ArrayDriver:
    driver = ArrayDriver(dut, SIDE, SIDE, CONFIG, BOARD, clocks=periods())
    await driver.reset()
    return driver


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def every_link_and_joint_carries_words_both_ways(dut: Any) -> None:
    """With words from and to the host; a reset in the middle of each run, then the run again."""
    rng = random.Random(random.getrandbits(32))
    driver = await started(dut)
    for name, (topology, host) in GRIDS.items():
        machine = ArrayModel(CONFIG, Grid(SIDE, SIDE, topology, host))
        words = np.random.default_rng(rng.getrandbits(30))
        for memory in (machine.state.wm, machine.state.xm):
            memory[:] = words.integers(-32768, 32768, memory.shape)
        for processor in range(machine.grid.processors):
            machine.load(processor, assemble(exchange(rng, LINK_ROUNDS)).program)
        machine.start()
        await driver.reset_again()
        await driver.configure(machine.grid)
        await driver.load(machine)
        await driver.send(gbus.on())
        for _ in range(rng.randrange(10, 60)):
            await driver.edge
        await driver.reset_again()
        await driver.configure(machine.grid)
        await driver.load(machine)
        ends = hosts(machine, rng, 2 * LINK_ROUNDS, 0.7)
        machine.run(LIMIT)
        machine.step()
        await driver.run(ends, LIMIT)
        await driver.stop()
        await driver.compare(machine)
        for edge, end in machine.edges.items():
            assert ends[edge].received[: len(end.received)] == end.received, f"{name}: edge {edge}"


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_link_carries_a_word_in_every_clock_of_the_slower_board(dut: Any) -> None:
    """From processor 1 to processor 2, east, over the border between boards; start-up and end count."""
    driver = await started(dut)
    machine = ArrayModel(CONFIG, Grid(SIDE, SIDE))
    texts = {1: f"LDI #{STREAMED} RC\nREP OUTA E\nHALT", 2: f"LDI #{STREAMED} RC\nREP INA W\nHALT"}
    for processor in range(machine.grid.processors):
        machine.load(processor, assemble(texts.get(processor, "HALT")).program)
    machine.start()
    await driver.configure(machine.grid)
    await driver.load(machine)
    await driver.run({}, LIMIT)
    await driver.stop()
    head = await driver.read(2, gbus.Space.STATUS, 0, 10)
    clocks = (head[4] + (head[5] << 16)) * driver.clocks[1] / max(driver.clocks[:2])
    cocotb.log.info("words per clock of the slower board: %.3f", STREAMED / clocks)
    if parameters()["ratio"] != "random":
        assert STREAMED / clocks > 0.9


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_forward_pass_has_the_model_s_outputs(dut: Any) -> None:
    """On a torus, of which every link in the middle and every joint crosses clocks."""
    driver = await started(dut)
    network = Network.random((NEURONS,) * 3, seed=1)
    mapping = map_network(network, Grid(SIDE, SIDE, Topology.TORUS), CONFIG, stream=False)
    inputs = np.random.default_rng(1).integers(0, 32768, NEURONS)
    machine = mapping.machine(inputs)
    await driver.configure(mapping.grid)
    # Processors without a share of the outputs finish a value of words that were never written.
    for space, depth in ((gbus.Space.WM, CONFIG.wm_depth), (gbus.Space.XM, CONFIG.xm_depth)):
        await driver.write(None, space, 0, [0] * depth)
    await driver.load(machine)
    await driver.run_streams({}, LIMIT)
    await driver.stop()
    machine.run(LIMIT)
    machine.step()
    await driver.compare(machine, memories=False)
    found = await outputs(driver, mapping)
    assert found == NetworkModel(network, mapping.placement, CONFIG.table_bits).forward(inputs)[-1].tolist()
    clocks = []
    for processor in range(mapping.grid.processors):
        head = await driver.read(processor, gbus.Space.STATUS, 0, 10)
        clocks.append((head[4] + (head[5] << 16)) * driver.clocks[driver.array.board(processor)])
    slowest = max(driver.clocks)
    cocotb.log.info(
        "forward pass: %.0f clocks of the slowest board, %d with one clock", max(clocks) / slowest, machine.clock
    )


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def the_first_program_that_ends_by_an_error_is_named(dut: Any) -> None:
    """In the clock of the host, whatever board it is on; the next start clears it."""
    driver = await started(dut)
    grid = Grid(SIDE, SIDE)
    early, late = grid.processors - 1, 0
    texts = {early: "SET #9 RC\nREP ADD RF0 A\n.word 0xffff", late: "LDI #4000 RC\nREP ADD RF0 A\n.word 0xffff"}
    for stops in (True, False):
        machine = ArrayModel(CONFIG, grid)
        for processor in range(grid.processors):
            machine.load(processor, assemble(texts.get(processor, "HALT") if stops else "HALT").program)
        machine.start()
        await driver.configure(grid)
        await driver.load(machine)
        await driver.run({}, LIMIT)
        await driver.stop()
        assert int(dut.stop.value) == (StopCode.OPCODE if stops else StopCode.NONE)
        assert not stops or int(dut.stopped.value) == early


@pytest.mark.parametrize(
    "ratio", ["near", "random", *(pytest.param(name, marks=LONG) for name in RATIOS if name != "near")]
)
def test_boards_have_clocks_of_their_own(ratio: str) -> None:
    array = ProcessorArray(SIDE, SIDE, CONFIG, board=BOARD, clocks=True)
    simulate_array(array, __name__, parameters={"ratio": ratio})
