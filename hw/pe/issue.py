"""Issue unit: turns the beats of tasks into one operation of the lanes a cycle."""

from amaranth import Array, Cat, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from golden.contracts import VALUE_BITS
from hw.pe.formats import Coefficient, Mode, PEConfig

__all__ = ["Issue"]


class Issue(wiring.Component):
    """Walks through the elements of each beat and the chunks of each element.

    Combining, an element with value x and index i becomes the operations ``x * weights[i, chunk]``;
    elements that are 0 cost nothing. Gathering, a combined row becomes ``coefficient * row[chunk]``.
    A task without any element still makes one operation a chunk, so that its sums become 0.

    Parameters
    ----------
    config : PEConfig

    Attributes
    ----------
    i : stream of ``config.task_beat``
    settings : In
        ``config.settings``, constant while tasks are under way.
    bank_free : In(1)
        There is a bank of sums for a new task.
    task : stream of ``config.task``, always ready
        Comes with the first operation of a task, which takes a bank.
    o : stream of ``config.operation``, always ready
    weight_address : Out
        Row of weights the operation multiplies with; combining only, valid with `o`.
    index_error : stream of unsigned(17), always ready
        Index of a sparse feature that is not below ``f_in``; it counts as 0, as does the padding of dense rows.
    """

    def __init__(self, config: PEConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(config.task_beat)),
                "settings": In(config.settings),
                "bank_free": In(1),
                "task": Out(stream.Signature(config.task, always_ready=True)),
                "o": Out(stream.Signature(config.operation, always_ready=True)),
                "weight_address": Out(range(config.weight_rows)),
                "index_error": Out(stream.Signature(unsigned(17), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the walk over elements and chunks."""
        m = Module()
        config = self.config
        elements = config.elements

        beat = Signal(config.task_beat)
        loaded = Signal()
        pending = Signal(elements)
        base = Signal(17)
        part = Signal(range(max(2, config.parts)))
        chunk = Signal(range(config.max_chunks))
        started = Signal()  # the task has taken its bank
        touched = Signal()  # every chunk of the task has had its first operation

        gather = self.settings.mode == Mode.GATHER
        sparse = self.settings.mode == Mode.SPARSE
        position = Signal(range(elements))
        for bit in reversed(range(elements)):
            with m.If(pending[bit]):
                m.d.comb += position.eq(bit)
        rest = pending & (pending - 1)

        values = Array(beat.data[k] for k in range(elements))
        index = Signal(17)
        value = Signal(VALUE_BITS)
        m.d.comb += [
            index.eq(Mux(sparse, values[position].as_unsigned(), base + position)),
            value.eq(Mux(sparse, values[position | 1], values[position])),
        ]
        out_of_range = index >= self.settings.f_in

        at_last_chunk = chunk == self.settings.last_chunk
        empty = ~gather & (pending == 0)
        operate = Signal()
        done = Signal()
        last = Signal()
        m.d.comb += [
            operate.eq(loaded & (~empty | beat.last) & (started | self.bank_free)),
            last.eq(beat.last & at_last_chunk & (gather | (rest == 0))),
            done.eq(
                Mux(
                    gather,
                    operate & (at_last_chunk | (part == config.parts - 1)),
                    Mux(empty & ~beat.last, loaded, operate & at_last_chunk & (rest == 0)),
                )
            ),
            self.i.ready.eq(~loaded | done),
        ]

        with m.If(operate):
            m.d.sync += [started.eq(~last), chunk.eq(Mux(at_last_chunk, 0, chunk + 1)), part.eq(part + 1)]
            with m.If(at_last_chunk):
                m.d.sync += [pending.eq(rest), touched.eq(~last)]
        with m.If(done):
            m.d.sync += [loaded.eq(0), part.eq(0), base.eq(base + elements)]
        with m.If(self.i.valid & self.i.ready):
            p = self.i.payload
            nonzero = Cat(p.data[k] != 0 for k in range(elements))
            indices = Cat((k + 1) % 2 for k in range(elements))
            m.d.sync += [loaded.eq(1), beat.eq(p), pending.eq(p.mask & Mux(sparse, indices, nonzero))]
            with m.If(p.first):
                m.d.sync += base.eq(0)
            with m.Else():
                # A task whose first beats hold nothing begins at a later one, which has no description.
                m.d.sync += [beat.address.eq(beat.address), beat.scale.eq(beat.scale)]

        chunks = Array(
            Cat(beat.data[p * config.lanes + lane] for lane in range(config.lanes)) for p in range(config.parts)
        )
        scalar = Signal(VALUE_BITS)
        with m.If(~gather):
            m.d.comb += scalar.eq(Mux(empty | out_of_range, 0, value))
        with m.Else():
            with m.Switch(beat.coefficient):
                with m.Case(Coefficient.SELF):
                    m.d.comb += scalar.eq(self.settings.self_weight)
                with m.Case(Coefficient.NEIGHBOUR):
                    m.d.comb += scalar.eq(self.settings.neighbour_weight)
        m.d.comb += [
            self.task.valid.eq(operate & ~started),
            self.task.payload.address.eq(beat.address),
            self.task.payload.scale.eq(beat.scale),
            self.o.valid.eq(operate),
            self.o.payload.scalar.eq(scalar),
            self.o.payload.vector.as_value().eq(chunks[part]),
            self.o.payload.chunk.eq(chunk),
            self.o.payload.first.eq(~touched),
            self.o.payload.last.eq(last),
            self.weight_address.eq((index << self.settings.chunk_shift) | chunk),
            self.index_error.valid.eq(operate & sparse & ~empty & out_of_range),
            self.index_error.payload.eq(index),
        ]
        return m
