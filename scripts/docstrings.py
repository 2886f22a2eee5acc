"""Meanings of a dataclass's fields, from the sections of its docstring."""

from __future__ import annotations

import inspect
import re

__all__ = ["meanings"]

_SECTIONS = ("Parameters", "Attributes")


def meanings(kind: type) -> dict[str, str]:
    """Return the meaning of each field by its name, as the class and its bases describe it.

    Parameters
    ----------
    kind
        Dataclass with a numpydoc section *Parameters* or *Attributes*. A term may name several fields.
    """
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        lines = inspect.cleandoc(base.__doc__ or "").splitlines()
        section, names = "", list[str]()
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            if following and set(following) == {"-"}:
                section, names = line, []
            elif section in _SECTIONS and line and not line.startswith((" ", "-")):
                names = [name.strip() for name in re.split(r"\s:", line)[0].split(",")]
                found |= dict.fromkeys(names, "")
            elif section in _SECTIONS and line.strip("- "):
                found |= {name: f"{found[name]} {line.strip()}".strip() for name in names}
    return found
