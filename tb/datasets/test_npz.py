from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.datasets import load
from golden.errors import InputError


def parts() -> dict[str, Any]:
    return {
        "edge_index": np.array([[0, 1, 2, 2], [1, 0, 2, 1]]),
        "x": np.array([[1.5, 2], [0, 3], [4, 5]]),
        "y": np.array([0, 1, 1]),
    }


def saved(folder: Path, content: dict[str, Any]) -> str:
    np.savez(folder / "mine.npz", **content)
    return f"npz:{folder}/mine.npz"


def test_an_archive_is_a_graph(tmp_path: Path) -> None:
    graph = load(saved(tmp_path, parts()))
    assert (graph.name, graph.classes) == ("mine", 2)
    assert (graph.offsets.tolist(), graph.edges.tolist()) == ([0, 1, 3, 3], [1, 0, 2])
    assert graph.features.tolist() == parts()["x"].tolist()
    assert (graph.train | graph.validation | graph.test).all()


def test_masks_are_taken_and_absent_ones_empty(tmp_path: Path) -> None:
    graph = load(saved(tmp_path, parts() | {"test_mask": np.array([True, False, True])}))
    assert graph.test.tolist() == [True, False, True]
    assert not graph.train.any()


def test_without_classes_all_are_unknown(tmp_path: Path) -> None:
    whole = parts()
    del whole["y"]
    graph = load(saved(tmp_path, whole))
    assert (graph.labels.tolist(), graph.classes) == ([-1] * 3, 0)
    assert not (graph.train | graph.validation | graph.test).any()


def test_thin_features_become_sparse(tmp_path: Path) -> None:
    graph = load(saved(tmp_path, parts() | {"x": np.eye(3)}))
    assert graph.features.nnz == 3


NAN = np.array([[1.0, np.nan]] * 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_weight": np.ones(4)}, "edge_weight: the graph has edge weights"),
        ({"edge_attr": np.ones(4)}, "edge_attr: the graph has edge weights"),
        ({"train_maks": np.ones(3)}, "has an array train_maks; expected only edge_index, x, y"),
        ({"x": None}, "has no x; expected arrays edge_index, x"),
        ({"edge_index": np.array([[0, 1]])}, r"edge_index: is int64 \[1, 2\]; expected integers \[2, edges\]"),
        ({"edge_index": np.array([[0.0], [1.0]])}, "edge_index: is float64"),
        ({"edge_index": np.array([[0], [3]])}, "edges: has the node 3; expected nodes in 0..2"),
        ({"edge_index": np.array([[0], [-1]])}, "edges: has the node -1"),
        ({"x": np.ones(3)}, r"x: is float64 \[3\]; expected numbers \[nodes, f\]"),
        ({"x": np.array([["a", "b"]] * 3)}, "x: is <U1"),
        ({"x": np.ones((3, 2), dtype=object)}, "cannot be used .*allow_pickle"),
        ({"x": NAN}, "x: has a value that is not finite"),
        ({"x": np.full((3, 2), 1e300)}, "has a value that is not finite"),
        ({"y": np.array([0.0, 1, 1])}, r"y: is float64 \[3\]; expected integers \[3\]"),
        ({"y": np.array([0, 1])}, r"y: is int64 \[2\]"),
        ({"y": np.array([0, 1, -2])}, "labels: has the class -2"),
        ({"train_mask": np.array([1, 0, 1])}, r"train_mask: is int64 \[3\]; expected bool \[3\]"),
        ({"train_mask": np.ones(3, bool), "val_mask": np.ones(3, bool)}, "split: puts a node into two parts"),
    ],
)
def test_a_malformed_archive_is_refused_in_one_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    content = {name: value for name, value in (parts() | change).items() if value is not None}
    with pytest.raises(InputError, match=message) as caught:
        load(saved(tmp_path, content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"text", b"PK\x03\x04broken"])
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bad.npz").write_bytes(data)
    with pytest.raises(InputError, match=r"bad.npz: cannot be (used|read)"):
        load(f"npz:{tmp_path}/bad.npz")


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(InputError, match="is a single array"):
        load(f"npz:{tmp_path}/one.npy")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load(f"npz:{tmp_path}/none.npz")
    with pytest.raises(InputError, match="Is a directory"):
        load(f"npz:{tmp_path}")
