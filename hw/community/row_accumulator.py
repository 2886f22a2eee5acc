"""Row accumulator: forms shared sums and adds vectors to the rows of a record (I6, I7)."""

from typing import Any

from amaranth.hdl import Cat, Cover, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import VALUE_BITS
from hw.block_memory import NO_BYPASS, registered_read
from hw.community.formats import RECORDS, CommunityConfig
from hw.community.multi_read_memory import read_signature, write_signature
from hw.stream.queue import Queue
from hw.stream.slice import Slice

__all__ = ["RowAccumulator"]

#: Rows of a word of marks: the bits of a distributed RAM.
_MARKED = 4
#: Fields of a step with numbers that a step with places keeps.
_PASSED = ("active", "form", "negative", "last", "row", "index")


class RowAccumulator(wiring.Component):
    """Adds L elements a cycle; rows and shared sums use the same adders.

    Three stages: an operand and the row's sum are asked for; they are chosen; they are added, and the result written. A
    sum that is in the adders is taken from there; while it is written, the step waits for a cycle. A shared sum is
    formed in two cycles: its left part, then the right one on top. It is read from memory only, so a step that needs
    one waits while one is formed.

    A step waits for the vector that it reads and for no other one of its record: sums are formed while vectors come.
    The left part of a sum stays in the adders until the vector of its right one is there.

    Parameters
    ----------
    config : CommunityConfig

    Attributes
    ----------
    settings : In
        ``config.settings``, constant while there are records.
    i : stream of ``config.record_step``
        Steps of records, whose vectors come in any order.
    vectors
        Read port of combined rows, by slot and chunk. Shared sums are stored in the block.
    slot, there
        A slot to read from, and in the same cycle whether its vector is there.
    sums, total
        Write and read port of the sums of rows, by slot and chunk; what is read in the cycle in which it is written is
        not used.
    o : stream of ``config.record``
        Records whose sums are complete.
    worked, gross, formed : Out
        Pulses: an adder cycle; a step to a row; a sum formed.
    """

    def __init__(self, config: CommunityConfig) -> None:
        self.config = config
        super().__init__(
            {
                "settings": In(config.settings),
                "i": In(stream.Signature(config.record_step)),
                "vectors": Out(read_signature(config.kept_vector, config.slots * config.chunks)),
                "slot": Out(range(config.slots)),
                "there": In(1),
                "sums": Out(write_signature(config.chunk, config.slots * config.chunks)),
                "total": Out(read_signature(config.chunk, config.slots * config.chunks)),
                "o": Out(stream.Signature(config.record)),
                "worked": Out(1),
                "gross": Out(1),
                "formed": Out(1),
            }
        )
        # An operation in the second and in the third stage. `write`: its result is written: to the sum `place` if
        # `form`, else to the row there. What is added to: `kept` is that of memory, `near` that of the operation before
        # it, otherwise nothing.
        operation = data.StructLayout(
            {
                "valid": 1,
                "form": 1,
                "write": 1,
                "negative": 1,
                "summed": 1,
                "kept": 1,
                "near": 1,
                "place": range(max(config.slots, config.columns) * config.chunks),
            }
        )
        self._asked, self._chosen, self._added = (Signal(operation, name=name) for name in ("asked", "chosen", "added"))
        # A vector that is added: where it is among the vectors, or among the sums of columns.
        operand = data.StructLayout({"summed": 1, "place": config.column_bits})
        step = {name: config.step[name].shape for name in _PASSED}
        #: A step with places instead of numbers in its record.
        self._step = data.StructLayout(
            {"record": config.record, **step, "left": operand, "right": operand, "slot": range(config.slots)}
        )

    def elaborate(self, platform: object) -> Module:
        """Build the three stages."""
        m = Module()
        config, asked, chosen, added = self.config, self._asked, self._chosen, self._added
        # At most `RECORDS` are in progress, so the queue always has room.
        m.submodules.done = done = Queue(config.record, RECORDS)
        wiring.connect(m, done.o, wiring.flipped(self.o))
        # Whether a step can be taken depends on memories, and would decide what planner and scanner do.
        m.submodules.steps = steps = Slice(self._step)
        self._place(m, steps.i)
        step = steps.o.payload
        record, leaves = step.record, Signal()
        # A record is complete when the result of its last step is written, two cycles later.
        last_records = [Signal(config.record, name=f"last_record_{n}", reset_less=True) for n in range(2)]
        left = Signal(2)
        m.d.sync += [last_records[0].eq(record), last_records[1].eq(last_records[0]), left.eq(Cat(leaves, left[0]))]
        m.d.comb += [done.i.payload.eq(last_records[1]), done.i.valid.eq(left[1])]

        chunk, second = Signal(range(config.chunks)), Signal()
        operand = Signal(step.right.shape())
        last_chunk, runs, waits, writes, moves, through = (Signal() for _ in range(6))
        # Steps go through the chunks upwards and downwards in turn: of a row that several add to one after the other,
        # the chunk that is asked for is that of the operation before, or has been written.
        down = Signal()
        touched = self._touched(m, step.row, through & ~step.form, leaves)
        forming = (chosen.valid & chosen.form) | (added.valid & added.form)
        m.d.comb += [
            last_chunk.eq(chunk == Mux(down, 0, self.settings.last_chunk)),
            runs.eq(steps.o.valid & step.active),
            # Sums among both parts of a sum are waited for at once: behind its first operation the adders form one.
            waits.eq(forming & ~second & (step.right.summed | (step.form & step.left.summed))),
            # The row's sum is being written.
            writes.eq(~step.form & self._same(added) & ~self._same(chosen)),
            moves.eq(runs & ~waits & ~writes & (operand.summed | self.there)),
            through.eq(moves & last_chunk & (second | ~step.form)),
            leaves.eq(steps.o.valid & steps.o.ready & step.last),
            steps.o.ready.eq(through | ~step.active),
            self.worked.eq(moves),
            # The sum of a single node's hubs is counted when it is forwarded to each of them.
            self.gross.eq(through & ~step.form & ~(record.single & (step.row != 0))),
            self.formed.eq(through & step.form),
            operand.eq(Mux(step.form & ~second, step.left, step.right)),
            self.slot.eq(operand.place),
            self.vectors.address.eq(Cat(chunk, self.slot)),
            self.total.address.eq(Cat(chunk, step.slot)),
        ]
        m.d.comb += [
            asked.valid.eq(moves),
            asked.form.eq(step.form),
            asked.write.eq(~step.form | second),
            asked.negative.eq(step.negative & ~step.form),
            asked.summed.eq(operand.summed),
            asked.place.eq(Mux(step.form, Cat(chunk, step.index), self.total.address)),
            asked.near.eq(Mux(step.form, second, self._same(chosen))),
            asked.kept.eq(~step.form & touched),
        ]
        m.d.sync += [chosen.eq(asked), added.eq(chosen)]
        with m.If(moves):
            m.d.sync += second.eq(step.form & ~second)
        with m.If(moves & ~(step.form & ~second)):
            m.d.sync += [down.eq(down ^ last_chunk), chunk.eq(Mux(last_chunk, chunk, Mux(down, chunk - 1, chunk + 1)))]
        with m.If(leaves):
            m.d.sync += [down.eq(0), chunk.eq(0)]
        self._add(m, Cat(chunk, operand.place))
        m.d.sync += [
            Cover(waits & added.form, "a sum is used right after it was formed"),
            Cover(moves & ~step.form & asked.near, "a row twice in a row"),
            Cover(runs & writes & ~waits, "a row with another one between"),
            Cover(runs & ~operand.summed & ~self.there, "a step waits for its vector"),
            Cover(
                runs & second & ~self.there & ~operand.summed & ~chosen.valid,
                "the left part of a sum waits for the right",
            ),
        ]
        return m

    def _place(self, m: Module, placed: stream.Interface) -> None:
        """Give steps their places: sums are behind the columns of the matrix."""
        record, step, to = self.i.payload.record, self.i.payload.step, placed.payload
        m.d.comb += [
            placed.valid.eq(self.i.valid),
            self.i.ready.eq(placed.ready),
            to.record.eq(record),
            to.slot.eq(record.base + step.row),
            *(to[name].eq(step[name]) for name in _PASSED),
        ]
        for name in ("left", "right"):
            slot = (record.base + step[name])[: len(to.slot)]
            m.d.comb += [
                to[name].summed.eq(step[name] >= record.rows),
                to[name].place.eq(Mux(to[name].summed, step[name], slot)),
            ]

    def _touched(self, m: Module, row: Value, touches: Value, clear: Value) -> Value:
        """Return whether a row has a sum; note that it gets one, or that none has.

        Bits of several rows are a word of a distributed RAM, which counts only if its mark is set: the marks are few
        enough to be cleared at once.
        """
        bits = min(exact_log2(_MARKED), len(row) - 1)
        m.submodules.touched = words = memory.Memory(shape=1 << bits, depth=1 << len(row) - bits, init=[])
        write, read = words.write_port(), words.read_port(domain="comb")
        marks, group, place = Signal(words.depth), row[bits:], row[:bits]
        word = read.data & marks.bit_select(group, 1).replicate(1 << bits)
        m.d.comb += [
            read.addr.eq(group),
            write.addr.eq(group),
            write.en.eq(touches),
            write.data.eq(word | (1 << place)),
        ]
        with m.If(clear):
            m.d.sync += marks.eq(0)
        with m.Elif(touches):
            m.d.sync += marks.bit_select(group, 1).eq(1)
        return word.bit_select(place, 1)

    def _same(self, other: Any) -> Value:
        """Return whether an operation under way is one to the row that is asked for."""
        return other.valid & ~other.form & (other.place[: len(self.total.address)] == self.total.address)

    def _add(self, m: Module, column: Value) -> None:
        """Choose the operand of a `column` and chunk and what it is added to; add, write, keep the result."""
        config, chosen, added = self.config, self._chosen, self._added
        m.submodules.shared = shared = memory.Memory(
            shape=config.chunk, depth=config.columns * config.chunks, init=[], attrs=dict(NO_BYPASS)
        )
        write, read = shared.write_port(), registered_read(m, shared)
        m.d.comb += [
            read.addr.eq(column),
            write.en.eq(added.valid & added.form & added.write),
            write.addr.eq(added.place),
            self.sums.enable.eq(added.valid & ~added.form),
            self.sums.address.eq(added.place),
        ]
        high = self.vectors.data.high if config.partials else 0
        for lane in range(config.lanes):
            bits = signed(config.sum_bits)
            operand, onto, result = (
                Signal(bits, name=f"{name}_{lane}", reset_less=True) for name in ("operand", "onto", "result")
            )
            value = self.vectors.data.data[lane]
            vector = Signal(bits, name=f"vector_{lane}")
            m.d.comb += vector.eq(Mux(high, value << VALUE_BITS, value) if config.partials else value)
            # Between the parts of a sum there may be cycles without an operation, in which the left part stays. What is
            # asked for then is not negative.
            with m.If(chosen.valid):
                # Subtraction as addition of the complement, one carry chain for both.
                m.d.sync += [
                    operand.eq(Mux(chosen.summed, read.data[lane], vector) ^ chosen.negative.replicate(len(vector))),
                    onto.eq(Mux(chosen.kept, self.total.data[lane], 0)),
                ]
                with m.If(chosen.near):
                    m.d.sync += onto.eq(result)
            m.d.comb += result.eq(onto + operand + added.negative)
            m.d.comb += [write.data[lane].eq(result), self.sums.data[lane].eq(result)]
