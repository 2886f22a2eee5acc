"""Route decision: the verdict on the packet at the head of the station (R3, R4)."""

from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import PACKET_HEADER, Error, PacketKind
from hw.contracts import struct
from hw.graph.csr_reader import ErrorReport
from hw.ring.formats import POSITION_BITS, Verdict

__all__ = ["RouteDecision"]


class RouteDecision(wiring.Component):
    """Decides by header and filter whether to take the packet, to forward it, or to wait.

    A row waits for its command and for the filter's decision, a partial sum for its command; tokens and packets of
    lines never wait. All outputs depend on the inputs of the same cycle.

    Parameters
    ----------
    divided
        Whether there are packets of lines.

    Attributes
    ----------
    header : In
        Lowest bits of the packet's first flit (`contracts.PACKET_HEADER`).
    begins : In(1)
        The packet begins to move, in this cycle.
    position, chiplets : In
        Position of this chiplet on the ring; number of chiplets.
    elements : In
        Elements of the rows of this layer.
    receiving, reducing : In(1)
        Rows, or partial sums, are accepted.
    stopped : In(1)
        No packet is taken: rows pass, partial sums end here.
    found, hit, late, outside : In(1)
        Result of the filter: decided; needed; beyond its window; not its sender's.
    take : Out(1)
        The filter's entry is used.
    decided, verdict : Out
        For the station.
    error : stream of `ErrorReport`, always ready
        ``BAD_PACKET`` or ``VID_RANGE`` with the packet's VID, as it begins to move.
    """

    def __init__(self, *, divided: bool = False) -> None:
        self.divided = divided
        super().__init__(
            {
                "header": In(PACKET_HEADER.bits),
                "begins": In(1),
                "position": In(POSITION_BITS),
                "chiplets": In(POSITION_BITS),
                "elements": In(12),
                "receiving": In(1),
                "reducing": In(1),
                "stopped": In(1),
                "found": In(1),
                "hit": In(1),
                "late": In(1),
                "outside": In(1),
                "take": Out(1),
                "decided": Out(1),
                "verdict": Out(Verdict),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Check source and destination, then by kind of packet."""
        m = Module()
        header, verdict = data.View(struct(PACKET_HEADER), self.header), self.verdict
        nowhere = header.destination >= self.chiplets
        here = (header.destination == self.position) | nowhere
        stray = (header.source >= self.chiplets) | (header.source == self.position)
        misfit = header.elements != self.elements
        bad = Signal()
        code = Signal(Error)
        m.d.comb += [
            bad.eq(stray | nowhere),
            # A packet that has come full circle, or has no destination, leaves the ring.
            verdict.forward.eq(~here & ~stray),
            self.error.valid.eq(self.begins & (code != Error.NONE) & ~self.stopped),
            self.error.payload.code.eq(code),
            self.error.payload.info.eq(header.vid),
        ]
        with m.If(bad):
            m.d.comb += code.eq(Error.BAD_PACKET)
        with m.Switch(header.kind):
            with m.Case(PacketKind.FEATURE):
                m.d.comb += self.decided.eq(bad | self.stopped)
                with m.If(self.receiving & ~bad & ~self.stopped):
                    with m.If(misfit):
                        m.d.comb += [self.decided.eq(1), code.eq(Error.BAD_PACKET)]
                    with m.Elif(self.outside):
                        m.d.comb += [self.decided.eq(1), code.eq(Error.VID_RANGE)]
                    with m.Else():
                        m.d.comb += [
                            self.decided.eq(self.found),
                            verdict.take.eq(self.hit),
                            self.take.eq(self.begins),
                        ]
                        with m.If(self.late):
                            m.d.comb += code.eq(Error.BAD_PACKET)
            with m.Case(PacketKind.PARTIAL):
                # Goes on as a packet of its own, with this chiplet's share.
                m.d.comb += [
                    self.decided.eq(bad | self.stopped | self.reducing),
                    verdict.forward.eq(0),
                    verdict.take.eq(self.reducing & ~bad & ~self.stopped & ~misfit),
                ]
                with m.If(self.reducing & misfit):
                    m.d.comb += code.eq(Error.BAD_PACKET)
            with m.Case(PacketKind.CONTROL):
                m.d.comb += [self.decided.eq(1), verdict.take.eq(~bad)]
                with m.If(header.elements != 0):
                    m.d.comb += [verdict.take.eq(0), code.eq(Error.BAD_PACKET)]
            if self.divided:
                with m.Case(PacketKind.LINES):
                    # For its destination alone, also after an error: others wait for the reply.
                    m.d.comb += [self.decided.eq(1), verdict.take.eq(here & ~bad)]
            with m.Default():
                m.d.comb += [self.decided.eq(1), code.eq(Error.BAD_PACKET)]
        return m
