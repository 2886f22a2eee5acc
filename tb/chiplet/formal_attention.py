"""Proofs of the attention unit: every beat passes once, in its order, and its numbers always find room."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Fragment, Module, Signal

from hw.chiplet.attention import AttentionUnit
from hw.chiplet.gather import GatherBeat
from sim.harness.formal import Proof, assert_stream, assume_stream
from tb.chiplet.formal_command_reader import without_covers

#: Narrowest beats that hold two scores; rows of one beat or two.
DATA_WIDTH, MAX_BEATS = 64, 2
#: Cycles from reset: more than the latency of coefficients and of reciprocals together.
CYCLES = 24
#: Beats sent at most, so that their numbers have few bits.
BEATS = 32


class AttentionSpec(Elaboratable):
    """Beats leave as they came but for their factors, while streams keep their rules and queues their room.

    The assertions inside the unit say that coefficients and reciprocals never find their queues full.
    """

    def elaborate(self, platform: Any) -> Module:
        """Send whole rows of whole destinations with any numbers; follow one beat."""
        m = Module()
        dut = AttentionUnit(GatherBeat(DATA_WIDTH), MAX_BEATS)
        m.submodules.dut = without_covers(Fragment.get(dut, platform))
        given, out = dut.i.payload, dut.o.payload
        m.d.comb += [
            # Where beats go does not depend on scores, so slopes of 0 spare the solver the products.
            dut.settings.margin.eq(AnyConst(len(dut.settings.margin))),
            dut.settings.last_beat.eq(AnyConst(len(dut.settings.last_beat))),
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
            Assume(dut.settings.last_beat < MAX_BEATS),
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
        attends = dut.settings.margin != 0
        with m.If(taken & (left == followed)):
            m.d.comb += [
                *(Assert(out[name] == kept[name]) for name in ("data", "coefficient", "first", "last")),
                Assert(attends | (out.scalar == kept.scalar)),
                Assert(attends & out.last | (out.scale == kept.scale)),
            ]
        m.d.comb += [
            Cover(taken & attends & (left == 4) & out.last & ~out.first),
            Cover(taken & ~attends & (left == 4) & (dut.settings.last_beat == 1)),
            Cover(attends & (entered - left > 10) & dut.i.valid),
        ]
        return m


PROOFS = [
    Proof("every_beat_passes_once_in_its_order", AttentionSpec, "bmc", CYCLES, quick=False),
    Proof("beats_pass_with_and_without_attention", AttentionSpec, "cover", CYCLES),
]
