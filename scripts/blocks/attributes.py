"""Blocks of the attribute access."""

from scripts.blocks.block import Block

__all__ = ["BLOCKS"]


#: In the order of the tables.
BLOCKS: tuple[Block, ...] = (
    *(
        Block(
            name=f"attributes.{part}",
            factory="hw.attributes.factories:part",
            parameters={"name": part},
            formal=f"tb.attributes.formal_{part}" if part in ("id_table", "attribute_cache", "row_store") else None,
        )
        for part in (
            "id_table",
            "attribute_cache",
            "slot_keys",
            "row_store",
            "fill_unit",
            "target_address",
            "row_writer",
        )
    ),
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
            f"attributes.{part}" for part in ("id_table", "attribute_cache", "slot_keys", "row_store", "fill_unit")
        ),
    ),
    Block(name="attributes.chooser", factory="hw.attributes.chooser:Chooser"),
    Block(name="attributes.state_mixer", factory="hw.attributes.state_mixer:StateMixer"),
    Block(name="attributes.row_finder", factory="hw.attributes.row_finder:RowFinder"),
    Block(name="attributes.structure_processor", factory="hw.attributes.structure_processor:StructureProcessor"),
    Block(name="attributes.negative_sampler", factory="hw.attributes.negative_sampler:NegativeSampler"),
    Block(name="attributes.command_processor", factory="hw.attributes.command_processor:CommandProcessor"),
    Block(name="attributes.core", factory="hw.attributes.factories:core"),
    Block(
        # Measures chooser, mixer, row finder and both samplers.
        name="attributes.sampler",
        factory="sim.attributes.sampler_bench:SamplerBench",
        bench="tb.attributes.test_sampler",
        synth=False,
        launch="tb.attributes.launches:launch_sampler",
        measures=tuple(
            f"attributes.{part}"
            for part in ("chooser", "state_mixer", "row_finder", "structure_processor", "negative_sampler")
        ),
    ),
    Block(
        # Measures command processor, core and the attribute RAM within.
        name="attributes.accelerator",
        factory="hw.attributes.factories:accelerator",
        parameters={"cores": 1},
        bench="tb.attributes.test_accelerator",
        bench_parameters={"cores": 1},
        synth=False,
        launch="tb.attributes.launches:launch_accelerator",
    ),
)
