"""`atoll configs`: the named configurations, and every key of one with its value, default, range and meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from functools import reduce
from types import NoneType
from typing import Any, NamedTuple, get_args

from contracts.parameters import RANGE
from hw.config import MachineConfig
from hw.dnp.machine import ArrayConfig
from scripts.config import CONFIGS, KINDS, Key, array_keys, array_names, keys_of, load_array, load_machine, names
from scripts.docstrings import meanings
from scripts.flows.table import show

__all__ = ["Row", "list_configs", "list_keys", "markdown", "rows"]

#: Text above the tables of the documents' page.
_PAGE = """# Keys of a configuration

A configuration is a TOML file: one of `configs/`, by its name, or one of yours, by its path. It sets sizes of the
hardware by section and key; a key that is left out has its default. `atoll configs` lists the named configurations,
`atoll configs NAME` prints the keys of one, with its values and the ranges that these leave to each other, and
`atoll configs --markdown` this page.

- `pe`, outside of sections, selects the kind of PEs: `"gather"`, the default, or `"community"`.
- A machine has a neural unit or an attribute core if the file has a section `neural` or `attributes`, empty or not.
- `[ring] chiplets` is the number of chiplets unless `--chiplets` says otherwise.
- A section `[ring.SECTION]` changes keys of another section for chiplets on a ring, so that one file describes a
  chiplet alone and a ring of smaller ones:

```toml
[chiplet]
groups = 2
pes = 2

[ring]
chiplets = 4
link_width = 128

[ring.chiplet]
groups = 1
pes = 1
```

Older files have `groups`, `pes`, `units`, `hubs` and, for `locator`, `nodes` in `[ring]` itself, to the same effect.

A parameter that *follows* has no key: the rest of the machine determines it.

A file with a section `array` is that of an array of DNP-IIs, for `atoll generate dnp.machine --config FILE`; it has
the keys of the last table and no others.
"""


class Row(NamedTuple):
    """A key as it is listed, in words."""

    key: str
    value: str
    default: str
    values: str
    meaning: str


def rows(config: MachineConfig | ArrayConfig) -> Iterator[Row]:
    """Yield a row for each parameter of a machine or an array; a part that it does not have has no values."""
    keys = array_keys() if isinstance(config, ArrayConfig) else keys_of(config.chiplet.kind)
    settable = {(key.section, key.name) for key in keys if not key.follows}
    for key in keys:
        if key.follows and (key.section, key.name) in settable:
            # The key sets another parameter, from which this one follows.
            continue
        owner = reduce(lambda part, name: part and getattr(part, name), key.path, config)
        (entry,) = (entry for entry in fields(key.owner) if entry.name == key.name)
        yield Row(
            f"{key.section}.{key.name}",
            _word(getattr(owner, key.name)) if owner else "",
            "" if key.follows else _word(entry.default),
            "follows" if key.follows else _values(key, entry.metadata.get(RANGE), owner or key.owner()),
            meanings(key.owner)[key.name].rstrip("."),
        )


def _word(value: Any) -> str:
    """Return a value as a file has it."""
    if value is None:
        return ""
    return value.name.lower() if isinstance(value, Enum) else str(value).lower()


def _values(key: Key, limits: Any, owner: Any) -> str:
    """Return the values that a key can have, in words."""
    if limits:
        return str(limits.describe(owner)).removeprefix("in ")
    (kind,) = (kind for kind in get_args(key.hint) or (key.hint,) if kind is not NoneType)
    return ", ".join(choice.name.lower() for choice in kind) if issubclass(kind, Enum) else "true or false"


def list_configs() -> None:
    """Print the named configurations."""
    show("configurations", ("name", "PEs", "chiplets", "multipliers", "beside them", "what it is"), _configs())


def _configs() -> Iterator[tuple[Any, ...]]:
    for name in names():
        config = load_machine(name)
        beside = [part for part in ("neural", "attributes") if getattr(config, part)]
        lanes = config.chiplet.lanes * config.chiplets
        yield name, config.chiplet.kind, config.chiplets, f"{lanes:,}", ", ".join(beside), _about(name)
    for name in array_names():
        array = load_array(name)
        yield name, "DNP-II", "", f"{array.rows * array.columns:,}", "", _about(name)


def _about(name: str) -> str:
    """Return the first sentence of the comment that begins a file."""
    comment = []
    for line in (CONFIGS / f"{name}.toml").read_text().splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.strip("# "))
    return " ".join(comment).partition(". ")[0].rstrip(".")


def list_keys(name: str, chiplets: int | None = None) -> None:
    """Print every key of a configuration.

    Parameters
    ----------
    name, chiplets
        As for `scripts.config.load_machine`.

    Raises
    ------
    InputError
        As for `scripts.config.load_machine`.
    """
    if name in array_names():
        show(f"keys of {name}", Row._fields, list(rows(load_array(name))))
        return
    config = load_machine(name, chiplets)
    kind = Row("pe", config.chiplet.kind, "gather", " or ".join(KINDS), "Kind of PEs")
    listed = [row._replace(meaning=row.meaning.replace("`", "")) for row in (kind, *rows(config))]
    show(f"keys of {name}", Row._fields, listed)


def markdown() -> str:
    """Return the page of the documents: defaults, ranges and meanings of the keys of machines and arrays."""
    gather, community = (list(rows(MachineConfig(kind()))) for kind in KINDS.values())
    parts = {
        "Chiplets with gather PEs": [row for row in gather if row not in community],
        "Chiplets with community PEs": [row for row in community if row not in gather],
        "Ring, neural unit and attribute core": [row for row in gather if row in community],
        "Arrays of DNP-IIs": list(rows(ArrayConfig())),
    }
    head = "| key | default | values | meaning |\n|---|---|---|---|\n"
    tables = (f"\n## {title}\n\n{head}{''.join(map(_line, listed))}" for title, listed in parts.items())
    return _PAGE + "".join(tables)


def _line(row: Row) -> str:
    section, _, key = row.key.partition(".")
    return f"| `[{section}] {key}` | {row.default} | {row.values} | {row.meaning.replace('``', '`')} |\n"
