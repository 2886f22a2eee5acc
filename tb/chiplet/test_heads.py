"""A head that learns beside a chiplet: whole images of it, with errors and resets in the middle of learning."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts import LINE_BYTES, Error, Model, RegionKind
from golden.head import TASKS, HeadProblem, head_of
from golden.image import Region
from sim.problems import random_graph, random_problem
from sim.runner.jobs import Job, Outcome, Settings
from tb.chiplet.test_chiplet import NARROW, NEURAL, STALLS, simulate

FEATURES, CLASSES, EPOCHS = 3, 2, 2


@pytest.fixture(scope="module")
def to_learn() -> HeadProblem:
    """Return a head for a graph of 16 vertices of two classes, of which most are learnt from."""
    graph = random_graph(3, 16, 40, features=5, density=0.5)
    labels = np.arange(graph.nodes) % CLASSES
    graph = replace(graph, labels=labels, classes=CLASSES, train=np.arange(graph.nodes) % 4 != 3)
    problem = random_problem(graph, Model.GCN, [FEATURES, CLASSES], 2)
    features = np.random.default_rng(4).integers(0, 1 << 12, (graph.nodes, FEATURES)).astype(np.int16)
    return HeadProblem(problem, features, head_of(FEATURES, CLASSES, NEURAL[NARROW].core), EPOCHS)


def differences(to_learn: HeadProblem, outcome: Outcome) -> list[str]:
    assert outcome.errors == [Error.NONE]
    return to_learn.differences([outcome.results[number] for number in range(len(TASKS))])


def row(region: Region, number: int) -> tuple[int, int]:
    """Return the first and the last byte of a row."""
    first = region.address + number * region.row_bytes
    return first, first + 2 * region.row_elements - 1


def test_it_learns_bit_by_bit_under_stalls(to_learn: HeadProblem, tmp_path: Path) -> None:
    image = to_learn.image()
    for outcome in simulate(NARROW, [Job([image], how) for how in STALLS], tmp_path)[0]:
        assert differences(to_learn, outcome) == []


def test_memory_errors_are_told_and_the_next_run_learns(to_learn: HeadProblem, tmp_path: Path) -> None:
    """What is learnt from, what is scored, and a program cannot be read; outputs and weights cannot be written."""
    image = to_learn.image()
    learnt, scored = image.region(RegionKind.FEATURES, 0), image.region(RegionKind.FEATURES, len(TASKS) - 1)
    cases = [
        (Settings(read_errors=row(learnt, 7)), Error.MEMORY_READ),
        (Settings(read_errors=row(scored, 14)), Error.MEMORY_READ),
        (Settings(read_errors=row(image.region(RegionKind.PROGRAM, 1), 0)), Error.MEMORY_READ),
        (Settings(write_errors=row(image.region(RegionKind.HIDDEN, 0), 5)), Error.MEMORY_WRITE),
        (Settings(write_errors=row(image.region(RegionKind.HIDDEN, 1), 2)), Error.MEMORY_WRITE),
    ]
    good = Job([image], STALLS[2])
    jobs = [job for how, _ in cases for job in (Job([image], how), good)]
    outcomes, _ = simulate(NARROW, jobs, tmp_path)
    for (how, error), bad, after in zip(cases, outcomes[::2], outcomes[1::2], strict=True):
        where = how.read_errors or how.write_errors
        assert where is not None
        said = bad.run.completion
        assert (Error(said["error"]), said["info"]) == (error, where[0] // LINE_BYTES)
        assert differences(to_learn, after) == []


def test_a_reset_while_it_learns_is_followed_by_a_right_run(to_learn: HeadProblem, tmp_path: Path) -> None:
    image = to_learn.image()
    (whole,), _ = simulate(NARROW, [Job([image])], tmp_path)
    cuts = [whole.cycles * part // 5 for part in range(1, 5)]
    outcomes, _ = simulate(NARROW, [Job([image], Settings(reset_after=cut)) for cut in cuts], tmp_path)
    for after in outcomes:
        assert after.cut_off
        assert after.cycles == whole.cycles
        assert differences(to_learn, after) == []
