"""The machine of a named configuration as hardware: what `atoll generate machine` and `atoll synth machine` take."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from golden.contracts import Opcode
from hw.chiplet.chiplet import Chiplet
from hw.chiplet.machine import with_units
from hw.community.chiplet import CommunityChiplet, MachineConfig
from hw.host.hosted import Hosted
from hw.ring.formats import RingConfig
from hw.ring.ring_chiplet import RingChiplet
from scripts.blocks import Block
from scripts.config import as_dict, load_ring

__all__ = ["MACHINE", "machine_block", "make_machine"]

#: What to give instead of a block's name.
MACHINE = "machine"


def make_machine(config: str, chiplets: int | None = None) -> Hosted:
    """Return a chiplet, and the units beside it that the configuration has, behind its control port.

    What repeats inside (PEs, hub units, neural processors) is left to be generated apart, as its `modules`.

    Parameters
    ----------
    config
        Name or path of a configuration.
    chiplets
        Chiplets on the ring; default: as many as the configuration says. With several, the chiplet has a ring
        interface; its Verilog is the same for all of them, and each gets its place through the port ``position``.

    Raises
    ------
    InputError
        As for `scripts.config.load_ring`.
    """
    loaded = load_ring(config, chiplets)
    sizes, count = loaded.chiplet, loaded.chiplets

    def chiplet(offload: tuple[Opcode, ...]) -> Any:
        if count > 1:
            return RingChiplet(sizes, RingConfig(chiplets=count, max_out=sizes.pe.max_out), once=True, offload=offload)
        if isinstance(sizes, MachineConfig):
            return CommunityChiplet(sizes, once=True, offload=offload)
        return Chiplet(sizes, offload=offload)

    return Hosted(with_units(chiplet, loaded.units(once=True)))


def machine_block(config: str, chiplets: int | None = None) -> Block:
    """Return the machine as a block of the tables, named after its configuration.

    Raises
    ------
    InputError
        As for `scripts.config.load_ring`.
    """
    sizes, count, neural, attributes = load_ring(config, chiplets)
    beside = {"neural": neural, "attributes": attributes}
    name = f"{MACHINE}.{re.sub(r'[^a-z0-9]+', '_', Path(config).stem.lower())}"
    return Block(
        name=name if count == 1 else f"{name}_ring",
        factory="scripts.machine:make_machine",
        parameters={"config": config, "chiplets": count},
        shown={
            **_flat(as_dict(sizes)),
            "chiplets": count,
            **_flat({unit: asdict(parts) for unit, parts in beside.items() if parts}),
        },
    )


def _flat(table: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Return nested sizes as one table with dotted names."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{before}{key}.") if isinstance(value, dict) else {before + key: value}
    return flat
