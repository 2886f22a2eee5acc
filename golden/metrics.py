"""Lower bounds of an inference, for comparison with measured cycles and bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from contracts import SPARSE_ENTRY, VALUE_BITS, VID_BITS
from golden.model.network import LayerResult, Problem

__all__ = ["Bound", "compulsory_bytes", "limit_cycles", "port_cycles", "useful_operations", "work_of"]

_VALUE_BYTES = VALUE_BITS // 8
_WORD_BYTES = VID_BITS // 8


@dataclass(frozen=True)
class Bound:
    """Bytes that every machine has to move.

    Attributes
    ----------
    read
        Features, VIDs, offsets, weights and biases, each once.
    written
        Results of the last layer.
    """

    read: int
    written: int

    @property
    def total(self) -> int:
        """Sum of both."""
        return self.read + self.written


def useful_operations(problem: Problem, results: Sequence[LayerResult]) -> int:
    """Multiply-accumulates with a non-zero feature, and additions of the aggregation, over all layers.

    For every layer: (non-zeros of its input + non-zeros of A + I) times its output features; the non-zeros of its
    input twice if it has a root weight.

    Parameters
    ----------
    problem
        Network and graph.
    results
        Exact rows of every layer; hidden ones are the next layer's input.
    """
    rows, total = problem.features, 0
    for layer, topology, result in zip(problem.model.layers, problem.topologies, results, strict=True):
        members = topology.graph.edge_count + problem.graph.nodes
        nonzero = rows.nnz if sparse.issparse(rows) else int(np.count_nonzero(rows))
        total += (nonzero * (1 + (layer.root is not None)) + members) * layer.f_out
        rows = result.results
    return total


def work_of(problem: Problem) -> npt.NDArray[np.int64]:
    """Return what each vertex costs: int64 [nodes], multiply-accumulates and additions over all layers.

    As for `useful_operations`, but every feature of a dense row counts, and so do all of hidden layers.
    """
    rows = problem.features
    entries = np.diff(rows.tocsr().indptr) if sparse.issparse(rows) else np.full(rows.shape[0], rows.shape[1])
    total = np.zeros(problem.graph.nodes, dtype=np.int64)
    for layer, topology in zip(problem.model.layers, problem.topologies, strict=True):
        total += (entries * (1 + (layer.root is not None)) + topology.graph.degrees + 1) * layer.f_out
        entries = np.full(problem.graph.nodes, layer.f_out)
    return total


def compulsory_bytes(problem: Problem) -> Bound:
    """Return the bytes through the memory port if all intermediate data stay on the chip.

    Sparse features count 4 bytes an entry and 4 an offset, dense ones 2 a value; VIDs 4, weights of edges 2; edges
    and offsets once for all layers that sum the same; weights and results 2 a value without padding; biases 4.
    """
    graph, model = problem.graph, problem.model
    if problem.sparse:
        features = problem.features.nnz * SPARSE_ENTRY.bytes + (graph.nodes + 1) * _WORD_BYTES
    else:
        features = problem.features.size * _VALUE_BYTES
    graphs = dict.fromkeys(topology.graph for topology in problem.topologies)
    read = [each for each in graphs if each is graph or each.edge_count]
    edges = sum(each.edge_count + each.nodes + 1 for each in read) * _WORD_BYTES
    edges += sum(each.edge_count for each in read if each.edge_weight is not None) * _VALUE_BYTES
    matrices = sum(layer.weights.size * (1 + (layer.root is not None)) for layer in model.layers)
    weights = matrices * _VALUE_BYTES + sum(layer.f_out for layer in model.layers) * _WORD_BYTES
    return Bound(features + edges + weights, graph.nodes * model.layers[-1].f_out * _VALUE_BYTES)


def limit_cycles(useful: int, lanes: int, bound: Bound, beat_bytes: int) -> int:
    """Return a lower bound of cycles for a number of lanes and a memory port.

    Parameters
    ----------
    useful
        See `useful_operations`.
    lanes
        Multiply-accumulate units.
    bound
        See `compulsory_bytes`; reads and writes have a channel each.
    beat_bytes
        Bytes of a memory beat.
    """
    return max(-(-useful // lanes), port_cycles(bound, beat_bytes))


def port_cycles(bound: Bound, beat_bytes: int) -> int:
    """Return the cycles of a memory port for the compulsory bytes, in both directions at once."""
    return max(-(-bound.read // beat_bytes), -(-bound.written // beat_bytes))
