"""Classification problems for layered networks: bundled ones, and the user's own arrays (D13).

Inputs are Q0.15 words between 0 and the largest; the paper names character and speech recognition. *digits* are
handwritten (scikit-learn), *letters* are the 26 capitals in the 22 text fonts that matplotlib brings, five of which no
training image shows. *wine*, *cancer* and *iris* are measured features rather than images (scikit-learn); no data set
of speech is bundled with a library of the project.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from contracts.dnp.config import FRACTION, HIGHEST
from contracts.errors import InputError, unknown
from golden.dnp import digits as handwritten
from golden.dnp.arithmetic import Ints

__all__ = ["NAMES", "Dataset", "dataset"]

_TEST_SHARE, _SPLIT_SEED = 0.2, 0
_CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: Fonts of matplotlib with the capital letters; the second group is for testing alone.
_SEEN = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-BoldOblique", "DejaVuSans-Oblique", "DejaVuSansMono",
    "DejaVuSansMono-Bold", "DejaVuSansMono-BoldOblique", "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-BoldItalic",
    "STIXGeneralBol", "STIXGeneralBolIta", "STIXGeneralItalic", "cmb10", "cmmi10", "cmss10", "cmti10",
)  # fmt: skip
_UNSEEN = ("DejaVuSansMono-Oblique", "DejaVuSerif-Italic", "STIXGeneral", "cmr10", "cmtt10")
#: Cells along a side of a letter's image, points of the rendered letter in each, and its place in half cells.
_CELLS, _POINTS = 8, 6
_SHIFTS = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))


@dataclass(frozen=True)
class Dataset:
    """Inputs of Q0.15 and their classes.

    Attributes
    ----------
    name
        For messages.
    train, test
        int64 [samples, inputs].
    train_classes, test_classes
        int64 [samples], in 0..classes-1.
    """

    name: str
    train: Ints
    train_classes: Ints
    test: Ints
    test_classes: Ints

    @property
    def inputs(self) -> int:
        """Words of a sample."""
        return int(self.train.shape[1])

    @property
    def classes(self) -> int:
        """Number of classes."""
        return 1 + int(max(self.train_classes.max(), self.test_classes.max()))

    def targets(self) -> Ints:
        """Desired outputs of the training samples, int64 [samples, classes]: the largest word for the class, else 0."""
        return np.where(np.arange(self.classes) == self.train_classes[:, None], HIGHEST, 0).astype(np.int64)


def _words(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> Ints:
    """Scale every column from low..high to 0..HIGHEST; what is outside saturates."""
    scaled = (values - low) / np.where(high > low, high - low, 1)
    return np.clip(np.rint(scaled * (1 << FRACTION)), 0, HIGHEST).astype(np.int64)


def _digits() -> Dataset:
    data = handwritten.digits()
    return Dataset("digits", data.train, data.train_classes, data.test, data.test_classes)


def _images(font: str) -> Iterator[np.ndarray]:
    """Yield the images of the capitals in a font, shift by shift: float64 [64] between 0 and 1."""
    from matplotlib import get_data_path
    from matplotlib.ft2font import FT2Font

    drawn = FT2Font(str(Path(get_data_path()) / "fonts" / "ttf" / f"{font}.ttf"))
    # Capitals are 7 of 8 cells high: their height is about 0.73 of the size.
    drawn.set_size(_POINTS * (_CELLS - 1) / 0.73, 72)
    side = _CELLS * _POINTS
    for down, right in _SHIFTS:
        for letter in _CAPITALS:
            drawn.set_text(letter, 0.0)
            drawn.draw_glyphs_to_bitmap(antialiased=True)
            ink = np.asarray(drawn.get_image(), dtype=np.float64) / 255
            box = ink[np.ix_(ink.any(axis=1), ink.any(axis=0))]
            page = np.zeros((3 * side, 3 * side))
            top = side + (side - box.shape[0]) // 2 + down * _POINTS // 2
            left = side + (side - box.shape[1]) // 2 + right * _POINTS // 2
            page[top : top + box.shape[0], left : left + box.shape[1]] = box
            middle = page[side : 2 * side, side : 2 * side]
            yield middle.reshape(_CELLS, _POINTS, _CELLS, _POINTS).mean(axis=(1, 3)).ravel()


def _letters() -> Dataset:
    def drawn(fonts: tuple[str, ...]) -> tuple[Ints, Ints]:
        images = np.array([image for font in fonts for image in _images(font)])
        classes = np.tile(np.arange(len(_CAPITALS)), len(images) // len(_CAPITALS))
        return _words(images, np.zeros(1), np.ones(1)), classes.astype(np.int64)

    return Dataset("letters", *drawn(_SEEN), *drawn(_UNSEEN))


def _split(name: str, values: np.ndarray, classes: Ints) -> Dataset:
    """Split 80 : 20 by seed 0, and scale by the training samples' range."""
    split = train_test_split(values, classes, test_size=_TEST_SHARE, stratify=classes, random_state=_SPLIT_SEED)
    train, test, train_classes, test_classes = split
    low, high = train.min(axis=0), train.max(axis=0)
    return Dataset(name, _words(train, low, high), train_classes, _words(test, low, high), test_classes)


def _measured(name: str, loader: str) -> Callable[[], Dataset]:
    def load() -> Dataset:
        from sklearn import datasets

        data = getattr(datasets, loader)()
        return _split(name, data.data, data.target.astype(np.int64))

    return load


_BUNDLED: dict[str, Callable[[], Dataset]] = {
    "digits": _digits,
    "letters": _letters,
    "wine": _measured("wine", "load_wine"),
    "cancer": _measured("cancer", "load_breast_cancer"),
    "iris": _measured("iris", "load_iris"),
}
#: Names of the bundled problems.
NAMES = tuple(_BUNDLED)
_EXPECTED = (
    "arrays 'inputs' [samples, inputs] of finite numbers and 'classes' [samples] of whole numbers from 0, with at "
    "least 5 samples of each of 2 classes"
)


def dataset(name: str) -> Dataset:
    """Return a bundled problem, or that of an ``.npz`` file with the arrays ``inputs`` and ``classes``.

    Every column of a file's inputs is scaled by its range in the training samples, four fifths of all.

    Raises
    ------
    InputError
        If there is no such problem or file, or the file holds something else.
    """
    if name in _BUNDLED:
        return _BUNDLED[name]()
    path = Path(name)
    if path.suffix != ".npz":
        raise unknown("problem", name, NAMES, f"one of {', '.join(NAMES)}, or an .npz file")
    try:
        # A broken archive would otherwise stay open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            missing = [key for key in ("inputs", "classes") if key not in archive]
            if missing:
                raise InputError(path, f"has no array {missing[0]!r}", _EXPECTED)
            values, classes = archive["inputs"], archive["classes"]
    except OSError as error:
        raise InputError(path, error.strerror or "is not an .npz archive", _EXPECTED) from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(path, "is not an .npz archive of numbers", _EXPECTED) from None
    return _checked(path, values, classes)


def _checked(path: Path, values: Any, classes: Any) -> Dataset:
    if values.ndim != 2 or values.dtype.kind not in "fiu" or not values.size or not np.isfinite(values).all():
        raise InputError(f"{path}, inputs", f"is {values.dtype} {list(values.shape)}, or not finite", _EXPECTED)
    if classes.shape != values.shape[:1] or classes.dtype.kind not in "iu" or classes.min() < 0:
        raise InputError(f"{path}, classes", f"is {classes.dtype} {list(classes.shape)}, or negative", _EXPECTED)
    counts = np.unique(classes, return_counts=True)[1]
    if counts.size < 2 or counts.min() < 5:
        raise InputError(f"{path}, classes", f"has {counts.size} classes, one of {counts.min()} samples", _EXPECTED)
    return _split(path.stem, values.astype(np.float64), classes.astype(np.int64))
