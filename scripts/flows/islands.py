"""`atoll islands`: finds the communities of a data set in RTL, checks, counts and draws them (I4, I11)."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.utils import ceil_log2

from contracts import Error
from contracts.errors import InputError
from golden.datasets import load
from golden.graph import Graph, IntArray
from golden.locator.cover import Cover, cover_of
from golden.locator.locator import Limits
from golden.locator.order import check_order
from golden.locator.partition import check_records
from golden.locator.record import Record, records_of
from golden.locator.schedule import ANY, Choice, Schedule, quarter
from hw.locator.config import LocatorConfig
from scripts.flows.doctor import require_simulator
from scripts.flows.outputs import checked_folder, publishing
from scripts.flows.table import show
from sim.harness import BuildOptions
from sim.harness.build import Build
from sim.harness.modules import module_sources
from sim.harness.run import run
from sim.locator.locator_design import LocatorDesign, engine_blocks, lay_out
from sim.models.memory import LATENCY, plusargs
from sim.models.simulate import build_with_memory
from sim.models.wrap import MemoryModel

__all__ = ["Found", "Request", "draw", "find", "fitting", "islands", "remark", "windowed"]

_BENCH = "sim.locator.one_run"
_MODULE = "locator_design"


@dataclass(frozen=True)
class Request:
    """What `atoll islands` was asked for.

    Attributes
    ----------
    dataset
        See `golden.datasets.load`.
    engines, outputs
        Of the locator.
    choice
        Of thresholds and of the largest community; default: as `golden.locator.schedule.falling` and `quarter` say.
    window
        Vertices whose state is on the chip, a power of two; 0: all. With a window the edges stay in memory, too.
    out
        Folder for the picture and ``islands.json``.
    """

    dataset: str
    engines: int = 8
    outputs: int = 4
    choice: Choice = ANY
    window: int = 0
    out: Path = Path("atoll-out")


@dataclass(frozen=True)
class Found:
    """What a run in RTL found.

    Attributes
    ----------
    graph, schedule, limits, config
        Of the run.
    records
        Of all streams, one stream after another.
    counters
        As `hw.locator.locator.Counters`, and ``total_cycles`` from the command to its completion.
    """

    graph: Graph
    schedule: Schedule
    limits: Limits
    config: LocatorConfig
    records: list[Record]
    counters: dict[str, int]

    @property
    def hubs(self) -> int:
        """Number of hubs."""
        return sum(record.hub_edges and record.part == 0 for record in self.records)

    @property
    def sizes(self) -> list[int]:
        """Nodes of every community."""
        return [record.nodes.size for record in self.records if not record.hub_edges and record.part == 0]

    @property
    def edges_per_cycle(self) -> float:
        """Edges read a cycle of location, by all engines."""
        return self.counters["edges_read"] / max(1, self.counters["locate_cycles"])


def fitting(graph: Graph, engines: int, c_max: int, outputs: int, searches: int = 2, lanes: int = 2) -> LocatorConfig:
    """Smallest configuration with room for a graph.

    Parameters
    ----------
    graph
        The graph.
    engines, outputs, searches, lanes
        As in `LocatorConfig`.
    c_max
        Largest community asked for.
    """
    widest = -(-c_max // 64) * 64
    return LocatorConfig(
        engines=engines,
        searches=searches,
        lanes=lanes,
        nodes=1 << max(8, ceil_log2(max(1, graph.nodes))),
        edges=1 << max(11, ceil_log2(graph.edge_count + 1)),
        c_max=widest,
        hubs=64 if c_max <= 64 else 4 * 64,
        outputs=min(outputs, engines),
    )


def windowed(config: LocatorConfig, window: int) -> LocatorConfig:
    """Return the configuration with the state of `window` vertices on the chip, in up to 16 pages.

    Raises
    ------
    InputError
        If `window` is not a power of two within what the configuration can have.
    """
    most, least = config.nodes // 2, 4 * config.banks
    if window & (window - 1) or not least <= window <= most:
        raise InputError("window", f"is {window}", f"0 or a power of two in {least}..{most}")
    return replace(config, window=window, page=max(config.banks, window // 16), external=True)


@cache
def _simulator(config: LocatorConfig, depth: int) -> Build:
    """Build a locator with a memory of `depth` beats; many engines take a while even if they have been built before."""
    component = LocatorDesign(**asdict(config))
    return build_with_memory(
        component,
        _MODULE,
        memories={"m_axi": MemoryModel(depth=depth)},
        sources=module_sources(component, _MODULE),
        options=BuildOptions(blocks=engine_blocks(component)),
    )


def find(
    graph: Graph,
    schedule: Schedule,
    c_max: int,
    config: LocatorConfig,
    latency: int = LATENCY,
    active: int = 0,
    stall: float = 0.0,
) -> Found:
    """Run the locator in RTL on a graph.

    The locator is a block and no machine: it takes a command in place of images, so `sim.runner` does not run it.

    Parameters
    ----------
    graph
        Symmetric.
    schedule
        Of thresholds; it must end.
    c_max
        Largest community, 1 to ``config.c_max``.
    config
        Of the locator.
    latency
        Of the memory, in cycles.
    active
        Engines that work; 0: all.
    stall
        Chance of a stall of each of the memory's channels in a cycle.

    Raises
    ------
    InputError
        If the graph is not symmetric or does not fit, the schedule cannot end, or `c_max` is out of range.
    AssertionError
        If the simulation fails or the locator reports an error.
    """
    graph.require_symmetric("communities")
    schedule.require_end()
    if not 1 <= c_max <= config.c_max:
        raise InputError("c_max", f"is {c_max}", f"1..{config.c_max}")
    if graph.nodes > config.nodes or graph.edge_count >= config.edges:
        raise InputError(
            graph.name,
            f"has {graph.nodes} nodes and {graph.edge_count} edges",
            f"at most {config.nodes} and {config.edges - 1}",
        )
    limits = Limits(c_max, config.hubs, 64, config.line_words)
    layout = lay_out(graph)
    beat = config.data_width // 8
    # Cora and graphs that are somewhat larger share a simulator.
    made = _simulator(config, 1 << max(13, ceil_log2(-(-len(layout.image) // beat))))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "graph.bin").write_bytes(layout.image)
        done = run(
            made,
            _BENCH,
            parameters={
                "config": asdict(config),
                "command": layout.command(schedule, limits),
                "directory": name,
                "latency": latency,
                "stall": stall,
                "active": active,
            },
            plusargs=plusargs(directory),
            directory=directory / "run",
        )
        if done.message:
            raise AssertionError(done.message)
        result: dict[str, Any] = json.loads((directory / "result.json").read_text())
    code = Error(result["completion"]["code"])
    if code is not Error.NONE:
        raise AssertionError(f"the locator reports {code.name}: {code.doc}; info {result['completion']['info']}")
    records = [record for beats in result["streams"] for record in records_of(beats)]
    return Found(graph, schedule, limits, config, records, result["counters"])


def draw(found: Found, path: Path) -> None:
    """Draw the adjacency before and after reordering, lower left to upper right.

    Parameters
    ----------
    found
        A run.
    path
        File to write; its ending says the format.
    """
    from scripts.report.adjacency import adjacency

    path.parent.mkdir(parents=True, exist_ok=True)
    adjacency(found.graph, found.records).savefig(path, dpi=150)


def islands(request: Request) -> dict[str, Any]:
    """Find, check, print and draw.

    Returns
    -------
    dict
        What ``islands.json`` holds: sizes, counters, ratio of edges read to directed edges.

    Raises
    ------
    InputError
        As for `find`.
    AssertionError
        If a record differs from the communities by connected components, or the order from what I11 says.
    """
    checked_folder(request.out)
    require_simulator()
    given = load(request.dataset)
    cover = cover_of(given)
    graph = cover.graph
    schedule = request.choice.schedule(given)
    c_max = quarter(graph) if request.choice.c_max is None else request.choice.c_max
    Limits(c_max)
    config = fitting(graph, request.engines, c_max, request.outputs)
    if request.window:
        config = windowed(config, request.window)
    found = find(graph, schedule, c_max, config)
    check_records(graph, found.schedule, found.limits, found.records)
    check_order(graph, found.records)
    sizes, counters = np.array(found.sizes, dtype=np.int64), found.counters
    hubs = np.array([record.nodes[0] for record in found.records if record.hub_edges and not record.part], np.int64)
    by_degree = {} if graph is given else _by_degree(hubs, cover)
    result = {
        "dataset": request.dataset,
        "nodes": given.nodes,
        "edges": given.edge_count,
        "engines": config.engines,
        "threshold": schedule.threshold,
        "halving": schedule.halving,
        "step": schedule.step,
        "c_max": c_max,
        "hubs": found.hubs,
        **by_degree,
        "communities": int(sizes.size),
        "largest": int(sizes.max(initial=0)),
        "mean": float(sizes.mean()) if sizes.size else 0.0,
        "records": len(found.records),
        **counters,
        "edges_read_ratio": counters["edges_read"] / max(1, graph.edge_count),
        "edges_per_cycle": found.edges_per_cycle,
    }
    with publishing(request.out) as files:
        (files / "islands.json").write_text(json.dumps(result, indent=1))
        draw(found, files / "islands.png")
    show(
        f"communities of {request.dataset}", ["", "value"], [(k.replace("_", " "), _cell(v)) for k, v in result.items()]
    )
    bounds = [1, 2, 3, 5, 9, 17, 33, 65, 1 << 16]
    rows = []
    for low, high in pairwise(bounds):
        count = int(((sizes >= low) & (sizes < high)).sum())
        if count:
            rows.append((f"{low}" if high == low + 1 else f"{low}..{min(high - 1, config.c_max)}", count))
    show("sizes of communities", ["nodes", "communities"], rows)
    if (line := remark(graph, found.hubs)) is not None:
        print(line)
    print(
        "every edge is in one record, and in every round in its L of hubs, in a community or in the rest; picture in "
        f"{request.out / 'islands.png'}"
    )
    return result


def _by_degree(hubs: IntArray, cover: Cover) -> dict[str, int]:
    """Return the copies of a double cover and its edges, and which hubs are by in-degree and which by out-degree."""
    by_in_degree = int(cover.summed[hubs].sum())
    return {
        "cover_nodes": cover.graph.nodes,
        "cover_edges": cover.graph.edge_count,
        "hubs_by_in_degree": by_in_degree,
        "hubs_by_out_degree": hubs.size - by_in_degree,
    }


def remark(graph: Graph, hubs: int) -> str | None:
    """Return why a graph has few communities, if most of its vertices are hubs.

    Parameters
    ----------
    graph
        The graph.
    hubs
        How many it has.
    """
    if 2 * hubs <= graph.nodes:
        return None
    least, most, mean = graph.degrees.min(), graph.degrees.max(), graph.edge_count / graph.nodes
    return (
        f"{hubs / graph.nodes:.0%} of the vertices are hubs: degrees are {least} to {most}, {mean:.1f} on average, too "
        "much alike for a threshold to part the graph earlier"
    )


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
