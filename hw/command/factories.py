"""Front ends by the names of their units' commands, for the list of blocks and the benches."""

from collections.abc import Mapping

from contracts import Opcode
from hw.command.front_end import CommandFrontEnd

__all__ = ["front_end"]


def front_end(
    commands: Mapping[str, int],
    address_width: int = 32,
    error_sources: int = 3,
    *,
    registered: bool = False,
    sticky: bool = False,
) -> CommandFrontEnd:
    """Return a front end for commands given by name, with the cycle in which each is decided."""
    return CommandFrontEnd(
        {Opcode[name]: cycle for name, cycle in commands.items()},
        address_width,
        error_sources,
        registered=registered,
        sticky=sticky,
    )
