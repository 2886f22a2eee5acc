"""Requantiser: the one place where sums are rounded.

Both rounding points of a layer are the same function (``golden.model.layer.requantise``):
``saturate16(round_half_even((value * mantissa + (bias << exponent)) / 2**(shift + exponent)))``,
with negative results replaced by 0 if ``relu`` is set.
"""

from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from golden.contracts import VALUE_BITS
from hw.pe.formats import RequantiseInput

__all__ = ["Requantiser"]

# |value * mantissa + (bias << exponent)| < 2^63 + 2^62, so the sum has 65 bits and a shift by 66 leaves less
# than a quarter: longer shifts give the same 0.
_SUM_BITS = 65
_MAX_SHIFT = 66
_COARSE = 16


class Requantiser(wiring.Component):
    """Fixed-latency pipeline, one element a cycle, without back-pressure.

    The caller makes sure that what comes out has a place to go.

    Attributes
    ----------
    i : stream of `RequantiseInput`, always ready
    o : stream of signed(16), always ready
        `LATENCY` cycles after `i`.
    """

    #: Cycles from an element's entry to its result.
    LATENCY = 6

    i: In(stream.Signature(RequantiseInput, always_ready=True))
    o: Out(stream.Signature(signed(VALUE_BITS), always_ready=True))

    def elaborate(self, platform: object) -> Elaboratable:
        """Build the six stages: operands, product, sum, coarse shift, fine shift, rounding."""
        m = Module()
        valid = Signal(self.LATENCY)
        m.d.sync += valid.eq(Cat(self.i.valid, valid[:-1]))

        operands = Signal(RequantiseInput)
        m.d.sync += operands.eq(self.i.payload)

        product = Signal(signed(_SUM_BITS - 1))
        bias = Signal(signed(_SUM_BITS - 2))
        shift_2 = Signal(range(_MAX_SHIFT + 1))
        total = Signal(7)
        m.d.comb += total.eq(operands.shift + operands.scale.exponent)
        m.d.sync += [
            product.eq(operands.value * operands.scale.mantissa),
            bias.eq(operands.bias << operands.scale.exponent),
            shift_2.eq(Mux(total > _MAX_SHIFT, _MAX_SHIFT, total)),
        ]

        sum_ = Signal(signed(_SUM_BITS))
        shift_3 = Signal.like(shift_2)
        m.d.sync += [sum_.eq(product + bias), shift_3.eq(shift_2)]

        # One zero below the sum makes the bit under the result's lowest bit the guard bit for every shift, 0 included.
        extended = Signal(signed(_SUM_BITS + 1))
        coarse = Signal.like(extended)
        sticky_4 = Signal()
        shift_4 = Signal(range(_COARSE))
        m.d.comb += extended.eq(Cat(Const(0, 1), sum_))
        m.d.sync += shift_4.eq(shift_3)
        with m.Switch(shift_3[4:]):
            for step in range(_MAX_SHIFT // _COARSE + 1):
                with m.Case(step):
                    m.d.sync += [
                        coarse.eq(extended >> (step * _COARSE)),
                        sticky_4.eq(extended[: step * _COARSE].any()),
                    ]

        fine = Signal.like(extended)
        sticky_5 = Signal()
        lost = Signal(_COARSE - 1)
        m.d.comb += lost.eq(coarse[: _COARSE - 1] & ((1 << shift_4) - 1)[: _COARSE - 1])
        m.d.sync += [fine.eq(coarse >> shift_4), sticky_5.eq(sticky_4 | lost.any())]

        quotient = fine[1:]
        guard = fine[0]
        low = quotient[: VALUE_BITS - 1]
        sign = quotient[-1]
        fits = (quotient[VALUE_BITS - 1 :] == 0) | quotient[VALUE_BITS - 1 :].all()
        round_up = guard & (sticky_5 | quotient[0])
        # The largest value must not be rounded up to the smallest.
        top = ~sign & low.all()
        result = Signal(signed(VALUE_BITS))
        with m.If(~fits):
            m.d.comb += result.eq(Cat((~sign).replicate(VALUE_BITS - 1), sign))
        with m.Else():
            m.d.comb += result.eq(Cat(low, sign).as_signed() + (round_up & ~top))

        relu = Signal(self.LATENCY - 1)
        m.d.sync += relu.eq(Cat(self.i.payload.relu, relu[:-1]))
        m.d.sync += self.o.payload.eq(Mux(relu[-1] & result[-1], 0, result))
        m.d.comb += self.o.valid.eq(valid[-1])
        return m
