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
        Numbers of tasks and pieces moved to another PE than their turn's, and of split tasks.
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

    A task goes to the least busy PE within `hops` of the one whose turn it is; of equals to the nearest, upwards before
    downwards. If that PE would then have more than `threshold` more than the least busy of all, the task is extreme:
    it is split, and each `grain` rows go where a task goes then, one after the other. Fewer rows are never split.

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
    most
        Largest load that is told apart, one less than a power of two: loads beyond it count as much. When all have half
        of that power, it is taken off all. Default: there is no limit.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    def __init__(self, pes: int, hops: int, threshold: int, grain: int, most: int | None = None) -> None:
        if not 1 <= pes <= 64:
            raise InputError("allocator, pes", f"is {pes}", "1..64")
        if not 0 <= hops <= HOPS_MAX:
            raise InputError("allocator, hops", f"is {hops}", f"0..{HOPS_MAX}")
        if threshold < 0:
            raise InputError("allocator, threshold", f"is {threshold}", "at least 0")
        if grain < 1:
            raise InputError("allocator, grain", f"is {grain}", "at least 1")
        self.pes, self.hops, self.threshold, self.grain, self.most = pes, hops, threshold, grain, most
        self.turn = 0
        self.allocation = Allocation([], [0] * pes)
        # Loads as they are told apart.
        self._loads = [0] * pes

    def add(self, task: int, rows: int, columns: int, every: int = 0) -> None:
        """Allocate one task.

        Parameters
        ----------
        task
            Its number.
        rows, columns
            Rows of the task, and the work of each.
        every
            Work of the task, and of each of its pieces, beside that of their rows.
        """
        if self._loads[self._chosen()] + rows * columns + every <= min(self._loads) + self.threshold:
            pieces = [range(rows)]
        else:
            pieces = [range(first, min(first + self.grain, rows)) for first in range(0, rows, self.grain)]
        self.allocation.remapped += len(pieces) > 1
        for piece in pieces:
            self._give(Assignment(task, self._chosen(), piece.start, len(piece)), len(piece) * columns + every)

    def _chosen(self) -> int:
        """Return the least busy PE within reach."""
        steps = [0] + [sign * hop for hop in range(1, self.hops + 1) for sign in (1, -1)]
        return min(((self.turn + step) % self.pes for step in steps), key=lambda pe: self._loads[pe])

    def _give(self, assignment: Assignment, work: int) -> None:
        found, loads = self.allocation, self._loads
        found.assignments.append(assignment)
        found.smoothed += assignment.pe != self.turn
        found.loads[assignment.pe] += work
        loads[assignment.pe] += work
        if self.most is not None:
            half = (self.most + 1) // 2
            loads[assignment.pe] = min(loads[assignment.pe], self.most)
            if min(loads) >= half:
                self._loads = [load - half for load in loads]
        self.turn = (self.turn + 1) % self.pes


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
