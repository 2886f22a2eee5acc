"""PE: exact rows in all three modes, exact cycles, errors, limits, stalls, reset in the middle."""

import os
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import cocotb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import DIGIT_FEATURES
from golden.pe.pe import (
    AHEAD,
    CHAIN_LATENCY,
    FEW_BEATS,
    LONG_BEAT,
    MANY_BEATS,
    MOVE,
    PACK_LATENCY,
    SUM_LATENCY,
    Layer,
    Mode,
    Sizes,
    Task,
    cycles,
    digits_of,
    operations,
    sum_of_digits,
)
from hw.pe.factories import pe
from hw.pe.formats import PEConfig
from hw.pe.pe import PE
from sim.harness import parameters, simulate
from sim.harness.bench import Bench, start
from sim.harness.expected import expect_cycles
from sim.harness.formal import check, prove_all
from tb.pe.formal_pe import PROOFS, REFUTED
from tb.pe.work import FACTORS, HIGH, NEIGHBOUR, SELF, Maker, Ports

#: Widest PE of the benches: four chunks a beat.
WIDE = {"lanes": 4, "data_width": 256, "weight_rows": 64, "max_out": 37, "queue": 3, "ways": 2}
#: The narrowest useful one.
NARROW = {"lanes": 2, "data_width": 64, "weight_rows": 16, "max_out": 7, "queue": 2}
DEFAULT = {"lanes": 16, "data_width": 256, "weight_rows": 64, "max_out": 64, "queue": 4, "ways": 4}
#: Rows of a single chunk and few beats in registers, as for communities: a PE for these combines only.
SINGLE = {"lanes": 16, "data_width": 256, "weight_rows": 64, "max_out": 16, "queue": 2}
COMBINER = {**SINGLE, "ways": 2, "aggregates": False}


async def begin(dut: Any, *, idle: float = 0.0, stall: float = 0.0) -> tuple[Bench, Maker, Ports]:
    config = PEConfig(**parameters())
    bench = await start(dut, PE(config))
    bench.pace(idle={"i": idle}, stall={"o": stall})
    return bench, Maker(config, bench.random), Ports(bench, config)


async def run(ports: Ports, layer: Layer, tasks: list[Task]) -> int:
    """Do `tasks`; return the cycles from the first beat driven to the last row's end."""
    ports.bench.expect("index_error", ports.wrong_indices(tasks, layer))
    began = ports.bench.cycle
    ports.expect(tasks, layer)
    ports.drive(tasks, layer)
    return await ports.bench.drain(40_000) - began


def sizes(config: PEConfig) -> Sizes:
    return Sizes(config.lanes, config.max_out, config.queue, config.ways, config.aggregates)


def widths(config: PEConfig) -> list[int]:
    """Return output widths round those of a chunk, of a beat and of the longest row."""
    bounds = {
        1,
        config.half,
        config.half + 1,
        config.lanes,
        config.lanes + 1,
        config.elements,
        config.elements + 1,
        config.max_out,
    }
    return sorted(width for width in bounds if width <= config.max_out)


@cocotb.test()
@cocotb.parametrize(mode=list(Mode), pace=[0.0, 0.4])
async def rows_are_exact(dut: Any, mode: Mode, pace: float) -> None:
    """Random tasks, short ones and longer than the queue, for all widths of the row."""
    bench, maker, ports = await begin(dut, idle=pace, stall=pace)
    for f_out in widths(maker.config):
        layer = maker.layer(mode, f_out, relu=bool(bench.random.getrandbits(1)), bias=bool(bench.random.getrandbits(1)))
        await ports.load(layer)
        await run(ports, layer, maker.tasks(layer, 8, 4 * maker.elements))


@cocotb.test()
@cocotb.parametrize(mode=[Mode.SPARSE, Mode.DENSE], pace=[0.0, 0.4])
async def digits_are_exact(dut: Any, mode: Mode, pace: float) -> None:
    """Three rows of digits for each task, each of them at a granule, whatever the factor; then rounded rows again."""
    _, maker, ports = await begin(dut, idle=pace, stall=pace)
    for f_out in widths(maker.config):
        for digits in (True, False):
            layer = maker.layer(mode, f_out, digits=digits)
            await ports.load(layer)
            await run(ports, layer, maker.tasks(layer, 6, 4 * maker.elements))


@cocotb.test()
async def digits_reach_their_extremes(dut: Any) -> None:
    """Take sums of the largest magnitudes, the smallest negative one, and digits whose bits are all set."""
    _, maker, ports = await begin(dut)
    layer = maker.layer(Mode.DENSE, maker.config.max_out, digits=True)
    low, high = -(1 << 15), (1 << 15) - 1
    layer.weights[:] = np.resize(np.array([low, high, -1, 1, 0, 1 << 14], np.int16), layer.weights.shape)
    await ports.load(layer)
    tasks = [maker.dense(layer, zeros=0.0) for _ in range(5)]
    for task, value in zip(tasks, (low, high, -1, 1, 0), strict=True):
        for beat in task.beats:
            beat.data[:] = value
    await run(ports, layer, tasks)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.8], stall=[0.0, 0.8])
async def biases_and_activation_are_exact(dut: Any, idle: float, stall: float) -> None:
    """Biases count only where the settings say so, and negative results become 0 only then."""
    bench, maker, ports = await begin(dut, idle=idle, stall=stall)
    settings = ((False, False), (False, True), (True, False), (True, True))
    for relu, bias in settings if maker.config.aggregates else settings[:1]:
        layer = maker.layer(Mode.GATHER, maker.config.max_out, relu=relu, bias=bias)
        await ports.load(layer)
        await run(ports, layer, [maker.gather(layer, bench.random.choices(FACTORS, k=5)) for _ in range(4)])


@cocotb.test()
async def every_bit_of_a_bias_counts(dut: Any) -> None:
    """Rows without elements, at shifts that bring every part of a bias into the result."""
    _, maker, ports = await begin(dut)
    for shift in (0, 8, 16) if maker.config.aggregates else ():
        layer = replace(maker.layer(Mode.DENSE, maker.config.max_out, f_in=1), shift=shift)
        layer.biases[:] = maker.np.integers(-(1 << 15 + shift), 1 << 15 + shift, layer.f_out)
        await ports.load(layer)
        tasks = [maker.dense(layer, zeros=1.0) for _ in range(2)]
        await run(ports, layer, [replace(task, exponent=number) for number, task in enumerate(tasks)])


@cocotb.test()
@cocotb.parametrize(shift=[0, 63])
async def shifts_reach_their_extremes(dut: Any, shift: int) -> None:
    """Everything saturates without a shift, and nothing is left by the longest."""
    _, maker, ports = await begin(dut)
    layer = replace(maker.layer(Mode.GATHER, maker.config.max_out), shift=shift)
    await ports.load(layer)
    tasks = [maker.gather(layer, [SELF, HIGH]) for _ in range(4)]
    await run(ports, layer, [replace(task, exponent=31 * (number % 2)) for number, task in enumerate(tasks)])


@cocotb.test()
@cocotb.parametrize(mode=list(Mode))
async def sums_reach_their_extremes(dut: Any, mode: Mode) -> None:
    """Multiply the largest magnitudes, and weight rows with GIN's factors."""
    _, maker, ports = await begin(dut)
    layer = maker.layer(mode, maker.config.lanes)
    layer.weights[:] = -(1 << 15)
    await ports.load(layer)
    tasks = [
        maker.sparse(layer, 40, gap=0.0)
        if mode == Mode.SPARSE
        else maker.dense(layer, zeros=0.0)
        if mode == Mode.DENSE
        else maker.digits(layer, 8)
        if mode == Mode.DIGITS
        else maker.gather(layer, [SELF] + [NEIGHBOUR] * 20)
        for _ in range(4)
    ]
    for number, task in enumerate(tasks):
        for beat in task.beats:
            values = slice(1, None, 2) if mode == Mode.SPARSE else slice(None)
            beat.data[values] = (-(1 << 15), (1 << 15) - 1)[number % 2]
    await run(ports, layer, tasks)


@cocotb.test()
@cocotb.parametrize(mode=[Mode.SPARSE, Mode.DENSE])
async def tasks_without_elements_give_the_bias_alone(dut: Any, mode: Mode) -> None:
    """Empty beats before, between and after others, and tasks of empty beats only."""
    _, maker, ports = await begin(dut)
    for f_out in (1, maker.config.max_out):
        layer = maker.layer(mode, f_out, bias=True)
        await ports.load(layer)
        tasks = []
        for pattern in ((0,), (0, 0, 0), (0, 1), (1, 0), (1, 0, 0, 1, 0), (0,)):
            task = maker.sparse(layer, 2, gap=0.0) if mode == Mode.SPARSE else maker.dense(layer, zeros=0.3)
            full = task.beats[0]
            empty = type(full)(full.data, full.mask & False)
            tasks.append(maker.task([full if bit else empty for bit in pattern]))
        await run(ports, layer, tasks)


@cocotb.test()
@cocotb.parametrize(pace=[0.0, 0.4])
async def indices_out_of_range_count_as_0_and_are_reported_once(dut: Any, pace: float) -> None:
    _, maker, ports = await begin(dut, idle=pace, stall=pace)
    for f_out in (1, maker.config.max_out):
        layer = maker.layer(Mode.SPARSE, f_out, f_in=3)
        await ports.load(layer)
        tasks = maker.tasks(layer, 8, 30, wrong=0.4)
        tasks[0].beats[0].data[0], tasks[0].beats[0].mask[0] = layer.f_in, True
        tasks[1].beats[0].data[0], tasks[1].beats[0].mask[0] = layer.f_in - 1, True
        tasks[2].beats[0].data[0], tasks[2].beats[0].mask[0] = -1, True
        await run(ports, layer, tasks)


@cocotb.test()
@cocotb.parametrize(mode=list(Mode))
async def every_cycle_is_accounted_for(dut: Any, mode: Mode) -> None:
    """With no stall, tasks of any length take exactly the cycles of the model."""
    bench, maker, ports = await begin(dut)
    config = maker.config
    for f_out in widths(config):
        layer = maker.layer(mode, f_out, digits=mode in (Mode.SPARSE, Mode.DENSE) and bool(bench.random.getrandbits(1)))
        await ports.load(layer)
        tasks = maker.tasks(layer, 12, bench.random.choice((1, 2 * config.elements)))
        assert await run(ports, layer, tasks) == 1 + cycles(tasks, layer, sizes(config))


@cocotb.test()
async def the_lanes_work_every_cycle_while_rows_are_drained(dut: Any) -> None:
    """Tasks as long as their rows: one operation a cycle, but for filling and emptying the pipeline."""
    _, maker, ports = await begin(dut)
    config = maker.config
    # The same work with every seed: cycles depend on the indices that come together.
    maker = Maker(config, Random(config.lanes))
    layer = maker.layer(Mode.SPARSE, config.lanes)
    await ports.load(layer)
    tasks = [maker.sparse(layer, max(config.lanes, config.elements // 2), gap=0.0) for _ in range(30)]
    work = sum(count for task in tasks for count, _ in operations(task, layer, config.lanes))
    took = await run(ports, layer, tasks)
    assert took <= work + config.lanes + 30
    expect_cycles(f"pe.pe.sparse_tasks.{config.lanes}x{config.data_width}.{config.ways}", took)


@cocotb.test()
@cocotb.parametrize(part=[1, 2])
async def short_tasks_take_a_cycle_for_each_group_of_their_rows(dut: Any, part: int) -> None:
    _, maker, ports = await begin(dut)
    config = maker.config
    f_out = min(config.max_out, config.elements) // part
    layer = maker.layer(Mode.GATHER, f_out)
    await ports.load(layer)
    tasks = [maker.gather(layer, [SELF]) for _ in range(30)]
    took = await run(ports, layer, tasks)
    # The first task fills the pipeline, and a full beat leaves after its last element. Banks of long rows are taken
    # from the first operation on, those of single chunks with the last.
    groups, chunks = -(-f_out // config.ways), -(-f_out // config.lanes)
    bank = 1 + SUM_LATENCY + MOVE + max(1, groups - AHEAD) if config.single else chunks + SUM_LATENCY + groups
    # From the place that a beat takes when it is read until it has left.
    few = config.elements // config.ways >= LONG_BEAT
    beat, places = groups + PACK_LATENCY + CHAIN_LATENCY, 1 + (FEW_BEATS if few else MANY_BEATS)
    each = max(groups, bank / config.banks, beat / places)
    assert took <= 30 * each + 25
    expect_cycles(f"pe.pe.short_tasks.{config.lanes}x{config.data_width}.{config.ways}.{part}", took)


@cocotb.test()
async def a_stalled_output_holds_the_pe_without_loss(dut: Any) -> None:
    """With the output stopped the input stops too; afterwards every row comes."""
    bench, maker, ports = await begin(dut)
    config = maker.config
    layer = maker.layer(Mode.GATHER, config.max_out)
    await ports.load(layer)
    tasks = [maker.gather(layer, [SELF, NEIGHBOUR]) for _ in range(40)]
    for _ in range(2):
        bench.pace(stall={"o": 1.0})
        ports.expect(tasks, layer)
        ports.drive(tasks, layer)
        await bench.cycles(1500)
        left = bench.drivers["i"].busy_words
        assert left > 0
        await bench.cycles(200)
        assert bench.drivers["i"].busy_words == left
        bench.pace(stall={"o": 0.0})
        await bench.drain()


@cocotb.test()
async def reset_in_the_middle_is_followed_by_the_same_work(dut: Any) -> None:
    bench, maker, ports = await begin(dut)
    config = maker.config
    layer = maker.layer(Mode.SPARSE, config.max_out, bias=True)
    await ports.load(layer)
    tasks = maker.tasks(layer, 6, 20)
    wanted = 1 + cycles(tasks, layer, sizes(config))
    for _ in range(12):
        ports.expect(tasks, layer)
        ports.drive(tasks, layer)
        bench.pace(stall={"o": bench.random.choice((0.0, 0.9))})
        await bench.cycles(bench.random.randrange(1, 150))
        await bench.reset()
        assert dut.o__valid.value == 0
        bench.pace(stall={"o": 0.0})
        assert await run(ports, layer, tasks) == wanted


CONFIGURATIONS = [WIDE, NARROW, DEFAULT, SINGLE, COMBINER] if os.environ.get("ATOLL_FULL") else [WIDE, COMBINER]


@pytest.mark.parametrize("config", CONFIGURATIONS, ids=lambda config: f"{config['lanes']}x{config['data_width']}")
def test_pe(config: dict[str, int]) -> None:
    simulate(pe(**config), __name__, parameters=config)


@given(
    st.integers(1, 300), st.integers(1, 9), st.lists(st.integers(1, 299), max_size=6), st.booleans(), st.integers(0, 99)
)
def test_digits_of_any_blocks_add_up_to_the_sums_of_one(
    f_in: int, f_out: int, cuts: list[int], extreme: bool, seed: int
) -> None:
    """Whatever the blocks of features, their digits have 14, 14 and 16 bits and stand for the sums of one block."""
    random, low, high = np.random.default_rng(seed), -(1 << 15), (1 << 15) - 1
    values = np.asarray(random.integers(low, high + 1, (f_in, 1 + f_out)), dtype=np.int64)
    if extreme:
        values = np.where(values < 0, low, high)
    features, weights = values[:, 0], values[:, 1:]
    bounds = [0, *sorted({cut for cut in cuts if cut < f_in}), f_in]
    rows = []
    for first, end in pairwise(bounds):
        digits = digits_of(features[first:end] @ weights[first:end])
        assert digits.dtype == np.int16
        assert digits[:2].min() >= 0
        assert digits[:2].max() < 1 << 14
        rows.append(digits)
    assert np.array_equal(sum_of_digits(np.concatenate(rows)), features @ weights)


@pytest.mark.parametrize("sign", [-1, 1])
def test_digits_hold_the_sums_of_the_longest_block(sign: int) -> None:
    """Of 8,191 products of the largest magnitude; one more would not fit on the positive side."""
    total = np.array([sign * DIGIT_FEATURES << 30], dtype=np.int64)
    assert sum_of_digits(digits_of(total)) == total
    assert sum_of_digits(digits_of(np.array([DIGIT_FEATURES + 1 << 30]))) < 0


def test_pe_proofs() -> None:
    prove_all("pe", PROOFS)


def test_the_proof_is_not_vacuous() -> None:
    verdict = check("pe", REFUTED)
    assert not verdict.passed
    assert "Assert failed" in verdict.message


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"data_width": 32}, "data_width must be 64, 128 or 256, not 32"),
        ({"lanes": 3}, r"lanes must be a power of two in 1\.\.16, not 3"),
        ({"lanes": 8, "data_width": 64}, r"lanes must be a power of two in 1\.\.4, not 8"),
        ({"weight_rows": 1}, r"weight_rows must be in 2\.\.1048576, not 1"),
        ({"max_out": 0}, r"max_out must be in 1\.\.1024, not 0"),
        ({"address_width": 19}, r"address_width must be in 20\.\.96, not 19"),
        ({"queue": 0}, "queue must be at least 1, not 0"),
        ({"ways": 16}, r"ways must be a power of two in 1\.\.8, not 16"),
    ],
)
def test_configuration_refuses(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PEConfig(**parameters)
