"""A graph with features, labels and a split: the form of every loaded data set."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from contracts import VID_BITS
from contracts.errors import InputError
from golden.canonical import BoolArray, FloatWeights, IntArray, canonical_features, canonical_rows

__all__ = ["BoolArray", "FloatWeights", "Graph", "IntArray"]


@dataclass(frozen=True, eq=False)
class Graph:
    """A directed graph in canonical CSR; an undirected one has every edge in both directions.

    Row v lists the sources of the in-edges of v: ascending, without duplicates and without v itself.
    The self term of a layer is implicit.

    Attributes
    ----------
    name
        The user's name for it.
    offsets
        int64 [nodes + 1], first edge of every row.
    edges
        int64 [edge_count], source VIDs.
    features
        float32 [nodes, f], or a ``scipy.sparse.csr_array`` of that shape and type; finite.
    labels
        int64 [nodes], class of every node, -1 where unknown.
    classes
        Number of classes.
    train, validation, test
        bool [nodes], disjoint parts of the nodes.
    edge_weight
        float32 [edge_count], finite; None: every edge counts once.
    edge_attributes
        float32 [edge_count, d], finite, d at least 1; None: edges have no attributes.
    graph_of
        int64 [nodes] of a batch of small graphs: VID of the *graph vertex* of the node's small graph, -1 for the graph
        vertices themselves. A graph vertex has no edges and zero features; its label and its part of the split are
        those of its small graph. The nodes of small graphs have neither. None: one graph.
    notes
        A line for each thing that its maker left out and a user should know.

    Raises
    ------
    InputError
        If an array has the wrong shape or type, the CSR is not canonical or a VID, label or feature is out of range.
    """

    name: str
    offsets: IntArray
    edges: IntArray
    features: Any
    labels: IntArray
    classes: int
    train: BoolArray
    validation: BoolArray
    test: BoolArray
    edge_weight: FloatWeights | None = None
    graph_of: IntArray | None = None
    notes: tuple[str, ...] = ()
    edge_attributes: FloatWeights | None = None

    def __post_init__(self) -> None:
        self._check_types()
        self._check_rows()
        self._check_weights()
        self._check_attributes()
        self._check_nodes()
        self._check_batch()

    def _check_types(self) -> None:
        for field, kind in (("offsets", np.int64), ("edges", np.int64), ("labels", np.int64)):
            array = getattr(self, field)
            if not isinstance(array, np.ndarray) or array.dtype != kind or array.ndim != 1:
                self._refuse(field, f"is {_kind(array)}", "a one-dimensional int64 array")
        if self.offsets.size < 1:
            self._refuse("offsets", "is empty", "nodes + 1 entries")
        for limit, field in ((self.nodes, "nodes"), (self.edge_count, "edges")):
            if limit >= 1 << VID_BITS:
                self._refuse(field, f"there are {limit}", f"fewer than 2^{VID_BITS}")

    def _check_rows(self) -> None:
        if self.offsets[0] != 0 or self.offsets[-1] != self.edge_count:
            self._refuse(
                "offsets", f"run from {self.offsets[0]} to {self.offsets[-1]}", f"0 to {self.edge_count}, the edges"
            )
        if (self.degrees < 0).any():
            self._refuse("offsets", f"fall after row {int(np.argmax(self.degrees < 0))}", "offsets that never fall")
        if self.edge_count == 0:
            return
        if self.edges.min() < 0 or self.edges.max() >= self.nodes:
            worst = self.edges.min() if self.edges.min() < 0 else self.edges.max()
            self._refuse("edges", f"has the VID {worst}", f"VIDs in 0..{self.nodes - 1}")
        rows = self.destinations
        falls = (np.diff(self.edges) <= 0) & (np.diff(rows) == 0)
        if falls.any():
            self._refuse("edges", f"row {rows[np.argmax(falls)]} is not ascending", "distinct VIDs in ascending order")
        if (self.edges == rows).any():
            self._refuse("edges", f"row {rows[np.argmax(self.edges == rows)]} has itself", "no self loops")

    def _check_weights(self) -> None:
        weights = self.edge_weight
        if weights is None:
            return
        if getattr(weights, "dtype", None) != np.float32 or weights.shape != (self.edge_count,):
            self._refuse("edge_weight", f"is {_kind(weights)}", f"float32 [{self.edge_count}]")
        if not np.isfinite(weights).all():
            self._refuse("edge_weight", "has a value that is not finite", "finite numbers")

    def _check_attributes(self) -> None:
        values = self.edge_attributes
        if values is None:
            return
        fits = getattr(values, "dtype", None) == np.float32 and values.ndim == 2 and values.shape[1] > 0
        if not fits or values.shape[0] != self.edge_count:
            self._refuse("edge_attributes", f"is {_kind(values)}", f"float32 [{self.edge_count}, d], d at least 1")
        if not np.isfinite(values).all():
            self._refuse("edge_attributes", "has a value that is not finite", "finite numbers")

    def _check_nodes(self) -> None:
        values = self.features
        if sparse.issparse(values):
            if values.format != "csr" or not isinstance(values, sparse.csr_array):
                self._refuse("features", f"is {type(values).__name__}", "a csr_array or an ndarray")
            if not values.has_canonical_format:
                self._refuse("features", "has unsorted or duplicate entries", "a canonical csr_array")
            numbers = values.data
        else:
            numbers = values
        if getattr(numbers, "dtype", None) != np.float32 or values.shape[:1] != (self.nodes,) or values.ndim != 2:
            self._refuse("features", f"is {_kind(values)}", f"float32 [{self.nodes}, f]")
        if not np.isfinite(numbers).all():
            self._refuse("features", "has a value that is not finite", "finite numbers")
        if self.labels.shape != (self.nodes,):
            self._refuse("labels", f"is {_kind(self.labels)}", f"int64 [{self.nodes}]")
        if self.nodes and (self.labels.min() < -1 or self.labels.max() >= self.classes):
            worst = self.labels.min() if self.labels.min() < -1 else self.labels.max()
            self._refuse("labels", f"has the class {worst}", f"-1 (unknown) to {self.classes - 1}")
        for field in ("train", "validation", "test"):
            mask = getattr(self, field)
            if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.nodes,):
                self._refuse(field, f"is {_kind(mask)}", f"bool [{self.nodes}]")
        if (self.train & self.validation | self.train & self.test | self.validation & self.test).any():
            self._refuse("split", "puts a node into two parts", "disjoint training, validation and test nodes")

    def _check_batch(self) -> None:
        graph_of = self.graph_of
        if graph_of is None:
            return
        if not isinstance(graph_of, np.ndarray) or graph_of.dtype != np.int64 or graph_of.shape != (self.nodes,):
            self._refuse("graph_of", f"is {_kind(graph_of)}", f"int64 [{self.nodes}]")
        head = graph_of == -1
        wrong = ~head & ((graph_of < 0) | (graph_of >= self.nodes))
        wrong[~wrong] = ~head[~wrong] & ~head[graph_of[~wrong]]
        if wrong.any():
            node = int(np.argmax(wrong))
            self._refuse("graph_of", f"node {node} belongs to {graph_of[node]}", "VIDs of graph vertices, or -1")
        lone = head & (np.bincount(graph_of[~head], minlength=self.nodes) == 0)
        if lone.any():
            self._refuse("graph_of", f"graph vertex {np.argmax(lone)} has no nodes", "at least one node of each")
        crosses = (graph_of[self.edges] != graph_of[self.destinations]) | head[self.edges]
        if crosses.any():
            edge = int(np.argmax(crosses))
            what = f"{self.edges[edge]} -> {self.destinations[edge]} joins two small graphs or a graph vertex"
            self._refuse("edges", what, "edges within the small graphs of a batch")
        rows = abs(self.features[np.flatnonzero(head)])
        if rows.sum():
            self._refuse("features", "of a graph vertex are not zero", "zero features of graph vertices")
        parts = (self.labels >= 0) | self.train | self.validation | self.test
        if (parts & ~head).any():
            what = f"node {np.argmax(parts & ~head)} of a small graph has a label or is in the split"
            self._refuse("graph_of", what, "labels and split of graph vertices only")

    def _refuse(self, field: str, what: str, expected: str) -> None:
        raise InputError(f"graph {self.name}, {field}", what, expected)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.offsets.size - 1

    @property
    def edge_count(self) -> int:
        """Number of directed edges."""
        return self.edges.size

    @property
    def feature_count(self) -> int:
        """Features of a node."""
        return int(self.features.shape[1])

    @property
    def edge_feature_count(self) -> int:
        """Attributes of an edge; 0 without."""
        return 0 if self.edge_attributes is None else int(self.edge_attributes.shape[1])

    @cached_property
    def degrees(self) -> IntArray:
        """int64 [nodes], distinct in-neighbours without the node itself."""
        return np.diff(self.offsets)

    @cached_property
    def destinations(self) -> IntArray:
        """int64 [edge_count], destination VID of every edge."""
        return np.repeat(np.arange(self.nodes, dtype=np.int64), self.degrees)

    @cached_property
    def graph_vertices(self) -> IntArray:
        """int64, VIDs of the graph vertices of a batch, ascending; empty for one graph."""
        return np.flatnonzero(self.graph_of == -1) if self.graph_of is not None else np.zeros(0, dtype=np.int64)

    def small_graphs(self, vertices: npt.ArrayLike) -> IntArray:
        """int64, VIDs of some graph vertices and of the nodes of their small graphs, ascending."""
        chosen = np.zeros(self.nodes, dtype=np.bool_)
        chosen[np.asarray(vertices)] = True
        inside = chosen if self.graph_of is None else chosen | ((self.graph_of >= 0) & chosen[self.graph_of])
        return np.flatnonzero(inside)

    @cached_property
    def answers(self) -> IntArray:
        """int64, VIDs whose results are asked for, ascending: graph vertices of a batch, else all nodes."""
        return np.arange(self.nodes) if self.graph_of is None else self.graph_vertices

    @cached_property
    def adjacency(self) -> Any:
        """``scipy.sparse.csr_array`` int64 [nodes, nodes] of ones: row destination, column source."""
        ones = np.ones(self.edge_count, dtype=np.int64)
        return sparse.csr_array((ones, self.edges, self.offsets), shape=(self.nodes, self.nodes))

    @cached_property
    def weighted_adjacency(self) -> Any:
        """``csr_array`` float64 [nodes, nodes] as `adjacency`, with the weights of the edges, if they have some."""
        weights = np.ones(self.edge_count) if self.edge_weight is None else self.edge_weight.astype(np.float64)
        return sparse.csr_array((weights, self.edges, self.offsets), shape=(self.nodes, self.nodes))

    @property
    def unweighted(self) -> "Graph":
        """The graph with edges that count once; itself if they do."""
        return self if self.edge_weight is None else replace(self, edge_weight=None)

    @cached_property
    def edge_sums(self) -> npt.NDArray[np.float64]:
        """float64 [nodes, d], sum of the attributes of every node's in-edges."""
        return self.summed_edges(
            np.zeros((self.edge_count, 0)) if self.edge_attributes is None else self.edge_attributes
        )

    def summed_edges(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """float64 [nodes, columns], sum of the `values` [edge_count, columns] of every node's in-edges."""
        ones = sparse.csr_array(
            (np.ones(self.edge_count), np.arange(self.edge_count), self.offsets), shape=(self.nodes, self.edge_count)
        )
        return np.asarray(ones @ values.astype(np.float64))

    @property
    def without_edge_attributes(self) -> "Graph":
        """The graph with edges that have no attributes; itself if they have none."""
        return self if self.edge_attributes is None else replace(self, edge_attributes=None)

    @cached_property
    def symmetric(self) -> bool:
        """Whether every edge has its reverse."""
        order = np.lexsort((self.destinations, self.edges))
        return bool((self.edges[order] == self.destinations).all() and (self.destinations[order] == self.edges).all())

    @cached_property
    def symmetrised(self) -> "Graph":
        """The graph with the reverse of every edge; itself if it is symmetric."""
        if self.symmetric:
            return self
        ends = np.concatenate([self.edges, self.destinations]), np.concatenate([self.destinations, self.edges])
        return Graph.from_edges(self.name, self.nodes, *ends)

    def require_symmetric(self, purpose: str) -> None:
        """Refuse a graph with an edge that has no reverse.

        Raises
        ------
        InputError
            Naming the first such edge and the purpose.
        """
        if not self.symmetric:
            lost = self.adjacency - self.adjacency.T
            lost.eliminate_zeros()
            target, source = (int(axis[0]) for axis in (lost > 0).nonzero())
            self._refuse("edges", f"{source} -> {target} has no reverse", f"a symmetric adjacency for {purpose}")

    def relabelled(self, position: npt.ArrayLike) -> Self:
        """Graph in which node v has become node ``position[v]``.

        Parameters
        ----------
        position
            int [nodes], a permutation.

        Raises
        ------
        InputError
            If it is not a permutation of the nodes.
        """
        place = np.asarray(position, dtype=np.int64)
        if place.shape != (self.nodes,) or not np.array_equal(np.sort(place), np.arange(self.nodes)):
            self._refuse("placement", f"is {_kind(place)}", f"a permutation of 0..{self.nodes - 1}")
        old, order = np.argsort(place), self.relabelled_edges(place)
        rows = canonical_rows(self.nodes, place[self.edges], place[self.destinations])
        # The last place of `moved` is that of -1.
        moved = np.append(place, -1)
        return replace(
            self,
            offsets=rows.offsets,
            edges=rows.edges,
            edge_weight=None if self.edge_weight is None else self.edge_weight[order],
            edge_attributes=None if self.edge_attributes is None else self.edge_attributes[order],
            graph_of=None if self.graph_of is None else moved[self.graph_of[old]],
            features=self.features[old],
            labels=self.labels[old],
            train=self.train[old],
            validation=self.validation[old],
            test=self.test[old],
        )

    def relabelled_edges(self, position: npt.ArrayLike) -> IntArray:
        """int64 [edge_count], edges of this graph in the order in which `relabelled` has them."""
        place = np.asarray(position, dtype=np.int64)
        return np.lexsort((place[self.edges], place[self.destinations]))

    def inner_edges(self, vertices: npt.ArrayLike) -> IntArray:
        """int64, edges of this graph that `part` has, in order."""
        chosen = np.zeros(self.nodes, dtype=np.bool_)
        chosen[np.asarray(vertices, dtype=np.int64)] = True
        return np.flatnonzero(chosen[self.destinations])

    def part(self, vertices: npt.ArrayLike) -> Self:
        """Graph of some nodes that no others are joined to; they keep their order.

        Parameters
        ----------
        vertices
            int, VIDs in ascending order.

        Raises
        ------
        InputError
            If an edge leads from another node into one of them, or a small graph's nodes are not all there.
        """
        chosen = np.asarray(vertices, dtype=np.int64)
        # The last place of `moved` is that of -1.
        moved = np.full(self.nodes + 1, -1, dtype=np.int64)
        moved[chosen] = np.arange(chosen.size)
        inside = self.inner_edges(chosen)
        edges = moved[self.edges[inside]]
        if (edges < 0).any():
            self._refuse("part", f"has an edge from node {self.edges[inside][edges < 0][0]}, which is not in it", "all")
        return replace(
            self,
            offsets=np.concatenate([[0], np.cumsum(self.degrees[chosen])]),
            edges=edges,
            features=self.features[chosen],
            labels=self.labels[chosen],
            train=self.train[chosen],
            validation=self.validation[chosen],
            test=self.test[chosen],
            edge_weight=None if self.edge_weight is None else self.edge_weight[inside],
            edge_attributes=None if self.edge_attributes is None else self.edge_attributes[inside],
            graph_of=None if self.graph_of is None else moved[self.graph_of[chosen]],
        )

    @classmethod
    def from_edges(
        cls,
        name: str,
        nodes: int,
        sources: npt.ArrayLike,
        destinations: npt.ArrayLike,
        *,
        features: Any = None,
        labels: npt.ArrayLike | None = None,
        classes: int | None = None,
        train: npt.ArrayLike | None = None,
        validation: npt.ArrayLike | None = None,
        test: npt.ArrayLike | None = None,
        symmetrise: bool = False,
        edge_weight: npt.ArrayLike | None = None,
        edge_attributes: npt.ArrayLike | None = None,
        graph_of: npt.ArrayLike | None = None,
        notes: tuple[str, ...] = (),
    ) -> Self:
        """Graph of an edge list in any order; self loops and duplicates are dropped.

        Weights and attributes of duplicates are added. A note says if self loops with a weight were dropped.

        Parameters
        ----------
        name, nodes
            Name and number of nodes.
        sources, destinations
            int [edges] each.
        features
            [nodes, f] dense or sparse, converted to float32; one column of ones if absent.
        labels, classes
            Classes of the nodes (default -1) and their number (default the largest label + 1, at least 1).
        train, validation, test
            bool [nodes], default none.
        symmetrise
            Add the reverse of every edge, with the same weight and attributes.
        edge_weight
            Numbers [edges], converted to float32; default: every edge counts once.
        edge_attributes
            Numbers [edges, d], converted to float32; default: none.
        graph_of, notes
            As for the class.

        Raises
        ------
        InputError
            As for the class.
        """
        ends = [np.asarray(end) for end in (sources, destinations)]
        for end in ends:
            if end.ndim != 1 or (end.size and end.dtype.kind not in "iu") or end.size != ends[0].size:
                raise InputError(f"graph {name}, edges", f"is {_kind(end)}", "two integer arrays of equal length")
        for end in ends:
            if end.size and (end.min() < 0 or end.max() >= nodes):
                worst = end.min() if end.min() < 0 else end.max()
                raise InputError(f"graph {name}, edges", f"has the node {worst}", f"nodes in 0..{nodes - 1}")
        source, destination = (end.astype(np.int64) for end in ends)
        weights = None if edge_weight is None else np.asarray(edge_weight)
        if weights is not None and (weights.shape != source.shape or weights.dtype.kind not in "biuf"):
            raise InputError(f"graph {name}, edge_weight", f"is {_kind(weights)}", f"numbers [{source.size}]")
        if weights is not None and (loops := int(np.count_nonzero(source == destination))):
            notes += (f"{name}: {loops} self loops with their weights are dropped; a layer counts the node itself",)
        given = None if edge_attributes is None else np.asarray(edge_attributes)
        if given is not None and (given.ndim != 2 or given.shape[0] != source.size or given.dtype.kind not in "biuf"):
            raise InputError(f"graph {name}, edge_attributes", f"is {_kind(given)}", f"numbers [{source.size}, d]")
        if symmetrise:
            given = None if given is None else np.concatenate([given, given])
            source, destination = np.concatenate([source, destination]), np.concatenate([destination, source])
            weights = None if weights is None else np.concatenate([weights, weights])
        rows = canonical_rows(nodes, source, destination, weights)
        attributes = None if given is None else canonical_rows(nodes, source, destination, given).weights
        known = np.full(nodes, -1, dtype=np.int64) if labels is None else np.asarray(labels)
        if known.dtype.kind not in "iu":
            raise InputError(f"graph {name}, labels", f"is {_kind(known)}", "integers")
        known = known.astype(np.int64)
        masks = [
            np.zeros(nodes, dtype=np.bool_) if mask is None else np.asarray(mask) for mask in (train, validation, test)
        ]
        return cls(
            name=name,
            offsets=rows.offsets,
            edges=rows.edges,
            features=canonical_features(np.ones((nodes, 1)) if features is None else features),
            labels=known,
            classes=max(int(known.max(initial=-1)) + 1, 1) if classes is None else classes,
            train=masks[0],
            validation=masks[1],
            test=masks[2],
            edge_weight=rows.weights,
            edge_attributes=attributes,
            graph_of=None if graph_of is None else np.asarray(graph_of),
            notes=notes,
        )


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return f"{value.dtype} {list(value.shape)}"
    return type(value).__name__
