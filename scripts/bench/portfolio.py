"""`atoll bench portfolio`: graphs of all kinds on several machines, each run beside its bound."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

from contracts import Model
from golden.datasets import load
from golden.metrics import compulsory_bytes
from golden.model.network import LayerResult, Problem, infer
from hw.config import MachineConfig
from scripts.bench.exact import Done, run_exactly
from scripts.bench.names import named
from scripts.flows.outputs import checked_folder, write
from scripts.flows.simulations import aggregation, least_cycles
from scripts.flows.table import show
from sim.harness import ROOT
from sim.problems import random_problem

__all__ = ["ENGINES", "FEATURES", "GRAPHS", "NETWORKS", "Network", "Run", "bench"]

#: Graphs by name: kinds, and keys without those of the features.
GRAPHS = {
    "power law": "power-law,nodes=1500,degree=6",
    "configuration": "configuration,nodes=1500,degree=5",
    "communities": "community,nodes=1500,classes=60,degree=10,mixing=0.05",
    "random": "erdos,nodes=1500,degree=8",
    "small world": "small-world,nodes=1500,degree=8,mixing=0.1",
    "caveman": "caveman,nodes=1800,degree=29",
    "windmill": "windmill,nodes=1201,degree=12",
    "bipartite": "bipartite,nodes=1000,degree=16",
    "clique": "clique,nodes=120",
    "grid": "grid,nodes=1600",
    "tree": "tree,nodes=2000,degree=3",
    "path": "path,nodes=2000",
    "star": "star,nodes=900",
    "lollipop": "lollipop,nodes=900,degree=60",
}
#: Features: some of many, and all of few.
FEATURES = {"sparse": "features=512,density=0.02", "dense": "features=32,density=1"}


class Network(NamedTuple):
    """A network of two layers: its model, the kind of features, and the width between the layers."""

    model: Model
    features: str
    hidden: int


NETWORKS = (
    Network(Model.GCN, "sparse", 16),
    Network(Model.GIN, "dense", 16),
    Network(Model.SAGE, "dense", 64),
    Network(Model.GCN, "sparse", 64),
)
#: Configurations with 64 multipliers behind one memory port of 256 bits, and with four times as many of each.
ENGINES = {"gather": "default", "community": "community", "clusters": "community-256"}
#: Outputs of the second layer.
CLASSES = 7


@dataclass(frozen=True)
class Run:
    """Figures of one network on one graph and one engine.

    Attributes
    ----------
    graph, model, features, hidden, engine
        What was run: names of `GRAPHS` and `ENGINES`, the model, the kind of features, the width between the layers.
    cycles
        From the start to the completion, the location of communities included.
    bound
        Cycles for the useful operations with as many lanes, and for the compulsory bytes. Community PEs add in adders
        beside the multipliers and share sums, so they can be below it.
    bytes_moved, bytes_least
        Bytes across the memory port, and the compulsory ones.
    saved
        Share of the additions of vectors that shared sums save, sums formed included; None with gather PEs.
    """

    graph: str
    model: str
    features: str
    hidden: int
    engine: str
    cycles: int
    bound: int
    bytes_moved: int
    bytes_least: int
    saved: float | None

    @property
    def reached(self) -> float:
        """Share of the bound that is reached, 0..1."""
        return self.bound / self.cycles


def bench(
    names: Sequence[str] | None = None, networks: Sequence[Network] = NETWORKS, out: Path = ROOT / "build" / "bench"
) -> dict[str, Any]:
    """Run networks on graphs of all kinds in RTL, bit-exact, and print how near each comes to its bound.

    Parameters
    ----------
    names
        Names of `GRAPHS`, or data sets; default: Cora where `ATOLL_PLANETOID` names its folder, and all of `GRAPHS`.
    networks
        Networks to run on each.
    out
        Folder for ``portfolio.json``.

    Returns
    -------
    dict
        ``runs``, a list of `Run` as dicts; ``means``, by engine the geometric mean of bound / cycles; ``refused``, runs
        that a machine has no room for.

    Raises
    ------
    AssertionError
        If a result differs from the golden model.
    """
    chosen = named(names, *GRAPHS)
    cases = {
        f"{name}, {network}": (name, network, _problem(name, network, n))
        for name in chosen
        for n, network in enumerate(networks)
    }
    given = {case: (problem, infer(problem)) for case, (_, _, problem) in cases.items()}
    runs: list[Run] = []
    refused: list[dict[str, str]] = []
    for engine, config in ENGINES.items():
        found = run_exactly(config, 1, given)
        refused += [
            {"graph": cases[case][0], "engine": engine, "error": error} for case, error in found.refused.items()
        ]
        runs += [
            _figures(*cases[case][:2], *given[case], engine, found.sizes, done) for case, done in found.done.items()
        ]
    means = {engine: _mean(run for run in runs if run.engine == engine) for engine in ENGINES}
    _print(runs, means, refused)
    result = {"runs": [asdict(run) for run in runs], "means": means, "refused": refused}
    checked_folder(out)
    write(out / "portfolio.json", json.dumps(result, indent=1))
    return result


def _problem(name: str, network: Network, seed: int) -> Problem:
    """Return a network with random weights on a graph."""
    spec = GRAPHS.get(name)
    graph = load(f"synthetic:{spec},{FEATURES[network.features]}" if spec else name)
    return random_problem(graph, network.model, [network.hidden, CLASSES], seed)


def _figures(
    name: str, network: Network, problem: Problem, exact: Sequence[LayerResult], engine: str, sizes: MachineConfig,
    done: Done,
) -> Run:  # fmt: skip
    """Return the figures of a run."""
    least, bound = compulsory_bytes(problem), least_cycles(sizes, problem, exact)
    saved = None
    if sizes.community:
        counted = aggregation(problem, done.job.images[0], [done.outcome.run.counters])
        saved = 1 - counted.net / counted.baseline
    how = (network.model.name.lower(), network.features, network.hidden)
    return Run(name, *how, engine, done.outcome.cycles, bound, done.moved, least.total, saved)


def _mean(runs: Iterable[Run]) -> float:
    """Geometric mean of the share of the bound."""
    return geometric_mean(run.reached for run in runs)


def _texts(run: Run | None) -> tuple[str, str, str]:
    """Columns of a run in the table."""
    if run is None:
        return "refused", "", ""
    return f"{run.cycles:,}", f"{run.reached:.1%}", f"{run.bytes_moved / run.bytes_least:.2f}"


def _print(runs: Sequence[Run], means: dict[str, float], refused: Sequence[dict[str, str]]) -> None:
    """Print a row for each graph and network with all engines side by side, then the means of graphs and engines."""
    by_case: dict[tuple[str, str, str, int], dict[str, Run]] = {}
    for run in runs:
        by_case.setdefault((run.graph, run.model, run.features, run.hidden), {})[run.engine] = run
    columns = ["graph", "model", "features", "hidden"]
    for engine in ENGINES:
        columns += [f"{engine}: cycles", "bound / cycles", "bytes / least"]
    show(
        "64 multipliers behind a memory port of 256 bits, clusters: 256 behind four, bit-exact",
        [*columns, "additions saved"],
        [
            (
                case[0].rpartition("/")[2],
                *case[1:],
                *(text for engine in ENGINES for text in _texts(found.get(engine))),
                next((f"{run.saved:.1%}" for run in found.values() if run.saved is not None), ""),
            )
            for case, found in by_case.items()
        ],
    )
    graphs = dict.fromkeys(run.graph for run in runs)
    rows = []
    for graph in graphs:
        each = [[run for run in runs if (run.graph, run.engine) == (graph, engine)] for engine in ENGINES]
        rows.append((graph.rpartition("/")[2], *(f"{_mean(some):.1%}" if some else "refused" for some in each)))
    whole = ("all", *(f"{means[engine]:.1%}" for engine in ENGINES))
    show("geometric mean of bound / cycles", ["graph", *ENGINES], [*rows, whole])
    if refused:
        show("does not fit", ["graph", "engine", "why"], [tuple(entry.values()) for entry in refused])
