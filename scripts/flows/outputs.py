"""Folders and files that commands leave: checked before the work, written whole or not at all.

A file appears under its name when it is complete, and several that belong together appear together, also where another
command writes into the same folder. Everything else that a command needs on the way is in a folder of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from contracts.errors import InputError

__all__ = ["checked_file", "checked_folder", "keep", "publishing", "replacing", "scratch", "write"]

#: Begins the names of files and folders that are not meant for the user.
_PREFIX = ".atoll-"
#: In a folder of `scratch`, locked for as long as the command is at work.
_LOCK = "lock"


def checked_folder(path: Path, option: str = "--out") -> Path:
    """Check that a folder for results can be made and written to; afterwards everything is as before.

    Parameters
    ----------
    path
        Folder, which need not exist; `scratch`, `publishing` and `write` make it.
    option
        Option by which the user named it, for the message.

    Raises
    ------
    InputError
        If something else has that name, or nothing can be written there.
    """
    try:
        with _made(path), tempfile.TemporaryFile(prefix=_PREFIX, dir=path):
            pass
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{option} {path}", "there is a file of that name", "a folder, or none yet") from None
    except OSError as error:
        raise InputError(f"{option} {path}", error.strerror or str(error), "a folder that can be written to") from None
    return path


def checked_file(path: Path, option: str = "--out") -> Path:
    """Check that a file can be written, as `checked_folder` does.

    Raises
    ------
    InputError
        If a folder has that name, or the folder that it would be in cannot be used.
    """
    if path.is_dir():
        raise InputError(f"{option} {path}", "there is a folder of that name", "a file, or none yet")
    checked_folder(path.parent, option)
    return path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the name of a file to write, which takes the place of `path` when it is complete.

    Parameters
    ----------
    path
        File in a folder that exists. The other name has the same ending. After an exception `path` is as before.
    """
    fresh = path.with_name(f"{_PREFIX}{os.getpid()}-{path.name}")
    try:
        yield fresh
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def write(path: Path, content: str | bytes) -> None:
    """Write a file as a whole, text in UTF-8; make its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as fresh:
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def publishing(folder: Path) -> Iterator[Path]:
    """Give a folder to write files into, all of which then appear in `folder` together.

    Two commands that end at the same time leave the files of one of them, not some of each. An exception leaves
    `folder` as it was before.
    """
    with scratch(folder) as mine:
        staged = mine / "results"
        staged.mkdir()
        yield staged
        with _alone(folder):
            for path in sorted(staged.iterdir()):
                path.replace(folder / path.name)


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Yield a new folder inside `folder` for temporary files; `folder` is made if it does not exist.

    The new folder is removed at the end, after an exception too, unless `keep` renames it; so is `folder` if it was
    made here and is empty. The next command removes the new folders of commands that were killed.
    """
    with _made(folder):
        with _alone(folder):
            for path in folder.glob(f"{_PREFIX}*"):
                _remove_if_left(path)
            mine = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}run-", dir=folder))
            lock = (mine / _LOCK).open("w")
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with lock:
                yield mine
        finally:
            shutil.rmtree(mine, ignore_errors=True)


def keep(mine: Path, folder: Path) -> Path:
    """Leave a folder of `scratch` as ``failed`` in `folder`, in place of an earlier command's; return its path."""
    kept = folder / "failed"
    with _alone(folder):
        shutil.rmtree(kept, ignore_errors=True)
        mine.rename(kept)
    return kept


def _remove_if_left(path: Path) -> None:
    """Remove a folder of `scratch` whose command is no more."""
    with contextlib.suppress(OSError), (path / _LOCK).open("r") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder and its parents; at the end, remove those that did not exist before and are empty."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        with contextlib.suppress(OSError):
            for path in missing:
                path.rmdir()


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
