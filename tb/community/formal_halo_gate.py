"""Proofs of the halo gate: no row of others before it can be read; each row passes once."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from hw.community.formats import CommunityConfig
from hw.community.halo_gate import HaloGate
from hw.ring.formats import OWNERS
from sim.harness.formal import Proof, assert_stream, assume_stream

_CONFIG = CommunityConfig(data_width=64, lanes=4, partials=True)
_ADDRESS_BITS, _DEPTH, _CHIPLETS = 13, 10, 3


class HaloGateSpec(Elaboratable):
    """Numbers rows in their tags, and follows one number."""

    def elaborate(self, platform: Any) -> Module:
        """Compare what passes with what came, and with what the gate was told."""
        m = Module()
        m.submodules.dut = dut = HaloGate(_CONFIG, _ADDRESS_BITS, _DEPTH)
        halo, bits = dut.halo, len(dut.halo.starts[0])
        m.d.comb += [
            halo.going.eq(AnySeq(1)),
            halo.known.eq(AnySeq(1)),
            halo.own.eq(AnyConst(2)),
            dut.i.valid.eq(AnySeq(1)),
            # What else there is of a row passes with it.
            dut.i.payload.range.address.eq(AnySeq(len(dut.i.payload.range.address))),
            dut.i.payload.tag.vid.eq(AnySeq(len(dut.i.payload.tag.vid))),
            dut.i.payload.own.eq(AnySeq(1)),
            dut.o.ready.eq(AnySeq(1)),
            Assume(halo.own < _CHIPLETS),
        ]
        assume_stream(m, dut.i, "i")
        assert_stream(m, dut.o, "o")
        # Starts are right as soon as they are known; limits rise.
        starts = [Signal(bits, name=f"start_{n}") for n in range(_CHIPLETS)]
        before = [Signal(bits, name=f"before_{n}") for n in range(_CHIPLETS)]
        m.d.comb += [halo.starts[n].eq(~0) for n in range(_CHIPLETS, OWNERS)]
        for n in range(_CHIPLETS):
            m.d.comb += [
                starts[n].eq(AnyConst(bits)),
                halo.starts[n].eq(Mux(halo.known, starts[n], AnySeq(bits))),
                halo.limits[n].eq(AnySeq(bits)),
                Assume((halo.limits[n] >= before[n]) & (halo.known | (halo.limits[n] == 0))),
            ]
            m.d.sync += before[n].eq(halo.limits[n])
            if n:
                m.d.comb += Assume(starts[n - 1] <= starts[n])
        # One exchange, which begins before the first row; a row that is not the chiplet's belongs to some chiplet.
        begun, ended, knew = Signal(), Signal(), Signal()
        m.d.sync += [begun.eq(1), ended.eq(ended | ~halo.going), knew.eq(halo.known)]
        m.d.comb += [
            Assume(begun | halo.going),
            Assume(~ended | ~halo.going),
            Assume(~knew | halo.known | ~halo.going),
        ]
        row, gone = dut.i.payload, dut.o.payload
        beat = gone.range.address >> 1
        number, coming, leaving = Signal.like(row.tag.vid), Signal(4), Signal(4)
        comes, leaves = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
        m.d.comb += [
            number.eq(AnyConst(len(number))),
            Assume(~dut.i.valid | (row.tag.vid == coming)),
            Assume(~dut.i.valid | row.own | ((row.range.address >> 1) >= starts[0])),
        ]
        m.d.sync += coming.eq(coming + comes)
        under_way = Signal(range(16))
        mine, passes = comes & (row.tag.vid == number), leaves & (gone.tag.vid == number)
        m.d.sync += under_way.eq(under_way + mine - passes)
        readable = Signal()
        for n in range(_CHIPLETS):
            ends = beat < starts[n + 1] if n + 1 < _CHIPLETS else 1
            with m.If((beat >= starts[n]) & ends & ((halo.own == n) | (beat < halo.limits[n]))):
                m.d.comb += readable.eq(1)
        m.d.sync += leaving.eq(leaving + leaves)
        m.d.comb += [
            Assert(~dut.o.valid | gone.own | ended | ~halo.going | (halo.known & readable)),
            Assert(~passes | (under_way != 0)),
            Cover(leaves & ~gone.own & halo.going & (halo.own != 0) & (beat < starts[1]) & (under_way == 1)),
            Cover(leaves & gone.own & halo.going & (gone.tag.vid == 2) & (leaving == 0)),
        ]
        return m


PROOFS = [
    Proof("no_row_of_others_too_early", HaloGateSpec, "bmc", 10),
    Proof("no_row_of_others_too_early_for_longer", HaloGateSpec, "bmc", 11, quick=False),
    Proof("rows_pass_in_both_ways", HaloGateSpec, "cover", 13, outer=True),
]
