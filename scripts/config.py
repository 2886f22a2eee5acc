"""Named configurations: TOML files with the sizes of a machine, or of an array of DNP-IIs.

A file has a section for each part of `hw.config.MachineConfig` and a key for each parameter; ``pe`` selects the kind of
PEs. A section ``[ring.SECTION]`` changes keys of a section for chiplets on a ring. A file with a section ``array`` has
the sections and keys of `hw.dnp.machine.ArrayConfig` instead.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from contracts.errors import InputError, nearest
from contracts.parameters import FLAT, FOLLOWS, SECTION
from golden.files import read_text
from golden.ring.placement import CHIPLETS_MAX
from hw.attributes.formats import AttributeConfig
from hw.chiplet.config import GatherChipletConfig
from hw.community.config import CommunityChipletConfig
from hw.community.formats import CommunityConfig
from hw.config import MachineConfig
from hw.dnp.machine import ArrayConfig
from hw.ring.formats import RingConfig

__all__ = ["CONFIGS", "KINDS", "Key", "array_keys", "array_names", "keys_of", "load_array", "load_machine", "names"]

#: Folder of the named configurations.
CONFIGS = Path(__file__).resolve().parents[1] / "configs"
#: Configurations of a chiplet by the value of the key ``pe``.
KINDS: dict[str, Any] = {kind.kind: kind for kind in (GatherChipletConfig, CommunityChipletConfig)}
#: Section that a file of an array has, and no file of a machine.
_ARRAY = "array"
#: Older keys of section ``ring``, each with the section of the key that it changes on a ring.
_OLDER = {"groups": "chiplet", "pes": "chiplet", "units": "chiplet", "hubs": "chiplet", "nodes": "locator"}

_Values = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Key:
    """A parameter, as a file names it.

    Attributes
    ----------
    section, name
        Its section and its key.
    owner, path
        Dataclass that it is a field of, and the fields that lead from a `MachineConfig` to it.
    hint
        Its type.
    follows
        Whether it follows from the rest of a machine, so that a file does not set it.
    """

    section: str
    name: str
    owner: type
    path: tuple[str, ...]
    hint: Any
    follows: bool


def names() -> list[str]:
    """Return the names of the configurations of machines that come with the project."""
    return _names(of_arrays=False)


def array_names() -> list[str]:
    """Return the names of the configurations of arrays of DNP-IIs that come with the project."""
    return _names(of_arrays=True)


@cache
def _names(*, of_arrays: bool) -> list[str]:
    files = sorted(CONFIGS.glob("*.toml"))
    return [path.stem for path in files if (_ARRAY in tomllib.loads(path.read_text())) == of_arrays]


def keys_of(pe: str) -> list[Key]:
    """Return the parameters of a machine with PEs of a kind of `KINDS`, section by section."""
    order = [entry.name for entry in fields(MachineConfig)]
    keys = _keys(MachineConfig, KINDS[pe], "", (), ())
    return sorted(keys, key=lambda key: (order.index((*key.path, key.section)[0]), len(key.path)))


def array_keys() -> list[Key]:
    """Return the parameters of an array of DNP-IIs, section by section."""
    return list(_keys(ArrayConfig, ArrayConfig, _ARRAY, (), ()))


def _keys(kind: type, chiplet: type, section: str, path: tuple[str, ...], follows: tuple[str, ...]) -> Iterator[Key]:
    hints = get_type_hints(kind)
    for entry in fields(kind):
        part, more = _part(hints[entry.name], chiplet), entry.metadata
        if part is None:
            within = more.get(SECTION, section)
            yield Key(within, entry.name, kind, path, hints[entry.name], entry.name in follows)
        else:
            within = section if more[FLAT] else entry.name
            yield from _keys(part, chiplet, within, (*path, entry.name), more[FOLLOWS])


def _part(hint: Any, chiplet: type) -> Any:
    """Return the dataclass that a field holds, that of the chiplet among several; None: the field is a parameter."""
    kinds = [kind for kind in get_args(hint) or (hint,) if is_dataclass(kind)]
    return chiplet if chiplet in kinds else kinds[0] if kinds else None


def load_machine(name: str, chiplets: int | None = None) -> MachineConfig:
    """Read the configuration of a machine.

    Parameters
    ----------
    name
        Name of a file in `CONFIGS` without its ending, or a path.
    chiplets
        Number of chiplets; default: as many as the file says.

    Raises
    ------
    InputError
        If there is no such file, it is not TOML, it has an unknown section or key, or a value is out of range.
    """
    path, table = _read(name, names())
    pe = table.pop("pe") if isinstance(table.get("pe"), str) else "gather"
    if pe not in KINDS:
        raise InputError(f"{path}, pe", f"is {pe!r}", " or ".join(f'"{kind}"' for kind in KINDS))
    known: dict[str, dict[str, Key]] = {}
    for key in keys_of(pe):
        known.setdefault(key.section, {}).update({} if key.follows else {key.name: key})
    changes = _changes(table.get("ring"), known)
    values = {section: _section(path, section, section, table, known) for section in table}
    changes = {section: _section(path, f"ring.{section}", section, changes, known) for section in changes}
    count = values.get("ring", {}).pop("chiplets", 1)
    count = chiplets or count
    if not 1 <= count <= CHIPLETS_MAX:
        fault = f"chiplets must be in 1..{CHIPLETS_MAX}, not {count}"
        raise InputError(f"{path}, ring", fault, "a value in that range")
    if count > 1:
        for section, inside in changes.items():
            values[section] = {**values.get(section, {}), **inside}
    return _Builder(path, values).machine(KINDS[pe], count)


def load_array(name: str) -> ArrayConfig:
    """Read the configuration of an array of DNP-IIs.

    Parameters
    ----------
    name
        Name of a file in `CONFIGS` without its ending, or a path.

    Raises
    ------
    InputError
        As for `load_machine`.
    """
    path, table = _read(name, array_names())
    known: dict[str, dict[str, Key]] = {}
    for key in array_keys():
        known.setdefault(key.section, {})[key.name] = key
    values = {section: _section(path, section, section, table, known) for section in table}
    found: ArrayConfig = _Builder(path, values).part(ArrayConfig, _ARRAY, {})
    return found


def _changes(ring: Any, known: Mapping[str, Mapping[str, Key]]) -> dict[str, Any]:
    """Remove from section ``ring`` the sections that it changes, and return them with its older keys."""
    if not isinstance(ring, dict):
        return {}
    changes = {section: ring.pop(section) for section in known if section in ring}
    for name, section in _OLDER.items():
        inside = changes.get(section, {})
        if name in ring and name in known.get(section, {}) and isinstance(inside, dict):
            changes[section] = {name: ring.pop(name), **inside}
    return changes


def _read(name: str, known: list[str]) -> tuple[Path, dict[str, Any]]:
    """Return the path of a configuration, for which these names are `known`, and what it holds."""
    path = CONFIGS / f"{name}.toml" if name in (*names(), *array_names()) else Path(name)
    if not os.path.exists(path):
        meant = nearest(path.stem, known)
        raise InputError(f"configuration {name}", f"is no file{meant}", f"a path or one of {', '.join(known)}")
    expected = "a TOML file as in configs/"
    try:
        return path, tomllib.loads(read_text(path, expected))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"is not TOML: {error}", expected) from None


def _section(
    path: Path, where: str, section: str, tables: Mapping[str, Any], known: Mapping[str, Mapping[str, Key]]
) -> dict[str, Any]:
    """Return the values of a section by key."""
    table = tables[section]
    if section not in known:
        *others, last = known
        kind = "a section" if isinstance(table, dict) else "outside of sections a key"
        raise InputError(path, f"has {kind} {section!r}{nearest(section, known)}", f"{', '.join(others)} and {last}")
    keys = known[section]
    listed = ", ".join(sorted(keys))
    if not isinstance(table, dict):
        raise InputError(f"{path}, {where}", f"is {table!r}", f"a section with {listed}")
    for key in table:
        if key not in keys:
            raise InputError(f"{path}, {where}.{key}", f"is unknown{nearest(key, keys)}", listed)
    return {key: _value(f"{path}, {where}.{key}", value, keys[key].hint) for key, value in table.items()}


def _value(where: str, value: Any, hint: Any) -> Any:
    """Return a value of a file as a value of a field's type."""
    (kind,) = (kind for kind in get_args(hint) or (hint,) if kind is not NoneType)
    if issubclass(kind, Enum):
        choices = {choice.name.lower(): choice for choice in kind}
        if str(value).lower() in choices:
            return choices[str(value).lower()]
        raise InputError(where, f"is {value!r}", f"one of {', '.join(choices)}")
    # An integer is no truth value, though Python says so.
    if type(value) is not kind:
        raise InputError(where, f"is {value!r}", {int: "a whole number", bool: "true or false"}.get(kind, "a text"))
    return value


@dataclass(frozen=True)
class _Builder:
    """Builds the tree from the values of each section."""

    path: Path
    values: _Values

    def machine(self, kind: Any, count: int) -> MachineConfig:
        """Return a machine of `count` chiplets of a kind."""
        chiplet = self.part(kind, "chiplet", {CommunityConfig: {"partials": count > 1}})
        address_width, data_width = chiplet.port
        follows = {
            # The section is checked with one chiplet, too.
            RingConfig: {"chiplets": max(2, count), "max_out": chiplet.pe.max_out},
            AttributeConfig: {"address_width": address_width, "data_width": data_width},
        }
        hints = get_type_hints(MachineConfig)
        # Keys of a section beside those of the part of its name; the number of chiplets is known.
        sections = {entry.name: entry.metadata[SECTION] for entry in fields(MachineConfig) if SECTION in entry.metadata}
        own = {name: self.values[at][name] for name, at in sections.items() if name in self.values.get(at, {})}
        wanted = ["ring", *(name for name in ("neural", "attributes") if name in self.values)]
        beside = {name: self.part(_part(hints[name], kind), name, follows) for name in wanted}
        if count == 1:
            del beside["ring"]
        return self.made(MachineConfig, "ring", {"chiplet": chiplet, "chiplets": count, **own, **beside})

    def part(self, kind: Any, section: str, follows: Mapping[type, Mapping[str, Any]]) -> Any:
        """Return a part of the tree from its section, and its own parts from theirs."""
        hints, given = get_type_hints(kind), dict(follows.get(kind, {}))
        for entry in fields(kind):
            if inside := _part(hints[entry.name], kind):
                within = section if entry.metadata[FLAT] else entry.name
                given[entry.name] = self.part(inside, within, follows)
            elif entry.name in self.values.get(section, {}):
                given[entry.name] = self.values[section][entry.name]
        return self.made(kind, section, given)

    def made(self, kind: Any, section: str, given: Mapping[str, Any]) -> Any:
        """Return a dataclass; the error of a value that it refuses names its section."""
        try:
            return kind(**given)
        except ValueError as error:
            raise InputError(f"{self.path}, {section}", str(error), "a value in that range") from None
