"""Blocks of the locator."""

from scripts.blocks.block import Block

__all__ = ["BLOCKS"]

#: Parts of the locator, which its bench measures; those with proofs of their own are named below.
_PARTS = (
    "adjacency_store", "engine", "hub_detector", "loader", "neighbour_classifier",
    "record_buffer", "row_reader", "searcher", "single_reader", "state_bank", "state_lookup", "state_store", "sweeper",
)  # fmt: skip

#: The smallest locator in which searches meet.
_NARROW = {
    "lanes": 2, "nodes": 2048, "edges": 2048, "banks": 16, "tasks": 4, "tag_bits": 6, "data_width": 64,
}  # fmt: skip

#: In the order of the tables.
BLOCKS: tuple[Block, ...] = (
    Block(
        name="locator.bank_arbiter",
        factory="hw.locator.bank_arbiter:BankArbiter",
        parameters={"requesters": 4, "banks": 16},
        formal="tb.locator.formal_bank_arbiter",
    ),
    Block(
        name="locator.column_table",
        factory="hw.locator.factories:column_table",
        formal="tb.locator.formal_column_table",
    ),
    Block(name="locator.resolver", factory="hw.locator.factories:resolver", formal="tb.locator.formal_resolver"),
    *(
        Block(name=f"locator.{part}", factory=f"hw.locator.factories:{part}", formal=f"tb.locator.formal_{part}")
        for part in ("degree_lists", "dispatcher", "task_generator")
    ),
    Block(
        name="locator.state_pager", factory="hw.locator.factories:state_pager", formal="tb.locator.formal_state_pager"
    ),
    Block(name="locator.collector", factory="hw.locator.factories:collector", formal="tb.locator.formal_collector"),
    *(Block(name=f"locator.{part}", factory=f"hw.locator.factories:{part}") for part in _PARTS),
    Block(
        # Measures the benches of its parts, too.
        name="locator.locator",
        factory="hw.locator.factories:locator",
        bench="tb.locator.test_locator",
        bench_factory="tb.locator.test_locator:machine",
        bench_parameters={"config": {"searches": 1, "outputs": 2, "hubs": 128, **_NARROW, "engines": 3, "edges": 8192}},
        narrow={"config": {"engines": 2, "searches": 1, "hubs": 128, **_NARROW}},
        launch="tb.locator.test_locator:launch",
        measures=(
            "locator.bank_arbiter",
            "locator.column_table",
            "locator.degree_lists",
            "locator.dispatcher",
            "locator.task_generator",
            "locator.resolver",
            "locator.collector",
            *(f"locator.{part}" for part in _PARTS),
        ),
    ),
)
