"""Traffic on every link, and the cost of other ways of sending (R3, R5, R11, R19)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contracts import PARTIAL_BITS, VALUE_BITS, Split
from golden.graph import BoolArray, Graph, IntArray
from golden.ring.placement import Placement

__all__ = ["Edges", "Plan", "Traffic", "plan", "traffic"]


@dataclass(frozen=True, eq=False)
class Edges:
    """Directed edges: int64 ``source`` and ``destination`` VIDs, by destination and then source."""

    source: IntArray
    destination: IntArray


@dataclass(frozen=True, eq=False)
class Plan:
    """Executing chiplet of each edge, and the traffic for it.

    Attributes
    ----------
    gathered
        Edges that the owner of the destination executes; sources of other chiplets arrive over the ring.
    shared
        Edges into hubs that another chiplet, the owner of the source, executes as its part of a partial sum.
    consumers
        bool [vertices, chiplets], chiplets that need a vertex's combined row from its owner.
    contributors
        bool [vertices, chiplets], chiplets that contribute to a vertex's partial sum.
    destination
        int64 [vertices], where a vertex's row leaves the ring: its farthest consumer; its owner if it does not travel.
    start
        int64 [vertices], where a partial sum begins: the contributor farthest upstream; its owner if there is none.
    """

    gathered: Edges
    shared: Edges
    consumers: BoolArray
    contributors: BoolArray
    destination: IntArray
    start: IntArray


def plan(graph: Graph, placement: Placement) -> Plan:
    """Plan of one layer's traffic.

    Parameters
    ----------
    graph, placement
        The graph, and who owns its vertices and executes its edges.
    """
    placement.check(graph)
    source, destination = graph.edges, graph.destinations
    owner = placement.owners(np.arange(graph.nodes))
    hub = np.zeros(graph.nodes, dtype=np.bool_)
    hub[placement.hubs] = True
    crosses = owner[source] != owner[destination]
    away = crosses & (hub[destination] & ~hub[source] | (placement.split == Split.SOURCE))
    shape = (graph.nodes, placement.chiplets)
    consumers, contributors = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    travels = crosses & ~away
    consumers[source[travels], owner[destination[travels]]] = True
    contributors[destination[away], owner[source[away]]] = True
    chiplets = np.arange(placement.chiplets)
    onward = placement.hops(owner[:, None], chiplets[None, :])
    farthest = np.where(consumers, onward, 0).max(axis=1, initial=0)
    # The chiplet farthest upstream of the home is the one the fewest hops behind it.
    upstream = np.where(contributors, placement.hops(chiplets[None, :], owner[:, None]), 0).max(axis=1, initial=0)
    return Plan(
        gathered=Edges(source[~away], destination[~away]),
        shared=Edges(source[away], destination[away]),
        consumers=consumers,
        contributors=contributors,
        destination=np.mod(owner + farthest, placement.chiplets),
        start=np.mod(owner - upstream, placement.chiplets),
    )


@dataclass(frozen=True, eq=False)
class Traffic:
    """Rows that cross the links in one layer.

    Attributes
    ----------
    features, partials
        int64 [chiplets], rows on the link from chiplet c to c + 1, each row once.
    unicast, per_edge, broadcast
        Vertex-hops with a packet for each consumer, for each edge, or with every row sent round the whole ring.
    """

    features: IntArray
    partials: IntArray
    unicast: int
    per_edge: int
    broadcast: int

    @property
    def minimum(self) -> int:
        """Vertex-hops, features and partial sums together."""
        return int(self.features.sum() + self.partials.sum())

    def bits(self, elements: int) -> int:
        """Bits on links for rows of `elements` elements (R19); control packets are not included."""
        return int(self.features.sum() * VALUE_BITS + self.partials.sum() * PARTIAL_BITS) * elements

    def words(self, elements: int) -> npt.NDArray[np.int64]:
        """int64 [chiplets], 16-bit words on every link."""
        return (self.features + self.partials * (PARTIAL_BITS // VALUE_BITS)) * elements


def traffic(graph: Graph, placement: Placement) -> Traffic:
    """Rows on every link in one layer, and the costs of other ways."""
    wanted = plan(graph, placement)
    owner = placement.owners(np.arange(graph.nodes))
    chiplets = placement.chiplets
    onward = placement.hops(owner[:, None], np.arange(chiplets)[None, :])
    every = plan(graph, placement.without_sums) if placement.has_sums else wanted
    return Traffic(
        features=_crossings(owner, placement.hops(owner, wanted.destination), chiplets),
        partials=_crossings(wanted.start, placement.hops(wanted.start, owner), chiplets),
        unicast=int((onward * every.consumers).sum()),
        per_edge=int(placement.hops(owner[graph.edges], owner[graph.destinations]).sum()),
        broadcast=graph.nodes * (chiplets - 1),
    )


def _crossings(first: IntArray, hops: IntArray, chiplets: int) -> IntArray:
    """Count, by link, paths that leave chiplet ``first`` and cross ``hops`` links."""
    count = np.zeros(chiplets, dtype=np.int64)
    for link in range(chiplets):
        count[link] = int((np.mod(link - first, chiplets) < hops).sum())
    return count
