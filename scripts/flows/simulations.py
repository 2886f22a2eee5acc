"""Simulating a machine of any kind for `atoll run`: a chiplet of gather or community PEs, alone or on a ring."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from contracts import Error, Opcode, Split
from golden.community.image import build_community_image, build_community_images, tiles_of
from golden.community.plan import PAIRS, scheme_of
from golden.community.tiles import Room, Subgraph, cut
from golden.compare import layer_differences
from golden.graph import IntArray
from golden.head import TASKS
from golden.image import Image, build_image
from golden.locator.record import Record
from golden.locator.schedule import ANY, Choice
from golden.metrics import compulsory_bytes, limit_cycles, useful_operations, work_of
from golden.model.layer import Int16Array
from golden.model.network import LayerResult, Problem, predictions
from golden.model.topology import Topology
from golden.program.chiplet import by_topology
from golden.program.session import Session
from golden.ring.by_graphs import graphs_apart
from golden.ring.image import build_images
from golden.ring.need import by_need
from golden.ring.partition import imbalance, placed_apart, sums_pay
from golden.ring.placement import CHIPLETS_MAX, Placement
from golden.ring.traffic import Traffic, traffic
from hw.community.config import CommunityChipletConfig
from hw.config import MachineConfig
from scripts.flows.location import Located, Search, limits_of, read_back, search_of, wrong_records
from scripts.flows.progress import Steps, building, simulating
from scripts.flows.schema import Aggregation, Communities, RingTraffic, Thresholds
from sim.harness import Result
from sim.models.activity import activity, cycles_so_far
from sim.runner.batches import BatchJob, Ran
from sim.runner.build import build_machine
from sim.runner.jobs import Job, Outcome, Settings
from sim.runner.phases import Phase, every_cycle
from sim.runner.run import AnyJob, run_jobs
from sim.runner.sessions import SessionJob

__all__ = [
    "PLACEMENTS",
    "HeadRun",
    "Placed",
    "Simulated",
    "aggregation",
    "classes_of",
    "images_of",
    "least_cycles",
    "limits_of",
    "place",
    "room_of",
    "simulate",
    "simulate_batches",
    "simulate_head",
    "simulate_session",
]

T = TypeVar("T")

#: Cycles after which a machine that has not completed is an error.
_LIMIT = 100_000_000
#: Ways to share a graph out to chiplets.
PLACEMENTS = ("tiles", "communities")


@dataclass(frozen=True, eq=False)
class Simulated:
    """What a simulation found.

    Attributes
    ----------
    differences
        A line for each layer that is not bit-exact, or for each chiplet that ended with an error.
    results
        int16 [nodes, f_out], results of the last layer, in the order in which the graph was given.
    cycles, seconds
        Of the machine and of the simulator.
    read, written
        Bytes through all memory ports.
    phases
        Of every chiplet's commands and of the gaps between them, from its start to its completion.
    working
        Of every chiplet, see `sim.models.activity.activity`.
    unit_cycles
        Cycles in which each part of every chiplet worked, from the registers of its control port.
    hidden
        int16 [nodes, features], results of the layer before the last as they lie in memory; None if there is none, or
        they stayed on the chip.
    ring, aggregation, communities
        Figures of these names in `result.json`, or None.
    located
        Records that the hardware found for the first layer, by chiplet and tile, with VIDs of the graph as
        given. To a part of the graph vertices that are not its own are hubs, and halves of partial sums are left out.
        None with gather PEs, or if the run ended with an error.
    """

    differences: list[str]
    results: Int16Array
    cycles: int
    seconds: float
    read: int
    written: int
    phases: Sequence[list[Phase]]
    working: Sequence[npt.NDArray[np.uint8]]
    unit_cycles: Sequence[Sequence[int]]
    hidden: Any = None
    ring: RingTraffic | None = None
    aggregation: Aggregation | None = None
    communities: Communities | None = None
    located: Located | None = None

    @property
    def records(self) -> list[Record] | None:
        """Records of the whole graph, with VIDs as given, or of its double cover.

        None if there are none, and if the graph was located in parts, on a ring or in tiles: no order of all vertices
        then shows what was found, since a vertex can be a hub to one part and in a community of another.
        """
        whole = self.located is not None and [len(tiles) for tiles in self.located] == [1]
        return self.located[0][0] if self.located and whole else None

    @property
    def predictions(self) -> IntArray:
        """int64 [nodes], classes by these results."""
        return classes_of(self.results)


@dataclass(frozen=True, eq=False)
class Placed:
    """A network on a graph whose VIDs say which chiplet owns them.

    Attributes
    ----------
    name
        One of `PLACEMENTS`, or ``graphs``: whole small graphs.
    problem
        The same network, VIDs and rows in their new order.
    position
        int64 [nodes], VID here of each VID in the graph as given.
    placement
        Who owns what.
    search
        How communities are located; None with gather PEs.
    seconds
        That the host took to say who owns what.
    """

    name: str
    problem: Problem
    position: IntArray
    placement: Placement
    search: Search | None = None
    seconds: float = 0.0


def place(
    sizes: MachineConfig,
    problem: Problem,
    name: str | None = None,
    choice: Choice = ANY,
) -> Placed:
    """Share a graph out to chiplets; one has all of it, as it is if it fits. Small graphs of a batch stay whole.

    Parameters
    ----------
    sizes
        The machine. If it is one chiplet with community PEs and has no room for the graph at once, communities are kept
        together in as many parts as there would be tiles otherwise. On rings of such chiplets partial sums of hubs
        travel only where that is faster, unless edges are split by their sources.
    problem
        Network and graph.
    name
        One of `PLACEMENTS`. None: communities where one chiplet with community PEs has no room for the graph at once,
        tiles otherwise.
    choice
        Of thresholds and sizes of communities.

    Raises
    ------
    InputError
        If a vertex with its neighbours does not fit; as for `search_of`.
    """
    graph, began = problem.graph, time.perf_counter()
    config, ring = sizes.community, sizes.ring
    parts = chiplets = sizes.chiplets
    name = name or ("tiles" if chiplets > 1 else "communities")
    search = search_of(graph, config, choice, chiplets)
    if graph.graph_of is not None and (chiplets > 1 or config):
        # No row of a small graph travels, and its vertex is in the tile of its nodes.
        position, placement = graphs_apart(graph, chiplets)
        return Placed("graphs", problem.relabelled(position), position, placement, search)
    if chiplets == 1 and config and search and name != "tiles":
        subgraph, room = Subgraph.whole(graph), room_of(config)
        if not subgraph.fits(room, search.schedule, search.limits):
            parts = min(CHIPLETS_MAX, len(list(cut(subgraph, room, search.schedule, search.limits))))
    position, placement = np.arange(graph.nodes), Placement.ranges(graph.nodes, chiplets)
    if parts == 1:
        name = "tiles"
    if name != "tiles":
        position, apart = placed_apart(graph, parts, work_of(problem))
        placement = apart if chiplets > 1 else placement
    placement = placement.by(sizes.split)
    if chiplets > 1 and config:
        there = graph.relabelled(position)
        widest = max(layer.f_out for layer in problem.model.layers)
        if ring and sizes.split == Split.DESTINATION:
            pays = sums_pay(there, placement, min(widest, ring.max_out), ring.link_width)
            placement = placement if pays else placement.without_sums
        # Chiplets with community PEs combine what stays there beside their sums.
        assert search is not None
        order, placement = by_need(
            there, placement, search.schedule, search.limits, room_of(config), np.argsort(position)
        )
        position = order[position]
    seconds = time.perf_counter() - began
    return Placed(name, problem.relabelled(position), position, placement, search, seconds)


def simulate(
    sizes: MachineConfig,
    problem: Problem,
    exact: list[LayerResult],
    folder: Path,
    steps: Steps,
    *,
    placed: Placed | None = None,
    hidden: bool = False,
) -> Simulated:
    """Simulate an inference, in the steps `building`, `simulating` and comparison.

    Parameters
    ----------
    sizes
        The machine.
    problem, exact
        Network and graph, and what the golden model makes of them.
    folder
        For images and results.
    steps
        Shows how far it is.
    placed
        Who owns what; a chiplet that is alone has all.
    hidden
        Whether all results are wanted in memory, even those that could stay on the chip.

    Raises
    ------
    InputError
        If a vertex with its neighbours is too large for the configuration.
    """
    placed = placed or place(sizes, problem)
    images = images_of(sizes, placed, hidden=hidden)
    least = least_cycles(sizes, problem, exact)
    (outcome,), simulation = _built(sizes, [_job(sizes, images)], folder, steps, least=least)
    steps.step("comparison")
    # In the order in which the graph was given.
    results = {layer: rows[placed.position] for layer, rows in outcome.results.items()}
    layers = len(problem.model.layers)
    errors, found = _errors(outcome), None
    counters = [run.counters for run in outcome.runs]
    if placed.search and not errors:
        found = read_back(folder, problem.graph, placed.position, images)
        errors = wrong_records(problem.graph, placed.search, found)
    return Simulated(
        differences=errors or layer_differences(exact, results),
        results=results[layers - 1],
        cycles=outcome.cycles,
        seconds=simulation.seconds,
        read=sum(run.memory["bytes_read"] for run in outcome.runs),
        written=sum(run.memory["bytes_written"] for run in outcome.runs),
        phases=[every_cycle(run.phases, run.began, run.ended) for run in outcome.runs],
        working=[activity(folder, n) for n in range(sizes.chiplets)],
        unit_cycles=[run.working for run in outcome.runs],
        hidden=results.get(layers - 2),
        ring=_traffic(placed, outcome.links) if sizes.ring else None,
        aggregation=aggregation(problem, images[0], counters) if sizes.community else None,
        communities=_communities(counters, images, placed, placed.search) if placed.search else None,
        located=found,
    )


def least_cycles(sizes: MachineConfig, problem: Problem, exact: Sequence[LayerResult]) -> int:
    """Return the cycles below which no machine with these lanes and memory ports computes a network."""
    chiplet = sizes.chiplet
    useful, bound = useful_operations(problem, exact), compulsory_bytes(problem)
    return limit_cycles(useful, sizes.chiplets * chiplet.lanes, bound, sizes.chiplets * chiplet.port_bytes)


def simulate_batches(
    sizes: MachineConfig,
    jobs: Sequence[BatchJob],
    folder: Path,
    steps: Steps,
) -> list[list[Ran]]:
    """Simulate mini-batches on the machine of `simulate`, which is reset before each job; return the outcome of each.

    Parameters
    ----------
    sizes
        The machine, with attribute cores.
    jobs
        Memories and batches of all chiplets.
    folder, steps
        As for `simulate`; another folder.
    """
    return _built(sizes, jobs, folder, steps, "mini-batches")[0]


def simulate_session(sizes: MachineConfig, sessions: Sequence[Session], folder: Path, steps: Steps) -> list[Outcome]:
    """Simulate a session on the machine of `simulate`.

    Parameters
    ----------
    sizes
        The machine.
    sessions
        One a chiplet.
    folder, steps
        As for `simulate`; another folder.
    """
    job = SessionJob(sessions, Settings(limit=_LIMIT, settle=sizes.chiplet.settling))
    return _built(sizes, [job], folder, steps, "the session")[0][0]


@dataclass(frozen=True, eq=False)
class HeadRun:
    """What a simulation of a head found.

    Attributes
    ----------
    errors
        A line if the chiplet ended with an error.
    results
        int16 rows by place in `golden.head.TASKS`.
    cycles
        By the names of these tasks, ``commands`` before, between and after them, and ``total``.
    """

    errors: list[str]
    results: list[Any]
    cycles: dict[str, int]


def simulate_head(sizes: MachineConfig, image: Image, folder: Path, steps: Steps) -> HeadRun:
    """Let a head learn and score on the neural chip of the first chiplet, in the machine of `simulate`.

    Parameters
    ----------
    sizes
        As for `simulate`; the other chiplets do nothing.
    image
        See `golden.head.HeadProblem.image`.
    folder, steps
        As for `simulate`; another folder.
    """
    (outcome,), _ = _built(sizes, [_job(sizes, [image])], folder, steps, "the head")
    spent, run = {**{task.value: 0 for task in TASKS}, "commands": 0}, outcome.run
    for phase in every_cycle(run.phases, run.began, run.ended):
        spent["commands" if phase.layer is None else TASKS[phase.layer].value] += phase.cycles
    results = [outcome.results[number] for number in range(len(TASKS))]
    return HeadRun(_errors(outcome), results, {**spent, "total": outcome.cycles})


def _built(
    sizes: MachineConfig, jobs: Sequence[AnyJob[T]], folder: Path, steps: Steps, what: str = "", least: int = 0
) -> tuple[list[T], Result]:
    """Build the simulator of a machine and run jobs on it, which take `least` cycles or more."""
    steps.step(building(what))
    size = max(job.size for job in jobs)
    build_machine(sizes.chiplet, sizes.units, sizes.ring, size=size, hosted=True)
    with steps.simulating(simulating(what), lambda: cycles_so_far(folder), least) as ended:
        left, simulation = run_jobs(sizes.chiplet, jobs, folder, units=sizes.units, ring=sizes.ring, hosted=True)
        ended(simulation.cycles)
    return left, simulation


def _job(sizes: MachineConfig, images: Sequence[Image]) -> Job:
    """Return the run of an image for each chiplet, or for the first of them.

    It does not wait after a reset beyond the time that filling the memories takes.
    """
    return Job(images, Settings(limit=_LIMIT, settle=sizes.chiplet.settling))


def room_of(config: CommunityChipletConfig) -> Room:
    """Return what a chiplet can hold of a graph at a time."""
    return Room(config.locator.nodes, config.locator.edges, config.units, config.hubs)


def aggregation(problem: Problem, image: Image, counters: Sequence[dict[str, int]]) -> Aggregation:
    """Count additions of vectors; without shared sums, each block of columns of a layer has one for each entry."""
    process = [command.fields for command in image.commands if command.opcode == Opcode.PROCESS]
    blocks = Counter(layer for layer, _ in {(fields["layer"], fields["first_granule"]) for fields in process})
    gross = sum(counts["gross"] for counts in counters)
    return Aggregation(
        scheme=scheme_of(process[0]).describe() if process else PAIRS.describe(),
        baseline=sum(
            blocks[number] * (topology.graph.edge_count + (0 if layer.root else topology.graph.nodes))
            for number, (layer, topology) in enumerate(zip(problem.model.layers, problem.topologies, strict=True))
        ),
        gross=gross,
        net=gross + sum(counts["formed"] for counts in counters),
    )


def _communities(
    counters: Sequence[dict[str, int]], images: Sequence[Image], placed: Placed, search: Search
) -> Communities:
    """Add up all chiplets; each takes the vertices of others for hubs that it does not count, as a tile does."""
    found = {name: sum(counts[name] for counts in counters) for name in ("hubs", "communities", "edges_read")}
    rounds = max(counts["rounds"] for counts in counters)
    schedule, limits = search.schedule, search.limits
    thresholds = Thresholds(schedule.threshold, schedule.halving, schedule.step, limits.c_max)
    return Communities(
        **found,
        rounds=rounds,
        tiles=[tiles_of(image) for image in images],
        placement=placed.name,
        placing_seconds=placed.seconds,
        schedule=thresholds,
    )


def _traffic(placed: Placed, links: Sequence[dict[str, int]]) -> RingTraffic:
    """Count words on the links, beside the words of other ways to bring each feature where it is needed."""
    problem, placement = placed.problem, placed.placement

    def least(topology: Topology) -> Traffic:
        return traffic(topology.graph, placement.without_sums if topology.apart else placement)

    every = list(zip(by_topology(problem, least), problem.topologies, problem.model.layers, strict=True))
    none = np.zeros(placement.chiplets, dtype=np.int64)
    travels = [(rows, layer.f_out) for rows, topology, layer in every if not topology.alone]
    return RingTraffic(
        placement=placed.name,
        imbalance=imbalance(placement, work_of(problem)),
        placing_seconds=placed.seconds,
        words_by_link=[link["feature_words"] + link["partial_words"] for link in links],
        minimum=sum((rows.words(elements) for rows, elements in travels), none).tolist(),
        unicast=sum(rows.unicast * elements for rows, elements in travels),
        broadcast=sum(rows.broadcast * elements for rows, elements in travels),
    )


def images_of(sizes: MachineConfig, placed: Placed, *, hidden: bool = False) -> list[Image]:
    """Make an image for each chiplet.

    Parameters
    ----------
    sizes, placed
        The machine, and who owns what.
    hidden
        Whether all results are left in memory.

    Raises
    ------
    InputError
        As for :func:`simulate`.
    """
    config, problem, placement = sizes.community, placed.problem, placed.placement
    alone, rooms = sizes.ring is None, dict[str, Any](weight_room=sizes.chiplet.pe.weight_room)
    rooms["scratch_lines"] = 0 if hidden else sizes.chiplet.scratch_lines
    if config is None and alone:
        return [build_image(problem, **rooms)]
    if not alone:
        rooms["matching"] = sizes.matching
    if config is None:
        return build_images(problem, placement, **rooms)
    assert placed.search is not None
    schedule, limits, scheme = placed.search
    room, names = room_of(config), np.argsort(placed.position)
    if alone:
        return [build_community_image(problem, schedule, limits, scheme, room=room, names=names, **rooms)]
    return build_community_images(problem, placement, schedule, limits, scheme, room=room, names=names, **rooms)


def _errors(outcome: Outcome) -> list[str]:
    """Say what the hardware reported, a line for each chiplet that failed."""
    lines = []
    for chiplet, said in enumerate(run.completion for run in outcome.runs):
        if said["error"]:
            error = Error(said["error"])
            where = f"chiplet {chiplet} ended with {error.name}"
            lines.append(f"{where} ({error.doc.split(';')[0]}), info {said['info']:#x}")
    return lines


def classes_of(rows: Int16Array) -> IntArray:
    """Classes by the results that the hardware left: int64 [nodes]; none for a graph without nodes."""
    return predictions(rows) if len(rows) else np.zeros(0, np.int64)
