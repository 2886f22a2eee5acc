"""Link watch: notices that a neighbour on the ring was reset after it had begun, or had stopped before."""

from amaranth.hdl import Const, Cover, Elaboratable, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ring.formats import LinkState

__all__ = ["LinkWatch"]


class LinkWatch(wiring.Component):
    """Reports this chiplet's state to both neighbours and monitors theirs.

    A reset drops packets and credits, so chiplets that work with one that was reset have to stop: those that were at
    work with it, and one that had sent to it before it was at work. A neighbour that stops while both are at work
    reports this by a token; only a chiplet that begins later may have missed it.

    Attributes
    ----------
    works : In(1)
        A command uses the ring.
    sends : In(1)
        A flit goes to the neighbour after.
    stop : In(1)
        This chiplet has stopped.
    before, after : In(LinkState)
        States of the neighbours that send to this chiplet and receive from it.
    state : Out(LinkState)
        State of this chiplet, for both of them.
    lost : Out(2)
        The neighbour before, or after, was reset or had stopped; stays set.
    """

    def __init__(self) -> None:
        # Internal, named for proofs. Something was sent; it went to a chiplet that was reset behind it.
        self.sent, self.wasted = Signal(), Signal()
        super().__init__(
            {
                "works": In(1),
                "sends": In(1),
                "stop": In(1),
                "before": In(LinkState),
                "after": In(LinkState),
                "state": Out(LinkState, init=LinkState.IN_RESET),
                "lost": Out(2),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Remember whether each neighbour has been seen at work, and whether something was sent."""
        m = Module()
        at_work = self.state == LinkState.AT_WORK
        idle = (self.state == LinkState.FRESH) | (self.state == LinkState.IN_RESET)
        seen, sent, wasted = Signal(2), self.sent, self.wasted
        # The chiplet after may not have been at work, nor this one when it let packets pass.
        m.d.sync += [
            sent.eq(sent | self.sends),
            wasted.eq(wasted | (sent & (self.after == LinkState.IN_RESET))),
        ]
        for n, (neighbour, also) in enumerate(((self.before, Const(0)), (self.after, wasted))):
            with m.If(at_work & (neighbour == LinkState.AT_WORK)):
                m.d.sync += seen[n].eq(1)
            was_reset = (neighbour == LinkState.FRESH) | (neighbour == LinkState.IN_RESET)
            gone = Signal(name=f"gone_{n}")
            m.d.comb += gone.eq(Mux(seen[n], was_reset, neighbour == LinkState.STOPPED) | also)
            with m.If(at_work & gone):
                m.d.sync += self.lost[n].eq(1)
        with m.If(idle):
            m.d.sync += self.state.eq(Mux(self.works, LinkState.AT_WORK, LinkState.FRESH))
        with m.If(self.stop | self.lost.any()):
            m.d.sync += self.state.eq(LinkState.STOPPED)
        m.d.sync += [
            Cover(self.lost == 1, "the chiplet before was reset"),
            Cover(self.lost == 2, "the chiplet after was reset"),
            Cover(at_work & ~seen[1] & wasted, "the chiplet after was reset before it was at work"),
            Cover(at_work & (self.before == LinkState.STOPPED) & seen[0], "the chiplet before has stopped"),
        ]
        return m
