"""Bank arbiter: selects the requester that each bank serves in a cycle."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

__all__ = ["BankArbiter"]


class BankArbiter(wiring.Component):
    """Each bank grants one of its requesters: the first from the round-robin pointer on.

    All banks share the pointer, which advances every cycle, so a request waits for at most ``requesters - 1`` cycles.
    Grants depend on requests of the same cycle: the block is combinational with the crossbar that it controls.

    Parameters
    ----------
    requesters, banks
        Numbers of requesters and banks, at least 1 each.

    Attributes
    ----------
    valid
        One bit for each requester: it has a request.
    bank
        Bank of each request.
    grant
        One bit for each requester: its request is granted.
    chosen
        For each bank the granted requester, one-hot or 0.

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
        #: Round-robin pointer (internal; read by the proof).
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
        """Grant each request that none of its bank comes before: from the pointer on, or else lower.

        Requests are compared in pairs: what a lane does with its grant takes longer than what a bank does.
        """
        m = Module()
        m.d.sync += self.turn.eq(Mux(self.turn == self.requesters - 1, 0, self.turn + 1))
        early = Signal(self.requesters)
        m.d.comb += early.eq(Cat(self.turn <= n for n in range(self.requesters)))
        for n, bank in enumerate(self.bank):
            # A lower one comes before, unless only this one is from the pointer on; a higher one only if it alone is.
            before = [
                self.valid[other] & (self.bank[other] == bank) & first
                for other in range(self.requesters)
                if other != n
                for first in [early[other] | ~early[n] if other < n else early[other] & ~early[n]]
            ]
            m.d.comb += self.grant[n].eq(self.valid[n] & ~Cat(before).any())
        for number, chosen in enumerate(self.chosen):
            m.d.comb += chosen.eq(self.grant & Cat(bank == number for bank in self.bank))
        return m
