"""A policy with look-ahead: it uses the requests that the sampler has already drawn.

Belady's optimum keeps the rows with the nearest next request. A sampler runs ahead of the rows, so the requests of the
next positions are known when a victim is chosen; degree decides among entries that are not among them.
"""

from collections.abc import Callable, Iterable, Sequence

from contracts import Policy
from golden.attributes.cache import AttributeRam, Step

__all__ = ["LookAheadRam", "replay_ahead"]


class LookAheadRam(AttributeRam):
    """Attribute RAM whose cache evicts the row requested last, or not at all, among the next `window` requests.

    Parameters
    ----------
    slots, ways, degree
        As for `AttributeRam`.
    window
        Length of the look-ahead in requests; None: all, which is Belady's rule for the cache alone.
    """

    def __init__(
        self, slots: int, ways: int, window: int | None, degree: Callable[[int], int] = lambda node: 0
    ) -> None:
        self.window = window
        self._now, self._next = 0, dict[int, int]()
        super().__init__(slots, ways, Policy.DEGREE, degree=degree)

    def record(self, now: int, node: int, following: int) -> None:
        """Record that request `now` is for `node`, and its next request."""
        self._now, self._next[node] = now, following

    def _urgency(self, node: int) -> tuple[int, int]:
        distance = self._next[node] - self._now
        if self.window is not None and distance > self.window:
            return 1, -self._degree(node)
        return 0, distance

    def _victim(self) -> int:
        worth = [self._urgency(node) for node in self.cache if node is not None]
        return worth.index(max(worth))


def replay_ahead(ram: LookAheadRam, requests: Sequence[tuple[int, int]]) -> list[Step]:
    """Return the steps of a trace whose future requests the policy sees."""
    following, last = [len(requests)] * len(requests), dict[int, int]()
    for at in range(len(requests) - 1, -1, -1):
        node = requests[at][0]
        # A row without another request is beyond any window.
        following[at] = last.get(node, 2 * len(requests) + (ram.window or 0))
        last[node] = at

    def steps() -> Iterable[Step]:
        for at, (node, slot) in enumerate(requests):
            ram.record(at, node, following[at])
            yield ram.request(node, slot)

    return list(steps())
