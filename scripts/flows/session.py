"""A session of a run: weights stay in the memories of the machine, and graph after graph is run.

Either other graphs or features come each time, or one graph changes by steps of edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from contracts import Error
from contracts.errors import InputError
from golden.compare import layer_differences
from golden.edits import Edits, edited, read_edits
from golden.locator.schedule import ANY, Choice
from golden.model.float_model import FloatModel
from golden.model.network import LayerResult, Problem, infer
from golden.model.topology import topologies_of
from golden.program.session import Session, session
from hw.config import MachineConfig
from scripts.flows import schema
from scripts.flows.progress import Steps
from scripts.flows.request import Request
from scripts.flows.simulations import Placed, images_of, place, simulate_session
from sim.runner.jobs import Outcome

__all__ = ["Graphs", "changing", "plan_session", "session_of", "session_rows", "stream"]

#: Bytes and cycles of a run, on the screen.
_MILLION = 1_000_000


@dataclass(frozen=True, eq=False)
class Graphs:
    """The graphs of a session.

    Attributes
    ----------
    placed
        One a run: the network on its graph, with VIDs as the chiplets know them.
    graphs
        Small graphs of every run; 1 if the data set is one graph.
    sessions
        Images of every chiplet.
    edits
        What changes before every run but the first; none with other graphs or features.
    """

    placed: Sequence[Placed]
    graphs: Sequence[int]
    sessions: Sequence[Session]
    edits: Sequence[Edits] = ()

    @cached_property
    def exact(self) -> list[list[LayerResult]]:
        """Exact rows of every layer of every run, by VID as the chiplets know them."""
        return [infer(each.problem) for each in self.placed]

    @property
    def written(self) -> list[int]:
        """Bytes that the host writes before every run, into all memories."""
        return [sum(each.written(number) for each in self.sessions) for number in range(len(self.placed))]

    def simulate(self, sizes: MachineConfig, folder: Path, steps: Steps) -> list[Outcome]:
        """Let the machine work through them; see :func:`scripts.flows.simulations.simulate_session`."""
        return simulate_session(sizes, self.sessions, folder, steps)

    def differences(self, ran: Sequence[Outcome]) -> list[str]:
        """Return a line for each run that is not bit-exact, or that ended with an error."""
        lines = []
        for number, (exact, outcome) in enumerate(zip(self.exact, ran, strict=True)):
            where = f"run {number} of the session"
            if any(outcome.errors):
                names = ", ".join(Error(error).name for error in outcome.errors if error)
                lines.append(f"{where} ended with {names}")
                continue
            lines += [f"{where}, {line}" for line in layer_differences(exact, outcome.results)]
        return lines

    def figures(self, ran: Sequence[Outcome], clock: float | None) -> schema.Session:
        """Return their figures in `result.json`.

        Parameters
        ----------
        ran
            Outcome of every run; none: nothing was simulated.
        clock
            In MHz, or None.
        """
        cycles = [outcome.cycles for outcome in ran]
        rate = _MILLION * sum(self.graphs) / sum(cycles) if cycles else None
        runs = [run for outcome in ran for run in outcome.runs]
        return schema.Session(
            runs=len(self.placed),
            graphs=list(self.graphs),
            cycles=cycles or None,
            graphs_per_million_cycles=rate,
            clock_mhz=clock,
            graphs_per_second=rate * clock if rate is not None and clock else None,
            host_bytes=self.written,
            external_bytes=schema.Moved(
                read=sum(run.memory["bytes_read"] for run in runs) if runs else None,
                written=sum(run.memory["bytes_written"] for run in runs) if runs else None,
            ),
            edits=[schema.Edited(len(step.added), len(step.removed)) for step in self.edits] or None,
            bit_exact=not self.differences(ran) if ran else None,
        )


def stream(problem: Problem, runs: int) -> Iterator[Problem]:
    """Yield the problem of every run of a session.

    A batch of small graphs is cut into as many consecutive batches. A single graph is run again and again, with other
    features: those of run n belong to the node n places further on, the last nodes getting those of the first.

    Parameters
    ----------
    problem
        Network and data set, VIDs as given.
    runs
        How many.

    Raises
    ------
    InputError
        If there is no run, or there are fewer small graphs.
    """
    if runs < 1:
        raise InputError("--session", f"has {runs} runs", "at least 1")
    graph = problem.graph
    if graph.graph_of is None:
        for number in range(runs):
            order = np.roll(np.arange(graph.nodes), -number)
            yield replace(problem, features=problem.features[order])
        return
    heads = graph.graph_vertices
    if runs > heads.size:
        raise InputError("--session", f"has {runs} runs", f"at most {heads.size}, the small graphs of {graph.name}")
    for some in np.array_split(heads, runs):
        yield problem.part(graph.small_graphs(some))


def changing(problem: Problem, network: FloatModel, steps: Sequence[Edits]) -> Iterator[Problem]:
    """Yield a problem, then that of its graph after each step of edges.

    Features, weights and the scales of all tensors stay; offsets, edges and factors of vertices follow the graph.

    Raises
    ------
    InputError
        As `golden.edits.edited`, or if a sum could overflow.
    """
    yield problem
    for graph in edited(problem.graph, steps):
        yield replace(problem, graph=graph, topologies=topologies_of(network.layers, graph))


def session_of(request: Request, problem: Problem, network: FloatModel, sizes: MachineConfig) -> Graphs | None:
    """Return the session that a run asks for, if it asks for one.

    Raises
    ------
    InputError
        As `plan_session`, `stream`, `changing` and `golden.edits.read_edits`.
    """
    if request.edits is not None:
        steps = read_edits(request.edits)
        return plan_session(changing(problem, network, steps), sizes, request.sharing, request.choice, steps)
    if not request.session:
        return None
    return plan_session(stream(problem, request.session), sizes, request.sharing, request.choice)


def plan_session(
    problems: Iterable[Problem],
    sizes: MachineConfig,
    placement: str | None = None,
    choice: Choice = ANY,
    edits: Sequence[Edits] = (),
) -> Graphs:
    """Share the graph of every run out and make its images.

    Parameters
    ----------
    problems
        One a run, at least one.
    sizes
        The machine.
    placement, choice
        As for `scripts.flows.simulations.place`.
    edits
        As for `Graphs`.

    Raises
    ------
    InputError
        If a graph has no room.
    """
    placed = [place(sizes, each, placement, choice) for each in problems]
    images = [images_of(sizes, each) for each in placed]
    graphs = [max(1, each.problem.graph.graph_vertices.size) for each in placed]
    return Graphs(placed, graphs, [session(of_chiplet) for of_chiplet in zip(*images, strict=True)], edits)


def session_rows(found: schema.Session | None) -> list[tuple[str, str]]:
    """Return the rows of the printed summary about a session, if there is one."""
    if found is None:
        return []
    first, *others = found.host_bytes
    per_run = sum(others) / len(others) if others else 0
    mean = sum(found.graphs) / found.runs
    rows = [("session", f"{found.runs:,} runs, {sum(found.graphs):,} graphs")]
    if found.cycles:
        low, high, total = min(found.cycles), max(found.cycles), sum(found.cycles)
        per_graph = f", {total / sum(found.graphs):,.0f} a graph" if mean > 1 else ""
        speed = f"{found.graphs_per_million_cycles:,.1f} graphs in a million cycles"
        if found.graphs_per_second is not None:
            speed += f", {found.graphs_per_second:,.0f} a second at {found.clock_mhz:g} MHz"
        rows += [
            ("  latency", f"{total / found.runs:,.0f} cycles a run ({low:,} to {high:,}){per_graph}"),
            ("  throughput", f"{speed}, without the time of the host's writes"),
        ]
    for number, step in enumerate(found.edits or ()):
        what = f"{step.added:,} edges come, {step.removed:,} go, {others[number]:,} bytes written"
        took = f"{found.cycles[number + 1]:,} cycles, " if found.cycles else ""
        rows.append((f"  step {number}", f"{took}{what}"))
    after = f", then {per_run:,.0f} a run, {per_run / mean:,.0f} a graph" if others else ""
    rows.append(("  bytes from the host", f"{first:,} for the first run, weights included{after}"))
    return rows
