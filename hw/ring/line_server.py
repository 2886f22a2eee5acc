"""Line server: reads own lines of a divided graph for other chiplets and sends them as replies."""

from amaranth.hdl import Array, Assert, Cat, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from contracts import LINE_BYTES, PACKET_HEADER, PACKET_LINES, PacketKind
from hw.contracts import struct
from hw.memory.fetcher import Fetcher
from hw.memory.formats import ReadBeat, ReadRequest, line_address_width
from hw.ring.formats import POSITION_BITS, Flit
from hw.ring.line_bursts import LineBursts
from hw.ring.line_formats import ARRAYS, LAST_BEAT_BITS, TAG_BITS, graph_beat_width
from hw.stream.queue import Queue

__all__ = ["LineRequest", "LineServer"]

#: Requests whose beats are read.
_UNDER_WAY = 32


class LineRequest(data.StructLayout):
    """A request of another chiplet.

    ``source``: the chiplet. ``tag``, ``last_beat``: as in its packet. ``address``: beat of the graph.
    """

    def __init__(self, address_width: int, data_width: int) -> None:
        address = graph_beat_width(address_width, data_width)
        super().__init__({"source": POSITION_BITS, "tag": TAG_BITS, "last_beat": LAST_BEAT_BITS, "address": address})


class LineServer(wiring.Component):
    """Answers requests in their order, whatever this chiplet does besides.

    A reply is a header and the beats, the lowest part of each first. If a beat could not be read, a flit follows that
    is too many; a request for lines that this chiplet does not have gets a header alone.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    width
        Bits of a flit, at most a beat.
    chiplets
        Most chiplets of a ring.
    requests
        Requests that may wait.
    depth
        Beats requested or waiting.

    Attributes
    ----------
    position : In
    serves : In(1)
        The table of lines is known; until then requests wait.
    firsts, shifts, total : In
        As of `LineTable`.
    i : stream of `LineRequest`
        ``ready`` as long as no more than `requests` wait.
    o : stream of `Flit`
    refused : stream of beats, always ready
        First beat of a request for lines that this chiplet does not have.
    request, beat
        A client's end of the read arbiter.
    """

    def __init__(
        self,
        address_width: int = 32,
        data_width: int = 256,
        width: int = 64,
        chiplets: int = 4,
        requests: int = 128,
        depth: int = 64,
    ) -> None:
        self._port, self.width, self.most = (address_width, data_width), width, chiplets
        self.depth = depth
        self._beats_of_line = exact_log2(8 * LINE_BYTES // data_width)
        self._request = LineRequest(*self._port)
        line = line_address_width(address_width)
        # Internal, named for proofs: requests that wait; one is located; requests whose beats are read; their beats.
        self.waiting, self.locating = Queue(self._request, requests), Signal()
        self.fetcher = Fetcher(*self._port, depth)
        self.under_way = Queue(data.StructLayout({"request": self._request, "refused": 1}), _UNDER_WAY)
        super().__init__(
            {
                "position": In(POSITION_BITS),
                "serves": In(1),
                "firsts": In(data.ArrayLayout(data.ArrayLayout(32, chiplets), ARRAYS)),
                "shifts": In(line).array(ARRAYS),
                "total": In(32),
                "i": In(stream.Signature(self._request)),
                "o": Out(stream.Signature(Flit(width))),
                "refused": Out(stream.Signature(self._request["address"].shape, always_ready=True)),
                "request": Out(stream.Signature(ReadRequest(*self._port))),
                "beat": In(stream.Signature(ReadBeat(data_width), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Locate request after request, read its lines, send its reply."""
        m = Module()
        m.submodules.waiting = waiting = self.waiting
        m.submodules.bursts = bursts = LineBursts(*self._port)
        m.submodules.fetcher = fetcher = self.fetcher
        m.submodules.under_way = under_way = self.under_way
        connect(m, flipped(self.i), waiting.i)
        connect(m, bursts.o, fetcher.i)
        connect(m, fetcher.request, flipped(self.request))
        connect(m, flipped(self.beat), fetcher.beat)
        self._locate(m, waiting.o, bursts.i, under_way.i)
        self._send(m, under_way.o, fetcher.o)
        return m

    def _own(self, m: Module) -> tuple[list[Signal], list[Signal]]:
        """Return where the own lines of each array begin and end, registered."""
        begins = [Signal(32, name=f"begins_{n}") for n in range(ARRAYS)]
        ends = [Signal(32, name=f"ends_{n}") for n in range(ARRAYS)]
        for array, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            firsts = [self.firsts[array][n] for n in range(self.most)]
            following = self.firsts[array + 1][0] if array + 1 < ARRAYS else self.total
            m.d.sync += [
                begin.eq(Array(firsts)[self.position]),
                end.eq(Array([*firsts[1:], following])[self.position]),
            ]
        return begins, ends

    def _locate(
        self, m: Module, requests: stream.Interface, bursts: stream.Interface, under_way: stream.Interface
    ) -> None:
        """Compare the line of a request with the own ones; translate it; start to read."""
        begins, ends = self._own(m)
        request = Signal(self._request, reset_less=True)
        inside, shift = Signal(ARRAYS), Signal.like(self.shifts[0])
        line = request.address >> self._beats_of_line
        m.d.comb += [
            under_way.payload.request.eq(request),
            under_way.payload.refused.eq(~inside.any()),
            bursts.payload.address.eq(request.address + (shift << self._beats_of_line)),
            bursts.payload.last_beat.eq(request.last_beat),
            self.refused.payload.eq(request.address),
        ]
        with m.FSM() as fsm:
            with m.State("TAKE"):
                m.d.comb += requests.ready.eq(self.serves)
                m.d.sync += request.eq(requests.payload)
                with m.If(requests.valid & self.serves):
                    m.next = "COMPARE"
            with m.State("COMPARE"):
                for array in range(ARRAYS):
                    m.d.sync += inside[array].eq((line >= begins[array]) & (line < ends[array]))
                m.next = "TRANSLATE"
            with m.State("TRANSLATE"):
                for array in range(ARRAYS):
                    with m.If(inside[array]):
                        m.d.sync += shift.eq(self.shifts[array])
                m.next = "READ"
            with m.State("READ"):
                m.d.comb += [
                    bursts.valid.eq(under_way.ready & inside.any()),
                    under_way.valid.eq(bursts.ready | ~inside.any()),
                    self.refused.valid.eq(under_way.ready & ~inside.any()),
                ]
                with m.If(under_way.valid & under_way.ready):
                    m.next = "TAKE"
        m.d.comb += self.locating.eq(~fsm.ongoing("TAKE"))

    def _send(self, m: Module, requests: stream.Interface, beats: stream.Interface) -> None:
        """Send the header of the request in turn, the flits of its beats, and one more after an error."""
        parts = self._port[1] // self.width
        request, flit = requests.payload.request, self.o.payload
        header, lines = Signal(struct(PACKET_HEADER)), Signal(struct(PACKET_LINES))
        part, beat = Signal(range(max(2, parts))), Signal(LAST_BEAT_BITS)
        failed, bad = Signal(), Signal()
        beat_ends, ends = part == parts - 1, Signal()
        m.d.comb += [
            lines.last_beat.eq(request.last_beat),
            lines.tag.eq(request.tag),
            lines.reply.eq(1),
            header.kind.eq(PacketKind.LINES),
            header.source.eq(self.position),
            header.destination.eq(request.source),
            header.elements.eq(lines),
            Cat(header.vid, header.high).eq(request.address),
            ends.eq(beat_ends & (beat == request.last_beat)),
            bad.eq(failed | beats.payload.error),
        ]
        with m.FSM() as fsm:
            with m.State("HEADER"):
                m.d.comb += [
                    self.o.valid.eq(requests.valid),
                    flit.data.eq(header),
                    flit.last.eq(requests.payload.refused),
                    requests.ready.eq(self.o.ready & requests.payload.refused),
                ]
                m.d.sync += [part.eq(0), beat.eq(0), failed.eq(0)]
                with m.If(requests.valid & self.o.ready & ~requests.payload.refused):
                    m.next = "BEATS"
            with m.State("BEATS"):
                m.d.comb += [
                    self.o.valid.eq(beats.valid),
                    flit.data.eq(beats.payload.data.word_select(part, self.width)),
                    flit.last.eq(ends & ~bad),
                    beats.ready.eq(self.o.ready & beat_ends),
                    requests.ready.eq(beats.valid & self.o.ready & flit.last),
                ]
                with m.If(beats.valid & self.o.ready):
                    m.d.sync += [part.eq(Mux(beat_ends, 0, part + 1)), beat.eq(beat + beat_ends), failed.eq(bad)]
                    with m.If(ends):
                        m.next = "HEADER"
                        with m.If(bad):
                            m.next = "ERROR"
            with m.State("ERROR"):
                m.d.comb += [self.o.valid.eq(1), flit.last.eq(1), requests.ready.eq(self.o.ready)]
                with m.If(self.o.ready):
                    m.next = "HEADER"
        m.d.sync += Assert(fsm.ongoing("HEADER") | requests.valid, "a reply under way is that of a request")
