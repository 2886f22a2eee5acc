"""Who is summed in a layer, and with which factors, as the machine stores them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from contracts import Model
from contracts.errors import InputError
from contracts.scale import Scales, scales_of
from golden.canonical import canonical_rows
from golden.graph import Graph
from golden.model.float_model import FloatLayer, Reach, members_of, reached
from golden.model.scale import scales_of_model

__all__ = ["Topology", "topologies_of", "uniform"]


@dataclass(frozen=True, eq=False)
class Topology:
    """Sources of every vertex in a layer, and its factors.

    Layers that sum the same share one object, which is placed in an image once.

    Attributes
    ----------
    graph
        Row v has the sources of v; all topologies of a network have the same vertices.
    source, destination
        s_src and s_dst of every vertex.

    Raises
    ------
    InputError
        If there are not as many factors as vertices.
    """

    graph: Graph
    source: Scales
    destination: Scales

    def __post_init__(self) -> None:
        for scales in (self.source, self.destination):
            if scales.nodes != self.graph.nodes:
                raise InputError("scales", f"there are {scales.nodes}", f"{self.graph.nodes}, one a node")

    @property
    def alone(self) -> bool:
        """Whether every vertex has only its own row."""
        return self.graph.edge_count == 0

    def relabelled(self, position: npt.ArrayLike) -> "Topology":
        """Return it with vertex v as vertex ``position[v]``."""
        order = np.argsort(np.asarray(position))
        return Topology(self.graph.relabelled(position), self.source.take(order), self.destination.take(order))

    def part(self, vertices: npt.ArrayLike) -> "Topology":
        """Return that of some vertices which no others are joined to, see `Graph.part`."""
        chosen = np.asarray(vertices)
        part = self.graph.part(chosen)
        return replace(self, graph=part, source=self.source.take(chosen), destination=self.destination.take(chosen))


def uniform(model: Model, graph: Graph) -> Topology:
    """Return the graph itself with the factors that a network gives to its degrees."""
    return Topology(graph, *scales_of_model(model, graph.degrees))


def topologies_of(layers: Sequence[FloatLayer], graph: Graph) -> tuple[Topology, ...]:
    """Return the topology of every layer on a graph.

    Raises
    ------
    InputError
        As `golden.model.float_model.reached`.
    """
    found: dict[tuple[Reach, Model, bool], Topology] = {}
    for layer in layers:
        if (key := _key(layer)) not in found:
            _, source, destination = reached(layer, graph)
            found[key] = Topology(_graph(layer, graph), scales_of(source), scales_of(destination))
    return tuple(found[_key(layer)] for layer in layers)


def _key(layer: FloatLayer) -> tuple[Reach, Model, bool]:
    """Return what a topology depends on: of dense layers nothing else."""
    if layer.reach == Reach.NODE:
        return layer.reach, Model.GCN, False
    return layer.reach, layer.model, layer.model == Model.SAGE and layer.eps == -1


def _graph(layer: FloatLayer, graph: Graph) -> Graph:
    """Return the edges that a layer sums along."""
    if layer.reach == Reach.GRAPH:
        return graph
    sources = destinations = np.zeros(0, dtype=np.int64)
    if layer.reach == Reach.MEMBERS:
        # Symmetric, as communities need it. The other direction carries rows that are 0.
        members, graphs = members_of(graph)
        sources, destinations = np.concatenate([members, graphs]), np.concatenate([graphs, members])
    rows = canonical_rows(graph.nodes, sources, destinations)
    return replace(
        graph,
        name=f"{graph.name}, {layer.reach.value}",
        offsets=rows.offsets,
        edges=rows.edges,
        features=np.zeros((graph.nodes, 0), dtype=np.float32),
        edge_weight=None,
        graph_of=None,
    )
