"""`atoll bench schemes`: what windows and pairs of shared sums are worth in RTL, on graphs of all kinds (I6, I7)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from contracts import Model
from contracts.communities import K_VALUES
from golden.datasets import load
from golden.locator.schedule import Choice
from golden.model.network import Problem, infer
from scripts.bench.exact import Done, run_exactly
from scripts.bench.names import named
from scripts.bench.portfolio import CLASSES, ENGINES, FEATURES, GRAPHS
from scripts.flows.outputs import checked_folder, write
from scripts.flows.simulations import aggregation
from scripts.flows.table import show
from sim.harness import ROOT
from sim.problems import random_problem

__all__ = ["CONFIG", "HIDDEN", "NONE", "SCHEMES", "Run", "bench"]

CONFIG = ENGINES["community"]
#: What the others are compared with.
NONE = "none"
#: Ways to share sums by name.
SCHEMES = {
    NONE: Choice(scheme="none"),
    **{f"window of {k}": Choice(scheme="window", k=k) for k in K_VALUES},
    "pairs": Choice(scheme="pairs"),
}
#: Outputs of the first layer.
HIDDEN = 16


@dataclass(frozen=True)
class Run:
    """Figures of one scheme on one graph.

    Attributes
    ----------
    graph, scheme
        Name of the graph, and one of `SCHEMES`.
    cycles
        From the start to the completion, the location of communities included.
    baseline
        Additions of vectors without shared sums, of both layers.
    gross
        Additions to rows and subtractions from them, as the PEs count them.
    net
        The same and the additions that formed sums.
    """

    graph: str
    scheme: str
    cycles: int
    baseline: int
    gross: int
    net: int

    @property
    def saved(self) -> float:
        """Share of the additions that the scheme saves, sums formed included; negative if it needs more."""
        return 1 - self.net / self.baseline


def bench(
    names: Sequence[str] | None = None, config: str = CONFIG, out: Path = ROOT / "build" / "bench"
) -> dict[str, Any]:
    """Run GCN with 16 hidden features with every scheme in RTL, bit-exact, and print cycles and additions saved.

    Parameters
    ----------
    names
        Names of `GRAPHS`, or data sets; default: Cora where `ATOLL_PLANETOID` names its folder, and all of `GRAPHS`.
    config
        A configuration with community PEs.
    out
        Folder for ``schemes.json``.

    Returns
    -------
    dict
        ``runs``, a list of `Run` as dicts; ``means``, by scheme the geometric mean over graphs of its cycles by those
        of no sharing.

    Raises
    ------
    AssertionError
        If a result differs from the golden model, or the machine has no room for a graph.
    """
    given, choices, cases = {}, {}, {}
    for name in named(names, *GRAPHS):
        problem = _problem(name)
        exact = infer(problem)
        for scheme, choice in SCHEMES.items():
            case = f"{name}, {scheme}"
            cases[case], given[case], choices[case] = (name, scheme), (problem, exact), choice
    found = run_exactly(config, 1, given, choices=choices)
    assert not found.refused, next(iter(found.refused.items()))
    runs = [_figures(*cases[case], given[case][0], done) for case, done in found.done.items()]
    means = _means(runs)
    _print(runs, means)
    result = {"runs": [asdict(run) for run in runs], "means": means}
    checked_folder(out)
    write(out / "schemes.json", json.dumps(result, indent=1))
    return result


def _problem(name: str) -> Problem:
    """Return a network with random weights on a graph."""
    spec = GRAPHS.get(name)
    graph = load(f"synthetic:{spec},{FEATURES['sparse']}" if spec else name)
    return random_problem(graph, Model.GCN, [HIDDEN, CLASSES], 0)


def _figures(name: str, scheme: str, problem: Problem, done: Done) -> Run:
    """Return the figures of a run."""
    counted = aggregation(problem, done.job.images[0], [done.outcome.run.counters])
    return Run(name, scheme, done.outcome.cycles, counted.baseline, counted.gross, counted.net)


def _means(runs: Sequence[Run]) -> dict[str, float]:
    """Return the geometric mean of the cycles of each scheme by those of no sharing."""
    unshared = {run.graph: run.cycles for run in runs if run.scheme == NONE}
    return {
        scheme: geometric_mean(run.cycles / unshared[run.graph] for run in runs if run.scheme == scheme)
        for scheme in SCHEMES
    }


def _print(runs: Sequence[Run], means: dict[str, float]) -> None:
    """Print cycles of every scheme by graph, and then the additions that each saves."""
    by_graph: dict[str, dict[str, Run]] = {}
    for run in runs:
        by_graph.setdefault(run.graph, {})[run.scheme] = run
    found = {graph.rpartition("/")[2]: some for graph, some in by_graph.items()}
    cycles = [(graph, *(f"{some[scheme].cycles:,}" for scheme in SCHEMES)) for graph, some in found.items()]
    whole = ("geometric mean, none: 1", *(f"{means[scheme]:.3f}" for scheme in SCHEMES))
    show("cycles, bit-exact", ["graph", *SCHEMES], [*cycles, whole])
    show(
        "net additions of vectors that shared sums save",
        ["graph", "additions", *SCHEMES],
        [
            (graph, f"{some[NONE].baseline:,}", *(f"{some[scheme].saved:.1%}" for scheme in SCHEMES))
            for graph, some in found.items()
        ],
    )
