"""Reducer: sends partial sums home, adding every chiplet's share on the way (R11, R19)."""

from amaranth.hdl import Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from contracts import PACKET_HEADER, PARTIAL_BITS, Error, PacketKind
from hw.contracts import struct
from hw.graph.csr_reader import ErrorReport
from hw.memory.formats import Word, WriteRequest
from hw.ring.formats import POSITION_BITS, Flit
from hw.ring.sender import RowSettings
from hw.ring.sum_writer import SumWriter

__all__ = ["Reducer", "Role"]

#: Lowest bit of the field of a hub's word that names the chiplet at which the sum starts; its home is at bit 0.
_START = 8


class Role(enum.Enum, shape=2):  # type: ignore[call-arg]
    """A chiplet's part in one hub's partial sum."""

    #: It is not on the way.
    NONE = 0
    #: The contributor farthest upstream: the packet starts here.
    START = 1
    #: It lies on the way: its share, which may be 0, is added.
    MIDDLE = 2
    #: The sum ends here; it is written to memory.
    HOME = 3


class Reducer(wiring.Component):
    """Handles the hubs in ascending order; a packet waits for this chiplet's share of its hub.

    All chiplets handle the hubs in the same order, so packets arrive in that order too, and the packet of the lowest
    hub that is not home can always go on: all before it have left the buffers in front of it.

    Parameters
    ----------
    address_width, data_width
        Widths of the memory port, in bits.
    width
        Bits of a flit.
    max_beats
        Beats of the longest row of values.

    Attributes
    ----------
    start : In(1)
        The next word is that of hub 0.
    position, chiplets : In
    rows : In(RowSettings)
        Rows of values, constant from `start` on; a packet has as many elements as a row.
    first_partial : In(32)
        Row of the low halves of hub 0; its high halves lie in the row behind.
    hubs : stream of `Word`
        Home and start of every hub (`contracts.RegionKind.HUB_HOMES`).
    share : stream of `Flit`
        This chiplet's sums, for every hub.
    i : stream of `Flit`
        Packets from the ring.
    o : stream of `Flit`
        Packets to the next chiplet.
    write : stream of `WriteRequest`
    done : Out(1)
        All hubs are done and all writes are accepted.
    error : stream of `ErrorReport`, always ready
        ``BAD_PACKET`` with the number of the packet's hub, if it is not the hub in turn.
    """

    def __init__(self, address_width: int = 32, data_width: int = 256, width: int = 64, max_beats: int = 4) -> None:
        self.width = width
        self._writer = SumWriter(address_width, data_width, width, max_beats)
        super().__init__(
            {
                "start": In(1),
                "position": In(POSITION_BITS),
                "chiplets": In(POSITION_BITS),
                "rows": In(RowSettings(address_width, data_width, max_beats)),
                "first_partial": In(32),
                "hubs": In(stream.Signature(Word())),
                "share": In(stream.Signature(Flit(width))),
                "i": In(stream.Signature(Flit(width))),
                "o": Out(stream.Signature(Flit(width))),
                "write": Out(stream.Signature(WriteRequest(address_width, data_width))),
                "done": Out(1),
                "error": Out(stream.Signature(ErrorReport, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Take the word of the next hub, play this chiplet's role in its sum, go on."""
        m = Module()
        m.submodules.writer = writer = self._writer
        connect(m, writer.o, flipped(self.write))
        word = self.hubs.payload
        home, begin = word.data[:POSITION_BITS], word.data[_START : _START + POSITION_BITS]
        hub, target, role = Signal(32), Signal(POSITION_BITS), Signal(Role)
        next_role = self._role(m, home, begin)
        final = Signal()  # no hub follows
        row, first = Signal.like(self.rows.base), Signal.like(self.rows.base)
        m.d.sync += first.eq(self.first_partial * self.rows.stride)
        m.d.comb += [writer.row.eq(row), writer.stride.eq(self.rows.stride), writer.i.payload.eq(self.i.payload)]

        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += hub.eq(0)
                with m.If(self.start):
                    m.next = "LOCATE"
            with m.State("LOCATE"):
                m.d.sync += row.eq(self.rows.base + first)
                m.next = "NEXT"
            with m.State("NEXT"):
                m.d.comb += [self.hubs.ready.eq(1), writer.start.eq(1)]
                m.d.sync += [role.eq(next_role), target.eq(home), final.eq(word.last)]
                with m.If(self.hubs.valid):
                    m.next = "HEADER"
                    with m.If(word.empty):
                        m.next = "IDLE"
            with m.State("HEADER"):
                self._header(m, role, hub, target)
            with m.State("BODY"):
                self._body(m, role, writer.i)
                with m.If(self.share.valid & self.share.ready & self.share.payload.last):
                    m.d.sync += [hub.eq(hub + 1), row.eq(row + (self.rows.stride << 1))]
                    m.next = "NEXT"
                    with m.If(final):
                        m.next = "IDLE"
        m.d.comb += self.done.eq(fsm.ongoing("IDLE") & ~writer.o.valid)
        m.d.sync += [Cover(role == which) for which in (Role.NONE, Role.START, Role.MIDDLE, Role.HOME)]
        return m

    def _role(self, m: Module, home: Value, begin: Value) -> Signal:
        """Return this chiplet's role in a sum that travels from `begin` to `home`."""

        def hops(source: Value, destination: Value) -> Signal:
            count = Signal(POSITION_BITS + 1)
            difference = Signal(POSITION_BITS + 2)
            m.d.comb += [
                difference.eq(destination - source),
                count.eq(Mux(difference[-1], difference + self.chiplets, difference)),
            ]
            return count

        way, here = hops(begin, home), hops(begin, self.position)
        role = Signal(Role)
        with m.If((way == 0) | (here > way)):
            m.d.comb += role.eq(Role.NONE)
        with m.Elif(here == 0):
            m.d.comb += role.eq(Role.START)
        with m.Elif(here == way):
            m.d.comb += role.eq(Role.HOME)
        with m.Else():
            m.d.comb += role.eq(Role.MIDDLE)
        return role

    def _header(self, m: Module, role: Signal, hub: Signal, target: Signal) -> None:
        """Replace, make or take a packet's header; a packet of another hub is reported."""
        header = Signal(struct(PACKET_HEADER))
        arrived = data.View(struct(PACKET_HEADER), self.i.payload.data[: PACKET_HEADER.bits])
        done = Signal()
        m.d.comb += [
            header.eq(0),
            header.kind.eq(PacketKind.PARTIAL),
            header.source.eq(self.position),
            header.destination.eq(target),
            header.elements.eq(self.rows.elements),
            header.vid.eq(hub),
            self.o.payload.data.eq(header),
            self.error.valid.eq(self.i.valid & self.i.ready & (arrived.vid != hub)),
            self.error.payload.code.eq(Error.BAD_PACKET),
            self.error.payload.info.eq(arrived.vid),
        ]
        with m.Switch(role):
            with m.Case(Role.NONE):
                m.d.comb += done.eq(1)
            with m.Case(Role.START):
                m.d.comb += [self.o.valid.eq(self.share.valid), done.eq(self.share.valid & self.o.ready)]
            with m.Case(Role.MIDDLE):
                m.d.comb += [
                    self.o.valid.eq(self.i.valid & self.share.valid),
                    self.i.ready.eq(self.share.valid & self.o.ready),
                    done.eq(self.o.valid & self.o.ready),
                ]
            with m.Case(Role.HOME):
                m.d.comb += [self.i.ready.eq(1), done.eq(self.i.valid)]
        with m.If(done):
            m.next = "BODY"

    def _body(self, m: Module, role: Signal, home: stream.Interface) -> None:
        """Drop the share, send it, add it to the packet, or pass the packet to `home`."""
        total = Signal(self.width)
        for first in range(0, self.width, PARTIAL_BITS):
            lane = slice(first, first + PARTIAL_BITS)
            m.d.comb += total[lane].eq(self.i.payload.data[lane] + self.share.payload.data[lane])
        m.d.comb += [self.o.payload.data.eq(total), self.o.payload.last.eq(self.share.payload.last)]
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
                    self.share.ready.eq(self.i.valid & self.o.ready),
                    self.i.ready.eq(self.share.valid & self.o.ready),
                ]
            with m.Case(Role.HOME):
                m.d.comb += [
                    home.valid.eq(self.share.valid & self.i.valid),
                    self.share.ready.eq(self.i.valid & home.ready),
                    self.i.ready.eq(self.share.valid & home.ready),
                ]
