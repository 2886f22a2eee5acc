"""Which layer of a quantised network loses accuracy: each alone in integers, the others in floating point."""

from typing import Any

import numpy as np

from golden.model.calibration import integers
from golden.model.float_model import FloatModel, accuracy
from golden.model.layer import combine
from golden.model.network import Problem, results_of

__all__ = ["TOLERATED", "losses"]

#: Loss of accuracy from which it is worth looking for the layer.
TOLERATED = 0.01


def losses(network: FloatModel, problem: Problem) -> list[float]:
    """Return what each layer loses by itself, 0..1, negative where it gains.

    Accuracy on the test nodes counts; where none has a known class, the share of nodes with the same prediction.

    Parameters
    ----------
    network, problem
        Float network, and its integers on the graph.
    """
    graph, model = problem.graph, problem.model
    exact = [rows for _, rows in network.forward(graph)]

    def score(results: Any) -> float:
        classes = np.argmax(results, axis=1)
        found = accuracy(classes, graph, graph.test)
        return found if found is not None else float(np.mean(classes == np.argmax(exact[-1], axis=1)))

    lost, best = list[float](), score(exact[-1])
    rows, fraction = graph.features, model.feature_fraction
    for number, (layer, topology) in enumerate(zip(model.layers, problem.topologies, strict=True)):
        entering = integers(rows, fraction)
        result = results_of(layer, topology, combine(entering, layer.weights, topology.source, layer.shift_source))
        if number in model.ends:
            result = model.ends[number](result).astype(np.int16)
        fraction = model.fractions[number].results
        after = np.ldexp(result.astype(np.float64), -fraction)
        rest = network.forward_from(number + 1, after, graph)
        lost.append(best - score(rest[-1][1] if rest else after))
        rows = exact[number]
    return lost
