"""How evenly the units of a machine work, by the registers in which the RTL counts their cycles (I5)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from scripts.flows.schema import Balance

__all__ = ["balance", "balance_rows"]


def balance(parts: Sequence[str], cycles: Sequence[Sequence[int]]) -> list[Balance]:
    """Return the balance of every kind of unit of which there are several.

    Parameters
    ----------
    parts
        Names of the units of a chiplet; those that differ only in a number are of a kind.
    cycles
        In which each of them worked, of every chiplet: see `sim.driver.Driver.working`.
    """
    kinds: dict[str, list[int]] = {}
    for part, *counts in zip(parts, *cycles, strict=True):
        kinds.setdefault(re.sub(r" \d+", "", part), []).extend(counts)
    return [
        Balance(kind, len(counts), max(counts), sum(counts) / len(counts), max(counts) * len(counts) / sum(counts))
        for kind, counts in kinds.items()
        if len(counts) > 1 and any(counts)
    ]


def balance_rows(found: Sequence[Balance] | None) -> list[tuple[str, str]]:
    """Return the row of the printed summary about balance, if there is any."""
    shown = [f"busiest {one.kind} {one.imbalance:.2f} of the mean {one.mean:,.0f} cycles" for one in found or ()]
    return [("balance", ", ".join(shown))] if shown else []
