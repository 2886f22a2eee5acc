"""Synthetic graphs: ``synthetic:KIND,key=value,...``, the same for the same seed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from contracts.errors import InputError, unknown
from golden.datasets.common import SPARSE_BELOW, stratified_split
from golden.datasets.keys import read_keys
from golden.datasets.molecules import NAME, molecules
from golden.graph import Graph, IntArray

__all__ = ["KINDS", "Kind", "Options", "load"]

Pairs = tuple[IntArray, IntArray]


@dataclass(frozen=True)
class Options:
    """Keys of a synthetic graph.

    Attributes
    ----------
    nodes
        1..10,000,000 (clique: at most 4,096); a grid takes the nearest square.
    degree
        Mean degree of the kinds that have one, less than nodes; other kinds say what it is.
    features
        1..65,536.
    classes
        1..nodes; the number of communities of a community graph.
    density
        Share of non-zero features, above 0; from 0.5 the features are dense.
    seed
        Of everything that is drawn.
    mixing
        Share of a community graph's edges that leave their community, or of a small world's edges with a random end.
    exponent
        Of the degree distribution of a configuration graph, above 1.
    directed
        Share of the edges that go one way, from the end that the kind draws first: from the middle of a star, from
        parents in a tree, along a path. The others go both ways.
    edge_features
        0..256 attributes of each edge, dense; 0: none.
    """

    nodes: int = 256
    degree: float = 6.0
    features: int = 64
    classes: int = 4
    density: float = 0.1
    seed: int = 0
    mixing: float = 0.1
    exponent: float = 2.2
    directed: float = 0.0
    edge_features: int = 0


_LIMITS: dict[str, tuple[float, float]] = {
    "nodes": (1, 10_000_000),
    "degree": (0, 1 << 20),
    "features": (1, 1 << 16),
    "classes": (1, 1 << 16),
    "density": (1e-9, 1),
    "seed": (0, (1 << 32) - 1),
    "mixing": (0, 1),
    "exponent": (1.01, 10),
    "directed": (0, 1),
    "edge_features": (0, 256),
}
#: Most features that are stored, and most ends of edges.
_FEATURES_MAX = 1 << 28
_EDGES_MAX = 1 << 27
_CLIQUE_MAX = 4096


class Kind(NamedTuple):
    """A kind of graph: a line for the list of data sets and the ends of its edges, each edge once."""

    description: str
    edges: Callable[[Options, np.random.Generator], Pairs]


def _power_law(options: Options, rng: np.random.Generator) -> Pairs:
    most = max(1, min(round(options.degree / 2), options.nodes - 1))
    if options.nodes < 2:
        return _none(options, rng)
    return _pairs(nx.barabasi_albert_graph(options.nodes, most, seed=int(rng.integers(1 << 31))).edges())


def _configuration(options: Options, rng: np.random.Generator) -> Pairs:
    wanted = rng.pareto(options.exponent - 1, options.nodes) + 1
    wanted = np.minimum(wanted * options.degree / max(wanted.mean(), 1e-9), options.nodes - 1)
    # Rounding by chance keeps the mean.
    stubs = np.repeat(np.arange(options.nodes), np.floor(wanted + rng.random(options.nodes)).astype(np.int64))
    stubs = rng.permutation(stubs)[: stubs.size // 2 * 2]
    return stubs[0::2], stubs[1::2]


def _community(options: Options, rng: np.random.Generator) -> Pairs:
    count = round(options.nodes * options.degree / 2)
    source = rng.integers(options.nodes, size=count)
    # Node v belongs to community v mod classes: its peers are whole multiples of `classes` away.
    peers = (options.nodes - 1 - source % options.classes) // options.classes + 1
    inside = source % options.classes + options.classes * rng.integers(peers)
    outside = rng.integers(options.nodes, size=count)
    return source, np.where(rng.random(count) < options.mixing, outside, inside)


def _erdos(options: Options, rng: np.random.Generator) -> Pairs:
    count = round(options.nodes * options.degree / 2)
    return rng.integers(options.nodes, size=count), rng.integers(options.nodes, size=count)


def _grid(options: Options, rng: np.random.Generator) -> Pairs:
    place = np.arange(options.nodes).reshape(_side(options), -1)
    return (
        np.concatenate([place[:-1].ravel(), place[:, :-1].ravel()]),
        np.concatenate([place[1:].ravel(), place[:, 1:].ravel()]),
    )


def _path(options: Options, rng: np.random.Generator) -> Pairs:
    return np.arange(options.nodes - 1), np.arange(1, options.nodes)


def _cycle(options: Options, rng: np.random.Generator) -> Pairs:
    return np.arange(options.nodes), np.roll(np.arange(options.nodes), -1)


def _star(options: Options, rng: np.random.Generator) -> Pairs:
    return np.zeros(options.nodes - 1, dtype=np.int64), np.arange(1, options.nodes)


def _clique(options: Options, rng: np.random.Generator) -> Pairs:
    if options.nodes > _CLIQUE_MAX:
        raise InputError("synthetic:clique, nodes", f"is {options.nodes}", f"1..{_CLIQUE_MAX}")
    source, destination = np.triu_indices(options.nodes, 1)
    return source.astype(np.int64), destination.astype(np.int64)


def _small_world(options: Options, rng: np.random.Generator) -> Pairs:
    node = np.arange(options.nodes)
    # Neighbours further than half of the ring away are those on the other side.
    reach = np.arange(1, min(round(options.degree / 2), options.nodes // 2) + 1)
    source, near = np.repeat(node, reach.size), (node[:, None] + reach).ravel() % options.nodes
    return source, np.where(
        rng.random(source.size) < options.mixing, rng.integers(options.nodes, size=source.size), near
    )


def _groups(options: Options) -> int:
    """Nodes of a clique of degree `degree`."""
    return max(1, min(round(options.degree) + 1, options.nodes))


def _cliques(size: int, firsts: IntArray, nodes: int) -> Pairs:
    """Edges of cliques of `size` nodes from each first one on; nodes from `nodes` on are missing."""
    low, high = np.triu_indices(size, 1)
    source, destination = (firsts[:, None] + low).ravel(), (firsts[:, None] + high).ravel()
    there = destination < nodes
    return source[there], destination[there]


def _caveman(options: Options, rng: np.random.Generator) -> Pairs:
    size = _groups(options)
    firsts = np.arange(0, options.nodes, size)
    source, destination = _cliques(size, firsts, options.nodes)
    lasts = np.minimum(firsts + size, options.nodes) - 1
    return np.concatenate([source, lasts]), np.concatenate([destination, np.roll(firsts, -1)])


def _windmill(options: Options, rng: np.random.Generator) -> Pairs:
    size = max(1, _groups(options) - 1)
    source, destination = _cliques(size, np.arange(1, options.nodes, size), options.nodes)
    hub, others = _star(options, rng)
    return np.concatenate([hub, source]), np.concatenate([others, destination])


def _lollipop(options: Options, rng: np.random.Generator) -> Pairs:
    size = _groups(options)
    source, destination = _cliques(size, np.zeros(1, dtype=np.int64), options.nodes)
    path = np.arange(size - 1, options.nodes - 1)
    return np.concatenate([source, path]), np.concatenate([destination, path + 1])


def _bipartite(options: Options, rng: np.random.Generator) -> Pairs:
    few = min(round(options.degree), options.nodes)
    return np.tile(np.arange(few), options.nodes - few), np.repeat(np.arange(few, options.nodes), few)


def _tree(options: Options, rng: np.random.Generator) -> Pairs:
    child = np.arange(1, options.nodes)
    return (child - 1) // max(1, round(options.degree)), child


def _none(options: Options, rng: np.random.Generator) -> Pairs:
    return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)


#: By the name they have on the command line.
KINDS = {
    "power-law": Kind("preferential attachment (Barabasi-Albert) of mean degree `degree`", _power_law),
    "configuration": Kind("degrees drawn from a power law of `exponent`, joined at random", _configuration),
    "community": Kind("planted partition into `classes` communities, `mixing` of the edges outside", _community),
    "erdos": Kind("edges between random nodes", _erdos),
    "grid": Kind("square grid", _grid),
    "path": Kind("one path", _path),
    "cycle": Kind("one cycle", _cycle),
    "star": Kind("node 0 joined to all others", _star),
    "clique": Kind("every node joined to every other", _clique),
    "small-world": Kind(
        "ring of the nearest `degree` neighbours, `mixing` of the edges to a random node", _small_world
    ),
    "caveman": Kind("cliques of degree `degree`, joined in a ring by an edge each", _caveman),
    "windmill": Kind("cliques of degree `degree` that share node 0", _windmill),
    "lollipop": Kind("one clique of degree `degree`, and all other nodes on a path that begins in it", _lollipop),
    "bipartite": Kind("`degree` nodes, each joined to all others", _bipartite),
    "tree": Kind("every node has `degree` children", _tree),
    "empty": Kind("no edges", _none),
}


def load(spec: str) -> Graph:
    """Make a graph.

    Labels of a community graph are its communities; elsewhere every class has a random centre and a node is of the
    class of a nearest centre (a random class where no centre is reached). A
    sparse feature row is a bag of words, half of them drawn from the words of the node's class; dense rows scatter
    round the centre of the class.

    Parameters
    ----------
    spec
        ``KIND,key=value,...``; keys are the attributes of `Options`, of a batch of molecules those of its own.

    Raises
    ------
    InputError
        If the kind or a key does not exist or a value is out of range.
    """
    name, *settings = spec.split(",")
    if name == NAME:
        return molecules(f"synthetic:{spec}", settings)
    if name not in KINDS:
        raise unknown("synthetic", name, [*KINDS, NAME])
    options = _options(name, settings)
    rng = np.random.default_rng(options.seed)
    source, destination = KINDS[name].edges(options, rng)
    if name == "community":
        labels = np.arange(options.nodes) % options.classes
    else:
        labels = _nearest_centre(options, source, destination, rng)
    train, validation, test = stratified_split(labels, options.seed)
    # Drawn apart, so that graphs differ in nothing else.
    back = np.random.default_rng([options.seed, 1]).random(source.size) >= options.directed
    sources, destinations = np.concatenate([source, destination[back]]), np.concatenate([destination, source[back]])
    return Graph.from_edges(
        f"synthetic:{spec}",
        options.nodes,
        sources,
        destinations,
        features=_features(options, labels, rng),
        labels=labels,
        classes=options.classes,
        train=train,
        validation=validation,
        test=test,
        edge_attributes=_edge_features(options, labels[destinations]) if options.edge_features else None,
    )


def _options(kind: str, settings: list[str]) -> Options:
    values = read_keys(f"synthetic:{kind}", settings, Options, _LIMITS)
    options = Options(**values)
    if kind == "grid":
        options = Options(**{**values, "nodes": _side(options) ** 2})
    for key in ("degree", "classes"):
        limit = options.nodes if key == "classes" else max(options.nodes - 1, 0)
        if getattr(options, key) > limit:
            if key in values:
                raise InputError(
                    f"synthetic:{kind}, {key}", f"is {values[key]}", f"at most {limit} with {options.nodes} nodes"
                )
            options = Options(**{**options.__dict__, key: limit})
    _check_size(kind, options)
    return options


def _check_size(kind: str, options: Options) -> None:
    """Refuse what would take more memory than a machine has."""
    dense = options.density >= SPARSE_BELOW
    values = options.features * (1 if dense else options.density)
    for what, count, most in (
        ("edges, nodes * degree", options.nodes * options.degree, _EDGES_MAX),
        ("features, nodes * features * density", options.nodes * values, _FEATURES_MAX),
        (
            "features of edges, nodes * degree * edge_features",
            options.nodes * options.degree * options.edge_features,
            _FEATURES_MAX,
        ),
        ("features, classes * features", dense * options.classes * options.features, _FEATURES_MAX),
    ):
        if count > most:
            raise InputError(f"synthetic:{kind}", f"has {count:,.0f} {what}", f"at most {most:,}")


def _side(options: Options) -> int:
    return max(1, round(options.nodes**0.5))


def _pairs(edges: Any) -> Pairs:
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return ends[:, 0], ends[:, 1]


def _nearest_centre(options: Options, source: IntArray, destination: IntArray, rng: np.random.Generator) -> IntArray:
    """int64 [nodes], class of the nearest of `classes` random nodes."""
    shape = (options.nodes, options.nodes)
    joined = sparse.csr_array((np.ones(source.size), (source, destination)), shape=shape)
    centres = rng.choice(options.nodes, options.classes, replace=False)
    labels = rng.integers(options.classes, size=options.nodes)
    class_of = np.zeros(options.nodes, dtype=np.int64)
    class_of[centres] = np.arange(options.classes)
    _, _, nearest = csgraph.dijkstra(
        joined, directed=False, indices=centres, unweighted=True, min_only=True, return_predecessors=True
    )
    return np.where(nearest >= 0, class_of[np.maximum(nearest, 0)], labels)


def _edge_features(options: Options, classes: IntArray) -> Any:
    """float64 [edges, edge_features], scattered round the centre of the class of the node that an edge leads to.

    Drawn apart, so that graphs with and without them differ in nothing else.
    """
    rng = np.random.default_rng([options.seed, 2])
    centres = rng.standard_normal((options.classes, options.edge_features))
    return centres[classes] + rng.standard_normal((classes.size, options.edge_features))


def _features(options: Options, labels: IntArray, rng: np.random.Generator) -> Any:
    if options.density >= SPARSE_BELOW:
        centres = rng.standard_normal((options.classes, options.features))
        values = centres[labels] + rng.standard_normal((options.nodes, options.features))
        return values * (rng.random(values.shape) < options.density)
    words = max(1, round(options.density * options.features))
    shape = (options.nodes, words)
    block = max(1, options.features // options.classes)
    own = (labels[:, None] * block + rng.integers(block, size=shape)) % options.features
    columns = np.where(rng.random(shape) < 0.5, own, rng.integers(options.features, size=shape))
    offsets = np.arange(options.nodes + 1) * words
    bags = sparse.csr_array((np.ones(columns.size), columns.ravel(), offsets), shape=(options.nodes, options.features))
    bags.sum_duplicates()
    bags.data[:] = 1
    return bags
