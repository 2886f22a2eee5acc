"""Rings of chiplets with community PEs: whole inferences bit by bit, with the least traffic, errors and resets."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from contracts import COMMANDS, LINE_BYTES, Error, Matching, Model, Opcode, RegionKind, Split
from contracts.communities import K_VALUES
from golden.community.image import build_community_images, positions_of, tiles_of
from golden.community.plan import PAIRS, Kind, Scheme
from golden.community.tiles import Room
from golden.datasets import load
from golden.graph import Graph
from golden.image import Image
from golden.locator.locator import Limits
from golden.locator.schedule import Schedule
from golden.model.network import Problem, problem_of
from golden.ring.image import travelling_first
from golden.ring.partition import placed_apart
from golden.ring.placement import Placement
from golden.ring.traffic import traffic
from hw.machine import Units, machine_of
from sim.problems import CORNERS, DIRECTED, corner_graph, directed_graph, random_graph, random_problem, rooted_problem
from sim.runner.jobs import Job, Outcome, Settings, mismatches
from sim.runner.run import run_jobs
from tb.community.configurations import NEURAL, ring_config, small_chiplet
from tb.harness.marks import full
from tb.locator.graphs import GRAPHS
from tb.ring.cases import commanded, highest, patched, uneven

#: Most chiplets of the simulated ring; a run may use fewer.
MOST = 16 if os.environ.get("ATOLL_FULL") else 3
COUNTS = [n for n in (2, 3, 4, 8, 16) if n <= MOST]
CONFIG, RING = small_chiplet(partials=True), ring_config(MOST)
LIMITS = Limits(64, 64, 64, CONFIG.locator.line_words)
#: What each chiplet has room for, and less: as much as the vertex with most neighbours of karate needs.
ROOM, TINY = Room(512, 4096, 2, 128), Room(24, 64, 2, 12)
STALLS = (
    Settings(latency=3, limit=100_000),
    Settings(latency=20, limit=100_000),
    Settings(latency=10, stall=0.3, out_of_order=True, seed=3, limit=200_000),
)


_EIGHT = Schedule(8)


@dataclass(frozen=True, eq=False)
class Case:
    """A network on a graph, placed."""

    problem: Problem
    placement: Placement
    settings: Settings = STALLS[1]
    schedule: Schedule = _EIGHT
    scheme: Scheme = PAIRS
    room: Room | None = None
    matching: Matching = Matching.UNORDERED

    @property
    def job(self) -> Job:
        """Its run."""
        return Job(self.images, self.settings)

    @property
    def images(self) -> list[Image]:
        """Of every chiplet."""
        return build_community_images(
            self.problem, self.placement, self.schedule, LIMITS, self.scheme,
            room=self.room, matching=self.matching, weight_room=CONFIG.pe.weight_room,
        )  # fmt: skip

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


def _karate() -> list[Case]:
    """All models on every ring, with many hubs, few and none; both ways of sharing sums."""
    graph = load("karate")
    return [
        Case(
            random_problem(graph, model, [7, 3], seed),
            Placement.ranges(graph.nodes, chiplets, highest(graph, (0, 3, 12)[(seed + chiplets) % 3])),
            STALLS[seed],
            Schedule((8, 2, 0)[seed]),
            Scheme(Kind((seed + chiplets) % 2), K_VALUES[seed % 3]),
            matching=Matching((seed + chiplets) % 2),
        )
        for chiplets in COUNTS
        for seed, model in enumerate(Model)
    ]


def _corners() -> list[Case]:
    """Corner graphs with uneven boundaries and chiplets that own nothing."""
    cases = []
    for seed, (name, (nodes, _)) in enumerate(CORNERS.items()):
        if nodes:
            graph = corner_graph(name, features=5, density=(1.0, 0.4)[seed % 2], seed=seed)
            problem = random_problem(graph, list(Model)[seed % 3], ([9, 3], [4], [6, 8, 2])[seed % 3], seed)
            hubs = highest(graph, 2) if seed % 2 and nodes > 1 else []
            placement = uneven(graph, COUNTS[seed % len(COUNTS)], seed, hubs)
            stalls, matching = STALLS[seed % len(STALLS)], Matching(seed // 2 % 2)
            cases.append(Case(problem, placement, stalls, Schedule(3), matching=matching))
    return cases


def _placed() -> tuple[list[Problem], list[Case]]:
    """Larger graphs whose communities stay together, and the problems as they were before they were relabelled."""
    problems, cases = [], []
    for seed, name in enumerate((GRAPHS[6], GRAPHS[7])):
        graph = load(name)
        rows = np.random.default_rng(seed).normal(size=(graph.nodes, 6)).astype(np.float32)
        plain = random_problem(replace(graph, features=rows), list(Model)[seed], [9, 4], seed)
        position, placement = placed_apart(graph, COUNTS[-1])
        moved = problem_of(plain.graph.relabelled(position), plain.features[np.argsort(position)], plain.model)
        problems.append(plain)
        cases.append(Case(moved, placement, STALLS[0], Schedule(6, False, 1)))
    return problems, cases


def _ends() -> list[Case]:
    """Layers that end on the neural chip, of chiplets that own more and fewer rows than it has processors, or none."""
    cases = []
    kinds = (("sigmoid", COUNTS[-1]), ("tanh", 2), ("elu", COUNTS[-1]))
    for seed, (activation, chiplets) in enumerate(kinds):
        graph = load("karate")
        problem = random_problem(graph, list(Model)[seed], [7, 6, 3], seed, activation, NEURAL.core)
        placement = uneven(graph, chiplets, seed, highest(graph, 2 * seed))
        cases.append(Case(problem, placement, STALLS[seed], Schedule(6)))
    return cases


def _in_tiles() -> list[Case]:
    """Shares that do not fit: of small graphs on chiplets with little room, and of one that is larger than they are."""
    cases = [replace(case, room=TINY) for case in _karate()]
    # As few edges as the vertex with most neighbours has, and two for halves of its sum.
    few = [int(case.problem.graph.degrees.max(initial=0)) + 3 for case in _corners()]
    cases += [replace(case, room=Room(64, edges, 2, 21)) for case, edges in zip(_corners(), few, strict=True)]
    cases += [replace(_ends()[0], room=TINY)]
    graph = load("synthetic:power-law,nodes=700,degree=3")
    rows = np.random.default_rng(9).normal(size=(graph.nodes, 6)).astype(np.float32)
    problem = random_problem(replace(graph, features=rows), Model.GCN, [9, 4], 9)
    for chiplets, hubs in ((2, 12), (COUNTS[-1], 0)):
        placement = Placement.ranges(graph.nodes, chiplets, highest(graph, hubs))
        cases.append(Case(problem, placement, STALLS[0], Schedule(6, False, 1), room=ROOM))
    # Each share fits, but not all VIDs, so rows have places; PROCESS goes on in the sparse features of COMBINE.
    graph = load("synthetic:community,nodes=600,degree=4,classes=12,mixing=0.02,features=20,density=0.2")
    problem = random_problem(graph, Model.GCN, [9, 4], 3)
    position, placement = placed_apart(graph, 3)
    moved = problem.relabelled(position)
    order, placement = travelling_first(moved.graph, placement.without_sums)
    return [*cases, Case(moved.relabelled(order), placement, STALLS[1], room=ROOM)]


def _rooted() -> list[Case]:
    """Means and sums beside root weights: with hubs and without, shares that fit and that do not."""
    cases = []
    for seed, chiplets in enumerate((*COUNTS, COUNTS[-1])):
        graph = load("karate")
        problem = rooted_problem(graph, (Model.SAGE, Model.GIN)[seed % 2], [9, 4], seed)
        placement = uneven(graph, chiplets, seed, highest(graph, (0, 3, 12)[seed % 3]))
        plain = Case(problem, placement, STALLS[seed % len(STALLS)], Schedule(6))
        cases += [plain, replace(plain, room=TINY)]
    return cases


def _in_rows() -> list[Case]:
    """Features that have no room: combined into digits, in tiles too."""
    cases = []
    for seed, (f_in, room) in enumerate(((70, None), (129, ROOM), (100, TINY))):
        graph = load("karate")
        random = np.random.default_rng(seed)
        rows = random.normal(size=(graph.nodes, f_in)).astype(np.float32)
        features = rows if seed % 2 else sparse.csr_array(rows * (random.random(rows.shape) < 0.2))
        problem = random_problem(
            replace(graph, features=features), list(Model)[seed], ([13, 3], [40, 5], [9])[seed], seed
        )
        placement = Placement.ranges(graph.nodes, COUNTS[seed % len(COUNTS)], highest(graph, 2))
        cases.append(Case(problem, placement, STALLS[seed], room=room))
    return cases


def _directed() -> list[Case]:
    """Graphs with edges without reverse: corners and random ones, with hubs and without, placed, and in tiles."""
    cases = []
    for seed, name in enumerate(DIRECTED):
        graph = directed_graph(name, 5, (1.0, 0.4)[seed % 2], seed)
        problem = random_problem(graph, list(Model)[seed % 3], ([9, 3], [4], [6, 8])[seed % 3], seed)
        placement = uneven(graph, COUNTS[seed % len(COUNTS)], seed, highest(graph, 2) if seed % 2 else [])
        cases.append(Case(problem, placement, STALLS[seed % len(STALLS)], Schedule(3), Scheme(Kind(seed % 2), 4)))
    for seed, hubs in ((1, 0), (2, 6)):
        graph = random_graph(seed, 60, 200, 6, 1.0)
        problem = random_problem(graph, list(Model)[seed], [9, 4], seed)
        placement = Placement.ranges(graph.nodes, COUNTS[1], highest(graph, hubs))
        case = Case(problem, placement, STALLS[seed], Schedule(6, False, 1))
        cases += [case, replace(case, room=Room(40, 120, 2, 20))]
    graph = load("synthetic:community,nodes=120,degree=4,classes=12,mixing=0.05,features=6,density=1,directed=0.7")
    problem = random_problem(graph, Model.GCN, [8, 4], 3)
    position, placement = placed_apart(graph, COUNTS[-1])
    cases.append(Case(problem.relabelled(position), placement, STALLS[0], Schedule(6, False, 1)))
    return cases


def _stale() -> list[Case]:
    """Placements and hub tables of graphs that have lost and got edges since."""
    cases = []
    for seed, case in enumerate(_placed()[1]):
        graph = case.problem.graph
        random = np.random.default_rng(seed)
        kept = (graph.edges < graph.destinations) & (random.random(graph.edge_count) < 0.8)
        count = graph.edge_count // 10
        sources = np.concatenate([graph.edges[kept], random.integers(0, graph.nodes, count)])
        ends = np.concatenate([graph.destinations[kept], random.integers(0, graph.nodes, count)])
        changed = Graph.from_edges("changed", graph.nodes, sources, ends, features=graph.features, symmetrise=True)
        problem = random_problem(changed, Model.GIN, [5], seed)
        cases.append(replace(case, problem=problem, settings=STALLS[1]))
    return cases


def _by_source() -> list[Case]:
    """Every vertex with a neighbour elsewhere has a partial sum: shares that fit, directed graphs, and tiles."""
    cases = [*_karate(), *_corners()[::2], *_directed()[::2], *_in_tiles()[-2:]]
    return [replace(case, placement=case.placement.by(Split.SOURCE)) for case in cases]


def _edges(image: Image) -> int:
    """Return where the first tile's edges are in the region of tiles, in words."""
    tiles, at = image.region(RegionKind.TILES), image.header["command_list"] * LINE_BYTES
    for line in range(image.header["commands"]):
        data = image.data[at + line * LINE_BYTES :][:LINE_BYTES]
        if data[0] == Opcode.LOCATE:
            return (COMMANDS[Opcode.LOCATE].from_bytes(data)["edges"] - tiles.line) * LINE_BYTES // 4
    raise AssertionError("there are no tiles")


def _errors() -> tuple[list[list[Error]], list[Job]]:
    """Break something in one chiplet, after a reset each time; a good run at the end."""
    case = _karate()[1]
    chiplets = case.placement.chiplets
    images = case.job.images
    expected, jobs = [], []

    def breaks(error: Error, chiplet: int = 1, reads: tuple[int, int] | None = None, **changed: object) -> None:
        image = changed.get("image", images[chiplet])
        given = [image if n == chiplet else kept for n, kept in enumerate(images)]
        jobs.append(Job(given, replace(STALLS[1], read_errors=reads, failing=chiplet)))  # type: ignore[arg-type]
        expected.append([error if n == chiplet else Error.PEER for n in range(chiplets)])

    features = images[1].region(RegionKind.FEATURES_SPARSE)
    breaks(Error.MEMORY_READ, reads=(features.address, features.address + 7))
    breaks(Error.VID_RANGE, image=patched(images[1], RegionKind.EDGES, 3, 100_000))
    breaks(Error.BAD_OPERAND, image=commanded(images[1], Opcode.COMBINE, vertices=100_000))
    # Rows that are sent before their COMBINE: it would come too late, or never comes.
    breaks(Error.BAD_OPERAND, image=commanded(images[1], Opcode.SCATTER, more=0, beside=0))
    breaks(Error.BAD_OPCODE, image=commanded(images[1], Opcode.COMBINE, opcode=Opcode.BARRIER))
    ended = _ends()[1]
    for chiplet in range(2):
        image = ended.job.images[chiplet]
        spoilt = commanded(image, Opcode.NEURAL, words=1)
        given = [spoilt if n == chiplet else kept for n, kept in enumerate(ended.job.images)]
        jobs.append(Job(given, STALLS[1]))
        expected.append([Error.BAD_OPERAND if n == chiplet else Error.PEER for n in range(2)])
    # The tables of tiles, read by the node table and by the locator.
    tiled = replace(case, room=TINY)
    images = tiled.images
    tables = images[1].region(RegionKind.TILES)
    breaks(Error.MEMORY_READ, reads=(tables.address, tables.address + 7))
    breaks(Error.BAD_OPERAND, image=commanded(images[1], Opcode.PROCESS, positions=513))
    breaks(Error.VID_RANGE, image=patched(images[1], RegionKind.TILES, _edges(images[1]), 100_000))
    jobs += [tiled.job, case.job]
    return expected, jobs


def _resets() -> list[Case]:
    """Cut off at many points, then run to the end."""
    case = _karate()[-1]
    cuts = ((case, (500, 1200, 1900, 2600)), (replace(case, room=TINY), (1500, 2500, 3500)))
    return [replace(case, settings=replace(STALLS[1], reset_after=cycle)) for case, cycles in cuts for cycle in cycles]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Outcome]]:
    """Return what came of all work below, done in one simulation, since generating the ring takes longest."""
    parts = {
        "karate": [case.job for case in _karate()],
        "corners": [case.job for case in _corners()],
        "placed": [case.job for case in _placed()[1]],
        "stale": [case.job for case in _stale()],
        "rows": [case.job for case in _in_rows()],
        "ends": [case.job for case in _ends()],
        "tiles": [case.job for case in _in_tiles()],
        "rooted": [case.job for case in _rooted()],
        "directed": [case.job for case in _directed()],
        "by source": [case.job for case in _by_source()],
        "errors": _errors()[1],
        "resets": [case.job for case in _resets()],
    }
    jobs = [job for work in parts.values() for job in work]
    folder = tmp_path_factory.mktemp("ring")
    found, _ = run_jobs(CONFIG, jobs, folder, units=Units(NEURAL), ring=RING)
    done: dict[str, list[Outcome]] = {}
    for name, work in parts.items():
        done[name], found = found[: len(work)], found[len(work) :]
    return done


def test_karate_is_exact_on_every_ring(outcomes: dict[str, list[Outcome]]) -> None:
    for case, outcome in zip(_karate(), outcomes["karate"], strict=True):
        case.check(outcome)


def test_corner_graphs_are_exact(outcomes: dict[str, list[Outcome]]) -> None:
    for case, outcome in zip(_corners(), outcomes["corners"], strict=True):
        case.check(outcome)


def test_communities_together_are_exact_with_less_traffic(outcomes: dict[str, list[Outcome]]) -> None:
    """Results, put back in the old order, are those of the graph as it was given."""
    problems, cases = _placed()
    for plain, case, outcome in zip(problems, cases, outcomes["placed"], strict=True):
        case.check(outcome)
        position, _ = placed_apart(plain.graph, COUNTS[-1])
        back = replace(outcome, results={layer: rows[position] for layer, rows in outcome.results.items()})
        assert mismatches(plain, back) == []
        tiles = traffic(plain.graph, Placement.ranges(plain.graph.nodes, COUNTS[-1]))
        assert traffic(case.problem.graph, case.placement).bits(1) < tiles.bits(1)


def test_a_stale_placement_costs_speed_only(outcomes: dict[str, list[Outcome]]) -> None:
    for case, outcome in zip(_stale(), outcomes["stale"], strict=True):
        case.check(outcome)


def test_features_without_room_are_combined_in_blocks(outcomes: dict[str, list[Outcome]]) -> None:
    for case, outcome in zip(_in_rows(), outcomes["rows"], strict=True):
        case.check(outcome)


def test_layers_end_on_the_neural_chip(outcomes: dict[str, list[Outcome]]) -> None:
    for case, outcome in zip(_ends(), outcomes["ends"], strict=True):
        case.check(outcome)
        owned = np.diff(case.placement.boundaries)
        for chiplet, run in enumerate(outcome.runs):
            assert [phase.layer for phase in run.phases if phase.opcode == "neural"] == [0, 1] * bool(owned[chiplet])


def test_shares_beyond_the_chip_are_exact(outcomes: dict[str, list[Outcome]]) -> None:
    """Tile by tile, with the same bits and the same traffic."""
    cases = _in_tiles()
    for case, outcome in zip(cases, outcomes["tiles"], strict=True):
        case.check(outcome)
    counts = [[tiles_of(image) for image in case.images] for case in cases]
    few = [tiles for case, tiles in zip(cases, counts, strict=True) if case.placement.chiplets <= 3]
    assert sum(max(tiles) > 1 for tiles in few) > len(few) / 2, counts
    first, _ = (one.fields for one in cases[-1].images[-1].commands if one.opcode == Opcode.PROCESS)
    assert first["positions"]
    assert first["sparse"]
    assert 0 < first["ahead"] < first["vertices"]


def test_rooted_layers_are_exact(outcomes: dict[str, list[Outcome]]) -> None:
    for case, outcome in zip(_rooted(), outcomes["rooted"], strict=True):
        case.check(outcome)


def test_directed_graphs_are_exact(outcomes: dict[str, list[Outcome]]) -> None:
    """With the same traffic as any; a chiplet has a double cover if edges between its own vertices need it."""
    cases = _directed()
    for case, outcome in zip(cases, outcomes["directed"], strict=True):
        case.check(outcome)
    covers = [found for case in cases for image in case.images for found in positions_of(image) if found]
    assert sum(found.located > found.summed for found in covers) > len(cases)
    assert any(max(map(tiles_of, case.images)) > 1 for case in cases)


def test_split_by_sources_partial_sums_alone_travel(outcomes: dict[str, list[Outcome]]) -> None:
    for case, outcome in zip(_by_source(), outcomes["by source"], strict=True):
        case.check(outcome)
        assert not any(link["feature_words"] for link in outcome.links)


def test_errors_are_told_to_all_and_nothing_hangs(outcomes: dict[str, list[Outcome]]) -> None:
    expected, _ = _errors()
    *bad, tiled, good = outcomes["errors"]
    for outcome, errors in zip(bad, expected, strict=True):
        # One that stops before its neighbour comes to the ring is missed there.
        assert [Error.PEER if error == Error.LINK else error for error in outcome.errors] == errors
    _karate()[1].check(tiled)
    _karate()[1].check(good)


def test_a_reset_in_the_middle_is_followed_by_the_same_work(outcomes: dict[str, list[Outcome]]) -> None:
    for case, outcome in zip(_resets(), outcomes["resets"], strict=True):
        case.check(outcome)


def test_a_ring_needs_pes_that_know_partial_sums() -> None:
    plain = replace(CONFIG, community=replace(CONFIG.community, partials=False))
    with pytest.raises(ValueError, match=r"partials must be True"):
        machine_of(plain, ring=RING)


@full
def test_records_in_shares_are_exact(tmp_path: Path) -> None:
    """Two cliques of twenty that share a vertex, whose chiplets' parts have more nodes than a piece; karate too."""
    graph = load("synthetic:windmill,nodes=41,degree=20,features=9,density=0.3")
    cliques = [
        Case(
            random_problem(graph, model, [7, 3], seed),
            Placement.ranges(graph.nodes, 2, highest(graph, seed)),
            STALLS[seed],
            Schedule(1 << 10),
        )
        for seed, model in enumerate(Model)
    ]
    cases = [*cliques, *_karate(), *_rooted(), *_resets()]
    jobs = [case.job for case in cases]
    config = replace(CONFIG, split=8)
    found, _ = run_jobs(config, jobs, tmp_path, units=Units(NEURAL), ring=RING)
    for case, outcome in zip(cases, found, strict=True):
        case.check(outcome)
    assert any(run.counters["shared"] for outcome in found[: len(cliques)] for run in outcome.runs)
