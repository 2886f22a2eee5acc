"""`atoll bench ring`: what crosses the links, and what other ways of sending would cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contracts import VALUE_BITS
from golden.datasets import load
from golden.graph import Graph
from golden.ring.partition import placed_apart
from golden.ring.placement import Placement
from golden.ring.traffic import Traffic, traffic
from scripts.bench.names import named
from scripts.flows.outputs import checked_folder, publishing, scratch
from scripts.flows.table import show
from sim.harness import ROOT

__all__ = ["DATASETS", "bench"]

#: Graphs of the benchmark; Cora only where `ATOLL_PLANETOID` names its folder.
DATASETS = ("digits", "synthetic:power-law,nodes=2000,seed=1")
#: Features of a row: the hidden layer of the benchmark's network.
ELEMENTS = 16
CHIPLETS = 4
#: The largest hubs whose sums come home in the variant with partial sums, per thousand vertices.
_HUBS_PER_THOUSAND = 20


def _figures(name: str, graph: Graph, placement: Placement, how: str, cost: Traffic) -> dict[str, Any]:
    return {
        "dataset": name,
        "nodes": graph.nodes,
        "edges": graph.edge_count,
        "chiplets": placement.chiplets,
        "placement": how,
        "elements": ELEMENTS,
        "feature_hops": int(cost.features.sum()),
        "partial_hops": int(cost.partials.sum()),
        "minimum": cost.minimum,
        "unicast": cost.unicast,
        "per_edge": cost.per_edge,
        "broadcast": cost.broadcast,
        "words_by_link": cost.words(ELEMENTS).tolist(),
        "bits": cost.bits(ELEMENTS),
    }


def _measured(graph: Graph, placement: Placement, directory: Path) -> dict[str, Any]:
    """Run one layer with `ELEMENTS` features in RTL and count words on the links."""
    from contracts import Model
    from golden.ring.image import build_images
    from hw.chiplet.config import GatherChipletConfig
    from hw.pe.formats import PEConfig
    from hw.ring.formats import RingConfig
    from sim.problems import random_problem
    from sim.runner.jobs import Job, Settings, mismatches
    from sim.runner.run import run_jobs

    problem = random_problem(graph, Model.GCN, [ELEMENTS], 1)
    pe = PEConfig(lanes=4, data_width=64, max_out=ELEMENTS, weight_rows=1 << 14)
    (outcome,), _ = run_jobs(
        GatherChipletConfig(groups=1, pes=1, pe=pe, depth=64),
        [Job(build_images(problem, placement), Settings(limit=100_000_000))],
        directory,
        ring=RingConfig(chiplets=placement.chiplets, max_out=ELEMENTS),
    )
    words = [link["feature_words"] + link["partial_words"] for link in outcome.links]
    return {
        "measured_words_by_link": words,
        "measured_flits_by_link": [link["flits"] for link in outcome.links],
        "cycles": outcome.cycles,
        "bit_exact": not mismatches(problem, outcome),
    }


def _plot(figures: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ways = ("minimum", "unicast", "broadcast", "per_edge")
    chart, axes = pyplot.subplots(figsize=(8, 4.5))
    places = np.arange(len(figures))
    for n, way in enumerate(ways):
        axes.bar(places + 0.2 * n, [entry[way] for entry in figures], 0.2, label=way.replace("_", " "))
    labels = [f"{entry['dataset'].rpartition('/')[2].partition(',')[0]}\n{entry['placement']}" for entry in figures]
    axes.set_xticks(places + 0.3, labels)
    axes.set_yscale("log")
    axes.set_ylabel("rows x links, per layer")
    axes.legend()
    chart.tight_layout()
    chart.savefig(path)
    pyplot.close(chart)


def bench(
    names: Sequence[str] | None = None, *, rtl: bool = True, area: bool = False, output: Path | None = None
) -> dict[str, Any]:
    """Print traffic, throughput and latency of the ring; write ``ring.json`` and ``ring.svg``.

    Parameters
    ----------
    names
        Data sets; default: Cora where it is, digits and a power-law graph.
    rtl
        Simulate: words on the links of whole layers, flits per cycle and cycles per hop.
    area
        Synthesise a chiplet's ring unit too, with its maximum frequency.
    output
        Folder; default ``build/bench``.

    Returns
    -------
    dict
        ``traffic`` (a list), ``links`` and ``area``, as written to ``ring.json``.
    """
    folder = output or ROOT / "build" / "bench"
    checked_folder(folder)
    figures = []
    for name in named(names, *DATASETS):
        graph = load(name)
        count = max(1, graph.nodes * _HUBS_PER_THOUSAND // 1000)
        hubs = np.sort(np.argsort(-graph.degrees, kind="stable")[:count])
        ways = {
            "tiles": (graph, Placement.ranges(graph.nodes, CHIPLETS)),
            f"tiles, {count} hubs": (graph, Placement.ranges(graph.nodes, CHIPLETS, hubs)),
        }
        position, placement = placed_apart(graph, CHIPLETS)
        ways["communities"] = graph.relabelled(position), placement
        for how, (placed, placement) in ways.items():
            entry = _figures(name, placed, placement, how, traffic(placed, placement))
            if rtl:
                with scratch(folder) as own:
                    entry |= _measured(placed, placement, own)
            figures.append(entry)
    show(
        f"rows x links per layer, {CHIPLETS} chiplets; words of {VALUE_BITS} bits with {ELEMENTS} features",
        ("graph", "placement", "minimum", "unicast", "per edge", "broadcast", "words by link", "bits", "RTL"),
        [
            (
                entry["dataset"].rpartition("/")[2],
                entry["placement"],
                entry["minimum"],
                entry["unicast"],
                entry["per_edge"],
                entry["broadcast"],
                " ".join(map(str, entry["words_by_link"])),
                entry["bits"],
                _verdict(entry),
            )
            for entry in figures
        ],
    )
    result: dict[str, Any] = {"schema": 1, "traffic": figures}
    if rtl:
        from sim.ring.saturation import measure

        with scratch(folder) as own:
            result["links"] = links = measure(own, stations=CHIPLETS)
        show(
            "links",
            ("flits per cycle under saturation, worst link", "cycles per hop"),
            [(f"{min(links['flits_per_cycle']):.3f}", links["cycles_per_hop"])],
        )
    if area:
        from dataclasses import asdict

        from hw.ring.formats import RingConfig
        from hw.ring.ring_unit import RingUnit
        from scripts.flows.synth import synth_component

        unit = RingUnit(RingConfig(max_out=ELEMENTS), 32, 64)
        result["area"] = asdict(synth_component(unit, "ring_unit", "ring.ring_unit"))
        show("area", tuple(result["area"]), [tuple(result["area"].values())])
    with publishing(folder) as files:
        (files / "ring.json").write_text(json.dumps(result, indent=1) + "\n")
        _plot(figures, files / "ring.svg")
    return result


def _verdict(entry: dict[str, Any]) -> str:
    if "measured_words_by_link" not in entry:
        return "not simulated"
    least = entry["measured_words_by_link"] == entry["words_by_link"]
    return "equal to the minimum, bit-exact" if least and entry["bit_exact"] else "differs"
