"""Proofs of the record gate: records stay whole and pass once; those that name no others overtake the rest."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Cover, Elaboratable, Module, Signal

from hw.community.record_gate import RecordGate
from hw.community.record_words import WordFormat, ends_record
from sim.harness.formal import Proof, assert_stream, assume_stream

_SIZES, _DEPTH, _MARKS = WordFormat(1, 2), 4, 3


class RecordGateSpec(Elaboratable):
    """Marks the first pair of each record, and follows one mark; bit 0 of its data: it names others."""

    def elaborate(self, platform: Any) -> Module:
        """Compare what passes with what came."""
        m = Module()
        m.submodules.dut = dut = RecordGate(_SIZES, _DEPTH)
        m.d.comb += [
            dut.holds.eq(AnySeq(1)),
            dut.ordered.eq(AnySeq(1)),
            dut.come.eq(AnySeq(len(dut.come))),
            dut.full.eq(AnySeq(1)),
            dut.i.valid.eq(AnySeq(1)),
            # The rest of the words is 0, and goes the same way.
            dut.i.payload.words[0].data.eq(AnySeq(_MARKS)),
            dut.i.payload.words[1].last.eq(AnySeq(1)),
            dut.i.payload.both.eq(AnySeq(1)),
            dut.others.valid.eq(AnySeq(1)),
            dut.others.payload.eq(AnySeq(len(dut.others.payload))),
            Assume(dut.others.payload <= dut.groups),
            dut.o.ready.eq(AnySeq(1)),
        ]
        for name, port in (("i", dut.i), ("others", dut.others)):
            assume_stream(m, port, name)
        assert_stream(m, dut.o, "o")
        comes, leaves = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
        # Inside a record that comes, or leaves; pairs of it so far.
        within, without, pairs = Signal(), Signal(), Signal(range(_SIZES.longest + 1))
        data_in, data_out = (port.payload.words[0].data[:_MARKS] for port in (dut.i, dut.o))
        last_in, last_out = ends_record(dut.i.payload), ends_record(dut.o.payload)
        followed, held = Signal(len(data_in)), Signal(2)
        m.d.comb += [
            followed.eq(AnyConst(len(data_in))),
            # A first pair has the mark of a first one; a record is no longer than it may be.
            Assume(~dut.i.valid | (data_in[1] == ~within)),
            Assume(~dut.i.valid | last_in | (pairs != _SIZES.longest - 1)),
            Assume(~(dut.i.valid & dut.others.valid & ~within) | (data_in[0] == (dut.others.payload != 0))),
        ]
        with m.If(comes):
            m.d.sync += [within.eq(~last_in), pairs.eq(pairs + 1)]
            with m.If(last_in):
                m.d.sync += pairs.eq(0)
        with m.If(leaves):
            m.d.sync += without.eq(~last_out)
        m.d.sync += held.eq(Cat(dut.holds, held))
        under_way = Signal(range(_DEPTH + 3))
        mine, gone = comes & (data_in == followed), leaves & (data_out == followed)
        m.d.sync += under_way.eq(under_way + mine - gone)
        m.d.comb += [
            Assert(~dut.o.valid | (data_out[1] == ~without)),
            Assert(~gone | mine | (under_way != 0)),
            Cover(leaves & ~without & ~data_out[0] & ~dut.empty & held.all()),
            Cover(gone & ~mine & ~without),
        ]
        return m


PROOFS = [
    Proof("records_stay_whole_and_pass_once", RecordGateSpec, "bmc", 8),
    Proof("own_records_overtake", RecordGateSpec, "cover", 12, outer=True),
]
