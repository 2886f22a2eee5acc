"""The best replacement policy of the cache, which knows all requests to come: a bound for the others (A8)."""

from collections.abc import Sequence

from contracts import Policy
from golden.attributes.cache import AttributeRam, Step

__all__ = ["ClairvoyantRam", "replay_clairvoyant"]


class ClairvoyantRam(AttributeRam):
    """Attribute RAM whose cache evicts the row requested last, or not at all: Belady's rule for the cache alone.

    Parameters
    ----------
    slots, ways
        As for `AttributeRam`.
    """

    def __init__(self, slots: int, ways: int) -> None:
        self._next = dict[int, int]()
        super().__init__(slots, ways, Policy.DEGREE)

    def record(self, node: int, following: int) -> None:
        """Record the number of a node's next request."""
        self._next[node] = following

    def _victim(self) -> int:
        worth = [self._next[node] for node in self.cache if node is not None]
        return worth.index(max(worth))


def replay_clairvoyant(ram: ClairvoyantRam, requests: Sequence[tuple[int, int]]) -> list[Step]:
    """Return the steps of a trace of (ID, target address) pairs whose requests to come the policy knows."""
    following, last = [len(requests)] * len(requests), dict[int, int]()
    for at in range(len(requests) - 1, -1, -1):
        following[at] = last.get(requests[at][0], len(requests))
        last[requests[at][0]] = at
    steps = []
    for (node, slot), after in zip(requests, following, strict=True):
        ram.record(node, after)
        steps.append(ram.request(node, slot))
    return steps
