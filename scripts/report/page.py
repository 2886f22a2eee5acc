"""One page per run, with everything in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from golden.graph import Graph, IntArray
from golden.islands.locator import Limits, locate
from golden.islands.record import Record
from golden.islands.schedule import falling, quarter
from scripts.report import figures

__all__ = ["Run", "write_report"]

#: Graphs with more nodes are not drawn: neither the search in Python nor the picture would be of use.
_DRAWN_NODES = 20_000


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
    records
        Hubs and communities that the hardware found, in VIDs of `graph`; None: the golden locator's are drawn.
    """

    graph: Graph
    predicted: IntArray
    timeline: figures.Timeline | None
    records: Sequence[Record] | None = None


def write_report(path: Path, result: dict[str, Any], run: Run) -> None:
    """Write the page.

    Parameters
    ----------
    path
        File to write.
    result
        Contents of `result.json`.
    run
        The rest.
    """
    # Names and messages come from files of the user's: everything but the drawings is escaped.
    environment = Environment(loader=PackageLoader("scripts.report", "."), autoescape=True, undefined=StrictUndefined)
    page = environment.get_template("page.html.j2").render(
        result=result,
        verdict={
            None: ("", "golden model alone: nothing was simulated"),
            True: ("yes", "bit-exact"),
            False: ("no", "not bit-exact"),
        }[result["bit_exact"]],
        summary=_summary(result),
        figures=list(_figures(result, run)),
    )
    path.write_text(page, encoding="utf-8")


def _summary(result: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    rows: list[tuple[str, str, str, str]] = []

    def row(name: str, measured: Any, limit: Any = None, form: str = "{:,}") -> None:
        if measured is None:
            return
        ratio = f"{measured / limit:.2f}" if limit else ""
        rows.append((name, form.format(measured), form.format(limit) if limit is not None else "", ratio))

    macs, moved, figures_ = result["macs"], result["external_bytes"], result["accuracy"]
    row("cycles", result["cycles"], macs["limit_cycles"])
    row(f"utilisation of {macs['lanes']} lanes", macs["utilisation"], 1.0, "{:.1%}")
    row("useful operations", macs["useful"])
    if moved["read"] is not None:
        row("external bytes", moved["read"] + moved["written"], moved["compulsory"])
    if result["ring"]:
        row("words over all links", sum(result["ring"]["words_by_link"]), sum(result["ring"]["minimum"]))
    if result["aggregation"]:
        row("additions of rows, sums formed included", result["aggregation"]["net"], result["aggregation"]["baseline"])
    row("accuracy on test nodes, beside float", figures_["machine"], figures_["float"], "{:.2%}")
    row("predictions that agree with float", figures_["agreement"], 1.0, "{:.2%}")
    if result["head"]:
        head = result["head"]["accuracy"]
        row("accuracy of the head, beside float", head["machine"], head["float"], "{:.2%}")
    if result["batch"]:
        batch = result["batch"]
        row("cycles of mini-batches", batch["cycles"] and batch["cycles"]["total"])
        row(
            "accuracy on sampled roots, beside float without sampling",
            batch["accuracy"]["machine"],
            batch["accuracy"]["float"],
            "{:.2%}",
        )
    if result["attribute_cache"]:
        row(
            "attributes fetched, beside requests",
            result["attribute_cache"]["misses"],
            result["attribute_cache"]["requests"],
        )
    row("simulated cycles a second", result["simulation"]["cycles_per_second"], form="{:,.0f}")
    return rows


def _figures(result: dict[str, Any], run: Run) -> Any:
    if run.timeline and any(run.timeline.phases):
        yield (
            "Where cycles went",
            "Commands of every chiplet, with the number of their layer; below, its PEs: black where they work in every "
            "cycle.",
            figures.svg(figures.timeline(run.timeline, result["cycles"])),
        )
    if result["ring"]:
        yield (
            "Ring traffic",
            f"Placement: {result['ring']['placement']}. Unicast sends a row to each consumer, broadcast to all.",
            figures.svg(figures.links(result["ring"])),
        )
    if result["attribute_cache"]:
        cache = result["attribute_cache"]
        yield (
            "Attribute cache",
            f"Mini-batches; each chiplet has {cache['slots']} slots and {cache['ways']} ways ({cache['policy']}).",
            figures.svg(figures.cache(cache)),
        )
    graph = run.graph
    if 0 < graph.nodes <= _DRAWN_NODES and graph.symmetric:
        records, source = run.records, "Hubs and communities as the hardware found them."
        if records is None:
            schedule, limits = falling(graph), Limits(quarter(graph))
            records = locate(graph, schedule, limits).records
            source = (
                f"Communities of {limits.c_max} vertices at most as the golden locator finds them, "
                f"{schedule.describe()}."
            )
        yield "Adjacency, as given and by communities", source, figures.svg(figures.adjacency(graph, records))
    known = graph.test & (graph.labels >= 0)
    if known.any():
        yield (
            "Confusion matrix",
            "Test nodes, classes by the machine's results.",
            figures.svg(figures.confusion(graph.labels[known], run.predicted[known])),
        )
