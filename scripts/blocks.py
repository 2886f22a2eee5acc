"""The one list of blocks: what `atoll generate`, `synth`, `formal`, `mutate` and `cover` know of.

A new block needs one entry in :data:`BLOCKS`. Parameters are keyword arguments of the factory and must be
representable in JSON, because the bench reads the same ones inside the simulator.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tb.harness import simulate


class UserError(Exception):
    """A request that cannot be carried out; shown as one line, exit status 2."""


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclass(frozen=True)
class Block:
    """One block and where its parts are.

    Attributes
    ----------
    name
        ``<area>.<block>``, as in ``hw/<area>/<block>.py``.
    factory
        ``module:callable`` that makes the component.
    parameters
        Keyword arguments with which it is generated and synthesised.
    bench
        Module with the cocotb tests; `None` where a larger block's bench covers it.
    bench_factory
        ``module:callable`` that makes the component as the bench wants it; default: `factory`.
    bench_parameters
        Keyword arguments of `bench_factory`, and what the bench's ``parameters()`` returns, for coverage.
    narrow
        The same for mutation: the narrowest legal configuration; default: `bench_parameters`.
    formal
        Module with ``PROOFS``; `None` without.
    synth
        Whether `synth all` includes it.
    testcase
        Names of the bench's tests that count; default: all.
    launch
        ``module:callable`` that runs the bench on a component, called as ``launch(component, parameters)``; needed
        where :func:`tb.harness.simulate` alone does not do, for example because of memories around the design.
    shown
        Parameters to write at the top of the generated file; default: `parameters`.
    measures
        Blocks without a bench of their own which this one's bench measures. A part that another block's bench
        measures counts there, in coverage and mutation, and not in the blocks that contain it.
    """

    name: str
    factory: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    bench: str | None = None
    bench_factory: str | None = None
    bench_parameters: Mapping[str, Any] = field(default_factory=dict)
    narrow: Mapping[str, Any] | None = None
    formal: str | None = None
    synth: bool = True
    testcase: tuple[str, ...] | None = None
    launch: str | None = None
    shown: Mapping[str, Any] | None = None
    measures: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Its source, from the project's root."""
        return f"hw/{self.name.replace('.', '/')}.py"

    @property
    def module(self) -> str:
        """Name of its Verilog module."""
        return self.name.replace(".", "_")

    def make(self) -> Any:
        """Return the component as it is generated and synthesised."""
        return _load(self.factory)(**self.parameters)

    def make_for_bench(self, parameters: Mapping[str, Any]) -> Any:
        """Return the component as its bench wants it."""
        return _load(self.bench_factory or self.factory)(**parameters)

    def run_bench(self, parameters: Mapping[str, Any]) -> None:
        """Run the block's bench on the component with these `parameters`.

        Raises
        ------
        AssertionError
            If a test fails.
        """
        component = self.make_for_bench(parameters)
        if self.launch:
            _load(self.launch)(component, parameters)
        else:
            assert self.bench is not None, f"{self.name} has no bench"
            simulate(component, self.bench, name=self.module, parameters=parameters, testcase=self.testcase)


#: Parts of the island locator, which its bench measures; those with proofs of their own are named below.
_ISLAND_PARTS = (
    "adjacency_store", "collector", "engine", "examiner", "hub_detector", "loader", "looker", "record_buffer",
    "row_reader", "searcher", "state_bank", "state_store", "worker",
)  # fmt: skip


#: Parts of the ring unit that are tried alone, side by side, and synthesised as ``configs/default.toml`` has them.
_RING_PARTS = (
    "axi_merge", "boundary_table", "control", "distributor", "first_error", "halo_writer", "judge", "packet_guard",
    "packet_queue", "reducer", "sender", "share_adder", "shared_reader", "tokens", "word_writer",
)  # fmt: skip


#: The smallest locator in which searches meet.
_NARROW_ISLANDS = {
    "lanes": 2, "nodes": 2048, "edges": 2048, "banks": 16, "line_banks": 4, "tasks": 4, "tag_bits": 6, "data_width": 64,
}  # fmt: skip


#: Every block, in the order of the tables.
BLOCKS: tuple[Block, ...] = (
    Block(
        name="stream.queue",
        factory="hw.stream.queue:Queue",
        parameters={"shape": 32, "depth": 16},
        bench="tb.stream.test_queue",
        bench_factory="tb.stream.test_queue:queue",
        bench_parameters={"depth": 6, "storage": "block"},
        narrow={"depth": 4, "storage": "distributed", "width": 1},
        formal="tb.stream.formal_queue",
    ),
    Block(
        name="stream.slice",
        factory="hw.stream.slice:Slice",
        parameters={"shape": 32},
        bench="tb.stream.test_slice",
        bench_factory="tb.stream.test_slice:slice_",
        bench_parameters={"width": 13},
        narrow={"width": 3},
        formal="tb.stream.formal_slice",
    ),
    Block(
        name="stream.arbiter",
        factory="hw.stream.arbiter:Arbiter",
        parameters={"shape": 32, "count": 4},
        bench="tb.stream.test_arbiter",
        bench_factory="tb.stream.test_arbiter:arbiter",
        bench_parameters={"count": 3},
        formal="tb.stream.formal_arbiter",
    ),
    Block(
        name="memory.fetcher",
        factory="hw.memory.fetcher:Fetcher",
        parameters={"data_width": 256, "depth": 128},
        formal="tb.memory.formal_fetcher",
    ),
    Block(
        name="memory.range_reader",
        factory="hw.memory.range_reader:RangeReader",
        parameters={"data_width": 256, "depth": 128},
    ),
    Block(
        name="memory.word_serialiser",
        factory="hw.memory.word_serialiser:WordSerialiser",
        parameters={"data_width": 256},
    ),
    Block(
        name="memory.read_arbiter",
        factory="hw.memory.read_arbiter:ReadArbiter",
        parameters={"data_width": 256, "clients": 4},
        formal="tb.memory.formal_read_arbiter",
    ),
    Block(
        name="memory.write_port",
        factory="hw.memory.write_port:WritePort",
        parameters={"data_width": 256},
    ),
    Block(
        # All of them at one port; measures the benches of the five above.
        name="memory.memory_side",
        factory="tb.memory.memory_bench:configured",
        parameters={"configuration": "narrow"},
        bench="tb.memory.test_memory_side",
        bench_parameters={"configuration": "narrow"},
        synth=False,
        launch="tb.memory.memory_bench:launch",
        measures=(
            "memory.fetcher",
            "memory.range_reader",
            "memory.word_serialiser",
            "memory.read_arbiter",
            "memory.write_port",
        ),
    ),
    Block(
        name="pe.requantiser",
        factory="hw.pe.requantiser:Requantiser",
        bench="tb.pe.test_requantiser",
        bench_factory="tb.pe.factories:requantiser",
        bench_parameters={"count": 20_000, "corners": 20_000, "idle": 0.2},
        narrow={"count": 2_000, "corners": 2_000, "idle": 0.2},
    ),
    Block(name="pe.issue", factory="tb.pe.factories:issue"),
    Block(name="pe.lanes", factory="tb.pe.factories:lanes"),
    Block(name="pe.drain", factory="tb.pe.factories:drain"),
    Block(
        # Measures the benches of the four above, too.
        name="pe.pe",
        factory="tb.pe.factories:pe",
        bench="tb.pe.test_pe",
        bench_parameters={"lanes": 4, "data_width": 256, "weight_rows": 64, "max_out": 37, "queue": 3},
        narrow={"lanes": 2, "data_width": 64, "weight_rows": 16, "max_out": 7, "queue": 2},
        formal="tb.pe.formal_pe",
        measures=("pe.issue", "pe.lanes", "pe.drain"),
    ),
    Block(
        name="pe.router",
        factory="tb.pe.factories:router",
        parameters={"takers": 4},
        bench="tb.pe.test_router",
        bench_factory="tb.pe.test_router:router",
        bench_parameters={"takers": 3},
        formal="tb.pe.formal_router",
    ),
    Block(
        name="pe.group",
        factory="tb.pe.factories:group",
        parameters={"pes": 2},
        bench="tb.pe.test_group",
        bench_parameters={"pes": 3, "lanes": 4, "data_width": 64, "weight_rows": 32, "max_out": 9, "queue": 16},
        narrow={"pes": 2, "lanes": 2, "data_width": 64, "weight_rows": 32, "max_out": 7, "queue": 16},
        synth=False,
    ),
    Block(
        name="graph.csr_reader",
        factory="hw.graph.csr_reader:CsrReader",
        parameters={"data_width": 256, "depth": 128},
        bench="tb.graph.test_csr_reader",
        bench_parameters={"address_width": 20, "data_width": 64, "depth": 16, "offsets_depth": 16},
    ),
    Block(
        name="graph.segmenter",
        factory="hw.graph.segmenter:Segmenter",
        parameters={"address_width": 32},
        bench="tb.graph.test_segmenter",
        bench_parameters={"address_width": 13},
        formal="tb.graph.formal_segmenter",
    ),
    Block(
        name="chiplet.gather",
        factory="hw.chiplet.gather:GatherUnit",
        parameters={"data_width": 256, "depth": 128},
        bench="tb.chiplet.test_gather",
        bench_factory="tb.chiplet.parts:Parts",
        bench_parameters={"configuration": "narrow", "parts": ["gather"]},
    ),
    Block(
        name="chiplet.task_builder",
        factory="tb.chiplet.parts:part",
        parameters={"name": "builder"},
        bench="tb.chiplet.test_task_builder",
        bench_factory="tb.chiplet.parts:Parts",
        bench_parameters={"configuration": "narrow", "parts": ["builder"]},
    ),
    Block(
        name="chiplet.weight_loader",
        factory="tb.chiplet.parts:part",
        parameters={"name": "loader"},
        bench="tb.chiplet.test_weight_loader",
        bench_factory="tb.chiplet.parts:Parts",
        bench_parameters={"configuration": "narrow", "parts": ["loader"]},
    ),
    Block(
        name="chiplet.command_reader",
        factory="hw.chiplet.command_reader:CommandReader",
        bench="tb.chiplet.test_command_reader",
        bench_factory="tb.chiplet.parts:Parts",
        bench_parameters={"configuration": "narrow", "parts": ["commands"]},
        formal="tb.chiplet.formal_command_reader",
    ),
    Block(
        name="chiplet.executor",
        factory="tb.chiplet.parts:part",
        parameters={"name": "executor"},
        bench="tb.chiplet.test_executor",
        bench_factory="tb.chiplet.parts:Parts",
        bench_parameters={"configuration": "narrow", "parts": ["executor"]},
        formal="tb.chiplet.formal_executor",
    ),
    Block(
        name="chiplet.read_gate",
        factory="hw.chiplet.read_gate:ReadGate",
        parameters={"data_width": 256, "clients": 5, "most": 130},
        bench="tb.chiplet.test_read_gate",
        bench_factory="tb.chiplet.parts:Parts",
        bench_parameters={"configuration": "narrow", "parts": ["gate"]},
    ),
    # The chiplet as configs/default.toml has it; its benches are those of its parts and tb/chiplet/test_chiplet.py.
    Block(name="chiplet.chiplet", factory="hw.chiplet.chiplet:Chiplet"),
    Block(name="host.axi_lite", factory="hw.host.axi_lite:AXILiteSubordinate", parameters={"address_width": 7}),
    Block(
        name="host.control_port",
        factory="hw.host.control_port:ControlPort",
        bench="tb.host.test_control_port",
        bench_parameters={"address_width": 20},
        narrow={"address_width": 20, "counter_bits": 10},
        formal="tb.host.formal_control_port",
        measures=("host.axi_lite",),
    ),
    # The chiplet with a control port in front: the top level for a system on chip.
    Block(name="host.hosted", factory="tb.host.factories:hosted_chiplet", synth=False),
    Block(
        name="ring.station",
        factory="hw.ring.station:Station",
        parameters={"link_width": 64, "slots": 4, "max_flits": 9},
        bench="tb.ring.test_station",
        bench_factory="tb.ring.stations:RingOfStations",
        bench_parameters={"stations": 4, "slots": 4, "max_flits": 4},
        formal="tb.ring.formal_station",
    ),
    Block(
        # Side by side; measures the benches of all parts that can be tried alone.
        name="ring.parts",
        factory="tb.ring.parts:RingParts",
        bench="tb.ring.test_parts",
        synth=False,
        measures=(
            "ring.remote_array",
            "ring.needed_list",
            "ring.filter_array",
            "ring.filter_window",
            "ring.filter_feed",
            "ring.filter_generator",
            "ring.link_watch",
            *(f"ring.{part}" for part in _RING_PARTS),
        ),
    ),
    Block(name="ring.remote_array", factory="hw.ring.remote_array:RemoteArray"),
    Block(name="ring.needed_list", factory="hw.ring.needed_list:NeededList"),
    Block(name="ring.filter_array", factory="hw.ring.filter_array:FilterArray"),
    Block(name="ring.filter_window", factory="hw.ring.filter_window:FilterWindow"),
    Block(name="ring.filter_feed", factory="hw.ring.filter_feed:FilterFeed"),
    Block(name="ring.filter_generator", factory="hw.ring.filter_generator:FilterGenerator"),
    Block(name="ring.link_watch", factory="hw.ring.link_watch:LinkWatch"),
    *(Block(name=f"ring.{part}", factory="tb.ring.parts:made", parameters={"name": part}) for part in _RING_PARTS),
    Block(name="ring.ring_unit", factory="tb.ring.parts:ring_unit", parameters={"max_out": 16, "data_width": 64}),
    Block(
        # Measures the ring unit, which connects the parts, and what connects it with a chiplet.
        name="ring.ring_chiplet",
        factory="hw.ring.ring_chiplet:RingChiplet",
        bench="tb.ring.test_ring_chiplet",
        bench_factory="tb.ring.test_ring_chiplet:chiplet",
        bench_parameters={"chiplets": 3},
        synth=False,
        launch="tb.ring.test_ring_chiplet:launch",
        measures=("ring.ring_unit",),
    ),
    Block(
        name="dnp.core",
        factory="hw.dnp.core:Core",
        bench="tb.dnp.test_core",
        bench_factory="tb.dnp.test_core:core",
        bench_parameters={"programs": 12},
        narrow={"programs": 2, "resets": 1, "operands": 0, "counters": 17},
        formal="tb.dnp.formal_instructions",
        measures=("dnp.issue", "dnp.port", "dnp.address", "dnp.arithmetic", "dnp.decoder"),
    ),
    Block(name="dnp.issue", factory="tb.dnp.formal_issue:issue", formal="tb.dnp.formal_issue", synth=False),
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
    Block(
        name="community.keeper",
        factory="hw.community.keeper:Keeper",
        parameters={"depth": 2048},
        bench="tb.community.test_keeper",
        bench_parameters={"depth": 16},
        narrow={"depth": 4},
    ),
    Block(
        name="community.row_memory",
        factory="hw.community.row_memory:RowMemory",
        formal="tb.community.formal_row_memory",
        bench="tb.community.test_row_memory",
        bench_parameters={"address_width": 16, "data_width": 64, "lines": 4, "clients": 3},
        narrow={"address_width": 13, "data_width": 64, "lines": 2, "clients": 2},
    ),
    Block(
        name="community.distributor",
        factory="hw.community.distributor:Distributor",
        parameters={"pes": 6, "streams": 4},
        bench="tb.community.test_distributor",
        bench_parameters={"pes": 4, "depth": 64, "streams": 3},
        narrow={"pes": 3, "depth": 64, "streams": 1, "counter_bits": 9},
    ),
    Block(
        name="community.sharer",
        factory="hw.community.sharer:Sharer",
        parameters={"pes": 8, "reach": 3},
        bench="tb.community.test_sharer",
        bench_parameters={"pes": 5, "reach": 3},
        narrow={"pes": 3, "reach": 2},
    ),
    Block(
        name="community.apart",
        factory="hw.community.apart:Apart",
        parameters={"pes": 8, "units": 2},
        bench="tb.community.test_apart",
        bench_parameters={"pes": 3, "units": 2, "nodes": 300},
        narrow={"pes": 2, "units": 1, "nodes": 300},
    ),
    Block(
        name="community.feature_reader",
        factory="tb.community.factories:feature_reader",
        parameters={"clients": 4},
        bench="tb.community.test_feature_reader",
        bench_parameters={"clients": 3, "data_width": 128, "lanes": 4, "depth": 64},
        narrow={"clients": 2, "data_width": 64, "lanes": 4, "depth": 16},
    ),
    Block(
        name="community.node_table",
        factory="hw.community.node_table:NodeTable",
        parameters={"nodes": 4096},
        bench="tb.community.test_node_table",
        bench_parameters={"nodes": 64, "address_width": 32, "data_width": 256, "ports": 2},
        narrow={"nodes": 8, "address_width": 13, "data_width": 64, "ports": 1},
    ),
    Block(
        name="community.load_sequencer",
        factory="hw.community.load_sequencer:LoadSequencer",
        parameters={"address_width": 32},
        bench="tb.community.test_load_sequencer",
        formal="tb.community.formal_load_sequencer",
        bench_parameters={"address_width": 32},
        narrow={"address_width": 13},
    ),
    Block(
        name="community.controller",
        factory="tb.community.factories:controller",
        parameters={"nodes": 4096, "address_width": 32, "error_sources": 25, "row_memory": True},
        bench="tb.community.test_controller",
        bench_parameters={
            "nodes": 100,
            "address_width": 32,
            "error_sources": 4,
            "row_memory": True,
            "lanes": 4,
            "width": 16,
            "columns": 64,
            "max_out": 21,
            "weight_rows": 64,
            "data_width": 128,
        },
        narrow={
            "nodes": 12,
            "address_width": 16,
            "error_sources": 2,
            "row_memory": True,
            "lanes": 2,
            "width": 8,
            "columns": 16,
            "max_out": 5,
            "weight_rows": 16,
            "data_width": 64,
        },
    ),
    Block(
        name="community.hub_port",
        factory="tb.community.factories:hub_port",
        parameters={"units": 4, "rows": 32},
        formal="tb.community.formal_hub_port",
        bench="tb.community.test_hub_port",
        bench_parameters={"units": 4, "rows": 32, "lanes": 4, "max_out": 21, "data_width": 64, "partials": True},
        narrow={"units": 2, "rows": 2, "lanes": 1, "max_out": 1, "data_width": 64},
    ),
    Block(
        name="community.row_finisher",
        factory="tb.community.factories:row_finisher",
        parameters={"hubs": 512, "ways": 8},
    ),
    Block(
        # Measures the row finisher, too.
        name="community.hub_unit",
        factory="tb.community.factories:hub_unit",
        parameters={"clients": 8, "nodes": 4096, "hubs": 512, "units": 4, "ways": 8},
        bench="tb.community.test_hub_unit",
        bench_parameters={
            "clients": 3,
            "nodes": 128,
            "hubs": 32,
            "units": 2,
            "ways": 2,
            "lanes": 4,
            "width": 8,
            "columns": 16,
            "max_out": 21,
            "weight_rows": 16,
            "data_width": 128,
            "partials": True,
        },
        narrow={
            "clients": 2,
            "nodes": 32,
            "hubs": 8,
            "units": 1,
            "ways": 1,
            "lanes": 2,
            "width": 8,
            "columns": 16,
            "max_out": 13,
            "weight_rows": 16,
            "data_width": 64,
            "partials": True,
        },
        measures=("community.row_finisher",),
    ),
    Block(
        name="community.record_reader",
        factory="tb.community.factories:reader",
        bench="tb.community.test_record_reader",
        bench_factory="tb.community.test_record_reader:reader",
        bench_parameters={"width": 128, "columns": 256},
        # With fewer places there are never as many records as may be.
        narrow={"width": 32, "columns": 64},
    ),
    Block(
        name="community.planner",
        factory="tb.community.factories:planner",
        bench="tb.community.test_planner",
        bench_factory="tb.community.test_planner:planner",
        bench_parameters={"width": 16, "columns": 32, "partners": 5},
        narrow={"width": 8, "columns": 16, "partners": 4},
    ),
    Block(
        # Measures the row finisher, too.
        name="community.finisher",
        factory="tb.community.factories:finisher",
        parameters={"ways": 4},
        bench="tb.community.test_finisher",
        bench_factory="tb.community.test_finisher:finisher",
        bench_parameters={"lanes": 8, "width": 32, "columns": 64, "max_out": 35, "weight_rows": 64, "ways": 2},
        narrow={"lanes": 4, "width": 8, "columns": 16, "max_out": 6, "weight_rows": 16, "data_width": 64, "ways": 4},
        measures=("community.row_finisher",),
    ),
    Block(name="community.scanner", factory="tb.community.factories:scanner", formal="tb.community.formal_scanner"),
    Block(
        name="community.summer",
        factory="tb.community.factories:summer",
        bench="tb.community.test_summer",
        bench_factory="tb.community.test_summer:summer",
        bench_parameters={
            "lanes": 8,
            "width": 16,
            "columns": 32,
            "max_out": 35,
            "weight_rows": 64,
            "partials": True,
        },
        narrow={"lanes": 4, "width": 8, "columns": 16, "max_out": 6, "weight_rows": 16, "data_width": 64},
    ),
    Block(
        # Measures its parts that have no bench of their own, too.
        name="community.pe",
        factory="tb.community.factories:pe",
        parameters={"ways": 4},
        bench="tb.community.test_pe",
        bench_parameters={"lanes": 8, "width": 64, "columns": 128, "partners": 8, "max_out": 19, "weight_rows": 64},
        narrow={
            "lanes": 4,
            "width": 16,
            "columns": 32,
            "partners": 2,
            "max_out": 6,
            "weight_rows": 16,
            "data_width": 64,
            "counter_bits": 10,
        },
        measures=("community.scanner",),
    ),
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
        name="islands.column_table", factory="tb.islands.parts:column_table", formal="tb.islands.formal_column_table"
    ),
    Block(name="islands.resolver", factory="tb.islands.parts:resolver", formal="tb.islands.formal_resolver"),
    *(
        Block(name=f"islands.{part}", factory=f"tb.islands.parts:{part}", formal=f"tb.islands.formal_{part}")
        for part in ("dispatcher", "task_generator")
    ),
    Block(name="islands.state_pager", factory="tb.islands.parts:state_pager", formal="tb.islands.formal_state_pager"),
    Block(
        name="islands.record_merger",
        factory="hw.islands.record_merger:RecordMerger",
        parameters={"count": 4},
        formal="tb.islands.formal_record_merger",
    ),
    *(Block(name=f"islands.{part}", factory=f"tb.islands.parts:{part}") for part in _ISLAND_PARTS),
    Block(
        # Measures the benches of its parts, too.
        name="islands.locator",
        factory="tb.islands.parts:locator",
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
    *(
        Block(
            name=f"attributes.{part}",
            factory="tb.attributes.parts:part",
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
        factory="tb.attributes.parts:part",
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
    Block(name="attributes.core", factory="tb.attributes.parts:core"),
    Block(
        # Measures chooser, mixer, row finder and both samplers.
        name="attributes.sampler",
        factory="tb.attributes.parts:sampler",
        bench="tb.attributes.test_sampler",
        synth=False,
        launch="tb.attributes.parts:launch_sampler",
        measures=tuple(
            f"attributes.{part}"
            for part in ("chooser", "state_mixer", "row_finder", "structure_processor", "negative_sampler")
        ),
    ),
    Block(
        # Measures command processor, core and the attribute RAM within.
        name="attributes.accelerator",
        factory="tb.attributes.parts:accelerator",
        parameters={"cores": 1},
        bench="tb.attributes.test_accelerator",
        bench_parameters={"cores": 1},
        synth=False,
        launch="tb.attributes.parts:launch_accelerator",
    ),
)


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
