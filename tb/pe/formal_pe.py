"""Proofs of the PE's books: no bank of sums is overwritten before it is read, and no result beat lacks a place."""

from functools import reduce
from operator import add
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Elaboratable, Module, Signal, Value

from contracts import DIGIT_BITS
from hw.pe.drain import Drain
from hw.pe.formats import PEConfig
from hw.pe.lanes import LaneArray
from sim.harness.formal import Proof

#: The narrowest PE with rows of several beats.
CONFIG = PEConfig(lanes=1, data_width=64, address_width=20, weight_rows=2, max_out=6)


class BooksSpec(Elaboratable):
    """Lane array and drain behind a free sequence of operations; a task begins only where a bank is free.

    Parameters
    ----------
    refuted
        Whether to claim, wrongly, that the banks never all wait to be read while another task begins.
    """

    def __init__(self, refuted: bool = False) -> None:
        self.refuted = refuted

    def elaborate(self, platform: Any) -> Module:
        """Issue operations as a PE does and count tasks and beats."""
        m = Module()
        m.submodules.lanes = lanes = LaneArray(CONFIG)
        m.submodules.drain = drain = Drain(CONFIG)
        f_out = AnyConst(drain.settings.f_out.shape())
        m.d.comb += [
            drain.settings.f_out.eq(f_out),
            drain.settings.digits.eq(AnyConst(1)),
            drain.settings.last_chunk.eq(f_out - 1),
            Assume((f_out >= 1) & (f_out <= CONFIG.max_out)),
            drain.o.ready.eq(AnySeq(1)),
            drain.done.eq(lanes.done),
            lanes.read_bank.eq(drain.read_bank),
            lanes.read_chunk.eq(drain.read_chunk),
            drain.read_data.eq(lanes.read_data),
        ]

        # A task takes its bank with its first operation, and is described with its last.
        banks = CONFIG.banks
        free = Signal(range(banks + 1), init=banks)
        started, issue, last = Signal(), Signal(), Signal()
        m.d.comb += [
            issue.eq(AnySeq(1)),
            last.eq(AnySeq(1)),
            Assume(~issue | started | (free != 0)),
            drain.task.valid.eq(issue & last),
            drain.task.payload.address.eq(AnySeq(CONFIG.beat_address_width)),
            lanes.i.valid.eq(issue),
            lanes.i.payload.chunk.eq(AnySeq(lanes.i.payload.chunk.shape())),
            lanes.i.payload.last.eq(last),
        ]
        with m.If(issue):
            m.d.sync += started.eq(~last)
        m.d.sync += free.eq(free - (issue & ~started) + drain.released)

        self._banks(m, lanes, drain, free, started)
        self._beats(m, drain)
        return m

    def _banks(self, m: Module, lanes: LaneArray, drain: Drain, free: Signal, started: Signal) -> None:
        """Every task under way is counted once, and its bank is read only while nobody adds to it."""
        banks = CONFIG.banks
        operands, products = lanes.operands, lanes.products
        goes_on = operands.valid & ~operands.operation.last
        ends = [operands.valid & operands.operation.last, products.valid & products.last]
        m.d.comb += [
            Assert(free <= banks),
            Assert(free + started + ends[0] + ends[1] + drain.complete == banks),
            # An operation that is not the last is followed by others of its task.
            Assert(~goes_on | started),
            Assert(~(products.valid & ~products.last) | started | operands.valid),
            Assert(lanes.bank == (drain.bank + drain.complete)[: len(lanes.bank)]),
            Assert(~products.valid | (drain.complete < banks)),
            Assert(~(products.valid & (drain.complete != 0)) | (lanes.bank != drain.bank)),
            # Only a complete bank is released, with its last element.
            Assert(~drain.released | ((drain.complete != 0) & (drain.element == drain.settings.f_out - 1))),
            Assert(drain.element < drain.settings.f_out),
            # Digits pass the requantiser.
            *(Assert(~(tag.valid & drain.settings.digits)) for tag in drain.tags[:-1]),
            # Of digits, with that of the last one.
            Assert(drain.digit < len(DIGIT_BITS)),
            Assert(drain.settings.digits | (drain.digit == 0)),
            Assert(~(drain.released & drain.settings.digits) | (drain.digit == len(DIGIT_BITS) - 1)),
        ]

        full = Signal()
        m.d.sync += full.eq(full | (drain.complete == banks))
        if self.refuted:
            m.d.comb += Assert(~(full & drain.released & lanes.done & (free == 0)))

    def _beats(self, m: Module, drain: Drain) -> None:
        """Every beat begun has its place: free, in the queue, on its way there, or being read."""
        place = drain.element[: (CONFIG.elements - 1).bit_length()]
        under_way: list[Value] = [tag.valid & tag.beat_end for tag in drain.tags]
        beats = drain.queue.depth
        m.d.comb += [
            Assert(drain.credits + drain.queue.level + (place != 0) + reduce(add, under_way) == beats),
            Assert(~drain.queue.i.valid | drain.queue.i.ready),
            Assert(drain.o.valid == (drain.queue.level != 0)),
        ]


PROOFS = [Proof("every_bank_and_beat_has_its_place", BooksSpec, "prove", 3)]
#: Fails, which shows that the environment fills and empties all banks. (A cover task would want the covers inside
#: requantiser and queue too, which are much farther away.)
REFUTED = Proof("banks_never_fill_and_empty", lambda: BooksSpec(refuted=True), "bmc", 20)
