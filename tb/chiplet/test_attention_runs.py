"""Whole inferences with attention: one head and several, one chiplet and rings, under stalls, errors and resets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts import Error, Opcode, RegionKind, Split
from golden.datasets import load
from golden.image import build_image
from golden.model.network import Problem
from golden.ring.image import build_images
from golden.ring.placement import Placement
from sim.problems import CORNERS, attention_problem, corner_graph, random_graph
from sim.runner.jobs import Job, Settings, mismatches
from sim.runner.run import run_jobs
from tb.chiplet.test_chiplet import DEFAULT, FULL, NARROW, STALLS, check, simulate, with_command, with_word
from tb.ring.cases import highest, uneven
from tb.ring.test_ring import CONFIG, RING

#: Heads and channels of layers: one head and a few, eight of them, and heads of several granules.
FEW = ([(1, 8), (1, 3)], [(2, 8), (1, 2)], [(2, 3), (3, 2)], [(1, 1)])
EIGHT = ([(8, 8), (1, 4)],)
WIDE = ([(2, 15), (1, 30)], [(1, 29), (8, 2)])
CHIPLETS = 4


def problems_of(networks: tuple[list[tuple[int, int]], ...], seeds: range) -> list[Problem]:
    """Return networks on random graphs, with scores from alike to far apart."""
    problems = []
    for seed in seeds:
        random = np.random.default_rng(seed)
        nodes = int(random.integers(1, 60))
        graph = random_graph(
            seed, nodes, int(random.integers(0, 6 * nodes)), int(random.integers(1, 17)), 0.5 + seed % 2
        )
        spread, slope = (0.1, 1.0, 2.0)[seed % 3], (0.2, 0.01, -0.5)[seed % 3]
        problems.append(attention_problem(graph, networks[seed % len(networks)], seed, slope=slope, spread=spread))
    return problems


@pytest.mark.parametrize("name", ["narrow", "default"])
def test_random_graphs_are_bit_exact_under_random_stalls(name: str, tmp_path: Path) -> None:
    config = {"narrow": NARROW, "default": DEFAULT}[name]
    problems = problems_of(FEW if config is NARROW else FEW + EIGHT + WIDE, range(40 if FULL else 8))
    settings = [replace(STALLS[seed % len(STALLS)], seed=seed + 1) for seed in range(len(problems))]
    check(config, problems, settings, tmp_path)


def test_corner_graphs_are_bit_exact(tmp_path: Path) -> None:
    problems = []
    for seed, name in enumerate(CORNERS):
        graph = corner_graph(name, features=5, density=(1.0, 0.4)[seed % 2], seed=seed)
        problems.append(attention_problem(graph, FEW[seed % len(FEW)], seed))
    check(NARROW, problems, [STALLS[seed % len(STALLS)] for seed in range(len(problems))], tmp_path)


def test_any_block_of_columns_gives_the_same_rows(tmp_path: Path) -> None:
    """Heads of several granules at once, and granule by granule where the weights do not fit."""
    problem = attention_problem(random_graph(3, 40, 160, 9, 0.5), WIDE[0], 3)
    jobs = [
        Job([build_image(problem, room)])
        for room in (DEFAULT.pe.weight_room, replace(DEFAULT.pe.weight_room, columns=16))
    ]
    outcomes, _ = simulate(DEFAULT, jobs, tmp_path)
    for outcome in outcomes:
        assert outcome.errors == [Error.NONE]
        assert mismatches(problem, outcome) == []
    assert len(outcomes[1].run.phases) > len(outcomes[0].run.phases)


def test_rings_are_bit_exact_under_stalls_and_late_chiplets(tmp_path: Path) -> None:
    """Uneven parts, and hubs, whose neighbours' rows travel nevertheless."""
    problems, jobs = [], []
    for seed in range(16 if FULL else 6):
        problem = problems_of(FEW + EIGHT, range(seed + 20, seed + 21))[0]
        hubs = highest(problem.graph, 3) if seed % 2 and problem.graph.nodes > 4 else []
        chiplets = (CHIPLETS, 2, 3)[seed % 3]
        images = build_images(problem, uneven(problem.graph, chiplets, seed, hubs).by(Split(seed == 4)))
        assert all(command.opcode != Opcode.REDUCE for image in images for command in image.commands)
        late = {seed % chiplets: 100 * seed}
        jobs.append(Job(images, replace(STALLS[seed % len(STALLS)], seed=seed + 1, late=late)))
        problems.append(problem)
    outcomes, _ = run_jobs(CONFIG, jobs, tmp_path, ring=replace(RING, chiplets=CHIPLETS))
    for problem, outcome in zip(problems, outcomes, strict=True):
        assert set(outcome.errors) == {Error.NONE}
        assert mismatches(problem, outcome) == []


def test_eight_heads_on_karate_are_the_same_on_every_ring(tmp_path: Path) -> None:
    graph = load("karate")
    problem = attention_problem(graph, [(8, 8), (1, 2)], 5)
    jobs = [Job(build_images(problem, Placement.ranges(graph.nodes, chiplets))) for chiplets in (2, CHIPLETS)]
    outcomes, _ = run_jobs(CONFIG, jobs, tmp_path, ring=replace(RING, chiplets=CHIPLETS))
    for outcome in outcomes:
        assert set(outcome.errors) == {Error.NONE}
        assert mismatches(problem, outcome) == []


def test_errors_are_reported_and_the_next_run_is_right(tmp_path: Path) -> None:
    problem = attention_problem(random_graph(11, 30, 120, features=8, density=0.4), FEW[0], 4)
    image = build_image(problem)
    edges = image.region(RegionKind.EDGES).rows
    combined = image.region(RegionKind.COMBINED)
    cases = {
        "VID": (Job([with_word(image, RegionKind.EDGES, 5, 30)]), Error.VID_RANGE, 30),
        "offset": (Job([with_word(image, RegionKind.OFFSETS, 9, edges + 1)]), Error.EDGE_RANGE, 8),
        "no columns": (Job([with_command(image, 2, f_out=0)]), Error.BAD_OPERAND, 0),
        "read": (
            Job([image], Settings(read_errors=(combined.address, combined.address))),
            Error.MEMORY_READ,
            combined.line,
        ),
    }
    good = Job([image], STALLS[2])
    jobs = [job for bad, _, _ in cases.values() for job in (bad, good)]
    # The factors of destinations are not read.
    jobs.append(Job([with_command(image, 2, scales=0xFFFFFFFF)]))
    outcomes, _ = simulate(NARROW, jobs, tmp_path)
    for (name, (_, error, info)), bad, after in zip(cases.items(), outcomes[:-1:2], outcomes[1::2], strict=True):
        said = bad.run.completion
        assert (Error(said["error"]), said["info"]) == (error, info), name
        assert mismatches(problem, after) == [], f"after {name}"
    assert outcomes[-1].errors == [Error.NONE]
    assert mismatches(problem, outcomes[-1]) == []


def test_reset_in_the_middle_is_followed_by_a_right_run(tmp_path: Path) -> None:
    problem = attention_problem(random_graph(12, 30, 120, features=8, density=1), FEW[0], 4)
    image = build_image(problem)
    (whole,), _ = simulate(NARROW, [Job([image])], tmp_path)
    cuts = [int(cut) for cut in np.linspace(3, whole.cycles - 10, 12 if FULL else 5)]
    outcomes, _ = simulate(NARROW, [Job([image], Settings(reset_after=cut)) for cut in cuts], tmp_path)
    for cut, after in zip(cuts, outcomes, strict=True):
        assert after.cut_off, f"reset after {cut} cycles came too late"
        assert mismatches(problem, after) == [], f"after a reset in cycle {cut}"
