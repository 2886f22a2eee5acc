"""A named configuration as hardware: what `atoll generate` and `atoll synth` take for a machine or an array."""

import re
from dataclasses import asdict
from pathlib import Path

from contracts.errors import InputError
from hw.dnp.machine import NeuralMachine
from hw.host.hosted import Hosted
from hw.machine import machine_of
from scripts.blocks import Block
from scripts.config import load_array, load_machine
from scripts.flows.generate import flat

__all__ = ["ARRAY", "MACHINE", "array_block", "machine_block", "make_array", "make_machine"]

#: What to give instead of a block's name.
MACHINE = "machine"
#: The block that an array's configuration is for.
ARRAY = "dnp.machine"


def make_machine(config: str, chiplets: int | None = None, bus_width: int | None = None) -> Hosted:
    """Return a chiplet, and the units beside it that the configuration has, behind its control port.

    What repeats inside (PEs, hub units, neural processors) is left to be generated apart, as its `modules`.

    Parameters
    ----------
    config
        Name or path of a configuration.
    chiplets
        Chiplets on the ring; default: as many as the configuration says. With several, the chiplet has a ring
        interface; its Verilog is the same for all of them, and each gets its place through the port ``position``.
    bus_width
        Width of the bus that the memory port is for, in bits, if it is narrower than the machine's beats.

    Raises
    ------
    InputError
        As for `scripts.config.load_machine`, and if the bus does not fit.
    """
    sizes = load_machine(config, chiplets)
    try:
        return Hosted(machine_of(sizes.chiplet, sizes.units, sizes.ring), bus_width)
    except ValueError as error:
        raise InputError(
            "--bus-width", f"is {bus_width}", f"32 or more, the port's or a part of it ({error})"
        ) from None


def machine_block(config: str, chiplets: int | None = None, bus_width: int | None = None) -> Block:
    """Return the machine as a block of the tables, named after its configuration.

    Raises
    ------
    InputError
        As for `scripts.config.load_machine`.
    """
    sizes = load_machine(config, chiplets)
    name = f"{MACHINE}.{_plain(config)}"
    return Block(
        name=name if sizes.ring is None else f"{name}_ring",
        factory="scripts.machine:make_machine",
        parameters={"config": config, "chiplets": sizes.chiplets, "bus_width": bus_width},
        shown={
            **flat(asdict(sizes.chiplet)),
            "lanes": sizes.chiplet.lanes,
            "chiplets": sizes.chiplets,
            **({"bus_width": bus_width} if bus_width else {}),
            **flat({name: asdict(part) for name in ("ring", *vars(sizes.units)) if (part := getattr(sizes, name))}),
        },
    )


def make_array(config: str) -> NeuralMachine:
    """Return an array of DNP-IIs behind AXI4-Lite and AXI4-Stream; chips and processors are left to be generated apart.

    Raises
    ------
    InputError
        As for `scripts.config.load_array`.
    """
    return NeuralMachine(load_array(config))


def array_block(config: str) -> Block:
    """Return the array of a configuration as a block of the tables, named after it.

    Raises
    ------
    InputError
        As for `scripts.config.load_array`.
    """
    sizes = load_array(config)
    return Block(
        name=f"{ARRAY}.{_plain(config)}",
        factory="scripts.machine:make_array",
        parameters={"config": config},
        shown=flat(asdict(sizes)),
    )


def _plain(config: str) -> str:
    """Return the name of a configuration as a part of a module's."""
    return re.sub(r"[^a-z0-9]+", "_", Path(config).stem.lower())
