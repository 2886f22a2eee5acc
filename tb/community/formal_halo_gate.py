"""Proofs of the halo gate: no row of others before the exchange has ended, and each wish passes once."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Signal

from hw.community.halo_gate import HaloGate
from sim.harness.formal import Proof, assert_stream, assume_stream

_BITS, _DEPTH = 4, 3


class HaloGateSpec(Elaboratable):
    """Follows one VID beside the gate."""

    def elaborate(self, platform: Any) -> Module:
        """Compare what passes with what was wished for."""
        m = Module()
        m.submodules.dut = dut = HaloGate(_BITS, _DEPTH)
        followed, before = Signal(_BITS), Signal()
        m.d.comb += [
            dut.exchanging.eq(AnySeq(1)),
            dut.first.eq(AnyConst(_BITS)),
            dut.vertices.eq(AnyConst(_BITS + 1)),
            dut.i.valid.eq(AnySeq(1)),
            dut.i.payload.eq(AnySeq(_BITS)),
            dut.o.ready.eq(AnySeq(1)),
            followed.eq(AnyConst(_BITS)),
        ]
        assume_stream(m, dut.i, "i")
        assert_stream(m, dut.o, "o")
        m.d.sync += before.eq(dut.exchanging)
        comes, leaves = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
        under_way, all_ = Signal(range(_DEPTH + 2)), Signal(range(_DEPTH + 2))
        mine = comes & (dut.i.payload == followed)
        gone = leaves & (dut.o.payload == followed)
        # It begins before the first wish.
        m.d.comb += Assume(~(dut.exchanging & ~before) | (~dut.i.valid & (all_ == 0)))
        m.d.comb += Assume((all_ <= _DEPTH) & (under_way <= _DEPTH))
        m.d.sync += [under_way.eq(under_way + mine - gone), all_.eq(all_ + comes - leaves)]
        own = (followed - dut.first)[: _BITS + 1] < dut.vertices
        m.d.comb += [
            Assert(~(gone & dut.exchanging) | own),
            # Nothing passes that was not wished for, or twice.
            Assert(~gone | mine | (under_way != 0)),
            Cover(gone & ~own & (under_way == 2)),
            Cover(leaves & dut.exchanging & (all_ == 2)),
        ]
        return m


PROOFS = [
    Proof("no_row_of_others_too_early", HaloGateSpec, "bmc", 14),
    Proof("rows_pass_in_both_ways", HaloGateSpec, "cover", 14),
]
