"""AXI4-Lite subordinate: turns the five channels into single reads and writes of registers."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.memory.axi import Response

__all__ = ["AXI4LiteSignature", "AXILiteSubordinate"]


class AXI4LiteSignature(wiring.Signature):
    """All five channels, as seen by the manager.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    data_width
        Width of a register, in bits.
    """

    def __init__(self, address_width: int, data_width: int = 32) -> None:
        super().__init__(
            {
                "awaddr": Out(address_width),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(data_width),
                "wstrb": Out(data_width // 8),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(address_width),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(data_width),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class AXILiteSubordinate(wiring.Component):
    """One write and one read at a time; address and data of a write may come in any order.

    An access lasts one cycle and is answered in that cycle by `refused` and `read_data`; the host sees the answer in
    the next one. Both sides of every channel are registers.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    data_width
        Width of a register, in bits.

    Attributes
    ----------
    bus : AXI4-Lite subordinate
    write, write_index, write_data, write_strobe : Out
        A write in this cycle: the register's number (byte address / bytes of a register), a strobe bit for each byte.
    write_refused : In(1)
        The write has no effect and ends in SLVERR.
    read, read_index : Out
        A read in this cycle.
    read_data, read_refused : In
        Answer to the read; a refused one ends in SLVERR.
    """

    def __init__(self, address_width: int, data_width: int = 32) -> None:
        self._low = exact_log2(data_width // 8)  # bits of an address within a register
        index = address_width - self._low
        super().__init__(
            {
                "bus": In(AXI4LiteSignature(address_width, data_width)),
                "write": Out(1),
                "write_index": Out(index),
                "write_data": Out(data_width),
                "write_strobe": Out(data_width // 8),
                "write_refused": In(1),
                "read": Out(1),
                "read_index": Out(index),
                "read_data": In(data_width),
                "read_refused": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Hold address and data of a write until both are there, and each answer until it is taken."""
        m = Module()
        bus = self.bus
        # Write: address and data wait for one another, then for the previous answer to be taken.
        address_held, data_held = Signal(), Signal()
        m.d.comb += [
            bus.awready.eq(~address_held),
            bus.wready.eq(~data_held),
            self.write.eq(address_held & data_held & ~bus.bvalid),
        ]
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [address_held.eq(1), self.write_index.eq(bus.awaddr[self._low :])]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += [data_held.eq(1), self.write_data.eq(bus.wdata), self.write_strobe.eq(bus.wstrb)]
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(self.write):
            m.d.sync += [
                address_held.eq(0),
                data_held.eq(0),
                bus.bvalid.eq(1),
                bus.bresp.eq(Mux(self.write_refused, Response.SLVERR, Response.OKAY)),
            ]
        # Read.
        asked = Signal()
        m.d.comb += [bus.arready.eq(~asked), self.read.eq(asked & ~bus.rvalid)]
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [asked.eq(1), self.read_index.eq(bus.araddr[self._low :])]
        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        with m.If(self.read):
            m.d.sync += [
                asked.eq(0),
                bus.rvalid.eq(1),
                bus.rdata.eq(self.read_data),
                bus.rresp.eq(Mux(self.read_refused, Response.SLVERR, Response.OKAY)),
            ]
        return m
