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

_BIAS_BITS = 63
#: The shift's first step moves by multiples of this, its second by less.
_STEP = 16


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
        if self.bias:
            product, shift = self._add(m, operands, product, shift)
            relu = Signal(self.latency - 1, reset_less=True)
            m.d.sync += relu.eq(Cat(self.i.payload.relu, relu[:-1]))
            rectifies = relu[-1]
        near, place, sticky, beyond, negative = self._far(m, product, shift)
        fine, sticky, too_large, negative = self._near(m, near, place, sticky, beyond, negative)
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
            shift_2.eq(operands.shift + operands.scale.exponent),
        ]
        product = Signal(signed(self._product_bits), reset_less=True)
        shift_3 = Signal.like(shift_2)
        m.d.sync += [product.eq(Cat(low, high).as_signed() + (middle << VALUE_BITS)), shift_3.eq(shift_2)]
        return product, shift_3

    def _add(self, m: Module, operands: data.View, product: Signal, shift: Signal) -> tuple[Signal, Signal]:
        """Stages 2 to 4: return ``product + (bias << exponent)``, and the shift beside it."""
        bias_2 = Signal.like(operands.bias, reset_less=True)
        exponent_2 = Signal.like(operands.scale.exponent, reset_less=True)
        bias_3 = Signal(signed(_BIAS_BITS), reset_less=True)
        sum_, shift_4 = Signal(signed(self._sum_bits), reset_less=True), Signal.like(shift)
        m.d.sync += [
            bias_2.eq(operands.bias),
            exponent_2.eq(operands.scale.exponent),
            bias_3.eq(bias_2 << exponent_2),
            sum_.eq(product + bias_3),
            shift_4.eq(shift),
        ]
        return sum_, shift_4

    def _far(self, m: Module, sum_: Signal, shift: Signal) -> tuple[Signal, Signal, Signal, Signal, Signal]:
        """Shift by whole steps.

        Returns
        -------
        tuple
            Two steps of bits, of which the result is a part; its place there; whether bits below them are lost, and
            bits above them are part of the number; its sign.
        """
        # One zero below the sum makes the bit under the result's lowest bit the guard bit for every shift, 0 included.
        # A shift by all bits of the sum, or by more, leaves at most a half, which is rounded to 0.
        steps = -(-self._sum_bits // _STEP)
        extended = Signal(signed((steps + 1) * _STEP))
        groups = [extended[n * _STEP : (n + 1) * _STEP] for n in range(steps + 1)]
        lost = [group.any() for group in groups]
        high_part = [group != sum_[-1].replicate(_STEP) for group in groups]
        near, place = Signal(2 * _STEP, reset_less=True), Signal(range(_STEP), reset_less=True)
        sticky, beyond, negative = Signal(reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        m.d.comb += extended.eq(Cat(Const(0, 1), sum_).as_signed())
        far = shift[exact_log2(_STEP) :]
        m.d.sync += [place.eq(shift), negative.eq(sum_[-1])]
        with m.Switch(far[: bits_for(steps - 1)]):
            for step in range(steps):
                with m.Case(step):
                    m.d.sync += [
                        near.eq(Cat(groups[step : step + 2])),
                        sticky.eq(Cat(lost[:step]).any()),
                        beyond.eq(Cat(high_part[step + 2 :]).any()),
                    ]
        with m.If(far >= steps):
            m.d.sync += [near.eq(0), beyond.eq(0), negative.eq(0)]
        return near, place, sticky, beyond, negative

    def _near(
        self, m: Module, near: Signal, place: Signal, sticky: Signal, beyond: Signal, negative: Signal
    ) -> tuple[Signal, Signal, Signal, Signal]:
        """Shift by less than a step.

        Returns
        -------
        tuple
            Quotient above its guard bit; whether bits below that are lost; whether the quotient does not hold all
            above; its sign.
        """
        fine = Signal(VALUE_BITS + 1, reset_less=True)
        lost, too_large, sign = Signal(reset_less=True), Signal(reset_less=True), Signal(reset_less=True)
        # Bits of the lower step that are below the result, and bits of the upper one that are above it.
        below = Cat(place > n for n in range(_STEP))
        above = (near[_STEP:] ^ negative.replicate(_STEP)) & ~below
        m.d.sync += [
            fine.eq(near >> place),
            lost.eq(sticky | (near[:_STEP] & below).any()),
            too_large.eq(beyond | above.any()),
            sign.eq(negative),
        ]
        return fine, lost, too_large, sign

    def _round(
        self,
        m: Module,
        fine: Signal,
        sticky: Signal,
        too_large: Signal,
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
