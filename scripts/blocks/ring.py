"""Blocks of the ring of chiplets."""

from scripts.blocks.block import Block

__all__ = ["BLOCKS"]

#: Parts of the ring unit that are tried alone, side by side, and synthesised as ``configs/default.toml`` has them.
_RING_PARTS = (
    "boundary_table", "control", "packet_router", "halo_writer", "halt", "route_decision",
    "packet_guard", "packet_queue", "reducer", "row_gate", "send_queue", "sender", "local_adder", "shared_reader",
    "sum_writer", "tokens",
)  # fmt: skip

#: Parts of the shared lines.
_LINE_PARTS = ("line_table", "line_splitter", "line_bursts", "line_receiver", "line_server", "reply_store")

#: In the order of the tables.
BLOCKS: tuple[Block, ...] = (
    Block(
        name="ring.station",
        factory="hw.ring.station:Station",
        parameters={"link_width": 64, "slots": 4, "max_flits": 9},
        bench="tb.ring.test_station",
        bench_factory="sim.ring.stations:RingOfStations",
        bench_parameters={"stations": 4, "slots": 4, "max_flits": 4},
        formal="tb.ring.formal_station",
    ),
    Block(
        # Side by side; measures the benches of all parts that can be tried alone.
        name="ring.parts",
        factory="sim.ring.parts:RingParts",
        bench="tb.ring.test_parts",
        formal="tb.ring.formal_passes",
        synth=False,
        measures=(
            "ring.remote_array",
            "ring.needed_list",
            "ring.list_control",
            "ring.filter_array",
            "ring.filter_window",
            "ring.filter_feed",
            "ring.filter_generator",
            "ring.link_watch",
            *(f"ring.{part}" for part in _RING_PARTS),
            "memory.axi_merge",
            "memory.word_writer",
        ),
    ),
    Block(name="ring.remote_array", factory="hw.ring.remote_array:RemoteArray"),
    Block(name="ring.needed_list", factory="hw.ring.needed_list:NeededList", parameters={"bitmap": 65536}),
    Block(name="ring.list_control", factory="hw.ring.list_control:ListControl"),
    Block(name="ring.filter_array", factory="hw.ring.filter_array:FilterArray"),
    Block(
        name="ring.filter_window",
        factory="hw.ring.filter_window:FilterWindow",
        formal="tb.ring.formal_filter",
    ),
    Block(name="ring.filter_feed", factory="hw.ring.filter_feed:FilterFeed"),
    Block(name="ring.filter_generator", factory="hw.ring.filter_generator:FilterGenerator"),
    Block(name="ring.link_watch", factory="hw.ring.link_watch:LinkWatch"),
    *(Block(name=f"ring.{part}", factory="hw.ring.factories:made", parameters={"name": part}) for part in _RING_PARTS),
    Block(
        # Both directions between units and links.
        name="ring.packer",
        factory="hw.ring.packer:Packer",
        parameters={"width": 256, "link_width": 512},
        bench="tb.ring.test_packing",
        bench_factory="tb.ring.test_packing:packing",
        bench_parameters={"width": 128, "link_width": 256},
        formal="tb.ring.formal_packing",
        measures=("ring.unpacker",),
    ),
    Block(
        name="ring.unpacker",
        factory="hw.ring.unpacker:Unpacker",
        parameters={"width": 256, "link_width": 512},
    ),
    Block(
        name="ring.halo_limits",
        factory="hw.ring.halo_limits:HaloLimits",
        parameters={"address_width": 32, "data_width": 256, "chiplets": 16, "max_beats": 4},
        bench="tb.ring.test_halo_limits",
        formal="tb.ring.formal_limits",
        bench_parameters={"address_width": 32, "data_width": 64, "chiplets": 16, "max_beats": 5},
        narrow={"address_width": 32, "data_width": 64, "chiplets": 2, "max_beats": 2},
    ),
    # Ends of links between two clocks; whole rings of them are run by tb/ring/test_ring_clocks.py.
    Block(name="ring.arrival_queue", factory="hw.ring.factories:made", parameters={"name": "arrival_queue"}),
    Block(
        name="ring.credit_crossing",
        factory="hw.ring.factories:made",
        parameters={"name": "credit_crossing"},
        formal="tb.ring.formal_link",
    ),
    Block(name="ring.state_crossing", factory="hw.ring.factories:made", parameters={"name": "state_crossing"}),
    Block(
        # Measures the parts of the way to lines of other chiplets.
        name="ring.shared_lines",
        factory="hw.ring.factories:made",
        parameters={"name": "shared_lines"},
        bench="tb.ring.test_shared_lines",
        bench_factory="tb.ring.test_shared_lines:shared_lines",
        bench_parameters={"data": 256, "link": 64, "chiplets": 4, "requests": 4, "reply_beats": 8, "address": 20},
        narrow={"data": 64, "link": 64, "chiplets": 2, "requests": 2, "reply_beats": 1, "address": 20},
        formal="tb.ring.formal_lines",
        measures=tuple(f"ring.{part}" for part in _LINE_PARTS),
    ),
    *(Block(name=f"ring.{part}", factory="hw.ring.factories:made", parameters={"name": part}) for part in _LINE_PARTS),
    Block(name="ring.ring_unit", factory="hw.ring.factories:ring_unit", parameters={"max_out": 16, "data_width": 64}),
    Block(
        # Measures the ring unit, which connects the parts, and what connects it with a chiplet.
        name="ring.ring_chiplet",
        factory="hw.ring.factories:ring_chiplet",
        bench="tb.ring.test_ring_chiplet",
        bench_factory="tb.ring.test_ring_chiplet:chiplet",
        bench_parameters={"chiplets": 3},
        synth=False,
        launch="tb.ring.test_ring_chiplet:launch",
        measures=("ring.ring_unit",),
    ),
)
