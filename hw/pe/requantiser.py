"""Requantiser: the one place where sums are rounded.

Both rounding points of a layer are the same function (``golden.model.rounding.requantise``):
``saturate16(round_half_even((value * mantissa + (bias << exponent)) / 2**(shift + exponent)))``,
with negative results replaced by 0 if ``relu`` is set.
"""

from amaranth.hdl import Cat, Const, Cover, Elaboratable, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for, exact_log2

from contracts import ACCUMULATOR_BITS, VALUE_BITS
from hw.pe.formats import requantise_input

__all__ = ["Requantiser"]

#: The shift's first step moves by multiples of this, its second by less: a multiplication by a power of two, since a
#: multiplier of the device takes the place of some 100 LUTs.
_STEP = 16
#: Bits of an exponent below a whole step, and of a bias that is shifted by them.
_FINE_BITS = exact_log2(_STEP)
_BIAS_BITS = 2 * VALUE_BITS + _STEP - 1


class Requantiser(wiring.Component):
    """Fixed-latency pipeline, one element a cycle, without back-pressure: the caller must accept every result.

    Parameters
    ----------
    value_bits
        Bits of a value, 33 to 48.
    bias
        Whether there are biases and an activation, at the second rounding point only.

    Attributes
    ----------
    i : stream of `hw.pe.formats.requantise_input`, always ready
    o : stream of signed(16), always ready
        `latency` cycles after `i`; 0 while it is not valid.
    latency
        Cycles from an element's entry to its result: `LATENCY`, one less without biases.

    Raises
    ------
    ValueError
        If `value_bits` is out of its range.
    """

    LATENCY = 7

    def __init__(self, value_bits: int = ACCUMULATOR_BITS, *, bias: bool = True) -> None:
        if not 2 * VALUE_BITS < value_bits <= ACCUMULATOR_BITS:
            raise ValueError(f"value_bits must be in {2 * VALUE_BITS + 1}..{ACCUMULATOR_BITS}, not {value_bits!r}")
        self.value_bits, self.bias = value_bits, bias
        self.latency = self.LATENCY if bias else self.LATENCY - 1
        self._product_bits = value_bits + VALUE_BITS
        # The larger operand of an addition, and a carry.
        self._sum_bits = max(self._product_bits, _BIAS_BITS) + 1 if bias else self._product_bits
        super().__init__(
            {
                "i": In(stream.Signature(requantise_input(value_bits, bias=bias), always_ready=True)),
                "o": Out(stream.Signature(signed(VALUE_BITS), always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the stages: operands, partial products, product, sum with a bias, far shift, near shift, rounding."""
        m = Module()
        # Only the valid bits are reset.
        valid = Signal(self.latency)
        m.d.sync += valid.eq(Cat(self.i.valid, valid[:-1]))

        operands = Signal(self.i.payload.shape(), reset_less=True)
        m.d.sync += operands.eq(self.i.payload)
        product, shift = self._multiply(m, operands)
        rectifies: Value = Const(0)
        guard, rest = Signal(reset_less=True), Signal(reset_less=True)
        if self.bias:
            product, shift = self._add(m, operands, product, shift, guard, rest)
            relu = Signal(self.latency - 1, reset_less=True)
            m.d.sync += relu.eq(Cat(self.i.payload.relu, relu[:-1]))
            rectifies = relu[-1]
        near, power, sticky, beyond, negative = self._far(m, product, shift, guard, rest)
        fine, sticky, too_large, negative = self._near(m, near, power, sticky, beyond, negative)
        rounded = self._round(m, fine, sticky, too_large, negative, rectifies, valid[-2])
        m.d.comb += [self.o.valid.eq(valid[-1]), self.o.payload.eq(rounded)]
        return m

    def _multiply(self, m: Module, operands: data.View) -> tuple[Signal, Signal]:
        """Stages 2 and 3: return ``value * mantissa``, and the shift beside it."""
        # One multiplier of the device for each 16 bits of the value.
        value, mantissa = operands.value, operands.scale.mantissa
        low, middle = Signal(2 * VALUE_BITS, reset_less=True), Signal(2 * VALUE_BITS, reset_less=True)
        high = Signal(signed(self.value_bits - VALUE_BITS), reset_less=True)
        shift_2 = Signal(7, reset_less=True)
        m.d.sync += [
            low.eq(value[:VALUE_BITS].as_unsigned() * mantissa),
            middle.eq(value[VALUE_BITS : 2 * VALUE_BITS].as_unsigned() * mantissa),
            high.eq(value[2 * VALUE_BITS :].as_signed() * mantissa),
            # With a bias, the exponent's highest bit shifts the product before the sum.
            shift_2.eq(operands.shift + operands.scale.exponent[: _FINE_BITS if self.bias else None]),
        ]
        product = Signal(signed(self._product_bits), reset_less=True)
        shift_3 = Signal.like(shift_2)
        m.d.sync += [product.eq(Cat(low, high).as_signed() + (middle << VALUE_BITS)), shift_3.eq(shift_2)]
        return product, shift_3

    def _add(
        self, m: Module, operands: data.View, product: Signal, shift: Signal, guard: Signal, rest: Signal
    ) -> tuple[Signal, Signal]:
        """Stages 2 to 4: return ``product + (bias << exponent)`` without a step of bits, and the shift beside it.

        The bias is shifted by less than a step. If the exponent has one, the product is shifted by it, downwards: the
        `guard` is its highest bit that is lost, the `rest` whether there is a one behind that.
        """
        exponent = operands.scale.exponent
        bias_2, power_2 = Signal.like(operands.bias, reset_less=True), Signal(_STEP, reset_less=True)
        low, high = Signal(2 * VALUE_BITS, reset_less=True), Signal(signed(2 * VALUE_BITS), reset_less=True)
        steps_2, steps_3 = Signal(reset_less=True), Signal(reset_less=True)
        sum_, shift_4 = Signal(signed(self._sum_bits), reset_less=True), Signal.like(shift)
        bias_3 = Cat(low[:VALUE_BITS], low[VALUE_BITS:] | high[:VALUE_BITS], high[VALUE_BITS:])[:_BIAS_BITS].as_signed()
        lost = product[:_STEP] & steps_3.replicate(_STEP)
        m.d.sync += [
            bias_2.eq(operands.bias),
            power_2.eq(1 << exponent[:_FINE_BITS]),
            steps_2.eq(exponent[_FINE_BITS]),
            low.eq(bias_2[:VALUE_BITS].as_unsigned() * power_2),
            high.eq(bias_2[VALUE_BITS:].as_signed() * power_2),
            steps_3.eq(steps_2),
            sum_.eq(Mux(steps_3, product >> _STEP, product) + bias_3),
            guard.eq(lost[-1]),
            rest.eq(lost[:-1].any()),
            shift_4.eq(shift),
        ]
        return sum_, shift_4

    def _far(
        self, m: Module, sum_: Signal, shift: Signal, guard: Value, rest: Value
    ) -> tuple[Signal, Signal, Signal, Signal, Signal]:
        """Shift by whole steps.

        Returns
        -------
        tuple
            Two steps of bits, of which the result is a part; the power of two that moves it to its place; whether bits
            below them are lost, and bits above them are part of the number; its sign.
        """
        # The bit below the sum makes the bit under the result's lowest bit the guard bit for every shift, 0 included.
        # A shift by all bits of the sum, or by more, leaves at most a half, which is rounded to 0.
        steps = -(-self._sum_bits // _STEP)
        extended = Signal(signed((steps + 1) * _STEP))
        groups = [extended[n * _STEP : (n + 1) * _STEP] for n in range(steps + 1)]
        lost = [group.any() for group in groups]
        high_part = [group != sum_[-1].replicate(_STEP) for group in groups]
        near, power = Signal(2 * _STEP, reset_less=True), Signal(_STEP, reset_less=True)
        sticky, beyond, negative = Signal(reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        m.d.comb += extended.eq(Cat(guard, sum_).as_signed())
        far = shift[_FINE_BITS:]
        m.d.sync += [power.eq(Const(1 << _STEP - 1) >> shift[:_FINE_BITS]), negative.eq(sum_[-1])]
        with m.Switch(far[: bits_for(steps - 1)]):
            for step in range(steps):
                with m.Case(step):
                    m.d.sync += [
                        near.eq(Cat(groups[step : step + 2])),
                        sticky.eq(rest | Cat(lost[:step]).any()),
                        beyond.eq(Cat(high_part[step + 2 :]).any()),
                    ]
        with m.If(far >= steps):
            m.d.sync += [near.eq(0), beyond.eq(0), negative.eq(0)]
        return near, power, sticky, beyond, negative

    def _near(
        self, m: Module, near: Signal, power: Signal, sticky: Signal, beyond: Signal, negative: Signal
    ) -> tuple[Value, Value, Value, Signal]:
        """Shift by less than a step: upwards by the rest of a step, so that the result is behind the lower half.

        Returns
        -------
        tuple
            Quotient above its guard bit; whether bits below that are lost; whether the quotient does not hold all
            above; its sign.
        """
        low, high = Signal(2 * _STEP, reset_less=True), Signal(signed(2 * _STEP), reset_less=True)
        lost, more, sign = Signal(reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        m.d.sync += [
            low.eq(near[:_STEP].as_unsigned() * power),
            high.eq(near[_STEP:].as_signed() * power),
            lost.eq(sticky),
            more.eq(beyond),
            sign.eq(negative),
        ]
        # The upper product counts 2^16 times; where both have bits, those of one are 0.
        place = _STEP - 1
        fine = Cat(low[place], low[_STEP : place + _STEP] | high[:place], high[place])
        above = high[place : place + _STEP] ^ sign.replicate(_STEP)
        return fine, lost | low[:place].any(), more | above.any(), sign

    def _round(
        self,
        m: Module,
        fine: Value,
        sticky: Value,
        too_large: Value,
        negative: Signal,
        rectifies: Value,
        last_valid: Value,
    ) -> Signal:
        """Round half to even and saturate."""
        quotient, guard = fine[1:], fine[0]
        round_up = Signal()
        result = Signal(signed(VALUE_BITS))
        # The largest value must not be rounded up to the smallest.
        m.d.comb += round_up.eq(guard & (sticky | quotient[0]) & (negative | ~quotient[: VALUE_BITS - 1].all()))
        with m.If(too_large):
            m.d.comb += result.eq(Cat((~negative).replicate(VALUE_BITS - 1), negative))
        with m.Else():
            m.d.comb += result.eq(quotient.as_signed() + round_up)
        rounded = Signal(signed(VALUE_BITS), reset_less=True)
        m.d.sync += [
            rounded.eq(Mux(~last_valid | (rectifies & negative), 0, result)),
            Cover(last_valid & too_large, "the result overflows"),
            Cover(
                last_valid & ~too_large & ~negative & quotient[: VALUE_BITS - 1].all() & guard, "stops at the largest"
            ),
            Cover(last_valid & ~too_large & guard & ~sticky & ~quotient[0], "a tie is rounded down"),
            Cover(last_valid & ~too_large & guard & ~sticky & quotient[0], "a tie is rounded up"),
        ]
        return rounded
