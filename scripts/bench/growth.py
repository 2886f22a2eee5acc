"""`atoll bench growth`: the same kind of graph in growing sizes, beyond what the chip has room for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from contracts import Model
from golden.community.image import tiles_of
from golden.datasets import load
from golden.metrics import useful_operations
from golden.model.network import infer
from scripts.bench.exact import run_exactly
from scripts.flows.outputs import checked_folder, write
from scripts.flows.simulations import least_cycles
from scripts.flows.table import show
from sim.harness import ROOT
from sim.problems import random_problem

__all__ = ["CONFIG", "FEATURES", "HIDDEN", "KINDS", "SIZES", "Point", "bench"]

#: Kinds of graphs by name, without their number of vertices.
KINDS = {
    "power law": "power-law,degree=6",
    "communities": "community,degree=8,classes=10,mixing=0.05",
    "random": "erdos,degree=8",
}
#: Vertices.
SIZES = (1000, 2000, 4000, 8000)
CONFIG = "community"
#: Features of every graph, and the outputs of the layers.
FEATURES, HIDDEN = "features=512,density=0.02", (16, 7)


@dataclass(frozen=True)
class Point:
    """Figures of a run.

    Attributes
    ----------
    graph, nodes, edges
        A name of `KINDS`, and its size.
    tiles
        Parts in which the chiplet locates and sums up.
    cycles, bound
        Of the run, and what multipliers and memory port allow.
    useful
        Multiplications and additions that the network needs.
    """

    graph: str
    nodes: int
    edges: int
    tiles: int
    cycles: int
    bound: int
    useful: int

    @property
    def rate(self) -> float:
        """Useful operations a cycle."""
        return self.useful / self.cycles


def bench(
    kinds: Mapping[str, str] | None = None,
    sizes: Sequence[int] = SIZES,
    config: str | None = None,
    out: Path = ROOT / "build" / "bench",
) -> dict[str, Any]:
    """Run GCN with 16 hidden features on growing graphs in RTL, bit-exact, and print cycles and useful operations.

    Parameters
    ----------
    kinds
        As `KINDS`, which is the default.
    sizes
        Numbers of vertices.
    config
        A configuration with community PEs; default: `CONFIG`.
    out
        Folder for ``growth.json``.

    Returns
    -------
    dict
        ``points``, a list of `Point` as dicts; ``spread``, by kind the most useful operations a cycle over the fewest.

    Raises
    ------
    AssertionError
        If a result differs from the golden model.
    """
    kinds = KINDS if kinds is None else kinds
    given = {}
    for name, spec in kinds.items():
        for nodes in sizes:
            graph = load(f"synthetic:{spec},nodes={nodes},{FEATURES}")
            problem = random_problem(graph, Model.GCN, list(HIDDEN), 0)
            given[f"{name}, {nodes}"] = name, problem, infer(problem)
    found = run_exactly(config or CONFIG, 1, {case: entry[1:] for case, entry in given.items()}, "growth")
    assert not found.refused, next(iter(found.refused.items()))
    points = []
    for case, (name, problem, exact) in given.items():
        useful, done = useful_operations(problem, exact), found.done[case]
        bound = least_cycles(found.sizes, problem, exact)
        size = problem.graph.nodes, problem.graph.edge_count
        points.append(Point(name, *size, tiles_of(done.job.images[0]), done.outcome.cycles, bound, useful))
    rates = {name: [point.rate for point in points if point.graph == name] for name in kinds}
    spread = {name: max(some) / min(some) for name, some in rates.items()}
    _print(points, spread)
    result = {"points": [asdict(point) for point in points], "spread": spread}
    checked_folder(out)
    write(out / "growth.json", json.dumps(result, indent=1))
    return result


def _print(points: Sequence[Point], spread: Mapping[str, float]) -> None:
    """Print a row for each run, then how far the rates of a kind lie apart."""
    show(
        "GCN with 16 hidden features on growing graphs, bit-exact",
        ["graph", "vertices", "edges", "tiles", "cycles", "bound / cycles", "useful operations a cycle"],
        [
            (
                point.graph,
                f"{point.nodes:,}",
                f"{point.edges:,}",
                str(point.tiles),
                f"{point.cycles:,}",
                f"{point.bound / point.cycles:.1%}",
                f"{point.rate:.1f}",
            )
            for point in points
        ],
    )
    show("most useful operations a cycle / fewest", ["graph", "ratio"], [(n, f"{s:.2f}") for n, s in spread.items()])
