"""Design under test: the locator at an AXI4 port, graphs in its memory, and the results of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import LINE_BYTES, Opcode
from golden.graph import Graph
from golden.locator.locator import Limits
from golden.locator.schedule import Schedule
from hw.graph.csr_reader import ErrorReport
from hw.locator.config import LocatorConfig
from hw.locator.formats import HubDegree, RecordBeat, location_command
from hw.locator.locator import Counters, Locator
from hw.memory.axi import AXI4Signature, connect_flat, flat_members
from hw.memory.read_arbiter import ReadArbiter
from hw.memory.write_port import WritePort
from hw.stream.black_box import black_boxes_of

__all__ = ["MOST_PAGE", "Layout", "LocatorDesign", "engine_blocks", "lay_out"]

#: Vertices of the largest page that fits.
MOST_PAGE = 256

#: Engines from which on one compiled module saves more of the compiler's time than it costs the simulator.
_MANY = 4
#: Outstanding bursts of a client, with the adjacency on the chip and with lines read on demand.
_BURSTS, _LINES = 16, 128


class LocatorDesign(wiring.Component):
    """A `Locator` behind a read arbiter with flat AXI4 ports; parameters as for `LocatorConfig`.

    Several engines are black boxes, generated once, unless `once` is false.
    """

    def __init__(self, *, once: bool = True, **parameters: Any) -> None:
        self.config = config = LocatorConfig(**parameters)
        self.locator = Locator(config, once=once and config.engines > 1)
        outstanding = _LINES if config.external else _BURSTS
        # An arbiter has two clients or more.
        clients = max(2, config.clients)
        self.arbiter = ReadArbiter(config.address_width, config.data_width, clients, outstanding)
        port = AXI4Signature(config.address_width, config.data_width, self.arbiter.id_width)
        super().__init__(
            {
                "active": In(range(self.config.engines + 1)),
                "command": In(stream.Signature(location_command(config.address_width))),
                "completion": Out(stream.Signature(ErrorReport)),
                "hubs": Out(stream.Signature(HubDegree(config), always_ready=True)),
                "records": Out(stream.Signature(RecordBeat)).array(config.outputs),
                "counters": Out(Counters),
                **flat_members("m_axi", Out(port)),
            }
        )

    @property
    def modules(self) -> dict[str, Any]:
        """Black boxes, by the name of their module."""
        return black_boxes_of(self.locator)

    def elaborate(self, platform: object) -> Module:
        """Connect locator and read arbiter."""
        m = Module()
        m.submodules.locator = locator = self.locator
        m.submodules.arbiter = arbiter = self.arbiter
        wiring.connect(m, wiring.flipped(self.command), locator.command)
        wiring.connect(m, locator.completion, wiring.flipped(self.completion))
        wiring.connect(m, locator.hubs, wiring.flipped(self.hubs))
        for n in range(self.config.outputs):
            wiring.connect(m, locator.records[n], wiring.flipped(self.records[n]))
        for client in range(self.config.clients):
            wiring.connect(m, locator.requests[client], arbiter.requests[client])
            wiring.connect(m, arbiter.beats[client], locator.beats[client])
        wiring.connect(m, arbiter.failure, locator.failure)
        connect_flat(m, self, "m_axi", arbiter.m_axi)
        if self.config.paged:
            widths = (self.config.address_width, self.config.data_width)
            m.submodules.writer = writer = WritePort(*widths, id_width=arbiter.id_width)
            wiring.connect(m, locator.write, writer.i)
            wiring.connect(m, writer.failure, locator.write_failure)
            m.d.comb += locator.unwritten.eq(writer.busy)
            connect_flat(m, self, "m_axi", writer.m_axi)
        m.d.comb += locator.active.eq(self.active)
        m.d.comb += self.counters.eq(locator.counters)
        return m


def engine_blocks(machine: LocatorDesign) -> tuple[str, ...]:
    """Return `sim.harness.BuildOptions.blocks`: the engine, compiled once for all instances."""
    return tuple(machine.modules) if machine.config.engines >= _MANY else ()


@dataclass(frozen=True)
class Layout:
    """A graph in memory: its bytes, and the fields of a LOCATE command with the addresses of its arrays."""

    image: bytes
    fields: dict[str, int]

    def command(self, schedule: Schedule, limits: Limits, **changes: int) -> dict[str, int]:
        """Return the fields of a command, with `changes`."""
        return {
            "opcode": int(Opcode.LOCATE),
            **self.fields,
            "halving": int(schedule.halving),
            "by_degrees": int(schedule.by_degrees),
            "threshold": 0 if schedule.by_degrees else schedule.threshold,
            "step": schedule.step,
            "rounds": schedule.rounds,
            "c_max": limits.c_max,
            "h_max": limits.h_max,
            **changes,
        }


def lay_out(graph: Graph, *, offsets: Any = None, edges: Any = None, first_line: int = 0) -> Layout:
    """Put the offsets and edges of a graph into a memory, and room for the state of its vertices.

    Parameters
    ----------
    graph
        The graph.
    offsets, edges
        Other contents of these arrays.
    first_line
        Line address of the first array.
    """
    image, lines = bytes(first_line * LINE_BYTES), {}
    for name, array in (
        ("offsets", graph.offsets if offsets is None else offsets),
        ("edges", graph.edges if edges is None else edges),
        # At most 16 bytes for each vertex, in whole pages; its contents before a run do not matter.
        ("state", np.full(4 * (graph.nodes + MOST_PAGE), 0xDEADBEEF, np.uint32)),
    ):
        lines[name] = len(image) // LINE_BYTES
        image += np.asarray(array, dtype="<u4").tobytes()
        image += bytes(-len(image) % LINE_BYTES)
    return Layout(
        image,
        {**lines, "first_vertex": 0, "vertices": graph.nodes, "edge_count": graph.edge_count},
    )
