"""`atoll bench islands`: edges read, cycles by engines, balance of records over PEs (I1-I5)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from golden.datasets import load
from golden.graph import Graph
from golden.islands.allocator import Allocator, longest_first, lower_bound, work_of
from golden.islands.locator import Limits, locate
from golden.islands.partition import check_records
from golden.islands.schedule import Schedule
from scripts.flows.islands import find, fitting
from scripts.flows.table import show
from tb.harness import ROOT

__all__ = ["DATASETS", "ENGINES", "bench"]

#: Graph of the benchmark where `ATOLL_PLANETOID` does not name Cora's folder, and of the balance beside it.
DATASETS = ("synthetic:power-law,nodes=2700,degree=4",)
ENGINES = (1, 2, 4, 8, 16)
SCHEDULES = {"16 halving": Schedule(16, True), "16 falling by 1": Schedule(16, False, 1)}
C_MAX = 64
#: Of the engines, and record streams of the locator.
SEARCHES, OUTPUTS = 2, 8
#: Of the allocator: PEs, largest difference of loads a whole record makes, rows of a piece.
PES, THRESHOLD, GRAIN = 8, 512, 8


def _named(names: Sequence[str] | None) -> list[str]:
    if names is not None:
        return list(names)
    folder = os.environ.get("ATOLL_PLANETOID")
    return [*([f"planetoid:{folder}/cora"] if folder else []), *DATASETS]


def _location(name: str, graph: Graph, engines: int) -> list[dict[str, Any]]:
    """Figures of one number of engines, by schedule; every run is checked."""
    config = fitting(graph, engines, C_MAX, OUTPUTS, SEARCHES)
    rows = []
    for title, schedule in SCHEDULES.items():
        found = find(graph, schedule, C_MAX, config)
        check_records(graph, schedule, found.limits, found.records)
        golden = locate(graph, schedule, found.limits)
        counters = found.counters
        rows.append(
            {
                "dataset": name,
                "schedule": title,
                "engines": engines,
                "searches": SEARCHES,
                "hubs": found.hubs,
                "communities": len(found.sizes),
                "rounds": counters["rounds"],
                "edges": graph.edge_count,
                "edges_read": counters["edges_read"],
                "ratio": counters["edges_read"] / graph.edge_count,
                "golden_ratio": golden.edges_read / graph.edge_count,
                "over_golden": counters["edges_read"] / golden.edges_read,
                "retreats": counters["retreats"],
                "locate_cycles": counters["locate_cycles"],
                "load_cycles": counters["load_cycles"],
                "total_cycles": counters["total_cycles"],
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
    for key in dict.fromkeys((row["dataset"], row["schedule"]) for row in rows):
        line = [row for row in rows if (row["dataset"], row["schedule"]) == key]
        label = f"{key[0].rpartition('/')[2]}, threshold {key[1]}"
        axes.plot([row["engines"] for row in line], [row["locate_cycles"] for row in line], marker="o", label=label)
    axes.set(xscale="log", yscale="log", xlabel="engines", ylabel="cycles of location")
    axes.set_xticks(sorted({row["engines"] for row in rows}), sorted({str(row["engines"]) for row in rows}, key=int))
    axes.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def bench(
    names: Sequence[str] | None = None, engines: Sequence[int] = ENGINES, out: Path = ROOT / "build" / "bench"
) -> dict[str, Any]:
    """Measure, print, and write ``islands.json`` and ``islands.png``.

    Parameters
    ----------
    names
        Data sets; default: Cora where it is to be had, or else a power-law graph.
    engines
        Numbers of engines.
    out
        Folder.

    Returns
    -------
    dict
        ``location`` and ``balance``, a list of rows each.

    Raises
    ------
    AssertionError
        If a run's records are wrong.
    """
    named = _named(names)
    graphs = {name: load(name) for name in named}
    location = [row for count in engines for row in _location(named[0], graphs[named[0]], count)]
    balance = [row for name, graph in graphs.items() for row in _balance(name, graph)]
    out.mkdir(parents=True, exist_ok=True)
    result = {"location": location, "balance": balance}
    (out / "islands.json").write_text(json.dumps(result, indent=1))
    _plot(location, out / "islands.png")
    columns = ["threshold", "engines", "rounds", "read / edges", "one search", "over it", "cycles", "with load"]
    ratios = ("ratio", "golden_ratio", "over_golden")
    show(
        f"location of {named[0]}, {SEARCHES} searches an engine",
        [*columns, "edges/cycle/engine"],
        [
            (
                *(row[key] for key in ("schedule", "engines", "rounds")),
                *(f"{row[key]:.3f}" for key in ratios),
                *(row[key] for key in ("locate_cycles", "total_cycles")),
                f"{row['edges_per_cycle_per_engine']:.3f}",
            )
            for row in location
        ],
    )
    show(
        f"busiest of {PES} PEs by the mean load",
        ["data set", "how", "busiest / mean", "moved", "split"],
        [
            (r["dataset"].rpartition("/")[2], r["how"], f"{r['imbalance']:.3f}", r["smoothed"], r["remapped"])
            for r in balance
        ],
    )
    return result
