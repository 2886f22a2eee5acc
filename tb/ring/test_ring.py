"""Whole inferences on rings of 2 to 16 chiplets: bit-exact, with the least traffic, under stalls, errors and resets."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from contracts import Error, Matching, Model, Opcode, RegionKind, Split
from golden.datasets import load
from golden.graph import Graph
from golden.image import PART_ROWS, Image
from golden.model.network import Problem, problem_of
from golden.program.chiplet import chiplet_image
from golden.ring.image import build_images, parts_of, shared_out
from golden.ring.partition import placed_apart
from golden.ring.placement import Placement
from golden.ring.traffic import traffic
from hw.chiplet.config import GatherChipletConfig
from hw.config import MachineConfig
from hw.pe.formats import PEConfig
from hw.ring.formats import RingConfig
from sim.problems import CORNERS, corner_graph, random_graph, random_problem
from sim.runner.jobs import Job, Outcome, Settings, mismatches
from sim.runner.run import run_jobs
from tb.ring.cases import commanded, commands, highest, patched, uneven

FULL = bool(os.environ.get("ATOLL_FULL"))
#: Most chiplets of the simulated ring; a run may use fewer. ``make sim-full`` simulates the largest.
MOST = 16 if FULL else 4
COUNTS = [n for n in (2, 3, 4, 8, 16) if n <= MOST]
PE = PEConfig(lanes=4, data_width=64, max_out=16, weight_rows=256)
CONFIG = GatherChipletConfig(groups=1, pes=1, pe=PE, depth=32)
#: The smallest buffers and windows that are legal, so that every limit is met.
RING = RingConfig(chiplets=MOST, link_width=64, slots=2, max_out=16, window=2, bitmap=64)
SIZES = MachineConfig(CONFIG, MOST, ring=RING)
#: The same hardware in each way of matching and splitting.
WAYS = [replace(SIZES, matching=matching, split=split) for split in Split for matching in Matching]
STALLS = (
    Settings(latency=1),
    Settings(latency=20),
    Settings(latency=7, stall=0.3, seed=2),
    Settings(latency=40, stall=0.5, out_of_order=True, seed=3),
)


@dataclass(frozen=True, eq=False)
class Case:
    """A network on a graph, placed."""

    problem: Problem
    placement: Placement
    settings: Settings = STALLS[1]
    sizes: MachineConfig = SIZES
    part: int = PART_ROWS

    def __post_init__(self) -> None:
        object.__setattr__(self, "placement", self.placement.by(self.sizes.split))

    @property
    def job(self) -> Job:
        """Its run."""
        matching, room = self.sizes.matching, PE.weight_room
        images = build_images(self.problem, self.placement, matching=matching, part=self.part, weight_room=room)
        return Job(images, self.settings)

    def check(self, outcome: Outcome) -> None:
        """Compare results and traffic."""
        what = f"{self.problem.graph.name}, {self.placement.boundaries.tolist()}, hubs {self.placement.hubs.tolist()}"
        assert outcome.errors == [Error.NONE] * self.placement.chiplets, what
        assert mismatches(self.problem, outcome) == [], what
        least = traffic(self.problem.graph, self.placement)
        elements = sum(layer.f_out for layer in self.problem.model.layers)
        used = outcome.links[: self.placement.chiplets]
        assert [link["feature_words"] for link in used] == (least.features * elements).tolist(), what
        assert [link["partial_words"] for link in used] == (least.partials * 2 * elements).tolist(), what
        assert not any(sum(link.values()) for link in outcome.links[self.placement.chiplets :]), what


def run_cases(cases: Sequence[Case], directory: Path, ring: RingConfig = RING) -> list[Outcome]:
    outcomes, _ = run_jobs(CONFIG, [case.job for case in cases], directory, ring=ring)
    for case, outcome in zip(cases, outcomes, strict=True):
        case.check(outcome)
    return outcomes


def test_karate_has_the_same_result_on_every_ring(tmp_path: Path) -> None:
    graph = load("karate")
    cases = [
        Case(random_problem(graph, model, [7, 3], seed), Placement.ranges(graph.nodes, chiplets), sizes=WAYS[seed])
        for chiplets in COUNTS
        for seed, model in enumerate(Model)
    ]
    outcomes = run_cases(cases, tmp_path)
    for case, outcome in zip(cases, outcomes, strict=True):
        same = outcomes[cases.index(next(c for c in cases if c.problem.model.model == case.problem.model.model))]
        assert all(np.array_equal(a, b) for a, b in zip(outcome.results.values(), same.results.values(), strict=True))


def test_hubs_sums_come_home_reduced(tmp_path: Path) -> None:
    graph = load("karate")
    cases = [
        Case(
            random_problem(graph, model, [7, 3], seed),
            Placement.ranges(graph.nodes, chiplets, highest(graph, count)),
            settings=STALLS[seed % len(STALLS)],
            sizes=WAYS[way],
        )
        for chiplets in COUNTS
        for seed, (model, count, way) in enumerate(
            ((Model.GCN, 3, 0), (Model.SAGE, 12, 1), (Model.GIN, 5, 0), (Model.GCN, 0, 2), (Model.SAGE, 5, 3))
        )
    ]
    run_cases(cases, tmp_path)


def test_features_without_room_are_combined_in_blocks(tmp_path: Path) -> None:
    """All rows of a chiplet into digits, block by block, then in parts, which are sent when they are summed."""
    cases = []
    for seed, f_in in enumerate((100, 129, 200)):
        graph = random_graph(seed, 40 + 30 * seed, 150, f_in, (0.2, 1, 0.3)[seed])
        problem = random_problem(graph, list(Model)[seed], ([13, 3], [9, 8], [40, 5])[seed], seed)
        cases.append(Case(problem, uneven(graph, COUNTS[seed], seed, highest(graph, seed)), STALLS[1 + seed]))
    run_cases(cases, tmp_path)


def test_corner_graphs_with_uneven_boundaries(tmp_path: Path) -> None:
    cases = []
    for seed, name in enumerate(CORNERS):
        graph = corner_graph(name, features=5, density=(1.0, 0.4)[seed % 2], seed=seed)
        problem = random_problem(graph, list(Model)[seed % 3], ([9, 3], [4], [6, 8, 2])[seed % 3], seed)
        for turn in range(2):
            chiplets = COUNTS[(seed + turn) % len(COUNTS)]
            hubs = highest(graph, 2) if turn and graph.nodes > 1 else []
            cases.append(Case(problem, uneven(graph, chiplets, seed, hubs), STALLS[(seed + turn) % len(STALLS)]))
    run_cases(cases, tmp_path)


def test_random_graphs_under_stalls_and_late_chiplets(tmp_path: Path) -> None:
    cases = []
    for seed in range(24 if FULL else 6):
        random = np.random.default_rng(seed)
        nodes = int(random.integers(70, 200))
        graph = random_graph(seed, nodes, 4 * nodes, 6, 0.5 + seed % 2)
        problem = random_problem(graph, list(Model)[seed % 3], [int(random.integers(1, 17)), 5], seed)
        chiplets = COUNTS[seed % len(COUNTS)]
        late = {int(random.integers(0, chiplets)): int(random.integers(1, 6000))}
        settings = replace(STALLS[seed % len(STALLS)], seed=seed + 1, late=late)
        hubs = highest(graph, 10) if seed % 2 else []
        cases.append(Case(problem, uneven(graph, chiplets, seed, hubs), settings, WAYS[seed % len(WAYS)]))
    run_cases(cases, tmp_path)


def test_no_row_is_early_whatever_the_placement(tmp_path: Path) -> None:
    """So both ways of matching take the same cycles: equal ranges, uneven ones with hubs, communities with theirs."""
    cases = []
    for seed, chiplets in enumerate(COUNTS):
        graph = random_graph(seed, 90, 300, 5, 1.0)
        problem = random_problem(graph, list(Model)[seed % 3], [9, 4], seed)
        position, apart = placed_apart(graph, chiplets)
        placed = [
            (problem, Placement.ranges(graph.nodes, chiplets)),
            (problem, uneven(graph, chiplets, seed, highest(graph, 8))),
            (problem.relabelled(position), apart),
        ]
        for (given, placement), stalls in zip(placed, STALLS[1:], strict=True):
            cases += [Case(given, placement, stalls, sizes) for sizes in WAYS[: len(Matching)]]
    outcomes = run_cases(cases, tmp_path)
    for unordered, in_order in zip(outcomes[::2], outcomes[1::2], strict=True):
        assert unordered.cycles == in_order.cycles


def test_a_relabelled_graph_gives_the_same_rows_in_another_order(tmp_path: Path) -> None:
    graph = load("karate")
    position = np.random.default_rng(5).permutation(graph.nodes)
    plain = random_problem(graph, Model.GCN, [6], 5)
    moved = problem_of(graph.relabelled(position), plain.features[np.argsort(position)], plain.model)
    cases = [Case(problem, Placement.ranges(graph.nodes, 3)) for problem in (plain, moved)]
    first, second = run_cases(cases, tmp_path)
    assert np.array_equal(first.results[0], second.results[0][position])


def test_a_reset_in_the_middle_is_followed_by_the_same_work(tmp_path: Path) -> None:
    graph = load("karate")
    problem = random_problem(graph, Model.GCN, [7, 3], 1)
    placement = Placement.ranges(graph.nodes, COUNTS[-1], highest(graph, 3))
    cases = [
        Case(problem, placement, replace(STALLS[2], reset_after=cycles)) for cycles in (900, 1500, 2100, 2700, 3300)
    ]
    run_cases(cases, tmp_path)


# What goes wrong ------------------------------------------------------------------------------------------------------


def test_errors_are_told_to_all_and_nothing_hangs(tmp_path: Path) -> None:
    graph = load("karate")
    chiplets = 3
    problem = random_problem(graph, Model.GCN, [7, 3], 1)
    images = build_images(problem, Placement.ranges(graph.nodes, chiplets))
    jobs, expected = [], []

    def breaks(chiplet: int, error: Error, image: Image | None = None, reads: tuple[int, int] | None = None) -> None:
        changed = [image if image and n == chiplet else given for n, given in enumerate(images)]
        jobs.append(Job(changed, replace(STALLS[1], limit=60_000, read_errors=reads, failing=chiplet)))
        expected.append([error if n == chiplet else Error.PEER for n in range(chiplets)])

    breaks(1, Error.VID_RANGE, patched(images[1], RegionKind.EDGES, 3, 1000))
    breaks(1, Error.VID_RANGE, patched(images[1], RegionKind.OTHERS, 3, 1000))
    breaks(2, Error.TILE_RANGE, patched(images[2], RegionKind.OUT_TILES, 4, 0x80000000))
    for kind in (RegionKind.EDGES, RegionKind.OTHERS):
        region = images[1].region(kind)
        breaks(1, Error.MEMORY_READ, reads=(region.address, region.address + 7))
    features = images[0].region(RegionKind.FEATURES_SPARSE)
    breaks(0, Error.MEMORY_READ, reads=(features.address, features.address + 7))
    # A good run afterwards: the reset before it has cleared everything.
    jobs.append(Job(images, STALLS[1]))
    outcomes, _ = run_jobs(CONFIG, jobs, tmp_path, ring=RING)
    for outcome, errors in zip(outcomes, expected, strict=False):
        assert outcome.errors == errors
    assert mismatches(problem, outcomes[-1]) == []


def test_a_reset_of_one_chiplet_ends_the_work_of_all(tmp_path: Path) -> None:
    """Whenever it comes, and whether the chiplet begins again or not; after a reset of all, the next run is right."""
    graph = load("karate")
    problem = random_problem(graph, Model.GCN, [7, 3], 1)
    jobs = []
    step = 100 if FULL else 300
    for size, chiplets in enumerate(sorted({2, 3, COUNTS[-1]})):
        images = build_images(problem, Placement.ranges(graph.nodes, chiplets, highest(graph, 3)))
        # Before it comes to the ring, a chiplet may be reset and begin again without harm.
        late = range(900 + size * step // 3, 1601, step)
        times = [(300, 1), (300, 500), *((after, again) for after in late for again in (0, 1, 500))]
        for number, (after, again) in enumerate(times):
            reset = (number % chiplets, after, again)
            jobs += [Job(images, replace(STALLS[1], reset_one=reset, limit=60_000)), Job(images, STALLS[1])]
    outcomes, _ = run_jobs(CONFIG, jobs, tmp_path, ring=RING)
    found = set()
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.settings.reset_one is None or job.settings.reset_one[1] == 300:
            assert outcome.errors == [Error.NONE] * len(job.images)
            assert mismatches(problem, outcome) == []
            continue
        victim, _, again = job.settings.reset_one
        others = [(n, run.completion) for n, run in enumerate(outcome.runs) if n != victim]
        said = [(n, one["error"], one["info"]) for n, one in others]
        neighbours = {(victim - 1) % len(job.images), (victim + 1) % len(job.images)}
        assert {error for _, error, _ in said} <= {Error.LINK, Error.PEER}, job.settings
        assert all(info == victim and n in neighbours for n, error, info in said if error == Error.LINK)
        found |= {error for _, error, _ in said}
        if again:
            # It may have seen the end of a packet that began before its reset.
            assert outcome.errors[victim] in (Error.LINK, Error.PEER, Error.BAD_PACKET)
    assert found == {Error.LINK, Error.PEER}


def test_a_reset_before_the_first_command_of_the_ring(tmp_path: Path) -> None:
    """A chiplet that begins late is reset before: it does no harm until packets have come; then all others stop."""
    graph = load("karate")
    problem = random_problem(graph, Model.GCN, [7, 3], 1)
    jobs = []
    for chiplets in (2, 3):
        images = build_images(problem, Placement.ranges(graph.nodes, chiplets, highest(graph, 3)))
        for number, after in enumerate(range(300, 2300, 50 if FULL else 125)):
            victim = number % chiplets
            jobs.append(
                Job(images, replace(STALLS[1], reset_one=(victim, after, 0), late={victim: 2400}, limit=60_000))
            )
    outcomes, _ = run_jobs(CONFIG, jobs, tmp_path, ring=RING)
    whole = []
    for job, outcome in zip(jobs, outcomes, strict=True):
        assert job.settings.reset_one is not None
        victim, after, _ = job.settings.reset_one
        errors = {run.completion["error"] for n, run in enumerate(outcome.runs) if n != victim}
        whole.append(errors == {Error.NONE})
        assert whole[-1] or errors <= {Error.LINK, Error.PEER}, job.settings
    # Each way for both rings, the early ones without harm.
    assert whole[0]
    assert not whole[len(jobs) // 2 - 1]


def test_packets_of_another_length_are_refused(tmp_path: Path) -> None:
    graph = load("karate")
    images = build_images(random_problem(graph, Model.GCN, [7, 3], 1), Placement.ranges(graph.nodes, 3))
    # Chiplet 0 believes that the first layer has 3 features: its packets are short, and those of others too long.
    odd = commanded(images[0], Opcode.SCATTER, f_out=3)
    outcomes, _ = run_jobs(CONFIG, [Job([odd, *images[1:]], replace(STALLS[1], limit=60_000))], tmp_path, ring=RING)
    errors = outcomes[0].errors
    assert Error.BAD_PACKET in errors
    assert set(errors) <= {Error.BAD_PACKET, Error.PEER}


def test_a_row_that_never_comes_is_missed_with_its_vid(tmp_path: Path) -> None:
    graph = Graph.from_edges("pair", 4, [0, 1], [2, 3])
    problem = random_problem(graph, Model.SAGE, [3], 1)
    images = build_images(problem, Placement.ranges(4, 2))
    # Chiplet 0 thinks that nobody needs vertex 1.
    silent = patched(images[0], RegionKind.OUT_TILES, 1, 0)
    outcomes, _ = run_jobs(CONFIG, [Job([silent, images[1]], replace(STALLS[1], limit=60_000))], tmp_path, ring=RING)
    said = outcomes[0].runs[1].completion
    assert (said["error"], said["info"]) == (Error.MISSING, 1)


@pytest.mark.parametrize("matching", Matching, ids=[matching.name for matching in Matching])
def test_a_row_that_comes_before_its_turn_waits(matching: Matching, tmp_path: Path) -> None:
    """Chiplet 0 sends its second part before its first; windows have two entries."""

    def backward(count: int) -> list[range]:
        return parts_of(count, PART_ROWS)[::-1]

    problems, jobs = [], []
    for needed in ([3, 20], [3, 20, 21, 22]):
        graph = Graph.from_edges("early", 64, needed, [40 + vid for vid in range(len(needed))])
        features = random_graph(1, 64, 0, 4, 1.0).features
        problem = random_problem(replace(graph, features=features), Model.SAGE, [7, 3], 1)
        placement, room = Placement.ranges(64, 2), PE.weight_room
        ahead = chiplet_image(problem, shared_out(problem, placement, matching)[0], backward, weight_room=room)
        behind = build_images(problem, placement, matching=matching, part=PART_ROWS, weight_room=room)[1]
        assert [name for _, name in commands(ahead)].count("scatter") == 4
        jobs.append(Job([ahead, behind], replace(STALLS[1], limit=60_000)))
        problems.append(problem)
    outcomes, _ = run_jobs(CONFIG, jobs, tmp_path, ring=RING)
    assert mismatches(problems[0], outcomes[0]) == []
    if matching == Matching.UNORDERED:
        assert mismatches(problems[1], outcomes[1]) == []
    else:
        # The window holds 3, which has not come, and 20, which waits for it, so 21 has no entry there.
        assert outcomes[1].errors == [Error.PEER, Error.BAD_PACKET]
        assert outcomes[1].runs[1].completion["info"] == 21


#: Graphs of real sizes, with the first columns of their features only: a simulated chiplet here has four lanes.
SIZED = {"digits": "digits", "power law": "synthetic:power-law,nodes=1000", "cora": "planetoid:{}/cora"}
COLUMNS = 8
#: Rings by the most chiplets that are simulated: the smaller one is faster.
SIZED_RINGS = {4: (1, 2, 3, 4), 16: (8, 16)}


@pytest.mark.parametrize("model", Model, ids=[model.name for model in Model])
@pytest.mark.parametrize("most", SIZED_RINGS)
@pytest.mark.parametrize("name", SIZED)
def test_graphs_of_real_sizes(name: str, most: int, model: Model, tmp_path: Path) -> None:
    """All models on rings of every size, equal tiles and uneven ones, with and without hubs."""
    folder = os.environ.get("ATOLL_PLANETOID")
    if name == "cora" and not folder:
        pytest.skip("ATOLL_PLANETOID does not name the folder with Cora")
    if not FULL and (name, most, model) != ("digits", 4, Model.GCN):
        pytest.skip("many long runs: ATOLL_FULL=1")
    graph = load(SIZED[name].format(folder))
    graph = replace(graph, features=graph.features[:, :COLUMNS])
    seed = list(Model).index(model)
    problem = random_problem(graph, model, [16, 7], seed)
    cases = []
    for number, chiplets in enumerate(SIZED_RINGS[most] if FULL else (4,)):
        hubs = highest(graph, 20) if (number + seed) % 2 and chiplets > 1 else []
        tiles = Placement.ranges(graph.nodes, chiplets, hubs)
        cases.append(Case(problem, uneven(graph, chiplets, seed, hubs) if seed == 1 else tiles))
    run_cases(cases, tmp_path, replace(RING, chiplets=most))


@pytest.mark.skipif(not os.environ.get("ATOLL_PLANETOID"), reason="ATOLL_PLANETOID is not set")
@pytest.mark.skipif(not FULL, reason="a long run, for make sim-full")
def test_cora_has_the_least_traffic(tmp_path: Path) -> None:
    graph = load(f"planetoid:{os.environ['ATOLL_PLANETOID']}/cora")
    narrow = replace(graph, features=graph.features[:, :60])
    cases = [Case(random_problem(narrow, Model.GCN, [16, 7], 1), Placement.ranges(graph.nodes, 4))]
    (outcome,) = run_cases(cases, tmp_path)
    assert sum(link["feature_words"] for link in outcome.links) == 6108 * (16 + 7)
