"""Proofs of the scanner: every row of a task gets one step, after its vector is formed and in rising order."""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Signal

from hw.community.formats import CommunityConfig
from hw.community.scanner import Scanner
from sim.harness.formal import Proof, assert_stream, assume_stream

#: The fewest rows; what is proved does not depend on the rest.
CONFIG = CommunityConfig(lanes=1, width=8, columns=16, partners=1, max_out=1, weight_rows=2, data_width=64)


class ScannerSpec(Elaboratable):
    """A plain model beside the scanner: the task taken, and the rows that it has had."""

    def elaborate(self, platform: Any) -> Module:
        """Compare what goes into the scanner's slice with the model."""
        m = Module()
        m.submodules.dut = dut = Scanner(CONFIG)
        m.d.comb += [
            dut.i.valid.eq(AnySeq(1)),
            dut.i.payload.eq(AnySeq(dut.i.payload.shape().size)),
            dut.o.ready.eq(AnySeq(1)),
        ]
        assume_stream(m, dut.i, "i")
        assert_stream(m, dut.o, "o")
        task = dut.i.payload
        # A task that has nothing to do is not sent, and none ends a record and has rows.
        m.d.comb += Assume(~dut.i.valid | (task.last ^ (task.form | (task.rows != 0))))

        taken, done, formed = Signal(CONFIG.task), Signal(CONFIG.width), Signal()
        with m.If(dut.i.valid & dut.i.ready):
            m.d.sync += [taken.eq(task), done.eq(0), formed.eq(~task.form)]
        step = dut.steps.i.payload
        moves = dut.steps.i.valid & dut.steps.i.ready
        row = Signal(CONFIG.width)
        m.d.comb += row.eq(1 << step.row)
        with m.If(moves):
            m.d.comb += [Assert(dut.busy), Assert(step.active ^ step.last)]
            with m.If(step.active & step.form):
                m.d.sync += formed.eq(1)
                m.d.comb += [
                    Assert(~formed),
                    Assert((step.left == taken.left) & (step.right == taken.right) & (step.index == taken.index)),
                ]
            with m.Elif(step.active):
                m.d.sync += done.eq(done | row)
                m.d.comb += [
                    Assert(formed),
                    Assert((taken.rows & row) != 0),
                    Assert(done < row),
                    Assert((step.right == taken.index) & (step.negative == taken.negative)),
                ]
        # Whoever is not busy has done all; who is busy has the rest still to do. These make it hold for ever.
        m.d.comb += [
            Assert(dut.i.ready == ~dut.busy),
            Assert(dut.task == taken),
            Assert(~dut.busy | (dut.rest == (taken.rows & ~done))),
            Assert(~dut.busy | (dut.form == ~formed)),
            Assert(~dut.busy | ~taken.last | (~dut.form & (dut.rest == 0))),
            Assert(~dut.busy | taken.last | dut.form | (dut.rest != 0)),
            Assert((done & ~taken.rows) == 0),
            Assert((dut.rest == 0) | ((dut.rest & -dut.rest) > done)),
        ]
        with m.If(~dut.busy):
            m.d.comb += Assert((done == taken.rows) & (formed | (taken.as_value() == 0)))
        m.d.comb += [
            Cover(moves & (done == 0x7F) & (taken.rows == 0xFF)),
            Cover(moves & taken.form & (taken.rows == 0)),
            Cover(moves & step.last),
            Cover(dut.busy & ~dut.steps.i.ready & (done != 0)),
        ]
        return m


PROOFS = [
    Proof("each_row_has_one_step", ScannerSpec, "prove", 2),
    Proof("reaches_its_states", ScannerSpec, "cover", 14),
]
