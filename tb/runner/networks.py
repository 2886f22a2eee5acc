"""Small networks of every kind of layer, on small graphs: what whole machines are tried with."""

from collections.abc import Sequence

import numpy as np

from contracts import Model
from golden.graph import Graph
from golden.model.activation import RELU
from golden.model.float_model import FloatLayer, FloatModel, Reach
from golden.model.network import Problem
from golden.model.quantise import quantise

__all__ = ["batch", "deep", "mixed", "network", "readout", "rooted"]

#: A layer of a network: model, eps, reach, width, activation.
Form = tuple[Model, float, Reach, int, str | None]


def network(seed: int, features: int, forms: Sequence[Form]) -> FloatModel:
    """Return a network with random weights.

    Parameters
    ----------
    seed
        Of the weights.
    features
        That enter it.
    forms
        Of every layer.
    """
    random, layers = np.random.default_rng(seed), list[FloatLayer]()
    for model, eps, reach, width, activation in forms:
        weight = random.normal(size=(features, width)) / np.sqrt(features)
        layers.append(FloatLayer(weight, random.normal(size=width), model, eps, reach, activation))
        features = width
    return FloatModel(tuple(layers))


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


def mixed(graph: Graph, seed: int) -> Problem:
    """Return sums, dense layers, means with and without the node, a normalised layer; not all have an activation."""
    forms: list[Form] = [
        (Model.GIN, 0.5, Reach.GRAPH, 9, RELU),
        (Model.GCN, 0.0, Reach.NODE, 20, RELU),
        (Model.SAGE, -1.0, Reach.GRAPH, 8, None),
        (Model.GCN, 0.0, Reach.NODE, 5, RELU),
        (Model.SAGE, 0.0, Reach.GRAPH, 7, RELU),
        (Model.GCN, 0.0, Reach.GRAPH, 6, None),
    ]
    return quantise(network(seed, graph.feature_count, forms), graph)


def rooted(graph: Graph, seed: int) -> Problem:
    """Return means and a sum of the neighbours beside root weights, and layers without them between."""
    forms: list[Form] = [
        (Model.SAGE, -1.0, Reach.GRAPH, 9, RELU),
        (Model.GIN, -1.0, Reach.GRAPH, 20, RELU),
        (Model.GCN, 0.0, Reach.NODE, 6, RELU),
        (Model.GCN, 0.0, Reach.GRAPH, 37, RELU),
        (Model.SAGE, -1.0, Reach.GRAPH, 14, None),
    ]
    plain, random = network(seed, graph.feature_count, forms), np.random.default_rng(seed)
    roots = [
        random.normal(size=layer.weight.shape) / np.sqrt(layer.f_in) if layer.eps else None for layer in plain.layers
    ]
    return quantise(plain.changed(root=roots), graph)


def readout(graph: Graph, seed: int, model: Model) -> Problem:
    """Return a layer on the small graphs, the sum or the mean of each, and a dense head."""
    forms: list[Form] = [
        (Model.GIN, 0.0, Reach.GRAPH, 6, RELU),
        (model, 0.0, Reach.MEMBERS, 10, RELU),
        (Model.GCN, 0.0, Reach.NODE, 3, None),
    ]
    return quantise(network(seed, graph.feature_count, forms), graph)


def deep(graph: Graph, seed: int, layers: int) -> Problem:
    """Return many layers of one kind."""
    forms: list[Form] = [(Model.GCN, 0.0, Reach.GRAPH, 4, RELU)] * layers
    return quantise(network(seed, graph.feature_count, forms), graph)
