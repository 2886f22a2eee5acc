"""How evenly the units of a machine work, by the cycles in which the RTL says that they do (I5)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scripts.flows.schema import Balance

__all__ = ["balance", "balance_rows"]


def balance(parts: Sequence[str], working: Sequence[npt.NDArray[np.uint8]]) -> list[Balance]:
    """Return the balance of every kind of unit of which there are several.

    Parameters
    ----------
    parts
        Names of the units of a chiplet; those that differ only in a number are of a kind.
    working
        Of every chiplet, see `sim.models.activity.activity`.
    """
    cycles = [counts.sum(axis=0, dtype=np.int64) for counts in working]
    kinds: dict[str, list[int]] = {}
    for part, *counts in zip(parts, *cycles, strict=True):
        kinds.setdefault(re.sub(r" \d+", "", part), []).extend(int(count) for count in counts)
    return [
        Balance(kind, len(counts), max(counts), sum(counts) / len(counts), max(counts) * len(counts) / sum(counts))
        for kind, counts in kinds.items()
        if len(counts) > 1 and any(counts)
    ]


def balance_rows(found: Sequence[Balance] | None) -> list[tuple[str, str]]:
    """Return the row of the printed summary about balance, if there is any."""
    shown = [f"busiest {one.kind} {one.imbalance:.2f} of the mean {one.mean:,.0f} cycles" for one in found or ()]
    return [("balance", ", ".join(shown))] if shown else []
