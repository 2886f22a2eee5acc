"""Blocks of the attribute access."""

from typing import Any

from scripts.blocks.block import Block

__all__ = ["BLOCKS"]


def _part(name: str, **given: Any) -> Block:
    """Return a block that takes an `AttributeConfig`."""
    return Block(name=f"attributes.{name}", factory="hw.attributes.factories:part", parameters={"name": name}, **given)


def _core_part(name: str, **given: Any) -> Block:
    """Return a core, or a block of one."""
    return Block(
        name=f"attributes.{name}", factory="hw.attributes.factories:core_part", parameters={"name": name}, **given
    )


#: Parts of the attribute processor beside those with a row in the table of areas.
_PROCESSOR_PARTS = (
    "request_queue",
    "look_up",
    "directory",
    "table_look_up",
    "table_writer",
    "slot_search",
    "table_changer",
    "degree_finder",
    "decision",
    "row_unit",
    "arriving_rows",
    "row_moves",
    "row_walk",
    "responder",
)
#: Parts of the samplers, and sizes of a memory port that they take.
_PORT = {"address_width": 32, "data_width": 256}
_SAMPLER_PARTS = {
    "neighbour_chooser:NeighbourChooser": {**_PORT, "most": 16, "id_bits": 20},
    "edge_reader:EdgeReader": {**_PORT, "depth": 64, "id_bits": 20},
    "root_finder:RootFinder": {**_PORT, "id_bits": 20},
    "candidates:Candidates": {"most": 16, "id_bits": 20},
}
#: Parts of a core.
_CORE_PARTS = (
    "batch_sampler",
    "attribute_access",
    "sample_walk",
    "fetch_walk",
    "batch_check",
    "batch_positions",
    "batch_writer",
)

#: In the order of the tables.
BLOCKS: tuple[Block, ...] = (
    _part("id_table", formal="tb.attributes.formal_id_table"),
    _part("attribute_cache", formal="tb.attributes.formal_attribute_cache"),
    _part("slot_keys"),
    _part("row_store", formal="tb.attributes.formal_row_store"),
    _part("fill_unit"),
    _part("row_source", synth=False),
    Block(
        name="attributes.replica_table",
        factory="hw.attributes.factories:replica_table",
        parameters={"cells": 1024},
        bench="tb.attributes.test_replica_table",
        bench_factory="tb.attributes.test_replica_table:replica_table",
        bench_parameters={"cells": 16},
    ),
    _part("target_address"),
    _part("row_writer"),
    *(_part(name, synth=False) for name in _PROCESSOR_PARTS),
    Block(
        # Measures table, cache, keys, rows and fills; its bench has the smallest table, so that IDs find no cell.
        name="attributes.attribute_processor",
        factory="hw.attributes.factories:part",
        parameters={"name": "attribute_processor"},
        bench="tb.attributes.processor_bench",
        bench_factory="tb.attributes.processor_bench:machine",
        bench_parameters={"policy": "LFU"},
        launch="tb.attributes.processor_bench:launch",
        measures=tuple(
            f"attributes.{part}"
            for part in ("id_table", "attribute_cache", "slot_keys", "row_store", "fill_unit", *_PROCESSOR_PARTS)
        ),
    ),
    _part(
        "attribute_processors",
        bench="tb.attributes.processors_bench",
        bench_factory="tb.attributes.processors_bench:machine",
        bench_parameters={"count": 2},
        launch="tb.attributes.processors_bench:launch",
    ),
    Block(name="attributes.chooser", factory="hw.attributes.chooser:Chooser"),
    Block(name="attributes.state_mixer", factory="hw.attributes.state_mixer:StateMixer"),
    Block(name="attributes.row_finder", factory="hw.attributes.row_finder:RowFinder"),
    Block(name="attributes.structure_processor", factory="hw.attributes.structure_processor:StructureProcessor"),
    Block(name="attributes.negative_sampler", factory="hw.attributes.negative_sampler:NegativeSampler"),
    Block(name="attributes.command_processor", factory="hw.attributes.command_processor:CommandProcessor"),
    *(
        Block(name=f"attributes.{at.partition(':')[0]}", factory=f"hw.attributes.{at}", parameters=sizes, synth=False)
        for at, sizes in _SAMPLER_PARTS.items()
    ),
    _core_part("core"),
    *(_core_part(name, synth=False) for name in _CORE_PARTS),
    _part("request_counts", synth=False),
    Block(name="attributes.sample_sequencer", factory="hw.attributes.sample_sequencer:SampleSequencer", synth=False),
    Block(
        name="attributes.header_writer",
        factory="hw.attributes.header_writer:HeaderWriter",
        bench="tb.attributes.test_header_writer",
        bench_factory="tb.attributes.test_header_writer:header_writer",
        bench_parameters={"width": 64},
        synth=False,
    ),
    Block(name="attributes.node_words", factory="hw.attributes.node_words:NodeWords"),
    Block(name="attributes.copier", factory="hw.attributes.copier:Copier", synth=False),
    _part(
        "node_reader",
        bench="tb.attributes.test_node_reader",
        bench_factory="tb.attributes.test_node_reader:node_reader",
        bench_parameters={"width": 64},
    ),
    Block(
        name="attributes.slot_planner",
        factory="hw.attributes.factories:part",
        parameters={"name": "slot_planner"},
        bench="tb.attributes.test_slot_planner",
        bench_factory="tb.attributes.test_slot_planner:slot_planner",
        bench_parameters={"slots": 11, "depth": 256, "processors": 2, "id_bits": 14},
    ),
    Block(
        name="attributes.row_window",
        factory="hw.attributes.factories:part",
        parameters={"name": "row_window"},
        bench="tb.attributes.test_row_window",
        bench_factory="tb.attributes.test_row_window:row_window",
        # Beats are the limit with some lengths of rows, their number with others.
        bench_parameters={"depth": 128},
    ),
    Block(
        # Measures chooser, mixer, row finder and both samplers.
        name="attributes.sampler",
        factory="sim.attributes.sampler_bench:SamplerBench",
        bench="tb.attributes.test_sampler",
        synth=False,
        launch="tb.attributes.launches:launch_sampler",
        measures=tuple(
            f"attributes.{part}"
            for part in (
                "chooser",
                "state_mixer",
                "row_finder",
                "structure_processor",
                "negative_sampler",
                *(at.partition(":")[0] for at in _SAMPLER_PARTS),
            )
        ),
    ),
    Block(
        # Measures command processor, core and what is in it, but for the attribute RAM and the samplers; the core has a
        # window, and runs the bench of a core beside an engine too.
        name="attributes.accelerator",
        factory="hw.attributes.factories:accelerator",
        parameters={"cores": 1},
        bench="tb.attributes.test_accelerator",
        bench_factory="tb.attributes.test_core:core_bench",
        bench_parameters={"window": 32},
        synth=False,
        launch="tb.attributes.launches:launch_accelerator",
        measures=tuple(
            f"attributes.{part}"
            for part in (
                "command_processor",
                "core",
                *_CORE_PARTS,
                "request_counts",
                "sample_sequencer",
                "node_words",
                "copier",
                "target_address",
                "row_writer",
                "row_source",
            )
        ),
    ),
)
