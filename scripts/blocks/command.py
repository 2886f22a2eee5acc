"""Blocks of the command front end."""

from scripts.blocks.block import Block

__all__ = ["BLOCKS"]

#: In the order of the tables.
BLOCKS: tuple[Block, ...] = (
    Block(
        name="command.front_end",
        factory="hw.command.factories:front_end",
        parameters={"commands": {"LIST": 2, "SCATTER": 2, "REDUCE": 2, "BARRIER": 1}},
        bench="tb.command.test_front_end",
        bench_parameters={
            "commands": {"COPY": 4, "BARRIER": 1, "LIST": 5},
            "address_width": 16,
            "error_sources": 3,
            "registered": True,
            "sticky": False,
        },
        formal="tb.command.formal_front_end",
        measures=("command.first_error",),
    ),
    Block(name="command.first_error", factory="hw.command.first_error:FirstError", parameters={"sources": 12}),
)
