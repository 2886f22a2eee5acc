"""Proofs of the scanner: every row of a task gets one step, after its vector is formed and in rising order."""

from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from hw.community.formats import CommunityConfig
from hw.community.scanner import Scanner
from sim.harness.formal import Proof, assert_stream, assume_stream

#: The fewest rows; what is proved does not depend on the rest.
CONFIG = CommunityConfig(lanes=1, width=8, columns=16, partners=1, max_out=1, weight_rows=2, data_width=64)


class ScannerSpec(Elaboratable):
    """A plain model beside the scanner: the task under way, the rows that it has had, and the task that waits."""

    def elaborate(self, platform: Any) -> Module:
        """Compare what goes into the scanner's slice with the model."""
        m = Module()
        # Two groups of rows.
        m.submodules.dut = dut = Scanner(CONFIG, group=4)
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

        taken, waiting = Signal(CONFIG.task), Signal(CONFIG.task)
        active, waits = Signal(), Signal()
        done, formed = Signal(CONFIG.width), Signal()
        step = dut.o.payload
        moves, accepts, finishes = Signal(), Signal(), Signal()
        row, had, has_formed = Signal(CONFIG.width), Signal(CONFIG.width), Signal()
        m.d.comb += [
            moves.eq(dut.o.valid & dut.o.ready),
            accepts.eq(dut.i.valid & dut.i.ready),
            row.eq(1 << step.row),
            had.eq(done | Mux(moves & step.active & ~step.form, row, 0)),
            has_formed.eq(formed | (moves & step.active & step.form)),
            finishes.eq(active & moves & (had == taken.rows) & has_formed & (step.last | ~taken.last)),
        ]
        m.d.sync += [done.eq(had), formed.eq(has_formed)]
        with m.If(finishes | ~active):
            m.d.sync += [active.eq(waits | accepts), waits.eq(waits & accepts), waiting.eq(task), done.eq(0)]
            m.d.sync += [taken.eq(Mux(waits, waiting, task)), formed.eq(~Mux(waits, waiting.form, task.form))]
        with m.Elif(accepts):
            m.d.sync += [waits.eq(1), waiting.eq(task)]
        with m.If(moves):
            m.d.comb += [Assert(dut.busy), Assert(step.active ^ step.last)]
            with m.If(step.active & step.form):
                m.d.comb += [
                    Assert(~formed),
                    Assert((step.left == taken.left) & (step.right == taken.right) & (step.index == taken.index)),
                ]
            with m.Elif(step.active):
                m.d.comb += [
                    Assert(formed),
                    Assert((taken.rows & row) != 0),
                    Assert(done < row),
                    Assert((step.right == taken.index) & (step.negative == taken.negative)),
                ]
            with m.Else():
                m.d.comb += Assert(taken.last)
        self._hold(m, dut, taken, waiting, active, waits, done, formed)
        m.d.comb += [
            Cover(moves & (done == 0x7F) & (taken.rows == 0xFF)),
            Cover(moves & taken.form & (taken.rows == 0)),
            Cover(moves & step.last),
            Cover(dut.busy & ~dut.o.ready & (done != 0)),
            Cover(finishes & waits & accepts),
        ]
        return m

    def _hold(
        self, m: Module, dut: Scanner, taken: Any, waiting: Any, active: Signal, waits: Signal, done: Signal,
        formed: Signal,
    ) -> None:  # fmt: skip
        """State what makes it hold for ever: where the rest of the task is that the model says is left."""
        left, part, kept = Signal(CONFIG.width), Signal(CONFIG.width), Signal(CONFIG.task)
        own = dut.full & ~waits
        m.d.comb += [
            left.eq(taken.rows & ~done),
            part.eq(Mux(dut.busy, dut.rows << (dut.at * dut.group), 0)),
            kept.eq(Mux(waits, waiting, taken)),
            Assert(active == (dut.busy | dut.full)),
            Assert(~active | ((done & ~taken.rows) == 0)),
            Assert(~waits | (dut.full & dut.busy & dut.ends)),
            Assert(~dut.full | (dut.task == kept)),
            # What is not under way is still with the task, if the task is not the next one.
            Assert(~active | (left == (part | Mux(own, dut.rest, 0)))),
            Assert((part & Mux(own, dut.rest, 0)) == 0),
            Assert(~waits | ((dut.rest == waiting.rows) & (dut.form == waiting.form))),
            Assert(~dut.busy | (dut.ends ^ own)),
            Assert(~own | ~dut.form | (~formed & ~dut.busy)),
            Assert(~active | ((left == 0) | ((left & -left) > done))),
            Assert((part == 0) | ((part & -part) == (left & -left))),
            # Rows of the task lie behind those under way.
            Assert((part == 0) | ~own | (dut.rest == 0) | ((dut.rest & -dut.rest) > part)),
            # A task that is kept has something to do.
            Assert(~dut.full | dut.form | (dut.rest != 0) | dut.task.last),
            Assert(~dut.full | ~dut.task.last | (~dut.form & (dut.rest == 0))),
            Assert(~active | ~taken.last | (~taken.form & (taken.rows == 0))),
            Assert(~active | formed | (dut.busy & dut.now.form) | (own & dut.form)),
            Assert(~own | dut.busy | dut.form | formed),
        ]
        now = dut.now
        with m.If(dut.busy):
            m.d.comb += [
                Assert(now.active ^ now.last),
                Assert(~now.form | (~formed & now.active & (dut.rows == 0))),
                Assert(~now.last | (taken.last & (dut.rows == 0) & dut.ends)),
                Assert(~now.active | now.form | (formed & (dut.rows != 0))),
                Assert(~now.active | ~taken.last),
                Assert(now.index == taken.index),
                Assert(now.negative == taken.negative),
                Assert(now.left == taken.left),
                Assert(now.right == Mux(now.form, taken.right, taken.index)),
            ]


PROOFS = [
    Proof("each_row_has_one_step", ScannerSpec, "prove", 2),
    Proof("reaches_its_states", ScannerSpec, "cover", 16),
]
