"""Threshold schedules of the hub detector (I1)."""

from dataclasses import dataclass

import numpy as np

from contracts.communities import BRANCHES, K_VALUES, ROUNDS_MAX, SCHEMES, SHARE, TOP_DEGREE
from contracts.errors import InputError
from golden.graph import Graph, IntArray
from golden.locator.cover import cover_of

__all__ = ["ANY", "SLOW", "Choice", "Schedule", "balanced", "falling", "quarter"]

#: Largest part of a PE's vertices that a community is by default, and vertices that it always may have.
_PART, _FEWEST = 10, 6
#: Edges by which neighbourhoods are compared.
_SAMPLES = 1000


@dataclass(frozen=True)
class Schedule:
    """Thresholds of a run, falling until every node is identified (I1).

    Attributes
    ----------
    threshold
        TH of the first round; a pending node with a larger degree becomes a hub.
    halving
        Halve the threshold every round; otherwise it falls by `step`, down to 0.
    step
        Fall of the threshold a round.
    rounds
        Rounds after which the watchdog stops the search, 1 to `ROUNDS_MAX`.
    by_degrees
        The first threshold is that of :func:`falling`. Hardware that sees the whole graph finds it by itself.

    Raises
    ------
    InputError
        If a value is out of range, or the threshold cannot reach 0 within `rounds`.
    """

    threshold: int = 16
    halving: bool = True
    step: int = 1
    rounds: int = ROUNDS_MAX
    by_degrees: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1 << 32:
            raise InputError("schedule, threshold", f"is {self.threshold}", "0..4,294,967,295")
        if not 0 <= self.step < 1 << 16:
            raise InputError("schedule, step", f"is {self.step}", "0..65,535")
        if not 1 <= self.rounds <= ROUNDS_MAX:
            raise InputError("schedule, rounds", f"is {self.rounds}", f"1..{ROUNDS_MAX:,}")

    def require_end(self) -> None:
        """Refuse a schedule that may run out of rounds before its threshold is 0.

        Raises
        ------
        InputError
            With the necessary number of rounds.
        """
        if self.threshold and not self.halving and not self.step:
            raise InputError("schedule, step", "is 0, so the threshold never falls", "at least 1")
        falls = self.threshold.bit_length() if self.halving else -(-self.threshold // max(self.step, 1))
        needed = falls + 1
        if needed > self.rounds:
            raise InputError("schedule, rounds", f"is {self.rounds}", f"at least {needed}, until the threshold is 0")

    def after(self, threshold: int) -> int:
        """Return the threshold of the round after one with `threshold`."""
        return threshold >> 1 if self.halving else max(0, threshold - self.step)

    def describe(self) -> str:
        """Return a description of the thresholds."""
        return f"thresholds from {self.threshold} {'halving' if self.halving else f'falling by {self.step}'}"


#: Falls slowly, so that communities share more sums; used for placements and sampling orders.
SLOW = Schedule(16, False, 1)


def falling(graph: Graph, chiplets: int = 1) -> Schedule:
    """Return the schedule of a run: it starts where an eighth of the vertices are hubs or more, and falls slowly.

    Rounds with higher thresholds read many edges and find few communities, since hardly any vertex is a hub yet. While
    the rest of the graph hangs together, every search of a round is given up. It hangs together if a search finds
    several vertices more at each that it comes to. Were vertices joined at random, these would be the sum of d(d - 1)
    over the degrees d of all that are no hubs, for each edge. So the threshold falls until they are `BRANCHES` / 2, but
    not so far that more than half of the vertices are hubs: where degrees are alike these would be all (I1).

    Where several chiplets locate a part each, that takes less time than what follows, and the threshold is the first of
    these: it leaves vertices in communities that would be hubs, whose sums travel.

    Degrees of a directed graph are those of its double cover. Those above `TOP_DEGREE` are not told apart, so no
    threshold is higher.

    Parameters
    ----------
    graph
        The whole graph.
    chiplets
        Chiplets that share it out.
    """
    cover = cover_of(graph).graph
    degrees = np.minimum(np.sort(cover.degrees), TOP_DEGREE).astype(np.int64)
    if not degrees.size:
        return Schedule(0, False, SLOW.step, by_degrees=True)
    # The least degrees that so many exceed at most: that many vertices are behind them in the order of degrees.
    most, least = (int(degrees[degrees.size - 1 - degrees.size // share]) for share in (SHARE, 2))
    if chiplets > 1:
        return Schedule(most, False, SLOW.step)
    # The first degree with which a search finds too many.
    branches = np.searchsorted(np.cumsum(degrees * (degrees - 1)), BRANCHES * cover.edge_count / 2, side="right")
    sparse = int(degrees[branches]) - 1 if branches < degrees.size else most
    return Schedule(min(most, max(sparse, least)), False, SLOW.step, by_degrees=True)


def quarter(graph: Graph, least: int = 5, most: int = 64) -> int:
    """Return the default limit of a community's size: a quarter of the vertices, within limits.

    Without such a limit a small graph is one community once its first hub is gone. With it, thresholds fall until the
    graph splits. From four times `most` vertices on the limit is `most`.

    Parameters
    ----------
    graph
        The graph.
    least, most
        Limits for any graph.
    """
    return min(most, max(least, graph.nodes // 4))


def balanced(graph: Graph, pes: int, most: int) -> int:
    """Return the default limit of a community's size where PEs of several chiplets share a graph out.

    A PE adds up a record alone, and at the end all wait for the one with the largest. So a community is at most a tenth
    of the vertices that a PE has, unless vertices of larger ones share sums: it may have as many as two neighbours and
    all those that both are joined to, in the mean of some edges.

    Parameters
    ----------
    graph
        The whole graph.
    pes
        PEs of all chiplets.
    most
        Limit for any graph.
    """
    share = graph.nodes // pes
    dense = 2 + round(_common_neighbours(graph))
    return min(most, max(_FEWEST, share // _PART, min(share, dense)))


def _common_neighbours(graph: Graph) -> float:
    """Return how many sources both ends of an edge have, in the mean of edges at equal distances in the array."""
    if not graph.edge_count:
        return 0.0

    def sources(vid: int) -> IntArray:
        return graph.edges[graph.offsets[vid] : graph.offsets[vid + 1]]

    chosen = np.linspace(0, graph.edge_count - 1, min(_SAMPLES, graph.edge_count), dtype=np.int64)
    ends = zip(graph.destinations[chosen].tolist(), graph.edges[chosen].tolist(), strict=True)
    return float(np.mean([np.isin(sources(one), sources(other)).sum() for one, other in ends]))


@dataclass(frozen=True)
class Choice:
    """A user's choice of thresholds and limits (I1), and of shared sums (I7); the rest follows from the graph.

    Attributes
    ----------
    threshold
        TH of the first round; None: that of :func:`falling`.
    step
        Fall of the threshold a round; None: 1.
    halving
        Halve the threshold every round instead.
    c_max
        Largest community; None: the default of the caller.
    scheme
        How sums of a record are shared, one of `SCHEMES`; None: in pairs.
    k
        Columns of a window; None: 2.

    Raises
    ------
    InputError
        If both `step` and `halving` are given, or there is no such scheme or window.
    """

    threshold: int | None = None
    step: int | None = None
    halving: bool = False
    c_max: int | None = None
    scheme: str | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        if self.scheme is not None and self.scheme not in SCHEMES:
            raise InputError("--scheme", f"is {self.scheme!r}", f"one of {', '.join(SCHEMES)}")
        if self.k is not None and self.scheme != "window":
            raise InputError("--k", "is the number of columns of a window", "--scheme window beside it")
        if self.k is not None and self.k not in K_VALUES:
            raise InputError("--k", f"is {self.k}", f"one of {', '.join(map(str, K_VALUES))}")
        if self.halving and self.step is not None:
            raise InputError("--step", "does nothing where the threshold halves", "either --step or --halving")

    def __bool__(self) -> bool:
        """Whether any value is set."""
        return self != ANY

    def schedule(self, graph: Graph, chiplets: int = 1) -> Schedule:
        """Return the thresholds for a graph that so many chiplets share out.

        Raises
        ------
        InputError
            If a value is out of range, or the threshold cannot reach 0.
        """
        usual = falling(graph, chiplets)
        given = self.threshold is not None
        schedule = Schedule(
            self.threshold if self.threshold is not None else usual.threshold,
            self.halving,
            usual.step if self.step is None else self.step,
            by_degrees=usual.by_degrees and not given,
        )
        schedule.require_end()
        return schedule


#: No value is set.
ANY = Choice()
