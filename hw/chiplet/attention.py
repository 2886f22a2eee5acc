"""Attention unit: computes the coefficients of gathered rows from their scores, and the reciprocal of their sum."""

from itertools import pairwise

from amaranth.hdl import Assert, Cover, Elaboratable, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from contracts import SCALE, VALUE_BITS
from contracts.attention import (
    COEFFICIENT_FRACTION,
    COEFFICIENT_MAX,
    EXPONENTIALS,
    MARGIN_MAX,
    SCORE_FRACTION,
    STEP_FRACTION,
)
from hw.chiplet.reciprocal import SUM_BITS, Reciprocal
from hw.contracts import struct
from hw.pe.formats import Coefficient
from hw.reset import partly_reset
from hw.stream.queue import SHALLOW, Queue

__all__ = ["AttentionSettings", "AttentionUnit"]

#: Bits of the sum of two scores, of its logarithm, of the difference of two, and of that in steps of the table. A
#: logarithm, as a product, uses half of its range, so a difference needs one bit more, also with half a step.
_PAIR_BITS = VALUE_BITS + 1
_LOGARITHM_BITS = _PAIR_BITS + VALUE_BITS
_DIFFERENCE_BITS = _LOGARITHM_BITS + 1
_STEP = SCORE_FRACTION - STEP_FRACTION
_STEPS_BITS = _DIFFERENCE_BITS - _STEP
#: Shift by which no exponential is left.
_FAR = COEFFICIENT_FRACTION + 2


class AttentionSettings(data.StructLayout):
    """Settings of the attention unit, constant during a command.

    ``margin``: own rows count 2^-margin; 0 without attention. ``positive``, ``negative``: slopes. ``last_beat``: beats
    of a row less one.
    """

    def __init__(self, max_beats: int) -> None:
        super().__init__(
            {
                "margin": range(MARGIN_MAX + 1),
                "positive": signed(VALUE_BITS),
                "negative": signed(VALUE_BITS),
                "last_beat": range(max(2, max_beats)),
            }
        )


class AttentionUnit(wiring.Component):
    """Passes beats of gathered rows on; with attention, when their coefficients are known.

    A row's scores are the first two elements of its first beat, and a destination's own row comes first. A row of
    coefficient ``ZERO``, which only ends its destination, counts nothing. The functions
    are those of ``golden.model.attention``. A beat is offered a cycle later without attention, and about 10 cycles
    later with it, the last beat of a destination about 20; one passes in each cycle.

    Parameters
    ----------
    beat
        Layout of a beat: `hw.chiplet.gather.GatherBeat`.
    max_beats
        Beats of the longest row.

    Attributes
    ----------
    settings : In
        `AttentionSettings`, constant from a cycle before the first beat.
    i, o : streams of `beat`
        With attention, ``scalar`` of `o` is the row's coefficient, and ``scale``, with ``last``, one over their sum.
    """

    #: Beats that wait for their coefficient, the last ones for the sum's reciprocal: more than the latency of both, so
    #: that a beat passes in every cycle.
    DEPTH = SHALLOW

    def __init__(self, beat: data.StructLayout, max_beats: int) -> None:
        self.beat, self.max_beats = beat, max_beats
        super().__init__(
            {
                "settings": In(AttentionSettings(max_beats)),
                "i": In(stream.Signature(beat)),
                "o": Out(stream.Signature(beat)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Queue beats, coefficients and reciprocals, and join them."""
        m = Module()
        m.submodules.beats = beats = Queue(data.StructLayout({"beat": self.beat, "row_end": 1}), self.DEPTH)
        # Each of their words belongs to a beat that waits, so there is always room.
        m.submodules.coefficients = coefficients = Queue(unsigned(COEFFICIENT_FRACTION), self.DEPTH)
        m.submodules.scales = scales = Queue(struct(SCALE), self.DEPTH)
        m.submodules.reciprocal = reciprocal = Reciprocal()
        attends = Signal()
        m.d.sync += attends.eq(self.settings.margin != 0)

        number = Signal.like(self.settings.last_beat)  # of the beat in its row
        row_end = number == self.settings.last_beat
        taken = self.i.valid & beats.i.ready
        m.d.comb += [
            beats.i.valid.eq(self.i.valid),
            beats.i.payload.beat.eq(self.i.payload),
            beats.i.payload.row_end.eq(row_end),
            self.i.ready.eq(beats.i.ready),
        ]
        with m.If(taken):
            m.d.sync += number.eq(Mux(row_end, 0, number + 1))

        self._coefficients(m, taken & attends, number == 0, coefficients.i, reciprocal.i)
        m.d.comb += [scales.i.valid.eq(reciprocal.o.valid), scales.i.payload.eq(reciprocal.o.payload)]
        m.d.sync += [
            Assert(~coefficients.i.valid | coefficients.i.ready),
            Assert(~scales.i.valid | scales.i.ready),
        ]
        self._join(m, attends, beats.o, coefficients.o, scales.o)
        return m

    def _join(
        self,
        m: Module,
        attends: Signal,
        beats: stream.Interface,
        coefficients: stream.Interface,
        scales: stream.Interface,
    ) -> None:
        """Offer the oldest beat with what belongs to it."""
        out, beat = self.o.payload, beats.payload.beat
        known = ~attends | (coefficients.valid & (~beat.last | scales.valid))
        passes = Signal()
        m.d.comb += [
            out.eq(beat),
            self.o.valid.eq(beats.valid & known),
            passes.eq(self.o.valid & self.o.ready),
            beats.ready.eq(self.o.ready & known),
            coefficients.ready.eq(passes & beats.payload.row_end),
            scales.ready.eq(passes & beat.last),
        ]
        with m.If(attends):
            m.d.comb += out.scalar.eq(coefficients.payload)
        with m.If(attends & beat.last):
            m.d.comb += out.scale.eq(scales.payload)
        m.d.sync += [
            Cover(beats.valid & attends & coefficients.valid & beat.last & ~scales.valid, "waits for the reciprocal"),
            Cover(~beats.ready & self.i.valid & ~self.i.ready, "full"),
        ]

    def _coefficients(
        self, m: Module, taken: Value, begins: Value, coefficients: stream.Interface, sums: stream.Interface
    ) -> None:
        """Compute the coefficient of each row from its first beat, and the sum of those of a destination."""
        settings, given = self.settings, self.i.payload
        # What a beat is, beside its numbers: has scores, counts nothing, is the first or the last of its destination.
        tag = data.StructLayout({"valid": 1, "begins": 1, "nothing": 1, "first": 1, "last": 1})
        tags = [partly_reset(tag, "valid", name=f"tag_{stage}") for stage in range(8)]
        m.d.sync += [
            tags[0].valid.eq(taken),
            tags[0].begins.eq(begins),
            tags[0].nothing.eq(given.coefficient == Coefficient.ZERO),
            tags[0].first.eq(given.first),
            tags[0].last.eq(given.last),
        ]
        for before, after in pairwise(tags):
            m.d.sync += after.eq(before)

        steps = self._steps(m, taken & given.first, tags[2].valid & tags[2].first)
        m.submodules.table = table = Memory(shape=unsigned(16), depth=len(EXPONENTIALS), init=EXPONENTIALS)
        read = table.read_port()
        power = Signal(16, reset_less=True)
        shift = [Signal(range(_FAR + 1), reset_less=True, name=f"shift_{stage}") for stage in range(2)]
        less = Signal(signed(_STEPS_BITS - STEP_FRACTION))
        m.d.comb += [
            read.addr.eq(steps[:STEP_FRACTION]),
            less.eq(settings.margin - (steps >> STEP_FRACTION)),
        ]
        m.d.sync += [
            shift[0].eq(Mux(tags[3].nothing | (less > _FAR), _FAR, Mux(less < 0, 0, less))),
            shift[1].eq(shift[0]),
            power.eq(read.data),
        ]
        # One bit more than the coefficient, to round; the largest exponential below 1 rounds to less than 1.
        shifted = Signal(COEFFICIENT_FRACTION + 1, reset_less=True)
        saturated, value = Signal(reset_less=True), Signal(COEFFICIENT_FRACTION, reset_less=True)
        m.d.sync += [
            shifted.eq((power << 1) >> shift[1]),
            saturated.eq(shift[1] == 0),
            value.eq(Mux(saturated, COEFFICIENT_MAX, (shifted + 1) >> 1)),
        ]
        last = tags[-1]
        m.d.comb += [coefficients.valid.eq(last.valid & last.begins), coefficients.payload.eq(value)]

        total, complete = Signal(SUM_BITS, reset_less=True), Signal()
        m.d.sync += complete.eq(last.valid & last.last)
        with m.If(last.valid & last.begins):
            m.d.sync += total.eq(Mux(last.first, 0, total) + value)
        m.d.comb += [sums.valid.eq(complete), sums.payload.eq(total)]

    def _steps(self, m: Module, first: Value, own_known: Value) -> Signal:
        """Return a row's logarithm relative to that of its destination's own row, in steps of the table.

        Parameters
        ----------
        m
            Module.
        first, own_known
            An own row's scores are taken; its logarithm is known, three cycles later.
        """
        settings, given = self.settings, self.i.payload
        source, target = (given.data[n * VALUE_BITS : (n + 1) * VALUE_BITS].as_signed() for n in range(2))
        kept = Signal(signed(VALUE_BITS), reset_less=True)  # the destination's score
        pair = Signal(signed(_PAIR_BITS), reset_less=True)
        score, slope = Signal(signed(_PAIR_BITS), reset_less=True), Signal(signed(VALUE_BITS), reset_less=True)
        logarithm = Signal(signed(_LOGARITHM_BITS), reset_less=True)
        with m.If(first):
            m.d.sync += kept.eq(target)
        m.d.sync += [
            pair.eq(source + Mux(given.first, target, kept)),
            score.eq(pair),
            slope.eq(Mux(pair[-1], settings.negative, settings.positive)),
            logarithm.eq(score * slope),
        ]
        # Half a step less, for rounding.
        own = Signal(signed(_LOGARITHM_BITS), reset_less=True)
        difference = Signal(signed(_DIFFERENCE_BITS))
        steps = Signal(signed(_STEPS_BITS), reset_less=True)
        m.d.comb += difference.eq(logarithm - own)
        with m.If(own_known):
            m.d.sync += [own.eq(logarithm - (1 << _STEP - 1)), steps.eq(0)]
        with m.Else():
            m.d.sync += steps.eq(difference >> _STEP)
        return steps
