"""Citation graphs in the Planetoid format: ``ind.SET.{x,tx,allx,y,ty,ally,graph,test.index}``."""

import io
import pickle
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from contracts.errors import InputError, nearest
from golden.datasets.common import CLASSES_MAX, check_counts
from golden.files import read_bytes
from golden.graph import Graph, IntArray

__all__ = ["VALIDATION_NODES", "load"]

#: Nodes after the training nodes that are for validation.
VALIDATION_NODES = 500
_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph")


class _Rows:
    """Stands in for ``csr_matrix``: keeps the state, so that it is checked before SciPy sees it."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _reconstruct(kind: object, shape: Any, dtype: Any) -> npt.NDArray[Any]:
    """Stand in for NumPy's function of this name: an empty array, which the state then fills."""
    if kind is not _NDARRAY or shape != (0,):
        raise pickle.UnpicklingError("an array of another type or size")
    return np.ndarray(0, dtype)


#: Stands in for the type of arrays, which only `_reconstruct` may make: others could be of any size.
_NDARRAY = object()


class _Restricted(pickle._Unpickler):
    """Admits only NumPy arrays, SciPy's CSR matrix and defaultdict: a pickle can run code.

    Unlike the one in C, Python's own unpickler keeps its memo in a dictionary, not in an array as long as a file says.
    """

    _ALLOWED: dict[str, dict[str, Any]] = {  # noqa: RUF012
        "_reconstruct": dict.fromkeys(("numpy.core.multiarray", "numpy._core.multiarray"), _reconstruct),
        "ndarray": {"numpy": _NDARRAY},
        "dtype": {"numpy": np.dtype},
        "csr_matrix": dict.fromkeys(("scipy.sparse.csr", "scipy.sparse._csr"), _Rows),
        "csr_array": dict.fromkeys(("scipy.sparse._csr", "scipy.sparse._arrays"), _Rows),
        "defaultdict": {"collections": defaultdict},
        "list": {"__builtin__": list, "builtins": list},
        # Python 2 and 3 rebuild byte strings of arrays through these.
        "encode": {"_codecs": lambda text, encoding: text.encode("latin1")},
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._ALLOWED[name][module]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}") from None


def load(path: str) -> Graph:
    """Load a set; features are divided by their row's sum, as the models for these sets do.

    Row i of ``tx`` and ``ty`` is that of the node in line i of ``test.index``; test nodes without a row get zero
    features and no label; self loops and duplicates are dropped; edges go both ways.

    Parameters
    ----------
    path
        ``DIR/SET``, for example ``data/cora``.

    Raises
    ------
    InputError
        If a file is missing, is not such a pickle, or its content does not fit the others.
    """
    folder, name = Path(path).parent, Path(path).name
    if not name:
        raise InputError("planetoid", f"{path!r} names no set", "planetoid:DIR/SET")
    _check_there(folder, name)
    files = {part: folder / f"ind.{name}.{part}" for part in (*_PARTS, "test.index")}
    content = {part: _unpickle(files[part]) for part in _PARTS}
    rows = {part: _matrix(files[part], content[part]) for part in ("x", "tx", "allx")}
    hot = {part: _labels(files[part], content[part]) for part in ("y", "ty", "ally")}
    tested = _test_index(files["test.index"])
    _check_sizes(files, rows, hot, tested)

    check_counts(files["allx"], len(tested), rows["allx"].shape[1])
    known, nodes = rows["allx"].shape[0], int(tested.max()) + 1
    features = sparse.lil_array((nodes, rows["allx"].shape[1]), dtype=np.float64)
    features[:known] = rows["allx"]
    features[tested] = rows["tx"]
    features = sparse.csr_array(features)
    sums = np.asarray(np.abs(features).sum(axis=1)).ravel()
    features = sparse.diags_array(np.divide(1, sums, out=np.zeros(nodes), where=sums > 0)) @ features
    labels = np.full(nodes, -1, dtype=np.int64)
    labels[:known] = hot["ally"][0]
    labels[tested] = hot["ty"][0]
    masks = np.zeros((3, nodes), dtype=np.bool_)
    trained = hot["y"][0].size
    masks[0, :trained] = True
    masks[1, trained : min(trained + VALIDATION_NODES, known)] = True
    masks[2, tested] = True
    source, destination = _edges(files["graph"], content["graph"])
    return Graph.from_edges(
        name,
        nodes,
        source,
        destination,
        features=sparse.csr_array(features),
        labels=labels,
        classes=hot["ally"][1],
        train=masks[0],
        validation=masks[1],
        test=masks[2],
        symmetrise=True,
    )


def _check_there(folder: Path, name: str) -> None:
    """Refuse a set of which there is no file in a folder that has others."""
    sets = sorted(path.name[len("ind.") : -len(".graph")] for path in folder.glob("ind.*.graph"))
    if sets and name not in sets and not (folder / f"ind.{name}.x").exists():
        raise InputError(
            f"planetoid, {folder}", f"has no set {name!r}{nearest(name, sets)}", f"one of {', '.join(sets)}"
        )


def _read(file: Path) -> bytes:
    return read_bytes(file, "a file of a Planetoid set")


def _unpickle(file: Path) -> Any:
    data = _read(file)
    try:
        with warnings.catch_warnings():
            # Old names of types are still read.
            warnings.simplefilter("ignore")
            return _Restricted(io.BytesIO(data), encoding="latin1").load()
    except Exception as error:  # an unpickler can raise anything
        wrong = f"is not such a pickle ({type(error).__name__}: {error})"
        raise InputError(file, wrong, "a pickle of NumPy arrays, SciPy CSR matrices or a dict") from None


def _matrix(file: Path, content: Any) -> Any:
    """Check a matrix and return it as ``csr_array`` float64."""
    expected = "a SciPy CSR matrix of numbers"
    if isinstance(content, np.ndarray) and content.ndim == 2 and content.dtype.kind in "biuf":
        return _finite(file, sparse.csr_array(content.astype(np.float64)))
    state = content.state if isinstance(content, _Rows) else None
    if not isinstance(state, dict):
        raise InputError(file, f"holds {type(content).__name__}", expected)
    parts = [state.get(key) for key in ("data", "indices", "indptr")]
    kinds = ("biuf", "iu", "iu")
    if not all(
        isinstance(part, np.ndarray) and part.dtype.kind in kind for part, kind in zip(parts, kinds, strict=True)
    ):
        raise InputError(file, "has a part that is not an array of numbers", expected)
    shape = state.get("_shape")
    if not (isinstance(shape, tuple) and len(shape) == 2 and all(type(size) is int and size >= 0 for size in shape)):
        raise InputError(file, "has a shape that is not two sizes", expected)
    try:
        rows = sparse.csr_array(tuple(parts), shape=shape, dtype=np.float64)
        rows.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise InputError(file, f"is not consistent ({error})", expected) from None
    return _finite(file, rows)


def _finite(file: Path, rows: Any) -> Any:
    # Rows are divided by their sums, which are to be finite, too.
    if rows.nnz and not np.abs(rows.data).max() < np.finfo(np.float32).max:
        raise InputError(file, "has a value that is not finite", "finite features of 32 bits")
    return rows


def _labels(file: Path, content: Any) -> tuple[IntArray, int]:
    """Return the class of every row, -1 for a row of zeros, and the number of classes."""
    numbers = isinstance(content, np.ndarray) and content.dtype.kind in "biuf"
    if not numbers or content.ndim != 2 or not 1 <= content.shape[1] <= CLASSES_MAX:
        raise InputError(file, f"holds {type(content).__name__}", "a one-hot array [rows, classes]")
    ones = content == 1
    if ((content != 0) & ~ones).any() or (ones.sum(axis=1) > 1).any():
        raise InputError(file, "has a row that is not one-hot", "a one-hot array [rows, classes]")
    return np.where(ones.any(axis=1), ones.argmax(axis=1), -1).astype(np.int64), content.shape[1]


def _test_index(file: Path) -> IntArray:
    try:
        tested = np.array(_read(file).split(), dtype=np.int64)
    except (ValueError, OverflowError):
        raise InputError(file, "has a line that is not an integer", "a node a line") from None
    if tested.size == 0 or np.unique(tested).size != tested.size or tested.min() < 0:
        raise InputError(file, "is empty or names a node twice or a negative one", "distinct test nodes")
    return tested


def _check_sizes(files: dict[str, Path], rows: dict[str, Any], hot: dict[str, Any], tested: IntArray) -> None:
    """Refuse parts whose sizes contradict each other."""
    for part, labels in (("x", "y"), ("tx", "ty"), ("allx", "ally")):
        if rows[part].shape[0] != hot[labels][0].size:
            raise InputError(files[labels], f"has {hot[labels][0].size} rows", f"{rows[part].shape[0]}, as {part}")
        if rows[part].shape[1] != rows["allx"].shape[1] or hot[labels][1] != hot["ally"][1]:
            raise InputError(files[part], "has another width than allx", "equal features and classes in all parts")
    known = rows["allx"].shape[0]
    if hot["y"][0].size > known:
        raise InputError(files["x"], f"has {hot['y'][0].size} rows", f"at most the {known} of allx")
    if tested.size != rows["tx"].shape[0]:
        raise InputError(files["test.index"], f"names {tested.size} nodes", f"the {rows['tx'].shape[0]} of tx")
    if tested.min() < known or tested.max() >= known + 100 * tested.size:
        raise InputError(files["test.index"], f"spans {tested.min()}..{tested.max()}", f"test nodes from {known} up")


def _edges(file: Path, content: Any) -> tuple[IntArray, IntArray]:
    if not isinstance(content, dict) or not all(isinstance(neighbours, list) for neighbours in content.values()):
        raise InputError(file, f"holds {type(content).__name__}", "a dict of lists of nodes")
    # A list is checked before NumPy sees it, which would follow nested lists to any depth and size.
    if not all(type(node) is int for nodes in (content, *content.values()) for node in nodes):
        raise InputError(file, "has a node that is not an integer", "a dict of lists of nodes")
    try:
        lengths = [len(neighbours) for neighbours in content.values()]
        ends = np.array([end for neighbours in content.values() for end in neighbours], dtype=np.int64)
        starts = np.repeat(np.array(list(content), dtype=np.int64), lengths)
    except OverflowError:
        raise InputError(file, "has a node beyond 64 bits", "a dict of lists of nodes") from None
    return starts, ends
