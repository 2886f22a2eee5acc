"""Placement by communities: communities stay on one chiplet, and only hubs have neighbours elsewhere."""

import math
import random

import numpy as np
from scipy import sparse

from contracts import PARTIAL_BITS, VALUE_BITS
from golden.graph import Graph, IntArray
from golden.locator.locator import Limits, locate
from golden.locator.schedule import SLOW, Schedule
from golden.ring.placement import Placement
from golden.ring.traffic import traffic

__all__ = ["communities_apart", "sums_pay"]

#: Cycles of a REDUCE that do not depend on the links: of all, and of each hub.
_REDUCE, _HUB = 300, 6
#: Factor by which a chiplet's part may exceed the mean.
_SLACK = 1.05
#: Moves tried for each community and hub, and the mean cost accepted at the start, in words.
_TRIES, _HEAT = 256, 2.0


def communities_apart(
    graph: Graph, chiplets: int, schedule: Schedule = SLOW, limits: Limits | None = None, *, moves: bool = True
) -> tuple[IntArray, Placement]:
    """Place whole communities beside those that share hubs with them, and hubs beside most of their edges.

    A chiplet is filled with the community that has most edges to hubs of its communities, until it has its part of the
    graph's vertices and edges. Then hubs get their homes, and simulated annealing moves communities and hubs to reduce
    the words on the links. The sums of all hubs are sent home over the ring (R19). A graph that has changed since is
    still computed correctly. The direction of edges does not matter: vertices are placed beside those they are joined
    to either way.

    Parameters
    ----------
    graph
        Any.
    chiplets
        Number of chiplets.
    schedule, limits
        Parameters of the location.
    moves
        Whether to anneal; otherwise the first placement is kept.

    Returns
    -------
    position
        int64 [nodes], new VID of each vertex; for `Graph.relabelled`.
    placement
        Placement of the new VIDs.
    """
    graph = graph.symmetrised
    location = locate(graph, schedule, limits or Limits())
    hubs = np.array(sorted(location.hubs), dtype=np.int64)
    groups = [record.nodes for record in location.communities]
    # Cost of a vertex: its row to combine and to write, and its edges.
    weights = graph.degrees + 1
    touches = _edges_to_hubs(graph, groups, hubs)
    owner = np.full(graph.nodes, -1, dtype=np.int64)
    _fill(owner, groups, touches, weights, chiplets)
    _send_home(graph, hubs, owner, chiplets, weights)
    if chiplets > 1 and moves:
        _Annealing(graph, hubs, groups, touches, owner, weights, chiplets).run()
    order = np.argsort(owner, kind="stable")
    position = np.empty_like(order)
    position[order] = np.arange(order.size)
    boundaries = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=chiplets))])
    return position, Placement.at(boundaries, np.sort(position[hubs]))


def sums_pay(graph: Graph, placement: Placement, elements: int, link_width: int) -> bool:
    """Return whether partial sums of the hubs take the ring less time than rows of their neighbours.

    Sums are fewer, but wider, and each chiplet handles one hub after another.

    Parameters
    ----------
    graph, placement
        The graph, and who owns its vertices.
    elements
        Of the widest row.
    link_width
        Bits of a flit.
    """

    def flits(bits: int) -> int:
        return 1 - (-elements * bits // link_width)

    summed, sent = traffic(graph, placement), traffic(graph, placement.without_hubs)
    rows = flits(VALUE_BITS)
    reduce = _REDUCE + _HUB * placement.hubs.size
    with_sums = int((summed.features * rows + summed.partials * flits(PARTIAL_BITS)).max()) + reduce
    return with_sums < int(sent.features.max()) * rows


def _edges_to_hubs(graph: Graph, groups: list[IntArray], hubs: IntArray) -> sparse.csr_array:
    """Edges between every community and every hub: int64 [communities, hubs]."""
    nodes = np.concatenate([np.zeros(0, dtype=np.int64), *groups])
    members = np.repeat(np.arange(len(groups)), [group.size for group in groups])
    shape = (len(groups), graph.nodes)
    mine = sparse.csr_array((np.ones(nodes.size, dtype=np.int64), (members, nodes)), shape=shape)
    return (mine @ graph.adjacency[:, hubs]).astype(np.int64).tocsr()


def _fill(owner: IntArray, groups: list[IntArray], touches: sparse.csr_array, weights: IntArray, chiplets: int) -> None:
    """Assign every community to a chiplet, chiplet by chiplet."""
    sizes = np.array([weights[nodes].sum() for nodes in groups], dtype=np.int64)
    left = np.ones(len(groups), dtype=np.bool_)
    rest = int(sizes.sum())
    for chiplet in range(chiplets):
        share, filled = rest // (chiplets - chiplet), 0
        bound = np.zeros(len(groups), dtype=np.int64)
        while left.any() and (filled < share or chiplet == chiplets - 1):
            # The most strongly joined community left; of equals the first found.
            chosen = int(np.argmax(np.where(left, bound, -1)))
            left[chosen] = False
            owner[groups[chosen]] = chiplet
            filled += int(sizes[chosen])
            bound += touches @ touches[[chosen]].toarray()[0]
        rest -= filled


def _send_home(graph: Graph, hubs: IntArray, owner: IntArray, chiplets: int, weights: IntArray) -> None:
    """Assign every hub to the chiplet with most of its neighbours and with room."""
    load = np.bincount(owner[owner >= 0], weights[owner >= 0], chiplets)
    room = _SLACK * weights.sum() / chiplets
    for hub in hubs[np.argsort(-graph.degrees[hubs], kind="stable")].tolist():
        neighbours = owner[graph.edges[graph.offsets[hub] : graph.offsets[hub + 1]]]
        count = np.bincount(neighbours[neighbours >= 0], minlength=chiplets)
        fits = load + weights[hub] <= max(room, load.min() + weights[hub])
        owner[hub] = int(np.argmax(np.where(fits, count, -1)))
        load[owner[hub]] += weights[hub]


class _Annealing:
    """Moves of single communities and hubs; each changes the cost of a few hubs.

    A hub's cost is its words on links: its row to the farthest chiplet with a neighbour of it, and its sum, twice as
    wide, from the farthest upstream chiplet with a neighbour other than a hub.
    """

    def __init__(
        self,
        graph: Graph,
        hubs: IntArray,
        groups: list[IntArray],
        touches: sparse.csr_array,
        owner: IntArray,
        weights: IntArray,
        chiplets: int,
    ) -> None:
        self.hubs, self.groups, self.owner, self.chiplets = hubs, groups, owner, chiplets
        number = np.full(graph.nodes, -1, dtype=np.int64)
        number[hubs] = np.arange(hubs.size)
        # Units: communities, then hubs. Of a community: its hubs and the edges to them; of a hub: hubs beside it.
        ends = touches.indptr
        links = list(zip(touches.indices.tolist(), touches.data.tolist(), strict=True))
        self.links: list[list[tuple[int, int]]] = [links[ends[n] : ends[n + 1]] for n in range(len(groups))]
        for hub in hubs.tolist():
            beside = number[graph.edges[graph.offsets[hub] : graph.offsets[hub + 1]]]
            self.links.append([(other, 1) for other in beside[beside >= 0].tolist()])
        self.at = [int(owner[nodes[0]]) for nodes in groups] + owner[hubs].tolist()
        self.size = [int(weights[nodes].sum()) for nodes in groups] + weights[hubs].tolist()
        self.load = [0] * chiplets
        # Edges of every hub by chiplet, from communities and from hubs.
        self.nodes = [[0] * chiplets for _ in hubs]
        self.beside = [[0] * chiplets for _ in hubs]
        for unit, chiplet in enumerate(self.at):
            self.load[chiplet] += self.size[unit]
            self._shift(unit, chiplet, 1)
        self.limit = _SLACK * sum(self.load) / chiplets
        self.cost = [self._cost(hub) for hub in range(hubs.size)]

    def _shift(self, unit: int, chiplet: int, sign: int) -> None:
        table = self.nodes if unit < len(self.groups) else self.beside
        for hub, edges in self.links[unit]:
            table[hub][chiplet] += sign * edges

    def _cost(self, hub: int) -> int:
        home, nodes, beside = self.at[len(self.groups) + hub], self.nodes[hub], self.beside[hub]
        out = back = 0
        for chiplet in range(self.chiplets):
            if nodes[chiplet]:
                back = max(back, (home - chiplet) % self.chiplets)
            if nodes[chiplet] or beside[chiplet]:
                out = max(out, (chiplet - home) % self.chiplets)
        return out + 2 * back

    def run(self) -> None:
        """Try moves at falling temperatures, and return the owners."""
        chance, units = random.Random(1), len(self.at)
        for step in range(steps := _TRIES * units):
            unit, to = chance.randrange(units), chance.randrange(self.chiplets)
            heat = _HEAT * (1 - step / steps)
            if to != self.at[unit] and self.load[to] + self.size[unit] <= self.limit:
                # Accepted cost of the move: mostly 0, and falling.
                self._try(unit, to, -heat * math.log(1 - chance.random()))
        for nodes, chiplet in zip(self.groups, self.at, strict=False):
            self.owner[nodes] = chiplet
        self.owner[self.hubs] = self.at[len(self.groups) :]

    def _try(self, unit: int, to: int, most: float) -> None:
        """Move a unit unless that costs more than `most`."""
        before = self.at[unit]
        changed = [hub for hub, _ in self.links[unit]]
        if unit >= len(self.groups):
            changed.append(unit - len(self.groups))
        self._shift(unit, before, -1)
        self._shift(unit, to, 1)
        self.at[unit] = to
        costs = [self._cost(hub) for hub in changed]
        if sum(costs) - sum(self.cost[hub] for hub in changed) <= most:
            for hub, cost in zip(changed, costs, strict=True):
                self.cost[hub] = cost
            self.load[before] -= self.size[unit]
            self.load[to] += self.size[unit]
            return
        self._shift(unit, to, -1)
        self._shift(unit, before, 1)
        self.at[unit] = before
