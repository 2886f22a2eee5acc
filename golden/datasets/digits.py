"""Handwritten digits joined to their nearest neighbours: real data without a download."""

import numpy as np

from golden.datasets.common import stratified_split
from golden.graph import Graph

__all__ = ["NEIGHBOURS", "load"]

#: Nearest neighbours of every digit.
NEIGHBOURS = 8
#: Largest grey value of a pixel; features are in 0..1.
GREY_MAX = 16


def load() -> Graph:
    """scikit-learn's 1,797 digits of 8 x 8 pixels, 10 classes, dense features.

    A node's 8 nearest neighbours by Euclidean distance, ties by lower ID, symmetrised by union; stratified
    split 60/20/20 with seed 0.
    """
    from sklearn.datasets import load_digits  # takes a second to import

    bunch = load_digits()
    pixels = bunch.data.astype(np.int64)
    # Grey values are integers, so squared distances are exact and ties are ties.
    norms = (pixels * pixels).sum(axis=1)
    distances = norms[:, None] + norms[None, :] - 2 * (pixels @ pixels.T)
    np.fill_diagonal(distances, np.iinfo(np.int64).max)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :NEIGHBOURS]
    labels = bunch.target.astype(np.int64)
    train, validation, test = stratified_split(labels)
    return Graph.from_edges(
        "digits",
        len(pixels),
        nearest.ravel(),
        np.repeat(np.arange(len(pixels)), NEIGHBOURS),
        features=bunch.data / GREY_MAX,
        labels=labels,
        classes=int(labels.max()) + 1,
        train=train,
        validation=validation,
        test=test,
        symmetrise=True,
    )
