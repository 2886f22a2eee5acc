"""Array port: registers through which a host starts and stops an array of DNP-IIs and sees how it fares (D10)."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from contracts import ArrayError
from contracts.dnp.isa import StopCode
from contracts.dnp.topology import Topology
from contracts.registers import (
    ARRAY_COUNTERS,
    ARRAY_REGISTERS,
    REGISTER_BITS,
    REGISTER_BYTES,
    array_register,
)
from hw.contracts import struct
from hw.dnp.formats import Refusal
from hw.host.axi_lite import AXI4LiteSignature, AXILiteSubordinate
from hw.memory.axi import connect_flat, flat_members

__all__ = ["ADDRESS_WIDTH", "ArrayPort"]

#: Width of byte addresses of the port.
ADDRESS_WIDTH = bits_for(max(entry.address for entry in ARRAY_REGISTERS))


class ArrayPort(wiring.Component):
    """Registers of `contracts.registers.ARRAY_REGISTERS` between a host and an array.

    These accesses are refused with SLVERR, have no effect and count as `ArrayError.ACCESS`: an address without a
    register, a write to a read-only register, a start, a flush or other joints during a run, a flush while words are
    read back, and joints that the array does not have.

    Parameters
    ----------
    sizes
        Values of the registers that describe the hardware, by name.
    topologies
        Joints that the array has.
    counter_bits
        Bits of each counter, 1..32; counters wrap.

    Attributes
    ----------
    s_axil_* : AXI4-Lite subordinate
    irq : Out(1)
        High while a run is done, not acknowledged, and the interrupt is enabled.
    start, stop, flush : Out(1)
        High for a clock.
    topology, host, packet : Out
        Registers JOINTS and PACKET.
    busy, done, loading, answering : In(1)
        A run is under way; it ends in this clock; see STATUS.
    code, processor : In
        Program that ended by an error, or code 0.
    refusal : In
        See `Refusal`; one that comes in the clock of a refused access counts first.
    counts : In
        A bit for each of `ARRAY_COUNTERS`: it counts in this clock.

    Raises
    ------
    ValueError
        If `counter_bits` is out of its range.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        topologies: tuple[Topology, ...] = tuple(Topology),
        counter_bits: int = REGISTER_BITS,
    ) -> None:
        if not 1 <= counter_bits <= REGISTER_BITS:
            raise ValueError(f"counter_bits must be in 1..{REGISTER_BITS}, not {counter_bits!r}")
        self.sizes, self.topologies, self._counter_bits = sizes, topologies, counter_bits
        super().__init__(
            {
                **flat_members("s_axil", In(AXI4LiteSignature(ADDRESS_WIDTH))),
                "irq": Out(1),
                "start": Out(1),
                "stop": Out(1),
                "flush": Out(1),
                "topology": Out(2),
                "host": Out(4),
                "packet": Out(16),
                "busy": In(1),
                "done": In(1),
                "loading": In(1),
                "answering": In(1),
                "code": In(StopCode),
                "processor": In(16),
                "refusal": In(Refusal()),
                "counts": In(len(ARRAY_COUNTERS)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Answer reads, carry out writes, count, keep the first error; a later assignment wins."""
        m = Module()
        m.submodules.bus = bus = AXILiteSubordinate(ADDRESS_WIDTH)
        connect_flat(m, self, "s_axil", bus.bus)
        enabled, done = Signal(), Signal()
        error, info = Signal(8), Signal(REGISTER_BITS)
        counters = [Signal(self._counter_bits, name=name) for name in ARRAY_COUNTERS]
        m.d.comb += self.irq.eq(done & enabled)
        stopped = self.code != StopCode.NONE
        values: dict[str, Value] = {
            "STATUS": Cat(self.busy, done, error != 0, self.irq, stopped, self.loading, self.answering),
            "JOINTS": Cat(self.topology, self.host),
            "INTERRUPT": enabled,
            "PACKET": self.packet,
            "ERROR": error,
            "INFO": info,
            "STOP": Cat(self.code, Const(0, 8 - len(self.code)), self.processor),
            "CONTROL": Const(0),
            **{name: Const(value, REGISTER_BITS) for name, value in self.sizes.items()},
            **{name.upper(): counter for name, counter in zip(ARRAY_COUNTERS, counters, strict=True)},
        }
        m.d.comb += bus.read_refused.eq(1)
        with m.Switch(bus.read_index):
            for entry in ARRAY_REGISTERS:
                with m.Case(entry.address // REGISTER_BYTES):
                    m.d.comb += [bus.read_data.eq(values.get(entry.name, entry.reset)), bus.read_refused.eq(0)]
        m.d.sync += [counter.eq(counter + count) for counter, count in zip(counters, self.counts, strict=True)]
        acknowledged, cleared = self._write(m, bus, enabled)
        with m.If(acknowledged):
            m.d.sync += done.eq(0)
        with m.If(cleared):
            m.d.sync += [error.eq(0), info.eq(0), *(counter.eq(0) for counter in counters)]
        # Behind the host's writes, so that neither a run that ends in the same clock nor an error is lost.
        with m.If(self.done):
            m.d.sync += done.eq(1)
        with m.If((error == 0) | cleared):
            index = Signal.like(bus.read_index)
            with m.If(self.refusal.code != 0):
                m.d.sync += [error.eq(self.refusal.code), info.eq(self.refusal.info)]
            with m.Elif((bus.write & bus.write_refused) | (bus.read & bus.read_refused)):
                m.d.comb += index.eq(bus.read_index)
                with m.If(bus.write & bus.write_refused):
                    m.d.comb += index.eq(bus.write_index)
                m.d.sync += [error.eq(ArrayError.ACCESS), info.eq(index * REGISTER_BYTES)]
        return m

    def _write(self, m: Module, bus: AXILiteSubordinate, enabled: Signal) -> tuple[Signal, Signal]:
        """Refuse or carry out a write; return whether it acknowledges a run, and clears; missing bytes are 0."""
        given = Signal(REGISTER_BITS)
        m.d.comb += given.eq(bus.write_data & Cat(bit.replicate(8) for bit in bus.write_strobe))
        control = data.View(struct(array_register("CONTROL").layout), given)
        joints = data.View(struct(array_register("JOINTS").layout), given)
        carried, acknowledged, cleared = Signal(), Signal(), Signal()
        m.d.comb += [bus.write_refused.eq(1), carried.eq(bus.write & ~bus.write_refused)]
        with m.Switch(bus.write_index):
            with m.Case(_index("CONTROL")):
                m.d.comb += [
                    bus.write_refused.eq(
                        ((control.start | control.flush) & self.busy)
                        | (control.flush & (self.answering | control.start))
                    ),
                    self.start.eq(carried & control.start),
                    self.stop.eq(carried & control.stop),
                    self.flush.eq(carried & control.flush),
                    acknowledged.eq(carried & (control.acknowledge | control.start)),
                    cleared.eq(carried & control.clear),
                ]
            with m.Case(_index("JOINTS")):
                known = Cat(joints.topology == topology for topology in self.topologies).any()
                m.d.comb += bus.write_refused.eq(self.busy | ~known)
                with m.If(carried):
                    m.d.sync += [self.topology.eq(joints.topology), self.host.eq(joints.host)]
            with m.Case(_index("INTERRUPT")):
                m.d.comb += bus.write_refused.eq(0)
                with m.If(carried):
                    m.d.sync += enabled.eq(given[0])
            with m.Case(_index("PACKET")):
                m.d.comb += bus.write_refused.eq(0)
                with m.If(carried):
                    m.d.sync += self.packet.eq(given)
        return acknowledged, cleared


def _index(name: str) -> int:
    """Return the number of a register."""
    return array_register(name).address // REGISTER_BYTES
