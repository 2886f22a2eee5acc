"""Bank arbiter: which of several requesters each bank serves in a cycle."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

__all__ = ["BankArbiter"]


class BankArbiter(wiring.Component):
    """Every bank serves one of those that ask for it: the first from the requester whose turn it is.

    The turn goes on every cycle, for all banks, so a request is served after at most ``requesters - 1`` cycles of
    waiting. Grants depend on requests in the same cycle: the block is one with the crossbar it steers.

    Parameters
    ----------
    requesters, banks
        How many; at least 1 each.

    Attributes
    ----------
    valid
        A bit for each requester: it asks.
    bank
        The bank it asks for.
    grant
        A bit for each requester: it is served.
    chosen
        For each bank the requester it serves; one bit or none is set.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, requesters: int, banks: int) -> None:
        if requesters < 1:
            raise ValueError(f"requesters must be at least 1, not {requesters!r}")
        if banks < 1:
            raise ValueError(f"banks must be at least 1, not {banks!r}")
        self.requesters, self.banks = requesters, banks
        #: Requester that comes first now (inside; the proof looks at it).
        self.turn = Signal(range(max(2, requesters)))
        super().__init__(
            {
                "valid": In(requesters),
                "bank": In(max(1, ceil_log2(banks))).array(requesters),
                "grant": Out(requesters),
                "chosen": Out(requesters).array(banks),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Choose by the lowest bit from the turn on, or else the lowest bit."""
        m = Module()
        from_turn = Signal(self.requesters)
        m.d.comb += from_turn.eq(Cat(self.turn <= n for n in range(self.requesters)))
        m.d.sync += self.turn.eq(Mux(self.turn == self.requesters - 1, 0, self.turn + 1))
        for bank, chosen in enumerate(self.chosen):
            asking = Signal(self.requesters, name=f"asking{bank}")
            first = Signal(self.requesters, name=f"first{bank}")
            m.d.comb += [
                asking.eq(self.valid & Cat(self.bank[n] == bank for n in range(self.requesters))),
                first.eq(Mux((asking & from_turn).any(), asking & from_turn, asking)),
                chosen.eq(first & (~first + 1)),
            ]
        served = self.chosen[0]
        for chosen in self.chosen[1:]:
            served = served | chosen
        m.d.comb += self.grant.eq(served)
        return m
