"""Layered networks on an array: reading them, mapping, learning, counting clocks, comparing with RTL (D9, D11, D13).

Every accuracy and every weight here is that of `NetworkModel`, whose bits are those of the array's programs. Clocks and
waiting are counted on the cycle-exact machine with some of the samples, and its words are compared with the model's.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from contracts.dnp.config import FRACTION, HIGHEST, ProcessorConfig
from contracts.dnp.topology import Grid
from contracts.errors import InputError
from golden.dnp.arithmetic import Ints
from golden.dnp.digits import order_of_epoch
from golden.dnp.layout import DoesNotFitError
from golden.dnp.mapper import Mapping, map_network
from golden.dnp.network import WEIGHT_FRACTION, Learning, Network, NetworkModel
from golden.dnp.passes import Samples
from golden.dnp.problems import Dataset

__all__ = [
    "accuracy",
    "float_accuracy",
    "learned",
    "mapped",
    "order_of_epoch",
    "read_network",
    "run_rtl",
    "save_network",
    "trained_float",
    "widths",
]

#: More neurons of a layer than any memory holds.
_WIDEST = 65536
_ARCHIVE = (
    "arrays weights0, biases0, weights1, ... of finite real numbers (or of 16-bit words, Q3.12), weights of shape "
    "[outputs, inputs]; or an MLPClassifier saved with joblib (.joblib)"
)


def widths(text: str, option: str = "--hidden") -> tuple[int, ...]:
    """Read ``32,16``.

    Raises
    ------
    InputError
        If it is written otherwise.
    """
    words = [word for word in text.replace("-", ",").split(",") if word.strip()]
    if not all(word.strip().isdecimal() and 0 < int(word) < _WIDEST for word in words):
        raise InputError(option, f"is {text!r}", f"widths in 1..{_WIDEST - 1} with commas between them")
    return tuple(int(word) for word in words)


def read_network(path: Path) -> Network:
    """Read a network from an ``.npz`` archive, or a fitted ``MLPClassifier`` saved with joblib.

    A joblib file is a program: one from an untrusted source can do anything when it is read.

    Raises
    ------
    InputError
        If there is no such file, or it holds something else.
    """
    if path.suffix == ".npz":
        return _from_archive(path)
    if path.suffix not in (".joblib", ".pkl"):
        raise InputError(path, "is neither .npz nor .joblib", _ARCHIVE)
    import joblib

    try:
        classifier = joblib.load(path)
    except OSError as error:
        raise InputError(path, error.strerror or "cannot be read", _ARCHIVE) from None
    except Exception as error:  # whatever unpickling a file of any contents raises
        raise InputError(path, f"cannot be read ({type(error).__name__})", _ARCHIVE) from None
    if not hasattr(classifier, "coefs_"):
        raise InputError(path, f"holds a {type(classifier).__name__}", "a fitted MLPClassifier")
    try:
        return Network.from_classifier(classifier)
    except ValueError as error:
        raise InputError(path, str(error), "an MLPClassifier(activation='logistic')") from None


def _from_archive(path: Path) -> Network:
    try:
        # A broken archive would otherwise stay open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            layers = sum(name.startswith("weights") for name in archive.files)
            names = [f"{kind}{number}" for number in range(layers) for kind in ("weights", "biases")]
            missing = [name for name in names or ["weights0"] if name not in archive]
            if missing:
                raise InputError(path, f"has no array {missing[0]!r}", _ARCHIVE)
            arrays = {name: archive[name] for name in names}
    except InputError:
        raise
    except OSError as error:
        raise InputError(path, error.strerror or "is not an .npz archive", _ARCHIVE) from None
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise InputError(path, "is not an .npz archive of numbers", _ARCHIVE) from None
    _check_arrays(path, arrays, layers)

    def real(name: str) -> npt.NDArray[np.float64]:
        array = arrays[name].astype(np.float64)
        return array if arrays[name].dtype.kind == "f" else np.ldexp(array, -WEIGHT_FRACTION)

    return Network.from_float(*([real(f"{kind}{n}") for n in range(layers)] for kind in ("weights", "biases")))


def _check_arrays(path: Path, arrays: dict[str, npt.NDArray[Any]], layers: int) -> None:
    """Refuse arrays that are no layers one behind the other."""
    width: int | None = None
    for number in range(layers):
        weights, biases = arrays[f"weights{number}"], arrays[f"biases{number}"]
        if weights.ndim != 2 or not weights.size or width not in (None, weights.shape[1]):
            behind = "" if width is None else f" behind {width} neurons"
            raise InputError(f"{path}, weights{number}", f"has shape {list(weights.shape)}{behind}", _ARCHIVE)
        width = weights.shape[0]
        if biases.shape != (width,):
            raise InputError(f"{path}, biases{number}", f"has shape {list(biases.shape)}", f"shape [{width}]")
    for name, array in arrays.items():
        if array.dtype.kind not in "fi" or not np.isfinite(array).all():
            raise InputError(f"{path}, {name}", f"is {array.dtype}, or not finite", _ARCHIVE)


def save_network(network: Network, path: Path) -> None:
    """Write the words of a network, int16 Q3.12, as :func:`read_network` reads them."""
    arrays = {f"weights{n}": w.astype(np.int16) for n, w in enumerate(network.weights)}
    arrays |= {f"biases{n}": b.astype(np.int16) for n, b in enumerate(network.biases)}
    np.savez(path, **arrays)  # type: ignore[arg-type]


def trained_float(data: Dataset, hidden: Sequence[int], seed: int) -> Any:
    """Fit scikit-learn's ``MLPClassifier`` with logistic hidden units of the given widths."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    classifier = MLPClassifier(tuple(hidden), activation="logistic", max_iter=600, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(np.ldexp(data.train.astype(np.float64), -FRACTION), data.train_classes)
    return classifier


def _classes(outputs: npt.NDArray[Any], half: float) -> npt.NDArray[np.intp]:
    """Class of every row of outputs; a single output is that of class 1."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] > half).astype(np.intp)
    return np.argmax(outputs, axis=1)


def accuracy(model: NetworkModel, inputs: Ints, classes: Ints) -> float:
    """Share of samples whose largest output is that of their class."""
    outputs = np.array([model.forward(sample)[-1] for sample in inputs])
    return float(np.mean(_classes(outputs, HIGHEST / 2) == classes))


def float_accuracy(network: Network, inputs: Ints, classes: Ints) -> float:
    """Share of samples that the same weights classify rightly in floating point."""
    values = np.ldexp(inputs.astype(np.float64), -FRACTION)
    for weights, biases in zip(network.weights, network.biases, strict=True):
        sums = values @ np.ldexp(weights.astype(np.float64), -WEIGHT_FRACTION).T
        values = 1 / (1 + np.exp(-(sums + np.ldexp(biases.astype(np.float64), -WEIGHT_FRACTION))))
    return float(np.mean(_classes(values, 0.5) == classes))


def mapped(
    network: Network, grid: Grid, config: ProcessorConfig, learning: Learning | None = None, samples: int = 1
) -> Mapping:
    """Map a network that the user asked for.

    Raises
    ------
    InputError
        If a memory is too small.
    """
    try:
        return map_network(network, grid, config, learning=learning, samples=samples)
    except DoesNotFitError as error:
        raise InputError(
            "array", str(error), "more processors (--side), or --wm-depth, --xm-depth, --p-depth"
        ) from None


def learned(model: NetworkModel, data: Dataset, rates: Sequence[Learning], seed: int) -> Iterator[float]:
    """Learn an epoch for each of `rates`, in the order of `order_of_epoch`; yield the test accuracy after each."""
    targets = data.targets()
    for epoch, learning in enumerate(rates):
        for index in order_of_epoch(len(data.train), epoch, seed):
            model.learn(data.train[index], targets[index], learning)
        yield accuracy(model, data.test, data.test_classes)


def run_rtl(
    network: Network,
    grid: Grid,
    config: ProcessorConfig,
    samples: Samples,
    learning: Learning | None = None,
) -> int:
    """Let samples pass the array in RTL; every register, memory word, counter and output must be the golden machine's.

    Returns
    -------
    int
        Clocks of the run.

    Raises
    ------
    AssertionError
        If anything differs.
    InputError
        If the array has an odd side: RTL is made of chips of 2 × 2 processors.
    """
    from hw.dnp.array import ProcessorArray
    from sim.dnp.array import simulate_array

    if grid.rows % 2 or grid.columns % 2:
        raise InputError("--rtl", f"has {grid.rows} x {grid.columns} processors", "an even --side, in chips of 2 x 2")
    with TemporaryDirectory() as folder:
        work, result = (Path(folder).resolve() / name for name in ("work.npz", "clocks"))
        inputs = np.array([given for given, _ in samples])
        targets = np.array([target for _, target in samples]) if learning else np.zeros((len(samples), 0), np.int64)
        arrays = {f"weights{n}": w for n, w in enumerate(network.weights)}
        arrays |= {f"biases{n}": b for n, b in enumerate(network.biases)}
        np.savez(work, inputs=inputs, targets=targets, **arrays)  # type: ignore[arg-type]
        given = {
            "grid": [grid.rows, grid.columns, grid.topology.name], "work": str(work), "result": str(result),
            "config": [config.wm_depth, config.xm_depth, config.p_depth, config.table_bits],
            "learning": [learning.rate, learning.momentum] if learning else None,
        }  # fmt: skip
        simulate_array(ProcessorArray(grid.rows, grid.columns, config), "sim.dnp.run_network", parameters=given)
        return int(result.read_text())
