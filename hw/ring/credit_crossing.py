"""Credit crossing: credits that return over a link between two clocks, as a count in Gray code."""

from itertools import pairwise

from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.stream.crossing import STAGES, gray

__all__ = ["CreditCount", "CreditCrossing"]


class CreditCount(wiring.Component):
    """Counts credits for a neighbour with another clock.

    The count is not reset: only its changes count, so a reset makes no credits. A credit that the neighbour has not
    seen yet still arrives, as it does on a link of one clock.

    Parameters
    ----------
    bits
        Width of the count.

    Attributes
    ----------
    i : In(1)
        A credit in this cycle.
    o : Out(bits)
        Credits so far in Gray code, from a register.
    """

    def __init__(self, bits: int) -> None:
        super().__init__({"i": In(1), "o": Out(bits)})
        #: Credits so far as a number. Internal, named for proofs.
        self.count = Signal(bits, reset_less=True)

    def elaborate(self, platform: object) -> Elaboratable:
        """Count."""
        m = Module()
        code, after = Signal.like(self.count, reset_less=True), Signal.like(self.count)
        m.d.comb += [after.eq(self.count + self.i), self.o.eq(code)]
        m.d.sync += [self.count.eq(after), code.eq(gray(after))]
        return m


class CreditCrossing(wiring.Component):
    """Turns the count of a neighbour with another clock into credits, one in a cycle.

    More than one can come between two clocks here; they follow in the next cycles. Fewer than ``2 ** bits`` may be on
    the way. The count that has been turned into credits goes on during a reset, so after one none is made up.

    Parameters
    ----------
    bits
        Width of the count.

    Attributes
    ----------
    i : In(bits)
        ``o`` of the `CreditCount`.
    o : Out(1)
        A credit in this cycle.
    """

    def __init__(self, bits: int) -> None:
        super().__init__({"i": In(bits), "o": Out(1)})
        # Internal, named for proofs. Registers through which the neighbour's count comes; credits that were passed on,
        # as a number and in Gray code.
        self.seen = [Signal(bits, name=f"seen_{stage}", reset_less=True) for stage in range(STAGES)]
        self.count, self.code = (Signal(bits, name=name, reset_less=True) for name in ("count", "code"))

    def elaborate(self, platform: object) -> Elaboratable:
        """Pass a credit on while the counts differ."""
        m = Module()
        after = Signal.like(self.count)
        m.d.sync += [later.eq(sooner) for sooner, later in pairwise((self.i, *self.seen))]
        m.d.comb += [self.o.eq(self.seen[-1] != self.code), after.eq(self.count + 1)]
        with m.If(self.o):
            m.d.sync += [self.count.eq(after), self.code.eq(gray(after))]
        return m
