"""The smallest chiplet with a ring interface: short runs, exact to the cycle, and every error, in seconds."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from contracts import LINE_BYTES, Error, Matching, Model, Opcode, RegionKind, Split
from golden.graph import Graph
from golden.image import PART_ROWS
from golden.model.network import Problem, infer
from golden.ring.image import PART, build_images
from golden.ring.placement import Placement
from golden.ring.traffic import traffic
from hw.chiplet.chiplet import Chiplet
from hw.chiplet.config import GatherChipletConfig
from hw.machine import machine_of
from hw.pe.formats import PEConfig
from hw.ring.formats import RingConfig
from sim.problems import random_graph, random_problem
from sim.runner.jobs import Expected, Job, Settings
from sim.runner.run import run_component
from tb.ring.cases import commanded, commands, highest, patched

#: Most chiplets of the simulated ring.
CHIPLETS = 3
#: Elements of the longest row: two flits of values, four of sums.
MAX_OUT = 8
#: Every run here is shorter.
LIMIT = 30_000
#: Memories begin at addresses that together have every bit.
FAST = Settings(latency=1, limit=LIMIT, origin=0x5A5A_5000)
STALLED = Settings(latency=30, stall=0.4, out_of_order=True, seed=3, limit=LIMIT, origin=0xA5A5_A000)


#: What a completion may say beside its error: anything, one number, or some by error.
Info = int | dict[int, list[int] | None] | None


def chiplet(chiplets: int = CHIPLETS) -> Chiplet:
    """Return the design under test: two lanes, beats of 64 bits, the smallest buffers that are legal."""
    pe = PEConfig(lanes=2, data_width=64, max_out=MAX_OUT, weight_rows=64)
    ring = RingConfig(chiplets=chiplets, link_width=64, slots=2, max_out=MAX_OUT, window=2, bitmap=64)
    return machine_of(GatherChipletConfig(groups=1, pes=1, pe=pe, depth=32), ring=ring)


def good(
    problem: Problem,
    placement: Placement,
    settings: Settings,
    cycles: str | None = None,
    *,
    matching: Matching = Matching.UNORDERED,
    part: int = PART,
) -> Job:
    """Run whose results and traffic are those of the golden models."""
    least = traffic(problem.graph, placement)
    images = build_images(problem, placement, matching=matching, part=part)
    elements = sum(layer.f_out for layer in problem.model.layers)
    chiplets = placement.chiplets
    expected = Expected(
        errors=[Error.NONE] * chiplets,
        infos=[0] * chiplets,
        results=[layer.results for layer in infer(problem)],
        links={
            "feature_words": (least.features * elements).tolist(),
            "partial_words": (2 * least.partials * elements).tolist(),
        },
        cycles=cycles and f"ring.ring_chiplet.{cycles}",
        phases=[commands(image) for image in images],
    )
    return Job(images, settings, expected)


def good_jobs() -> list[Job]:
    small, large = random_graph(1, 21, 90, 4, 1.0), random_graph(2, 90, 300, 3, 0.5)
    star = Graph.from_edges("star", 12, [5] * 11, [n for n in range(12) if n != 5], symmetrise=True)
    star = replace(star, features=random_graph(3, 12, 20, 3, 1.0).features)
    hubs = highest(small, 4)
    # VIDs of ten bits; few of them travel.
    far = random_graph(4, 700, 60, 2, 0.3)
    return [
        good(random_problem(small, Model.GCN, [7, 3], 1), Placement.ranges(21, 3, hubs), FAST, "hubs"),
        good(
            random_problem(large, Model.SAGE, [2], 2),
            Placement.ranges(90, 3, highest(large, 11)),
            FAST,
            "windows",
            matching=Matching.IN_ORDER,
            part=PART_ROWS,
        ),
        good(random_problem(far, Model.GIN, [1], 6), Placement.at([0, 9, 640, 700]), FAST, "far"),
        good(
            random_problem(small, Model.GIN, [8], 3),
            Placement.ranges(21, 2),
            STALLED,
            "stalled",
            matching=Matching.IN_ORDER,
        ),
        good(
            random_problem(small, Model.GCN, [5], 4),
            Placement.at([0, 0, 13, 21]).by(Split.SOURCE),
            replace(STALLED, seed=5, out_of_order=False, late={1: 700}),
            "by_source",
        ),
        good(random_problem(star, Model.GCN, [8, 8], 5), Placement.at([0, 8, 8, 12], [5]), FAST, "star"),
    ]


def _broken(victim: int, error: Error, info: Info, chiplets: int = CHIPLETS) -> Expected:
    """One chiplet finds an error, all others hear of it from there."""
    told = victim | error << 8
    return Expected(
        [error if n == victim else Error.PEER for n in range(chiplets)],
        [info if n == victim else told for n in range(chiplets)],
    )


def bad_jobs() -> list[Job]:
    graph = random_graph(1, 21, 90, 4, 1.0)
    problem = random_problem(graph, Model.GCN, [7, 3], 1)
    hubs = highest(graph, 4)
    images = build_images(problem, Placement.ranges(21, CHIPLETS, hubs))
    jobs = []

    def breaks(victim: int, error: Error, info: Info, image: Any = None, **settings: Any) -> None:
        changed = [image if image and n == victim else given for n, given in enumerate(images)]
        jobs.append(Job(changed, replace(FAST, **settings, failing=victim), _broken(victim, error, info)))

    # All bits of a VID and of a completion's info.
    highest_vid = (1 << 32) - 1
    breaks(1, Error.VID_RANGE, highest_vid, patched(images[1], RegionKind.EDGES, 3, highest_vid))
    breaks(2, Error.TILE_RANGE, 4, patched(images[2], RegionKind.OUT_TILES, 4, 0x80000000))
    breaks(0, Error.VID_RANGE, 20, patched(images[0], RegionKind.SHARED_EDGES, 0, 20))
    breaks(0, Error.BAD_OPERAND, 2, commanded(images[0], Opcode.SCATTER, tiles=2))
    breaks(1, Error.BAD_OPERAND, 0, commanded(images[1], Opcode.SCATTER, f_out=0))
    breaks(2, Error.BAD_OPERAND, MAX_OUT + 1, commanded(images[2], Opcode.REDUCE, f_out=MAX_OUT + 1))
    homes = images[1].region(RegionKind.HUB_HOMES)
    line = homes.line + FAST.origin // LINE_BYTES
    breaks(1, Error.MEMORY_READ, line, read_errors=(homes.address, homes.address + 3))
    # All of chiplet 0's halo.
    combined = images[0].region(RegionKind.COMBINED)
    halo = (combined.address + 7 * combined.row_bytes, combined.address + 21 * combined.row_bytes - 1)
    lines = [FAST.origin // LINE_BYTES + address // LINE_BYTES for address in range(halo[0], halo[1], 8)]
    breaks(0, Error.MEMORY_WRITE, {Error.MEMORY_WRITE: lines}, write_errors=halo)
    # What the chiplet itself reads and writes.
    features = next(region.kind for region in images[0].regions if region.kind.name.startswith("FEATURES"))
    for victim, kind, writes in ((0, features, 0), (2, RegionKind.COMBINED, 1)):
        region = images[victim].region(kind)
        first = region.address + (14 * region.row_bytes if writes else 0)
        line = (FAST.origin + first) // LINE_BYTES
        failing = {("read_errors", "write_errors")[writes]: (first, first + 3)}
        breaks(victim, (Error.MEMORY_READ, Error.MEMORY_WRITE)[writes], line, **failing)

    pair = Graph.from_edges("pair", 4, [0, 1], [2, 3])
    two = build_images(random_problem(pair, Model.SAGE, [3], 1), Placement.ranges(4, 2))
    silent = patched(two[0], RegionKind.OUT_TILES, 1, 0)
    # Chiplet 0 has all it needs, so it ends before it could hear of that.
    jobs.append(Job([silent, two[1]], FAST, Expected([Error.NONE, Error.MISSING], [0, 1])))

    # Rows of another length, another's rows, and a reset of one while others work: whoever notices first says so.
    def any_of(*errors: Error) -> Info:
        """VIDs, and who else may have found what."""
        heard = [n | error << 8 for n in range(CHIPLETS) for error in errors]
        return {Error.PEER: heard, **{int(error): list(range(21)) for error in errors}}

    any_ = [Error.BAD_PACKET, Error.PEER]
    for odd in (commanded(images[0], Opcode.SCATTER, f_out=3), commanded(images[0], Opcode.REDUCE, f_out=3)):
        said = Expected([any_] * CHIPLETS, [any_of(Error.BAD_PACKET)] * CHIPLETS)
        jobs.append(Job([odd, *images[1:]], FAST, said))
    stranger = commanded(images[1], Opcode.SCATTER, first_vertex=6)
    any_ = [Error.VID_RANGE, Error.BAD_PACKET, Error.PEER]
    said = Expected([any_] * CHIPLETS, [any_of(Error.VID_RANGE, Error.BAD_PACKET)] * CHIPLETS)
    jobs.append(Job([images[0], stranger, images[2]], FAST, said))
    any_ = [Error.LINK, Error.PEER, Error.BAD_PACKET]
    heard = [n | error << 8 for n in range(CHIPLETS) for error in (Error.LINK, Error.BAD_PACKET)]
    for victim, after in ((0, 500), (1, 650), (2, 800), (1, 1000)):
        infos: list[Info] = [{Error.LINK: [victim], Error.PEER: heard, Error.BAD_PACKET: None}] * CHIPLETS
        infos[victim] = {
            Error.LINK: [n for n in range(CHIPLETS) if n != victim],
            Error.PEER: heard,
            Error.BAD_PACKET: None,
        }
        reset = replace(FAST, reset_one=(victim, after, 300))
        jobs.append(Job(images, reset, Expected([any_] * CHIPLETS, infos)))
    jobs.append(good(problem, Placement.ranges(21, CHIPLETS, hubs), replace(STALLED, reset_after=900)))
    return jobs


def launch(component: Chiplet, given: Mapping[str, Any], directory: Path | None = None) -> None:
    """Run all jobs on a ring of `component`.

    Raises
    ------
    AssertionError
        If one does not end as expected.
    """
    with TemporaryDirectory() as scratch:
        run_component(component, [*good_jobs(), *bad_jobs()], directory or Path(scratch), name="smallest_ring")


def test_ring_chiplet(tmp_path: Path) -> None:
    launch(chiplet(), {}, tmp_path)
