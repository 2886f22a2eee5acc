"""Benchmark ``networks``: widths, depths and kinds of layers that people bring, on the named machines."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from contracts import Model
from golden.datasets import load
from golden.metrics import compulsory_bytes
from golden.model.float_model import Reach
from golden.model.network import LayerResult, Problem, infer
from golden.model.quantise import quantise
from scripts.bench.exact import run_exactly
from scripts.config import load_machine
from scripts.flows.outputs import checked_folder, write
from scripts.flows.simulations import least_cycles
from scripts.flows.table import show
from sim.harness import ROOT
from sim.networks import Form, random_network

__all__ = ["CASES", "MACHINES", "Case", "Run", "bench"]

#: Configurations and numbers of chiplets.
MACHINES = (("default", 1), ("default", 4), ("community", 1), ("community", 4))
#: Cora where `ATOLL_PLANETOID` names its folder, else a graph of its size.
_CORA = "synthetic:community,nodes=2708,classes=7,degree=4,mixing=0.1,features=1433,density=0.0127"
_CITESEER = "synthetic:community,nodes=3327,classes=6,degree=3,mixing=0.1,features=3703,density=0.0085"
_SMALL = "features=64,density=0.2"
_CLASSES = 7


class Case(NamedTuple):
    """A network on a graph: its name, the data set, or None for Cora, the layers, and whether edges have weights."""

    name: str
    dataset: str | None
    forms: Sequence[Form]
    weighted: bool = False


def _gcn(*widths: int) -> list[Form]:
    return [Form(width) for width in widths]


def _perceptron(width: int) -> list[Form]:
    """Return a layer of GIN with a perceptron of two matrices; norms are folded into them."""
    return [Form(width, Model.GIN), Form(width, reach=Reach.NODE)]


CASES = (
    *(Case(f"GCN, {hidden} hidden", None, _gcn(hidden, _CLASSES)) for hidden in (16, 64, 128, 256)),
    *(Case(f"GCN, {layers} layers of 16", None, _gcn(*[16] * (layers - 1), _CLASSES)) for layers in (3, 4, 8)),
    Case("GCN, 3,703 features", _CITESEER, _gcn(16, 6)),
    Case("GraphSAGE with root weight", None, [Form(16, Model.SAGE, root=True), Form(_CLASSES, Model.SAGE, root=True)]),
    Case("GIN with perceptrons", None, [*_perceptron(16), *_perceptron(16), Form(_CLASSES, reach=Reach.NODE)]),
    Case("GAT, 1 head", None, [Form(16, heads=1), Form(_CLASSES, heads=1, mean=True)]),
    Case("GAT, 8 heads", None, [Form(8, heads=8), Form(_CLASSES, heads=1, mean=True)]),
    Case(
        "directed, GraphSAGE",
        f"synthetic:erdos,nodes=1000,degree=5,directed=0.7,{_SMALL}",
        [Form(16, Model.SAGE), Form(_CLASSES)],
    ),
    Case(
        "edge weights, GCN",
        f"synthetic:community,nodes=1000,classes=20,degree=6,{_SMALL}",
        _gcn(16, _CLASSES),
        True,
    ),
    Case(
        "200 molecules, readout",
        "synthetic:molecules,graphs=200",
        [*_perceptron(16), *_perceptron(16), Form(16, Model.SAGE, reach=Reach.MEMBERS), Form(2, reach=Reach.NODE)],
    ),
)


@dataclass(frozen=True)
class Run:
    """Figures of one network on one machine.

    Attributes
    ----------
    case, machine
        Names.
    cycles
        From the start to the completion; None: refused.
    bound
        Cycles that the multipliers need for the useful operations, or the memory ports for the compulsory bytes.
    bytes_moved, bytes_least
        Bytes across the memory ports, and the compulsory ones.
    refused
        Why the machine does not take it, or None.
    """

    case: str
    machine: str
    cycles: int | None
    bound: int
    bytes_moved: int
    bytes_least: int
    refused: str | None = None


def bench(
    names: Sequence[str] | None = None,
    machines: Sequence[tuple[str, int]] = MACHINES,
    out: Path = ROOT / "build" / "bench",
) -> dict[str, Any]:
    """Run networks of every kind on every machine in RTL, bit-exact.

    Parameters
    ----------
    names
        Names of `CASES`; default: all.
    machines
        Configurations and numbers of chiplets.
    out
        Folder for ``networks.json``.

    Returns
    -------
    dict
        ``runs``, a list of `Run` as dicts.

    Raises
    ------
    AssertionError
        If a result differs from the golden model.
    """
    problems = {case.name: _problem(case, n) for n, case in enumerate(CASES) if names is None or case.name in names}
    exact = {name: infer(problem) for name, problem in problems.items()}
    runs = [run for machine in machines for run in _on(*machine, problems, exact)]
    _print(runs)
    result = {"runs": [asdict(run) for run in runs]}
    checked_folder(out)
    write(out / "networks.json", json.dumps(result, indent=1))
    return result


def _problem(case: Case, seed: int) -> Problem:
    """Return a network with random weights on its graph."""
    folder = os.environ.get("ATOLL_PLANETOID")
    graph = load(case.dataset or (f"planetoid:{folder}/cora" if folder else _CORA))
    if case.weighted:
        weights = np.random.default_rng(seed).random(graph.edge_count, dtype=np.float32)
        graph = replace(graph, edge_weight=weights)
    return quantise(random_network(seed, graph.feature_count, case.forms), graph)


def _on(
    config: str, chiplets: int, problems: Mapping[str, Problem], exact: Mapping[str, list[LayerResult]]
) -> list[Run]:
    """Run all that a machine takes in one simulation."""
    machine = f"{config} x {chiplets}"
    networks = {name: (problem, exact[name]) for name, problem in problems.items()}
    placement = "communities" if chiplets > 1 and load_machine(config, chiplets).community else "tiles"
    sizes, done, refused = run_exactly(config, chiplets, networks, placement)
    runs = []
    for name, problem in problems.items():
        least, bound = compulsory_bytes(problem), least_cycles(sizes, problem, exact[name])
        run = Run(name, machine, None, bound, 0, least.total, refused.get(name))
        if name in done:
            run = replace(run, cycles=done[name].outcome.cycles, bytes_moved=done[name].moved)
        runs.append(run)
    return runs


def _print(runs: Sequence[Run]) -> None:
    """Print a row for each network, the machines side by side."""
    machines = list(dict.fromkeys(run.machine for run in runs))
    rows = []
    for case in dict.fromkeys(run.case for run in runs):
        texts = []
        for machine in machines:
            (run,) = (run for run in runs if (run.case, run.machine) == (case, machine))
            moved = run.bytes_moved / run.bytes_least
            texts += (
                [f"{run.cycles:,}", f"{run.bound / run.cycles:.1%}", f"{moved:.2f}"] if run.cycles else ["-", "", ""]
            )
        rows.append((case, *texts))
    columns = [text for machine in machines for text in (f"{machine}: cycles", "bound / cycles", "bytes / least")]
    show("networks, bit-exact", ["network", *columns], rows)
    if refused := [(run.case, run.machine, run.refused) for run in runs if run.refused]:
        show("refused", ["network", "machine", "why"], refused)
