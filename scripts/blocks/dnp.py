"""Blocks of the DNP-II."""

from scripts.blocks.block import Block

__all__ = ["BLOCKS"]


#: In the order of the tables.
BLOCKS: tuple[Block, ...] = (
    Block(
        name="dnp.core",
        factory="hw.dnp.core:Core",
        bench="tb.dnp.test_core",
        bench_factory="tb.dnp.test_core:core",
        bench_parameters={"programs": 12},
        narrow={"programs": 2, "resets": 1, "operands": 0, "counters": 17},
        formal="tb.dnp.formal_instructions",
        measures=("dnp.instruction_issue", "dnp.port", "dnp.address", "dnp.arithmetic", "dnp.decoder"),
    ),
    Block(
        name="dnp.instruction_issue",
        factory="hw.dnp.factories:instruction_issue",
        formal="tb.dnp.formal_instruction_issue",
        synth=False,
    ),
    Block(name="dnp.port", factory="hw.dnp.port:Port", bench="tb.dnp.test_port", formal="tb.dnp.formal_port"),
    Block(
        name="dnp.address",
        factory="hw.dnp.address:AddressGenerator",
        parameters={"depth": 526, "past_start": 1},
        synth=False,
    ),
    Block(name="dnp.arithmetic", factory="hw.dnp.arithmetic:Arithmetic", synth=False),
    Block(name="dnp.decoder", factory="hw.dnp.decoder:Decoder", synth=False),
    Block(
        name="dnp.chip",
        factory="hw.dnp.chip:NeuralChip",
        bench="tb.dnp.test_chip",
        bench_factory="tb.dnp.test_chip:chip",
        measures=("dnp.ccb",),
    ),
    Block(name="dnp.ccb", factory="hw.dnp.ccb:ChipControl", parameters={"cores": 4}),
    Block(
        name="dnp.neural_unit",
        factory="hw.dnp.neural_unit:NeuralUnit",
        bench="tb.dnp.test_neural_unit",
        bench_factory="tb.dnp.test_neural_unit:unit",
        bench_parameters={"data_width": 64},
        launch="tb.dnp.test_neural_unit:launch",
        measures=("dnp.row_collector",),
    ),
    Block(
        name="dnp.row_feeder",
        factory="hw.dnp.row_feeder:RowFeeder",
        bench="tb.dnp.test_row_feeder",
        bench_parameters={"ways": 4, "depth": 8},
        narrow={"ways": 2, "depth": 8},
        synth=False,
    ),
    Block(name="dnp.row_collector", factory="hw.dnp.row_collector:RowCollector", synth=False),
    Block(
        name="dnp.array",
        factory="hw.dnp.array:ProcessorArray",
        parameters={"rows": 4, "columns": 4},
        bench="tb.dnp.test_array",
        bench_factory="tb.dnp.test_array:array",
        bench_parameters={"side": 4},
        synth=False,
        launch="tb.dnp.test_array:launch",
    ),
    # The array behind AXI: `atoll generate dnp.machine`, of other sizes with `--config`.
    Block(
        name="dnp.machine",
        factory="hw.dnp.machine:NeuralMachine",
        bench="tb.dnp.test_board",
        bench_factory="tb.dnp.test_board:machine",
        bench_parameters={"side": 4},
        narrow={"side": 2},
        synth=False,
        launch="tb.dnp.test_board:launch",
        measures=("dnp.run_control",),
    ),
    Block(
        name="dnp.buffer_board",
        factory="hw.dnp.factories:buffer_board",
        parameters={"boards": 1, "chips": 4},
        bench="tb.dnp.test_buffer_board",
        bench_factory="tb.dnp.test_buffer_board:component",
        bench_parameters={"boards": 2},
        formal="tb.dnp.formal_buffer_board",
    ),
    Block(name="dnp.run_control", factory="hw.dnp.run_control:RunControl", formal="tb.dnp.formal_run_control"),
    Block(
        name="dnp.edge_feeder",
        factory="hw.dnp.factories:edge_feeder",
        parameters={"side": 4, "depth": 16},
        bench="tb.dnp.test_edge_feeder",
        bench_parameters={"side": 2, "depth": 3},
    ),
    Block(
        name="dnp.edge_collector",
        factory="hw.dnp.edge_collector:EdgeCollector",
        parameters={"edges": 16},
        bench="tb.dnp.test_edge_collector",
        bench_parameters={"edges": 3},
        narrow={"edges": 3, "bits": 7},
    ),
)
