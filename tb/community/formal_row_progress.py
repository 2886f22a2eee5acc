"""Proofs of row progress and row gate: no row leaves before it can be read, whichever combiner had it (R3, R14)."""

from functools import partial
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module, Mux, Signal

from hw.community.row_progress import RowProgress
from hw.ring.row_gate import RowGate
from hw.stream.queue import Queue
from sim.harness.formal import Proof

_COMBINERS, _BITS, _MOST = 2, 3, 4


class RowProgressSpec(Elaboratable):
    """Follows a row through COMBINEs of any rows, each of which begins some time after its rows may be sent.

    Parameters
    ----------
    covers
        Show that the row leaves while others are combined, of a second COMBINE, too.
    """

    def __init__(self, covers: bool) -> None:
        self.covers = covers

    def elaborate(self, platform: Any) -> Module:
        """Let combiners keep what they are given in order; compare what leaves with the row's way."""
        m = Module()
        m.submodules.progress = dut = RowProgress(_COMBINERS, 1 << _BITS, _MOST, settles=1)
        m.submodules.gate = gate = RowGate()
        row, going, ends, there = Signal(_BITS), Signal(), Signal(), Signal(init=1)
        first, before = Signal(_BITS), Signal(_BITS)
        m.d.sync += before.eq(first)
        m.d.comb += [
            first.eq(AnySeq(_BITS)),
            row.eq(AnyConst(_BITS)),
            dut.going.eq(going),
            dut.first.eq(first),
            dut.begins.eq(AnySeq(1)),
            gate.follows.eq(AnySeq(1)),
            gate.made.begins.eq(dut.begins),
            gate.made.going.eq(going),
            gate.made.limit.eq(dut.limit),
            gate.i.valid.eq(AnySeq(1)),
            gate.i.payload.vid.eq(AnySeq(_BITS)),
            gate.o.ready.eq(AnySeq(1)),
            Assume(~gate.follows | ~(gate.expects | going)),
            Assume(~dut.begins | gate.expects),
            Assume(~dut.begins | (first <= row)),
            Assume(~going | (first == before)),
            ends.eq(AnySeq(1) & going & there),
        ]
        with m.If(dut.begins):
            m.d.sync += going.eq(1)
        with m.Elif(ends):
            m.d.sync += going.eq(0)
        mine = self._combine(m, dut, row)
        self._write(m, dut, gate.follows, mine, there)
        leaves, others, times = Signal(), Signal(), Signal(2)
        m.d.comb += leaves.eq(gate.o.valid & gate.o.ready & (gate.o.payload.vid == row))
        m.d.sync += times.eq(times + dut.begins)
        m.d.comb += others.eq(dut.given.valid & (dut.given.vid > row))
        if self.covers:
            m.d.comb += [Cover(leaves & going & others), Cover(leaves & going & (times == 2))]
        else:
            m.d.comb += [
                Assert(~gate.o.valid | (gate.o.payload.vid != row) | there),
                # What is offered stays, as long as rows are combined in their order.
                Assert(
                    ~going | ~there | (dut.limit <= row) | ~gate.i.valid | (gate.i.payload.vid > row) | gate.o.valid
                ),
            ]
        return m

    def _combine(self, m: Module, dut: RowProgress, row: Signal) -> Signal:
        """Give ascending rows to combiners, from which they come in order; return whether the row leaves in a cycle."""
        queues = [Queue(_BITS, 2, storage="distributed") for _ in range(_COMBINERS)]
        low, given = Signal(_BITS + 1), Signal()
        m.d.comb += [
            dut.given.valid.eq(AnySeq(1) & dut.going),
            dut.given.combiner.eq(AnySeq(1)),
            dut.given.vid.eq(AnySeq(_BITS)),
            dut.combined.combiner.eq(AnySeq(1)),
            Assume(~dut.given.valid | (dut.given.vid >= low)),
            # No higher one before the row that is followed.
            Assume(~dut.given.valid | (dut.given.vid <= row) | given),
        ]
        for n, queue in enumerate(queues):
            m.submodules[f"queue_{n}"] = queue
            m.d.comb += [
                queue.i.valid.eq(dut.given.valid & (dut.given.combiner == n)),
                queue.i.payload.eq(dut.given.vid),
                Assume(~queue.i.valid | queue.i.ready),
                queue.o.ready.eq(AnySeq(1) & (dut.combined.combiner == n)),
            ]
            with m.If(queue.o.valid & queue.o.ready):
                m.d.comb += [dut.combined.valid.eq(1), dut.combined.vid.eq(queue.o.payload)]
            with m.If(dut.begins):
                # A COMBINE ends when all its rows are written.
                m.d.comb += Assume(~queue.o.valid & (queue.level == 0))
        with m.If(dut.given.valid):
            m.d.sync += low.eq(dut.given.vid + 1)
            with m.If(dut.given.vid == row):
                m.d.sync += given.eq(1)
        with m.If(dut.begins):
            m.d.sync += [low.eq(dut.first), given.eq(0)]
        mine = Signal()
        m.d.comb += [mine.eq(dut.combined.valid & (dut.combined.vid == row)), dut.leaves.eq(dut.combined.valid)]
        return mine

    def _write(self, m: Module, dut: RowProgress, follows: Any, mine: Signal, there: Signal) -> None:
        """Write rows in the order in which they leave, and answer marks; the row is `there` once it is answered."""
        waiting, ahead = Signal(range(_MOST)), Signal(range(_MOST))
        left, written, marked = (Signal(name=name) for name in ("left", "written", "marked"))
        m.d.comb += [
            dut.written.eq(AnySeq(1)),
            dut.answered.eq(AnySeq(1)),
            Assume(~dut.written | (waiting != 0)),
            Assume(~dut.begins | (waiting == 0)),
            Assume((waiting != _MOST - 1) | ~dut.leaves),
            Assume(~dut.mark | ~dut.answered),
        ]
        m.d.sync += waiting.eq(waiting + dut.leaves - dut.written)
        with m.If(mine):
            m.d.sync += [left.eq(1), ahead.eq(waiting + 1 - dut.written)]
        with m.Elif(left & ~written & dut.written):
            m.d.sync += [ahead.eq(ahead - 1), written.eq(ahead == 1)]
        with m.If(written & dut.mark):
            m.d.sync += marked.eq(1)
        # A COMBINE may end with an answer to no mark.
        answers = Signal()
        m.d.comb += answers.eq(Mux(marked, dut.answered, AnySeq(1)))
        with m.If(written & answers):
            m.d.sync += there.eq(1)
        with m.If(follows):
            m.d.sync += [signal.eq(0) for signal in (left, written, marked, there)]


PROOFS = [
    Proof("no_row_leaves_before_it_can_be_read", partial(RowProgressSpec, False), "bmc", 15),
    Proof("no_row_leaves_before_it_can_be_read_for_longer", partial(RowProgressSpec, False), "bmc", 16, quick=False),
    Proof("rows_leave_while_others_are_combined", partial(RowProgressSpec, True), "cover", 34, outer=True),
]
