"""Tables on the screen, one look for all flows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

#: Width of tables where the output is no terminal.
WIDTH = 140
console = Console() if Console().is_terminal else Console(width=WIDTH)


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table; numbers stand to the right, floats with one decimal, `None` as a dash."""
    rows = [list(row) for row in rows]
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int | float) or row[index] is None for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def accuracies(found: Mapping[str, float | None], nodes: str) -> str:
    """Return accuracies with their names, or the remark that there are none.

    Parameters
    ----------
    found
        By name, 0 to 1; None if no node's class is known.
    nodes
        Which node it is measured on.
    """
    known = {name: value for name, value in found.items() if value is not None}
    if not known:
        return f"no {nodes} of known class"
    return ", ".join(f"{name} {value:.2%}" for name, value in known.items())
