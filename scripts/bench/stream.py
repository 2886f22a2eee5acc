"""`atoll bench stream`: batches of small graphs one after another, while weights stay in the machine's memory."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from contracts import Model
from golden.datasets import load
from golden.model.network import Problem
from golden.model.quantise import quantise
from golden.model.training import Training, train
from hw.config import MachineConfig
from scripts.config import load_machine
from scripts.flows.outputs import checked_folder, write
from scripts.flows.session import Graphs, plan_session, stream
from scripts.flows.table import show
from sim.harness import ROOT
from sim.runner.jobs import Outcome, Settings
from sim.runner.run import run_jobs
from sim.runner.sessions import SessionJob

__all__ = ["MACHINES", "SIZES", "Point", "bench"]

#: Configuration and chiplets by the name of a machine.
MACHINES = {
    "default": ("default", 1),
    "default, 4 chiplets": ("default", 4),
    "community": ("community", 1),
    "community, 4 chiplets": ("community", 4),
}
#: Small graphs of a run, and runs of a session.
SIZES, RUNS = (1, 8, 64), 3
_MILLION = 1_000_000


@dataclass(frozen=True)
class Point:
    """Figures of a session.

    Attributes
    ----------
    machine
        A name of `MACHINES`.
    graphs, nodes
        Small graphs and nodes of a run, the nodes their mean.
    cycles
        Of every run, from its start to its completion.
    host_bytes
        Bytes that the host writes before every run, before the first also weights.
    moved_bytes
        Bytes across all memory ports in all runs.
    """

    machine: str
    graphs: int
    nodes: float
    cycles: list[int]
    host_bytes: list[int]
    moved_bytes: int

    @property
    def latency(self) -> float:
        """Mean cycles of a run."""
        return sum(self.cycles) / len(self.cycles)

    @property
    def rate(self) -> float:
        """Graphs in a million cycles, without the host's writes."""
        return _MILLION * self.graphs / self.latency

    @property
    def host_bytes_each(self) -> float:
        """Bytes that the host writes for a graph when weights are there."""
        later = self.host_bytes[1:]
        return sum(later) / len(later) / self.graphs


def bench(
    machines: Mapping[str, tuple[str, int]] = MACHINES,
    sizes: Sequence[int] = SIZES,
    out: Path = ROOT / "build" / "bench",
) -> dict[str, Any]:
    """Run sessions of batches of molecules in RTL, bit-exact, and print latency, throughput and bytes.

    Parameters
    ----------
    machines
        As `MACHINES`.
    sizes
        Small graphs of a run.
    out
        Folder for ``stream.json``.

    Returns
    -------
    dict
        ``points``, a list of `Point` as dicts with their latency and rate.

    Raises
    ------
    AssertionError
        If a result differs from the golden model.
    """
    whole = _problem(RUNS * max(sizes))
    heads = whole.graph.graph_vertices
    parts = [whole.part(whole.graph.small_graphs(heads[: RUNS * size])) for size in sizes]
    points: list[Point] = []
    for name, (config, chiplets) in machines.items():
        machine = replace(load_machine(config, chiplets), neural=None, attributes=None)
        plans = [plan_session(stream(some, RUNS), machine) for some in parts]
        settings = Settings(limit=1 << 30, settle=machine.chiplet.settling)
        jobs = [SessionJob(plan.sessions, settings) for plan in plans]
        with tempfile.TemporaryDirectory() as folder:
            # The simulator is that of `atoll run`.
            outcomes, _ = run_jobs(machine.chiplet, jobs, Path(folder), ring=machine.ring, hosted=True)
        points += [_point(name, machine, *case) for case in zip(sizes, plans, outcomes, strict=True)]
    _print(points)
    found = [{**asdict(each), "latency": each.latency, "graphs_per_million_cycles": each.rate} for each in points]
    result = {"points": found}
    checked_folder(out)
    write(out / "stream.json", json.dumps(result, indent=1))
    return result


def _problem(graphs: int) -> Problem:
    """Return two layers of GCN and a readout on molecules; how well it is trained does not matter."""
    graph = load(f"synthetic:molecules,graphs={graphs}")
    return quantise(train(graph, Model.GCN, Training(epochs=10)), graph)


def _point(name: str, machine: MachineConfig, size: int, plan: Graphs, ran: Sequence[Outcome]) -> Point:
    """Compare a session bit by bit, and return its figures."""
    wrong = plan.differences(ran)
    assert not wrong, f"{name}, {size} graphs a run: {wrong[0]}"
    runs = [run for outcome in ran for run in outcome.runs]
    return Point(
        machine=name,
        graphs=size,
        nodes=sum(each.problem.graph.nodes for each in plan.placed) / len(plan.placed) - size,
        cycles=[outcome.cycles for outcome in ran],
        host_bytes=plan.written,
        moved_bytes=sum(run.memory["bytes_read"] + run.memory["bytes_written"] for run in runs),
    )


def _print(points: Sequence[Point]) -> None:
    """Print a row for each session."""
    columns = ("machine", "graphs a run", "nodes", "cycles a run", "cycles a graph", "graphs / million cycles")
    show(
        "molecules, GCN 8 - 16 - 16 - 2 with a readout, bit-exact",
        [*columns, "host's bytes a graph", "bytes moved a graph"],
        [
            (
                each.machine,
                each.graphs,
                round(each.nodes),
                round(each.latency),
                round(each.latency / each.graphs),
                round(each.rate),
                round(each.host_bytes_each),
                round(each.moved_bytes / (len(each.cycles) * each.graphs)),
            )
            for each in points
        ],
    )
