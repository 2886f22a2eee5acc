"""Proof of the degree lists: every row is linked to the one before it in its list, and no list is mixed up."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assert, Assume, Cover, Elaboratable, Module, Mux, Signal
from amaranth.utils import exact_log2

from hw.locator.config import LocatorConfig
from hw.locator.degree_lists import DegreeLists
from hw.locator.loader import row_of
from sim.harness.formal import Proof


class DegreeListsSpec(Elaboratable):
    """Follows one list, any of them, of one bank.

    Parameters
    ----------
    banks, load_words
        Of the lists; rows of a bank come in every cycle, or in every other one, or less often.
    """

    def __init__(self, banks: int, load_words: int) -> None:
        self.config = LocatorConfig(
            engines=1, searches=1, lanes=1, nodes=2 * banks, edges=16, banks=banks, load_words=load_words,
            data_width=128, tag_bits=4,
        )  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        """Drive rows in any order, stall them, and clear the lists now and then."""
        m = Module()
        config = self.config
        m.submodules.dut = dut = DegreeLists(config)
        bank, level = Signal(range(config.banks)), Signal(range(config.top_level + 1))
        count, first, quiet = Signal(config.place_bits + 1), Signal(config.place_bits), Signal(2)
        m.d.comb += [
            bank.eq(AnyConst(len(bank))),
            level.eq(AnyConst(len(level))),
            dut.i.valid.eq(AnySeq(1)),
            dut.i.payload.eq(AnySeq(dut.i.payload.shape().size)),
            dut.o.ready.eq(AnySeq(1)),
            dut.clear.eq(AnySeq(1)),
            dut.level.eq(level),
            # Lists are cleared between two graphs.
            Assume(~dut.clear | (~dut.busy & ~dut.i.valid)),
        ]
        # Groups come in order, so banks take turns.
        turn = Signal(exact_log2(config.banks // config.load_words))
        if len(turn):
            m.d.comb += Assume(dut.i.payload.group[: len(turn)] == turn)
            with m.If(dut.i.valid & dut.i.ready):
                m.d.sync += turn.eq(turn + 1)
        chosen = []
        for number in range(config.banks):
            rows = dut.o.payload.rows
            mine, place = row_of(config, rows, number)
            lane = number % config.load_words
            chosen.append((mine, place, rows.rows[lane].degree, dut.o.payload.next[lane]))
        mine, place, degree, after = (Array(each)[bank] for each in zip(*chosen, strict=True))
        joins = Signal()
        m.d.comb += joins.eq(dut.o.valid & dut.o.ready & mine & (degree == level))
        with m.If(joins):
            # No bank gets more vertices than it holds.
            m.d.comb += [Assume(~count[-1]), Assert((count == 0) | (after == first))]
            m.d.sync += [count.eq(count + 1), first.eq(place)]
        with m.If(dut.clear):
            m.d.sync += [count.eq(0), first.eq(0)]
        # What is asked for comes two cycles later.
        m.d.sync += quiet.eq(Mux(dut.busy | dut.i.valid | dut.clear, 0, Mux(quiet == 3, 3, quiet + 1)))
        head = Array(dut.heads[n].as_value() for n in range(config.banks))[bank]
        with m.If(quiet >= 2):
            m.d.comb += [
                Assert(head[: len(count)] == count),
                Assert((count == 0) | (head[len(count) :] == first)),
                Assert((count == 0) | (dut.most >= level)),
            ]
        again = Signal()
        with m.If(dut.clear & (count != 0)):
            m.d.sync += again.eq(1)
        m.d.comb += [Cover((quiet == 2) & (count == 2)), Cover((quiet == 2) & again & (count == 1))]
        return m


PROOFS = [
    *(
        Proof(f"links_rows_{banks}_{words}", lambda b=banks, w=words: DegreeListsSpec(b, w), "bmc", 8 + 2 * banks)  # type: ignore[misc]
        for banks, words in ((2, 2), (2, 1), (4, 1))
    ),
    Proof("reaches_its_states", lambda: DegreeListsSpec(2, 2), "cover", 24),
]
