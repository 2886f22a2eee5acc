"""The one list of blocks: what `atoll generate`, `synth`, `formal`, `mutate` and `cover` know of.

A new block needs one entry in the file of its area. Parameters are keyword arguments of the factory and must be
representable in JSON, because the bench reads the same ones inside the simulator.
"""

from contracts.errors import unknown
from scripts.blocks import attributes, command, community, dnp, foundation, locator, ring
from scripts.blocks.block import Block

__all__ = ["BLOCKS", "Block", "UserError", "find", "measured_by", "measured_elsewhere"]

#: Every block, in the order of the tables.
BLOCKS: tuple[Block, ...] = (
    *foundation.BLOCKS,
    *command.BLOCKS,
    *ring.BLOCKS,
    *dnp.BLOCKS,
    *community.BLOCKS,
    *locator.BLOCKS,
    *attributes.BLOCKS,
)


class UserError(Exception):
    """A request that cannot be carried out; shown as one line, exit status 2."""


def measured_by(block: Block) -> Block:
    """Return the block whose bench measures `block`: itself, or the one that contains it.

    Raises
    ------
    UserError
        If no bench does.
    """
    for other in BLOCKS:
        if other.bench and not block.bench and block.name in other.measures:
            return other
    if not block.bench:
        raise UserError(f"{block.name} has no bench, and no other block's bench measures it")
    return block


def measured_elsewhere(block: Block) -> set[str]:
    """Return the files, from the project's root, of the parts that another block's bench measures."""
    files = {other.name: other.file for other in BLOCKS}
    return {
        files[name]
        for other in BLOCKS
        if other.bench and other.name != block.name
        for name in (other.name, *other.measures)
        if name != block.name
    } - {files[name] for name in (block.name, *block.measures)}


def find(name: str, *others: str) -> list[Block]:
    """Return the block called `name`, all blocks of an area, or all blocks for ``all``.

    Parameters
    ----------
    name
        What the user wrote.
    others
        Names that the caller takes beside these, for the message.

    Raises
    ------
    InputError
        If there is none; it names the nearest.
    """
    found = [block for block in BLOCKS if name in ("all", block.name, block.name.partition(".")[0])]
    if not found:
        areas = list(dict.fromkeys(block.name.partition(".")[0] for block in BLOCKS))
        area = name.partition(".")[0]
        of_area = [block.name for block in BLOCKS if block.name.startswith(f"{area}.")]
        blocks = ", ".join(of_area) if of_area else f"<area>.<block>, <area> one of {', '.join(areas)}"
        known = ["all", *others, *areas, *(block.name for block in BLOCKS)]
        raise unknown("block", name, known, ", ".join(["all", *others, blocks]))
    return found
