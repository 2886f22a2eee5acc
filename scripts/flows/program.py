"""`atoll program`: the command list of every chiplet for a network on a data set, with regions in place of lines."""

from __future__ import annotations

from collections.abc import Iterator

from contracts import COMMANDS
from golden.image_format import Command, Region
from scripts.config import load_machine
from scripts.flows.prepare import examine, prepare
from scripts.flows.request import Request
from scripts.flows.simulations import images_of
from scripts.flows.table import show

__all__ = ["listing", "operands", "program"]

#: Fields that have columns of their own.
_COLUMNS = ("opcode", "layer", "tag")


def program(request: Request) -> None:
    """Print the command list of every chiplet.

    Parameters
    ----------
    request
        As for `scripts.flows.run.run`; nothing is simulated.

    Raises
    ------
    InputError
        If the data set, weights or configuration cannot be used.
    """
    columns = ("chiplet", "number", "line", "layer", "opcode", "operands other than 0; regions with their lines")
    show(f"program of {request.dataset} on {request.config}", columns, listing(request))


def listing(request: Request) -> Iterator[tuple[int, int, int, int, str, str]]:
    """Yield chiplet, number, line, layer, opcode and operands of every command."""
    sizes = load_machine(request.config, request.chiplets)
    ready = prepare(examine(request, sizes))
    for chiplet, image in enumerate(images_of(ready.sizes, ready.placed)):
        for number, command in enumerate(image.commands):
            line = image.header["command_list"] + number
            yield chiplet, number, line, command.fields["layer"], command.opcode.name, operands(command)


def operands(command: Command) -> str:
    """Operands of a command by name, in the order of the contract: numbers, or regions and where they are."""
    said = []
    for field in COMMANDS[command.opcode].fields:
        value = command.fields.get(field.name, 0)
        if field.name in command.references:
            said.append(f"{field.name}={_place(*command.references[field.name])}")
        elif value and field.name not in _COLUMNS:
            said.append(f"{field.name}={field.enum(value).name.lower() if field.enum else value}")
    return ", ".join(said)


def _place(region: Region, line: int) -> str:
    """Name, layer and line of a region, and the lines from its start to what is meant."""
    name = f"{region.kind.name.lower()}[{region.layer}]"
    return f"{name}+{line} @{region.line + line}" if line else f"{name} @{region.line}"
