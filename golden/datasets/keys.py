"""Keys of a synthetic graph: ``key=value,...``, checked against a dataclass of defaults and their ranges."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from contracts.errors import InputError, nearest

__all__ = ["read_keys"]


def read_keys(
    where: str, settings: Sequence[str], options: type[Any], limits: Mapping[str, tuple[float, float]]
) -> dict[str, Any]:
    """Read the keys that are given.

    Parameters
    ----------
    where
        Name of the graph, for messages.
    settings
        ``key=value`` each.
    options
        Dataclass whose fields, int or float, are the keys.
    limits
        Smallest and largest value of each.

    Raises
    ------
    InputError
        If a key does not exist or is there twice, or a value is no number in its range.
    """
    known = {field.name: int if field.type is int else float for field in fields(options)}
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or key not in known or key in values:
            wrong = (
                "twice" if key in values else f"is not a key with a value{'' if key in known else nearest(key, known)}"
            )
            raise InputError(where, f"{setting!r} {wrong}", f"key=value with one of {', '.join(known)}")
        low, high = limits[key]
        try:
            value = known[key](text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            whole = "an integer" if known[key] is int else "a number"
            raise InputError(f"{where}, {key}", f"is {text!r}", f"{whole} in {low:,}..{high:,}")
        values[key] = value
    return values
