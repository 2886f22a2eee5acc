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
        """Grant the lowest request from the pointer on, or else the lowest."""
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
