"""The bundled handwritten digits, as the array learns them: 1,797 images of 8 × 8, ten classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from contracts.dnp.config import FRACTION, HIGHEST
from golden.dnp.arithmetic import Ints
from golden.dnp.network import Learning, Network, NetworkModel

__all__ = ["CLASSES", "LEARNING", "PIXELS", "Digits", "digits", "initial_network", "order_of_epoch", "targets"]

PIXELS, CLASSES = 64, 10
#: Largest value of a pixel in the data set.
_BRIGHTEST = 16
_TEST_SHARE, _SPLIT_SEED = 0.2, 0
#: Constants that reach the accuracy; found by trying 0.25, 0.5 and 1.
LEARNING = Learning(rate=0.5)


@dataclass(frozen=True)
class Digits:
    """Training and test images, Q0.15, shape (images, 64), and their classes."""

    train: Ints
    train_classes: Ints
    test: Ints
    test_classes: Ints


def digits() -> Digits:
    """Return the stratified split 80 : 20 of seed 0."""
    data = load_digits()
    words = np.minimum(data.data * ((1 << FRACTION) // _BRIGHTEST), HIGHEST).astype(np.int64)
    split = train_test_split(words, data.target, test_size=_TEST_SHARE, stratify=data.target, random_state=_SPLIT_SEED)
    train, test, train_classes, test_classes = split
    return Digits(train, train_classes, test, test_classes)


def initial_network(hidden: int, seed: int = 0) -> Network:
    """Return the 64-h-10 network that learning begins with."""
    return Network.random((PIXELS, hidden, CLASSES), seed)


def targets(classes: Ints) -> Ints:
    """Return desired outputs, shape (images, 10): the largest word for the class, 0 for the others."""
    return np.where(np.arange(CLASSES) == classes[:, None], HIGHEST, 0).astype(np.int64)


def order_of_epoch(images: int, epoch: int, seed: int = 0) -> Ints:
    """Return the order in which an epoch shows the images."""
    return np.random.default_rng((seed, epoch)).permutation(images).astype(np.int64)


def accuracy(model: NetworkModel, images: Ints, classes: Ints) -> float:
    """Return the share of images whose largest output is that of their class."""
    return float(np.mean([np.argmax(model.forward(image)[-1]) == c for image, c in zip(images, classes, strict=True)]))
