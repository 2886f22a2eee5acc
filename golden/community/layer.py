"""Aggregation of a layer record by record, with its number of operations (I6-I9)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contracts import Activation
from contracts.errors import InputError
from contracts.scale import Scales
from golden.community.plan import Operations, Scheme, Task, columns_of, plan
from golden.graph import BoolArray
from golden.locator.record import Record
from golden.model.layer import Int16Array, OwnRows, QuantisedLayer, own_weights
from golden.model.rounding import requantise

__all__ = ["Aggregation", "Int64Array", "aggregate_records", "execute", "finish", "operations_of"]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Aggregation:
    """A layer's results by records.

    Attributes
    ----------
    sums
        int64 [nodes, f_out], every node's sum over its neighbours, and itself unless rooted, each counted once.
    results
        int16 [nodes, f_out], after the second rounding point.
    operations
        Operations of all records.
    partials
        Number of partial sums of hubs.
    """

    sums: Int64Array
    results: Int16Array
    operations: Operations
    partials: int


def execute(tasks: Sequence[Task], vectors: Int64Array, rows: int) -> Int64Array:
    """Execute a plan.

    Parameters
    ----------
    tasks
        The plan.
    vectors
        int64 [rows, f_out], the combined row of each column.
    rows
        Rows of the record: nodes and hubs.

    Returns
    -------
    int64 [rows, f_out], the sum of every row.
    """
    known = dict(enumerate(vectors))
    sums = np.zeros((rows, vectors.shape[1]), dtype=np.int64)
    for task in tasks:
        if task.form:
            known[task.index] = known[task.left] + known[task.right]
        chosen = [row for row in range(rows) if task.rows >> row & 1]
        sums[chosen] += -known[task.index] if task.negative else known[task.index]
    return sums


def operations_of(columns: Sequence[int], tasks: Sequence[Task]) -> Operations:
    """Count the operations of a plan beside the non-zeros of its record."""
    return Operations(
        sum(column.bit_count() for column in columns),
        sum(task.rows.bit_count() for task in tasks),
        sum(task.form for task in tasks),
    )


def finish(
    sums: Int64Array, combined: Int16Array, scales: Scales, layer: QuantisedLayer, root: OwnRows | None = None
) -> Int16Array:
    """Weigh sums, in which the node itself counts like a neighbour, and requantise them at the second rounding point.

    Parameters
    ----------
    sums
        int64 [n, f_out].
    combined
        int16 [n, f_out], rows of the nodes themselves.
    scales
        s_dst of the nodes.
    layer
        Parameters.
    root
        Own rows of the nodes, which then do not count in the sums.

    Returns
    -------
    int16 [n, f_out].
    """
    if root is None:
        own = (layer.self_weight - layer.neighbour_weight) * combined.astype(np.int64)
    else:
        own = own_weights(layer.self_weight, root) * root.rows.astype(np.int64)
    weighed = layer.neighbour_weight * sums + own
    bias = np.zeros_like(layer.biases) if layer.activation == Activation.DNP else layer.biases
    result = requantise(weighed, scales.mantissa[:, None], scales.exponent[:, None], layer.shift_destination, bias)
    return np.maximum(result, np.int16(0)) if layer.activation == Activation.RELU else result


def aggregate_records(
    records: Iterable[Record],
    combined: Int16Array,
    scales: Scales,
    layer: QuantisedLayer,
    scheme: Scheme,
    summed: BoolArray | None = None,
    root: OwnRows | None = None,
) -> Aggregation:
    """Aggregate a layer by its records.

    Parameters
    ----------
    records
        All records of a graph, in any order.
    combined
        int16 [nodes, f_out], see `golden.model.layer.combine`.
    scales
        s_dst of the nodes.
    layer
        Parameters.
    scheme
        Scheme of shared sums.
    summed
        As for `columns_of`; sums and results of other vertices mean nothing.
    root
        Own rows, if the layer is rooted.

    Raises
    ------
    InputError
        If a community comes in several parts.
    """
    sums = np.zeros(combined.shape, dtype=np.int64)
    operations, partials = Operations(), 0
    for record in records:
        if not record.hub_edges and not (record.part == 0 and record.last_part):
            raise InputError("record", f"of {record.nodes.size} nodes comes in parts", "communities in one part")
        vids = np.concatenate([record.nodes, record.hubs])
        columns = columns_of(record, summed, rooted=root is not None)
        tasks = plan(columns, scheme)
        vectors = combined[vids].astype(np.int64)
        sums[vids] += execute(tasks, 0 * vectors if root is not None and vids.size == 1 else vectors, vids.size)
        operations += operations_of(columns, tasks)
        partials += record.hubs.size + record.hub_edges
    return Aggregation(sums, finish(sums, combined, scales, layer, root), operations, partials)
