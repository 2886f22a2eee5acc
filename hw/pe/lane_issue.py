"""Issue unit: turns the beats of tasks into one operation of the lanes a cycle."""

from functools import reduce
from operator import or_
from typing import NamedTuple

from amaranth.hdl import Array, Cat, Cover, Elaboratable, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import DIGIT_BITS, VALUE_BITS
from hw.bits import several
from hw.pe.formats import Mode, PEConfig, takes_rows
from hw.reset import partly_reset

__all__ = ["LaneIssue", "elements_to_combine"]

#: Bits of a feature's index, with room for one past the largest.
_INDEX_BITS = 17


class _Walk(NamedTuple):
    """The element and chunk in turn.

    ``loaded``: there is a beat; ``pending``: its elements still to combine; ``empty``: none is left. ``operate``: an
    operation is made. ``digit``: number of the row among the digits of a sum. ``started``, ``touched``: the task has
    taken its bank; all its chunks have had their first operation. ``last``: this is its last operation.
    """

    loaded: Signal
    operate: Signal
    pending: Signal
    empty: Signal
    beat_number: Value
    part: Signal
    chunk: Signal
    digit: Signal
    started: Signal
    touched: Signal
    last: Signal


class LaneIssue(wiring.Component):
    """Walks through the elements of each beat and the chunks of each element.

    In combining, an element with value x and index i becomes the operations ``x * weights[i, chunk]``. Elements of
    dense rows that are 0 cost nothing, and neither do sparse entries whose bits are all 0, which pad rows. In
    gathering, a combined row becomes ``scalar * row[chunk]``; of rows of digits, three in turn count 1, 2^14 and 2^28
    times. A task without any element still makes one operation a chunk, so that its sums become 0.

    The element is selected in one cycle, in which the task takes its bank too; in the next one, the cycle of `o`, its
    index is formed and compared with ``f_in``. Registers show whether the beat ends with this element, because the path
    from there through the queue in front and back is the longest.

    Parameters
    ----------
    config : PEConfig

    Attributes
    ----------
    i : stream of ``config.task_beat``
        `mask` has only elements to combine, see `elements_to_combine`.
    settings : In
        ``config.settings``, constant while tasks are under way.
    released : In(1)
        A bank of sums is free again.
    task : stream of ``config.task``, always ready
        Sent with the last operation of a task.
    o : stream of ``config.operation``, always ready
    weight_address : Out
        Row of weights of the operation; combining only, valid with `o`.
    index_error : stream of unsigned(17), always ready
        Index of a sparse feature that is not below ``f_in``, once; it counts as 0, as does the padding of dense rows.
    """

    def __init__(self, config: PEConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(config.task_beat)),
                "settings": In(config.settings),
                "released": In(1),
                "task": Out(stream.Signature(config.task, always_ready=True)),
                "o": Out(stream.Signature(config.operation, always_ready=True)),
                "weight_address": Out(range(config.weight_rows)),
                "index_error": Out(stream.Signature(unsigned(_INDEX_BITS), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Walk over elements and chunks, pick an element, form its operation."""
        m = Module()
        # Constant while there are tasks, and a beat has been in the queue for a cycle before it arrives.
        gather, sparse = Signal(), Signal()
        m.d.sync += [gather.eq(takes_rows(self.settings.mode)), sparse.eq(self.settings.mode == Mode.SPARSE)]
        beat = Signal(self.config.task_beat, reset_less=True)
        walk = self._walk(m, beat, gather)
        # The first beats of a task may have no elements, so its description is kept until its last operation.
        task = Signal(self.config.task, reset_less=True)
        m.d.comb += self.task.payload.eq(task)
        with m.If(walk.loaded & beat.first):
            m.d.sync += task.address.eq(beat.address)
        with m.If(walk.loaded & Mux(self.settings.attends, beat.last, beat.first)):
            m.d.sync += task.scale.eq(beat.scale)
        m.d.sync += self.task.valid.eq(walk.operate & walk.last)
        self._operation(m, self._pick(m, beat, walk), gather, sparse)
        return m

    def _walk(self, m: Module, beat: data.View, gather: Signal) -> _Walk:
        """Load a beat, go through its elements and their chunks, take and count banks."""
        config = self.config
        loaded = Signal()
        # Elements of the beat still to combine, and whether none and at most one of them is left. A combined row is
        # taken whole: never `empty`, always `few`.
        pending, empty, few = Signal(config.elements), Signal(), Signal()
        number = Signal(_INDEX_BITS - exact_log2(config.elements))  # of the beat, if it is not the first
        part = Signal(range(max(2, config.parts)))
        chunk = Signal(range(config.max_chunks))
        digit = Signal(range(len(DIGIT_BITS)))
        started = Signal()  # the task has taken its bank
        touched = Signal()  # every chunk of the task has had its first operation
        free = Signal(range(config.banks + 1), init=config.banks)

        rest = (pending & (pending - 1))[: config.elements]
        beat_number = Mux(beat.first, 0, number)
        at_last_chunk = chunk == self.settings.last_chunk
        waits = Signal()
        operate, done, last = Signal(), Signal(), Signal()
        m.d.comb += [
            waits.eq(~started & (free == 0)),
            operate.eq(loaded & (~empty | beat.last) & ~waits),
            last.eq(beat.last & at_last_chunk & few),
            done.eq(
                (loaded & empty & ~beat.last)
                | (operate & few & (at_last_chunk | (gather & (part == config.parts - 1))))
            ),
            self.i.ready.eq(~loaded | done),
        ]
        m.d.sync += free.eq(free - (operate & ~started) + self.released)
        with m.If(operate):
            m.d.sync += [started.eq(~last), chunk.eq(Mux(at_last_chunk, 0, chunk + 1)), part.eq(part + 1)]
            with m.If(at_last_chunk):
                m.d.sync += [
                    pending.eq(rest),
                    empty.eq(few & ~gather),
                    few.eq(gather | ~several(rest)),
                    touched.eq(~last),
                    digit.eq(Mux(digit == len(DIGIT_BITS) - 1, 0, digit + 1)),
                ]
        with m.If(done):
            m.d.sync += [loaded.eq(0), part.eq(0), number.eq(beat_number + 1)]
        with m.If(self.i.valid & self.i.ready):
            mask = self.i.payload.mask
            m.d.sync += [
                loaded.eq(1),
                beat.eq(self.i.payload),
                pending.eq(mask),
                empty.eq(~gather & ~mask.any()),
                few.eq(gather | ~several(mask)),
            ]
            with m.If(self.i.payload.first):
                m.d.sync += digit.eq(0)
        m.d.sync += [
            Cover(loaded & waits, "every bank is busy"),
            Cover(operate & empty & ~started, "a task without any element"),
            Cover(loaded & empty & ~beat.last, "a beat without any element"),
            Cover(done & self.i.valid & last, "a task follows another without a gap"),
        ]
        return _Walk(loaded, operate, pending, empty, beat_number, part, chunk, digit, started, touched, last)

    def _pick(self, m: Module, beat: data.View, walk: _Walk) -> data.View:
        """Register the element in turn and its chunk.

        A one-hot choice selects the element in a few gates. Sparse entries have their index at even places, and their
        value at the next one.
        """
        config, elements = self.config, self.config.elements
        choice = Signal(elements)
        m.d.comb += choice.eq(walk.pending & -walk.pending)
        chunks = Array(
            Cat(beat.data[p * config.lanes + lane] for lane in range(config.lanes)) for p in range(config.parts)
        )
        # Of the digits of a sum: 2^28 is 2^12, 2^16 times.
        digits = self.settings.mode == Mode.DIGITS
        weights = Array(1 << power for power in (0, DIGIT_BITS[0], sum(DIGIT_BITS[:2]) - VALUE_BITS))
        picked = partly_reset(
            data.StructLayout(
                {
                    "valid": 1,
                    "empty": 1,
                    "choice": elements,
                    "beat_number": _INDEX_BITS - exact_log2(elements),
                    "own": VALUE_BITS,
                    "next": VALUE_BITS,
                    "scalar": signed(VALUE_BITS),
                    "high": 1,
                    "vector": config.operation["vector"].shape,
                    "chunk": range(config.max_chunks),
                    "first": 1,
                    "last": 1,
                }
            ),
            "valid",
            name="picked",
        )
        m.d.sync += [
            picked.valid.eq(walk.operate),
            picked.empty.eq(walk.empty),
            picked.choice.eq(choice),
            picked.beat_number.eq(walk.beat_number),
            picked.own.eq(_select(choice, [beat.data[k] for k in range(elements)])),
            picked.next.eq(_select(choice[::2], [beat.data[k] for k in range(1, elements, 2)])),
            picked.scalar.eq(Mux(digits, weights[walk.digit], beat.scalar)),
            picked.high.eq(Mux(digits, walk.digit == len(DIGIT_BITS) - 1, beat.high)),
            picked.vector.as_value().eq(chunks[walk.part]),
            picked.chunk.eq(walk.chunk),
            picked.first.eq(~walk.touched),
            picked.last.eq(walk.last),
        ]
        return picked

    def _operation(self, m: Module, picked: data.View, gather: Signal, sparse: Signal) -> None:
        """Form the index of the element, compare it with ``f_in``, choose the scalar."""
        elements = self.config.elements
        position = Cat(
            Cat(picked.choice[k] for k in range(elements) if k >> bit & 1).any() for bit in range(exact_log2(elements))
        )
        index = Signal(_INDEX_BITS)
        out_of_range = Signal()
        scalar = self.o.payload.scalar
        m.d.comb += [
            index.eq(Mux(sparse, picked.own, Cat(position, picked.beat_number))),
            out_of_range.eq(index >= self.settings.f_in),
            self.weight_address.eq((index << self.settings.chunk_shift) | picked.chunk),
            self.o.valid.eq(picked.valid),
            self.o.payload.vector.eq(picked.vector),
            self.o.payload.chunk.eq(picked.chunk),
            self.o.payload.high.eq(gather & picked.high),
            self.o.payload.first.eq(picked.first),
            self.o.payload.last.eq(picked.last),
            self.index_error.valid.eq(picked.valid & sparse & ~picked.empty & out_of_range & (picked.chunk == 0)),
            self.index_error.payload.eq(index),
        ]
        with m.If(gather):
            m.d.comb += scalar.eq(picked.scalar)
        with m.Elif(~picked.empty & ~out_of_range):
            m.d.comb += scalar.eq(Mux(sparse, picked.next, picked.own))
        m.d.sync += [
            Cover(picked.valid & ~gather & ~sparse & ~picked.empty & out_of_range, "padding of a dense row"),
            Cover(self.index_error.valid, "an index out of range"),
        ]


def elements_to_combine(beat: data.View, mode: Value, config: PEConfig) -> Value:
    """Return the mask of the elements, or of the indices of sparse entries, that are not all 0."""
    nonzero = [beat.data[k] != 0 for k in range(config.elements)]
    entries = Cat(Cat(index | value, 0) for index, value in zip(nonzero[::2], nonzero[1::2], strict=True))
    return beat.mask & Mux(mode == Mode.SPARSE, entries, Cat(nonzero))


def _select(choice: Value, words: list[Value]) -> Value:
    """Return the word whose bit of the one-hot `choice` is set, 0 without any."""
    return reduce(
        or_, (word.as_unsigned() & bit.replicate(VALUE_BITS) for bit, word in zip(choice, words, strict=True))
    )
