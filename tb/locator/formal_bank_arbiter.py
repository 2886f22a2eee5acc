"""Proof of the bank arbiter: one requester a bank, no bank idle that is asked for, none waits for ever."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from hw.locator.bank_arbiter import BankArbiter
from sim.harness.formal import Proof


class BankArbiterSpec(Elaboratable):
    """Every bank serves one of those that ask for it, and a waiting requester at the latest when its turn comes.

    Parameters
    ----------
    requesters, banks
        Of the arbiter.
    """

    def __init__(self, requesters: int, banks: int) -> None:
        self.requesters, self.banks = requesters, banks

    def elaborate(self, platform: Any) -> Module:
        """Drive requests freely; watch one requester."""
        m = Module()
        m.submodules.dut = dut = BankArbiter(self.requesters, self.banks)
        m.d.comb += dut.valid.eq(AnySeq(self.requesters))
        m.d.comb += Assert(dut.turn < self.requesters)
        for bank in dut.bank:
            m.d.comb += [bank.eq(AnySeq(len(bank))), Assume(bank < self.banks)]
        for number, chosen in enumerate(dut.chosen):
            asking = Signal(self.requesters, name=f"asks{number}")
            m.d.comb += [
                *(asking[n].eq(dut.valid[n] & (dut.bank[n] == number)) for n in range(self.requesters)),
                Assert((chosen & (chosen - 1)) == 0),
                Assert((chosen & ~asking) == 0),
                Assert(chosen.any() == asking.any()),
                *(Assert(~asking[n] | (dut.grant[n] == chosen[n])) for n in range(self.requesters)),
            ]
        m.d.comb += Assert((dut.grant & ~dut.valid) == 0)

        watched = Signal(range(max(2, self.requesters)))
        m.d.comb += [watched.eq(AnyConst(watched.shape())), Assume(watched < self.requesters)]
        waits, waited = Signal(), Signal(range(self.requesters + 1))
        m.d.comb += waits.eq(dut.valid.bit_select(watched, 1) & ~dut.grant.bit_select(watched, 1))
        m.d.sync += waited.eq(Mux(waits, waited + 1, 0))
        # What is left until the turn comes shrinks by one each cycle.
        passed = Array(Array((t - w - 1) % self.requesters for w in range(self.requesters))[watched]
                       for t in range(self.requesters))[dut.turn]  # fmt: skip
        m.d.comb += [Assert(waited <= passed), Assert(waited < self.requesters)]
        m.d.comb += [Cover(waited == self.requesters - 1), Cover(dut.grant.all())]
        return m


PROOFS = [
    *(
        Proof(f"serves_everyone_{requesters}_{banks}", lambda r=requesters, b=banks: BankArbiterSpec(r, b), "prove", 2)  # type: ignore[misc]
        for requesters, banks in ((1, 2), (3, 2), (4, 4), (2, 1))
    ),
    Proof("reaches_its_states", lambda: BankArbiterSpec(3, 4), "cover", 8),
]
