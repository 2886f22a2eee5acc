"""Reducer: sends partial sums home, adding every chiplet's share on the way (R11, R19)."""

from amaranth.hdl import Cat, Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import PACKET_HEADER, PARTIAL_BITS, VALUE_BITS, Error, PacketKind
from hw.contracts import struct
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import Word, WriteRequest
from hw.ring.formats import POSITION_BITS, Flit
from hw.ring.sender import RowSettings
from hw.stream.slice import Slice

__all__ = ["Reducer", "Role"]

#: Bits of a hub's word where the chiplet is named at which its partial sum starts.
_START = 8


class Role(enum.Enum, shape=2):  # type: ignore[call-arg]
    """A chiplet's part in one hub's partial sum."""

    #: It is not on the way.
    NONE = 0
    #: The contributor farthest upstream: the packet starts here.
    START = 1
    #: It lies on the way: its share, which may be 0, is added.
    MIDDLE = 2
    #: The sum ends here.
    HOME = 3


class Reducer(wiring.Component):
    """Goes through the hubs in ascending order; a packet waits until its share is there.

    All chiplets go through the hubs in the same order, so packets arrive in that order too, and the packet of
    the lowest hub that is not home can always go on: all before it have left the buffers in front of it.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    link_width
        Bits of a flit.
    max_beats
        Beats of the longest row of values.

    Attributes
    ----------
    start : In(1)
        The next word is that of hub 0.
    position, chiplets : In
    rows : In(RowSettings)
        Constant from `start` on. Rows of values; `RowSettings.elements` are those of a packet too.
    first_partial : In(32)
        Row for the low halves of hub 0's sum; the high halves come in the row after it.
    hubs : stream of `Word`
        Home and start of every hub (`contracts.RegionKind.HUB_HOMES`).
    share : stream of `Flit`
        This chiplet's sums, for every hub.
    i : stream of `Flit`
        Packets that have come.
    o : stream of `Flit`
        Packets that go on.
    write : stream of `WriteRequest`
    done : Out(1)
        All hubs are done; what is written has been handed on.
    error : stream of `ErrorReport`, always ready
        ``BAD_PACKET`` with the place of a hub that is not the one whose turn it is.
    """

    def __init__(
        self, address_width: int = 32, data_width: int = 256, link_width: int = 64, max_beats: int = 4
    ) -> None:
        self.data_width, self.link_width = data_width, link_width
        self._write = WriteRequest(address_width, data_width)
        super().__init__(
            {
                "start": In(1),
                "position": In(POSITION_BITS),
                "chiplets": In(POSITION_BITS),
                "rows": In(RowSettings(address_width, data_width, max_beats)),
                "first_partial": In(32),
                "hubs": In(stream.Signature(Word())),
                "share": In(stream.Signature(Flit(link_width))),
                "i": In(stream.Signature(Flit(link_width))),
                "o": Out(stream.Signature(Flit(link_width))),
                "write": Out(stream.Signature(self._write)),
                "done": Out(1),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Take a hub's word, play the role in it, go on."""
        m = Module()
        m.submodules.out = out = Slice(self._write)
        connect(m, out.o, flipped(self.write))
        word = self.hubs.payload
        hub = Signal(32)
        role = Signal(Role)
        home, begin = word.data[:POSITION_BITS], word.data[_START : _START + POSITION_BITS]

        def hops(source: Value, destination: Value) -> Signal:
            count = Signal(POSITION_BITS + 1)
            difference = Signal(POSITION_BITS + 2)
            m.d.comb += [
                difference.eq(destination - source),
                count.eq(Mux(difference[-1], difference + self.chiplets, difference)),
            ]
            return count

        way, here = hops(begin, home), hops(begin, self.position)
        played = Signal(Role)
        with m.If((way == 0) | (here > way)):
            m.d.comb += played.eq(Role.NONE)
        with m.Elif(here == 0):
            m.d.comb += played.eq(Role.START)
        with m.Elif(here == way):
            m.d.comb += played.eq(Role.HOME)
        with m.Else():
            m.d.comb += played.eq(Role.MIDDLE)

        header = Signal(struct(PACKET_HEADER))
        come = data.View(struct(PACKET_HEADER), self.i.payload.data[: PACKET_HEADER.bits])
        target = Signal(POSITION_BITS)
        m.d.comb += [
            header.eq(0),
            header.kind.eq(PacketKind.PARTIAL),
            header.source.eq(self.position),
            header.destination.eq(target),
            header.elements.eq(self.rows.elements),
            header.vid.eq(hub),
            self.error.payload.code.eq(Error.BAD_PACKET),
            self.error.payload.info.eq(come.vid),
        ]
        sums = self.link_width // PARTIAL_BITS
        total = Signal(self.link_width)
        for n in range(sums):
            lane = slice(n * PARTIAL_BITS, (n + 1) * PARTIAL_BITS)
            m.d.comb += total[lane].eq(self.i.payload.data[lane] + self.share.payload.data[lane])

        # At home a sum is cut into two values: 65536 * high + low, low with a sign.
        half = self.link_width // 2
        parts = self.data_width // half
        part = Signal(range(parts))
        # What came before the beat's last part.
        packed = [Signal(self.data_width - half, name=f"{name}_packed") for name in ("low", "high")]
        filled = [Signal(self.data_width, name=f"{name}_filled") for name in ("low", "high")]
        lows = [self.i.payload.data[n * PARTIAL_BITS : n * PARTIAL_BITS + VALUE_BITS] for n in range(sums)]
        highs = [
            (
                self.i.payload.data[n * PARTIAL_BITS + VALUE_BITS : (n + 1) * PARTIAL_BITS]
                + self.i.payload.data[n * PARTIAL_BITS + VALUE_BITS - 1]
            )[:VALUE_BITS]
            for n in range(sums)
        ]
        for side, values in enumerate((lows, highs)):
            m.d.comb += filled[side].eq(Mux(part == 0, 0, packed[side]))
            m.d.comb += filled[side].word_select(part, half).eq(Cat(*values))
        address = Signal.like(self.rows.base)
        # Of the hub's row; each hub has two.
        row, first = Signal.like(address), Signal.like(address)
        m.d.sync += first.eq(self.first_partial * self.rows.stride)
        upper = Signal()  # the high halves' turn
        final = Signal()  # no hub follows
        beat_ends = (part == parts - 1) | self.i.payload.last
        m.d.comb += [
            out.i.payload.address.eq(address + Mux(upper, self.rows.stride, 0)),
            out.i.payload.data.eq(Mux(upper, filled[1], filled[0])),
            out.i.payload.strobe.eq(~0),
        ]

        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += hub.eq(0)
                with m.If(self.start):
                    m.next = "LOCATE"
            with m.State("LOCATE"):
                m.d.sync += row.eq(self.rows.base + first)
                m.next = "NEXT"
            with m.State("NEXT"):
                m.d.comb += self.hubs.ready.eq(1)
                m.d.sync += [role.eq(played), target.eq(home), final.eq(word.last)]
                m.d.sync += address.eq(row)
                with m.If(self.hubs.valid):
                    m.next = "HEADER"
                    with m.If(word.empty):
                        m.next = "IDLE"
            with m.State("HEADER"):
                m.d.sync += [part.eq(0), upper.eq(0)]
                with m.Switch(role):
                    with m.Case(Role.NONE):
                        m.next = "BODY"
                    with m.Case(Role.START):
                        m.d.comb += [self.o.valid.eq(self.share.valid), self.o.payload.data.eq(header)]
                        with m.If(self.share.valid & self.o.ready):
                            m.next = "BODY"
                    with m.Case(Role.MIDDLE):
                        m.d.comb += [
                            self.o.valid.eq(self.i.valid & self.share.valid),
                            self.o.payload.data.eq(header),
                            self.i.ready.eq(self.share.valid & self.o.ready),
                        ]
                        with m.If(self.o.valid & self.o.ready):
                            m.next = "BODY"
                    with m.Case(Role.HOME):
                        m.d.comb += self.i.ready.eq(1)
                        with m.If(self.i.valid):
                            m.next = "BODY"
                m.d.comb += self.error.valid.eq(self.i.valid & self.i.ready & (come.vid != hub))
            with m.State("BODY"):
                m.d.comb += self.o.payload.last.eq(self.share.payload.last)
                with m.Switch(role):
                    with m.Case(Role.NONE):
                        m.d.comb += self.share.ready.eq(1)
                    with m.Case(Role.START):
                        m.d.comb += [
                            self.o.valid.eq(self.share.valid),
                            self.o.payload.data.eq(self.share.payload.data),
                            self.share.ready.eq(self.o.ready),
                        ]
                    with m.Case(Role.MIDDLE):
                        m.d.comb += [
                            self.o.valid.eq(self.share.valid & self.i.valid),
                            self.o.payload.data.eq(total),
                            self.share.ready.eq(self.i.valid & self.o.ready),
                            self.i.ready.eq(self.share.valid & self.o.ready),
                        ]
                    with m.Case(Role.HOME):
                        both = self.share.valid & self.i.valid
                        moves = Signal()
                        m.d.comb += [
                            out.i.valid.eq(both & beat_ends),
                            moves.eq(both & (~beat_ends | (upper & out.i.ready))),
                            self.share.ready.eq(self.i.valid & moves),
                            self.i.ready.eq(moves),
                        ]
                        with m.If(out.i.valid & out.i.ready):
                            m.d.sync += upper.eq(~upper)
                        with m.If(moves):
                            m.d.sync += [
                                packed[0].eq(filled[0]),
                                packed[1].eq(filled[1]),
                                part.eq(Mux(beat_ends, 0, part + 1)),
                                address.eq(address + beat_ends),
                            ]
                with m.If(self.share.valid & self.share.ready & self.share.payload.last):
                    m.d.sync += [hub.eq(hub + 1), row.eq(row + (self.rows.stride << 1))]
                    m.next = "NEXT"
                    with m.If(final):
                        m.next = "IDLE"
        m.d.comb += self.done.eq(fsm.ongoing("IDLE") & ~out.o.valid)
        m.d.sync += [Cover(role == which) for which in (Role.NONE, Role.START, Role.MIDDLE, Role.HOME)]
        return m
