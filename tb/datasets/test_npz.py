import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.errors import InputError
from golden.datasets import load


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


def test_weights_follow_their_edges(tmp_path: Path) -> None:
    graph = load(saved(tmp_path, parts() | {"edge_weight": np.array([0.5, 2, -1, 4])}))
    assert graph.edge_weight is not None
    assert (graph.edges.tolist(), graph.edge_weight.tolist()) == ([1, 0, 2], [2, 0.5, 4])
    assert graph.notes == ("mine: 1 self loops with their weights are dropped; a layer counts the node itself",)


@pytest.mark.parametrize("columns", [(), (1,), (2,)])
def test_attributes_follow_their_edges(tmp_path: Path, columns: tuple[int, ...]) -> None:
    given = np.arange(4 * (columns or (1,))[0]).reshape(4, *columns)
    graph = load(saved(tmp_path, parts() | {"edge_attr": given}))
    assert graph.edge_attributes is not None
    assert graph.edges.tolist() == [1, 0, 2]
    assert graph.edge_attributes.tolist() == given.reshape(4, -1)[[1, 0, 3]].tolist()


@pytest.mark.parametrize("thin", [False, True])
def test_a_batch_has_a_graph_vertex_for_every_small_graph(tmp_path: Path, thin: bool) -> None:
    content = parts() | {"edge_index": np.array([[0, 2], [2, 0]]), "batch": np.array([0, 1, 0]), "y": np.array([3, 1])}
    if thin:
        content["x"] = np.eye(3)
    graph = load(saved(tmp_path, content | {"train_mask": np.array([True, False])}))
    assert graph.graph_of is not None
    assert graph.graph_of.tolist() == [3, 4, 3, -1, -1]
    assert (graph.labels.tolist(), graph.classes) == ([-1, -1, -1, 3, 1], 4)
    assert graph.train.tolist() == [False] * 3 + [True, False]
    assert not graph.test.any()
    features = graph.features.toarray() if thin else graph.features
    assert features.tolist() == [*content["x"].tolist(), *[[0.0] * content["x"].shape[1]] * 2]


def test_a_batch_is_split_by_graphs_and_may_lack_classes(tmp_path: Path) -> None:
    content = {"edge_index": np.zeros((2, 0), int), "x": np.ones((20, 1)), "batch": np.arange(20) // 2}
    graph = load(saved(tmp_path, content | {"y": np.arange(10) % 2}))
    assert (graph.train.sum(), graph.validation.sum(), graph.test.sum()) == (6, 2, 2)
    assert not (graph.train | graph.validation | graph.test)[:20].any()
    graph = load(saved(tmp_path, content))
    assert (graph.classes, graph.labels.max(), graph.graph_vertices.size) == (0, -1, 10)


NAN = np.array([[1.0, np.nan]] * 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_weight": np.ones((4, 1))}, r"edge_weight: is float64 \[4, 1\]; expected numbers \[4\]"),
        ({"edge_weight": np.ones(3)}, r"edge_weight: is float64 \[3\]"),
        ({"edge_weight": np.array(["a"] * 4)}, "edge_weight: is <U1"),
        ({"edge_weight": np.array([1, 1, 1, np.inf])}, "edge_weight: has a value that is not finite"),
        ({"edge_weight": np.full(4, 1e300)}, "edge_weight: has a value that is not finite"),
        ({"edge_attr": np.ones(3)}, r"edge_attr: is float64 \[3\]; expected numbers \[4, d\]"),
        ({"edge_attr": np.ones((4, 0))}, r"edge_attr: is float64 \[4, 0\]"),
        ({"edge_attr": np.ones((4, 1, 1))}, r"edge_attr: is float64 \[4, 1, 1\]"),
        ({"edge_attr": np.full((4, 2), np.nan)}, "edge_attr: has a value that is not finite; expected finite numbers"),
        ({"edge_index": np.array([[0, 1], [1, 0], [2, 1]])}, r"edge_index: is int64 \[3, 2\]; expected integers \[2, "),
        ({"batch": np.zeros(2, int)}, r"batch: is int64 \[2\]; expected integers \[3\]"),
        ({"batch": np.zeros((3, 1), int)}, r"batch: is int64 \[3, 1\]"),
        ({"batch": np.zeros(3)}, "batch: is float64"),
        ({"batch": np.array([0, 0, 3])}, r"batch: has the graph 3; expected graphs in 0\.\.2"),
        ({"batch": np.array([0, 0, -1])}, "batch: has the graph -1"),
        ({"batch": np.array([0, 0, 1 << 63], dtype=np.uint64)}, "batch: has the graph 9223372036854775808"),
        ({"batch": np.array([0, 0, 2])}, "batch: has no node of graph 1; expected at least one node of every graph"),
        ({"batch": np.zeros(3, int)}, r"y: is int64 \[3\]; expected integers \[1\], one a graph of the batch"),
        ({"batch": np.zeros(3, int), "y": np.ones(1)}, "y: is float64"),
        ({"batch": np.zeros(3, int), "y": np.ones(1, int), "val_mask": np.ones(3, bool)}, r"expected bool \[1\]"),
        ({"batch": np.array([0, 0, 1]), "y": np.ones(2, int)}, "edges: 1 -> 2 joins|edges: 2 -> 1 joins two small"),
        (
            {"batch": np.zeros(3, int), "y": np.ones(1, int), "edge_index": np.array([[0], [3]])},
            r"edges: has the node 3; expected nodes in 0\.\.2",
        ),
        ({"train_maks": np.ones(3)}, "has an array train_maks, perhaps train_mask; expected only edge_index, x, y"),
        ({"x": None}, "has no x; expected arrays edge_index, x"),
        ({"edge_index": np.array([[0, 1]])}, r"edge_index: is int64 \[1, 2\]; expected integers \[2, edges\]"),
        ({"edge_index": np.array([[0.0], [1.0]])}, "edge_index: is float64"),
        ({"edge_index": np.array([[0], [3]])}, "edges: has the node 3; expected nodes in 0..2"),
        ({"edge_index": np.array([[0], [-1]])}, "edges: has the node -1"),
        ({"x": np.ones(3)}, r"x: is float64 \[3\]; expected numbers \[nodes, f\]"),
        ({"x": np.array([["a", "b"]] * 3)}, "x: is <U1"),
        ({"x": np.ones((3, 2), dtype=object)}, "x: holds Python objects; expected an array of numbers"),
        ({"x": NAN}, "x: has a value that is not finite"),
        ({"x": np.full((3, 2), 1e300)}, "has a value that is not finite"),
        ({"y": np.array([0.0, 1, 1])}, r"y: is float64 \[3\]; expected integers \[3\]"),
        ({"y": np.array([0, 1])}, r"y: is int64 \[2\]"),
        ({"y": np.array([0, 1, -2])}, "labels: has the class -2"),
        ({"y": np.array([0, 1, 1 << 40])}, "y: has the class 1099511627776; expected classes below 65,535"),
        ({"y": np.array([0, 1, (1 << 64) - 1], dtype=np.uint64)}, "y: has the class 18446744073709551615"),
        ({"edge_index": np.array([[0], [1 << 63]], dtype=np.uint64)}, "edges: has the node 9223372036854775808"),
        ({"x": np.ones((3, 0))}, "has 0 features; expected 1..65,536"),
        ({"x": np.ones((3, 65537), dtype=np.int8)}, "has 65,537 features"),
        ({"x": np.ones((0, 2)), "y": np.ones(0, int), "edge_index": np.zeros((2, 0), int)}, "has no nodes"),
        ({"train_mask": np.array([1, 0, 1])}, r"train_mask: is int64 \[3\]; expected bool \[3\]"),
        ({"train_mask": np.ones(3, bool), "val_mask": np.ones(3, bool)}, "split: puts a node into two parts"),
    ],
)
def test_a_malformed_archive_is_refused_in_one_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    content = {name: value for name, value in (parts() | change).items() if value is not None}
    with pytest.raises(InputError, match=message) as caught:
        load(saved(tmp_path, content))
    assert "\n" not in str(caught.value)


SAFETENSORS = (2).to_bytes(8, "little") + b"{}"
LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02."


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty"),
        (b"a,b\n1,2\n", "is text"),
        (SAFETENSORS, "is a safetensors file"),
        (LEGACY, "is a PyTorch file"),
        (b"\x80\x04.", "is a pickle"),
        (b"\x89HDF\r\n", "is an HDF5 file"),
        (b"\0\1\2", "is no archive"),
        (b"PK\x03\x04broken", "cannot be used"),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path: Path, data: bytes, what: str) -> None:
    (tmp_path / "bad.npz").write_bytes(data)
    with pytest.raises(
        InputError, match=f"bad.npz: {what}.*; expected an .npz archive of edge_index, x, y; docs/datas"
    ):
        load(f"npz:{tmp_path}/bad.npz")


def test_a_file_of_pytorch_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "data.pt", "w") as archive:
        archive.writestr("data/data.pkl", b"")
    with pytest.raises(InputError, match=r"data.pt: is a PyTorch file; expected an .npz archive"):
        load(f"npz:{tmp_path}/data.pt")


def test_members_that_are_no_arrays_or_there_twice_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("notes.txt", b"")
    with pytest.raises(InputError, match=r"has a member notes.txt that is no array"):
        load(f"npz:{tmp_path}/a.npz")
    buffer = io.BytesIO()
    np.save(buffer, np.ones(1))
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("x.npy", buffer.getvalue())
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("x.npy", buffer.getvalue())
    with pytest.raises(InputError, match=r"has a member x.npy twice"):
        load(f"npz:{tmp_path}/b.npz")


def test_a_header_that_promises_more_than_there_is_allocates_nothing(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 64)})
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    with pytest.raises(
        InputError, match=r"x: is float64 \[1099511627776, 64\] in 0 bytes; expected 562,949,953,421,312"
    ):
        load(f"npz:{tmp_path}/bomb.npz")


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("golden.datasets.archive.CONTENT_MAX", 100)
    with pytest.raises(InputError, match=r"holds [\d,]+ bytes; expected arrays of at most 100 bytes in all"):
        load(saved(tmp_path, parts()))


def test_a_device_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="/dev/zero: is a pipe or device, not a regular file"):
        load("npz:/dev/zero")
    with pytest.raises(InputError, match="is no path"):
        load("npz:a\0b")


@pytest.mark.parametrize("kind", [np.float16, np.int8, np.bool_, np.longdouble, ">f4"])
def test_features_of_any_type_of_numbers_are_taken(tmp_path: Path, kind: Any) -> None:
    graph = load(saved(tmp_path, parts() | {"x": np.eye(3).astype(kind)}))
    assert graph.features.dtype == np.float32
    assert np.array_equal(graph.features.toarray(), np.eye(3))


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(InputError, match="is a single array"):
        load(f"npz:{tmp_path}/one.npy")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load(f"npz:{tmp_path}/none.npz")
    with pytest.raises(InputError, match="Is a directory"):
        load(f"npz:{tmp_path}")
