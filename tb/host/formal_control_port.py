"""Proofs of the control port: AXI4-Lite's rules, one answer for each access, one run for each start."""

from types import SimpleNamespace
from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cat, Cover, Elaboratable, Module, Signal, Value

from contracts.registers import register
from hw.host.control_port import ControlPort
from sim.harness.formal import Proof, assert_stream, assume_stream

#: Width of the memory port's addresses.
ADDRESS_WIDTH = 8


def channel(dut: ControlPort, name: str, *payload: str) -> Any:
    """Return a channel of the AXI4-Lite port as a stream."""
    ports = {part: getattr(dut, f"s_axil_{name}{part}") for part in ("valid", "ready")}
    return SimpleNamespace(**ports, payload=Cat(getattr(dut, f"s_axil_{part}") for part in payload))


class ControlPortSpec(Elaboratable):
    """A host that keeps the rules of the bus, and a machine that ends each run once."""

    def elaborate(self, platform: Any) -> Module:
        """Drive everything freely; count what is asked and what is answered."""
        m = Module()
        m.submodules.dut = dut = ControlPort(ADDRESS_WIDTH)
        free = ("awaddr", "awvalid", "wdata", "wstrb", "wvalid", "bready", "araddr", "arvalid", "rready")
        for name in free:
            port = getattr(dut, f"s_axil_{name}")
            m.d.comb += port.eq(AnySeq(len(port)))
        free_inputs = (dut.opcode, dut.layer, dut.read_beat, dut.write_beat, dut.unit_cycles)
        for port in (*free_inputs, dut.done.valid, dut.start.ready):
            m.d.comb += port.eq(AnySeq(len(port)))
        m.d.comb += Value.cast(dut.done.payload).eq(AnySeq(len(Value.cast(dut.done.payload))))

        address = channel(dut, "aw", "awaddr")
        written = channel(dut, "w", "wdata", "wstrb")
        answer = channel(dut, "b", "bresp")
        asked = channel(dut, "ar", "araddr")
        read = channel(dut, "r", "rdata", "rresp")
        for name, port in (("aw", address), ("w", written), ("ar", asked)):
            assume_stream(m, port, name)
        for name, port in (("b", answer), ("r", read), ("start", dut.start)):
            assert_stream(m, port, name)

        def passes(port: Any) -> Any:
            return port.valid & port.ready

        def owed(name: str, more: Any, less: Any) -> Signal:
            count = Signal(3, name=name)
            m.d.sync += count.eq(count + more - less)
            return count

        # An answer for each access: never before the access is whole, and at once when the one before is taken.
        addresses = owed("addresses", passes(address), passes(answer))
        data = owed("data", passes(written), passes(answer))
        reads = owed("reads", passes(asked), passes(read))
        waited = Signal(2)
        with m.If((addresses != 0) & (data != 0) & ~answer.valid):
            m.d.sync += waited.eq(waited + 1)
        with m.Else():
            m.d.sync += waited.eq(0)
        m.d.comb += [
            Assert((addresses <= 2) & (data <= 2) & (reads <= 2)),
            Assert(~answer.valid | ((addresses != 0) & (data != 0))),
            Assert(~read.valid | (reads != 0)),
            Assert(waited <= 1),
        ]

        # One run at a time, and one for each start that was not refused.
        under_way = Signal()
        with m.If(passes(dut.start)):
            m.d.sync += under_way.eq(1)
        with m.If(dut.done.valid):
            m.d.sync += under_way.eq(0)
        m.d.comb += [
            Assume(~dut.done.valid | under_way),
            Assert(~(dut.start.valid & under_way)),
            Assert(~(dut.irq & (dut.start.valid | under_way))),
            Assert(dut.done.ready),
        ]
        runs = owed("runs", dut.done.valid, 0)
        status = register("STATUS")
        seen = Signal(4)
        with m.If(passes(read)):
            m.d.sync += seen.eq(dut.s_axil_rdata[:4])
        m.d.comb += [
            Cover(dut.irq & (seen == status.layout.pack({"done": 1, "failed": 1, "interrupt": 1}))),
            Cover(runs == 2),
            Cover((addresses == 2) & (data == 2)),
            Cover(answer.valid & (dut.s_axil_bresp != 0) & under_way),
        ]
        return m


PROOFS = [
    Proof("accesses_are_answered_and_runs_end_once", ControlPortSpec, "bmc", 14),
    Proof("reaches_its_states", ControlPortSpec, "cover", 30),
]
