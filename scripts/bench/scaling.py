"""`atoll bench scaling`: rings of growing size, the same graph on all of them or as many vertices on each chiplet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from contracts import Model
from golden.datasets import load
from golden.model.network import LayerResult, Problem, infer
from hw.config import MachineConfig
from scripts.bench.exact import run_exactly
from scripts.bench.names import named
from scripts.config import load_machine
from scripts.flows.outputs import checked_folder, write
from scripts.flows.simulations import least_cycles
from scripts.flows.table import show
from sim.harness import ROOT
from sim.problems import random_problem

__all__ = ["CHIPLETS", "MACHINES", "STRONG", "VERTICES", "WEAK", "Point", "Ring", "bench"]

#: Sizes of rings.
CHIPLETS = (1, 2, 4, 8, 16)
#: Vertices of a chiplet in weak scaling.
VERTICES = 1200
#: Graphs of weak scaling by name, of so many vertices and ten communities for each chiplet.
WEAK = {
    "communities, 1 % mixed": "community,degree=8,mixing=0.01,nodes={nodes},classes={classes}",
    "communities, 20 % mixed": "community,degree=8,mixing=0.2,nodes={nodes},classes={classes}",
    "power law": "power-law,degree=8,nodes={nodes}",
}
FEATURES = "features=64"
#: Graphs of strong scaling, and Cora where its folder is known.
STRONG = ("digits",)
#: Outputs of the layers.
HIDDEN = (16, 7)


class Ring(NamedTuple):
    """A kind of machine: a configuration, and how graphs are shared out."""

    config: str
    placement: str


#: By name: gather and community PEs with 16 multipliers a chiplet, and community PEs with 64.
MACHINES = {
    "gather, 16": Ring("default", "tiles"),
    "community, 16": Ring("community", "communities"),
    "community, 64": Ring("community-ring", "communities"),
}


@dataclass(frozen=True)
class Point:
    """Figures of a run.

    Attributes
    ----------
    machine, graph, chiplets
        Names of `MACHINES` and of a graph; size of the ring.
    weak
        Whether the graph grows with the ring.
    cycles, bound
        Of the run, and the most of what multipliers, memory ports and the worst link allow.
    efficiency
        Share of the speed of a chiplet that is alone that each chiplet reaches.
    """

    machine: str
    graph: str
    chiplets: int
    weak: bool
    cycles: int
    bound: int
    efficiency: float


def machine_of(config: str, chiplets: int) -> MachineConfig:
    """Return a ring, or a chiplet of the ring alone."""
    alone = load_machine(config, 1)
    if chiplets > 1 or alone.chiplet.lanes == load_machine(config, 2).chiplet.lanes:
        return load_machine(config, chiplets)
    return replace(alone, chiplet=load_machine(config, 2).chiplet)


def bench(
    names: Sequence[str] | None = None,
    weak: Mapping[str, str] | None = None,
    machines: Mapping[str, Ring] | None = None,
    chiplets: Sequence[int] = CHIPLETS,
    out: Path = ROOT / "build" / "bench",
) -> dict[str, Any]:
    """Run GCN with 16 hidden features on rings of growing size in RTL, bit-exact, and print how cycles fall.

    Parameters
    ----------
    names
        Data sets of strong scaling; default: Cora where `ATOLL_PLANETOID` names its folder, and `STRONG`.
    weak
        As `WEAK`, which is the default.
    machines
        As `MACHINES`, which is the default.
    chiplets
        Sizes of rings, 1 first.
    out
        Folder for ``scaling.json`` and ``scaling.svg``.

    Returns
    -------
    dict
        ``points``, a list of `Point` as dicts.

    Raises
    ------
    AssertionError
        If a result differs from the golden model.
    """
    strong = named(names, *STRONG)
    weak = WEAK if weak is None else weak
    points: list[Point] = []
    for name, ring in (MACHINES if machines is None else machines).items():
        alone: dict[str, int] = {}
        for count in chiplets:
            given = {graph: _network(graph) for graph in strong}
            given |= {graph: _network(_grown(kind, count)) for graph, kind in weak.items()}
            sizes = machine_of(ring.config, count)
            found = run_exactly(sizes, count, given, ring.placement if count > 1 else "tiles")
            assert not found.refused, next(iter(found.refused.items()))
            for graph, (problem, exact) in given.items():
                outcome = found.done[graph].outcome
                cycles = outcome.cycles
                alone.setdefault(graph, cycles * count)
                worst = max((link["flits"] for link in outcome.links), default=0)
                grows = graph in weak
                speed = alone[graph] / cycles / (1 if grows else count)
                bound = max(least_cycles(found.sizes, problem, exact), worst)
                points.append(Point(name, Path(graph).name, count, grows, cycles, bound, speed))
    _print(points)
    result = {"points": [asdict(point) for point in points]}
    checked_folder(out)
    write(out / "scaling.json", json.dumps(result, indent=1))
    _plot(points, out / "scaling.svg")
    return result


def _grown(kind: str, chiplets: int) -> str:
    return f"synthetic:{kind.format(nodes=VERTICES * chiplets, classes=10 * chiplets)},{FEATURES}"


def _network(graph: str) -> tuple[Problem, list[LayerResult]]:
    problem = random_problem(load(graph), Model.GCN, list(HIDDEN), 0)
    return problem, infer(problem)


def _print(points: Sequence[Point]) -> None:
    """Print a row for each machine and graph, and a column for each size of the ring."""
    sizes = sorted({point.chiplets for point in points})
    rows: dict[tuple[str, str], dict[int, Point]] = {}
    for point in points:
        rows.setdefault((point.machine, point.graph), {})[point.chiplets] = point
    for weak in (False, True):
        show(
            f"{'Weak' if weak else 'Strong'} scaling, bit-exact: cycles (efficiency; bound / cycles)",
            ["machine", "graph", *(f"{size}" for size in sizes)],
            [
                (
                    *key,
                    *(
                        f"{at[size].cycles:,} ({at[size].efficiency:.0%}; {at[size].bound / at[size].cycles:.0%})"
                        for size in sizes
                    ),
                )
                for key, at in rows.items()
                if at[sizes[0]].weak == weak
            ],
        )


def _plot(points: Sequence[Point], path: Path) -> None:
    """Draw efficiency over the size of the ring, a line for each machine and graph."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    chart, panels = pyplot.subplots(1, 2, figsize=(12, 4.5), sharey=True)
    for weak, axes in zip((False, True), panels, strict=True):
        for key in dict.fromkeys((point.machine, point.graph) for point in points if point.weak == weak):
            mine = [point for point in points if (point.machine, point.graph) == key]
            axes.plot(
                [point.chiplets for point in mine], [point.efficiency for point in mine], "o-", label=", ".join(key)
            )
        axes.set_title("weak scaling" if weak else "strong scaling")
        axes.set_xscale("log", base=2)
        axes.set_xlabel("chiplets")
        axes.set_ylim(0, 1.1)
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize="x-small")
    panels[0].set_ylabel("efficiency")
    chart.tight_layout()
    chart.savefig(path)
    pyplot.close(chart)
