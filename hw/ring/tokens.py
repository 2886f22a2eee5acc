"""Tokens: messages between chiplets about phases and errors (R19)."""

from amaranth.hdl import Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import PACKET_CONTROL, PACKET_HEADER, PacketKind, Token
from hw.contracts import struct
from hw.ring.formats import POSITION_BITS, Flit

__all__ = ["Tokens"]


class Tokens(wiring.Component):
    """Sends tokens past all other chiplets and keeps account of theirs; there is no leader.

    A chiplet may reach the next barrier before another has seen all arrive at this one, hence one account for each
    parity of the barrier. It cannot be further ahead, because it waits for the other.

    Parameters
    ----------
    link_width
        Bits of a flit.
    chiplets
        Most chiplets of a ring.

    Attributes
    ----------
    position, chiplets : In
        Of this chiplet; number of chiplets.
    drain, arrive, stop : In(1)
        One-cycle requests for a token: all rows are sent; the barrier is reached; an error stopped the chiplet.
    code : In(8)
        The error, valid with `stop`.
    o : stream of `Flit`
        Packets to send.
    i : stream of `Flit`, always ready
        Control packets from other chiplets.
    drained, arrived : Out(1)
        All others have sent all rows; all others have reached the barrier.
    forget : In(1)
        The pass is over: clear `owners`.
    passed : In(1)
        The barrier is over.
    failed : Out(1)
        Another chiplet has stopped; stays.
    peer : Out
        The first chiplet that stopped, and its error.
    owners : Out
        Chiplets that have drained.
    """

    def __init__(self, link_width: int = 64, chiplets: int = 4) -> None:
        self.most = chiplets
        super().__init__(
            {
                "position": In(POSITION_BITS),
                "chiplets": In(POSITION_BITS),
                "drain": In(1),
                "arrive": In(1),
                "stop": In(1),
                "code": In(8),
                "o": Out(stream.Signature(Flit(link_width))),
                "i": In(stream.Signature(Flit(link_width), always_ready=True)),
                "drained": Out(1),
                "arrived": Out(1),
                "forget": In(1),
                "passed": In(1),
                "failed": Out(1),
                "peer": Out(data.StructLayout({"position": 8, "code": 8})),
                "owners": Out(chiplets),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Send the requested tokens; keep account of those of the others."""
        m = Module()
        parity = Signal()
        self._send(m, parity)
        self._account(m, parity)
        m.d.sync += parity.eq(parity ^ self.passed)
        return m

    def _send(self, m: Module, parity: Signal) -> None:
        """Keep the kinds of token that are requested and send them one by one."""
        waiting = Signal(3)  # a bit for each kind of token
        code = Signal(8)
        header = Signal(struct(PACKET_HEADER))
        token, phase, error = Signal(4), Signal(), Signal(8)
        sending = Signal(3)
        with m.If(self.stop):
            m.d.sync += code.eq(self.code)
        # In the order of the requests: a chiplet drains before it arrives; an error is last.
        with m.If(waiting[Token.DRAINED]):
            m.d.comb += [token.eq(Token.DRAINED), sending.eq(1 << Token.DRAINED)]
        with m.Elif(waiting[Token.ARRIVED]):
            m.d.comb += [token.eq(Token.ARRIVED), sending.eq(1 << Token.ARRIVED), phase.eq(parity)]
        with m.Elif(waiting[Token.ERROR]):
            m.d.comb += [token.eq(Token.ERROR), sending.eq(1 << Token.ERROR), error.eq(code)]
        m.d.comb += [
            header.eq(0),
            header.kind.eq(PacketKind.CONTROL),
            header.source.eq(self.position),
            header.destination.eq(Mux(self.position == 0, self.chiplets, self.position) - 1),
            header.vid.eq(
                (token << PACKET_CONTROL.offsets["token"])
                | (phase << PACKET_CONTROL.offsets["phase"])
                | (error << PACKET_CONTROL.offsets["error"])
            ),
            self.o.valid.eq(waiting.any()),
            self.o.payload.data.eq(header),
            self.o.payload.last.eq(1),
        ]
        asked = Signal(3)
        m.d.comb += [
            asked[Token.DRAINED].eq(self.drain),
            asked[Token.ARRIVED].eq(self.arrive),
            asked[Token.ERROR].eq(self.stop),
        ]
        m.d.sync += waiting.eq((waiting & ~Mux(self.o.ready, sending, 0)) | asked)

    def _account(self, m: Module, parity: Signal) -> None:
        """Record which other chiplets have drained and arrived, and the first that has failed."""
        others = Signal(self.most)
        m.d.comb += others.eq(((1 << self.chiplets) - 1) & ~(1 << self.position))
        arrived = [Signal(self.most, name=f"arrived_{n}") for n in range(2)]
        header = data.View(struct(PACKET_HEADER), self.i.payload.data[: PACKET_HEADER.bits])
        control = data.View(struct(PACKET_CONTROL), header.vid)
        sender = 1 << header.source
        heard = Signal(3)
        with m.If(self.i.valid):
            m.d.comb += heard.eq(1 << control.token)
        m.d.comb += [
            self.drained.eq((self.owners & others) == others),
            self.arrived.eq((Mux(parity, arrived[1], arrived[0]) & others) == others),
        ]
        m.d.sync += self.owners.eq(Mux(self.forget, 0, self.owners) | Mux(heard[Token.DRAINED], sender, 0))
        for n in range(2):
            m.d.sync += arrived[n].eq(
                Mux(self.passed & (parity == n), 0, arrived[n])
                | Mux(heard[Token.ARRIVED] & (control.phase == n), sender, 0)
            )
        with m.If(heard[Token.ERROR] & ~self.failed):
            m.d.sync += [self.failed.eq(1), self.peer.position.eq(header.source), self.peer.code.eq(control.error)]
        m.d.sync += [Cover(arrived[0].any() & arrived[1].any()), Cover(self.failed & self.o.valid)]
