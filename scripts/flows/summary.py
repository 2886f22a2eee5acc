"""The summary of a run on the screen."""

import os
from pathlib import Path

from scripts.flows.balance import balance_rows
from scripts.flows.batch_figures import batch_rows
from scripts.flows.schema import Aggregation, Communities, Head, Result
from scripts.flows.session import session_rows
from scripts.flows.table import accuracies, console, show
from scripts.report.glossary import phase_title

__all__ = ["print_summary"]

#: Phases that have a row of their own.
_PHASES = 8


def _aggregation(found: Aggregation | None) -> list[tuple[str, str]]:
    """Return the row about shared sums, if there are any."""
    if not found or not found.baseline:
        return []

    def with_share(count: int) -> str:
        saved = 1 - count / found.baseline
        return f"{count:,} ({abs(saved):.1%} {'saved' if saved >= 0 else 'more'})"

    shares = f"gross {with_share(found.gross)}, net {with_share(found.net)}"
    return [("additions of rows", f"{found.baseline:,} without sharing; with {found.scheme}: {shares}")]


def _phases(found: dict[str, int], cycles: int) -> list[tuple[str, str]]:
    """Return a row for each of the phases that take longest, and one for all others."""
    first = sorted(found, key=lambda phase: -found[phase])
    shown = first if len(first) <= _PHASES + 1 else first[:_PHASES]
    rows = [(f"  {phase_title(phase)}", found[phase]) for phase in shown]
    if len(shown) < len(first):
        rows.append((f"  {len(first) - len(shown)} others", sum(found[phase] for phase in first[_PHASES:])))
    return [(name, f"{spent:,} ({spent / max(1, cycles):.1%})") for name, spent in rows]


def _tiles(found: Communities | None) -> list[tuple[str, str]]:
    """Return the row about tiles, if a chiplet has no room for its share at once."""
    if not found or max(found.tiles) <= 1:
        return []
    by_chiplet = ", ".join(map(str, found.tiles))
    order = f"{found.placement} together, by the host in {found.placing_seconds:.2f} s"
    how = "in the order given" if found.placement == "tiles" else order
    return [("tiles", f"{by_chiplet}: a layer is computed in parts that fit on the chip, {how}")]


def _head_rows(head: Head | None) -> list[tuple[str, str]]:
    """Return the rows about a head, if there is one."""
    if head is None:
        return []
    found = head.accuracy
    shares = {"accuracy": found.machine, "float": found.float, "last layer": found.network}
    widths = " - ".join(map(str, (head.features, *head.hidden, head.classes)))
    rows = [
        (
            "head",
            f"{widths}, {head.epochs} epochs of {head.vertices.learnt:,} vertices: {accuracies(shares, 'test node')}",
        )
    ]
    if spent := head.cycles:
        parts = f"learning {spent.learning:,}, reading {spent.reading:,}, scoring {spent.scoring:,}"
        rows.append(("  its cycles", f"{spent.total:,}: {parts}, commands {spent.commands:,}"))
    return rows


def print_summary(result: Result, path: Path) -> None:
    """Print a run's figures, and where its files are.

    Parameters
    ----------
    result
        Figures of the run.
    path
        Path of `result.json`.
    """
    data, macs, moved = result.dataset, result.macs, result.external_bytes
    widths = [result.model.layers[0][0], *(f_out for _, f_out in result.model.layers)]
    small = f"{data.graphs:,} small graphs, " if data.graphs else ""
    rows: list[tuple[str, str]] = [
        ("graph", f"{data.name}: {small}{data.nodes:,} nodes, {data.edges:,} edges, {data.features:,} features"),
        ("network", f"{result.model.name}, {result.model.activation}, {' - '.join(map(str, widths))}"),
    ]
    if result.cycles is not None:
        if ring := result.ring:
            by_link = ", ".join(f"{words:,}" for words in ring.words_by_link)
            ways = f"unicast {ring.unicast:,}, broadcast {ring.broadcast:,}"
            rows += [
                (
                    "placement",
                    f"{ring.placement}, by the host in {ring.placing_seconds:.2f} s; the busiest chiplet has "
                    f"{ring.imbalance:.2f} times the mean of operations",
                ),
                ("words by link", f"{by_link}; at least {ring.least:,} in all; {ways}"),
            ]
        rows += [
            ("cycles", f"{result.cycles:,}, at least {macs.limit_cycles:,} with {macs.lanes} lanes"),
            *_phases(result.cycles_by_phase or {}, result.cycles),
            *balance_rows(result.balance),
            *_tiles(result.communities),
            *_aggregation(result.aggregation),
            ("utilisation", f"{macs.utilisation:.1%} of {macs.lanes} lanes for {macs.useful:,} operations"),
            (
                "external bytes",
                f"{moved.read:,} read, {moved.written:,} written: "
                f"{moved.total / max(1, moved.compulsory):.2f} of the compulsory {moved.compulsory:,}",
            ),
            (
                "simulation",
                f"{result.simulation.wall_seconds:.1f} s, {result.simulation.cycles_per_second:,.0f} cycles a second",
            ),
        ]
    found = result.accuracy
    what = "graph" if data.graphs else "node"
    measured = accuracies({"machine": found.machine, "float": found.float}, f"test {what}")
    rows.append(("accuracy", f"{measured}, {found.agreement:.2%} of predictions agree"))
    if found.losses:
        worst = max(range(len(found.losses)), key=found.losses.__getitem__)
        rows.append(
            ("loss", f"layer {worst} loses most: {100 * found.losses[worst]:.1f} points if it alone is in integers")
        )
    rows += _head_rows(result.head)
    rows += batch_rows(result.batch, result.attribute_cache)
    rows += session_rows(result.session)
    verdict = {None: "not simulated", True: "yes", False: "NO"}[result.bit_exact]
    files = f"{os.path.relpath(path.with_name('report.html'))}, {path.name}"
    results = f"{os.path.relpath(path.with_name('predictions.npz'))}: results and class of every {what}"
    rows += [("bit-exact", verdict), ("report, figures", files), ("predictions", results)]
    show("atoll run", ("", ""), rows)
    for line in result.differences or ():
        console.print(f"[red]{line}[/red]")
    console.print(_conclusion(result, path), highlight=False, soft_wrap=True, markup=False)


def _conclusion(result: Result, path: Path) -> str:
    """Return a sentence or two: the finding of a run, and where to look."""
    cycles, least = result.cycles, result.macs.limit_cycles
    page = os.path.relpath(path.with_name("report.html"))
    if cycles is None:
        return f"Nothing was simulated: accuracy is that of the golden model. Look at {page}."
    if not result.bit_exact:
        kept = os.path.relpath(path.with_name("failed"))
        return f"The Verilog and the golden model differ. What was simulated is in {kept}; look at {page}."
    took = f"in {cycles:,} cycles, {cycles / max(1, least):.1f} times the least that multipliers and memory allow"
    return f"Every value that the Verilog computed is the golden model's, {took}. Where cycles went: {page}."
