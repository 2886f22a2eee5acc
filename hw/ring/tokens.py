"""Tokens: messages between chiplets about phases and errors (R19)."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from contracts import PACKET_CONTROL, PACKET_HEADER, PacketKind, Token
from hw.contracts import struct
from hw.ring.formats import POSITION_BITS, Flit

__all__ = ["Tokens"]


class Tokens(wiring.Component):
    """Sends tokens past all other chiplets and keeps account of theirs; there is no leader.

    A chiplet may be through with the next pass, or reach the next barrier, before another has seen all be through with
    this one, hence one account for each parity. It cannot be further ahead, because it waits for the other.

    Parameters
    ----------
    width
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
        All others have sent all rows; all others have reached the barrier. 0 while the own token waits to be sent.
    forget : In(1)
        The pass is over.
    passed : In(1)
        The barrier is over.
    failed : Out(1)
        Another chiplet has stopped; stays.
    peer : Out
        The first chiplet that stopped, and its error.
    owners : Out
        Chiplets that have sent all rows of this pass.
    """

    def __init__(self, width: int = 64, chiplets: int = 4) -> None:
        self.most = chiplets
        super().__init__(
            {
                "position": In(POSITION_BITS),
                "chiplets": In(POSITION_BITS),
                "drain": In(1),
                "arrive": In(1),
                "stop": In(1),
                "code": In(8),
                "o": Out(stream.Signature(Flit(width))),
                "i": In(stream.Signature(Flit(width), always_ready=True)),
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
        # Of the pass and of the barrier.
        ends = {Token.DRAINED: self.forget, Token.ARRIVED: self.passed}
        parities = {token: Signal(name=f"{token.name.lower()}_parity") for token in ends}
        waiting = self._send(m, parities)
        heard, header = self._hear(m)
        for token, over in ends.items():
            parity = parities[token]
            accounts = [Signal(self.most, name=f"{token.name.lower()}_{n}") for n in range(2)]
            for n, account in enumerate(accounts):
                says = heard[token] & (data.View(struct(PACKET_CONTROL), header.vid).phase == n)
                m.d.sync += account.eq(Mux(over & (parity == n), 0, account) | Mux(says, 1 << header.source, 0))
            m.d.sync += [parity.eq(parity ^ over), Cover(accounts[0].any() & accounts[1].any())]
            if token == Token.DRAINED:
                m.d.comb += self.owners.eq(Mux(parity, accounts[1], accounts[0]))
            else:
                m.d.comb += self.arrived.eq(self._all(Mux(parity, accounts[1], accounts[0])) & ~waiting[token])
        # What this chiplet sends next stays behind its own token, which has the parity of now.
        m.d.comb += self.drained.eq(self._all(self.owners) & ~waiting[Token.DRAINED])
        return m

    def _all(self, account: Value) -> Value:
        """Return whether all others are in an account."""
        others = ((1 << self.chiplets) - 1) & ~(1 << self.position)
        return (account & others)[: self.most] == others[: self.most]

    def _send(self, m: Module, parities: Mapping[Token, Signal]) -> Signal:
        """Keep the kinds of token that are requested and send them one by one; return those that wait, as bits."""
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
            m.d.comb += phase.eq(parities[Token.DRAINED])
        with m.Elif(waiting[Token.ARRIVED]):
            m.d.comb += [token.eq(Token.ARRIVED), sending.eq(1 << Token.ARRIVED)]
            m.d.comb += phase.eq(parities[Token.ARRIVED])
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
        return waiting

    def _hear(self, m: Module) -> tuple[Signal, Any]:
        """Return which kind of token comes in this cycle, a bit for each, and its header; keep the first failure."""
        header = data.View(struct(PACKET_HEADER), self.i.payload.data[: PACKET_HEADER.bits])
        control = data.View(struct(PACKET_CONTROL), header.vid)
        heard = Signal(3)
        with m.If(self.i.valid):
            m.d.comb += heard.eq(1 << control.token)
        with m.If(heard[Token.ERROR] & ~self.failed):
            m.d.sync += [self.failed.eq(1), self.peer.position.eq(header.source), self.peer.code.eq(control.error)]
        m.d.sync += Cover(self.failed & self.o.valid)
        return heard, header
