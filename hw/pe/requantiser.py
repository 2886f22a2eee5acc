"""Requantiser: the one place where sums are rounded.

Both rounding points of a layer are the same function (``golden.model.rounding.requantise``):
``saturate16(round_half_even((value * mantissa + (bias << exponent)) / 2**(shift + exponent)))``,
with negative results replaced by 0 if ``relu`` is set.
"""

from amaranth.hdl import Cat, Const, Cover, Elaboratable, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from contracts import VALUE_BITS
from hw.pe.formats import RequantiseInput

__all__ = ["Requantiser"]

# |value * mantissa + (bias << exponent)| < 2^63 + 2^62, so the sum has 65 bits and a shift by 66 leaves less
# than a quarter: longer shifts give the same 0.
_SUM_BITS = 65
_MAX_SHIFT = 66
_BIAS_BITS = 63
#: The shift's first step moves by multiples of this, its second by less.
_STEP = 16


class Requantiser(wiring.Component):
    """Fixed-latency pipeline, one element a cycle, without back-pressure: the caller must accept every result.

    Attributes
    ----------
    i : stream of `RequantiseInput`, always ready
    o : stream of signed(16), always ready
        `LATENCY` cycles after `i`; 0 while it is not valid.
    """

    #: Cycles from an element's entry to its result.
    LATENCY = 7

    def __init__(self) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(RequantiseInput, always_ready=True)),
                "o": Out(stream.Signature(signed(VALUE_BITS), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the seven stages: operands, partial products, product, sum, far shift, near shift, rounding."""
        m = Module()
        # Only the valid bits are reset.
        valid, relu = Signal(self.LATENCY), Signal(self.LATENCY, reset_less=True)
        m.d.sync += [valid.eq(Cat(self.i.valid, valid[:-1])), relu.eq(Cat(self.i.payload.relu, relu[:-1]))]

        operands = Signal(RequantiseInput, reset_less=True)
        m.d.sync += operands.eq(self.i.payload)
        sum_, shift = self._sum(m, operands)
        fine, sticky, too_large = self._shift(m, sum_, shift)
        rounded = self._round(m, fine, sticky, too_large, relu[-2], valid[-2])
        m.d.comb += [self.o.valid.eq(valid[-1]), self.o.payload.eq(rounded)]
        return m

    def _sum(self, m: Module, operands: data.View) -> tuple[Signal, Signal]:
        """Stages 2 to 4: return ``value * mantissa + (bias << exponent)``, and the shift beside it."""
        # One multiplier of the device for each 16 bits of the value.
        value, mantissa = operands.value, operands.scale.mantissa
        low, middle = Signal(2 * VALUE_BITS, reset_less=True), Signal(2 * VALUE_BITS, reset_less=True)
        high = Signal(signed(2 * VALUE_BITS), reset_less=True)
        bias_2 = Signal.like(operands.bias, reset_less=True)
        exponent_2 = Signal.like(operands.scale.exponent, reset_less=True)
        shift_2 = Signal(range(_MAX_SHIFT + 1), reset_less=True)
        total = Signal(7)
        m.d.comb += total.eq(operands.shift + operands.scale.exponent)
        m.d.sync += [
            low.eq(value[:VALUE_BITS].as_unsigned() * mantissa),
            middle.eq(value[VALUE_BITS : 2 * VALUE_BITS].as_unsigned() * mantissa),
            high.eq(value[2 * VALUE_BITS :].as_signed() * mantissa),
            bias_2.eq(operands.bias),
            exponent_2.eq(operands.scale.exponent),
            shift_2.eq(Mux(total > _MAX_SHIFT, _MAX_SHIFT, total)),
        ]

        product = Signal(signed(_SUM_BITS - 1), reset_less=True)
        bias_3 = Signal(signed(_BIAS_BITS), reset_less=True)
        shift_3 = Signal.like(shift_2)
        m.d.sync += [
            product.eq(Cat(low, high).as_signed() + (middle << VALUE_BITS)),
            bias_3.eq(bias_2 << exponent_2),
            shift_3.eq(shift_2),
        ]

        sum_ = Signal(signed(_SUM_BITS), reset_less=True)
        shift_4 = Signal.like(shift_3)
        m.d.sync += [sum_.eq(product + bias_3), shift_4.eq(shift_3)]
        return sum_, shift_4

    def _shift(self, m: Module, sum_: Signal, shift: Signal) -> tuple[Signal, Signal, Signal]:
        """Stages 5 and 6: return the shifted sum with a guard bit, its sticky bit, and whether it is far too large."""
        # One zero below the sum makes the bit under the result's lowest bit the guard bit for every shift, 0 included.
        steps = _MAX_SHIFT // _STEP + 1
        extended = Signal(signed((steps + 1) * _STEP))
        groups = [extended[n * _STEP : (n + 1) * _STEP] for n in range(steps + 1)]
        lost = [group.any() for group in groups]
        high_part = [group != sum_[-1].replicate(_STEP) for group in groups]
        near, shift_5 = Signal(2 * _STEP, reset_less=True), Signal(range(_STEP), reset_less=True)
        sticky_5, beyond, sign = Signal(reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        m.d.comb += extended.eq(Cat(Const(0, 1), sum_).as_signed())
        m.d.sync += [shift_5.eq(shift), sign.eq(sum_[-1])]
        with m.Switch(shift[exact_log2(_STEP) :]):
            for step in range(steps):
                with m.Case(step):
                    m.d.sync += [
                        near.eq(Cat(groups[step : step + 2])),
                        sticky_5.eq(Cat(lost[:step]).any()),
                        beyond.eq(Cat(high_part[step + 2 :]).any()),
                    ]

        fine = Signal(signed(2 * _STEP + 1), reset_less=True)
        below = Signal(_STEP - 1)
        sticky, too_large = Signal(reset_less=True), Signal(reset_less=True)
        m.d.comb += below.eq(near[: _STEP - 1] & ((1 << shift_5) - 1)[: _STEP - 1])
        m.d.sync += [
            fine.eq(Cat(near, sign).as_signed() >> shift_5),
            sticky.eq(sticky_5 | below.any()),
            too_large.eq(beyond),
        ]
        return fine, sticky, too_large

    def _round(
        self, m: Module, fine: Signal, sticky: Signal, too_large: Signal, relu: Value, last_valid: Value
    ) -> Signal:
        """Stage 7: round half to even and saturate."""
        quotient, guard, negative = fine[1:], fine[0], fine[-1]
        top = quotient[VALUE_BITS - 1 :]
        saturate, round_up = Signal(), Signal()
        result = Signal(signed(VALUE_BITS))
        m.d.comb += [
            saturate.eq(too_large | (top != negative.replicate(len(top)))),
            # The largest value must not be rounded up to the smallest.
            round_up.eq(guard & (sticky | quotient[0]) & (negative | ~quotient[: VALUE_BITS - 1].all())),
        ]
        with m.If(saturate):
            m.d.comb += result.eq(Cat((~negative).replicate(VALUE_BITS - 1), negative))
        with m.Else():
            m.d.comb += result.eq(quotient[:VALUE_BITS].as_signed() + round_up)
        rounded = Signal(signed(VALUE_BITS), reset_less=True)
        m.d.sync += [
            rounded.eq(Mux(~last_valid | (relu & negative), 0, result)),
            Cover(last_valid & saturate & ~too_large, "the result's own bits overflow"),
            Cover(last_valid & too_large, "bits far above the result overflow"),
            Cover(
                last_valid & ~saturate & ~negative & quotient[: VALUE_BITS - 1].all() & guard, "stops at the largest"
            ),
            Cover(last_valid & ~saturate & guard & ~sticky & ~quotient[0], "a tie is rounded down"),
            Cover(last_valid & ~saturate & guard & ~sticky & quotient[0], "a tie is rounded up"),
        ]
        return rounded
