"""Proofs of the PE's books: no bank of sums is overwritten before it is read, and no result beat lacks a place."""

from functools import reduce
from itertools import pairwise
from operator import add, or_
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.utils import exact_log2

from contracts import DIGIT_BITS
from golden.pe.pe import AHEAD
from hw.pe.drain import Drain
from hw.pe.formats import PEConfig
from hw.pe.lanes import LaneArray, read_access
from sim.harness.formal import Proof

#: The narrowest PE with rows of several beats.
LONG = PEConfig(lanes=1, data_width=64, address_width=20, weight_rows=2, max_out=6)
#: One whose rows have a single chunk.
SINGLE = PEConfig(lanes=16, data_width=256, address_width=20, weight_rows=2, max_out=16)


class BooksSpec(Elaboratable):
    """Lane array and drain behind a free sequence of operations; a task takes its bank where one is free.

    Parameters
    ----------
    config
        Sizes of the PE.
    refuted
        Whether to claim, wrongly, that the banks never all wait to be read while another task takes one.
    """

    def __init__(self, config: PEConfig, refuted: bool = False) -> None:
        self.config, self.refuted = config, refuted

    def elaborate(self, platform: Any) -> Module:
        """Issue operations as a PE does and count tasks and beats."""
        m = Module()
        config = self.config
        m.submodules.lanes = lanes = LaneArray(config)
        m.submodules.drain = drain = Drain(config)
        f_out = AnyConst(drain.settings.f_out.shape())
        settled = Signal()  # registers know the settings
        m.d.sync += settled.eq(1)
        m.d.comb += [
            drain.settings.f_out.eq(f_out),
            drain.settings.digits.eq(AnyConst(1)),
            drain.settings.last_chunk.eq((f_out - 1) // config.lanes),
            Assume((f_out >= 1) & (f_out <= config.max_out)),
            drain.o.ready.eq(AnySeq(1)),
            drain.done.eq(lanes.done),
            *(getattr(lanes, name).eq(getattr(drain, name)) for name in read_access(config)),
            drain.read_data.eq(lanes.read_data),
            Assert(settled | (drain.complete == 0)),
            Assert(~settled | (drain.last_element == f_out - 1)),
        ]

        # A task takes its bank with its first operation or, of a single chunk, with its last, and is described with its
        # last. Operations pass two registers on their way to the lanes.
        banks = config.banks
        free = Signal(range(banks + 1), init=banks)
        started, issue, last, takes = Signal(), Signal(), Signal(), Signal()
        way = [Signal(2, name=f"way_{n}") for n in range(2)]  # whether there is an operation, and it is the last
        m.d.comb += [
            issue.eq(AnySeq(1)),
            last.eq(AnySeq(1)),
            takes.eq(issue & (last if config.single else ~started)),
            Assume(~takes | (free != 0)),
            drain.task.payload.address.eq(AnySeq(config.beat_address_width)),
            lanes.i.valid.eq(way[1][0]),
            lanes.i.payload.chunk.eq(AnySeq(lanes.i.payload.chunk.shape())),
            lanes.i.payload.last.eq(way[1][1]),
        ]
        with m.If(issue):
            m.d.sync += started.eq(~last)
        m.d.sync += [
            free.eq(free - takes + drain.released),
            way[0].eq(Cat(issue, issue & last)),
            way[1].eq(way[0]),
            drain.task.valid.eq(issue & last),
        ]
        # Operations on their way, the youngest first: whether there is one, and whether it is its task's last.
        stages = [
            *((bits[0], bits[1]) for bits in way),
            (lanes.operands.valid, lanes.operands.operation.last),
            (lanes.products.valid, lanes.products.last),
            (lanes.shifted.valid, lanes.shifted.last),
        ]
        self._banks(m, lanes, drain, free, started, stages)
        self._beats(m, drain)
        return m

    def _banks(
        self,
        m: Module,
        lanes: LaneArray,
        drain: Drain,
        free: Signal,
        started: Signal,
        stages: list[tuple[Value, Value]],
    ) -> None:
        """Every task under way is counted once, and its bank is read only while nobody writes it."""
        config, banks = self.config, self.config.banks
        ends = reduce(add, (valid & last for valid, last in stages))
        writes = lanes.shifted.valid
        last_group = [element >> exact_log2(config.ways) for element in (drain.element, drain.last_element)]
        m.d.comb += Assert(~drain.finishes | (drain.there & (last_group[0] == last_group[1])))
        if config.single:
            given = self._single(m, lanes, drain, stages, last_group[1])
            m.d.comb += Assert(free + ends + drain.complete == banks + given)
        else:
            m.d.comb += [
                Assert(drain.finishes == drain.released),
                Assert(~writes | (drain.complete < banks)),
                Assert(free + started + ends + drain.complete == banks),
                Assert(~(writes & (drain.complete != 0)) | (lanes.bank != drain.bank)),
                Assert(lanes.bank == (drain.bank + drain.complete)[: len(lanes.bank)]),
                # An operation that is not the last is followed by others of its task.
                *(
                    Assert(
                        ~(valid & ~last) | started | (reduce(or_, (other for other, _ in stages[:n]), Const(0)) != 0)
                    )
                    for n, (valid, last) in enumerate(stages)
                ),
            ]
        m.d.comb += [
            Assert(free <= banks),
            Assert(drain.complete <= banks),
            Assert(~drain.there | (drain.element <= drain.last_element)),
            Assert(drain.there | (drain.element == 0)),
            # Of digits, a bank is given back with the last one.
            Assert(drain.digit < len(DIGIT_BITS)),
            Assert(drain.settings.digits | (drain.digit == 0)),
            Assert(~(drain.released & drain.settings.digits) | (drain.digit == len(DIGIT_BITS) - 1)),
        ]

        full = Signal()
        m.d.sync += full.eq(full | ((drain.complete == banks) & (free == 0)))
        if self.refuted:
            m.d.comb += Assert(~(full & drain.released & lanes.done & (free == 0)))

    def _single(
        self, m: Module, lanes: LaneArray, drain: Drain, stages: list[tuple[Value, Value]], last_group: Value
    ) -> Value:
        """Check the two banks of single chunks; return whether the one that is read is given back already."""
        # The first bank is empty, or will be, when a task writes it; the second one is when sums move there.
        group = drain.element >> exact_log2(self.config.ways)
        last_row = ~drain.settings.digits | (drain.digit == len(DIGIT_BITS) - 1)
        given, rest = drain.there & last_row & (group > drain.first_free), last_group - group
        # The youngest task on its way may have the bank that is still read: it comes when that has been read.
        over = drain.complete + reduce(add, (valid & last for valid, last in stages)) == self.config.banks + 1
        late: Value = Const(1)
        for cycles, (valid, last) in enumerate(reversed(stages)):
            late = Mux(valid & last, rest <= cycles, late)
        settled = Signal(2)
        m.d.sync += settled.eq(Cat(1, settled))
        m.d.comb += [
            Assert(drain.complete == drain.there + drain.waits),
            Assert(~lanes.done | ~drain.waits | drain.moves),
            Assert(~drain.moves | (drain.waits & (~drain.there | drain.finishes))),
            Assert(~settled.all() | (drain.first_free == Mux(last_group > AHEAD, last_group - AHEAD, 0))),
            Assert(~over | (given & late)),
        ]
        return given

    def _beats(self, m: Module, drain: Drain) -> None:
        """Every beat begun has its place: free, in the queue, packed, on its way there, or being read."""
        elements = self.config.elements
        place = drain.element[: exact_log2(elements)]
        under_way: list[Value] = [tag.valid & tag.beat_end for tag in drain.tags]
        m.d.comb += [
            Assert(
                drain.credits + drain.queue.level + drain.packed + (place != 0) + reduce(add, under_way)
                == drain.queue.depth + 1
            ),
            # A beat is read without a pause, and nothing comes while one is packed that waits.
            Assert((place == 0) | drain.there),
            Assert(~drain.tags[0].valid | drain.tags[0].beat_end | (place != 0)),
            *(Assert(~old.valid | old.beat_end | young.valid) for young, old in pairwise(drain.tags)),
            Assert(~(drain.packed & ~drain.queue.i.ready & drain.tags[-1].valid)),
        ]


PROOFS = [
    Proof("every_bank_and_beat_of_long_rows_has_its_place", lambda: BooksSpec(LONG), "prove", 3),
    Proof("every_bank_and_beat_of_single_chunks_has_its_place", lambda: BooksSpec(SINGLE), "prove", 3),
]
#: Fails, which shows that the environment fills and empties all banks. (A cover task would want the covers inside
#: requantiser and queue too, which are much farther away.)
REFUTED = Proof("banks_never_fill_and_empty", lambda: BooksSpec(LONG, refuted=True), "bmc", 24)
