"""Proofs of the attention unit: every beat passes once, in its order, and its numbers always find room."""

from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Cover, Elaboratable, Fragment, Module, Signal

from contracts.attention import EXPONENTIALS
from hw.chiplet import attention
from hw.chiplet.gather import GatherBeat
from hw.chiplet.reciprocal import Reciprocal
from sim.harness.formal import Proof, assert_stream, assume_stream
from tb.chiplet.formal_command_reader import without_covers

#: Narrowest beats that hold two scores; rows of one beat or two.
DATA_WIDTH, MAX_BEATS = 64, 2
#: Cycles from reset: with attention more than the latency of coefficients and of reciprocals together; without it a
#: beat waits for nothing.
CYCLES = {False: 12, True: 24}
#: Beats sent at most, so that their numbers have few bits.
BEATS = 32


class AnyReciprocal(Reciprocal):
    """Any number comes at the time of the reciprocal, which spares the solver the products."""

    def elaborate(self, platform: Any) -> Module:
        """Offer something, the latency after each sum."""
        m = Module()
        valid = Signal(self.LATENCY)
        m.d.sync += valid.eq(Cat(self.i.valid, valid[:-1]))
        m.d.comb += [self.o.valid.eq(valid[-1]), self.o.payload.eq(AnySeq(len(self.o.payload.as_value())))]
        return m


class AttentionSpec(Elaboratable):
    """Beats leave as they came but for their factors, while streams keep their rules and queues their room.

    The assertions inside the unit say that coefficients and reciprocals never find their queues full.

    Parameters
    ----------
    beats
        Beats of a row.
    attends
        Whether rows count by their scores.
    """

    def __init__(self, beats: int, *, attends: bool) -> None:
        self.beats, self.attends = beats, attends

    def elaborate(self, platform: Any) -> Module:
        """Send whole rows of whole destinations with any numbers; follow one beat."""
        m = Module()
        dut = attention.AttentionUnit(GatherBeat(DATA_WIDTH), MAX_BEATS)
        # Where beats go does not depend on scores: any reciprocals do, and exponentials that are all alike.
        with patch.multiple(attention, Reciprocal=AnyReciprocal, EXPONENTIALS=[0] * len(EXPONENTIALS)):
            m.submodules.dut = without_covers(Fragment.get(dut, platform))
        given, out = dut.i.payload, dut.o.payload
        m.d.comb += [
            # Slopes are 0 for the same reason.
            dut.settings.margin.eq(AnyConst(len(dut.settings.margin)) if self.attends else 0),
            Assume(dut.settings.margin.any() == self.attends),
            dut.settings.last_beat.eq(self.beats - 1),
            dut.i.valid.eq(AnySeq(1)),
            given.eq(AnySeq(given.shape().size)),
            dut.o.ready.eq(AnySeq(1)),
        ]
        assume_stream(m, dut.i, "i")
        assert_stream(m, dut.o, "o")

        # Settings stand a cycle before the first beat; ``first`` and ``last`` are those of destinations, in whole rows.
        begun, inside, part = Signal(), Signal(), Signal(range(MAX_BEATS))
        put, taken = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
        row_end = part == dut.settings.last_beat
        m.d.sync += begun.eq(1)
        m.d.comb += [
            Assume(begun | ~dut.i.valid),
            Assume(~dut.i.valid | (given.first == (~inside & (part == 0)))),
            Assume(~dut.i.valid | ~given.last | row_end),
        ]
        with m.If(put):
            m.d.sync += [part.eq(part + 1), inside.eq(1)]
            with m.If(row_end):
                m.d.sync += [part.eq(0), inside.eq(~given.last)]

        entered, left = Signal(range(BEATS)), Signal(range(BEATS))
        m.d.sync += [entered.eq(entered + put), left.eq(left + taken)]
        followed, kept = Signal(range(BEATS)), Signal(given.shape())
        m.d.comb += [
            followed.eq(AnyConst(len(followed))),
            Assume(entered < BEATS - 1),
            Assert(left <= entered),
            Assert(~taken | (left != entered)),
        ]
        with m.If(put & (entered == followed)):
            m.d.sync += kept.eq(given)
        with m.If(taken & (left == followed)):
            m.d.comb += [
                *(Assert(out[name] == kept[name]) for name in ("data", "coefficient", "first", "last")),
                Assert((out.scalar == kept.scalar) | self.attends),
                Assert((out.scale == kept.scale) | (out.last & self.attends)),
            ]
        # The fourth beat ends a row, and here its destination, too.
        m.d.comb += Cover(taken & (left == 3) & out.last & ~out.first)
        if self.attends:
            m.d.comb += Cover((entered - left > 10) & dut.i.valid)
        return m


def _proofs() -> Iterator[Proof]:
    """Yield proofs of each kind of settings apart, which takes the solver less time than all at once."""
    for beats in range(1, MAX_BEATS + 1):
        for attends in (False, True):
            spec = partial(AttentionSpec, beats, attends=attends)
            kind = f"of_{beats}_{'with' if attends else 'without'}_attention"
            yield Proof(f"rows_{kind}_pass_once_in_their_order", spec, "bmc", CYCLES[attends], quick=False)
            yield Proof(f"rows_{kind}_pass", spec, "cover", CYCLES[attends])


PROOFS = list(_proofs())
