"""NumPy archives of users: read without unpickling, and with memory bounded by their size."""

import math
import warnings
import zipfile
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import numpy as np

from contracts.errors import InputError
from golden.files import open_file

__all__ = ["CONTENT_MAX", "read_archive"]

#: Most bytes of all arrays of an archive.
CONTENT_MAX = 1 << 32
#: First bytes of other kinds of files.
_MAGIC = {
    b"\x93NUMPY": "is a single array",
    b"\x89HDF": "is an HDF5 file",
    b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.": "is a PyTorch file",
    b"\x80": "is a pickle",
    b"\x1f\x8b": "is a gzip file",
}
_HEAD_BYTES = 512


def read_archive(path: str, expected: str) -> dict[str, Any]:
    """Arrays of a NumPy archive by name.

    Parameters
    ----------
    path
        File.
    expected
        Expected contents, for the message.

    Raises
    ------
    InputError
        If it cannot be read, is another kind of file, is damaged, holds Python objects, or its arrays have more than
        `CONTENT_MAX` bytes.
    """
    expected = f"an .npz archive of {expected}"
    with open_file(path, expected) as file, warnings.catch_warnings():
        # NumPy warns of archives written by Python 2; they are read anyway.
        warnings.simplefilter("ignore")
        try:
            head = file.read(_HEAD_BYTES)
            if not head.startswith(b"PK"):
                raise InputError(path, _kind(head), expected)
            return _arrays(path, file, expected)
        except InputError:
            raise
        except OSError as error:
            raise InputError(path, f"cannot be read ({error.strerror or error})", expected) from None
        except Exception as error:  # a damaged archive can raise anything
            raise InputError(path, f"cannot be used ({error or type(error).__name__})", expected) from None


def _kind(head: bytes) -> str:
    """Return the kind of another file, from its first bytes."""
    if not head:
        return "is empty"
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        return "is a safetensors file"
    try:
        return (
            "is text"
            if head.decode().replace("\n", "").replace("\r", "").replace("\t", "").isprintable()
            else "is no archive"
        )
    except UnicodeDecodeError:
        return "is no archive"


def _arrays(path: str, file: BinaryIO, expected: str) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(PurePosixPath(member.filename).name == "data.pkl" for member in members):
            raise InputError(path, "is a PyTorch file", expected)
        size = sum(member.file_size for member in members)
        if size > CONTENT_MAX:
            raise InputError(path, f"holds {size:,} bytes", f"arrays of at most {CONTENT_MAX:,} bytes in all")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name == member.filename or name in arrays:
                wrong = "twice" if name in arrays else "that is no array"
                raise InputError(path, f"has a member {member.filename} {wrong}", expected)
            arrays[name] = _array(path, name, archive, member)
    return arrays


def _array(path: str, name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    """Read a member if its header matches its size, so that nothing larger is allocated."""
    with archive.open(member) as data:
        version = np.lib.format.read_magic(data)
        if version not in ((1, 0), (2, 0)):
            raise InputError(f"{path}, {name}", f"has format {version[0]}.{version[1]}", "format 1.0 or 2.0")
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(data)
        if dtype.hasobject:
            raise InputError(f"{path}, {name}", "holds Python objects", "an array of numbers or a string")
        promised, found = math.prod(shape) * dtype.itemsize, member.file_size - data.tell()
        if min(shape, default=0) < 0 or promised != found:
            raise InputError(f"{path}, {name}", f"is {dtype} {list(shape)} in {found:,} bytes", f"{promised:,} bytes")
    with archive.open(member) as data:
        return np.lib.format.read_array(data, allow_pickle=False)
