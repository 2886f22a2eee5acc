"""The locator, step by step as one engine works, and its results (I1-I4)."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from contracts.communities import HUB_WORD, TOP_DEGREE
from contracts.errors import InputError
from golden.graph import Graph, IntArray
from golden.locator.record import Record
from golden.locator.schedule import Schedule

__all__ = ["Limits", "Location", "Locator", "locate"]

#: Rounds above any degree: no node is a hub yet.
_NEVER = 1 << 62


@dataclass(frozen=True)
class Limits:
    """Sizes of records.

    Attributes
    ----------
    c_max
        Largest community, in nodes, at least 1. A search that exceeds it is given up.
    hubs
        Most hubs that a community may touch, at least 1; a search that meets more is given up as well.
    h_max
        Most hubs of a record, a multiple of 64; a community that touches more comes in parts.
    line_words
        Most neighbours of a hub in one task: those in one line of the adjacency.
    banks
        Banks of the node state, a vertex in that of its VID modulo their number: hubs of a degree come from each in
        turn.

    Raises
    ------
    InputError
        If a limit is out of range.
    """

    c_max: int = 64
    hubs: int = 64
    h_max: int = 64
    line_words: int = 8
    banks: int = 8

    def __post_init__(self) -> None:
        if not 1 <= self.c_max < 1 << 16:
            raise InputError("c_max", f"is {self.c_max}", "1..65,535")
        if not 1 <= self.hubs < 1 << 16:
            raise InputError("hubs", f"is {self.hubs}", "1..65,535")
        if self.h_max < HUB_WORD or self.h_max % HUB_WORD:
            raise InputError("h_max", f"is {self.h_max}", f"a multiple of {HUB_WORD}")


@dataclass
class Location:
    """Results of a run.

    Attributes
    ----------
    records
        In the order of emission.
    rounds
        Rounds that had a pending node at their start.
    edges_read
        Neighbours read: by the task generator in rows of hubs, by searches in rows of nodes.
    searches, given_up
        Searches begun, and those given up.
    edges_by_round, longest_by_round
        Edges read in every round, and in its longest search, which bounds the length of a round for any number of
        engines.
    """

    records: list[Record] = field(default_factory=list)
    rounds: int = 0
    edges_read: int = 0
    searches: int = 0
    given_up: int = 0
    edges_by_round: list[int] = field(default_factory=list)
    longest_by_round: list[int] = field(default_factory=list)

    @property
    def hubs(self) -> list[int]:
        """VIDs of all hubs in the order of detection."""
        return [int(record.nodes[0]) for record in self.records if record.hub_edges and record.part == 0]

    @property
    def communities(self) -> list[Record]:
        """Part 0 of every community."""
        return [record for record in self.records if not record.hub_edges and record.part == 0]


class Locator:
    """One engine: hubs by falling degree, their neighbours in the order of rows, searches breadth first.

    Parameters
    ----------
    graph
        Symmetric.
    schedule, limits
        Of the run.
    degrees
        int64 [nodes], of the vertices, if the graph is a part of theirs; default: those of the graph.
    """

    def __init__(self, graph: Graph, schedule: Schedule, limits: Limits, degrees: IntArray | None = None) -> None:
        graph.require_symmetric("communities")
        schedule.require_end()
        self.graph, self.schedule, self.limits = graph, schedule, limits
        self.degrees = graph.degrees if degrees is None else degrees
        self.done = np.zeros(graph.nodes, dtype=np.bool_)
        self.marked = np.full(graph.nodes, -1, dtype=np.int64)
        self.round, self.threshold, self.previous = 0, schedule.threshold, _NEVER
        self.location = Location()

    def run(self) -> Location:
        """Run all rounds."""
        while (~self.done & (self.degrees <= self.previous)).any():
            before = self.location.edges_read
            self.location.longest_by_round.append(0)
            self._round()
            self.location.edges_by_round.append(self.location.edges_read - before)
            self.previous, self.threshold = self.threshold, self.schedule.after(self.threshold)
            self.round += 1
        self.location.rounds = self.round
        return self.location

    def _round(self) -> None:
        new = (self.degrees > self.threshold) & (self.degrees <= self.previous)
        for node in self._in_turn(np.flatnonzero(~self.done & (new | (self.degrees == 0)))):
            if self.degrees[node] == 0:
                self.done[node] = True
                self._emit([node], [], {(0, 0)})
                continue
            first, end = int(self.graph.offsets[node]), int(self.graph.offsets[node + 1])
            at = first
            while at < end:
                stop = min(end, (at // self.limits.line_words + 1) * self.limits.line_words)
                self._task(node, self.graph.edges[at:stop], head=at == first)
                at = stop

    def _in_turn(self, nodes: IntArray) -> list[int]:
        """Order vertices by falling degree; of a degree, one of each bank in turn, of a bank by falling VID.

        Degrees above `TOP_DEGREE` count as alike.
        """
        levels, banks = np.minimum(self.degrees[nodes], TOP_DEGREE), nodes % self.limits.banks
        place = np.zeros(nodes.size, dtype=np.int64)  # of a vertex among those of its degree and bank
        for level, bank in set(zip(levels.tolist(), banks.tolist(), strict=True)):
            alike = np.flatnonzero((levels == level) & (banks == bank))
            place[alike] = np.arange(alike.size)[::-1]
        found: list[int] = nodes[np.lexsort((banks, place, -levels))].tolist()
        return found

    def _task(self, hub: int, row: IntArray, head: bool) -> None:
        """Emit the hub-hub edges of part of a row, each edge at its later hub, and search from the other nodes."""
        hubs, seeds = [], []
        for node in row.tolist():
            self.location.edges_read += 1
            degree = self.degrees[node]
            if degree > self.previous or (degree > self.threshold and node < hub):
                hubs.append(node)
            elif degree <= self.threshold and not self.done[node] and self.marked[node] != self.round:
                seeds.append(node)
        if head or hubs:
            bits = {(0, 1 + column) for column in range(len(hubs))} | ({(0, 0)} if head else set())
            self._emit([hub], hubs, bits, part=int(not head), hub_edges=True)
        for seed in seeds:
            if not self.done[seed] and self.marked[seed] != self.round:
                self._search(seed)

    def _search(self, seed: int) -> None:
        nodes, hubs = {seed: 0}, dict[int, int]()
        bits: set[tuple[int, int]] = set()  # row, column; hub columns are negative
        self.location.searches += 1
        longest, before = self.location.longest_by_round, self.location.edges_read
        for row, node in _growing(nodes):
            for other in self.graph.edges[self.graph.offsets[node] : self.graph.offsets[node + 1]].tolist():
                self.location.edges_read += 1
                longest[-1] = max(longest[-1], self.location.edges_read - before)
                if self.degrees[other] > self.threshold:
                    fits = other in hubs or len(hubs) < self.limits.hubs
                    column = ~hubs.setdefault(other, len(hubs))
                else:
                    fits = other in nodes or (len(nodes) < self.limits.c_max and self.marked[other] != self.round)
                    column = nodes.setdefault(other, len(nodes)) if fits else 0
                if not fits:
                    self.location.given_up += 1
                    self.marked[list(nodes)] = self.round
                    return
                bits.add((row, column))
        self.done[list(nodes)] = True
        bits |= {(row, row) for row in range(len(nodes))}
        bits = {(row, column if column >= 0 else len(nodes) + ~column) for row, column in bits}
        self._emit(list(nodes), list(hubs), bits)

    def _emit(
        self, nodes: list[int], hubs: list[int], bits: set[tuple[int, int]], *, part: int = 0, hub_edges: bool = False
    ) -> None:
        bitmap = np.zeros((len(nodes), len(nodes) + len(hubs)), dtype=np.bool_)
        for row, column in bits:
            bitmap[row, column] = True
        parts = max(1, -(-len(hubs) // self.limits.h_max))
        for number in range(parts):
            low, high = number * self.limits.h_max, min(len(hubs), (number + 1) * self.limits.h_max)
            inner = bitmap[:, : len(nodes)] if number == 0 else np.zeros_like(bitmap[:, : len(nodes)])
            self.location.records.append(
                Record(
                    nodes=np.array(nodes, dtype=np.int64),
                    hubs=np.array(hubs[low:high], dtype=np.int64),
                    bitmap=np.concatenate([inner, bitmap[:, len(nodes) + low : len(nodes) + high]], axis=1),
                    round_number=self.round,
                    part=part or number,
                    last_part=number == parts - 1,
                    hub_edges=hub_edges,
                )
            )


def _growing(nodes: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yield rows and nodes in the order of visits, including those visited meanwhile."""
    order: list[int] = []
    row = 0
    while row < len(nodes):
        if row == len(order):
            order = list(nodes)
        yield row, order[row]
        row += 1


def locate(graph: Graph, schedule: Schedule, limits: Limits | None = None) -> Location:
    """Find the communities of a graph as one engine does, step by step.

    Parameters
    ----------
    graph
        Symmetric.
    schedule
        Of thresholds.
    limits
        Sizes of records.

    Raises
    ------
    InputError
        If the graph is not symmetric, or the schedule cannot end.
    """
    return Locator(graph, schedule, limits or Limits()).run()
