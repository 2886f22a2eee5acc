"""A layer once more, in Python integers and fractions, one value at a time: what the golden model is held against."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from contracts import Activation
from contracts.scale import Scales, scales_of
from golden.model.layer import QuantisedLayer

__all__ = ["CORNERS", "layer_by_hand", "random_layer", "rounded"]

#: Corner graphs: name, nodes, pairs (joined both ways).
CORNERS: dict[str, tuple[int, list[tuple[int, int]]]] = {
    "empty": (5, []),
    "one node": (1, []),
    "path": (6, [(v, v + 1) for v in range(5)]),
    "star": (9, [(0, v) for v in range(1, 9)]),
    "clique": (7, [(u, v) for u in range(7) for v in range(u)]),
    "two components": (8, [(0, 1), (1, 2), (2, 0), (4, 5), (5, 6), (6, 7)]),
    "self loops and duplicates": (4, [(0, 0), (0, 1), (1, 0), (0, 1), (2, 2), (2, 3)]),
}


def rounded(value: Fraction) -> int:
    """Nearest integer, ties to even, saturated to 16 bits."""
    return max(-32768, min(32767, round(value)))


def layer_by_hand(
    pairs: list[tuple[int, int]],
    features: npt.NDArray[np.int16],
    layer: QuantisedLayer,
    source: Scales,
    destination: Scales,
) -> tuple[list[list[int]], list[list[int]]]:
    """Compute combined rows and results of a layer on undirected pairs."""
    nodes, f_out = features.shape[0], layer.f_out
    around: list[set[int]] = [set() for _ in range(nodes)]
    for u, v in pairs:
        around[u].add(v)
        around[v].add(u)

    def rows(weights: npt.NDArray[np.int16], scales: Scales, shift: int) -> list[list[int]]:
        found = []
        for v in range(nodes):
            sums = [sum(int(features[v, i]) * int(weights[i, j]) for i in range(layer.f_in)) for j in range(f_out)]
            scale = scales.fraction(v) * Fraction(1 << 15, 1 << shift)
            found.append([rounded(total * scale) for total in sums])
        return found

    combined = rows(layer.weights, source, layer.shift_source)
    selves, times = combined, [1] * nodes
    if layer.root:
        exponents = [int(exponent) for exponent in destination.exponent]
        # What is left of s_dst without its power of two, to the nearest 16 bits of its inverse.
        inverse = [Fraction(1 << 15, int(mantissa)) for mantissa in destination.mantissa]
        selves = rows(layer.root.weights, scales_of([float(each) for each in inverse]), layer.root.shift)
        times = [1 << exponent for exponent in exponents]
    results = []
    for v in range(nodes):
        row = []
        for j in range(f_out):
            total = layer.self_weight * times[v] * selves[v][j]
            total += sum(layer.neighbour_weight * combined[u][j] for u in around[v] if u != v)
            bias = 0 if layer.activation == Activation.DNP else int(layer.biases[j])
            exact = total * destination.fraction(v) * (1 << 15) + bias
            value = rounded(exact / Fraction(1 << layer.shift_destination))
            row.append(max(value, 0) if layer.activation == Activation.RELU else value)
        results.append(row)
    return combined, results


def random_layer(
    rng: np.random.Generator,
    f_in: int,
    f_out: int,
    activation: Activation = Activation.RELU,
    self_weight: int = 1,
    neighbour_weight: int = 1,
) -> QuantisedLayer:
    """Layer with the full range of weights whose results are spread over 16 bits, a few of them saturated."""
    shift_source = 15 + 15 + int(f_in).bit_length() // 2
    extra = neighbour_weight.bit_length() - 1
    return QuantisedLayer(
        rng.integers(-(1 << 15), 1 << 15, (f_in, f_out)).astype(np.int16),
        rng.integers(-(1 << 29), 1 << 29, f_out).astype(np.int32),
        shift_source - 1,
        15 + extra,
        activation,
        self_weight,
        neighbour_weight,
    )
