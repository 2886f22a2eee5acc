"""`atoll bench cache-2050`: external accesses with the source's sizes, by graph, order of roots and policy."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contracts import Policy
from golden.attributes.belady import belady_misses
from golden.attributes.cache import AttributeRam, hashed_slot, replay
from golden.attributes.clairvoyant import ClairvoyantRam, replay_clairvoyant
from golden.attributes.orders import ORDERS, hub_communities, small_world
from golden.attributes.planner import SlotPlanner
from golden.attributes.sampler import Plan, sample
from golden.datasets import load
from golden.graph import Graph, IntArray
from hw.attributes.formats import AttributeConfig
from hw.attributes.sizes import memory_bits
from scripts.flows.outputs import checked_folder, publishing
from scripts.flows.table import show
from sim.harness import ROOT

__all__ = ["bench"]

#: The source's sizes: 200 entries in the buffer, 30 in the cache, 512 bytes each.
SLOTS, WAYS = 200, 30
ROW_BYTES = 512
#: The source's memories, in bytes: buffer, cache, ID table.
SOURCE_BYTES = (100_000, 15_000, 400)
FAN_OUT = 10
#: Requests that are held to plan slots, and roots whose requests are a list: as many as of 32 roots and two hops.
AHEAD, ROOTS = 1024, 300
#: What the aims are stated for.
FEWER, NEAR = 0.45, 1.25


def _graphs() -> dict[str, tuple[Graph, dict[str, IntArray]]]:
    """Graphs by name, each with the orders that only its maker knows."""
    planted = load("synthetic:community,nodes=2050,degree=10,classes=41,mixing=0.1,features=1,density=1")
    joined, known = hub_communities()
    graphs: dict[str, tuple[Graph, dict[str, IntArray]]] = {
        "islands": (joined, {"planted": known}),
        "communities": (planted, {"planted": np.argsort(np.arange(planted.nodes) % 41, kind="stable")}),
        "small world": (small_world(), {}),
        "scale-free": (load("synthetic:power-law,nodes=2050,degree=10,features=1,density=1"), {}),
    }
    if os.environ.get("ATOLL_PLANETOID"):
        graphs["cora (2,708)"] = (load(f"planetoid:{os.environ['ATOLL_PLANETOID']}/cora"), {})
    return graphs


def _trace(graph: Graph, roots: IntArray) -> list[int]:
    """IDs requested when every node is a root once, with a fan-out of 10."""
    plan = Plan((FAN_OUT,), seed=1)
    return [node for root in roots for node in sample(graph, [int(root)], plan).nodes.tolist()]


def _planned(graph: Graph, roots: IntArray) -> list[tuple[int, int]]:
    """IDs and planned target addresses of the same requests."""
    planner = SlotPlanner(SLOTS, AHEAD)
    lists = (_trace(graph, roots[at : at + ROOTS]) for at in range(0, len(roots), ROOTS))
    return [pair for nodes in lists for pair in zip(nodes, planner.plan(nodes), strict=True)]


def measure(graph: Graph, roots: IntArray, slotted: bool) -> dict[str, Any]:
    """External accesses of one trace, by what stands before the memory."""
    trace = _trace(graph, roots)
    slots = (
        [number % SLOTS for number in range(len(trace))] if slotted else [hashed_slot(node, SLOTS) for node in trace]
    )
    requests = list(zip(trace, slots, strict=True))

    def degree(node: int) -> int:
        return int(graph.degrees[node])

    def misses(ram: AttributeRam, requests: list[tuple[int, int]] = requests) -> int:
        replay(ram, requests)
        return ram.counts.misses

    counts = {"no cache": len(trace), "buffer only": misses(AttributeRam(SLOTS, 0))}
    for policy in Policy:
        counts[policy.name.lower()] = misses(AttributeRam(SLOTS, WAYS, policy, degree=degree))
    counts["planned"] = misses(AttributeRam(SLOTS, WAYS, Policy.LFU), _planned(graph, roots))
    clairvoyant = ClairvoyantRam(SLOTS, WAYS)
    replay_clairvoyant(clairvoyant, requests)
    counts["clairvoyant"] = clairvoyant.counts.misses
    counts["belady"] = belady_misses(trace, SLOTS + WAYS)
    return counts


def _plot(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    shown = ("buffer only", "lru", "degree", "planned", "belady")
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    figure, axes = pyplot.subplots(len(graphs), 1, figsize=(8, 2.4 * len(graphs)), layout="constrained", squeeze=False)
    for axis, graph in zip(axes[:, 0], graphs, strict=True):
        mine = [row for row in rows if row["graph"] == graph and row["slotted"]]
        at = np.arange(len(mine))
        for number, name in enumerate(shown):
            share = [100 * row["accesses"][name] / row["accesses"]["no cache"] for row in mine]
            axis.bar(at + (number - 2) / 6, share, 1 / 6, label=name)
        axis.set(title=graph, ylabel="% of requests")
        axis.set_xticks(at, [row["order"] for row in mine])
    axes[0, 0].legend(ncols=len(shown), fontsize="small")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def bench(out: Path = ROOT / "build" / "bench", graphs: Sequence[str] | None = None) -> dict[str, Any]:
    """Print the tables and write `cache-2050.json` and `cache-2050.png`.

    Parameters
    ----------
    out
        Folder for both.
    graphs
        Names of graphs; default: all.

    Returns
    -------
    dict
        What is in the JSON file.
    """
    rows: list[dict[str, Any]] = []
    for name, (graph, more) in _graphs().items():
        if graphs is not None and name not in graphs:
            continue
        orders = {order: make(graph) for order, make in ORDERS.items()} | more
        for order, roots in orders.items():
            for slotted in (True, False):
                rows.append(
                    {
                        "graph": name,
                        "order": order,
                        "slotted": slotted,
                        "nodes": graph.nodes,
                        "edges": graph.edge_count,
                        "accesses": measure(graph, roots, slotted),
                    }
                )
    policies = [policy.name.lower() for policy in Policy]
    for row in rows:
        accesses = row["accesses"]
        row["best"] = min(policies, key=accesses.__getitem__)
        given = next(r for r in rows if (r["graph"], r["order"], r["slotted"]) == (row["graph"], "ID", row["slotted"]))
        row["fewer_than_given"] = 1 - accesses[row["best"]] / given["accesses"]["buffer only"]
        row["fewer_than_buffer"] = 1 - accesses[row["best"]] / accesses["buffer only"]
        for name, kind in (("best", row["best"]), ("planned", "planned"), ("clairvoyant", "clairvoyant")):
            row[f"{name}_over_belady"] = accesses[kind] / accesses["belady"]
    for slotted in (True, False):
        show(
            f"external accesses, {'slotted' if slotted else 'hashed'}: {SLOTS} + {WAYS} entries, fan-out {FAN_OUT}",
            ("graph", "order", "no cache", "buffer", *policies, "planned", "clairvoyant", "Belady"),
            [
                (row["graph"], row["order"], *(f"{count:,}" for count in row["accesses"].values()))
                for row in rows
                if row["slotted"] == slotted
            ],
        )
        show(
            f"best policy, {'slotted' if slotted else 'hashed'} "
            f"(aims in community order: {FEWER:.0%} fewer than the buffer alone in the order given; {NEAR} x Belady)",
            ("graph", "order", "best", "fewer than buffer, given order", "than buffer, this order", "/ Belady",
             "planned / Belady", "clairvoyant / Belady"),
            [
                (row["graph"], row["order"], row["best"], f"{row['fewer_than_given']:.1%}",
                 f"{row['fewer_than_buffer']:.1%}", f"{row['best_over_belady']:.2f}",
                 f"{row['planned_over_belady']:.2f}", f"{row['clairvoyant_over_belady']:.2f}")
                for row in rows
                if row["slotted"] == slotted
            ],
        )  # fmt: skip
    bits = memory_bits(AttributeConfig(slots=SLOTS, ways=WAYS, row_beats=ROW_BYTES * 8 // 256, id_bits=12))
    show(
        "memory for IDs of 12 bits and 512 bytes each",
        ("", "bits", "bytes"),
        [(name, f"{count:,}", f"{count / 8:,.0f}") for name, count in bits.items()]
        + [
            (f"source: {name}", f"{8 * count:,}", f"{count:,}")
            for name, count in zip(("buffer", "cache", "ID table"), SOURCE_BYTES, strict=True)
        ],
    )
    result = {"slots": SLOTS, "ways": WAYS, "fan_out": FAN_OUT, "ahead": AHEAD, "rows": rows, "memory_bits": bits}
    with publishing(checked_folder(out)) as files:
        (files / "cache-2050.json").write_text(json.dumps(result, indent=2) + "\n")
        _plot(rows, files / "cache-2050.png")
    return result
