"""Row gate: own rows leave once they can be read, while more of them are combined (R3, R14)."""

from amaranth.hdl import Cover, Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ring.formats import MadeRows
from hw.ring.remote_array import Departure

__all__ = ["RowGate"]


class RowGate(wiring.Component):
    """Holds departures of rows that a COMBINE makes, which may begin after the SCATTER that sends them.

    Attributes
    ----------
    follows : In(1)
        Pulse: rows are to be sent that the next COMBINE makes.
    failed : In(1)
        No COMBINE comes any more.
    made : In(MadeRows)
    expects : Out(1)
        The COMBINE has not begun; no row leaves before.
    i, o : streams of `Departure`
        Ascending VIDs.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "follows": In(1),
                "failed": In(1),
                "made": In(MadeRows()),
                "expects": Out(1),
                "i": In(stream.Signature(Departure)),
                "o": Out(stream.Signature(Departure)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Compare with the limit as it is in this cycle: it only rises, so what is offered stays."""
        m = Module()
        made, goes = self.made, Signal()
        m.d.comb += [
            goes.eq(~self.expects & (~made.going | (self.i.payload.vid < made.limit))),
            self.o.payload.eq(self.i.payload),
            self.o.valid.eq(self.i.valid & goes),
            self.i.ready.eq(self.o.ready & goes),
        ]
        with m.If(self.follows):
            m.d.sync += self.expects.eq(1)
        with m.Elif(made.begins | self.failed):
            m.d.sync += self.expects.eq(0)
        m.d.sync += [
            Cover(self.o.valid & made.going, "a row leaves while others are combined"),
            Cover(self.i.valid & made.going & ~goes, "a row waits for its combination"),
        ]
        return m
