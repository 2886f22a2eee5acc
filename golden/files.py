"""Reading of users' files: regular files of bounded size, or an error of one line."""

import os
import stat
from typing import BinaryIO

from contracts.errors import InputError

__all__ = ["open_file", "read_bytes", "read_text"]

#: Largest file that is read whole, in bytes.
BYTES_MAX = 1 << 32
#: Largest text, in bytes: a configuration or a program.
TEXT_MAX = 1 << 24


def open_file(path: str | os.PathLike[str], expected: str) -> BinaryIO:
    """Open a regular file.

    Parameters
    ----------
    path
        File.
    expected
        Expected contents, for messages.

    Raises
    ------
    InputError
        If there is no such file, it cannot be read, or it is a pipe or device, which could be endless.
    """
    if not os.fspath(path):
        raise InputError("file", "has no name", expected)
    try:
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise InputError(path, "is a pipe or device, not a regular file", expected)
        return open(path, "rb")
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror or error})", expected) from None
    except InputError:
        raise
    except ValueError as error:  # a NUL in the path
        raise InputError(path, f"is no path ({error})", expected) from None


def read_bytes(path: str | os.PathLike[str], expected: str, most: int = BYTES_MAX) -> bytes:
    """Read a file of at most `most` bytes.

    Raises
    ------
    InputError
        As for `open_file`, or if it is larger.
    """
    with open_file(path, expected) as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise InputError(path, f"cannot be read ({error.strerror or error})", expected) from None
    if len(data) > most:
        raise InputError(path, f"is larger than {most:,} bytes", expected)
    return data


def read_text(path: str | os.PathLike[str], expected: str) -> str:
    """Read a text in UTF-8, with or without a byte order mark; line ends become newlines.

    Raises
    ------
    InputError
        As for `read_bytes`, or if it is not such a text.
    """
    data = read_bytes(path, expected, TEXT_MAX)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(path, f"cannot be read as text (byte {error.start} is not UTF-8)", expected) from None
    if "\0" in text:
        raise InputError(
            path, f"cannot be read as text (NUL in line {text.count(chr(10), 0, text.index(chr(0))) + 1})", expected
        )
    return text.replace("\r\n", "\n")
