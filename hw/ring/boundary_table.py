"""Boundary table: first VID of every chiplet, read from memory before rows travel (R8)."""

from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.memory.formats import RangeRequest, Word
from hw.ring.formats import POSITION_BITS

__all__ = ["BoundaryTable"]


class BoundaryTable(wiring.Component):
    """A register for each boundary, filled in order.

    Parameters
    ----------
    address_width
        Width of byte addresses, in bits.
    chiplets
        Most chiplets of a ring.

    Attributes
    ----------
    start : In(1)
        Read the table; `address` and `chiplets` are constant until `done`.
    chiplets : In
        Number of chiplets; the table has one entry more.
    address : In
        Word address of the table.
    request : stream of `RangeRequest`
    i : stream of `Word`
    boundaries : Out
        Entries behind the table hold its last one, the number of vertices.
    done : Out(1)
        No read is pending.
    """

    def __init__(self, address_width: int = 32, chiplets: int = 4) -> None:
        self.most = chiplets
        super().__init__(
            {
                "start": In(1),
                "chiplets": In(POSITION_BITS),
                "address": In(RangeRequest(address_width)["address"].shape),
                "request": Out(stream.Signature(RangeRequest(address_width))),
                "i": In(stream.Signature(Word())),
                "boundaries": Out(data.ArrayLayout(32, chiplets + 1)),
                "done": Out(1, init=1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Request the table once; every word that arrives fills its entry and all behind it."""
        m = Module()
        asks = Signal()
        place = Signal(range(self.most + 2))
        m.d.comb += [
            self.request.valid.eq(asks),
            self.request.payload.address.eq(self.address),
            self.request.payload.words.eq(self.chiplets + 1),
            self.i.ready.eq(1),
        ]
        with m.If(self.request.ready):
            m.d.sync += asks.eq(0)
        with m.If(self.i.valid):
            m.d.sync += place.eq(place + 1)
            for n in range(self.most + 1):
                with m.If(place <= n):
                    m.d.sync += self.boundaries[n].eq(self.i.payload.data)
            with m.If(self.i.payload.last):
                m.d.sync += self.done.eq(1)
        with m.If(self.start):
            m.d.sync += [asks.eq(1), place.eq(0), self.done.eq(0)]
        return m
