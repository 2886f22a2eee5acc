"""Line receiver: takes packets of beats from the ring, requests and replies."""

from amaranth.hdl import Assert, Cat, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import PACKET_HEADER, PACKET_LINES, Error
from hw.contracts import struct
from hw.graph.formats import ErrorReport
from hw.ring.formats import Flit
from hw.ring.line_formats import LAST_BEAT_BITS, TAG_BITS, Fill
from hw.ring.line_server import LineRequest

__all__ = ["LineReceiver"]


class LineReceiver(wiring.Component):
    """Hands requests on, and packs replies into beats.

    A reply of another length than its header says ends its slot with an error: the beats could not be read, or the
    packet was cut off.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    width
        Bits of a flit, at most a beat.
    slots
        Slots of the `ReplyStore`.
    beats
        Most beats of a packet.

    Attributes
    ----------
    i : stream of `Flit`
    awaited : In
        Slots that get replies.
    cut : In(1)
        Replies come too late.
    requests : stream of `LineRequest`
    fill : stream of `Fill`
    error : stream of `ErrorReport`, always ready
        ``BAD_PACKET`` with the beat of a request with a body or for too many beats, or of a reply that is not awaited.
    """

    def __init__(
        self, address_width: int = 32, data_width: int = 256, width: int = 64, slots: int = 32, beats: int = 8
    ) -> None:
        self.data_width, self.width, self.slots, self.beats = data_width, width, slots, beats
        super().__init__(
            {
                "i": In(stream.Signature(Flit(width))),
                "awaited": In(slots),
                "cut": In(1),
                "requests": Out(stream.Signature(LineRequest(address_width, data_width))),
                "fill": Out(stream.Signature(Fill(data_width))),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Judge the header, then take what follows."""
        m = Module()
        flit = self.i.payload
        header = data.View(struct(PACKET_HEADER), flit.data[: PACKET_HEADER.bits])
        lines = data.View(struct(PACKET_LINES), header.elements)
        request, fill = self.requests.payload, self.fill.payload
        slot, last_beat = Signal(TAG_BITS), Signal(LAST_BEAT_BITS)
        beat, part = Signal(LAST_BEAT_BITS), Signal(range(max(2, self.data_width // self.width)))
        long, known, asks = Signal(), Signal(), Signal()
        m.d.comb += [
            long.eq(lines.last_beat >= self.beats),
            known.eq((self.awaited & (1 << lines.tag)).any() & ~long),
            asks.eq(~lines.reply & flit.last & ~long),
            request.source.eq(header.source),
            request.tag.eq(lines.tag),
            request.last_beat.eq(lines.last_beat),
            request.address.eq(Cat(header.vid, header.high)),
            self.error.payload.code.eq(Error.BAD_PACKET),
            self.error.payload.info.eq(header.vid),
        ]
        with m.FSM() as fsm:
            with m.State("HEADER"):
                m.d.sync += [slot.eq(lines.tag), last_beat.eq(lines.last_beat), beat.eq(0), part.eq(0)]
                m.d.comb += [self.requests.valid.eq(self.i.valid & asks), self.i.ready.eq(~asks | self.requests.ready)]
                with m.If(lines.reply & known & flit.last):
                    # A header without beats.
                    m.d.comb += [self.fill.valid.eq(self.i.valid), self.i.ready.eq(self.fill.ready)]
                    m.d.comb += [fill.slot.eq(lines.tag), fill.last.eq(1), fill.error.eq(1)]
                with m.If(self.i.valid & ~asks & ~flit.last):
                    m.next = "REST"
                    with m.If(lines.reply & known):
                        m.next = "BEATS"
                m.d.comb += self.error.valid.eq(self.i.valid & Mux(lines.reply, ~known & ~self.cut, ~asks))
            with m.State("BEATS"):
                self._pack(m, slot, last_beat, beat, part)
            with m.State("REST"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid & flit.last):
                    m.next = "HEADER"
        m.d.sync += Assert(fsm.ongoing("HEADER") | fsm.ongoing("BEATS") | fsm.ongoing("REST"))
        return m

    def _pack(self, m: Module, slot: Signal, last_beat: Signal, beat: Signal, part: Signal) -> None:
        """Put flits together to beats; the last one of the packet ends the slot."""
        parts, flit, fill = self.data_width // self.width, self.i.payload, self.fill.payload
        packed, filled = Signal(max(1, self.data_width - self.width)), Signal(self.data_width)
        whole, final = Signal(), Signal()
        m.d.comb += [
            filled.eq(packed),
            whole.eq(part == parts - 1),
            final.eq(whole & (beat == last_beat)),
            self.fill.valid.eq(self.i.valid & (whole | flit.last)),
            self.i.ready.eq(self.fill.ready | ~(whole | flit.last)),
            fill.slot.eq(slot),
            fill.beat.eq(beat),
            fill.data.eq(filled),
            fill.last.eq(final | flit.last),
            fill.error.eq(final ^ flit.last),
        ]
        m.d.comb += filled.word_select(part, self.width).eq(flit.data)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [packed.eq(filled), part.eq(Mux(whole, 0, part + 1)), beat.eq(beat + whole)]
            with m.If(final & ~flit.last):
                m.next = "REST"
            with m.If(flit.last):
                m.next = "HEADER"
