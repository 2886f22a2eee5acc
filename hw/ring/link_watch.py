"""Link watch: notices that a neighbour on the ring was reset, or had stopped before this chiplet began."""

from amaranth.hdl import Cover, Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ring.formats import LinkState

__all__ = ["LinkWatch"]


class LinkWatch(wiring.Component):
    """Reports this chiplet's state to both neighbours and monitors theirs.

    A reset drops packets and credits, so chiplets that work with one that was reset have to stop. A neighbour that
    stops while both are at work reports this by a token; only a chiplet that begins later may have missed it.

    Attributes
    ----------
    works : In(1)
        A command uses the ring.
    stop : In(1)
        This chiplet has stopped.
    before, after : In(LinkState)
        States of the neighbours that send to this chiplet and receive from it.
    state : Out(LinkState)
        State of this chiplet, for both of them.
    lost : Out(2)
        The neighbour before, or after, was reset at work or had stopped; stays set.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "works": In(1),
                "stop": In(1),
                "before": In(LinkState),
                "after": In(LinkState),
                "state": Out(LinkState),
                "lost": Out(2),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Remember whether each neighbour has been seen at work."""
        m = Module()
        at_work = self.state == LinkState.AT_WORK
        seen = Signal(2)
        for n, neighbour in enumerate((self.before, self.after)):
            with m.If(at_work & (neighbour == LinkState.AT_WORK)):
                m.d.sync += seen[n].eq(1)
            gone = Signal(name=f"gone_{n}")
            m.d.comb += gone.eq(
                (seen[n] & (neighbour == LinkState.FRESH)) | (~seen[n] & (neighbour == LinkState.STOPPED))
            )
            with m.If(at_work & gone):
                m.d.sync += self.lost[n].eq(1)
        with m.If(self.works & (self.state == LinkState.FRESH)):
            m.d.sync += self.state.eq(LinkState.AT_WORK)
        with m.If(self.stop | self.lost.any()):
            m.d.sync += self.state.eq(LinkState.STOPPED)
        m.d.sync += [
            Cover(self.lost == 1, "the chiplet before was reset"),
            Cover(self.lost == 2, "the chiplet after was reset"),
            Cover(at_work & (self.before == LinkState.STOPPED) & seen[0], "the chiplet before has stopped"),
        ]
        return m
