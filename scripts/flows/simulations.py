"""Simulating a machine of any kind for `atoll run`: a chiplet of gather or community PEs, alone or on a ring."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.attributes.batch import BatchImage
from golden.community.image import build_community_image, build_community_images, tiles_of
from golden.community.tiles import Room, Share, cut
from golden.compare import layer_differences
from golden.contracts import Error
from golden.graph import Graph, IntArray
from golden.head import TASKS
from golden.image import Image, build_image
from golden.islands.locator import Limits
from golden.islands.schedule import falling
from golden.model.layer import Int16Array
from golden.model.network import LayerResult, Problem, predictions, problem_of
from golden.ring.by_communities import communities_apart
from golden.ring.image import build_images
from golden.ring.placement import CHIPLETS_MAX, Placement
from golden.ring.traffic import traffic
from hw.community.chiplet import MachineConfig
from scripts.config import Sizes
from tb.attributes.batch_jobs import Ran, run_batches
from tb.chiplet.host import Phase
from tb.chiplet.jobs import Job, Settings, run_jobs
from tb.models.activity import activity
from tb.models.memory import LATENCY
from tb.ring.jobs import RingJob, RingSettings, run_ring

__all__ = [
    "PLACEMENTS",
    "HeadRun",
    "Placed",
    "Simulated",
    "classes_of",
    "images_of",
    "limits_of",
    "place",
    "room_of",
    "simulate",
    "simulate_batches",
    "simulate_head",
]

#: Cycles after which a ring that has not completed is an error.
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
    predictions
        int64 [nodes], classes.
    cycles, seconds
        Of the machine and of the simulator.
    read, written
        Bytes through all memory ports.
    phases
        Of every chiplet's commands.
    working
        Of every chiplet, see `tb.models.activity.activity`.
    hidden
        int16 [nodes, features], results of the layer before the last as they lie in memory; None if there is none, or
        they stayed on the chip.
    ring, aggregation, communities
        What `result.json` says under these names, or None.
    """

    differences: list[str]
    predictions: Any
    cycles: int
    seconds: float
    read: int
    written: int
    phases: Sequence[list[Phase]]
    working: Sequence[npt.NDArray[np.uint8]]
    hidden: Any = None
    ring: dict[str, Any] | None = None
    aggregation: dict[str, Any] | None = None
    communities: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Placed:
    """A network on a graph whose VIDs say which chiplet owns them.

    Attributes
    ----------
    name
        One of `PLACEMENTS`.
    problem
        The same network, VIDs and rows in their new order.
    position
        int64 [nodes], VID here of each VID in the graph as given.
    placement
        Who owns what.
    """

    name: str
    problem: Problem
    position: IntArray
    placement: Placement


def place(problem: Problem, chiplets: int, name: str = "tiles", config: MachineConfig | None = None) -> Placed:
    """Share a graph out to chiplets; one has all of it, as it is if it fits.

    Parameters
    ----------
    problem, chiplets
        Network and graph, and how many chiplets there are.
    name
        One of `PLACEMENTS`.
    config
        Sizes of a chiplet with community PEs. If it is alone and has no room for the graph at once, communities are
        kept together in as many parts as there would be tiles otherwise.

    Raises
    ------
    InputError
        If communities are asked for and the graph is not symmetric, or a vertex with its neighbours does not fit.
    """
    graph = problem.graph
    parts = chiplets
    if chiplets == 1 and config is not None and name != "tiles":
        share, room = Share.whole(graph), room_of(config)
        if not share.fits(room, falling(graph), limits_of(config)):
            parts = min(CHIPLETS_MAX, len(list(cut(share, room))))
    if name == "tiles" or parts == 1:
        return Placed("tiles", problem, np.arange(graph.nodes), Placement.tiles(graph.nodes, chiplets))
    graph.require_symmetric("placement by communities")
    # Moves make words on a ring fewer, of which there are none with one chiplet.
    position, placement = communities_apart(graph, parts, moves=chiplets > 1)
    if chiplets == 1:
        placement = Placement.tiles(graph.nodes, 1)
    moved = problem_of(graph.relabelled(position), problem.features[np.argsort(position)], problem.model)
    return Placed(name, moved, position, placement)


def simulate(
    sizes: Sizes,
    problem: Problem,
    exact: list[LayerResult],
    folder: Path,
    *,
    placed: Placed | None = None,
    hidden: bool = False,
) -> Simulated:
    """Simulate an inference.

    Parameters
    ----------
    sizes
        The machine.
    problem, exact
        Network and graph, and what the golden model makes of them.
    folder
        For images and results.
    placed
        Who owns what; a chiplet that is alone has all.
    hidden
        Whether all results are wanted in memory, even those that could stay on the chip.

    Raises
    ------
    InputError
        If a vertex with its neighbours is too large for the configuration, or the graph is not symmetric where
        communities are needed.
    """
    placed = placed or place(problem, sizes.chiplets)
    images = images_of(sizes, placed, hidden=hidden)
    ran = _run(sizes, images, folder)
    # In the order in which the graph was given.
    results = {layer: rows[placed.position] for layer, rows in ran.results.items()}
    layers = len(problem.model.layers)
    community = isinstance(sizes.chiplet, MachineConfig)
    return Simulated(
        differences=_errors(ran.completions) or layer_differences(exact, results),
        predictions=classes_of(results[layers - 1]),
        cycles=ran.cycles,
        seconds=ran.seconds,
        read=sum(memory["bytes_read"] for memory in ran.memories),
        written=sum(memory["bytes_written"] for memory in ran.memories),
        phases=ran.phases,
        working=[activity(folder, n if sizes.ring else None) for n in range(sizes.chiplets)],
        hidden=results.get(layers - 2),
        ring=_traffic(placed, ran.links) if sizes.ring else None,
        aggregation=_aggregation(problem.graph, layers, ran.counters) if community else None,
        communities=_communities(ran.counters, images) if community else None,
    )


def simulate_batches(sizes: Sizes, image: BatchImage, shares: Sequence[Sequence[IntArray]], folder: Path) -> list[Ran]:
    """Simulate mini-batches on the machine of `simulate`.

    Parameters
    ----------
    sizes
        The machine, with attribute cores.
    image
        Memory of every chiplet.
    shares
        Roots of the batches of every chiplet.
    folder
        For images and results; another one than that of `simulate`.
    """
    return run_batches(
        sizes.chiplet, sizes.units, image, shares, folder, ring=sizes.ring, name=sizes.name, hosted=True
    )[0]


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
        By the names of these tasks, and ``total``.
    """

    errors: list[str]
    results: list[Any]
    cycles: dict[str, int]


def simulate_head(sizes: Sizes, image: Image, folder: Path) -> HeadRun:
    """Let a head learn and score on the neural chip of the first chiplet, in the machine of `simulate`.

    Parameters
    ----------
    sizes
        As for `simulate`; the other chiplets do nothing.
    image
        See `golden.head.HeadProblem.image`.
    folder
        For images and results; another one than that of `simulate`.
    """
    ran = _run(sizes, [image], folder)
    spent = {task.value: 0 for task in TASKS}
    for phase in ran.phases[0]:
        spent[TASKS[phase.layer].value] += phase.cycles
    results = [ran.results[number] for number in range(len(TASKS))]
    return HeadRun(_errors(ran.completions), results, {**spent, "total": ran.cycles})


@dataclass(frozen=True, eq=False)
class _Ran:
    """What a run left on machines of any kind: of every chiplet, and of every link if there are several."""

    completions: list[dict[str, int]]
    cycles: int
    seconds: float
    phases: list[list[Phase]]
    counters: list[dict[str, int]]
    memories: list[dict[str, int]]
    links: list[dict[str, int]]
    results: dict[int, Int16Array]


def _run(sizes: Sizes, images: Sequence[Image], folder: Path) -> _Ran:
    """Simulate a run of an image for each chiplet, or for the first of them.

    Nobody waits for a reset before an inference: filling the memories takes longer.
    """
    config, units, settle = sizes.chiplet, sizes.units, sizes.chiplet.settling
    if sizes.ring:
        job = RingJob(images, RingSettings(latency=LATENCY, limit=_LIMIT, settle=settle))
        (found,), simulation = run_ring(config, sizes.ring, [job], folder, name=sizes.name, units=units, hosted=True)
        return _Ran(
            completions=found.completions,
            cycles=found.cycles,
            seconds=simulation.seconds,
            phases=found.phases,
            counters=found.counters,
            memories=found.memories,
            links=found.links,
            results=dict(enumerate(found.results)),
        )
    alone = Job(images[0], Settings(latency=LATENCY, settle=settle))
    (outcome,), simulation = run_jobs(config, [alone], folder, name=sizes.name, units=units, hosted=True)
    run = outcome.run
    assert run is not None
    return _Ran(
        completions=[run.completion],
        cycles=run.cycles,
        seconds=simulation.seconds,
        phases=[run.phases],
        counters=[outcome.counters],
        memories=[run.counters],
        links=[],
        results=outcome.results,
    )


def limits_of(config: MachineConfig) -> Limits:
    """Return what the locator of a chiplet can hold of a community."""
    return Limits(config.locator.c_max, config.locator.hubs)


def room_of(config: MachineConfig) -> Room:
    """Return what a chiplet can hold of a graph at a time."""
    return Room(config.locator.nodes, config.locator.edges, config.units, config.hubs)


def _aggregation(graph: Graph, layers: int, counters: Sequence[dict[str, int]]) -> dict[str, int]:
    gross = sum(counts["gross"] for counts in counters)
    return {
        "baseline": layers * (graph.nodes + graph.edge_count),
        "gross": gross,
        "net": gross + sum(counts["formed"] for counts in counters),
    }


def _communities(counters: Sequence[dict[str, int]], images: Sequence[Image]) -> dict[str, Any]:
    """Of all chiplets together; each takes the vertices of others for hubs that it does not count, as a tile does."""
    found = {name: sum(counts[name] for counts in counters) for name in ("hubs", "communities", "edges_read")}
    rounds = max(counts["rounds"] for counts in counters)
    return {**found, "rounds": rounds, "tiles": [tiles_of(image) for image in images]}


def _traffic(placed: Placed, links: Sequence[dict[str, int]]) -> dict[str, Any]:
    """Words on the links, and how many they would be in other ways to bring each feature where it is needed."""
    least = traffic(placed.problem.graph, placed.placement)
    elements = sum(layer.f_out for layer in placed.problem.model.layers)
    return {
        "placement": placed.name,
        "words_by_link": [link["feature_words"] + link["partial_words"] for link in links],
        "minimum": least.words(elements).tolist(),
        "unicast": least.unicast * elements,
        "broadcast": least.broadcast * elements,
    }


def images_of(sizes: Sizes, placed: Placed, *, hidden: bool = False) -> list[Image]:
    """Make an image for each chiplet; with `hidden`, one that is alone leaves all results in memory."""
    config, problem, placement = sizes.chiplet, placed.problem, placed.placement
    graph, alone = problem.graph, sizes.ring is None
    if not isinstance(config, MachineConfig):
        return [build_image(problem)] if alone else build_images(problem, placement)
    schedule, limits = falling(graph), limits_of(config)
    room, names = room_of(config), np.argsort(placed.position)
    if alone:
        lines = 0 if hidden else config.row_lines
        return [build_community_image(problem, schedule, limits, row_lines=lines, room=room, names=names)]
    return build_community_images(problem, placement, schedule, limits, room=room, names=names)


def _errors(completions: list[dict[str, int]]) -> list[str]:
    """Say what the hardware reported, a line for each chiplet that failed."""
    lines = []
    for chiplet, said in enumerate(completions):
        if said["error"]:
            error = Error(said["error"])
            where = f"chiplet {chiplet} ended with {error.name}"
            lines.append(f"{where} ({error.doc.split(';')[0]}), info {said['info']:#x}")
    return lines


def classes_of(rows: Any) -> Any:
    """Classes by the results that the hardware left: int64 [nodes]; none for a graph without nodes."""
    return predictions(rows) if len(rows) else np.zeros(0, np.int64)
