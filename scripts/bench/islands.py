"""`atoll bench islands`: edges read, cycles by engines, balance of records over PEs (I1-I5)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from golden.datasets import load
from golden.graph import Graph
from golden.locator.allocator import Allocator, longest_first, lower_bound, work_of
from golden.locator.cover import cover_of
from golden.locator.locator import Limits, locate
from golden.locator.partition import check_records
from golden.locator.schedule import Schedule
from hw.locator.config import LocatorConfig
from scripts import blocks
from scripts.bench.names import named
from scripts.flows.islands import find, fitting
from scripts.flows.outputs import checked_folder, publishing
from scripts.flows.table import show
from sim.harness import ROOT
from sim.harness.expected import expected_area

__all__ = ["DATASETS", "ENGINES", "bench"]

#: Graph of the benchmark beside Cora, whose folder `ATOLL_PLANETOID` names.
DATASETS = ("synthetic:power-law,nodes=2700,degree=4",)
ENGINES = (1, 2, 4, 8, 16)
SCHEDULES = {"16 halving": Schedule(16, True), "16 falling by 1": Schedule(16, False, 1)}
C_MAX = 64
#: Searches and lanes of an engine, record streams of the locator.
SEARCHES, LANES, OUTPUTS = 4, 4, 32
#: Engines with which the adjacency is read through the memory port.
EXTERNAL = 4
#: Of the allocator: PEs, largest difference of loads a whole record makes, rows of a piece.
PES, THRESHOLD, GRAIN = 8, 512, 8


def _room(graphs: Sequence[Graph], engines: int) -> LocatorConfig:
    """Return a configuration with room for every graph, so that one simulator serves all."""
    fits = [fitting(graph, engines, C_MAX, OUTPUTS, SEARCHES, LANES) for graph in graphs]
    return replace(fits[0], nodes=max(fit.nodes for fit in fits), edges=max(fit.edges for fit in fits))


def _location(name: str, graph: Graph, config: LocatorConfig, engines: int) -> list[dict[str, Any]]:
    """Figures of one number of working engines, by schedule; every run is checked."""
    rows = []
    for title, schedule in SCHEDULES.items():
        found = find(graph, schedule, C_MAX, config, active=engines)
        check_records(graph, schedule, found.limits, found.records)
        golden = locate(graph, schedule, found.limits)
        counters = found.counters
        rows.append(
            {
                "dataset": name,
                "schedule": title,
                "adjacency": "external" if config.external else "on chip",
                "engines": engines,
                "searches": config.searches,
                "lanes": config.lanes,
                "hubs": found.hubs,
                "communities": len(found.sizes),
                "rounds": counters["rounds"],
                "edges": graph.edge_count,
                "edges_read": counters["edges_read"],
                "ratio": counters["edges_read"] / graph.edge_count,
                "golden_ratio": golden.edges_read / graph.edge_count,
                "over_golden": counters["edges_read"] / golden.edges_read,
                "longest_searches": sum(golden.longest_by_round),
                "retreats": counters["retreats"],
                "locate_cycles": counters["locate_cycles"],
                "load_cycles": counters["load_cycles"],
                "total_cycles": counters["total_cycles"],
                "read_bytes": counters["read_bytes"],
                "edges_per_cycle_per_engine": found.edges_per_cycle / engines,
            }
        )
    return rows


def _balance(name: str, graph: Graph) -> list[dict[str, Any]]:
    """Busiest PE by the mean: records in turn, smoothed, smoothed and split; and what is possible."""
    records = locate(graph, SCHEDULES["16 falling by 1"], Limits(C_MAX)).records
    works = [work_of(record) for record in records]
    whole = [rows * columns for rows, columns in works]
    mean = sum(whole) / PES
    rows = []
    for title, hops, threshold in (
        ("in turn", 0, 1 << 40),
        *((f"smoothing over {hops} hops", hops, 1 << 40) for hops in (1, 2, 3)),
        *((f"smoothing over {hops} hops, remapping", hops, THRESHOLD) for hops in (1, 2, 3)),
    ):
        allocator = Allocator(PES, hops, threshold, GRAIN)
        for number, (count, columns) in enumerate(works):
            allocator.add(number, count, columns)
        found = allocator.allocation
        rows.append({"dataset": name, "how": title, "pes": PES, "imbalance": found.imbalance,
                     "smoothed": found.smoothed, "remapped": found.remapped})  # fmt: skip
    for title, busiest in (
        ("longest first, all known", max(longest_first(whole, PES))),
        ("lower bound of whole records", lower_bound(whole, PES)),
    ):
        rows.append({"dataset": name, "how": title, "pes": PES, "imbalance": busiest / mean,
                     "smoothed": None, "remapped": None})  # fmt: skip
    return rows


def _plot(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 5), layout="constrained")
    for key in dict.fromkeys((row["dataset"], row["schedule"], row["adjacency"]) for row in rows):
        line = [row for row in rows if (row["dataset"], row["schedule"], row["adjacency"]) == key]
        label = f"{key[0].rpartition('/')[2]}, threshold {key[1]}, {key[2]}"
        axes.plot([row["engines"] for row in line], [row["locate_cycles"] for row in line], marker="o", label=label)
    axes.set(xscale="log", yscale="log", xlabel="engines", ylabel="cycles of location")
    axes.set_xticks(sorted({row["engines"] for row in rows}), sorted({str(row["engines"]) for row in rows}, key=int))
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _show(rows: list[dict[str, Any]]) -> None:
    columns = ["threshold", "adjacency", "engines", "rounds", "read / edges", "one search", "over it", "cycles"]
    for name in dict.fromkeys(row["dataset"] for row in rows):
        show(
            f"location of {name}, {rows[0]['searches']} searches and {rows[0]['lanes']} lanes an engine",
            [*columns, "with load", "edges/cycle/engine"],
            [
                (
                    *(row[key] for key in ("schedule", "adjacency", "engines", "rounds")),
                    *(f"{row[key]:.3f}" for key in ("ratio", "golden_ratio", "over_golden")),
                    *(row[key] for key in ("locate_cycles", "total_cycles")),
                    f"{row['edges_per_cycle_per_engine']:.3f}",
                )
                for row in rows
                if row["dataset"] == name
            ],
        )


def _areas() -> list[dict[str, Any]]:
    """Return what the blocks cost on ECP5, as checked in."""
    found = {block.name: expected_area(block.name) for block in blocks.find("locator")}
    return [{"block": name, **area} for name, area in found.items() if area]


def bench(
    names: Sequence[str] | None = None,
    engines: Sequence[int] = ENGINES,
    out: Path = ROOT / "build" / "bench",
    external: int = EXTERNAL,
) -> dict[str, Any]:
    """Measure, print, and write ``islands.json`` and ``islands.png``.

    One simulator of as many engines as are asked for at most is built, in which some rest.

    Parameters
    ----------
    names
        Data sets; default: Cora where it is to be had, and a power-law graph.
    engines
        Numbers of engines.
    out
        Folder.
    external
        Engines when the adjacency is not on the chip; 0: not measured.

    Returns
    -------
    dict
        ``location``, ``balance`` and ``area``, a list of rows each. Areas are those of ``tb/expected.toml``.

    Raises
    ------
    AssertionError
        If a run's records are wrong.
    """
    graphs = {name: cover_of(load(name)).graph for name in named(names, *DATASETS)}
    config = _room(list(graphs.values()), max(engines))
    location = [row for name, graph in graphs.items() for n in engines for row in _location(name, graph, config, n)]
    if external:
        config = replace(_room(list(graphs.values()), external), external=True)
        location += [row for name, graph in graphs.items() for row in _location(name, graph, config, external)]
    balance = [row for name, graph in graphs.items() for row in _balance(name, graph)]
    areas = _areas()
    result = {"location": location, "balance": balance, "area": areas}
    with publishing(checked_folder(out)) as files:
        (files / "islands.json").write_text(json.dumps(result, indent=1))
        _plot(location, files / "islands.png")
    _show(location)
    show(
        f"busiest of {PES} PEs by the mean load",
        ["data set", "how", "busiest / mean", "moved", "split"],
        [
            (r["dataset"].rpartition("/")[2], r["how"], f"{r['imbalance']:.3f}", r["smoothed"], r["remapped"])
            for r in balance
        ],
    )
    show(
        "area on ECP5 as checked in (`atoll synth locator` measures it, and frequencies)",
        ["block", "LUTs", "FFs", "DSPs", "block RAMs"],
        [tuple(area.values()) for area in areas],
    )
    return result
