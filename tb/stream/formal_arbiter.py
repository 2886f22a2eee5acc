"""Proofs of the arbiter: fairness for ever, and no word lost, doubled or changed."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Array, Assert, Assume, Cover, Elaboratable, Module, Signal
from amaranth.lib import data

from hw.stream.arbiter import Arbiter
from sim.harness.formal import Proof, assert_stream, assume_stream

WIDTH = 2
HELD = 2


class ArbiterSpec(Elaboratable):
    """A waiting input sees at most ``count - 1`` words of others; what enters leaves in the same order.

    Parameters
    ----------
    count
        Number of inputs.
    words
        Whether to follow the words too; their proof is bounded, that of fairness is not.
    wide
        Words are wide.
    """

    def __init__(self, count: int, words: bool, *, wide: bool = False) -> None:
        self.count = count
        self.words = words
        self.wide = wide

    def elaborate(self, platform: Any) -> Module:
        """Drive the arbiter freely and watch one symbolic input."""
        m = Module()
        m.submodules.dut = dut = Arbiter(WIDTH, self.count, wide=self.wide)
        m.d.comb += dut.o.ready.eq(AnySeq(1))
        for n, port in enumerate(dut.i):
            m.d.comb += [port.payload.eq(AnySeq(WIDTH)), port.valid.eq(AnySeq(1))]
            assume_stream(m, port, f"i{n}")
        assert_stream(m, dut.o, "o")
        taken = Signal(self.count)
        m.d.comb += [taken[n].eq(port.valid & port.ready) for n, port in enumerate(dut.i)]
        self._fairness(m, dut, taken)
        if self.words:
            self._words(m, dut, taken)
        return m

    def _fairness(self, m: Module, dut: Arbiter, taken: Signal) -> None:
        watched = Signal(range(self.count))
        m.d.comb += [watched.eq(AnyConst(watched.shape())), Assume(watched < self.count)]
        mine = Signal()
        waits = Signal()
        m.d.comb += [
            mine.eq(taken.bit_select(watched, 1)),
            waits.eq(Array(port.valid for port in dut.i)[watched] & ~mine),
        ]
        others = Signal(range(self.count + 1))
        m.d.sync += others.eq(0)
        with m.If(waits):
            m.d.sync += others.eq(others + taken.any())
        # Each word of another input brings the grant at least one place nearer.
        distance = Signal(range(self.count))
        with m.If(watched >= dut.grant):
            m.d.comb += distance.eq(watched - dut.grant)
        with m.Else():
            m.d.comb += distance.eq(watched + self.count - dut.grant)
        m.d.comb += [
            Assert(dut.grant < self.count),
            Assert((taken & (taken - 1)) == 0),
            Assert((others == 0) | (others + distance <= self.count - 1)),
            Assert(others <= self.count - 1),
            Cover(mine & (others == self.count - 1)),
        ]

    def _words(self, m: Module, dut: Arbiter, taken: Signal) -> None:
        held = Signal(range(HELD + 1))
        model = [Signal(dut.o.payload.shape(), name=f"model_{n}") for n in range(HELD)]
        entering = Signal(dut.o.payload.shape())
        for n, port in enumerate(dut.i):
            with m.If(taken[n]):
                m.d.comb += [entering.payload.eq(port.payload), entering.source.eq(n)]
        put = taken.any()
        take = dut.o.valid & dut.o.ready
        m.d.sync += held.eq(held + put - take)
        with m.If(take):
            m.d.sync += model[0].eq(model[1])
        with m.If(put):
            with m.If(held == take):
                m.d.sync += model[0].eq(entering)
            with m.Else():
                m.d.sync += model[1].eq(entering)
        most = 1 if self.wide else HELD
        m.d.comb += [Assert(held <= most), Assert(dut.o.valid == (held != 0))]
        with m.If(held != 0):
            m.d.comb += Assert(dut.o.payload == model[0])
        m.d.comb += [Cover((held == most) & take), Cover(put & take)]


class WholeSpec(Elaboratable):
    """Words of an input up to one with ``last`` leave without others between them, and the input behind it is served.

    Parameters
    ----------
    count
        Number of inputs.
    wide
        Words are wide.
    """

    def __init__(self, count: int, *, wide: bool = False) -> None:
        self.count = count
        self.wide = wide

    def elaborate(self, platform: Any) -> Module:
        """Drive the arbiter freely and remember whose words are leaving."""
        m = Module()
        word = data.StructLayout({"word": WIDTH, "last": 1})
        m.submodules.dut = dut = Arbiter(word, self.count, whole=True, wide=self.wide)
        m.d.comb += dut.o.ready.eq(AnySeq(1))
        for n, port in enumerate(dut.i):
            m.d.comb += [port.payload.eq(AnySeq(WIDTH + 1)), port.valid.eq(AnySeq(1))]
            assume_stream(m, port, f"i{n}")
        assert_stream(m, dut.o, "o")
        inside, whose = Signal(), Signal(range(self.count))
        leaving = dut.o.payload
        with m.If(dut.o.valid):
            m.d.comb += Assert(~inside | (leaving.source == whose))
            with m.If(dut.o.ready):
                m.d.sync += [inside.eq(~leaving.payload.last), whose.eq(leaving.source)]
        m.d.comb += [Cover(dut.o.valid & inside & (whose == n)) for n in range(self.count)]
        return m


PROOFS = [
    Proof("words_up_to_the_last_stay_together_3", lambda: WholeSpec(3), "bmc", 12),
    Proof("all_inputs_send_several_words_3", lambda: WholeSpec(3), "cover", 8),
    Proof("a_waiting_input_is_served_within_a_round_2", lambda: ArbiterSpec(2, words=False), "prove", 3),
    Proof("a_waiting_input_is_served_within_a_round_3", lambda: ArbiterSpec(3, words=False), "prove", 3),
    Proof("no_word_is_lost_or_doubled_3", lambda: ArbiterSpec(3, words=True), "bmc", 14),
    Proof("reaches_its_states_3", lambda: ArbiterSpec(3, words=True), "cover", 14),
    Proof("words_up_to_the_last_stay_together_3_wide", lambda: WholeSpec(3, wide=True), "bmc", 12),
    Proof("all_inputs_send_several_words_3_wide", lambda: WholeSpec(3, wide=True), "cover", 8),
    Proof(
        "a_waiting_input_is_served_within_a_round_3_wide", lambda: ArbiterSpec(3, words=False, wide=True), "prove", 3
    ),
    Proof("no_word_is_lost_or_doubled_3_wide", lambda: ArbiterSpec(3, words=True, wide=True), "bmc", 14),
    Proof("reaches_its_states_3_wide", lambda: ArbiterSpec(3, words=True, wide=True), "cover", 14),
]
