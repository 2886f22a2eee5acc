"""Proofs of the load sequencer: two requests a start, busy until all is written; the first error is told."""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from contracts import Error
from hw.community.load_sequencer import LoadSequencer
from hw.graph.formats import ErrorReport
from sim.harness.formal import Proof, assert_stream

#: Width of an address, in bits, and words of a row; what is proved does not depend on them.
ADDRESS_WIDTH, ROW_WORDS = 13, 8


class LoadSpec(Elaboratable):
    """A plain model beside the sequencer: what has been asked for, and what is still to be written."""

    def elaborate(self, platform: Any) -> Module:
        """Compare what the sequencer asks and says with the model."""
        m = Module()
        m.submodules.dut = dut = LoadSequencer(ADDRESS_WIDTH)
        settings = (dut.addresses.as_value(), dut.rows, dut.biases_wanted, dut.resident)
        # Any product would take the solver too long; the bench has them.
        m.d.comb += dut.row_words.eq(ROW_WORDS)
        inputs = (dut.start, dut.follows, dut.loaded, dut.load.ready, dut.error.valid, dut.error.payload.as_value())
        for port in (*inputs, *settings):
            m.d.comb += port.eq(AnySeq(len(port)))
        assert_stream(m, dut.load, "load")

        # Requests of a start that have been taken, and what is still to be written of all.
        busy, asked, left = Signal(), Signal(range(3)), Signal(17)
        took = dut.load.valid & dut.load.ready
        all_ = Signal(17)
        owed = Signal(17)  # of what has been asked for
        m.d.comb += [
            all_.eq(Mux(dut.resident, 0, dut.rows) + dut.biases_wanted),
            Assume((dut.rows != 0) & (dut.rows <= 1 << 16)),
            Assume(dut.biases_wanted != 0),
            Assume(~(dut.start & busy)),
            owed.eq(left - Mux(asked == 2, 0, Mux(asked == 1, dut.biases_wanted, all_))),
            # Only what has been asked for is written.
            Assume(~dut.loaded | (busy & (asked != 0) & (owed != 0))),
        ]
        for value in settings:
            before = Signal.like(value)
            m.d.sync += before.eq(value)
            m.d.comb += Assume(~(busy | dut.start) | (value == before))

        done = busy & (left == 0)
        with m.If(dut.start):
            m.d.sync += [busy.eq(1), asked.eq(dut.resident), left.eq(all_)]
        with m.Elif(done):
            m.d.sync += busy.eq(0)
        with m.If(dut.loaded):
            m.d.sync += left.eq(left - 1)
        with m.If(took):
            m.d.sync += asked.eq(asked + 1)
        request = dut.load.payload
        with m.If(dut.load.valid):
            m.d.comb += [
                Assert(request.address == Mux(asked == 0, dut.addresses[0], dut.addresses[1])),
                Assert(request.words == Mux(asked == 0, dut.rows * ROW_WORDS, dut.biases_wanted)),
            ]
        m.d.comb += [
            Assert(dut.busy == (dut.start | busy)),
            Assert(dut.load.valid == (busy & (asked != 2))),
        ]
        with m.If(busy):
            m.d.comb += [
                # What makes it hold for ever.
                Assert(dut.asked == asked),
                Assert(~dut.resident | (asked != 0)),
                Assert(dut.count == Mux(dut.resident, dut.rows, 0) + all_ - left),
                Assert(left <= all_),
                Assert(left >= Mux(asked == 2, 0, Mux(asked == 1, dut.biases_wanted, all_))),
            ]

        first = Signal(ErrorReport)
        with m.If(dut.start):
            with m.If(~dut.follows):
                m.d.sync += first.eq(0)
        with m.Elif(busy & dut.error.valid & (first.code == Error.NONE)):
            m.d.sync += first.eq(dut.error.payload)
        m.d.comb += Assert(dut.report == first)
        m.d.comb += [
            Cover(done & (dut.rows == 3) & (dut.biases_wanted == 2)),
            Cover(done & (first.code != Error.NONE) & (first.code != dut.error.payload.code) & dut.error.valid),
            Cover(dut.start & dut.follows & (first.code != Error.NONE)),
            Cover(dut.load.valid & ~dut.load.ready & (asked == 1)),
            Cover(done & dut.resident & (dut.biases_wanted == 2)),
        ]
        return m


PROOFS = [
    Proof("weights_then_biases", LoadSpec, "prove", 2),
    Proof("reaches_its_states", LoadSpec, "cover", 14),
]
