"""The one list of blocks: what `atoll generate`, `synth`, `formal`, `mutate` and `cover` know of.

A new block needs one entry in the file of its area. Parameters are keyword arguments of the factory and must be
representable in JSON, because the bench reads the same ones inside the simulator.
"""

from scripts.blocks import attributes, community, dnp, foundation, islands, ring
from scripts.blocks.block import Block

__all__ = ["BLOCKS", "Block", "UserError", "find", "measured_elsewhere"]

#: Every block, in the order of the tables.
BLOCKS: tuple[Block, ...] = (
    *foundation.BLOCKS,
    *ring.BLOCKS,
    *dnp.BLOCKS,
    *community.BLOCKS,
    *islands.BLOCKS,
    *attributes.BLOCKS,
)


class UserError(Exception):
    """A request that cannot be carried out; shown as one line, exit status 2."""


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


def find(name: str) -> list[Block]:
    """Return the block called `name`, all blocks of an area, or all blocks for ``all``.

    Raises
    ------
    UserError
        If there is none.
    """
    found = [block for block in BLOCKS if name in ("all", block.name, block.name.partition(".")[0])]
    if not found:
        raise UserError(f"no block {name!r}; known: all, {', '.join(block.name for block in BLOCKS)}")
    return found
