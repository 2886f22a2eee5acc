"""Plans of shared sums: the vector operations of a record (I6, I7).

A record of n nodes and h hubs is a symmetric matrix of n + h rows and columns: the bitmap, and below it the hubs'
rows, which are the bitmap's hub columns transposed. A *column* is the set of rows that a vector is added to, as an
integer whose bit r stands for row r. Columns from n + h on are sums of others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from contracts.communities import K_VALUES, PARTNERS_MAX
from contracts.errors import InputError
from golden.graph import BoolArray
from golden.locator.record import Record

__all__ = ["PAIRS", "Kind", "Operations", "Scheme", "Task", "columns_of", "plan", "scheme_of"]


class Kind(IntEnum):
    """Kind of shared sums."""

    #: A window of k columns: their sum is added and the unconnected columns are subtracted, where that is cheaper.
    WINDOW = 0
    #: Pairs of near columns with the most rows in common, pairs of pairs included.
    PAIRS = 1
    #: Nothing is shared.
    NONE = 2


@dataclass(frozen=True)
class Scheme:
    """Parameters of planning.

    Attributes
    ----------
    kind
        Kind of shared sums.
    k
        Columns of a window, 2, 4 or 8.
    partners
        Following columns that a column is compared with, at least 1; see `near`.
    columns
        Most columns of a record, shared sums included; the limit ends the forming of sums.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    kind: Kind = Kind.PAIRS
    k: int = 2
    partners: int = 8
    columns: int = 256

    def __post_init__(self) -> None:
        if self.k not in K_VALUES:
            raise InputError("scheme, k", f"is {self.k}", "2, 4 or 8")
        if not 1 <= self.partners <= PARTNERS_MAX:
            raise InputError("scheme, partners", f"is {self.partners}", f"1..{PARTNERS_MAX}")
        if self.columns < 1:
            raise InputError("scheme, columns", f"is {self.columns}", "at least 1")

    @property
    def room(self) -> int:
        """Most columns, as a planner knows it: none where nothing is shared."""
        return 0 if self.kind is Kind.NONE else self.columns

    def near(self, columns: int) -> int:
        """Return how many following columns each one of a record of so many columns is compared with.

        Two fewer where there are more than an eighth of the most columns: those records take longest to plan.
        """
        fewer = max(self.partners - 2, min(self.partners, 2))
        return fewer if columns > self.columns >> 3 else self.partners

    @property
    def operands(self) -> dict[str, int]:
        """Operands of PROCESS."""
        return {"pairs": int(self.kind is Kind.PAIRS), "window": self.k - 1 if self.kind is Kind.WINDOW else 0}

    @classmethod
    def named(cls, name: str | None, k: int | None, partners: int, columns: int) -> "Scheme":
        """Return the scheme with one of the names `SCHEMES`, by default pairs; of windows with two columns."""
        return cls(Kind[(name or "pairs").upper()], k or K_VALUES[0], partners, columns)

    def describe(self) -> str:
        """Return how sums are shared, in words."""
        return f"windows of {self.k}" if self.kind is Kind.WINDOW else self.kind.name.lower()


def scheme_of(operands: Mapping[str, int]) -> Scheme:
    """Return how sums are shared with the operands of a PROCESS."""
    if operands["pairs"]:
        return PAIRS
    return Scheme(Kind.WINDOW, operands["window"] + 1) if operands["window"] else Scheme(Kind.NONE)


#: What a run does unless its user wants otherwise.
PAIRS = Scheme()


@dataclass(frozen=True)
class Task:
    """One vector and its rows.

    Attributes
    ----------
    index
        Column of the vector.
    rows
        Rows that it is added to, one bit each.
    negative
        It is subtracted instead.
    form
        The vector is first formed, as that of `left` plus that of `right`.
    left, right
        Columns.
    """

    index: int
    rows: int
    negative: bool = False
    form: bool = False
    left: int = 0
    right: int = 0


@dataclass(frozen=True)
class Operations:
    """Additions and subtractions of vectors.

    Attributes
    ----------
    baseline
        Non-zeros of the matrix: additions without sharing.
    gross
        Additions to, and subtractions from, rows.
    formed
        Additions that formed shared sums.
    """

    baseline: int = 0
    gross: int = 0
    formed: int = 0

    def __add__(self, other: "Operations") -> "Operations":
        """Sum of both."""
        return Operations(self.baseline + other.baseline, self.gross + other.gross, self.formed + other.formed)

    @property
    def net(self) -> int:
        """All operations of the adders."""
        return self.gross + self.formed

    @property
    def pruned_gross(self) -> float:
        """Saving at the rows, as a fraction of the baseline."""
        return 1 - self.gross / self.baseline if self.baseline else 0.0

    @property
    def pruned(self) -> float:
        """Net saving, as a fraction of the baseline."""
        return 1 - self.net / self.baseline if self.baseline else 0.0


def columns_of(
    record: Record, summed: BoolArray | None = None, *, rooted: bool = False, share: range | None = None
) -> list[int]:
    """Return the columns of a record: integers whose bit r is the entry of row r.

    Parameters
    ----------
    record
        Whole: part 0 of a community, or any of a hub.
    summed
        bool [VIDs], vertices whose sums are wanted: others have no rows, only columns. Default: all.
    rooted
        Leave out the diagonal: own rows are no neighbours' rows. A record of one row keeps it, so that its row has a
        sum; its vector is 0.
    share
        Node rows of a share of the record (I5): the others are left out, and their vectors are added to no hub.
        Default: all.
    """
    nodes, vids = record.nodes.size, np.concatenate([record.nodes, record.hubs])
    weights = np.array([1 << row for row in range(vids.size)], dtype=object)
    wanted = np.ones(vids.size, dtype=np.bool_) if summed is None else summed[vids]
    bitmap = record.bitmap
    if rooted and vids.size > 1:
        bitmap = bitmap & ~np.eye(*bitmap.shape, dtype=np.bool_)
    inside = np.ones(nodes, dtype=np.bool_) if share is None else np.isin(np.arange(nodes), share)
    wanted[:nodes] &= inside
    # Rows of the columns of nodes: all nodes are added to nodes of the share, and those of the share to hubs.
    used = (np.arange(vids.size) < nodes) | inside[:, None]
    columns = [int(weights[row].sum()) if row.any() else 0 for row in bitmap & wanted & used]
    turned = bitmap[:, nodes:].T & wanted[:nodes]
    return columns + [int(weights[:nodes][row].sum()) if row.any() else 0 for row in turned]


def plan(columns: Sequence[int], scheme: Scheme) -> list[Task]:
    """Plan the sums of a record.

    Parameters
    ----------
    columns
        See `columns_of`.
    scheme
        Parameters.

    Returns
    -------
    list of Task
        In the order of execution: a vector is formed before it is used.
    """
    ways = {Kind.WINDOW: _windows, Kind.PAIRS: _pairs, Kind.NONE: _apart}
    return list(ways[scheme.kind](columns, scheme))


def _apart(columns: Sequence[int], scheme: Scheme) -> Iterator[Task]:
    """Add every column by itself."""
    yield from (Task(index, column) for index, column in enumerate(columns) if column)


def _windows(columns: Sequence[int], scheme: Scheme) -> Iterator[Task]:
    """Add the sum of k columns to the rows where that saves operations, and subtract the unconnected columns."""
    sums = len(columns)
    for first in range(0, len(columns), scheme.k):
        window = columns[first : first + scheme.k]
        rows = 0
        for row in range(max(column.bit_length() for column in window)):
            connected = sum(column >> row & 1 for column in window)
            if 1 + len(window) - connected < connected and sums < scheme.columns:
                rows |= 1 << row
        for index, column in enumerate(window, first):
            if column & ~rows:
                yield Task(index, column & ~rows)
            if rows & ~column:
                yield Task(index, rows & ~column, negative=True)
        if rows:
            for index in range(first + 1, first + len(window)):
                left = first if index == first + 1 else sums
                last = index == first + len(window) - 1
                yield Task(sums, rows if last else 0, form=True, left=left, right=index)
            sums += 1


def _pairs(columns: Sequence[int], scheme: Scheme) -> Iterator[Task]:
    """Take columns in order; split off the intersection of each with the best of its partners, as a new column."""
    rest, partners = list(columns), scheme.near(len(columns))
    parts: list[tuple[int, int] | None] = [None] * len(rest)
    index = 0
    while index < len(rest):
        while rest[index].bit_count() > 1 and len(rest) < scheme.columns:
            near = range(index + 1, min(len(rest), index + 1 + partners))
            # Of equal partners the nearest: max() keeps the first.
            partner = max(near, key=lambda other: (rest[index] & rest[other]).bit_count(), default=index)
            common = rest[index] & rest[partner] if partner != index else 0
            if common.bit_count() < 2:
                break
            rest[index] ^= common
            rest[partner] ^= common
            rest.append(common)
            parts.append((index, partner))
        formed = parts[index]
        if formed:
            yield Task(index, rest[index], form=True, left=formed[0], right=formed[1])
        elif rest[index]:
            yield Task(index, rest[index])
        index += 1
