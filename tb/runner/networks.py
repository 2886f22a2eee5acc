"""Small networks of every kind of layer, on small graphs: what whole machines are tried with."""

from dataclasses import replace

import numpy as np

from contracts import Model
from golden.graph import Graph
from golden.model.float_model import Reach
from golden.model.network import Problem
from golden.model.quantise import quantise
from sim.networks import Form, random_network

__all__ = ["attentive", "batch", "deep", "mixed", "readout", "rooted", "wide"]


def batch(seed: int, graphs: int, features: int) -> Graph:
    """Return a batch of small graphs of 1 to 9 nodes, their graph vertices at the end."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 10, graphs)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    nodes = int(starts[-1])
    sources, destinations = list[int](), list[int]()
    for start, size in zip(starts, sizes, strict=False):
        # A path, and as many chords.
        for node in range(1, int(size)):
            sources += [int(start) + node, int(start) + int(random.integers(0, node))]
            destinations += [int(start) + node - 1, int(start) + node]
    rows = np.concatenate([random.normal(size=(nodes, features)), np.zeros((graphs, features))]).astype(np.float32)
    graph_of = np.concatenate([np.repeat(nodes + np.arange(graphs), sizes), np.full(graphs, -1)])
    return Graph.from_edges(
        f"batch {seed}",
        nodes + graphs,
        np.array(sources, dtype=np.int64),
        np.array(destinations, dtype=np.int64),
        features=rows,
        symmetrise=True,
        graph_of=graph_of,
    )


def _on(graph: Graph, seed: int, *forms: Form) -> Problem:
    return quantise(random_network(seed, graph.feature_count, forms), graph)


def mixed(graph: Graph, seed: int) -> Problem:
    """Return sums, dense layers, means with and without the node, a normalised layer; not all have an activation."""
    return _on(
        graph,
        seed,
        Form(9, Model.GIN, 0.5),
        Form(20, reach=Reach.NODE),
        Form(8, Model.SAGE, -1.0, activation=None),
        Form(5, reach=Reach.NODE),
        Form(7, Model.SAGE),
        Form(6),
    )


def readout(graph: Graph, seed: int, model: Model) -> Problem:
    """Return a layer on the small graphs, the sum or the mean of each, and a dense head."""
    return _on(graph, seed, Form(6, Model.GIN), Form(10, model, reach=Reach.MEMBERS), Form(3, reach=Reach.NODE))


def deep(graph: Graph, seed: int, layers: int) -> Problem:
    """Return many layers of one kind."""
    return _on(graph, seed, *[Form(4)] * layers)


def rooted(graph: Graph, seed: int) -> Problem:
    """Return means and a sum of the neighbours beside root weights, and layers without them between."""
    return _on(
        graph,
        seed,
        Form(9, Model.SAGE, root=True),
        Form(20, Model.GIN, root=True),
        Form(6, reach=Reach.NODE),
        Form(37),
        Form(14, Model.SAGE, root=True),
    )


def attentive(graph: Graph, seed: int) -> Problem:
    """Return heads side by side, the mean of some, and a layer without attention."""
    return _on(graph, seed, Form(6, heads=3), Form(5, heads=2, mean=True), Form(4, Model.SAGE))


def wide(graph: Graph, seed: int, features: int, density: float) -> Problem:
    """Return a network on more features than weights have rows, given and between layers."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(graph.nodes, features)) * (random.random((graph.nodes, features)) < density)
    graph = replace(graph, features=rows.astype(np.float32))
    return _on(graph, seed, Form(140), Form(18), Form(5, Model.SAGE, root=True))
