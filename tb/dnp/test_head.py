"""A head that learns on a chip: programs do what the rule says, on the golden machine and through the neural unit."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import LINE_BYTES, Error
from contracts.dnp.config import HIGHEST, LOWEST, ProcessorConfig
from contracts.dnp.topology import CHIP
from golden.dnp.arithmetic import Ints
from golden.dnp.assembler import AssemblyError
from golden.dnp.deep_head import DeepHead
from golden.dnp.head import Head, Task
from golden.dnp.network import Learning, Network, NetworkModel
from golden.image_format import row_bytes
from sim.harness.expected import expect_cycles
from tb.dnp.test_neural_unit import CORE, PROGRAM, RESULTS, ROWS, Unit, begin
from tb.dnp.test_neural_unit import run as simulate
from tb.dnp.test_neural_unit import unit as design

#: Of the memory port, in bits.
WIDTH = 64
#: What READ wants in: a word for each processor.
ASKED = np.zeros((CHIP.processors, 1), dtype=np.int64)


def random_head(
    random: np.random.Generator, features: int, classes: int, momentum: float = 1, config: ProcessorConfig = CORE
) -> Head:
    """Return a head with any weights, large enough that sums saturate, and any rate."""
    spread = random.choice([2000, 12000, HIGHEST])
    weights, biases = (random.integers(-spread, spread + 1, size) for size in ((classes, features), classes))
    return Head(Network([weights], [biases]), Learning(random.uniform(0.01, 3.99), momentum), config)


def random_deep_head(
    random: np.random.Generator, sizes: tuple[int, ...], momentum: float = 1, config: ProcessorConfig = CORE
) -> DeepHead:
    """Return a head with hidden layers, any weights and any rate."""
    spread = random.choice([2000, 12000, HIGHEST])
    weights = [random.integers(-spread, spread + 1, (o, i)) for i, o in pairwise(sizes)]
    biases = [random.integers(-spread, spread + 1, o) for o in sizes[1:]]
    return DeepHead(Network(weights, biases), Learning(random.uniform(0.01, 3.99), momentum), config)


def random_rows(random: np.random.Generator, head: Head, rows: int) -> tuple[Ints, Ints]:
    """Return features and targets of any words, and often the largest and smallest."""
    values = random.integers(LOWEST, HIGHEST + 1, (rows, head.features + head.classes))
    ends = random.choice([LOWEST, 0, HIGHEST], values.shape)
    mixed = np.where(random.random(values.shape) < 0.3, ends, values)
    return mixed[:, : head.features], mixed[:, head.features :]


def learned(head: Head, model: NetworkModel, features: Ints, targets: Ints) -> Ints:
    """Return what a pass of the rule gives: outputs before every step."""
    outputs = [model.learn(row, target, head.learning) for row, target in zip(features, targets, strict=True)]
    return np.array(outputs, dtype=np.int64).reshape(-1, head.classes)


def scored(head: Head, model: NetworkModel, features: Ints) -> Ints:
    """Return what forward passes give."""
    return np.array([model.forward(row)[-1] for row in features], dtype=np.int64).reshape(-1, head.classes)


def same(found: Network, model: NetworkModel) -> None:
    """All weights and biases are those of the rule."""
    for one, other in zip(found.weights + found.biases, model.network.weights + model.network.biases, strict=True):
        np.testing.assert_array_equal(one, other)


# On the golden machine ------------------------------------------------------------------------------------------------


def follows_the_rule(random: np.random.Generator, head: Head, rows: list[int]) -> None:
    """Let a head learn so many rows again and again, then score: all words are those of the model."""
    machine, model = head.machine(), head.model()
    for count in rows:
        values, targets = random_rows(random, head, count)
        outputs = head.run(machine, Task.LEARN, np.hstack([values, targets]))
        np.testing.assert_array_equal(outputs, learned(head, model, values, targets))
    same(head.read(head.run(machine, Task.READ, ASKED)), model)
    values, _ = random_rows(random, head, max(rows))
    np.testing.assert_array_equal(head.run(machine, Task.SCORE, values), scored(head, model, values))


@settings(max_examples=10, deadline=None)
@given(
    features=st.integers(1, 6),
    classes=st.integers(1, 10),
    rows=st.lists(st.integers(0, 6), min_size=1, max_size=2),
    momentum=st.sampled_from([1, 1, 0.97, 0.5, 0]),
    seed=st.integers(0, 1 << 32),
)
def test_programs_do_what_the_rule_says(
    features: int, classes: int, rows: list[int], momentum: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    head = random_head(random, features, classes, momentum)
    follows_the_rule(random, head, rows)


@settings(max_examples=4, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 7), min_size=3, max_size=5),
    rows=st.lists(st.integers(0, 6), min_size=1, max_size=2),
    momentum=st.sampled_from([1, 1, 0.97, 0]),
    seed=st.integers(0, 1 << 32),
)
def test_hidden_layers_do_what_the_rule_says(sizes: list[int], rows: list[int], momentum: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    config = ProcessorConfig(wm_depth=256, xm_depth=96, p_depth=1024, table_bits=5)
    head = random_deep_head(random, tuple(sizes), momentum, config)
    follows_the_rule(random, head, rows)


def test_hidden_layers_learn_what_one_layer_cannot() -> None:
    """Exclusive or, with margins."""
    random = np.random.default_rng(0)
    points = random.integers(0, HIGHEST + 1, (600, 2))
    points = points[(np.abs(points - HIGHEST // 2) > 3000).all(axis=1)]
    labels = (points > HIGHEST // 2).sum(axis=1) % 2
    targets = np.where(labels[:, None] == np.arange(2), HIGHEST, 0)
    found = {}
    for head in (
        Head(Network.random((2, 2), 0), Learning(2)),
        DeepHead(Network.random((2, 6, 2), 0, 4.0), Learning(2)),
    ):
        model = head.model()
        for _ in range(15):
            learned(head, model, points[:300], targets[:300])
        guessed = scored(head, model, points[300:]).argmax(axis=1)
        found[type(head)] = float(np.mean(guessed == labels[300:]))
    assert found[DeepHead] > 0.9
    assert found[Head] < 0.7


def test_clocks_of_a_row() -> None:
    """Of 16 features and 10 classes, in the default processor: its own classes of a processor set the pace."""
    random = np.random.default_rng(1)
    head = random_head(random, 16, 10, config=ProcessorConfig())
    values, targets = random_rows(random, head, 9)
    for task, rows, clocks in ((Task.LEARN, np.hstack([values, targets]), 238), (Task.SCORE, values, 117)):
        machine = head.machine()
        ends = []
        for count in (1, 5, 9):
            head.run(machine, task, rows[:count])
            ends.append(machine.clock)
        assert np.diff(ends).tolist() == [4 * clocks] * 2


def test_it_learns() -> None:
    """Three clouds of points, with overlap, as well as a float regression does."""
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(0)
    labels = np.arange(300) % 3
    points = random.normal(random.normal(0, 1, (3, 4))[labels], 0.4)
    features = np.clip(points / 4 * (HIGHEST + 1), 0, HIGHEST).astype(np.int64)
    targets = np.where(labels[:, None] == np.arange(3), HIGHEST, 0)
    head = Head(Network.random((4, 3), 0, spread=0.1), Learning(3))
    model = head.model()
    for _ in range(20):
        learned(head, model, features[:200], targets[:200])
    found = scored(head, model, features[200:]).argmax(axis=1)
    other = LogisticRegression(C=100).fit(features[:200] / HIGHEST, labels[:200]).predict(features[200:] / HIGHEST)
    accuracy, floating = (float(np.mean(guess == labels[200:])) for guess in (found, other))
    assert accuracy > floating - 0.03 > 0.8


def test_the_head_it_was_made_from_stays() -> None:
    head = random_head(np.random.default_rng(2), 3, 4)
    before = head.network.weights[0].copy()
    values, targets = random_rows(np.random.default_rng(3), head, 5)
    learned(head, head.model(), values, targets)
    np.testing.assert_array_equal(head.network.weights[0], before)
    assert (head.model().network.weights[0] == before).all()


@pytest.mark.parametrize(
    ("sizes", "learning", "config", "message"),
    [
        ((3, 4, 2), {}, {}, "network must have one layer of weights, not 2"),
        ((16, 10), {}, {"wm_depth": 306}, "16 features and 10 classes need wm_depth of at least 307, not 306"),
        ((16, 10), {}, {"xm_depth": 28}, "16 features and 10 classes need xm_depth of at least 29, not 28"),
        ((2, 2), {"momentum": 0.99999}, {}, "momentum must be 1 or at most 0.999969482421875, not 0.99999"),
    ],
)
def test_what_does_not_fit_is_refused(
    sizes: tuple[int, ...], learning: dict[str, float], config: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Head(Network.random(sizes, 0), Learning(**learning), ProcessorConfig(**config))


@pytest.mark.parametrize(
    ("sizes", "learning", "config", "message"),
    [
        ((3, 2), {}, {}, "network must have two layers of weights or more, not 1"),
        ((16, 8, 10), {}, {"wm_depth": 300}, r"need 308 words of WM in processor \(0, 0\), which has 300"),
        ((16, 8, 10), {}, {"xm_depth": 30}, r"words of XM in processor \(0, 0\), which has 30"),
        ((2, 2, 2), {"momentum": 0.99999}, {}, "momentum must be 1 or at most 0.999969482421875, not 0.99999"),
    ],
)
def test_hidden_layers_that_do_not_fit_are_refused(
    sizes: tuple[int, ...], learning: dict[str, float], config: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        DeepHead(Network.random(sizes, 0), Learning(**learning), ProcessorConfig(**config))


@pytest.mark.parametrize("name", ["weights", "biases"])
@pytest.mark.parametrize("value", [LOWEST - 1, HIGHEST + 1])
def test_words_out_of_range_are_refused(name: str, value: int) -> None:
    network = Network.random((2, 3), 0)
    getattr(network, name)[0].flat[1] = value
    with pytest.raises(ValueError, match=rf"{name} must be in -32768..32767, not .*{value}"):
        Head(network)


def test_rows_out_of_range_are_refused() -> None:
    head = Head(Network.random((2, 3), 0))
    for task, rows, message in (
        (Task.LEARN, 65536, r"rows must be in 0..65535, not 65536"),
        (Task.SCORE, -1, r"rows must be in 0..65535, not -1"),
        (Task.READ, 5, r"rows must be 4 to read, not 5"),
    ):
        with pytest.raises(ValueError, match=message):
            head.text(0, task, rows)
    small = Head(Network.random((2, 3), 0), config=ProcessorConfig(p_depth=100))
    with pytest.raises(AssemblyError, match="program memory has 100 words"):
        small.words(Task.LEARN, 5, load=True)


# Through the neural unit ----------------------------------------------------------------------------------------------


async def carry_out(unit: Unit, head: Head, task: Task, rows: Ints, *, load: bool) -> tuple[tuple[Error, int], int]:
    """Run a task over rows in memory; its answer and its cycles."""
    program, (f_in, f_out) = head.words(task, len(rows), load=load), head.widths(task)
    unit.put(PROGRAM, program.tobytes())
    unit.put_rows(ROWS, rows)
    return await unit.run(words=program.size, vertices=len(rows), f_in=f_in, f_out=f_out)


async def check(unit: Unit, head: Head, task: Task, rows: Ints, wanted: Ints, *, load: bool = False) -> int:
    """Run a task and compare all of the memory; cycles."""
    answer, cycles = await carry_out(unit, head, task, rows, load=load)
    assert answer == (Error.NONE, 0)
    unit.expect_rows(RESULTS, wanted)
    await unit.compare()
    return cycles


async def whole(unit: Unit, random: np.random.Generator, head: Head, epochs: tuple[int, ...]) -> int:
    """Learn some epochs, of which only the first loads weights; score; read the weights; cycles."""
    model, cycles = head.model(), 0
    for number, count in enumerate(epochs):
        values, targets = random_rows(random, head, count)
        wanted = learned(head, model, values, targets)
        cycles += await check(unit, head, Task.LEARN, np.hstack([values, targets]), wanted, load=not number)
    values, _ = random_rows(random, head, 7)
    cycles += await check(unit, head, Task.SCORE, values, scored(head, model, values))
    own = [head.own(processor) for processor in range(CHIP.processors)]
    await carry_out(unit, head, Task.READ, ASKED, load=False)
    width = head.widths(Task.READ)[1]
    place, distance = (unit.base + RESULTS) * LINE_BYTES, row_bytes(width)
    data = np.frombuffer(await unit.memory.dump(place, len(own) * distance), "<i2")
    same(head.read(data.reshape(len(own), -1)[:, :width].astype(np.int64)), model)
    return cycles


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.4])
async def heads_learn_as_the_rule_says(dut: Any, stall: float) -> None:
    """Fewer, as many and more classes than processors; epochs of no, few and many rows; with and without momentum."""
    unit = await begin(dut, stall)
    random = np.random.default_rng(unit.random.getrandbits(32) if stall else 0)
    total = 0
    for features, classes, momentum, epochs in (
        (6, 10, 1, (9, 1, 9)),
        (1, 1, 1, (3, 0, 6)),
        (5, 4, 0.9, (6, 6)),
        (3, 7, 1, (2, 5)),
    ):
        total += await whole(unit, random, random_head(random, features, classes, momentum), epochs)
    if not stall:
        expect_cycles("dnp.head", total)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.4])
async def heads_with_hidden_layers_learn_as_the_rule_says(dut: Any, stall: float) -> None:
    """Fewer neurons than processors, and more; one hidden layer and two; weights stay between the commands."""
    unit = await begin(dut, stall)
    random = np.random.default_rng(unit.random.getrandbits(32) if stall else 0)
    total = 0
    for sizes, momentum, epochs in (((5, 4, 3), 1, (6, 1, 5)), ((2, 2, 2, 3), 0.9, (3, 4))):
        total += await whole(unit, random, random_deep_head(random, sizes, momentum), epochs)
    if not stall:
        expect_cycles("dnp.deep_head", total)


@cocotb.test()
async def after_an_error_it_begins_anew(dut: Any) -> None:
    """Rows that cannot be read and outputs that cannot be written end an epoch; the next run is right."""
    unit = await begin(dut, 0.2)
    random = np.random.default_rng(unit.random.getrandbits(32))
    for number, (where, line, error) in enumerate(
        (("read", ROWS, Error.MEMORY_READ), ("write", RESULTS, Error.MEMORY_WRITE))
    ):
        head = random_head(random, 4, 5 + number)
        values, targets = random_rows(random, head, 20)
        model, both = head.model(), np.hstack([values, targets])
        await check(unit, head, Task.LEARN, both, learned(head, model, values, targets), load=True)
        width = head.widths(Task.LEARN)[where == "write"]
        address = (unit.base + line) * LINE_BYTES + 11 * row_bytes(width)
        getattr(unit.memory, f"{where}_errors")(range(address, address + 1))
        answer, _ = await carry_out(unit, head, Task.LEARN, both, load=False)
        assert answer == (error, address // LINE_BYTES)
        getattr(unit.memory, f"{where}_errors")(None)
        # Outputs that were written before stay.
        at, size = (unit.base + RESULTS) * LINE_BYTES, 20 * row_bytes(head.classes)
        unit.contents[at : at + size] = np.frombuffer(await unit.memory.dump(at, size), np.uint8)
        await whole(unit, random, head, (5, 4))


@cocotb.test()
async def a_reset_in_the_middle_is_followed_by_a_right_run(dut: Any) -> None:
    unit = await begin(dut)
    random = np.random.default_rng(unit.random.getrandbits(32))
    head = random_head(random, 6, 9)
    both = np.hstack(random_rows(random, head, 30))
    program, (f_in, f_out) = head.words(Task.LEARN, 30, load=True), head.widths(Task.LEARN)
    for cycles in (300, 900, 2500):
        unit.put(PROGRAM, program.tobytes())
        unit.put_rows(ROWS, both)
        with pytest.raises(AssertionError, match="no answer"):
            await unit.run(limit=cycles, words=program.size, vertices=30, f_in=f_in, f_out=f_out)
        await unit.bench.reset()
        at, size = (unit.base + RESULTS) * LINE_BYTES, 30 * row_bytes(f_out)
        unit.contents[at : at + size] = np.frombuffer(await unit.memory.dump(at, size), np.uint8)
        await whole(unit, random, head, (3, 4))


def test_through_the_neural_unit(tmp_path: Path) -> None:
    simulate(design(WIDTH), WIDTH, tmp_path, __name__)
