"""Simulating a machine of any kind for `atoll run`: a chiplet of gather or community PEs, alone or on a ring."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.attributes.batch import BatchImage
from golden.community.image import build_community_image, build_community_images
from golden.contracts import Error
from golden.errors import InputError
from golden.graph import Graph, IntArray
from golden.head import TASKS
from golden.image import Image, build_image
from golden.islands.locator import Limits
from golden.islands.schedule import falling
from golden.model.network import LayerResult, Problem, predictions, problem_of
from golden.ring.by_communities import communities_apart
from golden.ring.image import build_images
from golden.ring.placement import Placement
from golden.ring.traffic import traffic
from hw.chiplet.config import ChipletConfig
from hw.community.chiplet import MachineConfig
from hw.machine import Units
from scripts.config import Sizes
from tb.attributes.batch_jobs import Ran, run_batches
from tb.chiplet.host import Phase
from tb.chiplet.jobs import Job, mismatches, run_jobs
from tb.community.jobs import Pace, differences, run_images
from tb.models.activity import activity
from tb.ring.jobs import RingJob, RingSettings, run_ring
from tb.ring.jobs import mismatches as ring_mismatches

__all__ = [
    "PLACEMENTS",
    "HeadRun",
    "Placed",
    "Simulated",
    "classes_of",
    "limits_of",
    "place",
    "simulate",
    "simulate_batches",
    "simulate_head",
]

#: Cycles after which a ring that has not completed is an error.
_LIMIT = 100_000_000
#: Cycles to the first beat of a read, of a ring as of a chiplet that is alone.
_LATENCY = 100
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


def place(problem: Problem, chiplets: int, name: str = "tiles") -> Placed:
    """Share a graph out to chiplets; one has all of it, as it is.

    Raises
    ------
    InputError
        If communities are asked for and the graph is not symmetric.
    """
    graph = problem.graph
    if name == "tiles" or chiplets == 1:
        return Placed("tiles", problem, np.arange(graph.nodes), Placement.tiles(graph.nodes, chiplets))
    graph.require_symmetric("placement by communities")
    position, placement = communities_apart(graph, chiplets)
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
        If the graph is too large for the configuration, or not symmetric where communities are needed.
    """
    config = sizes.chiplet
    if sizes.chiplets > 1:
        return _on_ring(sizes, problem, exact, folder, placed or place(problem, sizes.chiplets))
    if isinstance(config, MachineConfig):
        return _community(config, sizes.units, problem, folder, 0 if hidden else config.row_lines)
    return _gather(config, sizes.units, problem, folder)


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
    config, units = sizes.chiplet, sizes.units
    if sizes.ring:
        job = RingJob([image], _settings(config))
        (ring,), _ = run_ring(config, sizes.ring, [job], folder, name=sizes.name, units=units, hosted=True)
        completion, cycles, (phases, *_), results = ring.completions[0], ring.cycles, ring.phases, ring.results
    else:
        outcome: Any
        if isinstance(config, MachineConfig):
            pace = Pace(settle=config.settling)
            (outcome,), _ = run_images(config, [(image, pace)], folder, name=sizes.name, units=units, hosted=True)
        else:
            (outcome,), _ = run_jobs(config, [Job(image)], folder, name=sizes.name, units=units, hosted=True)
        completion, cycles, phases = outcome.run.completion, outcome.run.cycles, outcome.run.phases
        results = [outcome.results[number] for number in range(len(TASKS))]
    spent = {task.value: 0 for task in TASKS}
    for phase in phases:
        spent[TASKS[phase.layer].value] += phase.cycles
    return HeadRun(_errors([completion]), results, {**spent, "total": cycles})


def _settings(config: ChipletConfig | MachineConfig) -> RingSettings:
    """Return how a ring is run. Nobody waits for a reset before an inference: filling the memories takes longer."""
    return RingSettings(latency=_LATENCY, limit=_LIMIT, settle=config.settling)


def limits_of(config: MachineConfig) -> Limits:
    """Return what the locator of a chiplet can hold of a community."""
    return Limits(config.locator.c_max, config.locator.hubs)


def _check_graph(graph: Graph, config: MachineConfig, vertices: int, edges: int) -> None:
    """Refuse a graph that the locator has no room for, with VIDs and edges of a chiplet as given."""
    sizes = config.locator
    if vertices > sizes.nodes or edges >= sizes.edges:
        raise InputError(
            graph.name,
            f"has {vertices} nodes and {edges} edges",
            f"at most {sizes.nodes} and {sizes.edges - 1} (locator.nodes, locator.edges)",
        )


def _aggregation(graph: Graph, layers: int, counters: Sequence[dict[str, int]]) -> dict[str, int]:
    gross = sum(counts["gross"] for counts in counters)
    return {
        "baseline": layers * (graph.nodes + graph.edge_count),
        "gross": gross,
        "net": gross + sum(counts["formed"] for counts in counters),
    }


def _communities(counters: Sequence[dict[str, int]]) -> dict[str, int]:
    """Of all chiplets together; each takes the vertices of others for hubs that it does not count."""
    found = {name: sum(counts[name] for counts in counters) for name in ("hubs", "communities", "edges_read")}
    return {**found, "rounds": max(counts["rounds"] for counts in counters)}


def _community(config: MachineConfig, units: Units, problem: Problem, folder: Path, row_lines: int) -> Simulated:
    graph = problem.graph
    _check_graph(graph, config, graph.nodes, graph.edge_count)
    image = build_community_image(problem, falling(problem.graph), limits_of(config), row_lines=row_lines)
    (outcome,), simulation = run_images(
        config, [(image, Pace(settle=config.settling))], folder, units=units, hosted=True
    )
    run = outcome.run
    assert run is not None
    return Simulated(
        differences=differences(problem, outcome),
        predictions=classes_of(outcome.results[len(problem.model.layers) - 1]),
        cycles=run.cycles,
        seconds=simulation.seconds,
        read=run.counters["bytes_read"],
        written=run.counters["bytes_written"],
        phases=[run.phases],
        working=[activity(folder)],
        hidden=outcome.results.get(len(problem.model.layers) - 2),
        aggregation=_aggregation(graph, len(problem.model.layers), [outcome.counters]),
        communities=_communities([outcome.counters]),
    )


def _gather(config: ChipletConfig, units: Units, problem: Problem, folder: Path) -> Simulated:
    (outcome,), simulation = run_jobs(config, [Job(build_image(problem))], folder, units=units, hosted=True)
    run = outcome.run
    assert run is not None
    return Simulated(
        differences=_errors([run.completion]) or mismatches(problem, outcome),
        predictions=classes_of(outcome.results[-1]),
        cycles=run.cycles,
        seconds=simulation.seconds,
        read=run.counters["bytes_read"],
        written=run.counters["bytes_written"],
        phases=[run.phases],
        working=[activity(folder)],
        hidden=_hidden(outcome.results),
    )


def _on_ring(sizes: Sizes, problem: Problem, exact: list[LayerResult], folder: Path, placed: Placed) -> Simulated:
    graph, config, ring = problem.graph, sizes.chiplet, sizes.ring
    assert ring is not None
    job = RingJob(_images(config, placed.problem, placed.placement), _settings(config))
    (moved,), simulation = run_ring(config, ring, [job], folder, name=sizes.name, units=sizes.units, hosted=True)
    # In the order in which the graph was given.
    outcome = replace(moved, results=[rows[placed.position] for rows in moved.results])
    least = traffic(placed.problem.graph, placed.placement)
    elements = sum(layer.f_out for layer in problem.model.layers)
    community = isinstance(config, MachineConfig)
    return Simulated(
        differences=_errors(outcome.completions) or ring_mismatches(exact, outcome),
        predictions=classes_of(outcome.results[-1]),
        cycles=outcome.cycles,
        seconds=simulation.seconds,
        read=sum(memory["bytes_read"] for memory in outcome.memories),
        written=sum(memory["bytes_written"] for memory in outcome.memories),
        phases=outcome.phases,
        working=[activity(folder, n) for n in range(sizes.chiplets)],
        hidden=_hidden(outcome.results),
        ring={
            "placement": placed.name,
            "words_by_link": [link["feature_words"] + link["partial_words"] for link in outcome.links],
            "minimum": least.words(elements).tolist(),
            # Words of other ways to bring each feature where it is needed, over all links.
            "unicast": least.unicast * elements,
            "broadcast": least.broadcast * elements,
        },
        aggregation=_aggregation(graph, len(problem.model.layers), outcome.counters) if community else None,
        communities=_communities(outcome.counters) if community else None,
    )


def _hidden(results: Sequence[Any]) -> Any:
    return results[-2] if len(results) > 1 else None


def _images(config: ChipletConfig | MachineConfig, problem: Problem, placement: Placement) -> list[Image]:
    if not isinstance(config, MachineConfig):
        return build_images(problem, placement)
    images = build_community_images(problem, placement, falling(problem.graph), limits_of(config))
    # Halves of hubs' sums have VIDs behind those of the vertices.
    vertices = problem.graph.nodes + 2 * placement.hubs.size
    _check_graph(problem.graph, config, vertices, max(image.header["edges"] for image in images))
    return images


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
