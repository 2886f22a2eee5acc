"""Who is summed in a layer, and with which factors, as the machine stores them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from contracts import VALUE_BITS, Model
from contracts.errors import InputError
from contracts.scale import MANTISSA_FRACTION, Scales, scales_of
from golden.canonical import canonical_rows
from golden.graph import Graph
from golden.model.calibration import fraction_of
from golden.model.float_model import FloatLayer, Reach, members_of, reached, weighted
from golden.model.layer import Int16Array
from golden.model.rounding import VALUE_MAX, VALUE_MIN
from golden.model.scale import scales_of_model

__all__ = ["WEIGHT_FRACTION_MAX", "Topology", "topologies_of", "uniform"]

#: Most fraction bits of edge weights: 1, the weight of a self loop, has to fit.
WEIGHT_FRACTION_MAX = VALUE_BITS - 2


@dataclass(frozen=True, eq=False)
class Topology:
    """Sources of every vertex in a layer, and its factors.

    Layers that sum the same share one object, which is placed in an image once.

    Attributes
    ----------
    graph
        Row v has the sources of v, and their weights if they are weighted; all topologies of a network have the same
        vertices.
    source, destination
        s_src and s_dst of every vertex.
    apart
        Every edge has a factor of its own, so no partial sums are formed.
    fraction
        Fraction bits of the weights, 0 to `WEIGHT_FRACTION_MAX`; 0 without weights.
    included
        An own row counts once in the sum, like a neighbour's; else it stands beside the sum.

    Raises
    ------
    InputError
        If there are not as many factors as vertices, or a weight does not fit.
    """

    graph: Graph
    source: Scales
    destination: Scales
    apart: bool = False
    fraction: int = 0
    included: bool = False

    def __post_init__(self) -> None:
        for scales in (self.source, self.destination):
            if scales.nodes != self.graph.nodes:
                raise InputError("scales", f"there are {scales.nodes}", f"{self.graph.nodes}, one a node")
        if self.weighted and not self.apart:
            raise InputError("topology", "has weighted edges and partial sums", "weighted edges apart")
        if not 0 <= self.fraction <= (WEIGHT_FRACTION_MAX if self.weighted else 0):
            expected = f"0..{WEIGHT_FRACTION_MAX}, and 0 without weights"
            raise InputError("topology", f"has weights of {self.fraction} fraction bits", expected)
        if self.graph.edge_weight is not None:
            fits = (self._rounded >= VALUE_MIN) & (self._rounded <= VALUE_MAX)
            if not fits.all():
                worst = float(self.graph.edge_weight[int(np.argmin(fits))])
                expected = f"at most {VALUE_MAX >> self.fraction} in magnitude: rescale them"
                raise InputError(f"graph {self.graph.name}, edges", f"have the weight {worst:.4g}", expected)

    @property
    def weighted(self) -> bool:
        """Whether each neighbour has a factor of its own."""
        return self.graph.edge_weight is not None

    @cached_property
    def weights(self) -> Int16Array | None:
        """int16 [edges], the weights of the edges times 2^fraction, to the nearest; None without."""
        return None if self.graph.edge_weight is None else self._rounded.astype(np.int16)

    @property
    def _rounded(self) -> npt.NDArray[np.float64]:
        return np.rint(np.ldexp(np.asarray(self.graph.edge_weight, dtype=np.float64), self.fraction))

    @cached_property
    def own(self) -> Scales:
        """Factors of own rows, in (1/2, 1] unless `included`; 1 where s_dst is 0.

        An own row counts 2^e times in a sum that is then multiplied with s_dst = m * 2^-(15 + e), and the factor makes
        up for the rest: 2^15 / m. One that is `included` is to count once in the sum: 2^-e.
        """
        if self.included:
            return scales_of(np.ldexp(1.0, -self.destination.exponent.astype(np.int32)))
        mantissa = self.destination.mantissa
        return scales_of((1 << MANTISSA_FRACTION) / np.where(mantissa == 0, 1 << MANTISSA_FRACTION, mantissa))

    @property
    def alone(self) -> bool:
        """Whether every vertex has only its own row."""
        return self.graph.edge_count == 0

    def relabelled(self, position: npt.ArrayLike) -> "Topology":
        """Return it with vertex v as vertex ``position[v]``."""
        order = np.argsort(np.asarray(position))
        graph, source = self.graph.relabelled(position), self.source.take(order)
        return replace(self, graph=graph, source=source, destination=self.destination.take(order))

    def part(self, vertices: npt.ArrayLike) -> "Topology":
        """Return that of some vertices which no others are joined to, see `Graph.part`."""
        chosen = np.asarray(vertices)
        part = self.graph.part(chosen)
        return replace(self, graph=part, source=self.source.take(chosen), destination=self.destination.take(chosen))


def uniform(model: Model, graph: Graph) -> Topology:
    """Return the graph without weights, with the factors that a network gives to its degrees."""
    return Topology(graph.unweighted, *scales_of_model(model, graph.degrees))


def topologies_of(layers: Sequence[FloatLayer], graph: Graph) -> tuple[Topology, ...]:
    """Return the topology of every layer on a graph.

    Raises
    ------
    InputError
        As `golden.model.float_model.reached`.
    """
    found: dict[tuple[Reach, Model, bool, bool], Topology] = {}
    for layer in layers:
        if (key := _key(layer)) not in found:
            _, source, destination = reached(layer, graph)
            summed, weighs = _graph(layer, graph), weighted(layer, graph)
            fraction = _fraction(summed, [each for each in layers if _key(each) == key]) if weighs else 0
            apart = weighs or layer.attention is not None
            included = layer.edge_weight is not None
            found[key] = Topology(summed, scales_of(source), scales_of(destination), apart, fraction, included)
    return tuple(found[_key(layer)] for layer in layers)


def _key(layer: FloatLayer) -> tuple[Reach, Model, bool, bool]:
    """Return what a topology depends on: of dense layers nothing else."""
    if layer.reach == Reach.NODE:
        return layer.reach, Model.GCN, False, False
    return layer.reach, layer.model, layer.model == Model.SAGE and layer.eps == -1, layer.attention is not None


def _fraction(graph: Graph, layers: Sequence[FloatLayer]) -> int:
    """Return the fraction bits of the weights of a graph that some layers sum along.

    A bias has 32 bits at the scale of a sum times a mantissa, so combined rows and weights share the bits that the
    largest bias leaves: each gets half of them.
    """
    most = fraction_of(float(np.abs(np.asarray(graph.edge_weight)).max(initial=0)))
    bias = max(float(np.abs(layer.bias).max()) for layer in layers)
    if bias:
        most = min(most, max((fraction_of(bias, (1 << 31) - 1) - MANTISSA_FRACTION) // 2, 0))
    return max(min(most, WEIGHT_FRACTION_MAX), 0)


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
