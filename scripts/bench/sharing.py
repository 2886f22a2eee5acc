"""Windows, pairs and none over graphs of all kinds, in records of both widths: what shared sums save (I7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from golden.community.group import grouped
from golden.community.layer import operations_of
from golden.community.plan import Kind, Operations, Scheme, columns_of, plan
from golden.graph import Graph
from golden.locator.cover import cover_of
from golden.locator.locator import Limits, locate
from golden.locator.schedule import falling
from scripts.flows.table import show

__all__ = ["WIDTHS", "sharing"]

#: Nodes, and as many hubs, of a record.
WIDTHS = (64, 32)
#: Ways to share sums. Without them nothing is saved.
_SCHEMES = {
    **{f"window of {k}": Scheme(Kind.WINDOW, k) for k in (2, 4, 8)},
    **{f"pairs, {partners} partners": Scheme(partners=partners) for partners in (4, 8)},
}


def sharing(graphs: Mapping[str, Graph]) -> list[dict[str, Any]]:
    """Print and return the net share of additions that each scheme saves, by golden plans of records as a run has them.

    Parameters
    ----------
    graphs
        By name.

    Returns
    -------
    list of dict
        ``graph``, ``width``, and by scheme ``gross`` and ``net``: shares of the additions without shared sums.
    """
    rows: list[dict[str, Any]] = []
    for name, graph in graphs.items():
        cover = cover_of(graph)
        for width in WIDTHS:
            found = locate(cover.graph, falling(graph), Limits(width, width))
            together = grouped(found.records, 2 * width)
            records = [columns_of(record, cover.summed) for record in together]
            totals = {
                how: sum((operations_of(columns, plan(columns, scheme)) for columns in records), Operations())
                for how, scheme in _SCHEMES.items()
            }
            shares = {how: {"gross": total.pruned_gross, "net": total.pruned} for how, total in totals.items()}
            rows.append({"graph": name, "width": width, "saved": shares})
    show(
        "net additions that shared sums save; none: 0",
        ["graph", "nodes + hubs", *_SCHEMES],
        [
            (row["graph"], f"{row['width']} + {row['width']}", *(f"{row['saved'][how]['net']:.1%}" for how in _SCHEMES))
            for row in rows
        ],
    )
    return rows
