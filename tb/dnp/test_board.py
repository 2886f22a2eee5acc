# mypy: disable-error-code="attr-defined"
"""An array behind AXI4-Lite and AXI4-Stream: whole networks by its driver, and all that a host can do wrong."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import cocotb
import numpy as np
import pytest

from contracts import ArrayError
from contracts.dnp import gbus
from contracts.dnp.board import BEAT, BeatKind, beats
from contracts.dnp.gbus import Space
from contracts.dnp.isa import PORTS, StopCode
from contracts.dnp.topology import EAST, NORTH, SOUTH, WEST, Edge, Grid, Topology
from contracts.registers import ARRAY_REGISTERS, Access, array_register
from golden.dnp.array import ArrayModel
from golden.dnp.assembler import assemble
from golden.dnp.mapper import Mapping as Mapped
from golden.dnp.mapper import map_network
from golden.dnp.network import Learning, Network, NetworkModel
from golden.dnp.passes import check
from hw.dnp.core import Status
from hw.dnp.machine import ArrayConfig, NeuralMachine
from sim.dnp.array import simulate_around
from sim.dnp.machine_driver import MachineDriver
from sim.driver import DriverError
from sim.harness import parameters
from sim.harness.run import CLOCK_NS
from tb.dnp.machine_bench import Host, StreamedMachine
from tb.dnp.test_array import CONFIG as CORE
from tb.harness.marks import full

SIZES = (9, 7, 5)
WM, XM, PROGRAM = CORE.wm_depth, CORE.xm_depth, CORE.p_depth
#: Clocks after which a run is given up, in ns.
TIMEOUT = 400_000 * CLOCK_NS
LIMIT = 100_000
#: Clocks from a start until the first words of the host are there, which it sends behind its access to the register.
LATE = 24


def config(side: int = 4, board: int = 8) -> ArrayConfig:
    """Return the sizes on the bench: buffers so small that everything waits for everything."""
    return ArrayConfig(rows=side, columns=side, board=board, core=CORE, input=48, output=40, port=4)


def size() -> int:
    """Return the processors along a side of the array on the bench."""
    return int(parameters().get("side", 4))


def board() -> int:
    """Return the processors along a side of its boards."""
    return int(parameters().get("board", 8))


def machine(side: int = 4, board: int = 8) -> StreamedMachine:
    """Make the machine as it is tried."""
    return StreamedMachine(config(side, board))


def samples(rng: np.random.Generator, count: int, *, learning: bool) -> list[Any]:
    """Return random inputs and, to learn, targets."""
    targets = rng.integers(0, 32768, (count, SIZES[-1])) if learning else [None] * count
    return list(zip(rng.integers(0, 32768, (count, SIZES[0])), targets, strict=True))


def mapped(count: int, seed: int, learning: Learning | None = None, topology: Topology = Topology.TORUS) -> Mapped:
    """Map a random network of `SIZES` for so many samples."""
    network = Network.random(SIZES, seed=seed, spread=2.0)
    return map_network(network, Grid(size(), size(), topology), CORE, learning=learning, samples=count)


def golden(mapping: Mapped, work: list[Any]) -> ArrayModel:
    """Let the golden machine do the same."""
    model = mapping.machine()
    model.edges.update(mapping.feeds(work))
    model.run(LIMIT)
    model.step()
    return model


def received(model: ArrayModel) -> dict[Edge, list[int]]:
    """Return what has left a golden machine."""
    return {edge: end.received for edge, end in model.edges.items() if end.received}


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
@cocotb.parametrize(topology=[Topology.TORUS, Topology.MESH], stall=[0.0, 0.4])
async def a_network_infers_over_axi(dut: Any, topology: Topology, stall: float) -> None:
    host = await Host.make(dut, stall)
    rng = np.random.default_rng(host.bench.random.getrandbits(32))
    work = samples(rng, 6, learning=False)
    mapping = mapped(len(work), 3, topology=topology)
    model = golden(mapping, work)
    ended = await host.driver.run(mapping, work)
    assert ended.results == received(model)
    assert str(ended) == f"done in {ended.counters['clocks']} clocks"
    check(mapping, NetworkModel(mapping.network, mapping.placement, CORE.table_bits), work, [], ended.results)
    # The buffers hide that words come over one stream, a word a clock at most.
    assert stall or ended.counters["clocks"] <= model.clock + LATE
    fed = sum(len(end.words) for end in mapping.feeds(work).values())
    assert ended.counters["words_in"] == fed
    assert ended.counters["words_out"] == sum(map(len, ended.results.values())) == len(work) * SIZES[-1]


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def passes_overlap_over_axi(dut: Any) -> None:
    """While one sample leaves, others are on their way and the next one comes."""
    host = await Host.make(dut, 0.0)
    rng = np.random.default_rng(host.bench.random.getrandbits(32))
    work = samples(rng, 12, learning=False)
    network = Network.random(SIZES, seed=9, spread=2.0)
    grid = Grid(size(), size(), Topology.TORUS)
    mapping = map_network(network, grid, CORE, samples=len(work), overlapped=True)
    model = golden(mapping, work)
    ended = await host.driver.run(mapping, work)
    assert ended.results == received(model)
    assert ended.counters["clocks"] <= model.clock + LATE


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def patterns_are_learnt_and_the_weights_read_back(dut: Any) -> None:
    """Weights, then all memories of every processor, are those of the golden machine."""
    host = await Host.make(dut)
    rng = np.random.default_rng(host.bench.random.getrandbits(32))
    learning = Learning(rate=0.5)
    work = samples(rng, 4, learning=True)
    mapping = mapped(len(work), 4, learning)
    model = golden(mapping, work)
    # An earlier test may have left words that these programs do not touch.
    for space, depth in ((Space.PROGRAM, CORE.p_depth), (Space.WM, CORE.wm_depth), (Space.XM, CORE.xm_depth)):
        await host.driver.write(None, space, 0, [0] * depth)
    await host.driver.run(mapping, work)
    found = await host.driver.weights(mapping)
    network = mapping.network.copy()
    exact = NetworkModel(network, mapping.placement, CORE.table_bits)
    for inputs, target in work:
        exact.learn(inputs, target, learning)
    for one, other in zip(found.weights + found.biases, network.weights + network.biases, strict=True):
        np.testing.assert_array_equal(one, other)
    await same_memories(host, model)


async def same_memories(host: Host, model: ArrayModel) -> None:
    """Compare what a run can change with the golden machine's, and the programs of two processors."""
    last = model.grid.processors - 1
    for processor in range(last + 1):
        memories = [(Space.WM, model.state.wm), (Space.XM, model.state.xm)]
        for space, memory in [(Space.PROGRAM, model.state.p), *memories] if processor in (0, last) else memories:
            depth = memory.shape[1]
            wanted = [int(word) - (int(word) >> 15 << 16 if word >= 0 else 0) for word in memory[processor]]
            assert await host.driver.read(processor, space, 0, depth) == wanted, f"{processor}, {space.name}"


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def words_come_and_go_while_programs_run(dut: Any) -> None:
    """Each sample is sent when the results of the one before have come, in a packet of their own."""
    host = await Host.make(dut, 0.2)
    rng = np.random.default_rng(host.bench.random.getrandbits(32))
    work = samples(rng, 5, learning=False)
    mapping = mapped(len(work), 5)
    await host.driver.load(mapping.machine())
    await host.driver.start(packet=SIZES[-1])
    exact = NetworkModel(mapping.network, mapping.placement, CORE.table_bits)
    for inputs, _ in work:
        assert (await host.driver.read_register("STATUS"))["busy"]
        await host.driver.feed([{edge: end.words for edge, end in mapping.feeds([(inputs, None)]).items()}])
        packet = await host.packet()
        assert len(packet) == SIZES[-1]
        found = sorted(BEAT.unpack(beat)["word"] for beat in packet)
        assert found == sorted(exact.forward(inputs)[-1].tolist())
    ended = await host.driver.finish()
    assert not ended.results
    assert ended.counters["words_out"] == len(work) * SIZES[-1]


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def every_edge_port_carries_words_of_all_bits(dut: Any) -> None:
    """Processors send back what comes from each of their edge ports: words, and the same with all bits inverted."""
    host = await Host.make(dut, 0.3)
    grid = Grid(size(), size(), Topology.MESH)
    texts: dict[int | None, str] = {None: "HALT"}
    given: dict[Edge, list[int]] = {}
    for edge in grid.edges():
        processor, port = grid.edge(*edge)
        words = [host.bench.random.randrange(-32768, 32768) for _ in range(2)]
        given[edge] = [word ^ mask for word in words for mask in (0, -1)]
        texts[processor] = f"INA {PORTS[port]}\nOUTA {PORTS[port]}\n" * len(given[edge]) + texts.get(processor, "HALT")
    await programmed(host, texts, grid)
    await host.driver.start()
    await host.driver.feed([given])
    assert (await host.driver.finish()).results == given


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_host_that_takes_nothing_stalls_the_array_and_loses_nothing(dut: Any) -> None:
    host = await Host.make(dut, 0.0)
    rng = np.random.default_rng(host.bench.random.getrandbits(32))
    work = samples(rng, 30, learning=False)
    mapping = mapped(len(work), 6)
    model = golden(mapping, work)
    await host.driver.load(mapping.machine())
    await host.driver.start()
    host.bench.pace(stall={"m": 1.0})
    await host.driver.feed({edge: end.words for edge, end in mapping.feeds([one]).items()} for one in work)
    await host.bench.cycles(6000)
    counters = {name: (await host.driver.read_register(name))["count"] for name in ("WORDS_IN", "WORDS_OUT")}
    await host.bench.cycles(500)
    assert counters == {name: (await host.driver.read_register(name))["count"] for name in counters}
    assert (await host.driver.read_register("STATUS"))["busy"]
    assert not host.beats
    host.bench.pace(stall={"m": 0.5})
    assert (await host.driver.finish()).results == received(model)


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def what_is_wrong_is_named_and_everything_else_goes_on(dut: Any) -> None:
    """Send a wrong frame or beat and a good frame behind it, and look at what the memories hold afterwards."""
    host = await Host.make(dut)
    driver = host.driver
    side = size()
    chips, last = side**2 // 4, side**2 - 1
    await driver.load(ArrayModel(CORE, Grid(side, side, Topology.TORUS, frozenset({SOUTH}))))
    target, random = driver.grid.place(last), host.bench.random

    def frame(operation: int, *, all_: int = 0, space: Space = Space.WM, chip: int = target[0]) -> int:
        fields = {"operation": operation, "all": all_, "space": space, "chip": chip, "core": target[1]}
        return gbus.HEADER.pack(fields)

    write, read = int(gbus.Operation.WRITE), int(gbus.Operation.READ)
    kinds = [BEAT.pack({"kind": kind, "port": 3, "word": 9}) for kind in (3, 7, 15)]
    outside = [BEAT.pack({"port": port, "word": 1}) for port in (4 * side, *(1 << bit for bit in range(8, 12)))]
    joined = BEAT.pack({"port": driver.grid.edges().index((NORTH, 1)), "word": 2})
    g_bus = BeatKind.G_BUS
    cases: list[tuple[ArrayError, list[int], int]] = [
        *((ArrayError.KIND, [kind], kind) for kind in kinds),
        *((ArrayError.PORT, [nowhere], nowhere) for nowhere in outside),
        (ArrayError.PORT, [joined], joined),
        *((ArrayError.OPERATION, beats(g_bus, [frame(op)]), frame(op)) for op in (3, 4, 5, 6, 7)),
        (ArrayError.OPERATION, beats(g_bus, [frame(read, all_=1), 0, 4]), frame(read, all_=1)),
        (
            ArrayError.OPERATION,
            beats(g_bus, [frame(write, space=Space.STATUS), 0, 2, 7, 8]),
            frame(write, space=Space.STATUS),
        ),
        (ArrayError.TARGET, beats(g_bus, [frame(write, chip=chips), 0, 2, 7, 8]), frame(write, chip=chips)),
        (ArrayError.TARGET, beats(g_bus, [frame(read, chip=255), 0, 2]), frame(read, chip=255)),
        (ArrayError.RANGE, beats(g_bus, [frame(write), WM - 2, 3, 7, 8, 9]), WM - 2 | 3 << 16),
        (ArrayError.RANGE, beats(g_bus, [frame(read), 65535, 1]), 65535 | 1 << 16),
        (ArrayError.RANGE, beats(g_bus, [frame(read), 1, 65535]), 1 | 65535 << 16),
        (ArrayError.RANGE, beats(g_bus, [frame(read, space=Space.XM), XM - 1, 2]), XM - 1 | 2 << 16),
        (ArrayError.RANGE, beats(g_bus, [frame(read, space=Space.PROGRAM), 0, PROGRAM + 1]), PROGRAM + 1 << 16),
        (ArrayError.RANGE, beats(g_bus, [frame(read, space=Space.STATUS), 60, 5]), 60 | 5 << 16),
        (ArrayError.NONE, beats(g_bus, [frame(0)]), 0),
        (ArrayError.NONE, beats(g_bus, [frame(write), 90, 0]), 0),
        (ArrayError.NONE, beats(g_bus, [frame(write, all_=1), 95, 1, 77]), 0),
    ]
    for code, wrong, info in cases:
        words = [random.randrange(-32768, 32768) for _ in range(4)]
        await host.send([*wrong, *beats(g_bus, gbus.write(target, Space.WM, 90, words))])
        assert await answered(host, last, 90, 4) == words
        await refused(host, code, info)
    assert await answered(host, 0, 95, 1) == [77]
    # A packet that ends too soon, with the frame or with a beat behind it; the next one begins with a frame.
    edge = beats(BeatKind.EDGE, [1], driver.grid.edges().index((SOUTH, 1)))
    for taken, behind in product(range(1, 7), ([], edge)):
        before = [random.randrange(-32768, 32768) for _ in range(4)]
        await host.send(beats(g_bus, gbus.write(target, Space.WM, 90, before)))
        short = gbus.write(target, Space.WM, 90, [11, 12, 13, 14])[:taken]
        await host.send([*beats(g_bus, short), *behind])
        written = max(0, taken - 3)
        assert await answered(host, last, 90, 4) == [11, 12, 13, 14][:written] + before[written:]
        await refused(host, ArrayError.TRUNCATED, 7 - taken if taken > 2 else 0)


async def answered(host: Host, processor: int, address: int, count: int) -> list[int]:
    """Read words of WM, which are a packet."""
    await host.send(beats(BeatKind.G_BUS, gbus.read(host.driver.grid.place(processor), Space.WM, address, count)))
    packet = list(map(BEAT.unpack, await host.packet()))
    assert all((beat["kind"], beat["port"]) == (BeatKind.G_BUS, 0) for beat in packet)
    return [beat["word"] - (beat["word"] >> 15 << 16) for beat in packet]


async def refused(host: Host, code: ArrayError, info: int) -> None:
    """Compare the first error, and clear it."""
    driver = host.driver
    assert (await driver.read_register("ERROR"))["error"] == code
    assert (await driver.read_register("STATUS"))["failed"] == (code != ArrayError.NONE)
    assert (await driver.read_register("INFO"))["info"] == info, code.name
    if code:
        with pytest.raises(DriverError, match=f"register ERROR: {code.name}, info {info:#x}, expected none"):
            await driver.check()
    await driver.write_register("CONTROL", clear=1)
    assert (await driver.read_register("ERROR"))["error"] == ArrayError.NONE
    assert (await driver.read_register("INFO"))["info"] == 0


async def programmed(host: Host, texts: Mapping[int | None, str], grid: Grid) -> ArrayModel:
    """Load the processors with programs (``None``: all others), and return the golden machine."""
    model = ArrayModel(CORE, grid)
    for processor in range(grid.processors):
        model.load(processor, assemble(texts.get(processor, texts[None]), config=CORE).program)
    model.start()
    await host.driver.load(model)
    return model


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def accesses_that_registers_refuse_change_nothing(dut: Any) -> None:
    host = await Host.make(dut)
    driver = host.driver
    expected = NeuralMachine(config(size(), board())).sizes()
    for one in ARRAY_REGISTERS:
        assert await host.read(one.address) == expected.get(one.name, one.reset), one.name
    known = {entry.address: entry for entry in ARRAY_REGISTERS}
    for address in range(0, 0x80, 4):
        entry = known.get(address)
        if entry is None:
            with pytest.raises(DriverError, match=f"read of {address:#x}: SLVERR"):
                await host.read(address)
            await refused(host, ArrayError.ACCESS, address)
        if entry is None or entry.access is Access.READ:
            with pytest.raises(DriverError, match="SLVERR"):
                await host.write(address, 0xFFFFFFFF)
            await refused(host, ArrayError.ACCESS, address)
    for name, value in (("JOINTS", 0b101101), ("INTERRUPT", 1), ("PACKET", 0xA55A)):
        await host.write(array_register(name).address, value)
        assert await host.read(array_register(name).address) == value
        await host.write(array_register(name).address, 0)
    # During a run: everything waits for a word from the north.
    await programmed(host, {None: "INA N\nHALT"}, Grid(size(), size()))
    await driver.start()
    control, joints = array_register("CONTROL").address, array_register("JOINTS").address
    for address, value in ((control, 1), (control, 16), (joints, 1)):
        with pytest.raises(DriverError, match="SLVERR"):
            await host.write(address, value)
        await refused(host, ArrayError.ACCESS, address)
    assert (await driver.read_register("STATUS"))["busy"]
    assert (await driver.read_register("JOINTS"))["topology"] == Topology.MESH
    ended = await driver.stop()
    assert ended.stopped
    with pytest.raises(DriverError, match="SLVERR"):
        await host.write(control, 17)
    await refused(host, ArrayError.ACCESS, control)


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_memory_is_closed_during_a_run_and_the_status_open(dut: Any) -> None:
    host = await Host.make(dut)
    driver, grid = host.driver, Grid(size(), size())
    last = grid.processors - 1
    await programmed(host, {None: "LDI #77 A\nMOV A RF3\nINA S\nHALT"}, grid)
    await driver.write(None, Space.WM, 90, [1, 2, 3, 4])
    await driver.start()
    while await driver.read(last, Space.STATUS, 0, 1) != [1]:
        pass
    await host.bench.cycles(50)
    executed = Status.INSTRUCTIONS.value
    assert await driver.read(last, Space.STATUS, executed, 1) == [3]
    for words in (
        gbus.write(grid.place(0), Space.WM, 90, [9, 9, 9]),
        gbus.write(None, Space.PROGRAM, 0, [0, 0]),
        gbus.read(grid.place(last), Space.XM, 0, 3),
    ):
        await host.send(beats(BeatKind.G_BUS, words))
        assert await driver.read(last, Space.STATUS, executed, 1) == [3]
        await refused(host, ArrayError.ONLINE, words[0])
    # A frame that has only begun does not keep a run from being stopped.
    await host.send(beats(BeatKind.G_BUS, gbus.read(grid.place(last), Space.STATUS, 0, 3)[:2]), last=False)
    await host.sent()
    await driver.write_register("CONTROL", stop=1)
    ended = await driver.finish()
    assert ended.stopped
    assert str(ended).startswith("stopped in ")
    await host.send(beats(BeatKind.G_BUS, [1]))
    assert len(await host.packet()) == 1
    assert await answered(host, 0, 90, 4) == [1, 2, 3, 4]
    # Registers are read once the processor stands still.
    assert await driver.read(last, Space.STATUS, Status.GENERAL.value + 3, 1) == [77]


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_program_that_ends_by_an_error_is_named(dut: Any) -> None:
    """Name the first of a run; clocks are those of the golden machine."""
    host = await Host.make(dut)
    driver, grid = host.driver, Grid(size(), size())
    bad = grid.processors - 2
    slow = "SET #90 RC\nREP ADD RF0 A\n.word 0xffff"
    model = await programmed(
        host, {None: "LDI #3 A\nHALT", 1: slow, bad: "SET #40 RC\nREP ADD RF1 A\n.word 0xffff"}, grid
    )
    await driver.start()
    ended = await driver.finish()
    assert (ended.stopped, ended.code, ended.processor) == (False, StopCode.OPCODE, bad)
    assert ended.counters["clocks"] == model.run(LIMIT)
    assert str(ended) == f"done, OPCODE in processor {bad} in {model.clock} clocks"
    assert (await driver.read_register("STATUS"))["stopped"]
    model = await programmed(host, {None: "LDI #3 A\nHALT"}, grid)
    await driver.start()
    ended = await driver.finish()
    assert (ended.code, ended.counters["clocks"]) == (StopCode.NONE, model.run(LIMIT))


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_run_begins_behind_the_frames_and_words_before_it(dut: Any) -> None:
    """Start while frames wait behind an answer, with more words for a port behind them than its queue holds."""
    host = await Host.make(dut, 0.0)
    driver, grid = host.driver, Grid(size(), size())
    await programmed(host, {None: "HALT"}, grid)
    await driver.start()
    await driver.finish()
    port = grid.edges().index((WEST, 1))
    words = list(range(100, 112))
    program = assemble("SET #12 RC\nREP INS W\nOUTA W\nHALT", config=CORE).program
    one = grid.place(size())
    host.bench.pace(stall={"m": 0.9})
    frames = [*gbus.read(one, Space.XM, 0, 60), *gbus.write(one, Space.PROGRAM, 0, program)]
    await host.send([*beats(BeatKind.G_BUS, frames), *beats(BeatKind.EDGE, words, port)])
    await host.sent()
    await driver.write_register("CONTROL", start=1)
    assert (await driver.read_register("STATUS"))["loading"]
    assert len(await host.packet()) == 60
    host.bench.pace(stall={"m": 0.2})
    ended = await driver.finish()
    assert ended.results == {(WEST, 1): [sum(words)]}


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def programs_that_wait_for_ever_are_stopped_and_their_words_dropped(dut: Any) -> None:
    host = await Host.make(dut)
    driver, grid = host.driver, Grid(size(), size())
    await programmed(host, {None: "INA N\nOUTA S\nINA W\nHALT"}, grid)
    await driver.write_register("INTERRUPT", done=1)
    await driver.start()
    # More than the port's queue holds, so that the last ones stay in the FIFO.
    await driver.feed([{(EAST, 0): list(range(30))}])
    with pytest.raises(DriverError, match="no packet after 1 waits, expected the end of the run"):
        await MachineDriver(host, host, patience=0).finish()
    assert not dut.irq.value
    ended = await driver.stop()
    assert ended.stopped
    assert not ended.results
    # A run that is stopped before it begins has its end, too; the answer before it is not cut.
    host.bench.pace(stall={"m": 1.0})
    await host.send(beats(BeatKind.G_BUS, gbus.read((0, 1), Space.WM, 0, 60)))
    await host.sent()
    await driver.write_register("CONTROL", start=1)
    await driver.write_register("CONTROL", stop=1)
    host.bench.pace(stall={"m": 0.2})
    kinds = [BEAT.unpack(beat)["kind"] for beat in [*await host.packet(), *await host.packet()]]
    assert (kinds.count(BeatKind.G_BUS), kinds.count(BeatKind.END), len(kinds)) == (60, 1, 61)
    driver = MachineDriver(host, host, patience=20)
    await driver.write_register("CONTROL", clear=1)
    rng = np.random.default_rng(1)
    work = samples(rng, 2, learning=False)
    mapping = mapped(len(work), 7, topology=Topology.MESH)
    assert (await driver.run(mapping, work)).results == received(golden(mapping, work))


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def the_end_of_a_run_raises_the_interrupt(dut: Any) -> None:
    host = await Host.make(dut)
    driver, grid = host.driver, Grid(size(), size())
    await programmed(host, {None: "HALT"}, grid)
    for enabled in (1, 0):
        await driver.write_register("INTERRUPT", done=enabled)
        await driver.start()
        end = await host.packet()
        assert list(map(BEAT.unpack, end)) == [{"kind": BeatKind.END, "port": 0, "word": 0}]
        status = await driver.read_register("STATUS")
        assert (status["busy"], status["done"], status["interrupt"]) == (0, 1, enabled)
        assert dut.irq.value == enabled
        await driver.write_register("CONTROL", acknowledge=1)
        assert not dut.irq.value
        assert not (await driver.read_register("STATUS"))["done"]


@cocotb.test(timeout_time=TIMEOUT, timeout_unit="ns")
async def a_reset_in_the_middle_leaves_nothing_behind(dut: Any) -> None:
    """Reset while frames are loaded, read back, and while programs run; afterwards a network learns as ever."""
    host = await Host.make(dut)
    rng = np.random.default_rng(host.bench.random.getrandbits(32))
    learning = Learning(rate=0.5)
    work = samples(rng, 2, learning=True)
    mapping = mapped(len(work), 8, learning)
    for clocks in (150, 1200, None):
        if clocks is None:
            await host.driver.load(mapping.machine())
            await host.driver.start()
            await host.driver.feed({edge: end.words for edge, end in mapping.feeds([one]).items()} for one in work)
            clocks = 300
        else:
            await host.driver.load(mapping.machine())
            await host.send(beats(BeatKind.G_BUS, gbus.read((0, 0), Space.WM, 0, 40)))
        await host.bench.cycles(clocks)
        await host.reset()
        for name in ("STATUS", "ERROR", "JOINTS", "WORDS_LOADED", "CLOCKS"):
            assert await host.read(array_register(name).address) == 0, name
    await host.driver.run(mapping, work)
    network = mapping.network.copy()
    exact = NetworkModel(network, mapping.placement, CORE.table_bits)
    for inputs, target in work:
        exact.learn(inputs, target, learning)
    found = await host.driver.weights(mapping)
    for one, other in zip(found.weights + found.biases, network.weights + network.biases, strict=True):
        np.testing.assert_array_equal(one, other)


def run(component: StreamedMachine, given: Mapping[str, Any], names: list[str] | None = None) -> None:
    """Run the bench, or some of its tests; chips are those of the bench of arrays, compiled once for both."""
    simulate_around(
        component.machine.array, component, __name__, name="streamed_machine", parameters=given, testcase=names
    )


def launch(component: StreamedMachine, given: Mapping[str, Any]) -> None:
    """Run the bench on a machine of ``given["side"]`` processors per side."""
    run(component, given)


def test_machine() -> None:
    launch(machine(), {"side": 4})


def test_boards_are_loaded_over_g_buses_of_their_own() -> None:
    """Four boards of a chip each."""
    names = [
        "a_network_infers_over_axi/topology=TORUS/stall=0.4",
        "patterns_are_learnt_and_the_weights_read_back",
        "what_is_wrong_is_named_and_everything_else_goes_on",
        "a_program_that_ends_by_an_error_is_named",
        "a_run_begins_behind_the_frames_and_words_before_it",
    ]
    run(machine(board=2), {"side": 4, "board": 2}, names)


@full
def test_a_whole_board_behind_axi() -> None:
    run(machine(8), {"side": 8}, ["passes_overlap_over_axi", "patterns_are_learnt_and_the_weights_read_back"])


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"rows": 3}, "rows must be a multiple of 2 in 2..64, not 3"),
        ({"rows": 64, "columns": 64}, "rows x columns must be at most 1024, not 64 x 64"),
        ({"port": 0}, "port must be in 1..4096, not 0"),
        ({"input": 2}, "input must be in 4..32768, not 2"),
    ],
)
def test_sizes_out_of_range_are_refused(sizes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ArrayConfig(**sizes)
