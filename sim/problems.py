"""Small graphs and networks that benches of whole inferences run."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from contracts import Model
from contracts.attention import Heads
from contracts.dnp.config import ProcessorConfig
from golden.graph import Graph
from golden.model.activation import RELU
from golden.model.float_model import FloatLayer, FloatModel
from golden.model.heads import attention_layer, behind, merged
from golden.model.network import Problem
from golden.model.quantise import quantise
from sim.networks import Form, random_network

__all__ = [
    "CORNERS",
    "DIRECTED",
    "attention_network",
    "attention_problem",
    "corner_graph",
    "directed_graph",
    "random_graph",
    "random_problem",
    "rooted_problem",
]

#: Corner graphs by name: number of nodes and undirected edges as the user might give them.
CORNERS: dict[str, tuple[int, list[tuple[int, int]]]] = {
    "empty": (0, []),
    "one node": (1, []),
    "no edges": (5, []),
    "one edge": (2, [(0, 1)]),
    "path": (7, [(n, n + 1) for n in range(6)]),
    "star": (40, [(0, n) for n in range(1, 40)]),
    "clique": (9, [(a, b) for a in range(9) for b in range(a)]),
    "two components": (8, [(0, 1), (1, 2), (2, 0), (4, 5), (5, 6), (6, 7)]),
    "isolated nodes": (9, [(1, 3), (3, 7)]),
    "self loops": (4, [(0, 0), (0, 1), (2, 2), (2, 3)]),
    "duplicate edges": (4, [(0, 1), (1, 0), (0, 1), (2, 3), (2, 3)]),
}

#: Directed corner graphs by name: number of nodes and edges from source to destination.
DIRECTED: dict[str, tuple[int, list[tuple[int, int]]]] = {
    "one way": (2, [(0, 1)]),
    "into a star": (40, [(n, 0) for n in range(1, 40)]),
    "out of a star": (40, [(39, n) for n in range(39)]),
    "acyclic": (20, [(a, b) for b in range(20) for a in range(max(0, b - 4), b)]),
    "round": (7, [(n, (n + 1) % 7) for n in range(7)]),
    "all to all others": (14, [(a, b) for a in range(6) for b in range(6, 14)]),
    "one edge without reverse": (5, [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (0, 3)]),
    "isolated nodes": (9, [(1, 3), (3, 7)]),
}


def _features(random: np.random.Generator, nodes: int, features: int, density: float) -> np.ndarray | sparse.csr_array:
    values = random.normal(size=(nodes, features)).astype(np.float32)
    if density >= 1:
        return values
    return sparse.csr_array(values * (random.random((nodes, features)) < density))


def corner_graph(name: str, features: int, density: float, seed: int) -> Graph:
    """Corner graph of a name with random features; a density below 1 makes them sparse."""
    nodes, pairs = CORNERS[name]
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    rows = _features(np.random.default_rng(seed), nodes, features, density)
    return Graph.from_edges(name, nodes, ends[:, 0], ends[:, 1], features=rows, symmetrise=True)


def directed_graph(name: str, features: int, density: float, seed: int) -> Graph:
    """Directed corner graph of a name, as :func:`corner_graph`."""
    nodes, pairs = DIRECTED[name]
    ends = np.array(pairs, dtype=np.int64)
    rows = _features(np.random.default_rng(seed), nodes, features, density)
    return Graph.from_edges(name, nodes, ends[:, 0], ends[:, 1], features=rows)


def random_graph(seed: int, nodes: int, edges: int, features: int, density: float, attributes: int = 0) -> Graph:
    """Directed random graph with a few nodes of high degree, and so many attributes of each edge."""
    random = np.random.default_rng(seed)
    sources = (nodes * random.random(edges) ** 2).astype(np.int64)
    destinations = random.integers(0, nodes, edges)
    rows = _features(random, nodes, features, density)
    along = random.normal(size=(edges, attributes)) if attributes else None
    return Graph.from_edges(f"random {seed}", nodes, sources, destinations, features=rows, edge_attributes=along)


def random_problem(
    graph: Graph,
    model: Model,
    widths: Sequence[int],
    seed: int,
    activation: str = RELU,
    core: ProcessorConfig | None = None,
) -> Problem:
    """Quantised network with random weights, whose first layer takes the attributes of edges if there are some.

    Parameters
    ----------
    widths
        Output features of its layers.
    activation
        Between them.
    core
        Sizes of the neural chip's processors.
    """
    random = np.random.default_rng(seed)
    shapes = list(zip([graph.feature_count, *widths], widths, strict=False))
    eps = tuple(float(random.uniform(-0.9, 2)) if model == Model.GIN else 0.0 for _ in shapes)
    weights = tuple(random.normal(size=shape) / np.sqrt(shape[0]) for shape in shapes)
    biases = tuple(random.normal(size=shape[1]) for shape in shapes)
    network = FloatModel.uniform(model, weights, biases, eps, activation)
    if count := graph.edge_feature_count:
        first = replace(network.layers[0], edge_weight=random.normal(size=(count, widths[0])) / np.sqrt(count))
        network = FloatModel((first, *network.layers[1:]))
    return quantise(network, graph, core=core)


def attention_problem(
    graph: Graph, shapes: Sequence[tuple[int, int]], seed: int, *, slope: float = 0.2, spread: float = 1.0
) -> Problem:
    """Quantised `attention_network`."""
    return quantise(attention_network(graph, shapes, seed, slope=slope, spread=spread), graph)


def attention_network(
    graph: Graph, shapes: Sequence[tuple[int, int]], seed: int, *, slope: float = 0.2, spread: float = 1.0
) -> FloatModel:
    """Network of attention layers with random weights; a dense layer takes the mean of the last heads.

    Parameters
    ----------
    shapes
        Heads and channels of its layers of attention.
    slope
        Of the LeakyReLU on scores.
    spread
        How far scores are apart.
    """
    random = np.random.default_rng(seed)
    layers: list[FloatLayer] = []
    heads, width = None, graph.feature_count
    for shape in shapes:
        outputs = shape[0] * shape[1]
        weight = random.normal(size=(width, outputs)) / np.sqrt(width)
        source, destination = (random.normal(size=shape) * spread / np.sqrt(shape[1]) for _ in range(2))
        layer = attention_layer(weight, source, destination, random.normal(size=outputs), slope, RELU)
        layers.append(behind(heads, layer) if heads else layer)
        heads, width = Heads(*shape), outputs
    assert heads
    layers.append(merged(heads, random.normal(size=heads.channels), mean=True))
    return FloatModel(tuple(layers))


def rooted_problem(graph: Graph, model: Model, widths: Sequence[int], seed: int) -> Problem:
    """Quantised network with random weights whose layers have root weights beside a mean (SAGE) or sum (GIN).

    Parameters
    ----------
    widths
        Output features of its layers.
    """
    forms = [Form(width, model, root=True) for width in widths]
    return quantise(random_network(seed, graph.feature_count, forms), graph)
