"""One page per run, with everything in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from golden.graph import Graph, IntArray
from golden.locator.cover import cover_of
from golden.locator.locator import Limits, locate
from golden.locator.record import Record
from golden.locator.schedule import Schedule, falling, quarter
from scripts.flows.schema import Result
from scripts.report import figures
from scripts.report.adjacency import BLOCKS, adjacency
from scripts.report.drawing import DRAWN_NODES, drawing
from scripts.report.glossary import phase_title, terms_of
from scripts.report.predictions import listed

__all__ = ["Run", "write_report"]

#: In graphs with more nodes the golden locator does not search: it would take minutes.
_SEARCHED_NODES = 20_000
_ADJACENCY = "Adjacency, as given and by rounds"
_DOUBLED = (
    "The graph is directed: each vertex is there as a destination and, if it has out-edges, behind all of these as a "
    "source. "
)


@dataclass(frozen=True, eq=False)
class Run:
    """What a report shows besides `result.json`.

    Attributes
    ----------
    graph
        The data set.
    predicted
        int64 [nodes]: class of every node by the machine's results.
    timeline
        What was under way when; None where nothing was simulated.
    floating
        int64 [nodes]: class of every node by the float model; None: not compared.
    records
        Hubs and communities that the hardware found, in VIDs of `graph`; None: those of the golden locator are drawn.
    schedule, limits
        Of the golden locator; default: the thresholds and sizes of a run that names none.
    """

    graph: Graph
    predicted: IntArray
    timeline: figures.Timeline | None
    floating: IntArray | None = None
    records: Sequence[Record] | None = None
    schedule: Schedule | None = None
    limits: Limits | None = None


@dataclass(frozen=True)
class _Section:
    """A heading, a drawing with its caption, and rows of a table below."""

    title: str
    caption: str
    drawing: str
    rows: Sequence[Sequence[str]] = ()


def write_report(path: Path, result: Result, run: Run) -> None:
    """Write the page.

    Parameters
    ----------
    path
        File to write.
    result
        Figures of the run.
    run
        The rest.
    """
    # Names and messages come from files of the user's: everything but the drawings is escaped.
    environment = Environment(loader=PackageLoader("scripts.report", "."), autoescape=True, undefined=StrictUndefined)
    sections = list(_sections(result, run))
    phases = [name for chiplet in run.timeline.phases for _, name, _, _ in chiplet] if run.timeline else []
    page = environment.get_template("page.html.j2").render(
        result=result,
        verdict={
            None: ("", "golden model alone: nothing was simulated"),
            True: ("yes", "bit-exact"),
            False: ("no", "not bit-exact"),
        }[result.bit_exact],
        summary=_summary(result),
        sections=sections,
        machine=_machine(result),
        predictions=listed(run.graph, run.predicted, run.floating),
        terms=terms_of(result, phases, located=any(section.title == _ADJACENCY for section in sections)),
    )
    path.write_text(page, encoding="utf-8")


def _what(result: Result) -> str:
    """Return the name of that which has a class."""
    return "graph" if result.dataset.graphs else "node"


def _machine(result: Result) -> str:
    """Whose results the page shows."""
    return "the golden model" if result.cycles is None else "the hardware"


def _summary(result: Result) -> list[tuple[str, str, str, str]]:
    rows: list[tuple[str, str, str, str]] = []

    def row(name: str, measured: Any, limit: Any = None, form: str = "{:,}") -> None:
        if measured is None:
            return
        ratio = f"{measured / limit:.2f}" if limit else ""
        rows.append((name, form.format(measured), form.format(limit) if limit is not None else "", ratio))

    macs, moved, figures_ = result.macs, result.external_bytes, result.accuracy
    row("cycles", result.cycles, macs.limit_cycles)
    row(f"utilisation of {macs.lanes} lanes", macs.utilisation, 1.0, "{:.1%}")
    row("useful operations", macs.useful)
    if moved.read is not None:
        row("external bytes", moved.total, moved.compulsory)
    if result.ring:
        row("words over all links", result.ring.words, result.ring.least)
    if result.aggregation:
        row("additions of rows, sums formed included", result.aggregation.net, result.aggregation.baseline)
    row(f"accuracy on test {_what(result)}s, beside float", figures_.machine, figures_.float, "{:.2%}")
    row("predictions that agree with float", figures_.agreement, 1.0, "{:.2%}")
    if result.head:
        head = result.head.accuracy
        row("accuracy of the head, beside float", head.machine, head.float, "{:.2%}")
    if result.batch:
        batch = result.batch
        row("cycles of mini-batches", batch.cycles and batch.cycles.total)
        row(
            "accuracy on sampled roots, beside float without sampling",
            batch.accuracy.machine,
            batch.accuracy.float,
            "{:.2%}",
        )
        if links := batch.links:
            row("AUC of pairs of nodes, beside float", links.machine.auc, links.float.auc, "{:.3f}")
            row("mean reciprocal rank of joined pairs, beside float", links.machine.mrr, links.float.mrr, "{:.3f}")
    if result.attribute_cache:
        row(
            "attributes fetched, beside requests",
            result.attribute_cache.misses,
            result.attribute_cache.requests,
        )
    row("simulated cycles a second", result.simulation.cycles_per_second, form="{:,.0f}")
    return rows


def _sections(result: Result, run: Run) -> Iterator[_Section]:
    """Yield the sections of what played a part in the run."""
    if run.timeline and any(run.timeline.phases):
        yield _Section(
            "Where cycles went",
            "Commands of every chiplet, with the number of their layer, and the gaps between them; below, its PEs: "
            "black where they work in every cycle. The table adds up the chiplet that takes longest.",
            figures.svg(figures.timeline(run.timeline)),
            _phases(result.cycles_by_phase or {}, result.cycles or 0),
        )
    if result.ring:
        yield _Section(
            "Ring traffic",
            f"Placement: {result.ring.placement}. Unicast sends a row to each consumer, broadcast to all.",
            figures.svg(figures.links(result.ring)),
        )
    if result.attribute_cache:
        cache = result.attribute_cache
        yield _Section(
            "Attribute cache",
            f"Mini-batches; each chiplet has {cache.slots} slots and {cache.ways} ways ({cache.policy}).",
            figures.svg(figures.cache(cache)),
        )
    yield from _graph(result, run)
    known = run.graph.test & (run.graph.labels >= 0)
    if known.any():
        yield _Section(
            "Confusion matrix",
            f"Test {_what(result)}s: their labels, and their classes by the results of {_machine(result)}.",
            figures.svg(figures.confusion(run.graph.labels[known], run.predicted[known])),
        )


def _phases(found: dict[str, int], cycles: int) -> list[tuple[str, str, str]]:
    """Return a row for each phase, the longest first, and one for all."""
    rows = [*sorted(found.items(), key=lambda phase: -phase[1]), ("all", sum(found.values()))]
    return [(phase_title(name), f"{spent:,}", f"{spent / max(1, cycles):.1%}") for name, spent in rows]


def _graph(result: Result, run: Run) -> Iterator[_Section]:
    """Yield the drawings of the graph: its adjacency, and itself if it is small."""
    graph, records, cover = run.graph, run.records, cover_of(run.graph)
    if 0 < graph.nodes <= DRAWN_NODES:
        # The nodes of a small graph have its class.
        shown = run.predicted if graph.graph_of is None else run.predicted[np.maximum(graph.graph_of, 0)]
        yield _Section(
            "The graph",
            f"Nodes in the colour of their class by the results of {_machine(result)}.",
            figures.svg(drawing(graph, shown)),
        )
    source = "Hubs and communities as the hardware found them in this run, read back from it."
    if records is None and 0 < graph.nodes <= _SEARCHED_NODES:
        schedule, limits = run.schedule or falling(graph), run.limits or Limits(quarter(graph))
        records = locate(cover.graph, schedule, limits).records
        why = "this machine has not located any"
        if result.cycles is None:
            why = "nothing was simulated"
        elif result.communities:
            why = "the machine located the graph in parts"
        source = (
            f"Found by the golden model of the locator, not by the hardware ({why}): {schedule.describe()}, "
            f"communities of {limits.c_max} vertices at most."
        )
    if records:
        block = -(-cover.graph.nodes // BLOCKS)
        point = "an edge" if block == 1 else f"a block of {block} vertices by {block} that has an edge"
        yield _Section(
            _ADJACENCY,
            f"{source} {'' if graph.symmetric else _DOUBLED}"
            "Each round's hubs come first and make an L along the lower and left borders of all that follow; "
            f"its communities are squares on the diagonal. A point is {point}.",
            figures.svg(adjacency(cover.graph, records)),
        )
