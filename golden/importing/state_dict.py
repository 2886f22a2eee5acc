"""State dicts of PyTorch: named arrays from a `.safetensors` or `.pt` file, without running anything in it."""

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import safetensors

from contracts.errors import InputError
from golden.files import open_file, read_bytes

__all__ = ["StateDict", "is_state_dict", "read_state_dict"]

_HOW = "save_file(net.state_dict(), 'net.safetensors') of safetensors.torch"
_EXPECTED = f"a state dict of PyTorch, written by {_HOW}"
#: Keys under which training loops keep a state dict beside an optimiser's.
_NESTED = ("state_dict", "model_state_dict", "model", "net")
#: NumPy types of the numbers in a safetensors file; bfloat16 is the upper half of a float32.
_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


class StateDict(NamedTuple):
    """Arrays of a trained network.

    Attributes
    ----------
    arrays
        By name, each of a real type: ``conv1.lin.weight`` and so on.
    in_order
        Whether the arrays stand in the order in which the network's modules were defined. A safetensors file has none;
        its arrays are sorted by name.
    """

    arrays: Mapping[str, npt.NDArray[Any]]
    in_order: bool


def is_state_dict(path: str) -> bool:
    """Return whether a file has the suffix of a state dict.

    Parameters
    ----------
    path
        File, which need not exist.
    """
    return Path(path).suffix.lower() in _READERS


def read_state_dict(path: str) -> StateDict:
    """Read a state dict.

    Parameters
    ----------
    path
        ``.safetensors``, or ``.pt`` or ``.pth`` where PyTorch is installed.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged, holds something else than tensors of real numbers, or needs PyTorch and
        there is none.
    """
    reader = _READERS.get(Path(path).suffix.lower())
    if reader is None:
        raise InputError(path, "has another suffix", f"{', '.join(_READERS)}: {_EXPECTED}")
    found = reader(path)
    if not found.arrays:
        raise InputError(path, "has no tensors", _EXPECTED)
    return found


def _read_safetensors(path: str) -> StateDict:
    data = read_bytes(path, _EXPECTED)
    try:
        members = safetensors.deserialize(data)
    except Exception as error:  # a damaged file can raise anything
        raise InputError(path, f"cannot be used ({error})", _EXPECTED) from None
    arrays = {}
    for name, member in sorted(members, key=lambda member: member[0]):
        kind = member["dtype"]
        if kind not in _TYPES:
            raise InputError(f"{path}, {name}", f"is {kind}", f"one of {', '.join(_TYPES)}")
        array = np.frombuffer(member["data"], _TYPES[kind]).reshape(member["shape"])
        arrays[name] = (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array
    return StateDict(arrays, in_order=False)


def _read_torch(path: str) -> StateDict:
    open_file(path, _EXPECTED).close()
    if importlib.util.find_spec("torch") is None:
        raise InputError(path, "needs PyTorch, which is not installed", f"{_HOW}, or pip install '.[torch]'")
    torch: Any = importlib.import_module("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file can raise anything
            what = "holds a whole module or other Python objects" if "weights_only" in str(error) else "cannot be used"
            raise InputError(path, f"{what} ({type(error).__name__})", f"net.state_dict(): {_EXPECTED}") from None
    arrays = {}
    for name, tensor in _tensors(path, content, torch.Tensor).items():
        if not isinstance(name, str):
            raise InputError(path, f"has the key {name!r}", "names of tensors")
        if tensor.layout != torch.strided or tensor.is_complex() or tensor.is_quantized:
            raise InputError(f"{path}, {name}", "is sparse, complex or quantised", "a dense tensor of real numbers")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays[name] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).detach().numpy()
    return StateDict(arrays, in_order=True)


def _tensors(path: str, content: Any, tensor: type) -> Mapping[Any, Any]:
    """Return the state dict of a file, which may be one beside an optimiser's."""
    candidates = [content]
    if isinstance(content, Mapping):
        candidates += [content[key] for key in _NESTED if key in content]
    for found in candidates:
        if isinstance(found, Mapping) and found and all(isinstance(value, tensor) for value in found.values()):
            return found
    raise InputError(path, f"holds a {type(content).__name__} that is no state dict", f"net.state_dict(): {_EXPECTED}")


_READERS: Mapping[str, Callable[[str], StateDict]] = {
    ".safetensors": _read_safetensors,
    ".pt": _read_torch,
    ".pth": _read_torch,
}
