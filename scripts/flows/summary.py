"""The summary of a run on the screen, from the contents of `result.json`."""

import os
from pathlib import Path
from typing import Any

from golden.head import TASKS
from scripts.flows.batch import batch_rows
from scripts.flows.table import console, show

__all__ = ["print_summary"]


def _aggregation(found: dict[str, int] | None) -> list[tuple[str, str]]:
    """Return the row about shared sums, where there are any."""
    if not found or not found["baseline"]:
        return []

    def with_share(count: int) -> str:
        saved = 1 - count / found["baseline"]
        return f"{count:,} ({abs(saved):.1%} {'saved' if saved >= 0 else 'more'})"

    gross, net = (with_share(found[name]) for name in ("gross", "net"))
    return [("additions of rows", f"{found['baseline']:,} without sharing; gross {gross}, net {net}")]


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
    rows = [
        (
            "head",
            f"{head['features']} - {head['classes']}, {head['epochs']} epochs of {vertices['learnt']:,} vertices: "
            f"accuracy {found['machine']:.2%}, float {found['float']:.2%}, last layer {found['network']:.2%}",
        )
    ]
    if head["cycles"]:
        spent = ", ".join(f"{task.value} {head['cycles'][task.value]:,}" for task in TASKS)
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
            *((f"  {phase}", f"{cycles:,}") for phase, cycles in (result["cycles_by_phase"] or {}).items()),
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
    rows.append(
        (
            "accuracy",
            f"machine {figures['machine']:.2%}, float {figures['float']:.2%}, "
            f"{figures['agreement']:.2%} of predictions agree",
        )
    )
    rows += _head_rows(result["head"])
    rows += batch_rows(result["batch"], result["attribute_cache"])
    verdict = {None: "not simulated", True: "yes", False: "NO"}[result["bit_exact"]]
    files = f"{os.path.relpath(path.with_name('report.html'))}, {path.name}"
    rows += [("bit-exact", verdict), ("report, figures", files)]
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
