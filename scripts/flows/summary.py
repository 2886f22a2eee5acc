"""The summary of a run on the screen, from the contents of `result.json`."""

import os
from pathlib import Path
from typing import Any

from golden.head import TASKS
from scripts.flows.batch import batch_rows
from scripts.flows.table import accuracies, console, show
from scripts.report.glossary import phase_title

__all__ = ["print_summary"]

#: Phases that have a row of their own.
_PHASES = 8


def _aggregation(found: dict[str, int] | None) -> list[tuple[str, str]]:
    """Return the row about shared sums, where there are any."""
    if not found or not found["baseline"]:
        return []

    def with_share(count: int) -> str:
        saved = 1 - count / found["baseline"]
        return f"{count:,} ({abs(saved):.1%} {'saved' if saved >= 0 else 'more'})"

    gross, net = (with_share(found[name]) for name in ("gross", "net"))
    return [("additions of rows", f"{found['baseline']:,} without sharing; gross {gross}, net {net}")]


def _phases(found: dict[str, int], cycles: int) -> list[tuple[str, str]]:
    """Return a row for each of the phases that take longest, and one for all others."""
    first = sorted(found, key=lambda phase: -found[phase])
    shown = first if len(first) <= _PHASES + 1 else first[:_PHASES]
    rows = [(f"  {phase_title(phase)}", found[phase]) for phase in shown]
    if len(shown) < len(first):
        rows.append((f"  {len(first) - len(shown)} others", sum(found[phase] for phase in first[_PHASES:])))
    return [(name, f"{spent:,} ({spent / max(1, cycles):.1%})") for name, spent in rows]


def _tiles(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the row about tiles, where a chiplet has no room for its share at once."""
    if not found or max(found["tiles"]) <= 1:
        return []
    by_chiplet = ", ".join(str(count) for count in found["tiles"])
    return [("tiles", f"{by_chiplet}: a layer is computed in parts that fit on the chip")]


def _head_rows(head: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the rows about a head, where there is one."""
    if head is None:
        return []
    found, vertices = head["accuracy"], head["vertices"]
    names = {"accuracy": "machine", "float": "float", "last layer": "network"}
    rows = [
        (
            "head",
            f"{head['features']} - {head['classes']}, {head['epochs']} epochs of {vertices['learnt']:,} vertices: "
            f"{accuracies({name: found[key] for name, key in names.items()}, 'test node')}",
        )
    ]
    if head["cycles"]:
        parts = [*(task.value for task in TASKS), "commands"]
        spent = ", ".join(f"{part} {head['cycles'][part]:,}" for part in parts)
        rows.append(("  its cycles", f"{head['cycles']['total']:,}: {spent}"))
    return rows


def print_summary(result: dict[str, Any], path: Path) -> None:
    """Print a run's figures, and where its files are.

    Parameters
    ----------
    result
        Contents of `result.json`.
    path
        Where that file is.
    """
    data, macs, bytes_ = result["dataset"], result["macs"], result["external_bytes"]
    rows: list[tuple[str, str]] = [
        ("graph", f"{data['name']}: {data['nodes']:,} nodes, {data['edges']:,} edges, {data['features']:,} features"),
        (
            "network",
            f"{result['model']['name']}, {result['model']['activation']}, "
            + " - ".join(
                str(n) for n in [result["model"]["layers"][0][0], *(pair[1] for pair in result["model"]["layers"])]
            ),
        ),
    ]
    if result["cycles"] is not None:
        moved = bytes_["read"] + bytes_["written"]
        if result["ring"]:
            ring = result["ring"]
            by_link = ", ".join(f"{words:,}" for words in ring["words_by_link"])
            ways = f"unicast {ring['unicast']:,}, broadcast {ring['broadcast']:,}"
            rows += [
                ("placement", ring["placement"]),
                ("words by link", f"{by_link}; at least {sum(ring['minimum']):,} in all; {ways}"),
            ]
        rows += [
            ("cycles", f"{result['cycles']:,}, at least {macs['limit_cycles']:,} with {macs['lanes']} lanes"),
            *_phases(result["cycles_by_phase"], result["cycles"]),
            *_tiles(result["communities"]),
            *_aggregation(result["aggregation"]),
            ("utilisation", f"{macs['utilisation']:.1%} of {macs['lanes']} lanes for {macs['useful']:,} operations"),
            (
                "external bytes",
                f"{bytes_['read']:,} read, {bytes_['written']:,} written: "
                f"{moved / max(1, bytes_['compulsory']):.2f} of the compulsory {bytes_['compulsory']:,}",
            ),
            (
                "simulation",
                f"{result['simulation']['wall_seconds']:.1f} s, "
                f"{result['simulation']['cycles_per_second']:,.0f} cycles a second",
            ),
        ]
    figures = result["accuracy"]
    measured = accuracies({name: figures[name] for name in ("machine", "float")}, "test node")
    rows.append(("accuracy", f"{measured}, {figures['agreement']:.2%} of predictions agree"))
    rows += _head_rows(result["head"])
    rows += batch_rows(result["batch"], result["attribute_cache"])
    verdict = {None: "not simulated", True: "yes", False: "NO"}[result["bit_exact"]]
    files = f"{os.path.relpath(path.with_name('report.html'))}, {path.name}"
    results = f"{os.path.relpath(path.with_name('predictions.npz'))}: results and class of every node"
    rows += [("bit-exact", verdict), ("report, figures", files), ("predictions", results)]
    show("atoll run", ("", ""), rows)
    for line in result["differences"] or ():
        console.print(f"[red]{line}[/red]")
    console.print(_conclusion(result, path), highlight=False, soft_wrap=True, markup=False)


def _conclusion(result: dict[str, Any], path: Path) -> str:
    """Return in a sentence or two what a run has shown, and where to look."""
    cycles, least = result["cycles"], result["macs"]["limit_cycles"]
    page = os.path.relpath(path.with_name("report.html"))
    if cycles is None:
        return f"Nothing was simulated: accuracy is that of the golden model. Look at {page}."
    if not result["bit_exact"]:
        kept = os.path.relpath(path.with_name("failed"))
        return f"The Verilog and the golden model differ. What was simulated is in {kept}; look at {page}."
    took = f"in {cycles:,} cycles, {cycles / max(1, least):.1f} times the least that multipliers and memory allow"
    return f"Every value that the Verilog computed is the golden model's, {took}. Where cycles went: {page}."
