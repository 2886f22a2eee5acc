"""Station: where packets enter, pass and leave the ring."""

from typing import Any

from amaranth.hdl import Assert, Cover, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.ring.arrival_queue import ArrivalQueue
from hw.ring.credit_crossing import CreditCount, CreditCrossing
from hw.ring.formats import WORD, Clocks, LinkFlit, LinkSignature, LinkState, Verdict
from hw.ring.head_queue import HeadQueue
from hw.ring.link_watch import LinkWatch
from hw.ring.state_crossing import StateCrossing
from hw.stream.queue import Queue

__all__ = ["PATIENCE", "Station"]

#: Packets that pass a waiting one before it goes first. A row crosses up to 15 links of a ring of 16, so of the packets
#: that come to a chiplet a fifteenth may end there. Were as many let in before others, buffers would fill up, and
#: links wait for credits: with 7 they carry 92 % of what they can, with 15 97 %, with 31 99.5 %.
PATIENCE = 31


class Station(wiring.Component):
    """One stop of the one-directional ring, with bubble flow control (R2, R3, R4).

    Packets from the link are buffered. A packet begins to move on only into a free slot of the next buffer, and a
    packet enters the ring only if two slots are free, so the ring never fills and some packet can always move.
    Passing packets have priority over entering ones, but only `patience` of them in a row: an entering packet finds
    the link idle while another one leaves, so both ways stay busy. A flit is on the next link two cycles after it was
    on the last.

    Parameters
    ----------
    link_width
        Bits of a flit.
    slots
        Packets that fit into the buffer, at least 2.
    max_flits
        Flits of the longest packet.
    patience
        Packets that pass a waiting one before it goes first, at least 1.
    fills
        A packet whose rest is lost does not only end: it gets `max_flits` flits, which no whole packet has that is
        judged by its length.
    clocks
        With `Clocks.OWN` the flits of `s_axis` belong to the domain ``link``, and credits and states of both neighbours
        to any clock. A hop then takes three or four cycles more.

    Attributes
    ----------
    s_axis : LinkSignature
        From the chiplet before.
    m_axis : LinkSignature
        To the chiplet after.
    header : Out
        First flit of the packet at the head of the buffer, while `asks`; from a register.
    following, advances : Out
        The next cycle's `header` if `advances`, for a decision that takes more than a cycle.
    asks : Out(1)
        That packet waits for its verdict.
    decided, verdict : In
        `verdict` is valid; both may depend on `header` and `asks` combinationally, and must hold until `begins`.
    begins : Out(1)
        The packet begins to move by its verdict, in this cycle; depends on `decided` combinationally.
    i : stream of `LinkFlit`
        Packets to send, without long gaps between the flits of a packet. ``ready`` depends on ``valid`` and on
        `decided` combinationally, so a queue is in front.
    o : stream of `LinkFlit`
        Packets for this chiplet.
    sent, passed : Out(1)
        A packet entered the ring here; a packet went through.
    works, stop, lost
        Ports of the `hw.ring.link_watch.LinkWatch`. Once the chiplet after is lost, flits for it are dropped, so that
        packets behind them still reach this chiplet. A packet that was truncated because the chiplet before is lost
        ends early.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(
        self,
        link_width: int = 64,
        slots: int = 4,
        max_flits: int = 33,
        patience: int = PATIENCE,
        *,
        fills: bool = False,
        clocks: Clocks = Clocks.ONE,
    ) -> None:
        if slots < 2:
            raise ValueError(f"slots must be at least 2, not {slots!r}")
        if max_flits < 1:
            raise ValueError(f"max_flits must be at least 1, not {max_flits!r}")
        if patience < 1:
            raise ValueError(f"patience must be at least 1, not {patience!r}")
        self.link_width, self.slots, self.max_flits, self.patience = link_width, slots, max_flits, patience
        self.fills, self.own_clock = fills, clocks is Clocks.OWN
        #: Domains, in the order of ports of a generated module.
        self.domains = ("sync", "link") if self.own_clock else ("sync",)
        # Internal, named for proofs. Free slots of the next buffer; the own buffer; whether the packet at its head has
        # begun to move; whether a passing or an entering packet owns the link.
        self.free = Signal(range(slots + 1), init=slots)
        # A word is offered a cycle after its write: the two cycles of a hop are this buffer and the link's register.
        buffer = ArrivalQueue if self.own_clock else HeadQueue
        self.buffer: Any = buffer(LinkFlit(link_width), slots * max_flits)
        self.inside, self.passing, self.entering = Signal(), Signal(), Signal()
        self.filling = Signal()
        self.watch = LinkWatch()
        link = LinkSignature(link_width, slots if self.own_clock else None)
        super().__init__(
            {
                "s_axis": In(link),
                "m_axis": Out(link),
                "header": Out(link_width),
                "following": Out(link_width),
                "advances": Out(1),
                "asks": Out(1),
                "decided": In(1),
                "verdict": In(Verdict),
                "begins": Out(1),
                "i": In(stream.Signature(LinkFlit(link_width))),
                "o": Out(stream.Signature(LinkFlit(link_width))),
                "sent": Out(1),
                "passed": Out(1),
                "works": In(1),
                "stop": In(1),
                "lost": Out(2),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Connect buffer, own chiplet and link; decide in each cycle which flit moves."""
        m = Module()
        m.submodules.buffer = buffer = self.buffer
        m.submodules.taken = taken = Queue(LinkFlit(self.link_width), 2)
        m.submodules.watch = watch = self.watch
        connect(m, taken.o, flipped(self.o))
        front, here, free = buffer.o, self.i, self.free
        m.d.comb += [
            buffer.i.valid.eq(self.s_axis.tvalid),
            buffer.i.payload.data.eq(self.s_axis.tdata),
            buffer.i.payload.last.eq(self.s_axis.tlast),
            self.header.eq(front.payload.data),
            self.following.eq(buffer.following.data),
            self.advances.eq(buffer.advances),
            watch.works.eq(self.works),
            watch.sends.eq(self.m_axis.tvalid),
            watch.stop.eq(self.stop),
            watch.before.eq(self._seen(m, "before", self.s_axis.tstate)),
            watch.after.eq(self._seen(m, "after", self.m_axis.tback)),
            self.m_axis.tstate.eq(watch.state),
            self.s_axis.tback.eq(watch.state),
            self.lost.eq(watch.lost),
        ]

        moves, passes, enters = Signal(), Signal(), Signal()
        self._move(m, taken.i, moves, passes, enters)
        # A packet whose rest is lost is ended, because it holds the link.
        finish = Signal()
        cut = watch.lost[0] & self.passing & ~front.valid
        # The state overtakes flits that are still in the crossing.
        m.d.comb += finish.eq(cut & ~buffer.coming if self.own_clock else cut)
        ends = self._fill(m, passes, finish) if self.fills else finish
        last = Mux(finish, ends, Mux(passes, front.payload.last, here.payload.last))
        with m.If(ends):
            m.d.sync += [self.passing.eq(0), self.inside.eq(0)]

        # The link's register, and the credits both ways. Credits from before a reset may still arrive after it.
        closed = watch.lost[1]
        credit = self._credit(m) & (free != self.slots)
        m.d.sync += [
            self.m_axis.tvalid.eq((passes | enters | finish) & ~closed),
            self.m_axis.tdata.eq(Mux(passes, front.payload.data, here.payload.data)),
            self.m_axis.tlast.eq(last),
        ]
        if self.link_width > WORD:
            # A flit that ends what is lost is full.
            m.d.comb += buffer.i.payload.words.eq(self.s_axis.tuser)
            m.d.sync += self.m_axis.tuser.eq(Mux(finish, ~0, Mux(passes, front.payload.words, here.payload.words)))
        self._give(m, moves & front.payload.last)
        m.d.sync += free.eq(Mux(closed, self.slots, free - (self.passed | self.sent) + credit))
        # A neighbour that has not noticed a reset yet may send one more flit.
        m.d[self.domains[-1]] += Assert(~self.s_axis.tvalid | buffer.i.ready | (watch.state != LinkState.AT_WORK))
        m.d.sync += [
            Cover((free == 1) & here.valid & ~self.entering),
            Cover((free == 0) & front.valid),
        ]
        return m

    def _seen(self, m: Module, name: str, state: Value) -> Value:
        """Return the state of a neighbour in the own clock."""
        if not self.own_clock:
            return state
        m.submodules[f"state_{name}"] = crossing = StateCrossing()
        m.d.comb += crossing.i.eq(state)
        return crossing.o

    def _credit(self, m: Module) -> Value:
        """Return whether a credit has come from the chiplet after."""
        if not self.own_clock:
            return self.m_axis.tcredit
        m.submodules.credits_taken = crossing = CreditCrossing(len(self.m_axis.tcredit))
        m.d.comb += crossing.i.eq(self.m_axis.tcredit)
        return crossing.o

    def _give(self, m: Module, given: Value) -> None:
        """Give a credit to the chiplet before, from a register."""
        if not self.own_clock:
            m.d.sync += self.s_axis.tcredit.eq(given)
            return
        m.submodules.credits_given = count = CreditCount(len(self.s_axis.tcredit))
        m.d.comb += [count.i.eq(given), self.s_axis.tcredit.eq(count.o)]

    def _fill(self, m: Module, passes: Signal, finish: Signal) -> Signal:
        """Go on with a packet until it has all flits for which there is room; return whether it has."""
        flits, filled = Signal(range(self.max_flits)), Signal()
        m.d.comb += filled.eq(finish & (flits == self.max_flits - 1))
        # What comes from the chiplet before in the meantime is another packet.
        m.d.sync += self.filling.eq(finish & ~filled)
        with m.If(self.filling):
            m.d.comb += finish.eq(1)
        with m.If(passes | finish):
            m.d.sync += flits.eq(Mux(Mux(finish, filled, self.buffer.o.payload.last), 0, flits + 1))
        return filled

    def _move(self, m: Module, taken: stream.Interface, moves: Signal, passes: Signal, enters: Signal) -> None:
        """Move the front flit by its packet's verdict (`moves`, onto the link: `passes`), or let one in (`enters`)."""
        front, here, free = self.buffer.o, self.i, self.free
        inside, passing, entering = self.inside, self.passing, self.entering
        # Packets that may still pass before one from here.
        patience = Signal(range(self.patience + 1), init=self.patience)
        verdict, held = Signal(Verdict), Signal(Verdict)
        first, link_free = Signal(), Signal()
        m.d.comb += [
            self.asks.eq(front.valid & ~inside),
            verdict.eq(Mux(inside, held, self.verdict)),
            first.eq((patience == 0) & here.valid & (free >= 2)),
            link_free.eq(passing | (~entering & (free != 0) & ~first)),
            moves.eq(
                front.valid & (inside | self.decided) & (~verdict.take | taken.ready) & (~verdict.forward | link_free)
            ),
            self.begins.eq(moves & ~inside),
            front.ready.eq(moves),
            taken.valid.eq(moves & verdict.take),
            taken.payload.eq(front.payload),
            passes.eq(moves & verdict.forward),
            here.ready.eq(entering | ((free >= 2) & ~passing & ~passes)),
            enters.eq(here.valid & here.ready),
            self.passed.eq(passes & ~inside),
            self.sent.eq(enters & ~entering),
        ]
        if self.fills:
            with m.If(self.filling):
                m.d.comb += moves.eq(0)
        with m.If(moves):
            m.d.sync += [inside.eq(~front.payload.last), held.eq(verdict)]
        with m.If(passes):
            m.d.sync += [passing.eq(~front.payload.last)]
        with m.If(self.passed & (patience != 0)):
            m.d.sync += patience.eq(patience - 1)
        with m.If(enters):
            m.d.sync += [entering.eq(~here.payload.last), patience.eq(self.patience)]
        m.d.sync += Cover(first & front.valid)
