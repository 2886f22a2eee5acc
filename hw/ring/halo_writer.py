"""Halo writer: writes rows from the ring to their places in this chiplet's memory (R4)."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import PACKET_HEADER, Error
from hw.contracts import struct
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import WriteRequest
from hw.ring.formats import Flit
from hw.ring.sender import RowSettings
from hw.stream.slice import Slice

__all__ = ["HaloWriter"]


class HaloWriter(wiring.Component):
    """Packs flits into beats and writes them; depends on the memory alone.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    width
        Bits of a flit, at most a beat.
    max_beats
        Beats of the longest row.

    Attributes
    ----------
    rows : In(RowSettings)
        Constant while packets arrive.
    i : stream of `Flit`
        Whole packets, header first.
    o : stream of `WriteRequest`
    idle : Out(1)
        No write is pending.
    written : Out(1)
        Pulse: the last beat of a row is taken.
    error : stream of `ErrorReport`, always ready
        ``BAD_PACKET`` with the VID of a packet that is longer or shorter than a row; nothing is written behind the
        row.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256, width: int = 64, max_beats: int = 4) -> None:
        self.data_width, self.width = data_width, width
        self._write = WriteRequest(address_width, data_width)
        super().__init__(
            {
                "rows": In(RowSettings(address_width, data_width, max_beats)),
                "i": In(stream.Signature(Flit(width))),
                "o": Out(stream.Signature(self._write)),
                "idle": Out(1),
                "written": Out(1),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Take the address from the header and pack the row behind it."""
        m = Module()
        m.submodules.out = out = Slice(data.StructLayout({"write": self._write, "ends": 1}))
        write = out.i.payload.write
        parts = self.data_width // self.width
        header = data.View(struct(PACKET_HEADER), self.i.payload.data[: PACKET_HEADER.bits])
        inside = Signal()
        address = Signal.like(self.rows.base)
        part = Signal(max(1, exact_log2(parts)))
        # Earlier parts of the beat, and the same with the current part.
        packed, filled = Signal(max(1, self.data_width - self.width)), Signal(self.data_width)
        last_part = (part == parts - 1) | self.i.payload.last
        vid = Signal(32)
        flit = Signal.like(self.rows.last_flit)
        beyond = Signal()
        m.d.comb += filled.eq(Mux(part == 0, 0, packed))
        m.d.comb += filled.word_select(part, self.width).eq(self.i.payload.data)
        m.d.comb += [
            write.address.eq(address),
            write.data.eq(filled),
            write.strobe.eq(~0),
            out.i.payload.ends.eq(self.i.payload.last),
            self.o.payload.eq(out.o.payload.write),
            self.o.valid.eq(out.o.valid),
            out.o.ready.eq(self.o.ready),
            self.written.eq(out.o.valid & out.o.ready & out.o.payload.ends),
            out.i.valid.eq(self.i.valid & inside & last_part & ~beyond),
            self.i.ready.eq(~inside | ~last_part | beyond | out.i.ready),
            self.idle.eq(~inside & ~out.o.valid),
            self.error.valid.eq(
                self.i.valid & self.i.ready & self.i.payload.last & (~inside | beyond | (flit != self.rows.last_flit))
            ),
            self.error.payload.code.eq(Error.BAD_PACKET),
            self.error.payload.info.eq(Mux(inside, vid, header.vid)),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += inside.eq(~self.i.payload.last)
            with m.If(~inside):
                m.d.sync += [address.eq(self.rows.base + header.vid * self.rows.stride), part.eq(0)]
                m.d.sync += [vid.eq(header.vid), flit.eq(0), beyond.eq(0)]
            with m.Else():
                m.d.sync += [flit.eq(flit + 1), beyond.eq(beyond | (flit == self.rows.last_flit))]
                m.d.sync += [packed.eq(filled), part.eq(Mux(last_part, 0, part + 1)), address.eq(address + last_part)]
        return m
