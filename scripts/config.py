"""Named configurations: TOML files that say how large a machine is."""

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from contracts import Policy
from contracts.dnp.config import ProcessorConfig
from contracts.errors import InputError, nearest
from golden.files import read_text
from golden.ring.placement import CHIPLETS_MAX
from hw.attributes.core import AttributeCoreConfig
from hw.attributes.formats import AttributeConfig
from hw.chiplet.config import GatherChipletConfig
from hw.community.config import CommunityChipletConfig
from hw.community.formats import CommunityConfig
from hw.dnp.neural_unit import NeuralConfig
from hw.locator.config import LocatorConfig
from hw.machine import Units
from hw.pe.formats import PEConfig
from hw.ring.formats import RingConfig

__all__ = ["CONFIGS", "Sizes", "as_dict", "load_config", "load_machine", "load_ring", "names"]

#: What a unit has from the chiplet it stands beside.
_PORT = ("address_width", "data_width")
#: Folder of the named configurations.
CONFIGS = Path(__file__).resolve().parents[1] / "configs"


class Sizes(NamedTuple):
    """What a configuration says.

    Attributes
    ----------
    chiplet
        Sizes of each chiplet.
    chiplets
        How many there are.
    units
        Sizes of what stands beside each.
    """

    chiplet: GatherChipletConfig | CommunityChipletConfig
    chiplets: int
    units: Units

    @property
    def community(self) -> CommunityChipletConfig | None:
        """Sizes of each chiplet if it has community PEs; None with gather PEs."""
        return self.chiplet if self.chiplet.kind == "community" else None

    @property
    def ring(self) -> RingConfig | None:
        """Sizes of the ring interface of each chiplet; None if there is only one."""
        return RingConfig(chiplets=self.chiplets, max_out=self.chiplet.pe.max_out) if self.chiplets > 1 else None

    @property
    def name(self) -> str:
        """Name of the design."""
        if self.chiplets > 1:
            return f"ring_{self.chiplets}"
        return "community_chiplet" if self.community else "chiplet"


@dataclass(frozen=True)
class RingSection:
    """Section ``ring`` of a file: what is different when there are several chiplets.

    Attributes
    ----------
    chiplets
        How many there are unless the caller says otherwise, 1 to 16.
    groups, pes, units, hubs
        Of each chiplet on a ring, instead of those in section ``chiplet``; 0: the same as there. Chiplets of gather PEs
        have groups, those of community PEs hub units and hubs.
    nodes
        As ``locator.nodes``, with community PEs: halves of hubs' sums that come round the ring have VIDs, too.
    """

    chiplets: int = 1
    groups: int = 0
    pes: int = 0
    units: int = 0
    hubs: int = 0
    nodes: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.chiplets <= CHIPLETS_MAX:
            raise ValueError(f"chiplets must be in 1..{CHIPLETS_MAX}, not {self.chiplets!r}")


def names() -> list[str]:
    """Names of the configurations that come with the project."""
    return sorted(path.stem for path in CONFIGS.glob("*.toml"))


def load_config(name: str) -> GatherChipletConfig:
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
    if config.kind == "community":
        raise InputError(f"configuration {name}", 'has pe = "community"', "a chiplet with gather PEs")
    return config


def load_machine(name: str) -> GatherChipletConfig | CommunityChipletConfig:
    """Read a configuration of a chiplet that works alone; see :func:`load_ring`."""
    return load_ring(name, 1).chiplet


def load_ring(name: str, chiplets: int | None = None) -> Sizes:
    """Read a configuration of a machine of either kind: ``pe = "community"`` in the file says which.

    Parameters
    ----------
    name
        Name of a file in `CONFIGS` without its ending, or a path.
    chiplets
        How many there are; default: as many as the file says.

    Raises
    ------
    InputError
        If there is no such file, it is not TOML, names an unknown parameter or a value is out of range.
    """
    path = CONFIGS / f"{name}.toml" if name in names() else Path(name)
    if not os.path.exists(path):
        meant = nearest(path.stem, names())
        raise InputError(f"configuration {name}", f"is no file{meant}", f"a path or one of {', '.join(names())}")
    expected = "a TOML file as in configs/"
    try:
        table = tomllib.loads(read_text(path, expected))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"is not TOML: {error}", expected) from None
    beside: dict[str, Any] = {name: table.pop(name) for name in ("neural", "attributes") if name in table}
    if isinstance(table.get("pe"), str):
        kind = table.pop("pe")
        if kind == "community":
            return _with_units(path, beside, *_community(path, table, chiplets))
        if kind != "gather":
            raise InputError(f"{path}, pe", f"is {kind!r}", '"gather" or "community"')
    chiplet = _section(path, table, "chiplet", GatherChipletConfig, frozenset({"pe"}))
    pe = _section(path, table, "pe", PEConfig)
    section = _section(path, table, "ring", RingSection, frozenset({"units", "hubs", "nodes"}))
    if table:
        raise _extra(path, table, ("chiplet", "pe", "ring", "neural", "attributes"))
    try:
        count = _on_ring(chiplet, RingSection(**section), chiplets)
        made = GatherChipletConfig(**chiplet, pe=PEConfig(**pe))
    except ValueError as error:
        raise InputError(path, str(error), "a value in that range") from None
    return _with_units(path, beside, made, count)


def _extra(path: Path, table: Mapping[str, Any], known: Sequence[str]) -> InputError:
    """Error for what is left of a file when its sections have been taken."""
    name, value = next(iter(table.items()))
    kind = "a section" if isinstance(value, dict) else "outside of sections a key"
    return InputError(path, f"has {kind} {name!r}{nearest(name, known)}", f"{', '.join(known[:-1])} and {known[-1]}")


def _on_ring(chiplet: dict[str, int], ring: RingSection, chiplets: int | None) -> int:
    """Change sizes of a chiplet to those it has on a ring, if it is on one; return how many there are."""
    count = chiplets or ring.chiplets
    if count > 1:
        chiplet |= {field.name: value for field in fields(ring)[1:] if (value := getattr(ring, field.name))}
    return count


def _community(path: Path, table: dict[str, Any], chiplets: int | None) -> tuple[CommunityChipletConfig, int]:
    machine = _section(path, table, "chiplet", CommunityChipletConfig, frozenset({"community", "locator"}))
    community: dict[str, Any] = _section(path, table, "community", CommunityConfig, frozenset({"partials"}))
    locator: dict[str, Any] = _section(path, table, "locator", LocatorConfig)
    section = _section(path, table, "ring", RingSection, frozenset({"groups"}))
    if table:
        raise _extra(path, table, ("chiplet", "community", "locator", "ring", "neural", "attributes"))
    try:
        count = _on_ring(machine, RingSection(**section), chiplets)
        if count > 1:
            # Others need the rows.
            machine["row_lines"] = 0
        if "nodes" in machine:
            locator["nodes"] = machine.pop("nodes")
        sizes = CommunityConfig(**community, partials=count > 1)
        return CommunityChipletConfig(sizes, LocatorConfig(**locator), **machine), count
    except ValueError as error:
        raise InputError(path, str(error), "a value in that range") from None


def _with_units(
    path: Path, beside: dict[str, Any], chiplet: GatherChipletConfig | CommunityChipletConfig, count: int
) -> Sizes:
    """Sizes with those of the units beside a chiplet, whose parts stand side by side in their sections."""
    name, neural, attributes = "", None, None
    try:
        if (name := "neural") in beside:
            section, inner = _nested(path, beside, name, NeuralConfig, "core", ProcessorConfig)
            neural = NeuralConfig(ProcessorConfig(**inner), **section)
        if (name := "attributes") in beside:
            section = beside[name]
            given = section.pop("policy", Policy.LRU.name) if isinstance(section, dict) else Policy.LRU.name
            policies = {policy.name: policy for policy in Policy}
            policy = policies.get(str(given).upper())
            if policy is None:
                raise InputError(f"{path}, attributes.policy", f"is {given!r}", f"one of {', '.join(policies).lower()}")
            section, inner = _nested(path, beside, name, AttributeCoreConfig, "attribute", AttributeConfig, _PORT)
            inner |= dict(zip(_PORT, chiplet.port, strict=True))
            attributes = AttributeCoreConfig(AttributeConfig(**inner, policy=policy), **section)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{path}, {name}", str(error), "a value in that range") from None
    return Sizes(chiplet, count, Units(neural, attributes))


def _nested(
    path: Path, tables: dict[str, Any], name: str, kind: Any, member: str, inside: Any, without: Iterable[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keys of a section that are of `kind`, and those of its `member`."""
    inner = {field.name for field in fields(inside)} - set(without) - {"policy", "sequential", "bucket_bits"}
    section: dict[str, Any] = _section(path, tables, name, kind, frozenset({member}), inner)
    return section, {key: section.pop(key) for key in inner & set(section)}


def _section(
    path: Path,
    table: dict[str, Any],
    name: str,
    kind: Any,
    without: frozenset[str] = frozenset(),
    more: Iterable[str] = (),
) -> dict[str, int]:
    section = table.pop(name, {})
    known = {field.name for field in fields(kind)} - without | set(more)
    if not isinstance(section, dict):
        raise InputError(f"{path}, {name}", f"is {section!r}", f"a section with {', '.join(sorted(known))}")
    for key, value in section.items():
        if key not in known:
            raise InputError(f"{path}, {name}.{key}", f"is unknown{nearest(key, known)}", ", ".join(sorted(known)))
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError(f"{path}, {name}.{key}", f"is {value!r}", "a whole number")
    return dict(section)


def as_dict(config: GatherChipletConfig | CommunityChipletConfig) -> dict[str, Any]:
    """Return a configuration as nested dictionaries, with its number of lanes."""
    return {**asdict(config), "lanes": config.lanes}
