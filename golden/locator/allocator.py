"""Task allocator: assigns rows of records to PEs and measures the balance (I5)."""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from contracts.communities import HOPS_MAX
from contracts.errors import InputError
from golden.locator.record import Record

__all__ = ["Allocation", "Allocator", "Assignment", "longest_first", "lower_bound", "work_of"]


@dataclass(frozen=True)
class Assignment:
    """Rows of a record that are assigned to one PE.

    Attributes
    ----------
    task
        Number of the task.
    pe
        Number of the PE.
    first, rows
        Rows of the record.
    """

    task: int
    pe: int
    first: int
    rows: int


@dataclass
class Allocation:
    """Decisions of the allocator.

    Attributes
    ----------
    assignments
        In the order of decision.
    loads
        Work of every PE.
    smoothed, remapped
        Numbers of tasks moved to another PE than their turn's, and of split tasks.
    """

    assignments: list[Assignment]
    loads: list[int]
    smoothed: int = 0
    remapped: int = 0

    @property
    def imbalance(self) -> float:
        """Load of the busiest PE over the mean load; 1 without load."""
        return max(self.loads) * len(self.loads) / sum(self.loads) if sum(self.loads) else 1.0


def work_of(record: Record) -> tuple[int, int]:
    """Return the rows of a record's bitmap and the positions in each: their product is the work of scanning it."""
    return record.nodes.size, record.nodes.size + record.hubs.size


class Allocator:
    """PEs in a ring; tasks come to them in turn and move to a less busy neighbour, or are split.

    A task goes whole to the least busy PE within `hops` of the one whose turn it is, if that PE then has at most
    `threshold` more than the least busy of all. Otherwise it is extreme: it is split, and each `grain` rows go to the
    least busy PE of all. Of equally busy PEs the nearest is taken, upwards before downwards; of all PEs the lowest.

    Parameters
    ----------
    pes
        Number of PEs, 1 to 64.
    hops
        Reach of smoothing, 0 (none) to 3.
    threshold
        Largest difference of loads that a whole task may cause.
    grain
        Rows of a piece, at least 1.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    def __init__(self, pes: int, hops: int, threshold: int, grain: int) -> None:
        if not 1 <= pes <= 64:
            raise InputError("allocator, pes", f"is {pes}", "1..64")
        if not 0 <= hops <= HOPS_MAX:
            raise InputError("allocator, hops", f"is {hops}", f"0..{HOPS_MAX}")
        if threshold < 0:
            raise InputError("allocator, threshold", f"is {threshold}", "at least 0")
        if grain < 1:
            raise InputError("allocator, grain", f"is {grain}", "at least 1")
        self.pes, self.hops, self.threshold, self.grain = pes, hops, threshold, grain
        self.turn = 0
        self.allocation = Allocation([], [0] * pes)

    def add(self, task: int, rows: int, columns: int) -> None:
        """Allocate one task of `rows` times `columns` positions."""
        found, loads = self.allocation, self.allocation.loads
        home, self.turn = self.turn, (self.turn + 1) % self.pes
        order = [home] + [(home + sign * hop) % self.pes for hop in range(1, self.hops + 1) for sign in (1, -1)]
        chosen = min(order, key=lambda pe: loads[pe])
        if loads[chosen] + rows * columns <= min(loads) + self.threshold:
            found.smoothed += chosen != home
            self._give(Assignment(task, chosen, 0, rows), columns)
            return
        found.remapped += 1
        for first in range(0, rows, self.grain):
            least = min(range(self.pes), key=lambda pe: loads[pe])
            self._give(Assignment(task, least, first, min(self.grain, rows - first)), columns)

    def _give(self, assignment: Assignment, columns: int) -> None:
        self.allocation.assignments.append(assignment)
        self.allocation.loads[assignment.pe] += assignment.rows * columns

    def retire(self, pe: int, work: int) -> None:
        """Take off `work` that a PE has done."""
        self.allocation.loads[pe] -= work


def longest_first(works: Iterable[int], pes: int) -> list[int]:
    """Return the loads when whole tasks, the longest first, each go to the least busy PE.

    This needs all tasks in advance; the hardware allocates each task as it is found.
    """
    loads = [0] * pes
    for work in sorted(works, reverse=True):
        heapq.heapreplace(loads, loads[0] + work)
    return loads


def lower_bound(works: Sequence[int], pes: int) -> int:
    """Return the least load the busiest PE can have with whole tasks: the mean, or the longest task."""
    return max(-(-sum(works) // pes), max(works, default=0))
