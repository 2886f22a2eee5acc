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
from hw.pe.formats import Mode, PEConfig, pairs, takes_rows
from hw.reset import partly_reset

__all__ = ["LaneIssue", "elements_to_combine"]

#: Bits of a feature's index, with room for one past the largest.
_INDEX_BITS = 17


class _Walk(NamedTuple):
    """The element and chunk in turn.

    ``loaded``: there is a beat; ``choice``: one-hot, the element in turn of those still to combine; of pairs, the even
    one and the odd one. ``empty``: none is left. ``operate``: an operation is made. ``digit``: number of the row among
    the digits of a sum. ``started``, ``touched``: the task has begun; all its chunks have had their first operation.
    ``last``: this is its last operation.
    """

    loaded: Signal
    operate: Signal
    choice: Signal
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
    dense rows that are 0 cost nothing, and neither do sparse entries whose bits are all 0, which pad rows. Even places
    of a dense beat come before odd ones, or with them: `hw.pe.formats.pairs` of features become one operation. In
    gathering, a combined row becomes ``scalar * row[chunk]``; of rows of digits, three in turn count 1, 2^14 and 2^28
    times. A task without any element still makes one operation a chunk, so that its sums become 0.

    The element is selected in one cycle, in which the task may take its bank too (with its first operation, or with the
    last one if rows have a single chunk); in the next one, the cycle of `o`, its
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
    weight_addresses : Out
        Rows of weights of the operation for the lower and the upper half of the lanes; combining only, valid with `o`.
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
                "weight_addresses": Out(config.weight_addresses),
                "index_error": Out(stream.Signature(unsigned(_INDEX_BITS), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Walk over elements and chunks, pick an element, form its operation."""
        m = Module()
        # Constant while there are tasks, and a beat has been in the queue for a cycle before it arrives.
        gather, sparse, paired = Signal(), Signal(), Signal()
        m.d.sync += [
            gather.eq(takes_rows(self.settings.mode)),
            sparse.eq(self.settings.mode == Mode.SPARSE),
            paired.eq(pairs(self.settings, self.config)),
        ]
        beat = Signal(self.config.task_beat, reset_less=True)
        walk = self._walk(m, beat, gather, paired)
        # The first beats of a task may have no elements, so its description is kept until its last operation.
        task = Signal(self.config.task, reset_less=True)
        m.d.comb += self.task.payload.eq(task)
        with m.If(walk.loaded & beat.first):
            m.d.sync += task.address.eq(beat.address)
        attends = self.settings.attends if self.config.aggregates else 0
        with m.If(walk.loaded & Mux(attends, beat.last, beat.first)):
            m.d.sync += task.scale.eq(beat.scale)
        m.d.sync += self.task.valid.eq(walk.operate & walk.last)
        self._operation(m, self._pick(m, beat, walk, sparse), gather, sparse, paired)
        return m

    def _walk(self, m: Module, beat: data.View, gather: Signal, paired: Signal) -> _Walk:
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
        started = Signal()  # the task has had an operation
        touched = Signal()  # every chunk of the task has had its first operation
        free = Signal(range(config.banks + 1), init=config.banks)

        # The lowest even place, and the lowest odd one after all even ones or, of pairs, with them.
        choice, rest = Signal(config.elements), Signal(config.elements)
        even, odd = pending[::2], pending[1::2]
        first_odd = odd & -odd & (paired | ~even.any()).replicate(len(odd))
        m.d.comb += [
            choice.eq(Cat(*zip(even & -even, first_odd, strict=False))),
            rest.eq(pending & ~choice),
        ]
        beat_number = Mux(beat.first, 0, number)
        at_last_chunk = chunk == self.settings.last_chunk
        takes, waits = Signal(), Signal()  # a bank
        operate, done, last = Signal(), Signal(), Signal()
        m.d.comb += [
            takes.eq(last if config.single else ~started),
            waits.eq(takes & (free == 0)),
            operate.eq(loaded & (~empty | beat.last) & ~waits),
            last.eq(beat.last & at_last_chunk & few),
            done.eq(
                (loaded & empty & ~beat.last)
                | (operate & few & (at_last_chunk | (gather & (part == config.parts - 1))))
            ),
            self.i.ready.eq(~loaded | done),
        ]
        m.d.sync += free.eq(free - (operate & takes) + self.released)
        with m.If(operate):
            m.d.sync += [started.eq(~last), chunk.eq(Mux(at_last_chunk, 0, chunk + 1)), part.eq(part + 1)]
            with m.If(at_last_chunk):
                m.d.sync += [
                    pending.eq(rest),
                    empty.eq(few & ~gather),
                    few.eq(gather | _few(rest, paired)),
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
                few.eq(gather | _few(mask, paired)),
            ]
            with m.If(self.i.payload.first):
                m.d.sync += digit.eq(0)
        m.d.sync += [
            Cover(loaded & waits, "every bank is busy"),
            Cover(operate & empty & ~started, "a task without any element"),
            Cover(loaded & empty & ~beat.last, "a beat without any element"),
            Cover(done & self.i.valid & last, "a task follows another without a gap"),
        ]
        return _Walk(loaded, operate, choice, empty, beat_number, part, chunk, digit, started, touched, last)

    def _pick(self, m: Module, beat: data.View, walk: _Walk, sparse: Signal) -> data.View:
        """Register the element in turn and its chunk.

        A one-hot choice selects the element in a few gates. Sparse entries have their index at even places, and their
        value at the next one.
        """
        config, elements, choice = self.config, self.config.elements, walk.choice
        odd_choice = choice[1::2] | (choice[::2] & sparse.replicate(elements // 2))
        chunks = Array(
            Cat(beat.data[p * config.lanes + lane] for lane in range(config.lanes)) for p in range(config.parts)
        )
        # Digits of a sum count by these powers of two; the last one is high.
        digits = self.settings.mode == Mode.DIGITS
        weights = Array(1 << power for power in (0, DIGIT_BITS[0], sum(DIGIT_BITS[:2]) - config.high_bits))
        factor, high = (beat.scalar, beat.high) if config.aggregates else (1, 0)
        picked = partly_reset(
            data.StructLayout(
                {
                    "valid": 1,
                    "empty": 1,
                    "choice": elements,
                    "beat_number": _INDEX_BITS - exact_log2(elements),
                    "even": VALUE_BITS,
                    "odd": VALUE_BITS,
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
            picked.even.eq(_select(choice[::2], [beat.data[k] for k in range(0, elements, 2)])),
            picked.odd.eq(_select(odd_choice, [beat.data[k] for k in range(1, elements, 2)])),
            picked.scalar.eq(Mux(digits, weights[walk.digit], factor)),
            picked.high.eq(Mux(digits, walk.digit == len(DIGIT_BITS) - 1, high)),
            picked.vector.as_value().eq(chunks[walk.part]),
            picked.chunk.eq(walk.chunk),
            picked.first.eq(~walk.touched),
            picked.last.eq(walk.last),
        ]
        return picked

    def _operation(self, m: Module, picked: data.View, gather: Signal, sparse: Signal, paired: Signal) -> None:
        """Form the indices of the elements, compare them with ``f_in``, choose the scalars."""
        settings, o = self.settings, self.o.payload
        even, odd = picked.choice[::2], picked.choice[1::2]
        # Index of the element in turn, and of pairs that of the odd one.
        index, second = Signal(_INDEX_BITS), Signal(_INDEX_BITS)
        inside, second_inside = Signal(), Signal()
        value = Signal(signed(VALUE_BITS))
        place = _number(even | (odd & ~paired.replicate(len(odd))))
        m.d.comb += [
            index.eq(Mux(sparse, picked.even, Cat(odd.any() & ~paired, place, picked.beat_number))),
            second.eq(Cat(1, _number(odd), picked.beat_number)),
            inside.eq(index < settings.f_in),
            second_inside.eq(second < settings.f_in),
            value.eq(picked.odd | (picked.even & ~sparse.replicate(VALUE_BITS))),
            o.vector.eq(picked.vector),
            o.chunk.eq(picked.chunk),
            o.high.eq(gather & picked.high),
            o.first.eq(picked.first),
            o.last.eq(picked.last),
            self.o.valid.eq(picked.valid),
            self.index_error.valid.eq(picked.valid & sparse & ~picked.empty & ~inside & (picked.chunk == 0)),
            self.index_error.payload.eq(index),
        ]
        for half, address in enumerate(self.weight_addresses):
            m.d.comb += address.eq((index << settings.chunk_shift) | picked.chunk)
            with m.If(paired):
                m.d.comb += address.eq(Mux(sparse, index, second if half else index) >> 1)
        with m.If(gather):
            m.d.comb += [scalar.eq(picked.scalar) for scalar in o.scalars]
        with m.Elif(paired & ~sparse):
            m.d.comb += [
                o.scalars[0].eq(Mux(inside, picked.even, 0)),
                o.scalars[1].eq(Mux(second_inside, picked.odd, 0)),
            ]
        with m.Elif(~picked.empty & inside):
            for half, scalar in enumerate(o.scalars):
                # Of sparse entries one a cycle, in the half of its weights.
                with m.If(~paired | (index[0] == half)):
                    m.d.comb += scalar.eq(value)
        m.d.sync += [
            Cover(picked.valid & ~gather & ~sparse & ~picked.empty & ~inside, "padding of a dense row"),
            Cover(picked.valid & paired & even.any() & odd.any(), "two features at once"),
            Cover(self.index_error.valid, "an index out of range"),
        ]


def _few(pending: Value, paired: Value) -> Value:
    """Return whether at most one element, or one pair, is left."""
    even, odd = pending[::2], pending[1::2]
    return ~(several(even) | several(odd) | (~paired & even.any() & odd.any()))


def _number(choice: Value) -> Value:
    """Return the place of the bit that is set in a one-hot choice."""
    return Cat(
        Cat(choice[k] for k in range(len(choice)) if k >> bit & 1).any() for bit in range(exact_log2(len(choice)))
    )


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
