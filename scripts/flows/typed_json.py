"""Dataclasses as JSON, and the JSON schema that follows from their annotations.

The meaning of a field is the text of its `typing.Annotated` type, or that of the class's docstring.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import product
from typing import Any, Union, get_args, get_origin, get_type_hints

from scripts.docstrings import meanings

__all__ = ["INLINE", "plain", "schema_of"]

#: Key of a field's metadata: the keys of its value stand beside those of the object that has the field.
INLINE = "inline"

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", types.NoneType: "null"}


def plain(value: Any) -> Any:
    """Return a dataclass as dictionaries and lists, as they are in JSON."""
    if is_dataclass(value) and not isinstance(value, type):
        made: dict[str, Any] = {}
        for entry in fields(value):
            inside = plain(getattr(value, entry.name))
            made |= inside if entry.metadata.get(INLINE) else {entry.name: inside}
        return made
    if isinstance(value, Mapping):
        return {key: plain(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inside) for inside in value]
    return value.value if isinstance(value, Enum) else value


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON schema (draft 7) of a dataclass.

    Parameters
    ----------
    kind
        Dataclass of numbers, texts, lists, dictionaries and dataclasses. All keys are required.
    """
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_schema(kind)}


def _schema(kind: Any) -> dict[str, Any]:
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(entry) for entry in inside]}
    if origin is list:
        return {"type": "array", "items": _schema(inside[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(inside[1])}
    if is_dataclass(kind):
        kinds = _choices(kind)
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if issubclass(kind, Enum):
        return {"enum": [entry.value for entry in kind]}
    return {"type": _TYPES[kind]}


def _choices(kind: Any) -> list[dict[str, Any]]:
    """Return the schema of an object for each choice of the dataclasses that are inline in it."""
    hints, annotated, said = get_type_hints(kind), get_type_hints(kind, include_extras=True), meanings(kind)
    alternatives = []
    for entry in fields(kind):
        hint = hints[entry.name]
        if entry.metadata.get(INLINE):
            alternatives.append([choice["properties"] for one in get_args(hint) or (hint,) for choice in _choices(one)])
        else:
            meaning = getattr(annotated[entry.name], "__metadata__", (said.get(entry.name),))[0]
            alternatives.append([{entry.name: {**_schema(hint), "description": meaning}}])
    objects = []
    for chosen in product(*alternatives):
        properties = {name: inside for part in chosen for name, inside in part.items()}
        objects.append(
            {
                "type": "object",
                "description": inspect.cleandoc(kind.__doc__ or "").partition("\n")[0],
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }
        )
    return objects
