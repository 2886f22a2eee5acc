"""Rings whose chiplets have clocks of their own: the same bits in any ratio of clocks, and what crossings cost (R3)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts import Error, Model, RegionKind
from golden.datasets import load
from golden.ring.image import build_images
from golden.ring.placement import Placement
from hw.ring.formats import Clocks, RingConfig
from sim.harness.expected import expect_cycles
from sim.harness.formal import prove_all
from sim.problems import random_graph, random_problem
from sim.runner.jobs import Job, Outcome, mismatches
from sim.runner.run import run_jobs
from tb.community import test_ring as community
from tb.harness.marks import full
from tb.ring.cases import highest, patched, uneven
from tb.ring.formal_link import PROOFS
from tb.ring.test_ring import CONFIG, RING, STALLS, WAYS, Case

CHIPLETS = 3
#: With rows that begin in the flit of their header, as `tb.ring.test_ring` has not.
OWN = replace(RING, chiplets=CHIPLETS, link_width=128, clocks=Clocks.OWN)
#: Periods in ps by name, a chiplet each: equal in frequency at any phase, and others.
RATIOS = {
    "equal": (10_000, 10_000, 10_000),
    "near": (10_000, 10_020, 9_980),
    "unrelated": (7_000, 10_000, 11_300),
    "far": (26_000, 4_000, 7_300),
    "halves": (10_000, 20_000, 5_000),
}
ANY = tuple(RATIOS.values())


def run_cases(cases: Sequence[Case], directory: Path, ring: RingConfig = OWN) -> list[Outcome]:
    """Run and compare cases on one ring."""
    outcomes, _ = run_jobs(CONFIG, [case.job for case in cases], directory, ring=ring)
    for case, outcome in zip(cases, outcomes, strict=True):
        case.check(outcome)
    return outcomes


def clocked(number: int, turn: int = 0) -> tuple[int, ...]:
    """Return the periods of a case: all ratios in turn, each with its chiplets in turn."""
    periods = ANY[number % len(ANY)]
    return (*periods[turn % CHIPLETS :], *periods[: turn % CHIPLETS])


def test_every_placement_has_the_same_bits_and_the_least_traffic(tmp_path: Path) -> None:
    """Tiles, even or not, with hubs, by source, in order, under stalls and late chiplets, on rings of two and three."""
    graph = load("karate")
    cases = []
    for number in range(3 * len(ANY)):
        chiplets, model = 2 + number % 2, list(Model)[number % 3]
        problem = random_problem(graph, model, [7, 3], number)
        hubs = highest(graph, (0, 3, 12)[number // len(ANY)])
        placement = uneven(graph, chiplets, number, hubs) if number % 4 == 3 else Placement.ranges(34, chiplets, hubs)
        late = {number % chiplets: 700 * (number % 4)}
        settings = replace(STALLS[number % 4], periods=clocked(number, number // 5), seed=number + 1, late=late)
        cases.append(Case(problem, placement, settings, WAYS[(number + number // len(ANY)) % len(WAYS)]))
    run_cases(cases, tmp_path)


def test_a_packet_a_slot_never_overflows_whoever_is_faster(tmp_path: Path) -> None:
    """Memory in one cycle and in many, a sender six times as fast as its receiver and the other way round."""
    cases = []
    for number, periods in enumerate([(4_000, 26_000, 26_000), (26_000, 4_000, 26_000), (26_000, 26_000, 4_000)]):
        for latency in (1, 60):
            graph = random_graph(number, 120, 500, 6, 0.5)
            problem = random_problem(graph, Model.GCN, [16, 5], number)
            settings = replace(STALLS[0], latency=latency, periods=periods)
            hubs = highest(graph, 10) if latency > 1 else []
            cases.append(Case(problem, Placement.ranges(120, CHIPLETS, hubs), settings))
    run_cases(cases, tmp_path)


def test_a_reset_in_the_middle_is_followed_by_the_same_work(tmp_path: Path) -> None:
    graph = load("karate")
    problem = random_problem(graph, Model.GCN, [7, 3], 1)
    placement = Placement.ranges(graph.nodes, CHIPLETS, highest(graph, 3))
    cases = [
        Case(problem, placement, replace(STALLS[2], reset_after=450 + 150 * number, periods=clocked(number, number)))
        for number in range(12)
    ]
    outcomes = run_cases(cases, tmp_path)
    assert any(outcome.cut_off for outcome in outcomes)


def test_errors_are_told_to_all_and_nothing_hangs(tmp_path: Path) -> None:
    graph = load("karate")
    problem = random_problem(graph, Model.GCN, [7, 3], 1)
    images = build_images(problem, Placement.ranges(graph.nodes, CHIPLETS))
    jobs, expected = [], []
    edges, features = images[1].region(RegionKind.EDGES), images[0].region(RegionKind.FEATURES_SPARSE)
    for periods in ANY:
        settings = replace(STALLS[1], limit=60_000, periods=periods)
        for victim, error, change in (
            (1, Error.VID_RANGE, patched(images[1], RegionKind.EDGES, 3, 1000)),
            (2, Error.TILE_RANGE, patched(images[2], RegionKind.OUT_TILES, 4, 0x80000000)),
            (1, Error.MEMORY_READ, (edges.address, edges.address + 7)),
            (0, Error.MEMORY_READ, (features.address, features.address + 7)),
        ):
            fails = change if isinstance(change, tuple) else None
            given = [change if n == victim and not isinstance(change, tuple) else one for n, one in enumerate(images)]
            jobs.append(Job(given, replace(settings, read_errors=fails, failing=victim)))
            expected.append([error if n == victim else Error.PEER for n in range(CHIPLETS)])
        # A good run afterwards: the reset before it has cleared everything.
        jobs.append(Job(images, settings))
        expected.append([Error.NONE] * CHIPLETS)
    outcomes, _ = run_jobs(CONFIG, jobs, tmp_path, ring=OWN)
    for job, outcome, errors in zip(jobs, outcomes, expected, strict=True):
        assert any(errors) or mismatches(problem, outcome) == []
        for run, error in zip(outcome.runs, errors, strict=True):
            said = run.completion["error"]
            # One that comes to the ring between the state of a neighbour that stops and its token sees it stopped.
            late = error == Error.PEER and said == Error.LINK and run.completion["info"] == job.settings.failing
            assert late or said == error, (outcome.errors, job.settings.periods)


#: Cycles of the slowest chiplet in which one that is reset alone is reset, and the crossing behind its link emptied.
RESET = 64
#: Commands of a layer that wait for other chiplets.
EXCHANGE = ("barrier", "scatter", "reduce")


def at_work(outcome: Outcome) -> tuple[int, int, int]:
    """Return when the first and the last chiplet came to the ring, and when the first one had no more to do with it.

    In cycles of the slowest one since the start.
    """
    rings = [[phase for phase in run.phases if phase.opcode in EXCHANGE] for run in outcome.runs]
    came = [
        next(phase.began for phase in phases if phase.opcode == "barrier") * run.period
        for phases, run in zip(rings, outcome.runs, strict=True)
    ]
    went = [
        (phases[-1].began + phases[-1].cycles) * run.period for phases, run in zip(rings, outcome.runs, strict=True)
    ]
    slowest, began = max(run.period for run in outcome.runs), min(run.began * run.period for run in outcome.runs)
    return (min(came) - began) // slowest, -((began - max(came)) // slowest) + 8, (min(went) - began) // slowest


def test_a_reset_of_one_chiplet_ends_the_work_of_all(tmp_path: Path) -> None:
    """Whether it begins again or not, and before all have begun without harm; the next run of all is right."""
    graph = load("karate")
    problem = random_problem(graph, Model.GCN, [7, 3], 1)
    rings = {size: build_images(problem, Placement.ranges(34, size, highest(graph, 3))) for size in (2, CHIPLETS)}
    good = [
        Job(images, replace(STALLS[1], limit=60_000, periods=periods)) for images in rings.values() for periods in ANY
    ]
    whole, _ = run_jobs(CONFIG, good, tmp_path, ring=OWN)
    jobs, early = [], list[Job]()
    for number, (job, outcome) in enumerate(zip(good, whole, strict=True)):
        first, last, end = at_work(outcome)
        times = [first - RESET, *(last + part * (end - last) // 10 for part in (0, 1, 3, 5, 7, 8))]
        for turn, after in enumerate(times):
            # A chiplet that has not come to the ring yet begins again: the others wait for it.
            again = (0, 1, 500)[(turn + number) % 3] if turn else (1, 500)[number % 2]
            reset = ((turn + number // 2) % len(job.images), after, again)
            jobs += [Job(job.images, replace(job.settings, reset_one=reset)), job]
            early += [jobs[-2]] if not turn else []
    outcomes, _ = run_jobs(CONFIG, jobs, tmp_path, ring=OWN)
    found, victims = set[tuple[int, int]](), set[bool]()
    for job, outcome in zip(jobs, outcomes, strict=True):
        errors = outcome.errors
        if job.settings.reset_one is None or job in early:
            assert not any(errors)
            assert mismatches(problem, outcome) == []
            continue
        victim, _, again = job.settings.reset_one
        neighbours = {(victim - 1) % len(errors), (victim + 1) % len(errors)}
        for n, run in enumerate(outcome.runs):
            error, info = run.completion["error"], run.completion["info"]
            if n == victim:
                # It may have seen the end of a packet that began before its reset.
                assert not again or error in (Error.LINK, Error.PEER, Error.BAD_PACKET), (errors, job.settings)
                continue
            assert error in (Error.LINK, Error.PEER), (errors, job.settings)
            assert error == Error.PEER or (info == victim and n in neighbours), (errors, info, job.settings)
            found.add((error, len(errors)))
        victims.add(bool(again))
    assert found >= {(Error.LINK, 2), (Error.LINK, 3)}
    assert victims == {False, True}


def test_a_reset_before_the_first_command_of_the_ring(tmp_path: Path) -> None:
    """Of a chiplet that begins late: without harm until packets have gone to it; then all others stop."""
    graph = load("karate")
    problem = random_problem(graph, Model.GCN, [7, 3], 1)
    images, jobs = build_images(problem, Placement.ranges(34, CHIPLETS, highest(graph, 3))), list[Job]()
    for number, periods in enumerate(ANY):
        for turn in range(10):
            victim = (number + turn) % CHIPLETS
            # Resets are timed by the slowest clock, a start by its own.
            reset, late = (victim, 100 + 180 * turn, 0), {victim: 2400 * max(periods) // periods[victim]}
            jobs.append(Job(images, replace(STALLS[1], limit=60_000, periods=periods, reset_one=reset, late=late)))
    outcomes, _ = run_jobs(CONFIG, jobs, tmp_path, ring=OWN)
    harmless = []
    for job, outcome in zip(jobs, outcomes, strict=True):
        assert job.settings.reset_one is not None
        victim = job.settings.reset_one[0]
        errors = {run.completion["error"] for n, run in enumerate(outcome.runs) if n != victim}
        harmless.append(errors == {Error.NONE})
        assert harmless[-1] or errors <= {Error.LINK, Error.PEER}, job.settings
    assert any(harmless)
    assert not all(harmless)


@full
def test_community_chiplets_have_the_same_bits(tmp_path: Path) -> None:
    """A ring of two: rows travel, and partial sums of hubs."""
    graph, ring = load("karate"), replace(community.RING, chiplets=2, clocks=Clocks.OWN)
    cases = [
        community.Case(
            random_problem(graph, model, [7, 3], seed),
            Placement.ranges(graph.nodes, 2, highest(graph, (0, 3, 12)[(seed + turn) % 3])),
            replace(community.STALLS[(seed + turn) % 3], periods=RATIOS[ratio][turn % 2 : 2 + turn % 2]),
        )
        for turn, ratio in enumerate(("equal", "unrelated", "far", "halves"))
        for seed, model in enumerate(Model)
    ]
    outcomes, _ = run_jobs(community.CONFIG, [case.job for case in cases], tmp_path, ring=ring)
    for case, outcome in zip(cases, outcomes, strict=True):
        case.check(outcome)
    assert any(link["partial_words"] for outcome in outcomes for link in outcome.links)


#: Periods of chiplets whose cycles are compared with those of one clock.
COST = {
    "equal": (10_000, 10_000, 10_000),
    "half": (10_000, 20_000, 10_000),
    "twice": (10_000, 5_000, 10_000),
    "all_twice": (5_000, 5_000, 5_000),
}


@pytest.mark.parametrize("slots", [2, pytest.param(4, marks=full)])
def test_what_crossings_cost(slots: int, tmp_path: Path) -> None:
    """One clock without crossings, then equal clocks, and a neighbour with half and with twice the clock."""
    graph = load("synthetic:power-law,nodes=500,seed=1")
    rows = np.random.default_rng(1).normal(size=(graph.nodes, 8)).astype(np.float32)
    problem = random_problem(replace(graph, features=rows), Model.GCN, [16, 7], 1)
    placement = Placement.ranges(graph.nodes, CHIPLETS)
    case = Case(problem, placement)
    one_clock = replace(OWN, chiplets=4, slots=slots, clocks=Clocks.ONE)
    (one,), _ = run_jobs(CONFIG, [case.job], tmp_path, ring=one_clock)
    case.check(one)
    expect_cycles(f"ring.clocks.{slots}.one", one.cycles)
    cases = [Case(problem, placement, replace(STALLS[1], periods=periods)) for periods in COST.values()]
    outcomes = run_cases(cases, tmp_path, replace(OWN, slots=slots))
    for name, outcome in zip(COST, outcomes, strict=True):
        expect_cycles(f"ring.clocks.{slots}.{name}", outcome.cycles)
    # Cycles count clocks, whatever their period.
    assert outcomes[0].cycles == outcomes[3].cycles


def test_proofs() -> None:
    prove_all("ring.credit_crossing", PROOFS)
