"""Belady's optimum: the fewest fetches of any replacement policy on a known trace."""

from collections.abc import Sequence
from heapq import heappop, heappush

__all__ = ["belady_misses"]


def belady_misses(trace: Sequence[int], entries: int) -> int:
    """Misses of a fully associative store of `entries` with demand fetch and no bypass.

    It evicts the entry whose next request is farthest away.

    Parameters
    ----------
    trace
        IDs in the order of the requests.
    entries
        Size of the store, at least 1.

    Raises
    ------
    ValueError
        If there are no entries.
    """
    if entries < 1:
        raise ValueError(f"entries must be at least 1, not {entries!r}")
    never = len(trace)
    following = [never] * len(trace)
    last: dict[int, int] = {}
    for at in range(len(trace) - 1, -1, -1):
        following[at] = last.get(trace[at], never)
        last[trace[at]] = at
    held: dict[int, int] = {}
    farthest: list[tuple[int, int]] = []  # (-next use, ID); outdated entries are skipped
    misses = 0
    for at, node in enumerate(trace):
        if node not in held:
            misses += 1
            if len(held) == entries:
                while True:
                    use, victim = heappop(farthest)
                    if held.get(victim) == -use:
                        break
                del held[victim]
        held[node] = following[at]
        heappush(farthest, (-following[at], node))
    return misses
