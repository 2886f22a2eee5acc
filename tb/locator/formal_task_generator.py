"""Proof of the task generator: every neighbour of every hub is in one task, in order, and no task crosses a line."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal
from amaranth.utils import exact_log2

from hw.locator.config import LocatorConfig
from hw.locator.task_generator import TaskGenerator
from sim.harness.formal import Proof

_CONFIG = LocatorConfig(
    engines=1, searches=1, lanes=1, nodes=64, edges=64, banks=2, data_width=128, tag_bits=4, tasks=2
)


class TaskGeneratorSpec(Elaboratable):
    """Hubs are numbered as they come; one, any of them, is followed through its tasks."""

    def elaborate(self, platform: Any) -> Module:
        """Drive hubs with rows of any place and length."""
        m = Module()
        config = _CONFIG
        m.submodules.dut = dut = TaskGenerator(config)
        hub, task, words = dut.i.payload, dut.o.payload, config.line_words

        followed, hubs, tasks = Signal(3), Signal(3), Signal(4)
        m.d.comb += [
            followed.eq(AnyConst(3)),
            dut.i.valid.eq(AnySeq(1)),
            dut.o.ready.eq(AnySeq(1)),
            hub.vertex.eq(hubs),
            hub.row.start.eq(AnySeq(config.edge_bits)),
            hub.row.degree.eq(AnySeq(config.node_bits)),
            hub.isolated.eq(hub.row.degree == 0),
            Assume(hub.row.start + hub.row.degree < config.edges),
            Assume(hubs != 7),
            Assume(tasks != 15),
        ]
        comes, goes = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
        at, left, degree = Signal(config.edge_bits), Signal(config.node_bits), Signal(config.node_bits)
        open_, head = Signal(), Signal()
        with m.If(comes):
            m.d.sync += hubs.eq(hubs + 1)
            with m.If(hubs == followed):
                row = hub.row
                m.d.sync += [open_.eq(1), head.eq(1), at.eq(row.start), left.eq(row.degree), degree.eq(row.degree)]
        room = Signal(range(words + 1))
        m.d.comb += room.eq(words - at[: exact_log2(words)])
        with m.If(goes):
            m.d.sync += tasks.eq(tasks + 1)
            with m.If(task.vertex == followed):
                m.d.comb += [
                    Assert(open_),
                    Assert(task.head == head),
                    Assert(task.isolated == (degree == 0)),
                    Assert(task.start == at),
                    Assert(task.count == Mux(left < room, left, room)),
                ]
                m.d.sync += [head.eq(0), at.eq(at + task.count), left.eq(left - task.count)]
                with m.If(left == task.count):
                    m.d.sync += open_.eq(0)
            with m.Else():
                # Hubs come out in the order in which they went in.
                m.d.comb += Assert(~open_ | (task.vertex < followed))
        m.d.comb += [
            Assert(~open_ | dut.busy),
            Cover(goes & (task.vertex == followed) & (followed == 1) & ~head & (left == task.count)),
            Cover(goes & task.isolated & (followed == 1)),
        ]
        return m


PROOFS = [
    Proof("cuts_every_row_into_lines", TaskGeneratorSpec, "bmc", 8),
    Proof("cuts_long_rows_into_lines", TaskGeneratorSpec, "bmc", 12, quick=False),
    Proof("reaches_its_states", TaskGeneratorSpec, "cover", 12),
]
