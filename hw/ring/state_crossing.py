"""State crossing: the state of a neighbour on the ring, seen in this chiplet's clock."""

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from hw.ring.formats import LinkState

__all__ = ["StateCrossing"]


class StateCrossing(wiring.Component):
    """Follows a state that comes from registers of any clock.

    The bits of a state that changes may arrive in two successive clocks. So a state counts once two clocks in a row
    have seen it: five clocks at most after the change. A state that lasts for less than three clocks may be missed, and
    only freshness and work can be so short: a chiplet that is stopped by its first command. So one that stops is shown
    at work first.

    Nothing here is reset: the neighbour does not change with a reset of this chiplet.

    Attributes
    ----------
    i : In(LinkState)
        From registers of another clock.
    o : Out(LinkState)
        From a register.
    """

    def __init__(self) -> None:
        super().__init__({"i": In(LinkState), "o": Out(LinkState)})

    def elaborate(self, platform: object) -> Elaboratable:
        """Take in what was the same in two clocks."""
        m = Module()
        now, before, state = (Signal(LinkState, name=name, reset_less=True) for name in ("now", "before", "state"))
        m.submodules.synchroniser = FFSynchronizer(self.i, now)
        m.d.comb += self.o.eq(state)
        m.d.sync += before.eq(now)
        short = (state != LinkState.AT_WORK) & (state != LinkState.STOPPED) & (now == LinkState.STOPPED)
        with m.If(before == now):
            m.d.sync += state.eq(Mux(short, LinkState.AT_WORK, now))
        return m
