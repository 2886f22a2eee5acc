"""Proofs of the segmenter: whatever the offsets say, every segment comes once, in order, within the array."""

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Signal
from amaranth.utils import exact_log2

from hw.graph.segmenter import Segmenter
from sim.harness.formal import Proof, assert_stream, assume_stream

ADDRESS_WIDTH = 13
#: Rows and tiles of the requests followed, at most.
ROWS, TILES = 3, 3
#: Words of their arrays, below this.
WORDS = 8


class SegmenterSpec(Elaboratable):
    """Ends never fall nor pass the array's end; there are rows * tiles of them; wrong offsets are reported."""

    def elaborate(self, platform: Any) -> Module:
        """Start once, then feed any offsets; count what comes."""
        m = Module()
        m.submodules.dut = dut = Segmenter(ADDRESS_WIDTH)
        request = Signal.like(dut.request)
        m.d.comb += [
            request.eq(AnyConst(len(request.as_value()))),
            dut.request.eq(request),
            Assume((request.rows >= 1) & (request.rows <= ROWS)),
            Assume((request.tiles >= 1) & (request.tiles <= TILES)),
            Assume(~request.uniform | (request.tiles == 1)),
            Assume(request.words < WORDS),
            # Few values of each kind: in range, a little past it, far past it.
            Assume(dut.offset.payload[exact_log2(2 * WORDS) : 31] == 0),
            Assume(request.stride < WORDS),
            dut.offset.valid.eq(AnySeq(1)),
            dut.offset.payload.eq(AnySeq(32)),
            dut.o.ready.eq(AnySeq(1)),
        ]
        assume_stream(m, dut.offset, "offset")
        assert_stream(m, dut.o, "o")
        begun = Signal()
        m.d.comb += dut.start.eq(~begun & AnySeq(1))
        with m.If(dut.start):
            m.d.sync += begun.eq(1)

        total = request.rows[:2] * request.tiles[:2]
        segment = dut.o.payload
        take = dut.o.valid & dut.o.ready
        count, row, tile, end = Signal(8), Signal(8), Signal(8), Signal(32)
        with m.If(take):
            m.d.sync += [count.eq(count + 1), end.eq(segment.end), tile.eq(tile + 1)]
            with m.If(tile == request.tiles - 1):
                m.d.sync += [tile.eq(0), row.eq(row + 1)]
        with m.If(dut.o.valid):
            m.d.comb += [
                Assert(begun),
                Assert(row < request.rows),
                Assert(segment.tile == tile),
                Assert(segment.first == (tile == 0)),
                Assert(segment.last == (tile == request.tiles - 1)),
                Assert(segment.final == (segment.last & (row == request.rows - 1))),
                Assert(segment.end >= end),
                Assert(segment.end <= request.words),
            ]
        # Offsets read: one more than segments, and none of uniform rows.
        offsets, before, reports = Signal(8), Signal(32), Signal(8)
        read = dut.offset.valid & dut.offset.ready
        m.d.sync += [offsets.eq(offsets + read), reports.eq(reports + dut.error.valid)]
        with m.If(read):
            m.d.sync += before.eq(dut.offset.payload)
            wrong = (dut.offset.payload < before) | (dut.offset.payload > request.words)
            m.d.comb += Assert(~wrong | dut.error.valid | (reports != 0))
        m.d.comb += [
            Assert(~read | ~request.uniform),
            Assert(offsets <= total + 1),
            Assert(~dut.error.valid | (dut.error.payload.info < request.rows)),
        ]
        # Without anything to wait for, a segment comes within a few cycles.
        stuck = Signal(3)
        waits = (dut.offset.ready & ~dut.offset.valid) | (dut.o.valid & ~dut.o.ready) | take | read
        done = count == total
        m.d.sync += stuck.eq(0)
        with m.If(begun & ~done & ~waits):
            m.d.sync += stuck.eq(stuck + 1)
        m.d.comb += Assert(stuck < 3)

        m.d.comb += [
            Cover(done & (reports == 0) & (count == 4) & ~request.uniform),
            Cover(done & (reports == 2) & (count == 3)),
            Cover(done & request.uniform & (count == 3) & (reports == 0) & (end == 6)),
        ]
        return m


PROOFS = [
    Proof("segments_are_complete_and_in_order", SegmenterSpec, "bmc", 12),
    Proof("reaches_its_states", SegmenterSpec, "cover", 14),
]
