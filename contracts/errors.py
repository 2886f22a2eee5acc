"""The error that bad input raises; commands turn it into one line and exit status 2."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["InputError", "nearest", "one_line", "unknown"]

#: Longest name that is compared with others.
_NAME_MAX = 80


class InputError(ValueError):
    """Input that cannot be used.

    Parameters
    ----------
    where
        Place that the user named: a file, a data set, a field.
    what
        Fault of it, with the offending value.
    expected
        Input that is accepted.
    """

    def __init__(self, where: object, what: str, expected: str) -> None:
        super().__init__(where, what, expected)
        self.where = str(where)
        self.what = what
        self.expected = expected

    def __str__(self) -> str:
        return f"{one_line(self.where)}: {one_line(self.what)}; expected {one_line(self.expected)}"


def one_line(text: str, most: int = 2000) -> str:
    """Return a text as one line that a terminal can show: white space is a blank, other control characters are escaped.

    Parameters
    ----------
    text
        From a file or from the user; of any length.
    most
        Characters that are kept.
    """
    flat = " ".join(text[: most + 1].split())
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in flat)
    return shown if len(text) <= most else f"{shown[:most]}..."


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``, perhaps NAME or NAME`` with the known names that a name may have been meant for; else nothing.

    Parameters
    ----------
    name
        Name as the user wrote it.
    known
        Names that exist. Case does not matter.
    """
    by_case = {entry.lower(): entry for entry in known}
    low = name[:_NAME_MAX].lower()
    parts = [entry for entry in by_case if low in re.split(r"[.:]", entry)]
    near = parts or get_close_matches(low, by_case, n=3)
    return f", perhaps {' or '.join(by_case[entry] for entry in near[:3])}" if near else ""


def unknown(where: object, name: str, known: Iterable[str], expected: str | None = None) -> InputError:
    """Return the error for a name that does not exist, with the nearest names that do.

    Parameters
    ----------
    where
        Kind of thing that the name stands for.
    name
        Name as the user wrote it.
    known
        Names that exist.
    expected
        Input that is accepted; default: one of the known names.
    """
    known = list(known)
    return InputError(where, f"there is no {name!r}{nearest(name, known)}", expected or f"one of {', '.join(known)}")
