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

__all__ = ["FEATURES", "HIDDEN", "KINDS", "SIZES", "Point", "bench"]

#: Kinds of graphs by name, without their number of vertices.
KINDS = {
    "power law": "power-law,degree=6",
    "communities": "community,degree=8,classes=10,mixing=0.05",
    "random": "erdos,degree=8",
}
#: Numbers of vertices by configuration and placement: one that has room for all of them, and one that takes the larger
#: ones in tiles, in the order given and with communities together.
SIZES = {
    ("community-large", "tiles"): (1000, 2000, 4000, 8000, 16000, 32000),
    ("community", "tiles"): (4000, 8000, 16000),
    ("community", "communities"): (8000, 16000),
}
#: Features of every graph, and the outputs of the layers.
FEATURES, HIDDEN = "features=512,density=0.02", (16, 7)


@dataclass(frozen=True)
class Point:
    """Figures of a run.

    Attributes
    ----------
    config, placement
        The machine, of one chiplet, and the order of vertices in tiles.
    graph, nodes, edges
        A name of `KINDS`, and its size.
    tiles
        Parts in which the chiplet locates and sums up.
    cycles, bound
        Of the run, and what multipliers and memory port allow.
    useful
        Multiplications and additions that the network needs.
    """

    config: str
    placement: str
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
    sizes: Mapping[tuple[str, str], Sequence[int]] | None = None,
    out: Path = ROOT / "build" / "bench",
) -> dict[str, Any]:
    """Run GCN with 16 hidden features on growing graphs in RTL, bit-exact, and print cycles and useful operations.

    Parameters
    ----------
    kinds
        As `KINDS`, which is the default.
    sizes
        Numbers of vertices by configuration, each with community PEs, and placement; default: `SIZES`.
    out
        Folder for ``growth.json``.

    Returns
    -------
    dict
        ``points``, a list of `Point` as dicts; ``spread``, by configuration and kind the most useful operations a cycle
        over the fewest, of all placements.

    Raises
    ------
    AssertionError
        If a result differs from the golden model.
    """
    points = [point for how, counts in (sizes or SIZES).items() for point in _grow(*how, kinds or KINDS, counts)]
    rates: dict[str, list[float]] = {}
    for point in points:
        rates.setdefault(f"{point.config}, {point.graph}", []).append(point.rate)
    spread = {name: max(some) / min(some) for name, some in rates.items()}
    _print(points, spread)
    result = {"points": [asdict(point) for point in points], "spread": spread}
    checked_folder(out)
    write(out / "growth.json", json.dumps(result, indent=1))
    return result


def _grow(config: str, placement: str, kinds: Mapping[str, str], sizes: Sequence[int]) -> list[Point]:
    """Return the points of a machine, which computes all graphs in one simulation."""
    given = {}
    for name, spec in kinds.items():
        for nodes in sizes:
            graph = load(f"synthetic:{spec},nodes={nodes},{FEATURES}")
            problem = random_problem(graph, Model.GCN, list(HIDDEN), 0)
            given[f"{name}, {nodes}"] = name, problem, infer(problem)
    found = run_exactly(config, 1, {case: entry[1:] for case, entry in given.items()}, placement)
    assert not found.refused, next(iter(found.refused.items()))
    points = []
    for case, (name, problem, exact) in given.items():
        useful, done = useful_operations(problem, exact), found.done[case]
        bound = least_cycles(found.sizes, problem, exact)
        size = problem.graph.nodes, problem.graph.edge_count
        tiles = tiles_of(done.job.images[0])
        points.append(Point(config, placement, name, *size, tiles, done.outcome.cycles, bound, useful))
    return points


def _print(points: Sequence[Point], spread: Mapping[str, float]) -> None:
    """Print a row for each run, then how far the rates of a kind lie apart."""
    show(
        "GCN with 16 hidden features on growing graphs, bit-exact",
        [
            "machine",
            "placement",
            "graph",
            "vertices",
            "edges",
            "tiles",
            "cycles",
            "bound / cycles",
            "useful operations a cycle",
        ],
        [
            (
                point.config,
                point.placement,
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
    show(
        "most useful operations a cycle / fewest",
        ["machine, graph", "ratio"],
        [(n, f"{s:.2f}") for n, s in spread.items()],
    )
