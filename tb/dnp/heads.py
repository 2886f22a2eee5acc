"""Small heads on results of a graph network, for benches."""

from dataclasses import replace

import numpy as np

from contracts.dnp.config import ProcessorConfig
from golden.dnp.deep_head import DeepHead
from golden.dnp.head import Head
from golden.dnp.network import Learning, Network
from golden.graph import Graph
from golden.head import HeadProblem
from golden.model.layer import Int16Array
from golden.model.network import Problem

__all__ = ["head_problem", "labelled"]


def labelled(graph: Graph, classes: int, seed: int) -> Graph:
    """Give a graph random classes, of which some are unknown, and a split."""
    random = np.random.default_rng(seed)
    part, labels = random.integers(0, 3, graph.nodes), random.integers(-1, classes, graph.nodes)
    # There is something to learn from.
    part[0], labels[0] = 0, 0
    return replace(graph, labels=labels, classes=classes, train=part == 0, validation=part == 1, test=part == 2)


def head_problem(
    problem: Problem,
    features: Int16Array,
    epochs: int,
    core: ProcessorConfig,
    seed: int = 0,
    hidden: tuple[int, ...] = (),
) -> HeadProblem:
    """Put a head with random weights on the features, with hidden layers of these widths."""
    network = Network.random((features.shape[1], *hidden, problem.graph.classes), seed, spread=2.0)
    head = (DeepHead if hidden else Head)(network, Learning(1.5), core)
    return HeadProblem(problem, features, head, epochs)
