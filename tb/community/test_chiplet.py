"""Community chiplet: whole inferences on small graphs bit by bit, errors, resets, and exact cycles."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from contracts import COMMANDS, LINE_BYTES, Combination, Error, Model, Opcode, RegionKind
from contracts.communities import K_VALUES
from contracts.weights import WEIGHT_PAGES, WeightRoom
from golden.community.image import build_community_image, tiles_of
from golden.community.layer import operations_of
from golden.community.plan import Kind, Operations, Scheme, columns_of, plan
from golden.community.tiles import Room, Subgraph, cut
from golden.datasets import load
from golden.graph import Graph
from golden.image import Image
from golden.locator.cover import cover_of
from golden.locator.locator import Limits, locate
from golden.locator.partition import partition
from golden.locator.schedule import Schedule
from golden.model.activation import RELU
from golden.model.network import Problem
from hw.machine import Units
from sim.models.activity import WINDOW, activity
from sim.problems import CORNERS, DIRECTED, corner_graph, directed_graph, random_graph, random_problem, rooted_problem
from sim.runner.jobs import Job, Outcome, Settings, mismatches
from sim.runner.run import run_jobs
from tb.community.configurations import NEURAL, chiplet_config
from tb.harness.marks import full
from tb.locator.graphs import many_hubs

#: How sums are shared: windows narrow and wide, pairs, not.
WAYS = (Scheme(Kind.WINDOW, 4), Scheme(), Scheme(Kind.WINDOW, 8), Scheme(Kind.NONE))
#: Lines of the scratchpad, for images whose rows stay on the chip between layers.
SCRATCH = 256
#: Two combiners, two PEs, two hub units; the smallest locator.
SMALL = {
    "community": {"width": 128, "columns": 256, "partners": 2, "max_out": 20, "weight_rows": 128},
    "locator": {
        "engines": 2,
        "searches": 1,
        "nodes": 128,
        "edges": 1024,
        "banks": 4,
        "lanes": 1,
        "outputs": 2,
    },
    "combiners": 2,
    "pes": 2,
    "units": 2,
    "hubs": 32,
    "kept": 32,
    "scratch_lines": SCRATCH,
}
LIMITS = Limits(64, 64, 64, 8)
#: What the small chiplet has room for, and less.
WEIGHTS = WeightRoom(8, 128, 20)
ROOM, TINY = Room(128, 1024, 2, 32), Room(48, 96, 2, 20)
Work = list[Job]
MODELS = (Model.GCN, Model.SAGE, Model.GIN)


def run(work: Work, directory: Path, **sizes: object) -> list[Outcome]:
    """Run images on the small chiplet, or on one of other sizes."""
    config = chiplet_config(**{**SMALL, **sizes})  # type: ignore[arg-type]
    return run_jobs(config, work, directory, units=Units(NEURAL))[0]


def problem(name: str, seed: int, model: Model = Model.GCN, density: float = 0.3) -> Problem:
    """Two layers on a corner graph."""
    return random_problem(corner_graph(name, 6, density, seed), model, [5, 3 + seed % 3], seed)


def larger(
    seed: int, widths: list[int], model: Model, density: float, activation: str = RELU, f_in: int = 9
) -> Problem:
    """Several layers on a random symmetric graph of 60 nodes."""
    random = np.random.default_rng(seed)
    graph = many_hubs(6, 3)
    rows = random.normal(size=(graph.nodes, f_in)).astype(np.float32)

    features = rows if density >= 1 else sparse.csr_array(rows * (random.random(rows.shape) < density))
    return random_problem(replace(graph, features=features), model, widths, seed, activation, NEURAL.core)


def _corners() -> tuple[list[Problem], Work]:
    """Every corner graph, all models in turn, both ways of sharing, memories fast and slow."""
    problems = [
        problem(name, seed, MODELS[seed % 3], density=1.0 if seed % 4 == 3 else 0.4)
        for seed, name in enumerate(name for name, (nodes, _) in CORNERS.items() if nodes)
    ]
    schedules = (Schedule(4), Schedule(2, False, 1), Schedule(16))
    memories = (Settings(), Settings(latency=3), Settings(latency=20, stall=0.4, out_of_order=True, seed=5))
    work = [
        Job(
            [build_community_image(given, schedules[n % 3], LIMITS, scheme, scratch_lines=(n + turn) % 2 * SCRATCH)],
            memories[(n + turn) % 3],
        )
        for n, given in enumerate(problems)
        for turn, scheme in enumerate((Scheme(Kind.WINDOW, K_VALUES[n % 3]), Scheme() if n % 4 else Scheme(Kind.NONE)))
    ]
    return problems, work


def _larger() -> tuple[list[Problem], Work]:
    """Rows of several beats, three layers, hubs with many neighbours."""
    problems = [larger(1, [20, 17, 4], Model.GIN, 0.3), larger(2, [8, 16], Model.GCN, 1.0)]
    work = [
        Job(
            [build_community_image(given, Schedule(7), LIMITS, way, scratch_lines=n % 2 * SCRATCH)],
            Settings(latency=30),
        )
        for given in problems
        for n, way in enumerate(WAYS)
    ]
    return problems, work


def _in_stages() -> tuple[list[Problem], Work]:
    """Combine rows first, then sum them up; GIN weighs the own row apart, rows of 20 are two beats."""
    problems = [
        problem("star", 5),
        problem("one node", 3),
        problem("path", 4, Model.SAGE, 1.0),
        larger(1, [20, 17, 4], Model.GIN, 0.3),
        larger(2, [8, 16], Model.GCN, 1.0),
    ]
    memories = (Settings(latency=3), Settings(latency=30, stall=0.3, seed=2))
    work = [
        Job([build_community_image(given, Schedule(5), LIMITS, WAYS[n % 2], in_stages=True)], memories[n % 2])
        for n, given in enumerate(problems)
    ]
    return problems, work


def _ends() -> tuple[list[Problem], Work]:
    """Layers that end on the neural chip, combined as they go and in stages."""
    problems = [larger(6, [11, 5], Model.GCN, 0.3, "tanh"), larger(7, [6, 7, 3], Model.GIN, 1.0, "elu")]
    work = [
        Job(
            [build_community_image(given, Schedule(7), LIMITS, in_stages=bool(n), scratch_lines=SCRATCH)],
            Settings(latency=20, stall=0.2 * n),
        )
        for n, given in enumerate(problems)
    ]
    return problems, work


def _beyond(seed: int, name: str, widths: list[int], density: float, activation: str = RELU) -> Problem:
    """Return a network on a graph that is larger than the chip."""
    graph = load(f"synthetic:{name}")
    random = np.random.default_rng(seed)
    rows = random.normal(size=(graph.nodes, 9)).astype(np.float32)
    features = rows if density >= 1 else sparse.csr_array(rows * (random.random(rows.shape) < density))
    return random_problem(replace(graph, features=features), MODELS[seed % 3], widths, seed, activation, NEURAL.core)


def _in_tiles() -> tuple[list[Problem], Work]:
    """Graphs beyond the chip: too many vertices, edges or hubs for it; and smaller ones as if it were smaller."""
    crowded = random_problem(replace(many_hubs(), features=np.ones((84, 3), np.float32)), Model.SAGE, [4], 1)
    problems = [
        *(problem(name, seed, MODELS[seed % 3], (1.0, 0.4)[seed % 2]) for seed, name in enumerate(CORNERS) if seed),
        larger(1, [20, 17, 4], Model.GIN, 0.3),
        larger(2, [8, 16], Model.GCN, 1.0),
        crowded,
        _beyond(3, "power-law,nodes=300,degree=2", [8, 20], 0.4),
        _beyond(4, "community,nodes=240,degree=6,classes=12", [5, 3], 1.0),
        _beyond(5, "path,nodes=300", [4], 1.0),
        _beyond(6, "power-law,nodes=200,degree=2", [11, 5], 0.3, "tanh"),
    ]
    # As few edges as the vertex with most neighbours has.
    corners = problems[: len(CORNERS) - 1]
    rooms = [replace(TINY, edges=int(given.graph.degrees.max()) + 1) for given in corners] + [TINY] * 2
    rooms += [ROOM] * (len(problems) - len(rooms))
    schedules = [Schedule(0) if given is crowded else Schedule((7, 2)[n % 2]) for n, given in enumerate(problems)]
    memories = (Settings(latency=3), Settings(latency=20, stall=0.3, out_of_order=True, seed=4))
    images = [
        build_community_image(given, schedule, LIMITS, WAYS[n % 2], scratch_lines=SCRATCH, room=rooms[n])
        for n, (given, schedule) in enumerate(zip(problems, schedules, strict=True))
    ]
    return problems, [Job([image], memories[n % 2]) for n, image in enumerate(images)]


def _directed() -> tuple[list[Problem], Work]:
    """Graphs with edges without reverse: corners, random ones, one that ends on the neural chip; then in tiles."""
    widths = ([5, 3], [20, 7], [4])
    problems = [
        random_problem(directed_graph(name, 6, (1.0, 0.4)[n % 2], n), MODELS[n % 3], widths[n % 3], n)
        for n, name in enumerate(DIRECTED)
    ]
    problems += [
        random_problem(random_graph(n, 50, 150, 8, (1.0, 0.4)[n % 2]), MODELS[n % 3], widths[n % 3], n)
        for n in range(2)
    ]
    plain = random_graph(4, 60, 90, 5, 1.0)
    problems.append(random_problem(plain, Model.GIN, [6, 4], 4, "tanh", NEURAL.core))
    rooms: list[Room | None] = [(None, ROOM)[n % 2] for n in range(len(problems))]
    # In tiles: a source of its own for each in-edge of the vertex with most of them.
    tiled = [problems[n] for n in (1, 2, 3, -3, -2, -1)]
    rooms += [replace(TINY, edges=2 * max(48, int(given.graph.degrees.max()) + 1)) for given in tiled]
    tiled.append(_beyond(5, "power-law,nodes=300,degree=2,directed=1", [8, 20], 0.4))
    problems, rooms = problems + tiled, [*rooms, ROOM]
    memories = (Settings(latency=3), Settings(latency=20, stall=0.3, out_of_order=True, seed=6))
    schedules = (Schedule(4), Schedule(2, False, 1), Schedule(7))
    images = [
        build_community_image(given, schedules[n % 3], LIMITS, WAYS[n // 2 % 2], scratch_lines=SCRATCH, room=rooms[n])
        for n, given in enumerate(problems)
    ]
    return problems, [Job([image], memories[n % 2]) for n, image in enumerate(images)]


def _rooted() -> tuple[list[Problem], Work]:
    """Means and sums beside root weights: whole graphs, in tiles, in blocks, of directed graphs, after a reset."""
    crowded = replace(many_hubs(), features=np.ones((84, 3), np.float32))
    graphs = [
        *(corner_graph(name, 6, (1.0, 0.4)[n % 2], n) for n, name in enumerate(CORNERS) if n),
        *(directed_graph(name, 6, (1.0, 0.4)[n % 2], n) for n, name in enumerate(DIRECTED)),
        larger(3, [1], Model.GIN, 0.3, f_in=40).graph,
        _beyond(4, "community,nodes=240,degree=6,classes=12", [5], 1.0).graph,
        random_graph(5, 60, 150, 8, 0.4),
        crowded,
    ]
    problems, work = list[Problem](), list[Job]()
    schedules = (Schedule(4), Schedule(2, False, 1), Schedule(7))
    memories = (Settings(latency=3), Settings(latency=20, stall=0.3, out_of_order=True, seed=8))
    for n, graph in enumerate(graphs):
        given = rooted_problem(graph, (Model.SAGE, Model.GIN)[n % 2], ([5, 3], [27, 20, 4])[n % 3 == 1], n)
        few = replace(TINY, edges=2 * max(48, int(graph.degrees.max()) + 1))
        for room in (ROOM, few):
            image = build_community_image(
                given, schedules[n % 3], LIMITS, WAYS[n % 2], scratch_lines=SCRATCH, room=room, weight_room=WEIGHTS
            )
            problems.append(given)
            work.append(Job([image], memories[len(work) % 2]))
    # In tiles, and where PROCESS makes the own rows.
    for n in (len(work) - 1, max(n for n, job in enumerate(work) if _makes_own_rows(job.images[0]))):
        for cycle in (600, 1500, 2400):
            problems.append(problems[n])
            work.append(Job(work[n].images, Settings(latency=10, reset_after=cycle)))
    return problems, work


def _makes_own_rows(image: Image) -> bool:
    """Return whether own rows of a rooted network are made beside combined ones, without room for them in memory."""
    return RegionKind.OWN not in {region.kind for region in image.regions}


def _in_blocks() -> tuple[list[Problem], Work]:
    """Layers wider than the PEs: combined in PROCESS, in stages, in tiles, ended on the neural chip."""
    problems = [
        larger(8, [40, 33, 5], Model.GIN, 0.3),
        larger(9, [21, 50], Model.GCN, 1.0),
        larger(10, [28, 18, 4], Model.SAGE, 0.4, "tanh"),
        problem("path", 11),
    ]
    problems[-1] = random_problem(problems[-1].graph, Model.GCN, [40, 17], 11)
    ways: list[dict[str, Any]] = [
        {"scratch_lines": SCRATCH, "scheme": Scheme(Kind.WINDOW, 8)},
        {"scratch_lines": 2 * SCRATCH},
        {"in_stages": True},
        {"room": TINY},
    ]
    memories = (Settings(latency=5), Settings(latency=25, stall=0.3, seed=3))
    jobs = [
        Job([build_community_image(given, Schedule(7), LIMITS, **way, weight_room=WEIGHTS)], memories[n % 2])
        for n, way in enumerate(ways)
        for given in problems
    ]
    return problems, jobs


def _in_rows() -> tuple[list[Problem], Work]:
    """Layers with more features than rows of weights: combined into digits, sparse and dense, in all those ways."""
    problems = [
        larger(12, [5, 4], Model.GCN, 0.2, f_in=200),
        larger(13, [20, 80, 7], Model.GIN, 1.0, f_in=129),
        larger(14, [19, 3], Model.SAGE, 0.2, "tanh", 333),
    ]
    ways: list[dict[str, Any]] = [{"scratch_lines": 2 * SCRATCH}, {"in_stages": True}, {"room": TINY}]
    memories = (Settings(latency=5), Settings(latency=25, stall=0.3, seed=3))
    jobs = [
        Job([build_community_image(given, Schedule(7), LIMITS, **way, weight_room=WEIGHTS)], memories[n % 2])
        for n, way in enumerate(ways)
        for given in problems
    ]
    return problems, jobs


def _first(image: Image, opcode: Opcode) -> dict[str, int]:
    """Return the first command of an opcode."""
    lines = (image.header["command_list"] + n for n in range(image.header["commands"]))
    found = (image.data[line * LINE_BYTES : (line + 1) * LINE_BYTES] for line in lines)
    return next(COMMANDS[opcode].from_bytes(data) for data in found if data[0] == opcode)


def _errors() -> tuple[list[Error], Problem, Work]:
    """Do all that memory, image and graph can do wrong, after each a run with nothing wrong, without a reset."""
    given = larger(3, [6, 4], Model.GCN, 0.4)
    image = build_community_image(given, Schedule(7), LIMITS, scratch_lines=SCRATCH)

    def changed(kind: RegionKind, word: int, value: int, image: Image = image) -> Image:
        at = image.region(kind).address + 4 * word
        return replace(image, data=image.data[:at] + value.to_bytes(4, "little") + image.data[at + 4 :])

    def command(opcode: Opcode, at: int, value: int, layer: int = 0, image: Image = image) -> Image:
        """Change a byte of the first command of an opcode."""
        line = image.header["command_list"] * LINE_BYTES
        lines = range(line, line + LINE_BYTES * image.header["commands"], LINE_BYTES)
        place = next(n for n in lines if image.data[n : n + 2] == bytes([opcode, layer])) + at
        return replace(image, data=image.data[:place] + bytes([value]) + image.data[place + 1 :])

    features = image.region(RegionKind.FEATURES_SPARSE)
    results = image.results_region(1)
    # Rows are combined first, beside a location that nobody uses after an error.
    staged = build_community_image(given, Schedule(7), LIMITS, in_stages=True)
    rows = staged.region(RegionKind.FEATURES_SPARSE)
    # Tables of tiles: a source that no position has, a place outside the memory, more positions than there is room for.
    tiled = build_community_image(given, Schedule(7), LIMITS, room=TINY)
    tables, last = tiled.region(RegionKind.TILES), tiled.results_region(1)
    offsets = (_first(tiled, Opcode.LOCATE)["offsets"] - tables.line) * LINE_BYTES // 4
    # Own rows that fail to be read or written, and that lie outside the memory.
    rooted = build_community_image(rooted_problem(given.graph, Model.SAGE, [6, 4], 3), Schedule(7), LIMITS)
    own, at = rooted.region(RegionKind.OWN), COMMANDS[Opcode.PROCESS].offsets["features"] // 8 + 3
    # Own rows that PROCESS makes: weights that fail to be read before others are, and a page without any.
    made = build_community_image(
        rooted_problem(given.graph, Model.SAGE, [6, 4], 3), Schedule(7), LIMITS, weight_room=WEIGHTS
    )
    first = _first(made, Opcode.LOAD_WEIGHTS)["weights"] * LINE_BYTES
    page = COMMANDS[Opcode.LOAD_WEIGHTS].offsets["page"] // 8
    # More hubs than slots: every node is a hub at threshold 0, and a unit has 32 slots.
    crowded = random_problem(replace(many_hubs(), features=np.ones((84, 3), np.float32)), Model.SAGE, [4], 1)
    cases = [
        (Error.MEMORY_READ, image, Settings(read_errors=(features.address, features.address + 1000))),
        (Error.MEMORY_WRITE, image, Settings(write_errors=(results.address, results.address + 31))),
        (Error.INDEX_RANGE, changed(RegionKind.FEATURES_SPARSE, 3, 0x0001_FFF0), Settings()),
        (Error.OFFSET_ORDER, changed(RegionKind.FEATURE_OFFSETS, 5, 0xFFFF_0000), Settings()),
        # No location; weights that do not fit while one goes on; another number of vertices than was located.
        (Error.BAD_OPERAND, command(Opcode.LOCATE, 0, Opcode.NOP), Settings()),
        (Error.BAD_OPERAND, command(Opcode.LOAD_WEIGHTS, 9, 0xFF), Settings()),
        (Error.BAD_OPERAND, command(Opcode.PROCESS, 8, 1), Settings()),
        (Error.BAD_OPCODE, command(Opcode.PROCESS, 0, Opcode.AGGREGATE), Settings()),
        (Error.BAD_OPERAND, build_community_image(crowded, Schedule(0), LIMITS), Settings()),
        (Error.MEMORY_READ, staged, Settings(read_errors=(rows.address, rows.address + 1000))),
        (Error.MEMORY_READ, tiled, Settings(read_errors=(tables.address, tables.address + 3))),
        (Error.MEMORY_READ, changed(RegionKind.TILES, 1, 1 << 20, tiled), Settings()),
        (Error.BAD_OPERAND, command(Opcode.PROCESS, 19, 1, image=tiled), Settings()),
        (Error.EDGE_RANGE, changed(RegionKind.TILES, offsets + 1, 1 << 20, tiled), Settings()),
        (Error.MEMORY_WRITE, tiled, Settings(write_errors=(last.address, last.address + 31))),
        (Error.MEMORY_READ, rooted, Settings(read_errors=(own.address + 64, own.address + 95))),
        (Error.MEMORY_WRITE, rooted, Settings(write_errors=(own.address + 64, own.address + 95))),
        (Error.BAD_OPERAND, command(Opcode.PROCESS, at, 0x7F, image=rooted), Settings()),
        (Error.MEMORY_READ, made, Settings(read_errors=(first, first + 31))),
        (Error.BAD_OPERAND, command(Opcode.LOAD_WEIGHTS, page, WEIGHT_PAGES - 1, image=made), Settings()),
    ]
    work = [job for _, bad, how in cases for job in (Job([bad], how), Job([image], Settings(reset=False)))]
    return [code for code, _, _ in cases], given, work


def _joined() -> tuple[list[Problem], Work]:
    """Join records of one node with the same few hubs: in PROCESS, beside root weights, in tiles."""
    random, whole, part = np.random.default_rng(9), load("synthetic:bipartite,nodes=84,degree=4"), 54
    one = load(f"synthetic:bipartite,nodes={part},degree=4")
    ends = [np.concatenate([end + copy * part for copy in range(4)]) for end in (one.edges, one.destinations)]
    several = Graph.from_edges("four bipartite graphs", 4 * part, *ends)
    plain, tiled = (
        replace(graph, features=random.normal(size=(graph.nodes, 7)).astype(np.float32)) for graph in (whole, several)
    )
    problems = [random_problem(plain, Model.GIN, [6, 3], 9), rooted_problem(plain, Model.SAGE, [6, 3], 9)]
    problems.append(random_problem(tiled, Model.GCN, [6, 3], 10))
    rooms = (None, None, ROOM)
    schemes = (Scheme(), Scheme(Kind.NONE))
    images = [
        build_community_image(given, Schedule(16), LIMITS, scheme, scratch_lines=SCRATCH, room=room)
        for given, room in zip(problems, rooms, strict=True)
        for scheme in schemes
    ]
    return problems, [Job([image], Settings(latency=10, stall=0.2 * (n % 2))) for n, image in enumerate(images)]


def _deep() -> tuple[Problem, Work]:
    """More layers than numbers of layers in a hub unit."""
    given = problem("path", 7)
    given = random_problem(given.graph, Model.GCN, [3] * 18, 7)
    return given, [Job([build_community_image(given, Schedule(1), LIMITS, scratch_lines=SCRATCH)], Settings(latency=5))]


def _resets() -> tuple[Problem, Work]:
    """Cut off at many points, then run to the end."""
    given = larger(4, [7, 3], Model.GCN, 0.5)
    image = build_community_image(given, Schedule(7), LIMITS, scratch_lines=SCRATCH)
    tiled = build_community_image(given, Schedule(7), LIMITS, room=TINY)
    cuts = ((image, (300, 900, 1500, 2100, 2700)), (tiled, (700, 1300, 1900, 2500)))
    return given, [Job([image], Settings(latency=10, reset_after=cycle)) for image, cycles in cuts for cycle in cycles]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Outcome]]:
    """Return what came of all work below, done in one simulation, since generating the chiplet takes longest."""
    parts = {"corners": _corners()[-1], "larger": _larger()[-1], "errors": _errors()[-1], "resets": _resets()[-1]}
    parts |= {
        "blocks": _in_blocks()[-1],
        "rows": _in_rows()[-1],
        "deep": _deep()[-1],
        "joined": _joined()[-1],
        "in stages": _in_stages()[-1],
        "ends": _ends()[-1],
        "tiles": _in_tiles()[-1],
        "directed": _directed()[-1],
        "rooted": _rooted()[-1],
    }
    found = run([image for work in parts.values() for image in work], tmp_path_factory.mktemp("chiplet"))
    done: dict[str, list[Outcome]] = {}
    for name, work in parts.items():
        done[name], found = found[: len(work)], found[len(work) :]
    return done


def test_corner_graphs_are_exact(outcomes: dict[str, list[Outcome]]) -> None:
    problems, _ = _corners()
    found = {f"{n // 2} {n % 2}": mismatches(problems[n // 2], out) for n, out in enumerate(outcomes["corners"])}
    assert not any(found.values()), found


def test_records_are_kept_for_the_next_layers_if_they_fit(outcomes: dict[str, list[Outcome]]) -> None:
    """There is room for 32 pairs of words: too few for a star of 40 nodes, or 60 nodes with many hubs."""
    problems, _ = _corners()
    small = [int(one.graph.nodes < 40) for one in problems for _ in range(2)]
    assert [out.run.counters["replayed"] for out in outcomes["corners"]] == small
    assert [out.run.counters["replayed"] for out in outcomes["larger"]] == [0] * len(outcomes["larger"])


def test_rows_stay_on_the_chip_where_they_fit(outcomes: dict[str, list[Outcome]]) -> None:
    """Those of 60 nodes and 20 features twice, in 256 lines of which a page may be missing."""
    problems, found = _larger()[0], outcomes["larger"]
    stay = [set(range(len(problems[n // len(WAYS)].model.layers))) - set(out.results) for n, out in enumerate(found)]
    assert stay == [set(), {0, 1}] * 2 + [set(), {0}] * 2
    assert set(outcomes["deep"][0].results) == {17}
    bytes_read = [out.run.memory["bytes_read"] for out in found]
    assert all(inside < outside for outside, inside in zip(bytes_read[::2], bytes_read[1::2], strict=True))


def test_layers_in_stages_are_exact(outcomes: dict[str, list[Outcome]]) -> None:
    """COMBINE, LOCATE and PROCESS of combined rows, as on a ring."""
    problems, _ = _in_stages()
    found = [mismatches(given, out) for given, out in zip(problems, outcomes["in stages"], strict=True)]
    assert not any(found), found


def test_layers_wider_than_the_pes_are_exact(outcomes: dict[str, list[Outcome]]) -> None:
    """In blocks of columns, for which communities are found once if their records are kept."""
    problems, work = _in_blocks()
    found = [mismatches(problems[n % len(problems)], out) for n, out in enumerate(outcomes["blocks"])]
    assert not any(found), found
    for n, (job, out) in enumerate(zip(work, outcomes["blocks"], strict=True)):
        (image,) = job.images
        given = problems[n % len(problems)]
        blocks = sum(command.opcode == Opcode.LOAD_WEIGHTS for command in image.commands)
        assert blocks > len(given.model.layers)
        tiles = tiles_of(image)
        if given is problems[-1] and tiles == 1:
            assert out.run.counters["replayed"] == blocks - 1
        if tiles > 1:
            parts = _partitions(given.graph, TINY, Schedule(7))
            assert out.run.counters["communities"] == sum(len(communities) for _, communities in parts)


def test_features_without_room_are_combined_in_blocks(outcomes: dict[str, list[Outcome]]) -> None:
    """Their sums are kept as digits in memory, so that the bits are those of one block."""
    problems, work = _in_rows()
    for job in work:
        kinds = {command.fields["kind"] for command in job.images[0].commands if "kind" in command.fields}
        assert kinds == {Combination.DIGITS, Combination.SUM}
    found = [mismatches(problems[n % len(problems)], out) for n, out in enumerate(outcomes["rows"])]
    assert not any(found), found


def test_graphs_beyond_the_chip_are_exact(outcomes: dict[str, list[Outcome]]) -> None:
    """Tile by tile, with the same bits as on a chip that has room for all at once."""
    problems, work = _in_tiles()
    found = [mismatches(given, out) for given, out in zip(problems, outcomes["tiles"], strict=True)]
    assert not any(found), found
    counts = [tiles_of(job.images[0]) for job in work]
    assert min(counts[-7:]) >= 2, counts
    ended = outcomes["tiles"][-1].run
    assert [phase.layer for phase in ended.phases if phase.opcode == "neural"] == list(problems[-1].model.ends)


def test_rooted_layers_are_exact(outcomes: dict[str, list[Outcome]]) -> None:
    problems, work = _rooted()
    found = [mismatches(given, out) for given, out in zip(problems, outcomes["rooted"], strict=True)]
    assert found == [[]] * len(problems)
    images = [job.images[0] for job in work]
    assert any(tiles_of(image) > 1 for image in images)
    made = [_makes_own_rows(image) for image in images]
    cut_off = [out.cut_off for out in outcomes["rooted"]]
    assert set(zip(made, cut_off, strict=True)) >= {(False, True), (True, True)}


def test_directed_graphs_are_exact(outcomes: dict[str, list[Outcome]]) -> None:
    """As double covers, of which only sums of destinations are made: pairs never add more than there are edges."""
    problems, work = _directed()
    for given, job, out in zip(problems, work, outcomes["directed"], strict=True):
        assert not given.graph.symmetric
        assert mismatches(given, out) == [], given.graph.name
        count = len(given.model.layers) * (given.graph.nodes + given.graph.edge_count)
        counters, processed = out.run.counters, [c for c in job.images[0].commands if c.opcode == Opcode.PROCESS]
        assert counters["gross"] <= count
        if processed[0].fields["pairs"]:
            assert counters["gross"] + counters["formed"] <= count
    counts = [tiles_of(job.images[0]) for job in work]
    assert max(counts[:-7]) == 1
    # A star that goes out has two hubs, and fits although not all of its copies could be hubs.
    assert sum(count > 1 for count in counts[-7:]) == 6, counts


def test_hubs_of_a_directed_graph_are_by_in_or_out_degree(outcomes: dict[str, list[Outcome]]) -> None:
    """And communities are those of the double cover; sums are shared where many vertices have the same sources."""
    problems, _ = _directed()
    for n, (given, out) in enumerate(zip(problems, outcomes["directed"][:-7], strict=False)):
        cover = cover_of(given.graph)
        schedule = (Schedule(4), Schedule(2, False, 1), Schedule(7))[n % 3]
        hubs, communities = partition(cover.graph, schedule, LIMITS)
        assert (out.run.counters["hubs"], out.run.counters["communities"]) == (len(hubs), len(communities))
        if given.graph.name == "into a star":
            assert list(hubs) == [0]
        if given.graph.name == "out of a star":
            assert cover.vertices[list(hubs)].tolist() == [39]


def _partitions(graph: Graph, room: Room, schedule: Schedule) -> list[tuple[Any, Any]]:
    """Hubs and communities of each tile of a graph by itself."""
    found = []
    for tile in cut(Subgraph.whole(graph), room, schedule, LIMITS):
        owners = np.repeat(np.arange(tile.vertices), np.diff(tile.offsets))
        part = Graph.from_edges("tile", tile.rows.size, tile.edges, owners)
        found.append(partition(part, schedule, LIMITS, elsewhere=np.arange(tile.rows.size) >= tile.vertices))
    return found


def test_the_counts_of_all_tiles_are_added_up(outcomes: dict[str, list[Outcome]]) -> None:
    """Hubs and communities are those of each tile by itself, in the last layer only."""
    problems, _ = _in_tiles()
    for given, out in list(zip(problems, outcomes["tiles"], strict=True))[-4:]:
        parts = _partitions(given.graph, ROOM, Schedule((7, 2)[problems.index(given) % 2]))
        hubs, communities = (sum(len(part) for part in kind) for kind in zip(*parts, strict=True))
        assert (out.run.counters["hubs"], out.run.counters["communities"]) == (hubs, communities)


def test_layers_that_end_on_the_neural_chip_are_exact(outcomes: dict[str, list[Outcome]]) -> None:
    problems, _ = _ends()
    for given, outcome in zip(problems, outcomes["ends"], strict=True):
        assert mismatches(given, outcome) == []
        assert [phase.layer for phase in outcome.run.phases if phase.opcode == "neural"] == list(given.model.ends)


def test_records_of_one_node_share_sums(outcomes: dict[str, list[Outcome]]) -> None:
    """A sum of all hubs is formed once for 16 nodes, so fewer vectors are added, even if a third is left over."""
    problems, _ = _joined()
    for n, out in enumerate(outcomes["joined"]):
        assert mismatches(problems[n // 2], out) == []
    added = [out.run.counters["gross"] + out.run.counters["formed"] for out in outcomes["joined"]]
    assert all(pairs < 0.65 * none for pairs, none in zip(added[::2], added[1::2], strict=True)), added


def test_many_layers_are_exact(outcomes: dict[str, list[Outcome]]) -> None:
    given, _ = _deep()
    (out,) = outcomes["deep"]
    assert mismatches(given, out) == []
    assert out.run.counters["replayed"] == len(given.model.layers) - 1


def test_larger_graphs_are_exact_and_counted(outcomes: dict[str, list[Outcome]]) -> None:
    """Operations are those of the golden plan, nearly: several searches may meet nodes in another order than one."""
    problems, _ = _larger()
    for number, out in enumerate(outcomes["larger"]):
        given, way = problems[number // len(WAYS)], WAYS[number % len(WAYS)]
        assert mismatches(given, out) == []
        total = Operations()
        for record in locate(given.graph, Schedule(7), LIMITS).records:
            columns = columns_of(record)
            total += operations_of(columns, plan(columns, replace(way, partners=2)))
        layers = len(given.model.layers)
        assert out.run.counters["gross"] == pytest.approx(layers * total.gross, rel=0.1)
        assert out.run.counters["formed"] == pytest.approx(layers * total.formed, rel=0.2)
        if way.kind is Kind.NONE:
            assert out.run.counters["gross"] == layers * total.baseline
            assert out.run.counters["formed"] == 0


def test_it_is_known_when_pes_worked(tmp_path: Path) -> None:
    given = larger(2, [8, 16], Model.GCN, 0.3)
    (outcome,) = run([Job([build_community_image(given, Schedule(7), LIMITS)], Settings(latency=30))], tmp_path)
    counts = activity(tmp_path).astype(np.int64)
    combiners = int(str(SMALL["combiners"]))
    multipliers, adders = counts[:, :combiners], counts[:, combiners:]
    # The chiplet counts its adders' work itself.
    assert adders.sum() == outcome.run.counters["worked"]
    # Of both combiners and both PEs, in every layer.
    starts = [phase.began // WINDOW for phase in outcome.run.phases if phase.opcode == "process"]
    for first, last in zip(starts, [*starts[1:], len(counts)], strict=True):
        assert multipliers[first:last].sum(axis=0).all()
        assert adders[first:last].sum(axis=0).all()
    # Nothing works before the first layer begins.
    assert not counts[: starts[0]].any()


def test_errors_end_a_run_and_are_told(outcomes: dict[str, list[Outcome]]) -> None:
    codes, given, _ = _errors()
    found = outcomes["errors"]
    assert [out.errors for out in found[::2]] == [[code] for code in codes]
    assert [mismatches(given, out) for out in found[1::2]] == [[]] * len(codes)


def test_a_reset_in_the_middle_leaves_nothing_behind(outcomes: dict[str, list[Outcome]]) -> None:
    given, _ = _resets()
    found = outcomes["resets"]
    assert any(out.cut_off for out in found)
    assert [mismatches(given, out) for out in found] == [[]] * len(found)
    assert len({out.cycles for out in found}) == 2


@full
def test_any_graph_in_any_tiles_is_exact(tmp_path: Path) -> None:
    """Random graphs, of which some vertices have many neighbours, in as little room as these need or more."""
    problems, work = [], []
    for seed in range(60):
        random = np.random.default_rng(seed)
        nodes = int(random.integers(1, 400))
        ends = (nodes * random.random((2, int(nodes * random.choice([0.5, 1, 3])))) ** (1, 2)[seed % 2]).astype(int)
        plain = Graph.from_edges(f"random {seed}", nodes, ends[0], ends[1], symmetrise=True)
        # Neighbours that do not fit are left out.
        keep = (plain.degrees[plain.edges] < 63) & (plain.degrees[plain.destinations] < 63)
        rows = random.normal(size=(nodes, 5)).astype(np.float32)
        features = rows if seed % 3 else sparse.csr_array(rows * (random.random(rows.shape) < 0.4))
        plain = Graph.from_edges(plain.name, nodes, plain.edges[keep], plain.destinations[keep], features=features)
        degree = int(plain.degrees.max())
        positions = int(random.integers(degree + 1, 65))
        room = Room(max(16, positions), int(random.integers(degree + 1, 1025)), 2, -(-positions // 2))
        problems.append(random_problem(plain, MODELS[seed % 3], [int(random.integers(1, 21)), 3], seed))
        schedule = Schedule(int(random.integers(0, 20)), bool(seed % 2))
        image = build_community_image(problems[-1], schedule, LIMITS, WAYS[seed % len(WAYS)], room=room)
        work.append(Job([image], Settings(latency=int(random.integers(1, 40)), stall=0.3 * (seed % 2), seed=seed)))
    found = [mismatches(given, out) for given, out in zip(problems, run(work, tmp_path), strict=True)]
    assert not any(found), found


def _in_shares() -> tuple[list[Problem], Work]:
    """Cliques and karate, whose records have many nodes: all models, rooted ones, in tiles, after resets."""
    graphs = []
    for n, name in enumerate(
        ("karate", "synthetic:windmill,nodes=41,degree=20", "synthetic:caveman,nodes=240,degree=23")
    ):
        graph, random = load(name), np.random.default_rng(n)
        rows = random.normal(size=(graph.nodes, 9)).astype(np.float32)
        graphs.append(replace(graph, features=sparse.csr_array(rows * (random.random(rows.shape) < 0.3))))
    problems = [
        *(
            random_problem(graph, model, [8, 5], n, RELU, NEURAL.core)
            for n, graph in enumerate(graphs)
            for model in MODELS
        ),
        *(rooted_problem(graph, model, [20, 4], n) for n, graph in enumerate(graphs) for model in MODELS[1:]),
    ]
    # Of cliques in a row, one or two vertices of each are hubs, and the rest is a record.
    beyond = [given.graph.nodes > ROOM.nodes for given in problems]
    images = [
        build_community_image(
            given, (Schedule(1 << 10), Schedule(23, False, 1))[beyond[n]], LIMITS, WAYS[n % len(WAYS)],
            room=(None, ROOM)[beyond[n]], scratch_lines=n % 2 * SCRATCH, weight_room=WEIGHTS,
        )
        for n, given in enumerate(problems)
    ]  # fmt: skip
    work = [Job([image], Settings(latency=20, stall=0.2 * (n % 2), seed=n)) for n, image in enumerate(images)]
    for cycle in (700, 1500, 2300):
        problems.append(problems[0])
        work.append(Job(work[0].images, Settings(latency=10, reset_after=cycle)))
    return problems, work


def _clusters(count: int, **sizes: int) -> dict[str, Any]:
    """Return the sizes of a chiplet in clusters whose PEs share records out."""
    each = dict.fromkeys(("clusters", "combiners", "units", "finishers"), count)
    locator = {**SMALL["locator"], "engines": count, "outputs": count}  # type: ignore[dict-item]
    # As many slots in all, of which there are too few in one of the errors.
    hubs = SMALL["hubs"] * SMALL["units"] // count  # type: ignore[operator]
    return {"locator": locator, "hubs": hubs, "pes": 4, "split": 8, **each, **sizes}


@pytest.mark.parametrize("clusters", [2, pytest.param(1, marks=full)])
def test_records_in_shares_are_exact(tmp_path: Path, clusters: int) -> None:
    """Records are split in each job, by loads, so in its layers other ones; corner graphs have none to split."""
    parts = [_in_shares(), _corners(), _in_tiles(), _directed(), _rooted()]
    work = [job for _, jobs in parts for job in jobs]
    found = run(work, tmp_path, **_clusters(clusters))
    given = [problems[n * len(problems) // len(jobs)] for problems, jobs in parts for n in range(len(jobs))]
    assert [mismatches(one, out) for one, out in zip(given, found, strict=True)] == [[]] * len(work)
    counted = [out.run.counters["shared"] for out in found[: len(parts[0][1])]]
    assert all(counted), counted


@pytest.mark.parametrize(
    ("clusters", "split"), [(2, 8), pytest.param(2, 0, marks=full), pytest.param(4, 0, marks=full)]
)
def test_clusters_are_exact(tmp_path: Path, clusters: int, split: int) -> None:
    """Clusters with a memory port each: in PROCESS, in stages, in tiles, directed, after errors and resets."""
    codes, after, errors = _errors()
    again, resets = _resets()
    parts = [_corners(), _larger(), _in_stages(), _in_tiles(), _directed(), _rooted()]
    work = [job for _, jobs in parts for job in jobs]
    found = run([*work, *errors, *resets], tmp_path, **_clusters(clusters, split=split))
    given = [problems[n * len(problems) // len(jobs)] for problems, jobs in parts for n in range(len(jobs))]
    assert [mismatches(one, out) for one, out in zip(given, found, strict=False)] == [[]] * len(work)
    failed, cut = found[len(work) :][: len(errors)], found[len(work) + len(errors) :]
    assert [out.errors for out in failed[::2]] == [[code] for code in codes]
    assert not any(mismatches(after, out) for out in failed[1::2])
    assert not any(mismatches(again, out) for out in cut)


@pytest.mark.parametrize(
    ("combiners", "multipliers", "pes", "units", "lanes"),
    [
        # As a chiplet on a ring of `configs/community.toml`.
        (1, 16, 2, 1, 8),
        *(
            pytest.param(*sizes, marks=full)
            for sizes in ((1, 8, 1, 1, 8), (4, 4, 4, 1, 4), (8, 8, 8, 4, 8), (3, 16, 2, 2, 8), (5, 4, 3, 2, 16))
        ),
    ],
)
def test_other_sizes_are_exact(
    tmp_path: Path, combiners: int, multipliers: int, pes: int, units: int, lanes: int
) -> None:
    """Combiners, PEs, hub units and lanes: 8 to 64 multipliers, more or fewer of a combiner than adders of a PE."""
    given = [larger(n, [20, 5], model, 0.4) for n, model in enumerate(MODELS)]
    scratch = 0 if pes == 1 else SCRATCH
    # Of an image for a larger scratchpad, or for a chiplet that has one, the rest is in memory.
    meant = 2 * SCRATCH if pes == 2 else SCRATCH
    images = [
        build_community_image(one, Schedule(7), LIMITS, way, scratch_lines=meant) for one in given for way in WAYS
    ]
    work = [Job([image], Settings(stall=0.2)) for image in images]
    community = {**SMALL["community"], "lanes": lanes, "multipliers": multipliers, "ways": lanes // 4}  # type: ignore[dict-item]
    finishers = max(1, pes // 2)
    sizes = {"combiners": combiners, "pes": pes, "units": units, "finishers": finishers, "community": community}
    outcomes = run(work, tmp_path, scratch_lines=scratch, **sizes)
    assert [mismatches(given[n // len(WAYS)], out) for n, out in enumerate(outcomes)] == [[]] * len(work)


@pytest.mark.parametrize(
    "wrong",
    [
        {"pes": 0}, {"combiners": 0}, {"combiners": 17}, {"kept": 48}, {"finishers": 0}, {"finishers": 13},
        {"units": 3}, {"scratch_lines": 64}, {"scratch_lines": 192},
        {"clusters": 3}, {"clusters": 2, "finishers": 1}, {"clusters": 4, "pes": 6},
        {"community": {"ways": 3}}, {"community": {"multipliers": 3}}, {"community": {"multipliers": 32}},
        {"locator": {"outputs": 5}}, {"community": {"width": 64}},
        {"community": {"data_width": 64}}, {"community": {"width": 12}}, {"community": {"columns": 128}},
        {"community": {"partners": 0}}, {"locator": {"external": True}}, {"locator": {"window": 1024}},
    ],
)  # fmt: skip
def test_sizes_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        chiplet_config(**wrong)  # type: ignore[arg-type]
