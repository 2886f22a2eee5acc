"""`predictions.npz`: the result of a run for every node or small graph, to be used elsewhere."""

from pathlib import Path

import numpy as np

from golden.graph import IntArray
from golden.model.layer import Int16Array
from scripts.flows.simulations import classes_of

__all__ = ["write_predictions"]


def write_predictions(path: Path, rows: Int16Array, floating: IntArray, fraction: int) -> None:
    """Write the results of the last layer, nodes or small graphs in the order in which they were given.

    The archive has ``results``, float64 [answers, f_out], exactly what the stored integers stand for; ``classes``,
    int64 [answers], the place of the largest; ``agreement``, bool [answers], whether the float network says the same.

    Parameters
    ----------
    path
        File to write.
    rows
        int16 [answers, f_out], what the machine left, or the golden model where nothing was simulated.
    floating
        int64 [answers], classes of the float network.
    fraction
        Fraction bits of the results.
    """
    classes = classes_of(rows)
    with path.open("wb") as file:
        np.savez(
            file,
            results=np.ldexp(rows.astype(np.float64), -fraction),
            classes=classes,
            agreement=classes == floating,
        )
