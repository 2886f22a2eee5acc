"""Blocks of the island locator."""

from scripts.blocks.block import Block

__all__ = ["BLOCKS"]

#: Parts of the island locator, which its bench measures; those with proofs of their own are named below.
_ISLAND_PARTS = (
    "adjacency_store", "collector", "engine", "examiner", "hub_detector", "loader", "looker", "record_buffer",
    "row_reader", "searcher", "state_bank", "state_store", "worker",
)  # fmt: skip

#: The smallest locator in which searches meet.
_NARROW_ISLANDS = {
    "lanes": 2, "nodes": 2048, "edges": 2048, "banks": 16, "line_banks": 4, "tasks": 4, "tag_bits": 6, "data_width": 64,
}  # fmt: skip

#: In the order of the tables.
BLOCKS: tuple[Block, ...] = (
    Block(
        name="islands.allocator",
        factory="hw.islands.allocator:Allocator",
        parameters={"pes": 8},
        bench="tb.islands.test_allocator",
        bench_parameters={"pes": 7},
    ),
    Block(
        name="islands.bank_arbiter",
        factory="hw.islands.bank_arbiter:BankArbiter",
        parameters={"requesters": 4, "banks": 16},
        formal="tb.islands.formal_bank_arbiter",
    ),
    Block(
        name="islands.column_table",
        factory="hw.islands.factories:column_table",
        formal="tb.islands.formal_column_table",
    ),
    Block(name="islands.resolver", factory="hw.islands.factories:resolver", formal="tb.islands.formal_resolver"),
    *(
        Block(name=f"islands.{part}", factory=f"hw.islands.factories:{part}", formal=f"tb.islands.formal_{part}")
        for part in ("dispatcher", "task_generator")
    ),
    Block(
        name="islands.state_pager", factory="hw.islands.factories:state_pager", formal="tb.islands.formal_state_pager"
    ),
    Block(
        name="islands.record_merger",
        factory="hw.islands.record_merger:RecordMerger",
        parameters={"count": 4},
        formal="tb.islands.formal_record_merger",
    ),
    *(Block(name=f"islands.{part}", factory=f"hw.islands.factories:{part}") for part in _ISLAND_PARTS),
    Block(
        # Measures the benches of its parts, too.
        name="islands.locator",
        factory="hw.islands.factories:locator",
        bench="tb.islands.test_locator",
        bench_factory="tb.islands.test_locator:machine",
        bench_parameters={
            "config": {"searches": 1, "outputs": 2, "hubs": 128, **_NARROW_ISLANDS, "engines": 3, "edges": 8192}
        },
        narrow={"config": {"engines": 2, "searches": 1, "hubs": 128, **_NARROW_ISLANDS}},
        launch="tb.islands.test_locator:launch",
        measures=(
            "islands.bank_arbiter",
            "islands.column_table",
            "islands.dispatcher",
            "islands.task_generator",
            "islands.resolver",
            "islands.record_merger",
            *(f"islands.{part}" for part in _ISLAND_PARTS),
        ),
    ),
)
