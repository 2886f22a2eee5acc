"""Hints about networks and graphs that are valid but probably unintended."""

import numpy as np
from scipy import sparse

from contracts.errors import InputError
from golden.graph import Graph
from golden.model.float_model import FloatModel, accuracy
from golden.model.orientation import WHY, names_of

__all__ = ["hints", "hints_of_weights"]

#: Least gain in accuracy of transposed matrices for a hint, absolute and in standard deviations.
_GAIN, _DEVIATIONS = 0.1, 3.0
#: Range of the largest feature; outside, biases or weights of usual size have no effect.
_USUAL = (2.0**-16, 2.0**16)


def hints(graph: Graph) -> list[str]:
    """Return the notes of a graph's maker, and a line if its features are all 0 or of unusual magnitude.

    Parameters
    ----------
    graph
        The graph of the run.
    """
    return [*graph.notes, *_magnitude(graph)]


def _magnitude(graph: Graph) -> list[str]:
    """Return a line if features are all 0, or far from the magnitude of weights and biases."""
    values = graph.features.data if sparse.issparse(graph.features) else graph.features
    peak = float(np.abs(values).max(initial=0))
    if not peak:
        return [f"features of {graph.name}: all are 0, so nodes differ by their edges alone"]
    if _USUAL[0] <= peak <= _USUAL[1]:
        return []
    kind = "tiny" if peak < 1 else "huge"
    return [f"features of {graph.name}: {kind}, {peak:.1e} at most; rescale them, to a largest magnitude near 1"]


def hints_of_weights(network: FloatModel, graph: Graph) -> list[str]:
    """Return a line for each probable fault of a user's weights that their shapes do not show.

    Parameters
    ----------
    network
        As read.
    graph
        The graph of the run.
    """
    lines = []
    given = network.weights[-1].shape[1]
    if given < graph.classes:
        last = names_of([len(network.weights) - 1])
        lines.append(f"{last}: gives {given} results a node, but {graph.name} has {graph.classes} classes")
    return lines + _square(network, graph)


def _square(network: FloatModel, graph: Graph) -> list[str]:
    """Return a line if square matrices predict known classes far better when transposed: their shape cannot tell."""
    square = [number for number, weight in enumerate(network.weights) if weight.shape[0] == weight.shape[1]]
    known = graph.labels >= 0
    if not square or not known.any():
        return []
    weights = tuple(weight.T if number in square else weight for number, weight in enumerate(network.weights))
    try:
        turned_network = network.changed(weight=weights)
        given, turned = (accuracy(net.predictions(graph), graph, known) or 0.0 for net in (network, turned_network))
    except InputError:  # one of the two overflows
        return []
    if turned - given <= max(_GAIN, _DEVIATIONS * np.sqrt(0.5 / np.count_nonzero(known))):
        return []
    its = "its transpose predicts" if len(square) == 1 else "their transposes predict"
    return [
        f"{names_of(square)}: probably transposed; {its} {turned:.0%} of the known classes, as given {given:.0%}; {WHY}"
    ]
