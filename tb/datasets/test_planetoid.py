import os
import pickle
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from contracts.errors import InputError
from golden.datasets import load

FOLDER = os.environ.get("ATOLL_PLANETOID")


def parts() -> dict[str, Any]:
    """Return a set of 6 nodes: 0 is for training, 1 and 2 known, 3 and 5 for test, 4 without a row."""
    return {
        "x": sparse.csr_matrix([[1.0, 1.0, 0.0]]),
        "allx": sparse.csr_matrix([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]]),
        "tx": sparse.csr_matrix([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]),
        "y": np.array([[1, 0]]),
        "ally": np.array([[1, 0], [0, 1], [0, 0]]),
        "ty": np.array([[0, 1], [1, 0]]),
        "graph": defaultdict(list, {0: [1, 1, 0], 1: [0], 2: [5], 3: [], 5: [2]}),
    }


def written(folder: Path, content: dict[str, Any], index: str = "5\n3\n") -> str:
    for part, value in content.items():
        data = value if isinstance(value, bytes) else pickle.dumps(value, protocol=2)
        (folder / f"ind.toy.{part}").write_bytes(data)
    (folder / "ind.toy.test.index").write_text(index)
    return f"planetoid:{folder}/toy"


def test_a_set_is_put_together(tmp_path: Path) -> None:
    graph = load(written(tmp_path, parts()))
    expected = np.array([[0.5, 0.5, 0], [0, 0, 1], [0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_allclose(graph.features.toarray(), expected, rtol=1e-6)
    # Row 0 of `ty` is node 5, the first line of the index; node 2 has a row of zeros, node 4 none.
    assert graph.labels.tolist() == [0, 1, -1, 0, -1, 1]
    assert np.flatnonzero(graph.train).tolist() == [0]
    assert np.flatnonzero(graph.validation).tolist() == [1, 2]
    assert np.flatnonzero(graph.test).tolist() == [3, 5]
    assert (graph.offsets.tolist(), graph.edges.tolist()) == ([0, 1, 2, 3, 3, 3, 4], [1, 0, 5, 2])


class _Harmful:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, ("exit 1",)


def inconsistent() -> Any:
    rows = sparse.csr_matrix([[1.0, 1.0, 0.0]])
    rows.indices = np.array([0, 99], dtype=np.int32)
    return rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graph": _Harmful()}, r"ind.toy.graph: is not such a pickle \(UnpicklingError: it names posix.system\)"),
        ({"x": b"no pickle"}, "ind.toy.x: is not such a pickle"),
        ({"x": b""}, "ind.toy.x: is not such a pickle"),
        ({"x": pickle.dumps(sparse.csr_matrix([[1.0]]))[:-20]}, "ind.toy.x: is not such a pickle"),
        ({"x": inconsistent()}, "ind.toy.x: is not consistent"),
        ({"x": [1, 2]}, "ind.toy.x: holds list"),
        ({"x": sparse.csr_matrix([[1.0, np.nan, 0.0]])}, "ind.toy.x: has a value that is not finite"),
        ({"x": sparse.csr_matrix([[1.0, 1.0]])}, "ind.toy.x: has another width"),
        ({"x": sparse.csr_matrix(np.ones((4, 3))), "y": np.eye(2)[[0] * 4]}, "ind.toy.x: has 4 rows"),
        ({"y": np.array([[1, 0], [0, 1]])}, "ind.toy.y: has 2 rows; expected 1, as x"),
        ({"y": np.array([[1, 1]])}, "ind.toy.y: has a row that is not one-hot"),
        ({"y": np.array([[2, 0]])}, "ind.toy.y: has a row that is not one-hot"),
        ({"y": np.array([1])}, "ind.toy.y: holds ndarray"),
        ({"ty": np.array([[0, 1]])}, "ind.toy.ty: has 1 rows; expected 2, as tx"),
        ({"graph": [1]}, "ind.toy.graph: holds list"),
        ({"graph": {0: 1}}, "ind.toy.graph: holds dict"),
        ({"graph": {"a": [1]}}, "ind.toy.graph: has a node that is not an integer"),
        ({"graph": {0: [6]}}, "edges: has the node 6; expected nodes in 0..5"),
    ],
)
def test_a_malformed_set_is_refused_in_one_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load(written(tmp_path, parts() | change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("5\nx\n", "has a line that is not an integer"),
        ("", "is empty"),
        ("5\n5\n", "names a node twice"),
        ("5\n", "names 1 nodes; expected the 2 of tx"),
        ("2\n5\n", "spans 2..5; expected test nodes from 3 up"),
        ("3\n99999999999\n", "spans"),
    ],
)
def test_a_malformed_index_is_refused(tmp_path: Path, index: str, message: str) -> None:
    with pytest.raises(InputError, match=f"ind.toy.test.index: .*{message}"):
        load(written(tmp_path, parts(), index))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    spec = written(tmp_path, parts())
    (tmp_path / "ind.toy.ty").unlink()
    with pytest.raises(InputError, match=r"ind.toy.ty: cannot be read \(No such file"):
        load(spec)


@pytest.mark.skipif(FOLDER is None, reason="ATOLL_PLANETOID names no folder with ind.cora.*")
def test_cora_has_its_published_sizes() -> None:
    graph = load(f"planetoid:{FOLDER}/cora")
    assert (graph.nodes, graph.edge_count, graph.feature_count, graph.classes) == (2708, 10556, 1433, 7)
    assert (graph.train.sum(), graph.validation.sum(), graph.test.sum()) == (140, 500, 1000)
    assert np.bincount(graph.labels[graph.train]).tolist() == [20] * 7
    assert graph.features.nnz == 49216
    np.testing.assert_allclose(graph.features.sum(axis=1), 1, rtol=1e-5)
    ends = graph.labels[graph.edges] == graph.labels[graph.destinations]
    assert ends.mean() > 0.8
