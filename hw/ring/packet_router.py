"""Packet router: routes packets from the ring to the unit for their kind."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import PACKET_HEADER, PacketKind
from hw.contracts import struct
from hw.ring.formats import Flit

__all__ = ["PacketRouter"]


class PacketRouter(wiring.Component):
    """Routes each packet, header and body, by the kind in its header.

    Parameters
    ----------
    width
        Bits of a flit.
    divided
        Whether there are packets of lines.

    Attributes
    ----------
    i : stream of `Flit`
        Packets.
    stopped : In(1)
        Partial sums are dropped, because the reducer has stopped.
    features, partials : streams of `Flit`
    control : stream of `Flit`, always ready
    lines : stream of `Flit`
        If there are such packets.
    """

    def __init__(self, width: int = 64, *, divided: bool = False) -> None:
        self.width, self.divided = width, divided
        flits = stream.Signature(Flit(width))
        super().__init__(
            {
                "i": In(flits),
                "stopped": In(1),
                "features": Out(flits),
                "partials": Out(flits),
                "control": Out(stream.Signature(Flit(width), always_ready=True)),
                **({"lines": Out(flits)} if divided else {}),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Hold the header's kind until the packet ends."""
        m = Module()
        header = data.View(struct(PACKET_HEADER), self.i.payload.data[: PACKET_HEADER.bits])
        inside = Signal()
        kind, held = Signal(PacketKind), Signal(PacketKind)
        m.d.comb += kind.eq(Mux(inside, held, header.kind))
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [inside.eq(~self.i.payload.last), held.eq(kind)]
        for which, target in (
            (PacketKind.FEATURE, self.features),
            (PacketKind.PARTIAL, self.partials),
            (PacketKind.CONTROL, self.control),
            *(((PacketKind.LINES, self.lines),) if self.divided else ()),
        ):
            m.d.comb += [target.payload.eq(self.i.payload), target.valid.eq(self.i.valid & (kind == which))]
            with m.If(kind == which):
                m.d.comb += self.i.ready.eq(target.ready)
        with m.If(self.stopped & (kind == PacketKind.PARTIAL)):
            m.d.comb += [self.i.ready.eq(1), self.partials.valid.eq(0)]
        return m
