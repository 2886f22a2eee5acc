import importlib.util
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.errors import InputError
from golden.importing.state_dict import is_state_dict, read_state_dict
from tb.importing.state_dicts import gcn, saved


def raw(folder: Path, kind: str, shape: list[int], data: bytes) -> str:
    header = json.dumps({"x": {"dtype": kind, "shape": shape, "data_offsets": [0, len(data)]}}).encode()
    path = folder / "raw.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return str(path)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int64, np.uint8, np.bool_])
def test_arrays_keep_name_shape_type_and_values(tmp_path: Path, kind: Any) -> None:
    arrays = {"b": np.arange(6).reshape(2, 3).astype(kind), "a": np.array(1, kind)}
    found = read_state_dict(saved(tmp_path, arrays))
    assert not found.in_order
    assert set(found.arrays) == set(arrays)
    for name, array in arrays.items():
        assert found.arrays[name].dtype == kind
        np.testing.assert_array_equal(found.arrays[name], array)


def test_bfloat16_becomes_float32(tmp_path: Path) -> None:
    values = np.array([1.5, -3.0, 0.0078125], np.float32)
    halves = (values.view(np.uint32) >> 16).astype("<u2")
    found = read_state_dict(raw(tmp_path, "BF16", [3], halves.tobytes())).arrays["x"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, values)


def test_a_type_that_numpy_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"raw\.safetensors, x: is F8_E5M2; expected one of F64, F32"):
        read_state_dict(raw(tmp_path, "F8_E5M2", [3], b"abc"))


@pytest.mark.parametrize("data", [b"", b"PK\3\4", b"\xff" * 99, struct.pack("<Q", 1 << 40) + b"{}"])
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "net.safetensors").write_bytes(data)
    with pytest.raises(InputError, match=r"net.safetensors: cannot be used \(.*; expected a state dict") as refused:
        read_state_dict(str(tmp_path / "net.safetensors"))
    assert "\n" not in str(refused.value)


def test_files_without_tensors_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"net\.safetensors: has no tensors"):
        read_state_dict(saved(tmp_path, {}))
    for name in ("gone.safetensors", "gone.pt"):
        with pytest.raises(InputError, match=f"{name}: cannot be read"):
            read_state_dict(str(tmp_path / name))


def test_the_suffix_says_what_a_file_is(tmp_path: Path) -> None:
    assert all(is_state_dict(name) for name in ("a.safetensors", "a.pt", "a.PTH"))
    assert not any(is_state_dict(name) for name in ("a.npz", "pt", "a.pt.npz"))
    with pytest.raises(InputError, match=r"net\.bin: has another suffix; expected \.safetensors, \.pt"):
        read_state_dict(str(tmp_path / "net.bin"))


def test_a_file_of_pytorch_needs_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.pt").write_bytes(b"PK\3\4")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    with pytest.raises(
        InputError, match=r"net.pt: needs PyTorch, which is not installed; expected save_file\(.*torch"
    ) as refused:
        read_state_dict(str(tmp_path / "net.pt"))
    assert "pip install '.[torch]'" in str(refused.value)


def test_names_are_those_of_the_modules(tmp_path: Path) -> None:
    assert set(read_state_dict(saved(tmp_path, gcn("conv1", 3, 2))).arrays) == {"conv1.bias", "conv1.lin.weight"}
