"""Named configurations: TOML files that say how large a machine is."""

import tomllib
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from golden.errors import InputError
from hw.chiplet.config import ChipletConfig
from hw.community.chiplet import MachineConfig
from hw.community.formats import CommunityConfig
from hw.islands.config import LocatorConfig
from hw.pe.formats import PEConfig

__all__ = ["CONFIGS", "as_dict", "load_config", "load_machine", "names"]

#: Folder of the named configurations.
CONFIGS = Path(__file__).resolve().parents[1] / "configs"


def names() -> list[str]:
    """Names of the configurations that come with the project."""
    return sorted(path.stem for path in CONFIGS.glob("*.toml"))


def load_config(name: str) -> ChipletConfig:
    """Read a configuration of a chiplet with gather PEs.

    Parameters
    ----------
    name
        Name of a file in `CONFIGS` without its ending, or a path.

    Raises
    ------
    InputError
        If there is no such file, it is not TOML, names an unknown parameter, a value is out of range, or it is that of
        another kind of chiplet.
    """
    config = load_machine(name)
    if isinstance(config, MachineConfig):
        raise InputError(f"configuration {name}", 'has pe = "community"', "a chiplet with gather PEs")
    return config


def load_machine(name: str) -> ChipletConfig | MachineConfig:
    """Read a configuration of a chiplet of either kind: ``pe = "community"`` in the file says which.

    Parameters
    ----------
    name
        Name of a file in `CONFIGS` without its ending, or a path.

    Raises
    ------
    InputError
        If there is no such file, it is not TOML, names an unknown parameter or a value is out of range.
    """
    path = CONFIGS / f"{name}.toml" if name in names() else Path(name)
    if not path.is_file():
        raise InputError(f"configuration {name}", "is no file", f"a path or one of {', '.join(names())}")
    try:
        table = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(path, f"is not TOML: {error}", "a TOML file as in configs/") from None
    if isinstance(table.get("pe"), str):
        kind = table.pop("pe")
        if kind == "community":
            return _community(path, table)
        if kind != "gather":
            raise InputError(f"{path}, pe", f"is {kind!r}", '"gather" or "community"')
    chiplet = _section(path, table, "chiplet", ChipletConfig, frozenset({"pe"}))
    pe = _section(path, table, "pe", PEConfig)
    if table:
        raise InputError(path, f"has a section {next(iter(table))!r}", "chiplet and pe")
    try:
        return ChipletConfig(**chiplet, pe=PEConfig(**pe))
    except ValueError as error:
        raise InputError(path, str(error), "a value in that range") from None


def _community(path: Path, table: dict[str, Any]) -> MachineConfig:
    machine = _section(path, table, "chiplet", MachineConfig, frozenset({"community", "locator"}))
    community = _section(path, table, "community", CommunityConfig)
    locator: dict[str, Any] = _section(path, table, "locator", LocatorConfig)
    if table:
        raise InputError(path, f"has a section {next(iter(table))!r}", "chiplet, community and locator")
    try:
        return MachineConfig(CommunityConfig(**community), LocatorConfig(**locator), **machine)
    except ValueError as error:
        raise InputError(path, str(error), "a value in that range") from None


def _section(
    path: Path, table: dict[str, Any], name: str, kind: Any, without: frozenset[str] = frozenset()
) -> dict[str, int]:
    section = table.pop(name, {})
    known = {field.name for field in fields(kind)} - without
    if not isinstance(section, dict):
        raise InputError(f"{path}, {name}", f"is {section!r}", f"a section with {', '.join(sorted(known))}")
    for key, value in section.items():
        if key not in known:
            raise InputError(f"{path}, {name}.{key}", "is unknown", ", ".join(sorted(known)))
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError(f"{path}, {name}.{key}", f"is {value!r}", "a whole number")
    return dict(section)


def as_dict(config: ChipletConfig | MachineConfig) -> dict[str, Any]:
    """Return a configuration as nested dictionaries, with its number of lanes."""
    return {**asdict(config), "lanes": config.lanes}
